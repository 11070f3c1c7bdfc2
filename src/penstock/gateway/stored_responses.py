"""Responses of the Responses API that later requests continue from or refer to.

A request that names an earlier response (``previous_response_id``) is expanded with the whole
conversation up to it. A stored response contains itself and all items before it, so that any
gateway on the same store can find it with one query. The newest ones are also held in memory: most
clients continue at once, and if bodies are not stored, the memory is the only place.

A client may also refer to single items of earlier responses (``item_reference``, the default of the
AI SDK). The id of an item that was created here contains the id of its response. An item with an
upstream's id is found while its response is in memory, or if it is among the items before a
response that the same request names.
"""

from __future__ import annotations

import re
import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from penstock import _json
from penstock.apis.fields import short_repr
from penstock.errors import UsageError
from penstock.gateway.errors import RETRY_SOON, HTTPError
from penstock.redaction import Redactor
from penstock.store import ResponseRow, Store, StoreError

MAX_LIFETIME: Final = 30 * 24 * 3600.0
"""How many seconds a response is stored at most: 30 days, as at OpenAI."""

MAX_CACHED: Final = 256
"""How many responses are held in memory."""

MAX_CACHED_BYTES: Final = 8 * 1024 * 1024
"""How many bytes they may have together, compressed."""

MAX_OWNERS: Final = 4_096
"""For how many items with an upstream's own id the response is remembered."""

PREVIOUS: Final = "previous_response_id"

_ITEM_ID: Final = re.compile(r"[A-Za-z_]+_([A-Za-z0-9]+)_[0-9]+")
"""The id of an item, with the id of its response in it."""

T = TypeVar("T")


class StoredResponse(Struct, frozen=True):
    """A stored *response*, and the *items* before it."""

    items: list[Any]
    response: dict[str, Any]

    @property
    def conversation(self) -> list[Any]:
        """All items up to the end of the response."""
        return [*self.items, *self.output]

    @property
    def output(self) -> list[Any]:
        """The items of the response."""
        output = self.response.get("output")
        return output if isinstance(output, list) else []

    def by_id(self) -> dict[str, Any]:
        """Return all items by id; input items without an id are known by their number."""
        numbered = number_items(str(self.response.get("id", "")), self.items)
        items = [*numbered, *(item for item in self.conversation if isinstance(item, Mapping))]
        return {item["id"]: item for item in items if isinstance(item.get("id"), str)}


