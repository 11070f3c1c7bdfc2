"""Input and output that the commands share: lines for people, JSON for programs, times, files.

Text of models, clients and files is printed with `say` only, which escapes control characters.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from penstock import _json
from penstock.debug import escape_controls
from penstock.errors import PenstockError
from penstock.tools import Tool, read_tools

USAGE: Final = 2
"""The exit code for invalid arguments."""

_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def say(out: Console, line: str, style: str = "") -> None:
    """Print one line; control characters in it are escaped."""
    # A model could otherwise move the cursor, rewrite earlier lines or set the title of the window.
    line = escape_controls(line)
    # Without `markup=False` rich reads [text in brackets] as a style, and without `soft_wrap` it
    # breaks lines at 80 columns in a pipe.
    out.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def refuse(message: str, cause: BaseException | None = None, *, code: int = USAGE) -> NoReturn:
    """Print *message* to stderr in one line, and exit with *code*."""
    say(Console(stderr=True), f"penstock: {message}", "red")
    raise typer.Exit(code) from cause


def show_json(out: Console, rows: Iterable[object]) -> None:
    """Print each of *rows* as a line of JSON, in UTF-8 whatever the locale."""
    for row in rows:
        line = _json.encode(row)
        if out.is_terminal:
            say(out, line.decode())
        else:
            typer.echo(line)


def read_tools_file(file: Path | None) -> list[Tool]:
    """Read the tools in *file*; exit with an error that names it if that is not possible."""
    if file is None:
        return []
    try:
        return read_tools(_json.decode(file.read_bytes()))
    except OSError as exc:
        refuse(f"cannot read the tools in {file}: {exc.strerror}", exc)
    except PenstockError as exc:
        refuse(f"invalid tools in {file}: {exc}", exc)


# --- times ---


def parse_time(text: str, now: float | None = None) -> float | None:
    """Parse ``90s``, ``1h`` or ``2d`` (before *now*), a date or a time; None for the empty text.

    A date or a time without a zone is local. Exits with an error for anything else.
    """
    text = text.strip()
    if not text:
        return None
    if span := _SPAN.fullmatch(text.lower()):
        return (time.time() if now is None else now) - float(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as exc:
        expected = "90s, 15m, 1h, 2d, 1w, 2026-05-01 or 2026-05-01T14:20"
        refuse(f"invalid time {text!r}; expected for example {expected}", exc)


class TimeFormat:
    """Formats times in the local zone, or with *utc* in UTC."""

    def __init__(self, *, utc: bool = False) -> None:
        self._zone = UTC if utc else None

    @property
    def zone(self) -> str:
        """The name of the zone: ``UTC``, ``CEST``, ``+05:45``."""
        return datetime.now(UTC).astimezone(self._zone).tzname() or "local"

    def format(self, seconds: float) -> str:
        """Format the time *seconds* after 1970; a dash if it does not exist."""
        try:
            when = datetime.fromtimestamp(seconds, UTC).astimezone(self._zone)
        except (ValueError, OverflowError, OSError):
            return "-"
        return when.strftime("%Y-%m-%d %H:%M:%S")


# --- completion ---


# The values of options, for shell completion; modules are loaded only to complete a word.
_VALUES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "api": lambda: (*resolve_name("penstock.apis:names")(), "demo", "local"),
    "arguments": lambda: ("live", "whole"),
    "format": lambda: (*resolve_name("penstock.formats:names")(),),
    "log_format": lambda: ("text", "json"),
    "log_level": lambda: ("critical", "error", "warning", "info", "debug"),
    "reasoning": lambda: ("none", *resolve_name("penstock.formats.reasoning:STYLES")),
    "tools": lambda: ("native", "prompt"),
}


def complete_values(option: str) -> Callable[[str], list[str]] | None:
    """Return the function that completes the values of *option*; None if any value is valid."""
    if option not in _VALUES:
        return None
    return lambda incomplete: [one for one in _VALUES[option]() if one.startswith(incomplete)]


# --- options ---


def option(about: str, *names: str, shown: str | bool = True, **more: Any) -> Any:
    """Return an option: *about* is its help text, *shown* its default in words."""
    return typer.Option(*names, help=about, show_default=shown, **more)


def argument(about: str, *, shown: str | bool = True, **more: Any) -> Any:
    """Return an argument, as `option` does."""
    return typer.Argument(help=about, show_default=shown, **more)


# Options of several commands:

FormatName = Annotated[
    str,
    option(
        "Format of the calls; `penstock formats` lists all.",
        "--format",
        autocompletion=complete_values("format"),
    ),
]
ToolsFile = Annotated[
    Path | None, option("JSON file with the tools, in the format of any provider.")
]
ReasoningName = Annotated[
    str | None, option("How the model marks reasoning; none: it is text.", shown="by the format")
]
Repair = Annotated[bool, option("Repair broken calls.", "--repair/--no-repair")]
Trim = Annotated[bool, option("Drop white space next to a call from the text.", "--trim")]
Fenced = Annotated[
    bool, option("Parse calls in code fences, which are text otherwise.", "--fenced")
]
