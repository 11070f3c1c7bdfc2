"""Serve the files of the page, which need no key because they hold no data.

Only the files of the `page` folder are served, from a table that is read once: a name is looked up
and never joined to a path. The page shows the output of models as text only; should that ever fail,
the Content-Security-Policy lets the browser run no other scripts and contact no other server.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

FOLDER: Final = Path(__file__).parent / "page"
PREFIX: Final = "/inspector/"
INDEX: Final = "index.html"
HTML: Final = "text/html"

# The files that are served, by suffix; other files in the folder are not.
_CONTENT_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".webmanifest": b"application/manifest+json",
}

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class StaticFile(Struct, frozen=True):
    """One file of the page."""

    data: bytes
    content_type: bytes
    etag: bytes


@cache
def read_files() -> dict[str, StaticFile]:
    """Return the files of the page by name."""
    return {
        path.relative_to(FOLDER).as_posix(): _read_file(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _CONTENT_TYPES and path.is_file()
    }


def _read_file(path: Path) -> StaticFile:
    data = path.read_bytes()
    etag = f'"{sha256(data).hexdigest()[:24]}"'.encode()
    return StaticFile(data, _CONTENT_TYPES[path.suffix], etag)


def wants_page(exchange: HTTPExchange) -> bool:
    """Return whether *exchange* is a browser that requests a page."""
    return HTML in exchange.header("accept").lower() and INDEX in read_files()


async def file(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Serve a file of the inspector's page."""
    del gateway
    await send_file(exchange, exchange.path.removeprefix(PREFIX))


async def send_file(exchange: HTTPExchange, name: str) -> None:
    """Send the file called *name*; raise `HTTPError` if it does not exist."""
    found = read_files().get(name)
    if found is None:
        raise HTTPError(404, f"the inspector has no file {name!r}")
    headers = [(b"etag", found.etag), (b"cache-control", b"no-cache"), *SECURITY_HEADERS]
    known = exchange.header("if-none-match").encode("latin-1")
    etags = [etag.strip().removeprefix(b"W/") for etag in known.split(b",")]
    if found.etag in etags or etags == [b"*"]:
        await exchange.respond(304, b"", *headers, is_json=False)
        return
    content_type = (b"content-type", found.content_type)
    await exchange.respond(200, found.data, content_type, *headers, is_json=False)
