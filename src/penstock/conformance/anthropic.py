"""The grammar of a message stream, checked from the outside.

Knows nothing of the encoder: it reads bytes as a strict client does and lists what one of them
would stumble over.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.conformance.base import Complaints, is_count, is_text, is_word_of, objects_of
from penstock.framing.base import Frame

_STOP_REASONS: Final = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
}
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_NEEDED_COUNTS: Final = {
    "message_start": ("input_tokens", "output_tokens"),
    "message_delta": ("output_tokens",),
}
"""Of each event with counts, those that it always has; the others may be missing or `null`."""
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "citations_delta": ("text", "citation"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
}
"""Of each delta, the block that it belongs to and the field that it has."""

_WITH_INPUT: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_STARTS: Final[dict[str, dict[str, type]]] = {
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "server_tool_use": {"id": str, "name": str, "input": dict},
}
"""Of each block that is known, the fields that its start has."""

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Block:
    """The block that is open."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.says_something = False
        self.input: list[str] = []
        self.is_signed = False


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.block: _Block | None = None
        self.blocks = 0
        self.inputs: list[str] = []
        self.ids: set[str] = set()
        self.begun = False
        self.stop_reason = ""
        self.end = ""

    def check(self, data: bytes) -> list[str]:
        for frame, value in objects_of(data, self.complain):
            self.read(frame, value)
        self.complain.unless(self.begun, "message_start is missing")
        self.complain.unless(bool(self.end), "the stream has no end")
        self.check_end()
        return self.complain.found

    def read(self, frame: Frame, value: dict[str, Any]) -> None:
        complain, kind = self.complain, value.get("type")
        complain.unless(frame.event == kind, f"a frame called {frame.event!r} is of type {kind!r}")
        if kind == "ping":
            return
        complain.unless(not self.end, f"{kind} follows {self.end}")
        complain.unless(self.begun or kind == "message_start", f"{kind} precedes message_start")
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
                complain.unless(bool(self.stop_reason), "message_stop without a stop_reason")
                self.end = "message_stop"
            case "error":
                self.read_error(value.get("error"))
            case _:
                complain(f"a frame is of type {kind!r}")

    # --- the message ---

    def read_start(self, message: Any) -> None:
        complain = self.complain
        complain.unless(not self.begun, "message_start comes twice")
        self.begun = True
        if not isinstance(message, dict):
            complain("message_start has no message")
            return
        expected = {"type": "message", "role": "assistant", "content": []}
        for key, value in expected.items():
            complain.unless(message.get(key) == value, f"the {key} of message_start is not {value}")
        for key in ("stop_reason", "stop_sequence"):
            complain.unless(message.get(key, "") is None, f"message_start has a {key}")
        complain.unless(is_text(message.get("id")), "message_start has no id")
        complain.unless(isinstance(message.get("model"), str), "message_start has no model")
        self.read_usage(message.get("usage"), "message_start")

    def read_usage(self, usage: Any, where: str) -> None:
        counts = usage if isinstance(usage, dict) else {}
        for key in _COUNTS:
            count = counts.get(key)
            is_left_out = count is None and key not in _NEEDED_COUNTS[where]
            is_good = is_left_out or is_count(count)
            self.complain.unless(is_good, f"the usage of {where} has no {key}")

    def read_message_delta(self, value: dict[str, Any]) -> None:
        """Read the reason to stop; it may come again, with more tokens, but not change."""
        complain, delta = self.complain, value.get("delta")
        fields = delta if isinstance(delta, dict) else {}
        complain.unless(self.block is None, "message_delta while a block is open")
        reason, sequence = fields.get("stop_reason"), fields.get("stop_sequence")
        if reason is not None:
            complain.unless(is_word_of(reason, _STOP_REASONS), f"stop_reason is {reason!r}")
            is_same = self.stop_reason in ("", reason)
            complain.unless(is_same, "there are two reasons to stop")
            self.stop_reason = str(reason)
        complain.unless("stop_sequence" in fields, "message_delta has no stop_sequence")
        is_told = sequence is None or (is_text(sequence) and reason == "stop_sequence")
        complain.unless(is_told, "stop_sequence is not what stopped the answer")
        details = fields.get("stop_details")
        is_refusal = isinstance(details, dict) and details.get("type") == "refusal"
        is_told = details is None or (is_refusal and reason == "refusal")
        complain.unless(is_told, "stop_details of another reason")
        self.read_usage(value.get("usage"), "message_delta")

    def read_error(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {}
        self.complain.unless(is_text(fields.get("type")), "an error has no type")
        self.complain.unless(is_text(fields.get("message")), "an error has no message")
        self.complain.unless(not self.stop_reason, "an error follows the reason to stop")
        self.end = "the error"

    # --- blocks ---

    def read_block_start(self, value: dict[str, Any]) -> None:
        complain, start = self.complain, value.get("content_block")
        complain.unless(self.block is None, "a block starts while another is open")
        complain.unless(not self.stop_reason, "a block follows the reason to stop")
        complain.unless(value.get("index") == self.blocks, "the indexes of blocks are not in order")
        fields = start if isinstance(start, dict) else {}
        kind = fields.get("type")
        complain.unless(is_text(kind), "a block has no type")
        for key, type_ in _STARTS.get(str(kind), {}).items():
            complain.unless(isinstance(fields.get(key), type_), f"a block of {kind} has no {key}")
        self.block = _Block(str(kind))
        if kind in ("text", "thinking"):
            complain.unless(not fields.get(kind), f"a block of {kind} starts with {kind} in it")
        elif kind == "tool_use":
            self.read_call(fields)

    def read_call(self, fields: dict[str, Any]) -> None:
        id_ = str(fields.get("id"))
        self.complain.unless(_ID.fullmatch(id_) is not None, f"a call has the id {id_!r}")
        self.complain.unless(id_ not in self.ids, "two calls have one id")
        self.complain.unless(is_text(fields.get("name")), "a call has no name")
        self.complain.unless(fields.get("input") == {}, "a call starts with input in it")
        self.ids.add(id_)

    def read_block_delta(self, value: dict[str, Any]) -> None:
        complain, delta, block = self.complain, value.get("delta"), self.block
        if block is None or value.get("index") != self.blocks:
            complain("a delta for a block that is not open")
            return
        fields = delta if isinstance(delta, dict) else {}
        kind = str(fields.get("type"))
        complain.unless(not block.is_signed, "a delta follows the signature")
        if kind == "input_json_delta":
            complain.unless(block.kind in _WITH_INPUT, f"{kind} in a block of {block.kind}")
            complain.unless(isinstance(fields.get("partial_json"), str), f"{kind} has no text")
            block.input.append(str(fields.get("partial_json")))
        elif kind in _DELTAS:
            self.read_known_delta(block, kind, fields)
        else:
            complain(f"a delta is of type {kind!r}")

    def read_known_delta(self, block: _Block, kind: str, fields: dict[str, Any]) -> None:
        owner, key = _DELTAS[kind]
        self.complain.unless(block.kind == owner, f"{kind} in a block of {block.kind}")
        type_ = dict if key == "citation" else str
        self.complain.unless(isinstance(fields.get(key), type_), f"{kind} has no {key}")
        block.is_signed = kind == "signature_delta"
        if kind == "text_delta":
            block.says_something |= bool(str(fields.get(key)).strip())

    def read_block_stop(self, value: dict[str, Any]) -> None:
        complain, block = self.complain, self.block
        if block is None or value.get("index") != self.blocks:
            complain("a block stops that is not open")
            return
        if block.kind == "text":
            complain.unless(block.says_something, "a block of text says nothing")
        elif block.kind == "tool_use":
            complain.unless(bool(block.input), "a call has no input_json_delta")
            self.inputs.append("".join(block.input))
        self.block = None
        self.blocks += 1

    def check_end(self) -> None:
        if self.stop_reason == "tool_use":
            self.complain.unless(bool(self.inputs), "tool_use without calls")
            for input_ in filter(None, self.inputs):  # The API says no input so.
                self.complain.unless_object(input_)
        elif self.stop_reason in ("end_turn", "stop_sequence", "pause_turn"):
            self.complain.unless(not self.inputs, f"calls end in {self.stop_reason}")
