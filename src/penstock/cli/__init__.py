"""The command ``penstock``: one file per command, put together here.

The commands need typer and rich, which the core does not: without the extra ``cli`` the command
says what to install.
"""

import sys

_MISSING = "The penstock command needs its extra: pip install 'penstock[cli]'"


def main() -> None:
    """Run the command line; the entry point of the script ``penstock``."""
    try:
        from penstock.cli.app import app  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        sys.exit(_MISSING)
    app()
