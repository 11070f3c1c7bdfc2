"""Blocks that only this API understands: hidden reasoning, provider tools and their results.

They are kept as in a whole response and are sent back that way. Four things have a place of their
own: the input of a tool that the server runs, which streams as JSON text; citations, which are kept
in a block after their text (``{"citations": […]}``, without a type); the caller of a call, which is
kept in a block before it (``{"caller": {…}}``); and fields of the message, which are kept in the
last block (``{"stop_sequence": "…", "container": {…}, "context_management": {…}}``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.read_request import MessagesReader
from penstock.apis.fields import list_at, string_at, without_keys
from penstock.errors import JSONParseError, UsageError
from penstock.messages import AssistantMessage, Opaque
from penstock.request import Message, Request, UserMessage

# The fields that are written from our own blocks.
_USUAL: Final = frozenset(
    {"type", "text", "citations", "source", "thinking", "signature", "id", "name", "input",
     "caller"}
)  # fmt: skip


class OriginalBlocks:
    """The original blocks of a request of this API, by the blocks that they were read as.

    Our blocks cannot express a cache mark or a future field. While a message is unchanged, its
    blocks are written with the fields that they came with.
    """

    def __init__(self, request: Request) -> None:
        raw = request.raw if request.source == tables.NAME else None
        self._given = _paired(request.messages, raw) if raw else {}
        self.has_marks = any(_is_marked(data) for data in self._given.values())
        """Whether one of them has a cache mark."""

    def given(self, block: object) -> Mapping[str, Any] | None:
        """Return the data that *block* was read from."""
        return self._given.get(id(block))

    def more(self, block: object) -> Mapping[str, Any]:
        """Return the additional fields of *block*."""
        return without_keys(self._given.get(id(block), {}), _USUAL)


def _paired(messages: list[Message], raw: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Read *raw* again, and pair what is equal to *messages* by position."""
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
        for block, same in zip(_list_blocks(read), _list_blocks(meant), strict=True):
            if id(block) in sources:
                pairs[id(same)] = sources[id(block)]
    return pairs


def _list_blocks(message: Message) -> list[Any]:
    blocks = message.content if isinstance(message, UserMessage | AssistantMessage) else []
    return [message, *blocks]


def _is_marked(data: Mapping[str, Any]) -> bool:
    inner = data.get("content")
    blocks = [data, *(inner if isinstance(inner, list) else [])]
    return any(isinstance(block, Mapping) and "cache_control" in block for block in blocks)


STREAMED: Final = frozenset({"server_tool_use", "mcp_tool_use"})
"""Blocks whose input arrives in deltas."""

_UNDERSTOOD: Final = frozenset({"text", "thinking", "tool_use", "tool_result"})
_USE: Final[dict[str, type]] = {"id": str, "name": str, "input": dict}
# Fields that a client relies on, of known blocks.
_NEEDED: Final[dict[str, dict[str, type]]] = {
    "redacted_thinking": {"data": str},
    "server_tool_use": _USE,
    "mcp_tool_use": _USE,
}


def is_whole_at_start(kind: object) -> bool:
    """Return whether blocks of *kind* arrive whole, so that no truncation can cut them."""
    return isinstance(kind, str) and (kind == "redacted_thinking" or kind.endswith("_tool_result"))


class OpaqueBlock:
    """An open block; each delta adds to the fields that it names."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add *delta*, of any type."""
        for key, value in delta.items():
            if key == "partial_json" and isinstance(value, str):
                self._input.append(value)
            elif key != "type" and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key != "type" and value is not None:
                self._data[key] = value

    def takes(self, kind: str) -> bool:
        """Return whether the block can have content of *kind*: all of it is kept."""
        return bool(kind)

    def whole(self) -> dict[str, Any] | None:
        """Return the block, or None if its input was cut."""
        for key, pieces in self._texts.items():
            self._data[key] = string_at(self._data, key) + "".join(pieces)
        text = "".join(self._input)
        if text.strip():
            try:
                self._data["input"] = _json.decode(text)
            except JSONParseError:
                return None
        return without_lone_surrogates(self._data)


def _untyped(block: Opaque) -> dict[str, Any]:
    """Return the data of a block of this API that has no type, otherwise an empty object."""
    data = block.data if block.provider == tables.NAME else None
    return data if isinstance(data, dict) and "type" not in data else {}


def find_citations(block: Opaque) -> list[Any]:
    """Return the citations in *block*, which belong to the text before it."""
    return [item for item in list_at(_untyped(block), "citations") if isinstance(item, dict)]


def find_stop_sequence(block: Opaque) -> str | None:
    """Return the stop sequence in *block*, which ended the response."""
    return string_at(_untyped(block), "stop_sequence") or None


def find_caller(block: Opaque) -> dict[str, Any] | None:
    """Return the caller in *block*, which made the next call."""
    found = _untyped(block).get("caller")
    return found if isinstance(found, dict) else None


OF_MESSAGE: Final = ("container", "context_management")
"""Fields of a message about its server's state; clients send the first back."""


def find_message_fields(block: Opaque) -> dict[str, Any]:
    """Return the fields of the message in *block*."""
    fields = _untyped(block)
    return {name: fields[name] for name in OF_MESSAGE if isinstance(fields.get(name), dict)}


def find_block(block: Opaque) -> dict[str, Any] | None:
    """Return the data of *block* if it is a valid block of this API, otherwise None."""
    data = block.data if block.provider == tables.NAME else None
    if not isinstance(data, dict):
        return None
    kind = data.get("type")
    if not isinstance(kind, str) or not kind or kind in _UNDERSTOOD:
        return None
    needed = _NEEDED.get(kind, {})
    is_whole = all(isinstance(data.get(key), type_) for key, type_ in needed.items())
    return data if is_whole else None
