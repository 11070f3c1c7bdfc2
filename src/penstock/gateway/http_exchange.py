"""Whoever asks, over one exchange of HTTP: what was asked, and how it is answered.

This is all of ASGI that the gateway knows. A body is read within a limit and within a time; an
answer goes out whole, or piece by piece, each piece when the one before it has left: so a client
that reads slowly makes whoever writes wait.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

from penstock import _json
from penstock.apis.fields import BYTES_A_TOKEN
from penstock.errors import JSONParseError
from penstock.gateway.errors import HTTPError

# A request's body: JSON within limits, before anybody looks at what it means.


_BOM: Final = b"\xef\xbb\xbf"


def tokens_in(data: bytes) -> int:
    """Guess how many tokens the request *data* costs; before any upstream has counted them."""
    return max(1, len(data) // BYTES_A_TOKEN)


def read_object(data: bytes, max_depth: int) -> dict[str, Any]:
    """Read the JSON object that *data* is.

    Raises `HTTPError` for anything else, and for one that nests deeper than *max_depth*.
    """
    with _without_collection():
        value = _read(data.removeprefix(_BOM), max_depth)  # Some clients send files as they are.
    if not isinstance(value, dict):
        raise HTTPError(400, "the body must be a JSON object")
    return value


def _read(data: bytes, max_depth: int) -> Any:
    if b"\0" in data:  # as in UTF-16 and UTF-32, which Python's own reader would take
        raise HTTPError(400, "the body is not JSON in UTF-8")
    try:
        value = _json.decode(data)
    except JSONParseError as exc:
        if exc.__cause__ is None or isinstance(exc.__cause__, RecursionError):  # not its grammar
            raise _too_deep(max_depth) from None
        raise HTTPError(400, f"the body is no JSON: {exc}") from None
    may_be_deep = data.count(b"[") + data.count(b"{") > max_depth
    if may_be_deep and _json.is_deeper(value, max_depth):
        raise _too_deep(max_depth)
    return value


def _too_deep(max_depth: int) -> HTTPError:
    return HTTPError(400, f"the body nests deeper than {max_depth} levels")


@contextmanager
def _without_collection() -> Iterator[None]:
    """Make many objects without a search for garbage among them at every step.

    Three million empty lists fit into a body; the searches take longer than the lists.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
"""The headers of a stream: nobody on the way keeps it or waits for more of it."""

_MAX_DIGITS: Final = 18
"""How many digits the length of a body has at most: no machine holds one with more."""

HANGUP: Final = "penstock.hangup"
"""Where in the scope of a request its `DisconnectSignal` is, if the server is the gateway's own."""


class DisconnectSignal:
    """The moment at which the client of one request is gone, for one who wants to know.

    A task that waits for it, as ASGI has it, would take 1.5 kB for as long as the answer takes.
    """

    __slots__ = ("_tell", "has_come")

    def __init__(self) -> None:
        self.has_come = False
        self._tell: Callable[[], None] | None = None

    def watch(self, tell: Callable[[], None]) -> None:
        """Let *tell* be called then, or now if the client is gone already."""
        self._tell = tell
        if self.has_come:
            self.come()

    def forget(self) -> None:
        """Tell nobody any more."""
        self._tell = None

    def come(self) -> None:
        """Note that the client is gone, and tell it once."""
        self.has_come = True
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()