class StoredResponses:
    """Stores responses for *keep_seconds*; without a *store* or *bodies* only in memory."""

    def __init__(
        self, store: Store | None, *, bodies: bool = True, keep_seconds: float = MAX_LIFETIME
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._lifetime = min(MAX_LIFETIME, keep_seconds)
        self._cache: OrderedDict[tuple[str, str], ResponseRow] = OrderedDict()
        self._size = 0
        self._owners: dict[tuple[str, str], str] = {}  # cached responses by the ids of items

    async def expand(self, data: dict[str, Any], scope: str) -> dict[str, Any]:
        """Return the request *data* with the conversation and the items that it refers to.

        Raises `HTTPError` for a response or an item that is unknown or belongs to another client.
        """
        previous, given = data.get(PREVIOUS), data.get("input")
        refers = isinstance(given, list) and any(map(_is_reference, given))
        if not refers and (not previous or not isinstance(previous, str)):
            return data
        before: list[Any] = []
        known: dict[str, Any] = {}
        if previous and isinstance(previous, str):
            stored = await self.find(previous, scope)
            if stored is None:
                raise HTTPError(404, f"Previous response with id {short_repr(previous)} not found.")
            before = stored.conversation
            known = stored.by_id() if refers else {}
        rest = {name: value for name, value in data.items() if name != PREVIOUS}
        items = [
            await self._find_item(item, scope, known) if _is_reference(item) else item
            for item in _parse_input(given)
        ]
        return {**rest, "input": [*before, *items]}

    async def _find_item(self, item: Mapping[str, Any], scope: str, known: dict[str, Any]) -> Any:
        """Return the item that *item* refers to; *known* are those found so far, by id."""
        id_ = item.get("id")
        if not isinstance(id_, str):
            raise HTTPError(400, "an item_reference must have an `id`")
        if id_ not in known:
            owner = self._owners.get((scope, id_), "")
            named = _ITEM_ID.fullmatch(id_)
            if not owner and named is not None:
                owner = f"resp_{named[1]}"
            stored = await self.find(owner, scope) if owner else None
            known |= stored.by_id() if stored is not None else {}
        if id_ not in known:
            raise HTTPError(404, f"Item with id {short_repr(id_)} not found.")
        return known[id_]

    async def find(self, id_: str, scope: str) -> StoredResponse | None:
        """Return a response of *scope*; raise `HTTPError` if the store cannot be read."""
        row = self._find_cached(id_, scope)
        if row is None and self._store is not None:
            row = await read_store(self._store.response(id_, scope=scope), "stored responses")
        return None if row is None else _unpack(row.data)

    def pack_input(self, data: dict[str, Any]) -> bytes:
        """Return the input items of the request *data*, compressed."""
        return zlib.compress(_json.encode(_parse_input(data.get("input"))), 1)

    async def keep(
        self,
        packed: bytes,
        response: dict[str, Any],
        scope: str,
        previous: str,
        redactor: Redactor,
    ) -> None:
        """Store *response* with the *packed* items before it."""
        now = time.time()
        stored = StoredResponse(_json.decode(zlib.decompress(packed)), response)
        row = ResponseRow(
            id=str(response["id"]),
            scope=scope,
            created=now,
            expires=now + self._lifetime,
            previous=previous,
            model=str(response.get("model", "")),
            data=zlib.compress(redactor.body(_json.encode(stored)), 1),
        )
        self._add_to_cache(row)
        self._add_owners(stored.output, row)
        if self._store is not None and self._bodies:
            await self._store.save(row)

    async def delete(self, id_: str, scope: str) -> bool:
        """Delete a response of *scope*; return whether there was one."""
        was_cached = self._find_cached(id_, scope) is not None
        self._drop((scope, id_))
        if self._store is None:
            return was_cached
        return (
            await read_store(self._store.delete_response(id_, scope=scope), "stored responses")
            or was_cached
        )

    # --- the cache ---

    def _find_cached(self, id_: str, scope: str) -> ResponseRow | None:
        row = self._cache.get((scope, id_))
        return row if row is not None and row.expires > time.time() else None

    def _add_to_cache(self, row: ResponseRow) -> None:
        self._drop((row.scope, row.id))
        self._cache[row.scope, row.id] = row
        self._size += len(row.data)
        while len(self._cache) > MAX_CACHED or self._size > MAX_CACHED_BYTES:
            self._drop(next(iter(self._cache)))

    def _add_owners(self, items: list[Any], row: ResponseRow) -> None:
        """Remember *row* for those of its *items* whose ids do not contain its own."""
        name = row.id.removeprefix("resp_")
        for item in items:
            id_ = item.get("id") if isinstance(item, Mapping) else None
            if isinstance(id_, str) and name not in id_:
                self._owners[row.scope, id_] = row.id
        while len(self._owners) > MAX_OWNERS:
            del self._owners[next(iter(self._owners))]

    def _drop(self, key: tuple[str, str]) -> None:
        row = self._cache.pop(key, None)
        self._size -= 0 if row is None else len(row.data)


async def read_store(result: Awaitable[T], what: str) -> T:
    """Return the *result* of a query; raise `HTTPError` if it is invalid or fails."""
    try:
        return await result
    except UsageError as exc:
        raise HTTPError(400, str(exc)) from None
    except StoreError as exc:
        message = f"cannot read {what} now ({exc}): try again"
        raise HTTPError(503, message, retry_after=RETRY_SOON) from None


def _unpack(data: bytes) -> StoredResponse:
    stored = _json.decode(zlib.decompress(data))
    if isinstance(stored, list):  # Early versions stored only the list of all items.
        return StoredResponse(stored, {})
    return StoredResponse(stored["items"], stored["response"])


def _parse_input(given: object) -> list[Any]:
    """Return the items of an input; a string is a user message."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def number_items(id_: str, items: list[Any]) -> list[dict[str, Any]]:
    """Return the *items* before the response *id_*; those without an id get one."""
    name = id_.removeprefix("resp_")
    return [
        {"id": f"item_{name}_{number}", **item}
        for number, item in enumerate(items)
        if isinstance(item, dict)
    ]


def _is_reference(item: object) -> bool:
    """Return whether *item* refers to another; the type may be omitted, as at OpenAI."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "role" not in item and "id" in item)
