"""Conversations that the gateway remembers: answers of the Responses API, by their ids.

A request that names an earlier answer is given all that was said up to it. What is kept of an
answer is the answer itself and the whole list of items before it, so that any gateway on the same
store finds it, and one look is enough. The newest ones are held in memory too: most clients
continue at once, and where bodies are not to be stored there is no other place.

A client may also refer to single items of earlier answers (``item_reference``, the default of the
AI SDK). The id of an item that was written here has the id of its answer in it; one that an
upstream gave is known while its answer is held in memory, or is among the items before an answer
that the same request refers to.
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
from penstock.apis.fields import shown
from penstock.gateway.errors import HTTPError
from penstock.gateway.redaction import LogRedactor
from penstock.store import ResponseRow, Store, StoreError

KEPT_SECONDS: Final = 30 * 24 * 3600.0
"""How long an answer can be gone on from, at most."""

MAX_REMEMBERED: Final = 256
"""How many answers are held in memory."""

MAX_REMEMBERED_BYTES: Final = 8 * 1024 * 1024
"""How many bytes they may have together, squeezed."""

MAX_OWNERS: Final = 4_096
"""How many items with an upstream's own ids are remembered."""

PREVIOUS: Final = "previous_response_id"

_ITEM_ID: Final = re.compile(r"[A-Za-z_]+_([A-Za-z0-9]+)_[0-9]+")
"""The id of an item of an answer, with the id of the answer in it."""

T = TypeVar("T")


class Kept(Struct, frozen=True):
    """An answer that was kept: the *items* before it, and the *response* as it was given."""

    items: list[Any]
    response: dict[str, Any]

    @property
    def said(self) -> list[Any]:
        """All that was said up to the end of the answer."""
        return [*self.items, *self.output]

    @property
    def output(self) -> list[Any]:
        """The items of the answer."""
        output = self.response.get("output")
        return output if isinstance(output, list) else []

    def by_id(self) -> dict[str, Any]:
        """Return all that was said by the ids of the items; an input's may be its number."""
        numbered = numbered_items(str(self.response.get("id", "")), self.items)
        items = [*numbered, *(item for item in self.said if isinstance(item, Mapping))]
        return {item["id"]: item for item in items if isinstance(item.get("id"), str)}


