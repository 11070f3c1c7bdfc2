"""``penstock chat``: an agent in the terminal.

What the agent tells is written on a `page` by `telling` and `arguments`, which know no terminal;
`painter` and `rows` make it into what a terminal is sent. `keys` and `editor` turn what a keyboard
sends into lines. `terminal` is the one file that touches a terminal, `screen` puts these together,
and `chat` decides what a line means. `models`, `assembly`, `keeping` and `approving` make the agent
that is talked to.
"""

from penstock.cli.chat.command import command

__all__ = ["command"]
