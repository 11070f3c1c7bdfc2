"""``penstock inspect``: show a recorded stream, or text of a model, in the inspector.

A local server serves the page while the command runs. It has no upstream, and its log is a
temporary file that contains the recording only.
"""

from __future__ import annotations

import asyncio
import sys
import time
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Final

import typer
from msgspec import structs

from penstock.cli.output import (
    FormatName,
    Repair,
    ToolsFile,
    argument,
    option,
    read_tools_file,
    refuse,
)
from penstock.config import load
from penstock.config.routes import ModelOptions
from penstock.errors import PenstockError, UsageError
from penstock.gateway.completion_handler import new_request_id
from penstock.gateway.factory import build
from penstock.gateway.inspector.recording import Recording, make_recording
from penstock.gateway.process import listen
from penstock.gateway.replay import change_options
from penstock.gateway.request_log import MAX_KEPT
from penstock.gateway.server import GatewayServer

HOST: Final = "127.0.0.1"

SAVE_SECONDS: Final = 20.0
"""How long writing the recording to the temporary log may take."""


def command(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path, argument("A recorded stream of any API, or text of a model; - reads stdin.")
    ],
    *,
    format_: FormatName = "auto",
    tools: ToolsFile = None,
    api: Annotated[str, option("API of the stream, or text.", shown="detected")] = "",
    arguments: Annotated[str, option("Parse calls live or whole.")] = "live",
    repair: Repair = True,
    port: Annotated[int, option("Port; 0 means a free one.", min=0, max=65535)] = 0,
    browser: Annotated[
        bool, option("Open the page in a browser.", "--browser/--no-browser")
    ] = True,
) -> None:
    """Show a recorded stream, or text of a model, on a page in the browser."""
    try:
        options = change_options(
            ModelOptions(), {"format": format_, "arguments": arguments, "repair": repair}
        )
        is_pipe = str(file) == "-"
        if is_pipe:
            data = sys.stdin.buffer.read(MAX_KEPT + 1)
        else:
            with file.open("rb") as source:
                data = source.read(MAX_KEPT + 1)
        known = read_tools_file(tools)
        name = "stdin" if is_pipe else file.name
        recording = make_recording(data, options, known, name=name, api=api)
        _serve(recording, port, opens_browser=browser)
    except PenstockError as exc:
        refuse(f"{file}: {exc}", exc)
    except OSError as exc:
        refuse(f"{exc.filename or file}: {exc.strerror}", exc)


def _serve(recording: Recording, port: int, *, opens_browser: bool) -> None:
    """Serve the page until the process is interrupted."""
    id_ = new_request_id()
    records = recording.make_records(id_, time.time())
    with TemporaryDirectory(prefix="penstock-") as folder:
        settings = load(None, {}, host=HOST, port=port, store=str(Path(folder) / "inspect.db"))
        # Without an upstream nothing on the page can cause a request to a provider.
        gateway = build(structs.replace(settings, upstreams={}, default_upstream=""))
        sockets = listen(HOST, port)

        def announce(bound: int) -> None:
            url = f"http://{HOST}:{bound}/#/streams/{id_}"
            shown = f"{recording.name} ({recording.api})"
            typer.echo(f"penstock shows {shown} at {url}; press Ctrl-C to stop")
            if opens_browser:  # in a thread, because some browsers block
                Thread(
                    target=webbrowser.open, args=(url,), name="penstock: browser", daemon=True
                ).start()

        async def serve() -> None:
            store = gateway.store
            assert store is not None  # noqa: S101 - the settings name one
            store.start()
            store.begin(records[0])
            store.end(records[1])
            if not await store.save(within=SAVE_SECONDS):
                raise UsageError(
                    "the recording could not be written to a temporary file: is the disk full?"
                )
            await GatewayServer(gateway, settings, announce=announce).serve(sockets)

        asyncio.run(serve())