class Conversations:
    """Finds and keeps answers for *keep_seconds*; without a *store*, or *bodies*, in memory."""

    def __init__(
        self, store: Store | None, *, bodies: bool = True, keep_seconds: float = KEPT_SECONDS
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._lifetime = min(KEPT_SECONDS, keep_seconds)
        self._newest: OrderedDict[tuple[str, str], ResponseRow] = OrderedDict()
        self._size = 0
        self._owners: dict[tuple[str, str], str] = {}  # answers in memory, by their items' ids

    async def continued(self, data: dict[str, Any], scope: str) -> dict[str, Any]:
        """Return the request *data* with all that was said before it, if it names an answer.

        Items that it refers to are put in their places. Raises `HTTPError` for an answer or an item
        that nobody knows, or that is another client's.
        """
        previous, given = data.get(PREVIOUS), data.get("input")
        refers = isinstance(given, list) and any(map(_is_reference, given))
        if not refers and (not previous or not isinstance(previous, str)):
            return data
        before: list[Any] = []
        known: dict[str, Any] = {}
        if previous and isinstance(previous, str):
            kept = await self.find(previous, scope)
            if kept is None:
                raise HTTPError(404, f"there is no response {shown(previous)} to go on from")
            before = kept.said
            known = kept.by_id() if refers else {}
        rest = {name: value for name, value in data.items() if name != PREVIOUS}
        items = [
            await self._referred(item, scope, known) if _is_reference(item) else item
            for item in items_of(given)
        ]
        return {**rest, "input": [*before, *items]}

    async def _referred(self, item: Mapping[str, Any], scope: str, known: dict[str, Any]) -> Any:
        """Return the item that *item* refers to; *known* are those that were found so far."""
        id_ = item.get("id")
        if not isinstance(id_, str):
            raise HTTPError(400, "an item_reference needs an `id`")
        if id_ not in known:
            owner = self._owners.get((scope, id_), "")
            named = _ITEM_ID.fullmatch(id_)
            if not owner and named is not None:
                owner = f"resp_{named[1]}"
            kept = await self.find(owner, scope) if owner else None
            known |= kept.by_id() if kept is not None else {}
        if id_ not in known:
            raise HTTPError(404, f"Item with id {shown(id_)} not found.")
        return known[id_]

    async def find(self, id_: str, scope: str) -> Kept | None:
        """Find an answer of *scope*; raise `HTTPError` where the store cannot be asked."""
        row = self._remembered(id_, scope)
        if row is None and self._store is not None:
            row = await _asked(self._store.response(id_, scope=scope))
        return None if row is None else _read(row.data)

    def said(self, data: dict[str, Any]) -> bytes:
        """Return all that the request *data* holds of the conversation, squeezed."""
        return zlib.compress(_json.encode(items_of(data.get("input"))), 1)

    async def keep(
        self, said: bytes, response: dict[str, Any], scope: str, previous: str, secrets: LogRedactor
    ) -> None:
        """Keep *response*, and what was *said* before it."""
        now = time.time()
        kept = Kept(_json.decode(zlib.decompress(said)), response)
        row = ResponseRow(
            id=str(response["id"]),
            scope=scope,
            created=now,
            expires=now + self._lifetime,
            previous=previous,
            model=str(response.get("model", "")),
            data=zlib.compress(secrets.body(_json.encode(kept)), 1),
        )
        self._remember(row)
        self._note_items(kept.output, row)
        if self._store is not None and self._bodies:
            await self._store.save(row)

    async def delete(self, id_: str, scope: str) -> bool:
        """Forget an answer of *scope*, here and in the store; return whether there was one."""
        was_remembered = self._remembered(id_, scope) is not None
        self._forget((scope, id_))
        if self._store is None:
            return was_remembered
        return await _asked(self._store.delete_response(id_, scope=scope)) or was_remembered

    # --- what is held in memory ---

    def _remembered(self, id_: str, scope: str) -> ResponseRow | None:
        row = self._newest.get((scope, id_))
        return row if row is not None and row.expires > time.time() else None

    def _remember(self, row: ResponseRow) -> None:
        self._forget((row.scope, row.id))
        self._newest[row.scope, row.id] = row
        self._size += len(row.data)
        while len(self._newest) > MAX_REMEMBERED or self._size > MAX_REMEMBERED_BYTES:
            self._forget(next(iter(self._newest)))

    def _note_items(self, items: list[Any], row: ResponseRow) -> None:
        """Note the items of the answer *row* whose ids do not say that they are its own."""
        name = row.id.removeprefix("resp_")
        for item in items:
            id_ = item.get("id") if isinstance(item, Mapping) else None
            if isinstance(id_, str) and name not in id_:
                self._owners[row.scope, id_] = row.id
        while len(self._owners) > MAX_OWNERS:
            del self._owners[next(iter(self._owners))]

    def _forget(self, key: tuple[str, str]) -> None:
        row = self._newest.pop(key, None)
        self._size -= 0 if row is None else len(row.data)


async def _asked(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except StoreError:
        raise HTTPError(503, "the log cannot be read now", retry_after=1.0) from None


def _read(data: bytes) -> Kept:
    """Read what was kept; once that was nothing but the list of all items."""
    kept = _json.decode(zlib.decompress(data))
    return Kept(kept, {}) if isinstance(kept, list) else Kept(kept["items"], kept["response"])


def items_of(given: object) -> list[Any]:
    """Return the items of an input: text is what a user says."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def numbered_items(id_: str, items: list[Any]) -> list[dict[str, Any]]:
    """Return the *items* before the answer *id_*; those that came without an id get one."""
    name = id_.removeprefix("resp_")
    return [
        {"id": f"item_{name}_{number}", **item}
        for number, item in enumerate(items)
        if isinstance(item, dict)
    ]


def _is_reference(item: object) -> bool:
    """Return whether *item* stands for another; the type may be omitted, as at OpenAI."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "role" not in item and "id" in item)
