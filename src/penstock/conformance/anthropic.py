"""The grammar of a stream of the Messages API.

It is independent of the encoder: it reads bytes as a strict client does and lists what such a
client would reject.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.conformance import CheckReport, is_count, is_one_of, is_text, read_objects
from penstock.framing import Frame

_STOP_REASONS: Final = {
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal",
    "model_context_window_exceeded", "compaction",
}  # fmt: skip
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
# The counts that each event always has; others may be missing or null.
_NEEDED_COUNTS: Final = {
    "message_start": ("input_tokens", "output_tokens"),
    "message_delta": ("output_tokens",),
}
# The block that each delta belongs to, and its field.
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "citations_delta": ("text", "citation"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
}

_WITH_INPUT: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
# The fields of the start of each known block.
_STARTS: Final[dict[str, dict[str, type]]] = {
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "server_tool_use": {"id": str, "name": str, "input": dict},
}

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


# The API allows several open blocks in theory and routes by index. Strict clients keep one "current
# block", so what penstock writes has one at a time.
class _Block:
    """The open block."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.has_text = False
        self.input: list[str] = []
        self.is_signed = False


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.block: _Block | None = None
        self.blocks = 0
        self.inputs: list[str] = []
        self.ids: set[str] = set()
        self.begun = False
        self.stop_reason = ""
        self.end = ""

    def check(self, data: bytes) -> list[str]:
        for frame, value in read_objects(data, self.report):
            self.read(frame, value)
        self.report.require(self.begun, "message_start is missing")
        self.report.require(bool(self.end), "the stream has no end")
        self.check_end()
        return self.report.found

    def read(self, frame: Frame, value: dict[str, Any]) -> None:
        report, kind = self.report, value.get("type")
        # Anthropic's SDKs skip a frame without an `event:` line, whatever its data says.
        report.require(frame.event == kind, f"a frame called {frame.event!r} is of type {kind!r}")
        # May come anywhere, also after the end; SDKs drop it.
        if kind == "ping":
            return
        report.require(not self.end, f"{kind} follows {self.end}")
        report.require(self.begun or kind == "message_start", f"{kind} precedes message_start")
        match kind:
            case "message_start":
                self.read_start(value.get("message"))
            case "content_block_start":
                self.read_block_start(value)
            case "content_block_delta":
                self.read_block_delta(value)
            case "content_block_stop":
                self.read_block_stop(value)
            case "message_delta":
                self.read_message_delta(value)
            case "message_stop":
                report.require(bool(self.stop_reason), "message_stop without a stop_reason")
                self.end = "message_stop"
            case "error":
                self.read_error(value.get("error"))
            case _:
                report.add(f"a frame is of type {kind!r}")

    # --- the message ---

    def read_start(self, message: Any) -> None:
        report = self.report
        report.require(not self.begun, "message_start comes twice")
        self.begun = True
        if not isinstance(message, dict):
            report.add("message_start has no message")
            return
        # Clients take this object as the message and fill its content: anything in it would come
        # twice.
        expected = {"type": "message", "role": "assistant", "content": []}
        for key, value in expected.items():
            report.require(message.get(key) == value, f"the {key} of message_start is not {value}")
        for key in ("stop_reason", "stop_sequence"):
            # Both are null until `message_delta`, and present: typed clients require the keys.
            report.require(message.get(key, "") is None, f"message_start has a {key}")
        report.require(is_text(message.get("id")), "message_start has no id")
        report.require(isinstance(message.get("model"), str), "message_start has no model")
        self.read_usage(message.get("usage"), "message_start")

    def read_usage(self, usage: Any, where: str) -> None:
        counts = usage if isinstance(usage, dict) else {}
        for key in _COUNTS:
            count = counts.get(key)
            is_optional = count is None and key not in _NEEDED_COUNTS[where]
            is_good = is_optional or is_count(count)
            self.report.require(is_good, f"the usage of {where} has no {key}")

    def read_message_delta(self, value: dict[str, Any]) -> None:
        """Read the stop reason; it may be repeated, with more tokens, but not change."""
        report, delta = self.report, value.get("delta")
        fields = delta if isinstance(delta, dict) else {}
        report.require(self.block is None, "message_delta while a block is open")
        reason, sequence = fields.get("stop_reason"), fields.get("stop_sequence")
        if reason is not None:
            report.require(is_one_of(reason, _STOP_REASONS), f"stop_reason is {reason!r}")
            # Servers repeat `message_delta` with more tokens.
            is_same = self.stop_reason in ("", reason)
            report.require(is_same, "there are two stop reasons")
            self.stop_reason = str(reason)
        # Null for every other stop reason, but never missing.
        report.require("stop_sequence" in fields, "message_delta has no stop_sequence")
        is_valid = sequence is None or (is_text(sequence) and reason == "stop_sequence")
        report.require(is_valid, "stop_sequence did not end the response")
        details = fields.get("stop_details")
        is_refusal = isinstance(details, dict) and details.get("type") == "refusal"
        is_valid = details is None or (is_refusal and reason == "refusal")
        report.require(is_valid, "stop_details of another reason")
        self.read_usage(value.get("usage"), "message_delta")

    def read_error(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {}
        self.report.require(is_text(fields.get("type")), "an error has no type")
        self.report.require(is_text(fields.get("message")), "an error has no message")
        self.report.require(not self.stop_reason, "an error follows the stop reason")
        self.end = "the error"

    # --- blocks ---

    def read_block_start(self, value: dict[str, Any]) -> None:
        report, start = self.report, value.get("content_block")
        report.require(self.block is None, "a block starts while another is open")
        report.require(not self.stop_reason, "a block follows the stop reason")
        # SDKs append a block at its start and look it up by index afterwards.
        report.require(value.get("index") == self.blocks, "the indexes of blocks are not in order")
        fields = start if isinstance(start, dict) else {}
        kind = fields.get("type")
        report.require(is_text(kind), "a block has no type")
        for key, type_ in _STARTS.get(str(kind), {}).items():
            report.require(isinstance(fields.get(key), type_), f"a block of {kind} has no {key}")
        self.block = _Block(str(kind))
        if kind in ("text", "thinking"):
            report.require(not fields.get(kind), f"a block of {kind} starts with {kind} in it")
        elif kind == "tool_use":
            self.read_call(fields)

    def read_call(self, fields: dict[str, Any]) -> None:
        id_ = str(fields.get("id"))
        self.report.require(_ID.fullmatch(id_) is not None, f"a call has the id {id_!r}")
        self.report.require(id_ not in self.ids, "two calls have one id")
        self.report.require(is_text(fields.get("name")), "a call has no name")
        # The input streams as `input_json_delta`; SDKs replace what the start had.
        self.report.require(fields.get("input") == {}, "a call starts with input in it")
        self.ids.add(id_)

    def read_block_delta(self, value: dict[str, Any]) -> None:
        report, delta, block = self.report, value.get("delta"), self.block
        if block is None or value.get("index") != self.blocks:
            report.add("a delta for a block that is not open")
            return
        fields = delta if isinstance(delta, dict) else {}
        kind = str(fields.get("type"))
        # The signature comes right before the stop of its block.
        report.require(not block.is_signed, "a delta follows the signature")
        if kind == "input_json_delta":
            report.require(block.kind in _WITH_INPUT, f"{kind} in a block of {block.kind}")
            report.require(isinstance(fields.get("partial_json"), str), f"{kind} has no text")
            block.input.append(str(fields.get("partial_json")))
        elif kind in _DELTAS:
            self.read_known_delta(block, kind, fields)
        else:
            report.add(f"a delta is of type {kind!r}")

    def read_known_delta(self, block: _Block, kind: str, fields: dict[str, Any]) -> None:
        owner, key = _DELTAS[kind]
        self.report.require(block.kind == owner, f"{kind} in a block of {block.kind}")
        type_ = dict if key == "citation" else str
        self.report.require(isinstance(fields.get(key), type_), f"{kind} has no {key}")
        block.is_signed = kind == "signature_delta"
        if kind == "text_delta":
            block.has_text |= bool(str(fields.get(key)).strip())

    def read_block_stop(self, value: dict[str, Any]) -> None:
        report, block = self.report, self.block
        if block is None or value.get("index") != self.blocks:
            report.add("a block stops that is not open")
            return
        if block.kind == "text":
            # The API refuses such a block when a client sends it back.
            report.require(block.has_text, "a text block is empty")
        elif block.kind == "tool_use":
            # Even a call without arguments has one, usually with "".
            report.require(bool(block.input), "a call has no input_json_delta")
            self.inputs.append("".join(block.input))
        self.block = None
        self.blocks += 1

    def check_end(self) -> None:
        if self.stop_reason == "tool_use":
            self.report.require(bool(self.inputs), "tool_use without calls")
            for input_ in filter(None, self.inputs):  # The API sends an empty input so.
                self.report.require_object(input_)
        elif self.stop_reason in ("end_turn", "stop_sequence", "pause_turn"):
            self.report.require(not self.inputs, f"calls end in {self.stop_reason}")
