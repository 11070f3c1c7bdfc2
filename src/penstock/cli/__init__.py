"""The command ``penstock``; `app` has all commands.

The commands need typer and rich, which are in the extra ``cli``. ``serve`` runs without them: they
would take 10 MB of memory in a process that runs for months. Nor does ``--version`` load them.
"""

import json
import sys

import penstock

_INTERRUPTED = 130  # the exit code of shells after Ctrl-C


def main() -> None:
    """Run the command line; the entry point of the script ``penstock``."""
    try:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"penstock {penstock.__version__}\n")
        elif sys.argv[1:2] == ["serve"]:
            _serve()
        else:
            _run()
    except KeyboardInterrupt:  # before a command handles it
        sys.exit(_INTERRUPTED)


def _serve() -> None:
    from penstock.gateway import process  # noqa: PLC0415 - before the slow imports

    process.exit_on_signals()
    from penstock.cli import serve  # noqa: PLC0415

    flags = serve.parse_flags(sys.argv[2:])
    if flags is None:  # `--help`, or an invalid command line: Typer prints help and suggestions.
        _run()
    else:
        serve.run(flags)


def _run() -> None:
    try:
        from penstock.cli.app import app  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        sys.exit(f"The command penstock needs typer and rich: {describe_install('cli')}")
    app(prog_name="penstock")


def describe_install(extras: str) -> str:
    """Return the command that installs *extras*, from the same clone if penstock came from one."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow
    from shlex import quote  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import url2pathname  # noqa: PLC0415

    source = "penstock"
    try:
        origin = json.loads(distribution("penstock").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    if "dir_info" in origin:  # a folder, not an archive: PEP 610
        source = url2pathname(urlsplit(origin["url"]).path)
    return f"pip install {quote(f'{source}[{extras}]')}"
