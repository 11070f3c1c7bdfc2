"""Responses, as the fake upstream says them; they have no reasoning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from gateway.dialects.frames import CREATED, JSON, PROMPT_TOKENS, call_id, frame
from gateway.scenarios import TOOL, Piece, Scenario, pieces_of


def stream(model: str, scenario: Scenario) -> Iterator[bytes]:
    """Yield *scenario* as response events, without reasoning."""
    numbers = count()

    def event(kind: str, **fields: Any) -> bytes:
        return frame({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    response = whole(model, scenario, [])
    yield event("response.created", response={**response, "status": "in_progress", "usage": None})
    said: list[Piece] = []
    index, opened = -1, ("", 0)
    for piece in pieces_of(scenario):
        if piece.kind == "thinking":
            continue
        kind = "call" if piece.kind == "arguments" else piece.kind
        if (kind, piece.call) != opened:
            yield from _item_end(event, index, said)
            index, opened = index + 1, (kind, piece.call)
            yield from _item_start(event, index, piece)
        said.append(piece)
        if piece.kind != "call":
            yield _item_delta(event, index, piece)
    items = _items(said)
    yield from _item_end(event, index, said)
    if scenario.fault not in ("nofinish", "nodone"):  # The last frame says both.
        yield event("response.completed", response={**response, "output": items})


def _item_start(event: Callable[..., bytes], index: int, piece: Piece) -> Iterator[bytes]:
    item = {**_item([piece], index), "status": "in_progress"}
    if piece.kind == "text":
        item["content"] = []
    yield event("response.output_item.added", output_index=index, item=item)
    if piece.kind == "text":
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        yield event("response.content_part.added", **place, part=part)


def _item_delta(event: Callable[..., bytes], index: int, piece: Piece) -> bytes:
    if piece.kind == "text":
        place = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
        return event("response.output_text.delta", **place, delta=piece.text, logprobs=[])
    place = {"item_id": f"fc_{index}", "output_index": index}
    return event("response.function_call_arguments.delta", **place, delta=piece.text)


def _item_end(event: Callable[..., bytes], index: int, said: list[Piece]) -> Iterator[bytes]:
    """End the item that is open, if there is one: the last of what was *said*."""
    if index < 0:
        return
    item = _items(said)[index]
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        part = item["content"][0]
        yield event(
            "response.output_text.done", **place, content_index=0, text=part["text"], logprobs=[]
        )
        yield event("response.content_part.done", **place, content_index=0, part=part)
    else:
        done = "response.function_call_arguments.done"
        yield event(done, **place, name=TOOL, arguments=item["arguments"])
    yield event("response.output_item.done", output_index=index, item=item)


def _items(said: list[Piece]) -> list[JSON]:
    grouped: dict[tuple[bool, int], list[Piece]] = {}
    for piece in said:
        grouped.setdefault((piece.kind == "text", piece.call), []).append(piece)
    return [_item(pieces, index) for index, pieces in enumerate(grouped.values())]


def _item(pieces: list[Piece], index: int) -> JSON:
    text = "".join(piece.text for piece in pieces)
    if pieces[0].kind == "text":
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{index}", "type": "message", "role": "assistant"}
        return {**message, "status": "completed", "content": [part]}
    call = {"id": f"fc_{index}", "type": "function_call", "call_id": call_id(pieces[0].call)}
    return {**call, "status": "completed", "name": TOOL, "arguments": text}


def _usage(scenario: Scenario) -> JSON:
    return {
        "input_tokens": PROMPT_TOKENS,
        "output_tokens": scenario.pieces,
        "total_tokens": PROMPT_TOKENS + scenario.pieces,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


def whole(model: str, scenario: Scenario, said: list[Piece]) -> JSON:
    """Make a response of what was *said*."""
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": CREATED,
        "model": model,
        "status": "completed",
        "output": _items([piece for piece in said if piece.kind != "thinking"]),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": _usage(scenario),
    }
