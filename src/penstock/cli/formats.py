"""``penstock formats``: the formats of calls that there are, who writes them, how a call looks."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.console import Console

from penstock import formats
from penstock.cli.output import refuse, say
from penstock.errors import UsageError
from penstock.formats import AnyFormat
from penstock.messages import ToolCall

EXAMPLE: Final = ToolCall(
    "", "write_file", {"path": "tides.md", "content": "# Leith\nhigh water: 14:20"}
)
"""The call that every format is shown with."""


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="The formats to show; without a name, all.")
    ] = None,
) -> None:
    """List the formats: the name, the models that are known to write it, and a call in it."""
    try:
        chosen = [formats.get(name) for name in names or formats.names()]
    except UsageError as exc:
        refuse(str(exc), exc)
    out = Console()
    for number, format_ in enumerate(chosen):
        if number:
            say(out, "")
        _show(out, format_)


def example(format_: AnyFormat) -> str:
    """Write the example as *format_* writes it; empty where it has no calls."""
    try:
        return format_.render_call(EXAMPLE)
    except UsageError:
        return ""


def _show(out: Console, format_: AnyFormat) -> None:
    say(out, format_.name, "bold")
    models = ", ".join(getattr(format_, "models", ()))
    if models:
        say(out, f"  {models}", "dim")
    for line in filter(None, example(format_).split("\n")):
        say(out, f"    {line}", "cyan")
