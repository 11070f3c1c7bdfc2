"""Conversations that the gateway remembers: answers of the Responses API, by their ids.

A request that names an earlier answer is given all that was said up to it. What is kept of an
answer is the whole list of items before and in it, so that any gateway on the same store finds it,
and one look is enough. The newest ones are held in memory too: most clients go on at once.
"""

from __future__ import annotations

import time
import zlib
from collections import OrderedDict
from typing import Any, Final

from penstock import _json
from penstock.gateway.refusals import Refusal
from penstock.gateway.secrecy import Secrets
from penstock.store import ResponseRow, Store, StoreError

KEPT_SECONDS: Final = 30 * 24 * 3600.0
"""How long an answer can be gone on from."""

MAX_REMEMBERED: Final = 256
"""How many answers are held in memory."""

MAX_REMEMBERED_BYTES: Final = 8 * 1024 * 1024
"""How many bytes they may have together, squeezed."""

PREVIOUS: Final = "previous_response_id"


class Conversations:
    """Finds and keeps answers; without a *store* only in memory."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._newest: OrderedDict[tuple[str, str], ResponseRow] = OrderedDict()
        self._size = 0

    async def continued(self, data: dict[str, Any], scope: str) -> dict[str, Any]:
        """Give the request *data* with all that was said before it, if it names an answer.

        Raises `Refusal` for an answer that nobody knows, or that is another client's.
        """
        previous = data.get(PREVIOUS)
        if not previous or not isinstance(previous, str):
            return data
        row = await self._find(previous, scope)
        if row is None:
            raise Refusal(404, f"there is no response {previous!r} to go on from")
        before = _json.decode(zlib.decompress(row.data))
        rest = {name: value for name, value in data.items() if name != PREVIOUS}
        return {**rest, "input": [*before, *items_of(data.get("input"))]}

    def said(self, data: dict[str, Any]) -> bytes:
        """Give all that the request *data* holds of the conversation, squeezed."""
        return zlib.compress(_json.encode(items_of(data.get("input"))), 1)

    async def keep(
        self, said: bytes, response: dict[str, Any], scope: str, previous: str, secrets: Secrets
    ) -> None:
        """Keep *response*, and what was *said* before it."""
        now = time.time()
        items = [*_json.decode(zlib.decompress(said)), *_output_of(response)]
        row = ResponseRow(
            id=str(response["id"]),
            scope=scope,
            created=now,
            expires=now + KEPT_SECONDS,
            previous=previous,
            model=str(response.get("model", "")),
            data=zlib.compress(secrets.body(_json.encode(items)), 1),
        )
        self._remember(row)
        if self._store is not None:
            await self._store.save(row)

    async def _find(self, id_: str, scope: str) -> ResponseRow | None:
        if (row := self._newest.get((scope, id_))) is not None:
            return row
        if self._store is None:
            return None
        try:
            return await self._store.response(id_, scope=scope)
        except StoreError:
            raise Refusal(503, "the log cannot be read now", retry_after=1.0) from None

    def _remember(self, row: ResponseRow) -> None:
        before = self._newest.pop((row.scope, row.id), None)
        self._newest[row.scope, row.id] = row
        self._size += len(row.data) - (len(before.data) if before is not None else 0)
        while len(self._newest) > MAX_REMEMBERED or self._size > MAX_REMEMBERED_BYTES:
            _, oldest = self._newest.popitem(last=False)
            self._size -= len(oldest.data)


def items_of(given: object) -> list[Any]:
    """Give the items of an input: text is what a user says."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def _output_of(response: dict[str, Any]) -> list[Any]:
    output = response.get("output")
    return output if isinstance(output, list) else []
