"""The command ``penstock``: one file per command, put together here.

The commands need typer and rich, which the core does not: without the extra ``cli`` the command
says what to install.
"""

import sys

_INTERRUPTED = 130  # what shells say of a command that Ctrl-C has ended
_MISSING = "The penstock command needs its extra: pip install 'penstock[cli]'"


def main() -> None:
    """Run the command line; the entry point of the script ``penstock``."""
    try:
        if sys.argv[1:2] == ["serve"]:  # which does without the libraries of the other commands
            _serve()
        else:
            _run()
    except KeyboardInterrupt:  # before there was a command that could see to it
        sys.exit(_INTERRUPTED)


def _serve() -> None:
    from penstock.gateway.server import signals  # noqa: PLC0415 - before all that takes its time to load

    signals.leave_quietly()
    from penstock.cli import serve  # noqa: PLC0415

    serve.command(sys.argv[2:])


def _run() -> None:
    try:
        from penstock.cli.app import app  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        sys.exit(_MISSING)
    app()
