"""The command ``penstock chat``: an agent in the terminal.

`command` reads the flags and makes the agent, from `models`, `sessions` and `approval`. `chat`
decides what an input means, with `slash_commands`. `render` turns the agent's events into lines,
and `terminal` shows them above a prompt.
"""

from penstock.cli.chat.command import command

__all__ = ["command"]
