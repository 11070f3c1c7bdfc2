"""``penstock inspect``: a recorded stream, or what a model wrote, on the inspector's page.

A server of this machine serves the page for as long as the command runs. It has no upstream, and
its log is a file that goes with it, in which the recording is all there is.
"""

from __future__ import annotations

import asyncio
import sys
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Final

import typer
from msgspec import structs

from penstock import _json
from penstock.cli.output import refuse
from penstock.errors import PenstockError, UsageError
from penstock.gateway.completion_handler import new_id
from penstock.gateway.config import load
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.factory import build
from penstock.gateway.inspector.recording import Recording, make_recording
from penstock.gateway.replay import change_options
from penstock.gateway.request_log import MAX_KEPT
from penstock.gateway.server.server import GatewayServer
from penstock.gateway.server.sockets import listen
from penstock.tools import Tool, read_tools

HOST: Final = "127.0.0.1"
WRITING: Final = 20.0
"""How many seconds the recording may take to be written."""


def command(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path,
        typer.Argument(help="A recorded stream of any API, or what a model wrote; - reads a pipe."),
    ],
    *,
    format_: Annotated[
        str, typer.Option("--format", help="How its calls look; `penstock formats` lists them.")
    ] = "auto",
    tools: Annotated[
        Path | None, typer.Option(help="A JSON file with the tools, in any provider's shape.")
    ] = None,
    api: Annotated[
        str, typer.Option(help="The API of the stream, or text; found out if left out.")
    ] = "",
    arguments: Annotated[str, typer.Option(help="live or whole.")] = "live",
    repair: Annotated[bool, typer.Option("--repair/--no-repair", help="Mend broken calls.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Show a recorded stream, or what a model wrote, on a page in the browser."""
    try:
        options = change_options(
            ModelOptions(), {"format": format_, "arguments": arguments, "repair": repair}
        )
        data = _read(file)
        known = _tools(tools)
        recording = make_recording(data, options, known, name=_name(file), api=api)
        _show(recording, port, _open if browser else _stay)
    except PenstockError as exc:
        refuse(f"{file}: {exc}", exc)
    except OSError as exc:
        refuse(f"{exc.filename or file}: {exc.strerror}", exc)


def _read(file: Path) -> bytes:
    """Read the file, or the pipe; no more of it than is shown."""
    if str(file) == "-":
        return sys.stdin.buffer.read(MAX_KEPT + 1)
    with file.open("rb") as source:
        return source.read(MAX_KEPT + 1)


def _tools(file: Path | None) -> list[Tool]:
    """Read the tools; a file that holds none is blamed by its own name."""
    try:
        return [] if file is None else read_tools(_json.decode(file.read_bytes()))
    except PenstockError as exc:
        refuse(f"{file}: {exc}", exc)


def _name(file: Path) -> str:
    return "stdin" if str(file) == "-" else file.name


def _show(recording: Recording, port: int, open_: Callable[[str], None]) -> None:
    """Serve the page until told to end."""
    id_ = new_id()
    records = recording.make_records(id_, time.time())
    with TemporaryDirectory(prefix="penstock-") as folder:
        settings = load(None, {}, host=HOST, port=port, store=str(Path(folder) / "inspect.db"))
        gateway = build(structs.replace(settings, upstreams={}, default_upstream=""))
        sockets = listen(HOST, port)

        def announce(taken: int) -> None:
            url = f"http://{HOST}:{taken}/#/streams/{id_}"
            typer.echo(
                f"penstock shows {recording.name} ({recording.api}) at {url}; Ctrl-C ends it"
            )
            open_(url)

        async def serve() -> None:
            store = gateway.store
            assert store is not None  # noqa: S101 - the settings name one
            store.start()
            store.begin(records[0])
            store.end(records[1])
            if not await store.save(within=WRITING):
                raise UsageError("the recording could not be written to a temporary file")
            await GatewayServer(gateway, settings, announce=announce).serve(sockets)

        asyncio.run(serve())


def _open(url: str) -> None:
    """Open a browser, which may take its time."""
    Thread(target=webbrowser.open, args=(url,), name="penstock: browser", daemon=True).start()


def _stay(url: str) -> None:
    del url
