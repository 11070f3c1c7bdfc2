"""The law of a UI message stream, and a client that folds one into a message.

`check` holds chunks to the protocol: the fields of each, ids that are opened and closed once, steps
that are balanced, calls that end once, one end. `Client` does with a chunk what the AI SDK does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock import _json
from penstock.agent.ai_sdk_stream import DONE, encode
from penstock.framing import sse

Chunk = dict[str, Any]

FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "start": (set(), {"messageId", "messageMetadata"}),
    "start-step": (set(), set()),
    "finish-step": (set(), set()),
    "text-start": ({"id"}, set()),
    "text-delta": ({"id", "delta"}, set()),
    "text-end": ({"id"}, {"providerMetadata"}),
    "reasoning-start": ({"id"}, set()),
    "reasoning-delta": ({"id", "delta"}, set()),
    "reasoning-end": ({"id"}, {"providerMetadata"}),
    "tool-input-start": ({"toolCallId", "toolName"}, set()),
    "tool-input-delta": ({"toolCallId", "inputTextDelta"}, set()),
    "tool-input-available": ({"toolCallId", "toolName", "input"}, {"providerMetadata"}),
    "tool-input-error": ({"toolCallId", "toolName", "input", "errorText"}, set()),
    "tool-approval-request": ({"toolCallId", "approvalId"}, set()),
    "tool-output-available": ({"toolCallId", "output"}, {"preliminary", "providerMetadata"}),
    "tool-output-error": ({"toolCallId", "errorText"}, {"providerMetadata"}),
    "tool-output-denied": ({"toolCallId"}, set()),
    "message-metadata": ({"messageMetadata"}, set()),
    "error": ({"errorText"}, set()),
    "finish": ({"finishReason"}, set()),
    "abort": ({"reason"}, set()),
}
REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}
STAYS = {"data-dropped", "data-said", "data-reminder", "data-opaque", "data-arguments"}
PASSES = {"data-finding", "data-retry", "data-compaction", "data-extension-error", "data-approval"}


class Law:
    """Follows the chunks of one stream; *waiting* are the calls that its client already shows."""

    def __init__(self, waiting: Iterable[str] = ()) -> None:
        self.started = self.ended = self.in_step = False
        self.texts: dict[str, bool] = {}  # an id, and whether it is open
        self.calls = dict.fromkeys(waiting, "whole")
        self.known = set(self.calls)

    def add(self, chunk: Chunk) -> None:
        kind = chunk["type"]
        assert not self.ended, f"{kind} behind the end"
        assert self.started or kind == "start", f"{kind} before the start"
        check_fields(chunk)
        if kind.startswith(("text-", "reasoning-")):
            self.text(chunk)
        elif kind.startswith("tool-"):
            self.call(chunk)
        elif kind in ("start-step", "finish-step"):
            self.step(kind)
        elif kind == "start":
            assert not self.started, "two starts"
            self.started = True
        elif kind in ("finish", "abort", "error"):
            assert not self.in_step, f"{kind} within a step"
            self.ended = kind != "error"

    def step(self, kind: str) -> None:
        assert self.in_step == (kind == "finish-step")
        self.in_step = not self.in_step
        if self.in_step:
            self.calls = {}
            return
        assert not any(self.texts.values()), "a step ends with an open text"
        assert set(self.calls.values()) <= {"ended", "asked"}, f"a call hangs: {self.calls}"

    def text(self, chunk: Chunk) -> None:
        assert self.in_step, f"{chunk} outside of a step"
        id_, kind = chunk["id"], chunk["type"]
        assert id_.split("-")[-2] == kind.split("-")[0]
        if kind.endswith("-start"):
            assert id_ not in self.texts, f"{id_} twice"
        else:
            assert self.texts[id_], f"{kind} of {id_}, which is closed"
            assert chunk.get("delta") != "", "a delta without a word"
        self.texts[id_] = not kind.endswith("-end")

    def call(self, chunk: Chunk) -> None:
        kind, id_ = chunk["type"], chunk["toolCallId"]
        if kind == "tool-input-start":
            assert self.in_step
            assert id_ not in self.calls, f"{id_} twice in a step"
            self.calls[id_] = "streaming"
            return
        state = self.calls[id_]
        if kind.startswith("tool-input"):
            assert state == "streaming", f"{kind} of {id_}, which is {state}"
            ends = {"tool-input-delta": state, "tool-input-error": "ended"}
            self.calls[id_] = ends.get(kind, "whole")
            return
        assert state == "whole", f"{kind} of {id_}, which is {state}"
        if kind == "tool-output-denied":
            assert id_ in self.known, "denied, and the client was never asked"
        if kind == "tool-approval-request":
            self.calls[id_] = "asked"
        elif not chunk.get("preliminary"):
            self.calls[id_] = "ended"


def check_fields(chunk: Chunk) -> None:
    kind = chunk["type"]
    if kind.startswith("data-"):
        assert kind in (PASSES if chunk.get("transient") else STAYS), kind
        assert set(chunk) <= {"type", "data", "transient"}
        assert isinstance(chunk["data"], dict)
        return
    needed, may = FIELDS[kind]
    assert needed <= set(chunk) - {"type"} <= needed | may, chunk
    assert chunk.get("finishReason", "stop") in REASONS
    for name in ("id", "toolCallId", "toolName", "errorText", "delta", "inputTextDelta", "reason"):
        assert isinstance(chunk.get(name, ""), str), chunk


def check(chunks: list[Chunk], waiting: Iterable[str] = ()) -> None:
    """Fail for what no client takes; also for what does not come through the wire as it is."""
    law = Law(waiting)
    for chunk in chunks:
        law.add(chunk)
        (frame,) = sse.Decoder().feed(encode(chunk))
        assert _json.decode(frame.data) == chunk
    assert law.ended, "there is no end"
    assert set(law.calls.values()) <= {"ended", "asked", "whole"}


def chunks_of(body: bytes) -> list[Chunk]:
    """Read the body of a response."""
    assert body.endswith(DONE)
    frames = sse.Decoder().feed(body)
    return [_json.decode(frame.data) for frame in frames[:-1]]


class Client:
    """Folds chunks into the parts of a message, as the AI SDK does."""

    def __init__(self, message: dict[str, Any] | None = None) -> None:
        self.message = message or {"id": "ui-1", "role": "assistant", "parts": []}
        self.parts: list[dict[str, Any]] = self.message["parts"]
        self.open: dict[str, dict[str, Any]] = {}
        self.told: list[Chunk] = []  # the notes
        self.error = ""

    def add(self, chunk: Chunk) -> None:
        kind = chunk["type"]
        if kind.startswith("data-"):
            self.told.append(chunk) if chunk.get("transient") else self.parts.append(chunk)
        elif kind.startswith(("text-", "reasoning-")):
            self.text(kind, chunk)
        elif kind.startswith("tool-"):
            self.call(kind, chunk)
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
        elif kind == "error":
            self.error = chunk["errorText"]
        if metadata := chunk.get("messageMetadata"):
            self.message.setdefault("metadata", {}).update(metadata)

    def text(self, kind: str, chunk: Chunk) -> None:
        name, _, step = kind.partition("-")
        if step == "start":
            self.open[chunk["id"]] = {"type": name, "text": "", "state": "streaming"}
            self.parts.append(self.open[chunk["id"]])
        elif step == "delta":
            self.open[chunk["id"]]["text"] += chunk["delta"]
        else:
            part = self.open.pop(chunk["id"])
            part["state"] = "done"
            if "providerMetadata" in chunk:
                part["providerMetadata"] = chunk["providerMetadata"]

    def find(self, id_: str) -> dict[str, Any]:
        return next(part for part in reversed(self.parts) if part.get("toolCallId") == id_)

    def call(self, kind: str, chunk: Chunk) -> None:
        id_ = chunk["toolCallId"]
        if kind == "tool-input-start":
            made = {"type": f"tool-{chunk['toolName']}", "toolCallId": id_}
            self.parts.append(made | {"state": "input-streaming"})
            return
        part = self.find(id_)
        match kind:
            case "tool-input-delta":
                part["rawInput"] = part.get("rawInput", "") + chunk["inputTextDelta"]
            case "tool-input-available":
                part.pop("rawInput", None)
                part |= {"state": "input-available", "input": chunk["input"]}
                if "providerMetadata" in chunk:
                    part["callProviderMetadata"] = chunk["providerMetadata"]
            case "tool-input-error":
                part |= {"state": "output-error", "rawInput": chunk["input"]}
                part["errorText"] = chunk["errorText"]
            case "tool-approval-request":
                part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-denied":
                part["state"] = "output-denied"
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
                part.pop("output", None)
            case _:
                part |= {"state": "output-available", "output": chunk["output"]}
                part["preliminary"] = chunk.get("preliminary", False)

    def answer(self, *, approved: bool, reason: str | None = None) -> None:
        """Answer every question whether a call may run."""
        for part in self.parts:
            if part.get("state") == "approval-requested":
                part["state"] = "approval-responded"
                part["approval"] |= {"approved": approved}
                part["approval"] |= {"reason": reason} if reason else {}


def folded(chunks: Iterable[Chunk], message: dict[str, Any] | None = None) -> Client:
    """Fold *chunks* into a message, or go on with *message*."""
    client = Client(message)
    for chunk in chunks:
        client.add(chunk)
    return client
