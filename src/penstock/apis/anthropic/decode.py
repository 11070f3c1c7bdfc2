"""Decode a stream of the Messages API.

Data is routed by the `index` of its block alone: blocks may be open at the same time, and data for
a block that never started or has stopped is dropped. `message_delta` has the stop reason; the
response ends at `message_stop`, or, if a server omits that, at the end of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import OF_MESSAGE, OpaqueBlock, is_whole_at_start
from penstock.apis.decoder import StreamDecoder
from penstock.apis.fields import has_content, index_at, string_at
from penstock.apis.transcript import CallBlock, TextBlock
from penstock.messages import AssistantMessage, ErrorInfo


class Decoder(StreamDecoder):
    """Bytes of a stream of the Messages API in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._blocks: dict[int | None, _Text | _Call | OpaqueBlock] = {}
        self._stop_reason = ""
        self._stop_details: object = None
        self._stop_sequence = ""
        self._of_message: dict[str, Any] = {}  # `container` and the like
        self._latest: int | None = None  # the block that started last
        self._started: set[int | None] = set()

    @property
    def _is_complete(self) -> bool:
        return bool(self._stop_reason)

    def _read(self, data: dict[str, Any], event: str) -> None:
        # Anthropic's SDKs skip frames without an `event:` line; other servers omit the line, or the
        # `type`. Either is enough here. `ping` may come anywhere and has no other field.
        match data.get("type") or event:
            case "content_block_delta":
                self._read_delta(data)
            case "content_block_start":
                self._start(index_at(data), data.get("content_block"))
            case "content_block_stop":
                self._stop(self._key(data))
            case "message_start":
                self._read_start(data.get("message"))
            case "message_delta":  # Its counts are cumulative and replace those of the start.
                self._read_stop(data.get("delta"))
                self._read_message_fields(data)
                self._read_usage(data)
            # There is no `[DONE]` in this API: `message_stop` is the end.
            case "message_stop":
                self._conclude()
            case "message":
                self._read_message(data)
            # With status 200: an overloaded server sends `overloaded_error` in the middle of a
            # stream.
            case "error":
                self._fail(tables.read_error(data.get("error") or data))
            case _ if data.get("error"):
                self._fail(tables.read_error(data["error"]))

    # --- the message ---

    def _read_start(self, message: object) -> None:
        fields = message if isinstance(message, Mapping) else {}
        self._transcript.begin(string_at(fields, "id"), string_at(fields, "model"))
        self._read_message_fields(fields)
        self._read_usage(fields)

    def _read_message_fields(self, data: Mapping[str, Any]) -> None:
        fields = {name: data.get(name) for name in OF_MESSAGE}
        self._of_message |= {name: field for name, field in fields.items() if field}

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            before = self._transcript.usage
            # `message_delta` may repeat only some of the counts; the others keep their values.
            self._transcript.usage = tables.read_usage(data["usage"], before)

    def _read_stop(self, delta: object) -> None:
        fields = delta if isinstance(delta, Mapping) else {}
        self._stop_reason = string_at(fields, "stop_reason") or self._stop_reason
        self._stop_details = fields.get("stop_details") or self._stop_details
        self._read_message_fields(fields)
        sequence = fields.get("stop_sequence")
        self._stop_sequence = sequence if isinstance(sequence, str) else self._stop_sequence

    def _read_message(self, data: Mapping[str, Any]) -> None:
        """Read a whole response."""
        self._read_start(data)
        if isinstance(data.get("content"), str):
            data = {**data, "content": {"type": "text", "text": data["content"]}}
        for index, block in enumerate(self._transcript.read_objects(data, "content")):
            self._start(index, block)
            self._stop(index)
        self._read_stop(data)

    # --- blocks ---

    def _start(self, key: int | None, block: object) -> None:
        self._stop(key)  # An index that is used again is another block.
        self._latest = key
        if not isinstance(block, Mapping):
            self._transcript.skipped += has_content(block)
            return  # Its deltas start it.
        self._started.add(key)
        kind = block.get("type")
        if kind in ("text", "thinking"):
            text = self._transcript.text() if kind == "text" else self._transcript.thinking()
            self._blocks[key] = _Text(text)
            self._blocks[key].add(block)
        # `server_tool_use` (web search, code execution) streams its input in the same way, but the
        # server runs it: it is kept as an opaque block and is never a call.
        elif kind == "tool_use":
            # `caller` says whether the model or a server tool (code execution) made the call.
            if isinstance(block.get("caller"), Mapping):
                self._add_part({"caller": without_lone_surrogates(dict(block["caller"]))})
            call = self._transcript.call(string_at(block, "name"), string_at(block, "id"))
            self._blocks[key] = _Call(call, block.get("input"))
        else:
            # Result blocks (`web_search_tool_result` and others), `redacted_thinking`,
            # `container_upload` and beta blocks (`mcp_tool_use`, `compaction`, `fallback`) must go
            # back unchanged in the next request.
            self._blocks[key] = OpaqueBlock(block)
            if is_whole_at_start(kind):
                self._stop(key)

    def _read_delta(self, data: Mapping[str, Any]) -> None:
        # By index, not by "the current block": blocks may be open at the same time.
        key, delta = self._key(data), self._transcript.read_object(data, "delta")
        kind = next((kind for kind, field in _CONTENT.items() if has_content(delta.get(field))), "")
        if kind and not isinstance(delta[_CONTENT[kind]], str):
            self._transcript.lose(_CONTENT[kind], delta[_CONTENT[kind]])
        block = self._blocks.get(key)
        if kind and key in self._started and (block is None or not block.takes(kind)):
            self._read_stray(key, kind, delta)
        elif kind and block is None:  # The start of the block was lost or omitted.
            self._start(key, {"type": kind})
            self._blocks[key].add(delta)
        elif block is not None:
            block.add(delta)

    def _read_stray(self, key: int | None, kind: str, delta: Mapping[str, Any]) -> None:
        """Read content that the block at *key* cannot have, or that came after its end."""
        if isinstance(self._blocks.get(key), _Text) and kind != "tool_use":
            self._start(key, {"type": kind})  # Servers have sent reasoning in a block of text.
            self._blocks[key].add(delta)
        elif key in self._blocks:
            self._transcript.lose(_CONTENT[kind], delta[_CONTENT[kind]])
        else:
            self._transcript.skipped += 1

    def _key(self, data: Mapping[str, Any]) -> int | None:
        """Return the index of the block that *data* is about, by default the latest."""
        index = index_at(data)
        return self._latest if index is None else index

    def _stop(self, key: int | None) -> None:
        block = self._blocks.pop(key, None)
        if isinstance(block, OpaqueBlock):
            self._add_part(block.whole())
        elif block is not None:
            block.close()
            if isinstance(block, _Text) and block.citations:
                self._add_part({"citations": block.citations})

    def _add_part(self, data: dict[str, Any] | None) -> None:
        if data is not None:
            self._transcript.part(tables.NAME, data)

    # --- ends ---

    def _fail(self, error: ErrorInfo, reason: str = "") -> None:
        """End in *error*, with the citations of the open text block."""
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
        # A tool input is final only if the response did not end at a limit: with `max_tokens` the
        # last call may be cut, and the transcript marks it as incomplete.
        ending = tables.ENDINGS.get(reason, "stop")
        if ending in ("refusal", "filter"):
            error = tables.read_refusal(reason, self._stop_details)
            self._fail(error, reason)
            return
        for key in [*self._blocks]:
            self._stop(key)
        fields = without_lone_surrogates(self._of_message)
        if reason == "stop_sequence" and self._stop_sequence:
            fields["stop_sequence"] = self._stop_sequence
        if fields:
            self._add_part(fields)
        self._transcript.done("length" if ending == "length" else "stop", reason)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("type") == "error" or data.get("error"):
            return tables.read_error(data.get("error") or data)
        return read_response(data) if isinstance(data.get("content"), list) else None