class HTTPExchange:
    """One client that asks once."""

    __slots__ = ("_hangup", "_head", "_query", "_receive", "_send", "_tell", "_unsent", "_watcher",
                 "api", "extra", "has_begun", "has_ended", "headers", "is_gone", "late", "method",
                 "path")  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[str, bytes] = {
            name.decode("latin-1"): value for name, value in scope["headers"]
        }
        """The headers by their names in lower case; of several of one name the last."""
        self.extra: list[tuple[bytes, bytes]] = []
        """Headers that go with the answer, whatever it is."""
        self.late: Callable[[], list[tuple[bytes, bytes]]] | None = None
        """Returns headers that are known only when the answer begins."""
        self.has_begun = False
        self.has_ended = False
        self.is_gone = False
        self._unsent = b""
        self.api = ""
        """The API whose words the client understands, once that is known."""
        self._query: bytes = scope.get("query_string", b"")
        self._receive = receive
        self._send = send
        self._hangup: DisconnectSignal | None = scope.get(HANGUP)
        self._head: list[tuple[bytes, bytes]] = scope["headers"]
        self._tell: Callable[[], None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def header(self, name: str) -> str:
        """Return a header; nothing where there is not one."""
        return self.headers.get(name, b"").decode("latin-1").strip()

    @property
    def query(self) -> dict[str, str]:
        """What comes after the question mark; of several of one name the last."""
        return dict(parse_qsl(self._query.decode("latin-1"), keep_blank_values=True))

    def forget_head(self) -> None:
        """Let the headers go, once all that they say is known: an answer may take minutes."""
        self.headers = {}
        if self._hangup is not None:  # The scope of any other server is not ours to change.
            self._head.clear()

    # --- what was asked ---

    async def body(self, limit: int, seconds: float) -> bytes:
        """Read the body: at most *limit* bytes, in at most *seconds*.

        Raises `HTTPError` for a body that is too long, which is not read to its end, or too slow.
        """
        announced = self.header("content-length")
        # Python refuses to read a number of more than 4,300 digits.
        if announced.isdecimal() and (len(announced) > _MAX_DIGITS or int(announced) > limit):
            raise _too_long(limit)
        try:
            async with asyncio.timeout(seconds):
                return await self._read(limit)
        except TimeoutError:
            reason = f"the body did not come within {seconds:g} seconds"
            raise HTTPError(408, reason, close=True) from None

    async def _read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.is_gone = True
                raise ClientDisconnectedError
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_long(limit)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def watch(self, tell: Callable[[], None]) -> None:
        """Let *tell* be called if the client hangs up before its answer has ended; then `unwatch`.

        The gateway's own server says so; of any other it has to be asked.
        """
        self._tell = tell
        if self._hangup is not None:
            self._hangup.watch(self._be_gone)
        else:
            waiting = self._wait_for_end()
            self._watcher = asyncio.create_task(waiting, name="penstock: is the client there?")

    def unwatch(self) -> None:
        """Tell nobody any more that the client hung up."""
        self._tell = None
        if self._hangup is not None:
            self._hangup.forget()
        if self._watcher is not None:
            self._watcher.cancel()

    def _be_gone(self) -> None:
        if not self.has_ended:
            self.is_gone = True
            if self._tell is not None:
                self._tell()

    async def _wait_for_end(self) -> None:
        await self.gone()
        self._be_gone()

    async def gone(self) -> None:
        """Wait until the client has hung up; only after the end of its body.

        A server tells of a client that is gone and of an answer that has ended in the same words:
        who was answered to the end is not gone, and waited for without end.
        """
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self.has_ended:
            await asyncio.get_running_loop().create_future()
        self.is_gone = True

    # --- how it is answered ---

    async def answer(
        self, status: int, value: object, *headers: tuple[bytes, bytes], is_json: bool = True
    ) -> None:
        """Answer with *value*: as JSON, or bytes as they are."""
        body = _json.encode_wire(value) if is_json else value
        data = body if isinstance(body, bytes) else str(body).encode()
        kind = [JSON] if is_json else []
        sized = (b"content-length", b"%d" % len(data))
        await self._begin(status, [*kind, *headers, sized])
        await self.end_stream(data)

    async def begin_stream(self) -> None:
        """Begin an answer that goes out piece by piece."""
        await self._begin(200, _STREAM)

    async def send(self, data: bytes) -> None:
        """Send one piece, and wait until there is room for another.

        A piece whose sending is cancelled goes out with the last one.
        """
        self._unsent = data
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._unsent = b""

    async def send_sign(self, data: bytes) -> None:
        """Send a sign of life, which may as well be lost."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self, data: bytes = b"") -> None:
        """Send the last piece, after one that was not sent yet."""
        self.has_ended = True
        self._unsent = data = self._unsent + data
        await self._send({"type": "http.response.body", "body": data})
        self._unsent = b""

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_begun = True
        late, self.late = self.late, None
        all_headers = [*headers, *self.extra, *(late() if late is not None else ())]
        self.extra = []
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})


class ClientDisconnectedError(Exception):
    """The client hung up: there is nobody to answer."""


def _too_long(limit: int) -> HTTPError:
    return HTTPError(413, f"a body has at most {limit:,} bytes here", close=True)
