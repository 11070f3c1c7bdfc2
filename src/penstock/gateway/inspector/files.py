"""The page itself: a handful of files that need no key, for they hold nothing of anybody.

Only files of the table are served, which is made once from what lies in `page`: a name is looked
up, never joined to a path. What a model wrote gets into the page as text alone, and should that
ever fail, the browser is told to run no script but these files and to speak to nobody else.
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

_KINDS: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".webmanifest": b"application/manifest+json",
}
"""What is served, and as what; any other file that lies there is not."""

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""What every file comes with."""


class File(Struct, frozen=True):
    """One file of the page."""

    data: bytes
    kind: bytes
    tag: bytes


@cache
def table() -> dict[str, File]:
    """Read the files of the page, by their names."""
    return {
        path.relative_to(FOLDER).as_posix(): _read(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _KINDS and path.is_file()
    }


def _read(path: Path) -> File:
    data = path.read_bytes()
    tag = f'"{sha256(data).hexdigest()[:24]}"'.encode()
    return File(data, _KINDS[path.suffix], tag)


def wants_page(caller: HTTPExchange) -> bool:
    """Tell whether *caller* is a browser that is shown a page."""
    return HTML in caller.header("accept").lower() and INDEX in table()


async def file(gateway: Gateway, caller: HTTPExchange) -> None:
    """Give a file of the inspector's page."""
    del gateway
    await answer(caller, caller.path.removeprefix(PREFIX))


async def answer(caller: HTTPExchange, name: str) -> None:
    """Give the file called *name*; raise `HTTPError` where there is none."""
    found = table().get(name)
    if found is None:
        raise HTTPError(404, f"the inspector has no file {name!r}")
    headers = [(b"etag", found.tag), (b"cache-control", b"no-cache"), *SAFE]
    if _has(caller, found):
        await caller.answer(304, b"", *headers, is_json=False)
        return
    await caller.answer(200, found.data, (b"content-type", found.kind), *headers, is_json=False)


def _has(caller: HTTPExchange, found: File) -> bool:
    """Tell whether *caller* has the file already."""
    known = caller.header("if-none-match").encode("latin-1")
    tags = [tag.strip().removeprefix(b"W/") for tag in known.split(b",")]
    return found.tag in tags or tags == [b"*"]