# The types of blocks with content that streams, and the field of their deltas.
_CONTENT: Final = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}


class _Text:
    """A block of text or reasoning, with its signature or its citations."""

    def __init__(self, block: TextBlock) -> None:
        self.block = block
        self.citations: list[Any] = []
        self._kind = "text" if block.is_text else "thinking"
        self._signature: list[str] = []

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the fields of a delta or of the start: both have the same names."""
        # The signature comes in a `signature_delta` just before the block stops. Without it the API
        # refuses the reasoning when it is sent back.
        text, signature = string_at(data, _CONTENT[self._kind]), data.get("signature")
        if text:
            self.block.add(text)
        if isinstance(signature, str):
            self._signature.append(signature)
        if isinstance(data.get("citations"), list):
            self.citations += data["citations"]
        if data.get("citation"):
            self.citations.append(data["citation"])

    def takes(self, kind: str) -> bool:
        """Return whether the block can have content of *kind*."""
        return kind == self._kind

    def close(self) -> None:
        """End the block."""
        self.block.close("".join(self._signature))


class _Call:
    """A call, with the input of its start, which counts if no delta has arguments."""

    def __init__(self, call: CallBlock, given: object) -> None:
        self.block = call
        # Anthropic starts with ``"input": {}`` and streams the rest; some servers send all of it
        # here.
        self._given = given if has_content(given) else ""

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a delta."""
        self.block.add(string_at(delta, "partial_json"))

    def takes(self, kind: str) -> bool:
        """Return whether the block can have content of *kind*."""
        return kind == "tool_use"

    def close(self) -> None:
        """End the call, with the input of its start if no delta had arguments."""
        if not self.block.arguments.strip():
            self.block.add_value(self._given)
        self.block.close()


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream."""
    kind = "error" if data.get("error") else "message"
    return Decoder().read_whole({"type": kind, **data})
