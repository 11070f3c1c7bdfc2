"""Every mistake in ``docs/help/mistakes.md`` is made, and the message is the one on the page.

``<!-- mistakes: KIND -->`` precedes a table. The first cell is what somebody does, the second the
message, where ``…`` stands for any text:

- ``commands``: a command of the shell, in the folder with the files of the page;
- ``upstreams``: a request to a gateway whose upstream is described by the cell;
- ``requests``: a request to the gateway of the page;
- ``python``: an expression that raises.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

import penstock
from doc_pages import GATEWAY, START_SECONDS, Command, Page, matches

PAGE = Path(__file__).parents[1] / "docs" / "help" / "mistakes.md"
KEY = "psk_0123456789abcdefghijklmn"
WITHOUT_KEY = "without the key"
REFUSED_PORT = 1

_TABLE = re.compile(r"<!-- mistakes: (\w+) -->\n\n((?:\|.*\n)+)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`) ?(.*?) ?(?<!`)\1(?!`)")
_REQUEST = re.compile(r"(GET|POST) (\S+) ?(.*)")


class Mistake(NamedTuple):
    """A row of the page."""

    kind: str
    cell: str
    message: str

    @property
    def spans(self) -> list[str]:
        return [text for _, text in _SPAN.findall(self.cell)]


def read_mistakes() -> list[Mistake]:
    found = []
    for kind, table in _TABLE.findall(PAGE.read_text()):
        for row in table.splitlines()[2:]:
            cell, message, _ = row.strip("| ").split(" | ")
            found.append(Mistake(kind, cell, _SPAN.findall(message)[0][1]))
    return found


MISTAKES = read_mistakes()


def of_kind(kind: str) -> pytest.MarkDecorator:
    chosen = [one for one in MISTAKES if one.kind == kind]
    return pytest.mark.parametrize("mistake", chosen, ids=[one.cell for one in chosen])


def test_the_page_has_at_least_forty_mistakes() -> None:
    assert len(MISTAKES) >= 40
    assert len({(one.kind, one.cell) for one in MISTAKES}) == len(MISTAKES)


# --- commands and requests: the servers of the page run ---


class RunningPage(NamedTuple):
    """The page, while its servers run."""

    page: Page
    port: int


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPage]:
    page = Page(PAGE.read_text(), tmp_path_factory.mktemp("mistakes"))
    with page.prepare():
        yield RunningPage(
            page, int(page.localize(f"http://127.0.0.1:{GATEWAY}").rpartition(":")[2])
        )


@of_kind("commands")
def test_a_command_says_what_is_wrong(mistake: Mistake, running: RunningPage) -> None:
    line = mistake.spans[0].replace(f"--port {GATEWAY}", f"--port {running.port}")
    printed, _ = running.page.run(Command(line, "", 0))
    lines = [one.strip("│ ") for one in printed.splitlines()]
    assert any(matches(mistake.message, one) for one in lines), printed


@of_kind("requests")
def test_a_request_is_answered_with_what_is_wrong(
    mistake: Mistake, running: RunningPage, upstreams: int
) -> None:
    request = _REQUEST.fullmatch(mistake.spans[0])
    assert request
    method, path, body = request.groups()
    headers = dict(span.split(": ", 1) for span in mistake.spans[1:])
    port = upstreams if WITHOUT_KEY in mistake.cell else running.port
    message = send(port, method, path, body, headers)
    assert matches(mistake.message, message), message


def send(port: int, method: str, path: str, body: str, headers: dict[str, str]) -> str:
    """Send a request, which has to fail; return the message of the error."""
    connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        assert response.status >= 400
        message: str = json.loads(response.read())["error"]["message"]
    finally:
        connection.close()
    return message


# --- upstreams ---


class _Upstream(BaseHTTPRequestHandler):
    """Does what is wrong with an upstream; the first part of the path says what."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        kind, _, path = self.path.removeprefix("/").partition("/")
        {
            "key": self._refuse_key,
            "path": lambda: self._send(404, {"error": {"message": f"no such path: /{path}"}}),
            "page": lambda: self._send_page(200, "<!doctype html><html>Welcome</html>"),
            "proxy": lambda: self._send_page(502, "<html><title>502 Bad Gateway</title></html>"),
            "redirect": lambda: self._send(302, {}, location="/login"),
            "cut": self._cut,
        }[kind]()

    def do_GET(self) -> None:
        self._send(404, {"error": {"message": "no such path"}})

    def _refuse_key(self) -> None:
        self._send(401, {"error": {"message": "invalid key"}})

    def _cut(self) -> None:
        delta = {"choices": [{"index": 0, "delta": {"content": "One moment"}}]}
        self._write(200, "text/event-stream", f"data: {json.dumps(delta)}\n\n")

    def _send(self, status: int, value: object, **headers: str) -> None:
        self._write(status, "application/json", json.dumps(value), **headers)

    def _send_page(self, status: int, text: str) -> None:
        self._write(status, "text/html", text)

    def _write(self, status: int, kind: str, text: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""


UPSTREAMS: dict[str, Callable[[int], str]] = {
    "is not running": lambda _: f"http://127.0.0.1:{REFUSED_PORT}/v1",
    "requires a key": lambda port: f"http://127.0.0.1:{port}/key/v1",
    "rejects the key": lambda port: f"http://127.0.0.1:{port}/key/v1",
    "has its API at another path": lambda port: f"http://127.0.0.1:{port}/path/v2",
    "is a website": lambda port: f"http://127.0.0.1:{port}/page/v1",
    "is a proxy with an error page": lambda port: f"http://127.0.0.1:{port}/proxy/v1",
    "speaks HTTP, and the URL begins with `https`": lambda port: f"https://127.0.0.1:{port}/v1",
    "redirects": lambda port: f"http://127.0.0.1:{port}/redirect/v1",
    "ends the stream early": lambda port: f"http://127.0.0.1:{port}/cut/v1",
}
"""The base URL of each upstream that the page describes, given the port of `_Upstream`."""


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a gateway with all `UPSTREAMS` and a key; the value is its port."""
    folder = tmp_path_factory.mktemp("upstreams")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Upstream) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            settings = [
                line
                for number, (cell, url) in enumerate(UPSTREAMS.items())
                for line in (
                    f'[upstreams.u{number}]\nbase_url = "{url(server.server_port)}"\nretries = 0',
                    'key = "sk-wrong"' if cell == "rejects the key" else "",
                    f'[models.m{number}]\nupstream = "u{number}"',
                )
            ]
            (folder / "penstock.toml").write_text("\n".join(settings))
            with gateway(folder) as port:
                yield port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def gateway(folder: Path) -> Iterator[int]:
    environ = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", "--port", "0", "--no-store"],
        cwd=folder,
        env={**environ, "HOME": str(folder), "PENSTOCK_API_KEY": KEY},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        first = process.stderr.readline()
        found = re.search(r":(\d+)$", first.strip())
        assert found, first + process.stderr.read()
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=START_SECONDS)


@of_kind("upstreams")
def test_an_upstream_that_does_something_else_is_explained(
    mistake: Mistake, upstreams: int
) -> None:
    number = [*UPSTREAMS].index(mistake.cell)
    body = {"model": f"m{number}", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer {KEY}"}
    message = send(upstreams, "POST", "/v1/chat/completions", json.dumps(body), headers)
    assert matches(mistake.message, message), message


# --- Python ---


@of_kind("python")
def test_a_call_raises_what_the_page_says(mistake: Mistake) -> None:
    parser = penstock.Parser("hermes")
    parser.finish()
    names = {"penstock": penstock, "parser": parser, "text": "Hi", "model": penstock.DemoModel()}
    with pytest.raises(penstock.PenstockError) as caught:
        eval(mistake.spans[0], names)  # noqa: S307 - our own page
    kind = mistake.spans[1] if "raises" in mistake.cell else "UsageError"
    assert type(caught.value).__name__ == kind
    assert matches(mistake.message, str(caught.value)), caught.value
