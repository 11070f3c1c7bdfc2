"""``penstock serve``: run the gateway.

The other commands use typer and rich. This one runs for months, and these libraries would take
10 MB of memory all the time, so its command line uses argparse.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from typing import Any, Final, NoReturn

from penstock.cli import describe_install
from penstock.config.errors import ConfigError
from penstock.config.flags import FLAGS
from penstock.errors import UsageError

USAGE: Final = 2
"""The exit code for invalid arguments."""

VARIABLES_NOTE: Final = (
    "Every flag has a variable: --port is PENSTOCK_PORT. PENSTOCK_API_KEY is the key for clients, "
    "PENSTOCK_UPSTREAM_KEY that of the upstream."
)
"""The end of the help."""

# Packages of the extra ``server``.
_PACKAGES: Final = ("aiohttp", "uvicorn", "sqlalchemy", "prometheus_client")


def command(given: list[str]) -> None:
    """Serve models to clients of OpenAI Chat, OpenAI Responses and Anthropic Messages."""
    run(vars(_make_parser().parse_args(given)))


def parse_flags(given: list[str]) -> dict[str, Any] | None:
    """Return the flags in *given*; None if Typer can show help or say what is wrong with them."""
    try:
        return vars(_make_parser(exits=False).parse_args(given))
    except _ParserExit:
        if find_spec("typer") is not None and find_spec("rich") is not None:
            return None
    return vars(_make_parser().parse_args(given))


def run(flags: dict[str, Any]) -> None:
    """Serve with *flags* until a signal ends the process."""
    if missing := [package for package in _PACKAGES if find_spec(package) is None]:
        message = f"`penstock serve` needs {missing[0]}, which is not installed"
        sys.stderr.write(f"penstock: {message}: {describe_install('cli,server')}\n")
        sys.exit(USAGE)
    from penstock.cli import startup  # noqa: PLC0415 - needs the extra

    try:
        startup.serve(flags)
    except UsageError as exc:
        problems = exc.problems if isinstance(exc, ConfigError) else [str(exc)]
        sys.stderr.writelines(f"penstock: {problem}\n" for problem in problems)
        sys.exit(USAGE)


class _ParserExit(Exception):  # noqa: N818 - not an error
    """The parser would print and exit."""


class _RaisingParser(ArgumentParser):
    """A parser that raises where argparse prints and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise for an invalid command line."""
        raise _ParserExit(message)

    def print_help(self, file: Any = None) -> NoReturn:
        """Raise for ``--help``."""
        del file
        raise _ParserExit


def _make_parser(*, exits: bool = True) -> ArgumentParser:
    """Make the parser from the table of flags."""
    kind = ArgumentParser if exits else _RaisingParser
    parser = kind("penstock serve", description=command.__doc__, epilog=VARIABLES_NOTE)
    for flag in FLAGS:
        described = f"{flag.description} Default: {flag.default}." if flag.default else ""
        shown = (described or flag.description).replace("%", "%%")
        if flag.is_switch:
            parser.add_argument(flag.name, action="store_true", help=shown)
        else:
            action = "append" if flag.repeats else "store"
            parser.add_argument(flag.name, action=action, metavar=flag.metavar, help=shown)
    return parser
