"""The Typer application: all commands, each loaded when it is used.

Most modules of penstock take longer to load than their commands to run, and some need an extra. So
the table below has what ``penstock --help`` shows, and `LazyGroup` loads a command when it is
called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from inspect import Parameter, Signature
from pkgutil import resolve_name
from typing import Annotated, Any, Final

import typer
from msgspec import Struct
from typer.core import TyperGroup
from typer.main import get_command

import penstock
from penstock.cli import describe_install
from penstock.cli.output import complete_values, refuse


class CommandEntry(Struct, frozen=True):
    """A command: where its function or its `typer.Typer` is, and its summary.

    *needs* is a package of *extra* without which the command cannot be loaded or used.
    """

    target: str
    summary: str
    needs: str = ""
    extra: str = "cli,server"

    @property
    def is_installed(self) -> bool:
        """Whether the extra is installed."""
        return not self.needs or find_spec(self.needs) is not None

    @property
    def help(self) -> str:
        """The summary; it says if the extra is missing."""
        return self.summary if self.is_installed else f"{self.summary} (Needs the extra server.)"


def _entry_with_store(target: str, summary: str) -> CommandEntry:
    return CommandEntry(target, summary, "sqlalchemy")


COMMANDS: Final[dict[str, CommandEntry]] = {
    "serve": CommandEntry(
        "penstock.cli.app:make_serve_command",
        "Serve models to clients of OpenAI Chat, OpenAI Responses and Anthropic Messages.",
        "uvicorn",
    ),
    "chat": CommandEntry("penstock.cli.chat:command", "Chat with an agent that works in a folder."),
    "parse": CommandEntry(
        "penstock.cli.parse:command",
        "Parse the text of a model and print its events, one JSON object per line.",
    ),
    "formats": CommandEntry(
        "penstock.cli.parse:list_formats",
        "List the formats: the name, the models that are known to use it, and a call in it.",
    ),
    "repair": CommandEntry(
        "penstock.cli.repair:command",
        "Repair broken JSON or XML: print the value to stdout and the repairs to stderr.",
    ),
    "batch": CommandEntry(
        "penstock.cli.batch:command",
        "Parse many responses: a JSONL or Parquet file, or the log of the gateway.",
    ),
    "doctor": CommandEntry(
        "penstock.cli.doctor:command",
        "Find out what a server supports, and print the command to use it.",
        "aiohttp",
    ),
    "conformance": CommandEntry(
        "penstock.cli.conformance:command",
        "Run the conformance suite: for penstock, for other parsers, or for a server.",
    ),
    "logs": _entry_with_store(
        "penstock.cli.logs:app", "Show the requests that passed through the gateway."
    ),
    "replay": _entry_with_store(
        "penstock.cli.replay:command",
        "Parse logged streams again, and print what is different now (exit code 1).",
    ),
    "inspect": _entry_with_store(
        "penstock.cli.inspect:command",
        "Show a recorded stream, or text of a model, on a page in the browser.",
    ),
    "config": CommandEntry(
        "penstock.cli.admin:config_app", "Check and show the configuration of the gateway."
    ),
    "key": CommandEntry(
        "penstock.cli.admin:key_app", "Create keys for the clients of the gateway."
    ),
    "db": _entry_with_store("penstock.cli.admin:db_app", "Maintain the database of the gateway."),
}
"""The commands, in the order of ``--help``."""


# Most commands import half of penstock or an extra: `penstock --help` loads none of them.
class LazyGroup(TyperGroup):
    """A group that loads a command of `COMMANDS` when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest


def load_command(name: str) -> Any:
    """Load the command *name*; exit with the command that installs it if its extra is missing."""
    entry = COMMANDS[name]
    if not entry.is_installed:
        install = describe_install(entry.extra)
        refuse(f"`penstock {name}` needs {entry.needs}, which is not installed: {install}")
    target = resolve_name(entry.target)
    target = target() if target is make_serve_command else target
    if not isinstance(target, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(target)
        target = single
    command = get_command(target)
    command.name = name
    return command


app: Final = typer.Typer(
    name="penstock", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Tool calls from any model, streamed correctly, to any client."""


def _never_called() -> None:
    raise NotImplementedError("LazyGroup replaces this command")


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.help)(_never_called)


# --- serve ---


def make_serve_command() -> Callable[..., None]:
    """Return ``serve`` as a function whose parameters are its flags."""
    from penstock.cli import serve  # noqa: PLC0415 - the other commands do not need it
    from penstock.config.flags import FLAGS, Flag  # noqa: PLC0415

    def command(**flags: Any) -> None:
        serve.run(flags)

    def make_parameter(flag: Flag) -> Parameter:
        values = complete_values(flag.parameter)
        option = typer.Option(
            flag.name,
            metavar=flag.metavar or None,
            help=flag.description,
            show_default=flag.default or False,
            autocompletion=values,
        )
        hint: Any = Annotated[str | None, option]
        if flag.is_switch:
            hint = Annotated[bool, option]
        elif flag.repeats:
            hint = Annotated[list[str] | None, option]
        default = False if flag.is_switch else None
        return Parameter(flag.parameter, Parameter.KEYWORD_ONLY, default=default, annotation=hint)

    parameters = [make_parameter(flag) for flag in FLAGS]
    # typer reads the signature and the docstring, so a function with the flags as data looks like
    # one that was written by hand.
    command.__doc__ = f"{serve.command.__doc__}\n\n{serve.VARIABLES_NOTE}"
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command
