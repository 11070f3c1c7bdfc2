"""Message events to events.

Every block has a key, its `index`, and what comes is routed by it alone: blocks may be open side by
side, and what comes for a block that never started or has stopped is dropped. The reason to stop
comes before the end; the answer ends at `message_stop`, and, where a server forgets that, with the
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import OF_MESSAGE, OpaqueBlock, is_whole_at_start
from penstock.apis.anthropic.response import read_response
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import object_text
from penstock.apis.fields import index_of
from penstock.apis.transcript import CallBlock, TextBlock
from penstock.messages import AssistantMessage, ErrorInfo


class Decoder(StreamDecoder):
    """Bytes of a message stream in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._blocks: dict[int | None, _Text | _Call | OpaqueBlock] = {}
        self._stop_reason = ""
        self._stop_details: object = None
        self._stop_sequence = ""
        self._of_message: dict[str, Any] = {}  # what the message says of itself
        self._latest: int | None = None  # the block that started last

    @property
    def _has_said_all(self) -> bool:
        return bool(self._stop_reason)

    def _read(self, data: dict[str, Any], event: str) -> None:
        match data.get("type") or event:
            case "content_block_delta":
                self._read_delta(data)
            case "content_block_start":
                self._start(index_of(data), data.get("content_block"))
            case "content_block_stop":
                self._stop(index_of(data))
            case "message_start":
                self._read_start(data.get("message"))
            case "message_delta":
                self._read_stop(data.get("delta"))
                self._read_message_fields(data)
                self._read_usage(data)
            case "message_stop":
                self._conclude()
            case "message":
                self._read_message(data)
            case "error":
                self._fail(tables.read_error(data.get("error") or data))
            case _ if data.get("error"):
                self._fail(tables.read_error(data["error"]))

    # --- the message ---

    def _read_start(self, message: object) -> None:
        fields = message if isinstance(message, Mapping) else {}
        id_, model = fields.get("id"), fields.get("model")
        self._transcript.begin(
            id_ if isinstance(id_, str) else "", model if isinstance(model, str) else ""
        )
        self._read_message_fields(fields)
        self._read_usage(fields)

    def _read_message_fields(self, data: Mapping[str, Any]) -> None:
        fields = {name: data.get(name) for name in OF_MESSAGE}
        self._of_message |= {name: field for name, field in fields.items() if field}

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            before = self._transcript.usage
            self._transcript.usage = tables.read_usage(data["usage"], before)

    def _read_stop(self, delta: object) -> None:
        fields = delta if isinstance(delta, Mapping) else {}
        reason = fields.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop_reason = reason
        self._stop_details = fields.get("stop_details") or self._stop_details
        self._read_message_fields(fields)
        sequence = fields.get("stop_sequence")
        self._stop_sequence = sequence if isinstance(sequence, str) else self._stop_sequence

    def _read_message(self, data: Mapping[str, Any]) -> None:
        """Read an answer that comes whole."""
        self._read_start(data)
        content = data.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start(index, block)
            self._stop(index)
        self._read_stop(data)

    # --- blocks ---

    def _start(self, key: int | None, block: object) -> None:
        self._stop(key)  # A key that is used again is another block.
        self._latest = key
        if not isinstance(block, Mapping):
            return
        kind = block.get("type")
        if kind in ("text", "thinking"):
            passage = self._transcript.text() if kind == "text" else self._transcript.thinking()
            self._blocks[key] = _Text(passage)
            self._blocks[key].add(block)
        elif kind == "tool_use":
            name, id_ = block.get("name"), block.get("id")
            if isinstance(block.get("caller"), Mapping):
                self._seal({"caller": without_lone_surrogates(dict(block["caller"]))})
            call = self._transcript.call(
                name if isinstance(name, str) else "", id_ if isinstance(id_, str) else ""
            )
            self._blocks[key] = _Call(call, block.get("input"))
        else:
            self._blocks[key] = OpaqueBlock(block)
            if is_whole_at_start(kind):
                self._stop(key)

    def _read_delta(self, data: Mapping[str, Any]) -> None:
        block, delta = self._blocks.get(index_of(data)), data.get("delta")
        if block is not None and isinstance(delta, Mapping):
            block.add(delta)

    def _stop(self, key: int | None) -> None:
        block = self._blocks.pop(key, None)
        if isinstance(block, OpaqueBlock):
            self._seal(block.whole())
        elif block is not None:
            block.passage.close(block.last_words)
            if isinstance(block, _Text) and block.citations:
                self._seal({"citations": block.citations})

    def _seal(self, data: dict[str, Any] | None) -> None:
        if data is not None:
            self._transcript.part(tables.NAME, data)

    # --- ends ---

    def _fail(self, error: ErrorInfo, reason: str = "") -> None:
        """End in *error*, with the citations of the text that was being said."""
        self._keep_citations()
        self._transcript.fail(error, reason)

    def _keep_citations(self) -> None:
        latest = self._blocks.get(self._latest)
        if isinstance(latest, _Text) and latest.citations:
            self._stop(self._latest)

    def _read_end(self) -> None:
        if self._stop_reason:
            self._conclude()
        else:
            self._keep_citations()
            self.fail_truncated()

    def _conclude(self) -> None:
        reason = self._stop_reason
        ending = tables.ENDINGS.get(reason, "stop")
        if ending in ("refusal", "filter"):
            error = tables.read_refusal(reason, self._stop_details)
            self._fail(error, reason)
            return
        for key in [*self._blocks]:
            self._stop(key)
        told = without_lone_surrogates(self._of_message)
        if reason == "stop_sequence" and self._stop_sequence:
            told["stop_sequence"] = self._stop_sequence
        if told:
            self._seal(told)
        self._transcript.done("length" if ending == "length" else "stop", reason)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("type") == "error" or data.get("error"):
            return tables.read_error(data.get("error") or data)
        return read_response(data) if isinstance(data.get("content"), list) else None


class _Text:
    """A passage of text or thinking, with the signature or the citations that come along."""

    def __init__(self, passage: TextBlock) -> None:
        self.passage = passage
        self.citations: list[Any] = []
        self._key = "text" if passage.is_text else "thinking"
        self._signature: list[str] = []

    @property
    def last_words(self) -> str:
        """The signature."""
        return "".join(self._signature)

    def add(self, data: Mapping[str, Any]) -> None:
        """Add what a delta says, or the start: both have the same names."""
        text, signature = data.get(self._key), data.get("signature")
        if isinstance(text, str) and text:
            self.passage.add(text)
        if isinstance(signature, str):
            self._signature.append(signature)
        if isinstance(data.get("citations"), list):
            self.citations += data["citations"]
        if data.get("citation"):
            self.citations.append(data["citation"])


class _Call:
    """A call, with the input that its start had; what comes in deltas goes before that."""

    def __init__(self, call: CallBlock, given: object) -> None:
        self.passage = call
        self._given = object_text(given) if isinstance(given, dict) and given else given

    @property
    def last_words(self) -> str:
        """The arguments whole, if no delta had any."""
        given = self._given if isinstance(self._given, str) else ""
        return given if not self.passage.arguments.strip() else ""

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add what a delta says."""
        text = delta.get("partial_json")
        if isinstance(text, str):
            self.passage.add(text)
