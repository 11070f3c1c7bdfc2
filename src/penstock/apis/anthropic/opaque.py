"""Blocks that only this API understands: hidden reasoning, provider tools and their results.

They are kept whole as the API would say them in one piece, and go back to it that way. Four things
are not where they are on the wire: the input of a tool that the API runs itself, which streams as
JSON text; citations, which belong to the text before them and are kept in a block of their own
(``{"citations": […]}``, without a type); who made a call, which is kept before it (``{"caller":
{…}}``); and what the message itself says (``{"stop_sequence": "…", "container": {…},
"context_management": {…}}``, the last block).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.read_request import MessagesReader
from penstock.apis.fields import list_at, the_rest
from penstock.errors import JSONParseError, UsageError
from penstock.messages import AssistantMessage, Opaque
from penstock.request import Message, Request, UserMessage

# The fields that a client of this API gave single blocks, for the way back to the same API.
#
# A block of ours has no place for a mark of the cache or for what the API will think of next.
# As long as a message reads as it came, its blocks are written with the fields that they came
# with.


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
    reader = MessagesReader("")
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


STREAMED: Final = frozenset({"server_tool_use", "mcp_tool_use"})
"""Blocks whose input comes in deltas."""

_UNDERSTOOD: Final = frozenset({"text", "thinking", "tool_use", "tool_result"})
_USE: Final[dict[str, type]] = {"id": str, "name": str, "input": dict}
_NEEDED: Final[dict[str, dict[str, type]]] = {
    "redacted_thinking": {"data": str},
    "server_tool_use": _USE,
    "mcp_tool_use": _USE,
}
"""Fields that a client relies on, of blocks that are known."""


def is_whole_at_start(kind: object) -> bool:
    """Return whether blocks of *kind* come in one piece, so that no cut can harm them."""
    return isinstance(kind, str) and (kind == "redacted_thinking" or kind.endswith("_tool_result"))


class OpaqueBlock:
    """A block that grows until it stops; each delta adds to the fields of the names it has."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add what *delta* says, of whatever type it is."""
        for key, value in delta.items():
            if key == "partial_json" and isinstance(value, str):
                self._input.append(value)
            elif key != "type" and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key != "type" and value is not None:
                self._data[key] = value

    def whole(self) -> dict[str, Any] | None:
        """Return the block; nothing, if its input was cut."""
        for key, pieces in self._texts.items():
            begun = self._data.get(key)
            self._data[key] = (begun if isinstance(begun, str) else "") + "".join(pieces)
        text = "".join(self._input)
        if text.strip():
            try:
                self._data["input"] = _json.decode(text)
            except JSONParseError:
                return None
        return without_lone_surrogates(self._data)


def citations_of(block: Opaque) -> list[Any]:
    """Return the citations for the text before, if *block* is that."""
    data = block.data if block.provider == tables.NAME else None
    found = data.get("citations") if isinstance(data, dict) and "type" not in data else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def stop_sequence_of(block: Opaque) -> str | None:
    """Return what stopped the answer, if *block* is that."""
    data = block.data if block.provider == tables.NAME else None
    found = data.get("stop_sequence") if isinstance(data, dict) and "type" not in data else None
    return found if isinstance(found, str) and found else None


def caller_of(block: Opaque) -> dict[str, Any] | None:
    """Return who makes the call that follows, if *block* is that."""
    data = block.data if block.provider == tables.NAME else None
    found = data.get("caller") if isinstance(data, dict) and "type" not in data else None
    return found if isinstance(found, dict) else None


OF_MESSAGE: Final = ("container", "context_management")
"""Fields of a message that say what its server keeps or has done: clients send the first back."""


def message_fields_of(block: Opaque) -> dict[str, Any]:
    """Return the fields of the message itself, if *block* has some."""
    data = block.data if block.provider == tables.NAME else None
    fields = data if isinstance(data, dict) and "type" not in data else {}
    return {name: fields[name] for name in OF_MESSAGE if isinstance(fields.get(name), dict)}


def block_of(block: Opaque) -> dict[str, Any] | None:
    """Return the block as the API says it in one piece.

    If it is of this API and can stand alone.
    """
    data = block.data if block.provider == tables.NAME else None
    if not isinstance(data, dict):
        return None
    kind = data.get("type")
    if not isinstance(kind, str) or not kind or kind in _UNDERSTOOD:
        return None
    needed = _NEEDED.get(kind, {})
    is_whole = all(isinstance(data.get(key), type_) for key, type_ in needed.items())
    return data if is_whole else None
