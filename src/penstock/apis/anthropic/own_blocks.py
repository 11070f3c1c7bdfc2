"""The fields that a client of this API gave single blocks, for the way back to the same API.

A block of ours has no place for a mark of the cache or for what the API will think of next. As long
as a message reads as it came, its blocks are written with the fields that they came with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.anthropic import tables
from penstock.apis.anthropic.read_messages import Conversation
from penstock.apis.reading import list_at, the_rest
from penstock.errors import UsageError
from penstock.messages import AssistantMessage
from penstock.requests import Message, Request, UserMessage

_USUAL: Final = frozenset(
    {"type", "text", "citations", "source", "thinking", "signature", "id", "name", "input",
     "caller"}
)  # fmt: skip
"""The fields that are written from our own blocks."""


class OwnBlocks:
    """The blocks of one request as they came, found by what they were read as."""

    def __init__(self, request: Request) -> None:
        raw = request.raw if request.source == tables.NAME else None
        self._given = _paired(request.messages, raw) if raw else {}
        self.has_marks = any(_is_marked(data) for data in self._given.values())
        """Whether a mark of the cache is on one of them."""

    def given(self, block: object) -> Mapping[str, Any] | None:
        """Return the data that *block* was read from."""
        return self._given.get(id(block))

    def more(self, block: object) -> Mapping[str, Any]:
        """Return the fields of *block* beside the usual ones."""
        return the_rest(self._given.get(id(block), {}), _USUAL)


def _paired(messages: list[Message], raw: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Read *raw* again, and pair what reads as *messages* by its place."""
    reader = Conversation("")
    try:
        for data in list_at(raw, "messages"):
            reader.read(data)
    except UsageError:
        return {}
    sources = {id(block): data for block, data in reader.sources}
    pairs: dict[int, Mapping[str, Any]] = {}
    for read, meant in zip(reader.messages, messages, strict=False):
        if read != meant:
            continue
        for block, same in zip(_blocks_of(read), _blocks_of(meant), strict=True):
            if id(block) in sources:
                pairs[id(same)] = sources[id(block)]
    return pairs


def _blocks_of(message: Message) -> list[Any]:
    blocks = message.content if isinstance(message, UserMessage | AssistantMessage) else []
    return [message, *blocks]


def _is_marked(data: Mapping[str, Any]) -> bool:
    inner = data.get("content")
    blocks = [data, *(inner if isinstance(inner, list) else [])]
    return any(isinstance(block, Mapping) and "cache_control" in block for block in blocks)
