"""What the commands say to a person: whole lines, and nothing in them that steers a terminal."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console

USAGE: int = 2
"""The exit code of a command that was asked for something that it cannot do."""


def say(out: Console, line: str, style: str = "") -> None:
    """Print one line; a control character in it, which a model wrote, is shown and not sent."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
    out.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def refuse(message: str, cause: Exception) -> NoReturn:
    """End the command with one line that says what is wrong with what it was asked for."""
    say(Console(stderr=True), f"penstock: {message}", "red")
    raise typer.Exit(USAGE) from cause
