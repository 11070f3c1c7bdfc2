"""A server that says what the name of the model asks for, and fails as it asks for, in any API.

The name is ``fake[-cN][-mMODE][-fFAULT@K]``: N pieces, in a mode, with a fault behind K frames.
Frames are written here by hand, so that nothing is read by the code that wrote it.

* text: pieces that are numbered, so that none can be lost, doubled or swapped;
* native, par: one call of ``read_file``, or three, their arguments in pieces;
* hermes, xml: a call as text; think: half of the pieces are thoughts;
* cut, rst, stall: the connection ends, is reset, falls silent;
* badjson: a frame that is no JSON; nodone, nofinish: no mark of the end, no reason for it;
* err: an error in the stream; http500, http429, html: no stream at all;
* gzip: compressed; slow: the first byte comes late.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from models.loopback_servers import CUT, NEW_CHAT, RESET, STALL, Reply, Seen, Step, refusal

MODES = ("text", "native", "par", "hermes", "xml", "think")
NOTE = 'é"{}' + "q" * 20
LATE = 0.05
"""How many seconds a slow server takes to its first byte."""

HTML = b"<!doctype html><title>Bad gateway</title>"
_ENDS: dict[str, Step] = {"cut": CUT, "rst": RESET, "stall": STALL}
_BROKEN = b'{"id":"fake","choices":[{"delta":{"content":"tr'


@dataclass
class Scenario:
    """What a name asks for."""

    pieces: int = 12
    mode: str = "text"
    fault: str = ""
    after: int = 3
    words: str = ""  # in place of those of the mode

    @property
    def arguments(self) -> list[dict[str, str]]:
        """What the calls are called with."""
        calls = {"native": 1, "par": 3, "hermes": 1, "xml": 1}.get(self.mode, 0)
        return [{"path": f"/srv/data/{n}.txt", "note": NOTE} for n in range(calls)]

    @property
    def numbers(self) -> list[str]:
        return [f"{n};" for n in range(self.pieces)]

    def said(self) -> list[str]:
        """Return the pieces of text."""
        if self.words:
            return cut(self.words, self.pieces)
        if self.mode == "think":
            return self.numbers[self.pieces // 2 :]
        if self.mode == "text":
            return self.numbers
        if self.mode in ("native", "par"):
            return []
        (arguments,) = self.arguments
        if self.mode == "hermes":
            call = json.dumps({"name": "read_file", "arguments": arguments}, ensure_ascii=False)
            return cut(f"Reading now.\n<tool_call>\n{call}\n</tool_call>", self.pieces)
        inner = "\n".join(f"<{name}>{value}</{name}>" for name, value in arguments.items())
        return cut(f"Reading now.\n<read_file>\n{inner}\n</read_file>", self.pieces)

    def thought(self) -> list[str]:
        """Return the pieces of thinking."""
        return self.numbers[: self.pieces // 2] if self.mode == "think" else []

    def calls(self) -> Iterator[tuple[int, list[str]]]:
        """Return the number of each native call, and its arguments in pieces."""
        for number, arguments in enumerate(self.arguments):
            if self.mode in ("native", "par"):
                yield number, cut(json.dumps(arguments, ensure_ascii=False), self.pieces)


def scenario_of(model: str) -> Scenario:
    """Read what *model* asks for."""
    found = Scenario()
    for part in model.split("-")[1:]:
        word, _, after = part[1:].partition("@")
        if re.fullmatch(r"c\d+", part):
            found.pieces = int(word)
        elif part[:1] == "m" and word in MODES:
            found.mode = word
        elif part[:1] == "f":
            found.fault, found.after = word, int(after or found.after)
    return found


def cut(text: str, pieces: int) -> list[str]:
    """Cut *text* into as many pieces, as equal as can be."""
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]


def script(api: str, words: str = "") -> Callable[[Seen], Reply]:
    """Return a server of *api* that answers by the name of the model, or says *words*."""

    def answer(seen: Seen) -> Reply:
        if seen.path == "/api/v2/chats/new":
            return NEW_CHAT
        model = unquote(seen.path.rpartition("/")[2]).partition(":")[0]
        asked = scenario_of(model if api == "gemini" else seen.json["model"])
        asked.words = words
        return reply(api, asked)

    return answer


def reply(api: str, asked: Scenario) -> Reply:
    """Return the answer of a server of *api*."""
    if asked.fault.startswith("http"):
        planned = {"error": {"message": "planned", "type": "server_error"}}
        return refusal(int(asked.fault[4:]), planned, retry_after="1")
    if asked.fault == "html":
        return Reply(whole=HTML, headers={"content-type": "text/html"})
    frames = [framed(api, frame) for frame in FRAMES[api](asked)]
    if asked.fault == "gzip":
        return Reply([gzip.compress(b"".join(frames))], headers={"content-encoding": "gzip"})
    steps: list[Step] = [*frames]
    after = min(asked.after, len(frames) - 1)
    if asked.fault in _ENDS:
        steps = [*frames[:after], _ENDS[asked.fault]]
    elif asked.fault == "badjson":
        steps.insert(after, framed(api, _BROKEN))
    elif asked.fault == "err":
        steps = [*frames[:after], framed(api, ERRORS[api])]
    elif asked.fault == "slow":
        steps.insert(0, LATE)
    headers = {"content-type": "application/x-ndjson"} if api == "ollama" else {}
    return Reply(steps, headers=headers)


def framed(api: str, frame: dict[str, Any] | bytes) -> bytes:
    """Write *frame* as a server of *api* does."""
    data = frame if isinstance(frame, bytes) else json.dumps(frame, ensure_ascii=False).encode()
    if api == "ollama":
        return data + b"\n"
    kind = frame.get("type", "") if isinstance(frame, dict) else ""
    named = (
        f"event: {kind}\n".encode() if kind and api in ("anthropic", "openai-responses") else b""
    )
    return named + b"data: " + data + b"\n\n"


# --- frames ---

Frames = Iterator[dict[str, Any] | bytes]


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "fake", "object": "chat.completion.chunk", "model": "fake", "choices": choices}


def _call_deltas(asked: Scenario) -> Iterator[dict[str, Any]]:
    for number, pieces in asked.calls():
        head = {"index": number, "id": f"call_{number:04}", "type": "function"}
        yield {"tool_calls": [{**head, "function": {"name": "read_file", "arguments": ""}}]}
        for piece in pieces:
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _chat(asked: Scenario) -> Frames:
    yield _choice({"role": "assistant", "content": ""})
    yield from (_choice({"reasoning_content": piece}) for piece in asked.thought())
    yield from (_choice({"content": piece}) for piece in asked.said())
    yield from map(_choice, _call_deltas(asked))
    if asked.fault != "nofinish":
        yield _choice({}, "tool_calls" if any(asked.calls()) else "stop")
    counts = {"prompt_tokens": 11, "completion_tokens": asked.pieces, "total_tokens": 99}
    yield {**_choice({}), "choices": [], "usage": counts}
    if asked.fault != "nodone":
        yield b"[DONE]"


def _qwen(asked: Scenario) -> Frames:
    def delta(said: str = "", phase: str = "answer", **more: Any) -> dict[str, Any]:
        fields = {"role": "assistant", "content": said, "phase": phase, "status": "typing", **more}
        counts = {"input_tokens": 11, "output_tokens": asked.pieces, "total_tokens": 99}
        return {"choices": [{"delta": fields}], "usage": counts}

    ids = {"chat_id": "chat-1", "parent_id": "p", "response_id": "r"}
    yield {"response.created": ids}
    yield from (delta(piece, "think") for piece in asked.thought())
    yield from (delta(piece) for piece in asked.said())
    yield from (delta(**each) for each in _call_deltas(asked))
    if asked.fault != "nofinish":
        yield delta(status="finished")
    if asked.fault not in ("nodone", "nofinish"):
        yield b"[DONE]"


def _anthropic(asked: Scenario) -> Frames:
    counts = {"input_tokens": 11, "output_tokens": 1}
    head = {"id": "msg", "type": "message", "role": "assistant", "model": "fake", "content": []}
    yield {"type": "message_start", "message": {**head, "usage": counts}}
    blocks: list[tuple[dict[str, Any], str, str, list[str]]] = []
    if asked.thought():
        empty = {"type": "thinking", "thinking": ""}
        blocks.append((empty, "thinking_delta", "thinking", asked.thought()))
    if asked.said():
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", asked.said()))
    for number, pieces in asked.calls():
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": {}}
        blocks.append((call, "input_json_delta", "partial_json", pieces))
    for at, (block, kind, key, pieces) in enumerate(blocks):
        yield {"type": "content_block_start", "index": at, "content_block": block}
        for piece in pieces:
            said = {"type": kind, key: piece}
            yield {"type": "content_block_delta", "index": at, "delta": said}
        yield {"type": "content_block_stop", "index": at}
    if asked.fault != "nofinish":
        reason = "tool_use" if any(asked.calls()) else "end_turn"
        used = {"output_tokens": asked.pieces}
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": used}
        yield {"type": "message_stop"}


def _responses(asked: Scenario) -> Frames:
    response: dict[str, Any] = {"id": "resp", "object": "response", "model": "fake", "output": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    items: list[tuple[dict[str, Any], str, list[str]]] = []
    if asked.thought():
        thinking = {"type": "reasoning", "id": "rs", "summary": []}
        items.append((thinking, "response.reasoning_text.delta", asked.thought()))
    if asked.said():
        message = {"type": "message", "id": "msg", "role": "assistant", "content": []}
        items.append((message, "response.output_text.delta", asked.said()))
    for number, pieces in asked.calls():
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        call |= {"name": "read_file", "arguments": ""}
        items.append((call, "response.function_call_arguments.delta", pieces))
    for at, (item, kind, pieces) in enumerate(items):
        place = {"item_id": item["id"], "output_index": at, "content_index": 0}
        yield {"type": "response.output_item.added", "output_index": at, "item": item}
        for piece in pieces:
            yield {"type": kind, **place, "delta": piece}
        whole = {**item, **_whole_item(item["type"], "".join(pieces))}
        yield {"type": "response.output_item.done", "output_index": at, "item": whole}
    if asked.fault != "nofinish":
        counts = {"input_tokens": 11, "output_tokens": asked.pieces, "total_tokens": 99}
        done = {**response, "status": "completed", "usage": counts}
        yield {"type": "response.completed", "response": done}


def _whole_item(kind: str, text: str) -> dict[str, Any]:
    if kind == "message":
        return {"content": [{"type": "output_text", "text": text}]}
    return {"arguments": text} if kind == "function_call" else {}


def _gemini(asked: Scenario) -> Frames:
    def chunk(part: dict[str, Any], **more: Any) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, **more}
        counts = {"promptTokenCount": 11, "candidatesTokenCount": asked.pieces}
        return {"candidates": [candidate], "usageMetadata": counts, "responseId": "fake"}

    yield from (chunk({"text": piece, "thought": True}) for piece in asked.thought())
    yield from (chunk({"text": piece}) for piece in asked.said())
    for _, pieces in asked.calls():  # It gives a call as a whole.
        arguments = json.loads("".join(pieces))
        yield chunk({"functionCall": {"name": "read_file", "args": arguments}})
    if asked.fault != "nofinish":
        yield chunk({"text": ""}, finishReason="STOP")


def _ollama(asked: Scenario) -> Frames:
    def line(*, done: bool = False, **said: Any) -> dict[str, Any]:
        message = {"role": "assistant", "content": "", **said}
        return {"model": "fake", "message": message, "done": done}

    yield from (line(thinking=piece) for piece in asked.thought())
    yield from (line(content=piece) for piece in asked.said())
    for _, pieces in asked.calls():
        function = {"name": "read_file", "arguments": json.loads("".join(pieces))}
        yield line(tool_calls=[{"function": function}])
    if asked.fault != "nofinish":
        counts = {"prompt_eval_count": 11, "eval_count": asked.pieces}
        yield {**line(done=True), "done_reason": "stop", **counts}


FRAMES: dict[str, Callable[[Scenario], Frames]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "qwen": _qwen,
}
_EXPLODED = {"message": "upstream exploded", "type": "server_error", "code": 503}
ERRORS: dict[str, dict[str, Any]] = {
    "openai-chat": {"error": _EXPLODED},
    "openai-responses": {"type": "error", "error": _EXPLODED},
    "anthropic": {"type": "error", "error": {**_EXPLODED, "type": "overloaded_error"}},
    "gemini": {"error": {**_EXPLODED, "status": "UNAVAILABLE"}},
    "ollama": {"error": "upstream exploded"},
    "qwen": {"error": {"code": "internal", "details": "upstream exploded"}},
}
