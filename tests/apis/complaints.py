"""What users of gateways complain of, as streams: the shape that broke, and what it means.

Each case is an upstream's bytes, in one of the shapes that made a gateway lose or garble a call,
and the answer that every client has to get, whatever API it speaks. Numbers are ours; several
reports of one shape are one case.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field

Call = tuple[str, dict[str, Any]]


class Complaint(Struct, frozen=True):
    """An upstream's stream, and the answer in it; *tools* where calls come as text."""

    name: str
    upstream: str
    data: bytes
    text: str = ""
    thinking: str = ""
    calls: list[Call] = field(default_factory=list)
    reason: str = "stop"
    input_tokens: int | None = None
    format: str = ""


def sse(*objects: Any, event: bool = False) -> bytes:
    frames = []
    for item in objects:
        name = f"event: {item['type']}\n" if event else ""
        data = item if isinstance(item, str) else json.dumps(item)
        frames.append(f"{name}data: {data}\n\n")
    return "".join(frames).encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> Any:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]} | more


def calls(*deltas: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(deltas)}


def call(index: int | None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    return ({} if index is None else {"index": index}) | more | {"function": function}


def item(index: int, name: str, arguments: str = "", **more: Any) -> dict[str, Any]:
    ids = {"id": f"fc_{index}", "call_id": f"call_{index}"}
    return {"type": "function_call", "name": name, "arguments": arguments, **ids, **more}


def added(index: int, item_: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item_}


def ended(index: int, item_: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item_}


def piece(index: int, delta: str) -> dict[str, Any]:
    type_ = "response.function_call_arguments.delta"
    return {"type": type_, "output_index": index, "item_id": f"fc_{index}", "delta": delta}


def whole(index: int, arguments: str) -> dict[str, Any]:
    type_ = "response.function_call_arguments.done"
    return {"type": type_, "output_index": index, "item_id": f"fc_{index}", "arguments": arguments}


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "r1", "model": "m", "status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": response}


CREATED = {"type": "response.created", "response": {"id": "r1", "model": "m", "output": []}}
MESSAGE = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
TWO = [("weather", {"city": "Brest"}), ("tide", {"port": "Brest"})]
ONE = TWO[:1]
BREST = '{"city": "Brest"}'
PORT = '{"port": "Brest"}'
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Brest"}}\n</tool_call>'


def message_start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": MESSAGE | ({"usage": usage} if usage else {})}


def block(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: int, type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type_, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def message_end(reason: str, **more: Any) -> list[dict[str, Any]]:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, **more}
    return [end, {"type": "message_stop"}]


def candidate(*parts: Any, finish: str | None = None) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    reason = {"finishReason": finish} if finish else {}
    return {"candidates": [{"index": 0, **content, **reason}], "modelVersion": "m"}


def line(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode() + b"\n"


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}

COMPLAINTS = [
    Complaint(
        "parallel calls of the Responses API keep their own arguments",
        "openai-responses",
        sse(
            CREATED, added(0, item(0, "weather")), added(1, item(1, "tide")),
            piece(0, '{"city": '), piece(1, '{"port": '), piece(1, '"Brest"}'),
            piece(0, '"Brest"}'),
            ended(0, item(0, "weather", BREST)), ended(1, item(1, "tide", PORT)), completed(),
        ),
        calls=TWO,
        reason="tool_use",
    ),
    Complaint(
        "Ollama's calls have no index, no id and arguments that are objects",
        "ollama",
        line(message={"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Brest"}}}]}, done=False)
        + line(message={"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "tide", "arguments": {"port": "Brest"}}}]}, done=False)
        + line(message={"role": "assistant", "content": ""}, done=True, done_reason="stop"),
        calls=TWO,
        reason="tool_use",
    ),
    Complaint(
        "every call of an OpenAI-like Ollama stream has the index 0",
        "openai-chat",
        sse(
            chunk(calls(call(0, BREST, id="a", name="weather"))),
            chunk(calls(call(0, PORT, id="b", name="tide"))),
            chunk(finish="stop"), "[DONE]",
        ),
        calls=TWO,
        reason="tool_use",
    ),
    Complaint(
        "Gemini's calls come one a chunk",
        "gemini",
        sse(
            candidate({"functionCall": {"name": "weather", "args": {"city": "Brest"}}}),
            candidate({"functionCall": {"name": "tide", "args": {"port": "Brest"}}}),
            candidate(finish="STOP"),
        ),
        calls=TWO,
        reason="tool_use",
    ),
    Complaint(
        "argument deltas have no id",
        "openai-chat",
        sse(
            chunk(calls(call(0, "", id="a", name="weather"))), chunk(calls(call(0, '{"city":'))),
            chunk(calls(call(0, ' "Brest"}'))), chunk(finish="tool_calls"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "arguments come in the done event alone",
        "openai-responses",
        sse(CREATED, added(0, item(0, "weather")), whole(0, BREST), completed()),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "arguments come with the finished item alone",
        "openai-responses",
        sse(
            CREATED, added(0, item(0, "weather")), ended(0, item(0, "weather", BREST)),
            completed(),
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "an argument delta is empty",
        "openai-chat",
        sse(
            chunk(calls(call(0, "", id="a", name="weather"))), chunk(calls(call(0, ""))),
            chunk(calls(call(0, BREST))), chunk(calls(call(0, ""))), chunk(finish="tool_calls"),
            "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "a call has no arguments at all",
        "gemini",
        sse(candidate({"functionCall": {"name": "today"}}), candidate(finish="STOP")),
        calls=[("today", {})],
        reason="tool_use",
    ),
    Complaint(
        "text goes on after a call",
        "openai-chat",
        sse(
            chunk({"content": "First. "}), chunk(calls(call(0, BREST, id="a", name="weather"))),
            chunk({"content": "Then."}), chunk(finish="tool_calls"), "[DONE]",
        ),
        text="First. Then.",
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "thoughts stand in reasoning_content",
        "openai-chat",
        sse(
            chunk({"reasoning_content": "Hm."}), chunk({"content": "Yes."}), chunk(finish="stop"),
            "[DONE]",
        ),
        text="Yes.",
        thinking="Hm.",
    ),
    Complaint(
        "thoughts, text and thoughts again share one index upstream",
        "openai-chat",
        sse(
            chunk({"reasoning_content": "One. "}), chunk({"content": "A. "}),
            chunk({"reasoning_content": "Two."}), chunk({"content": "B."}),
            chunk(calls(call(0, BREST, id="a", name="weather"))), chunk(finish="tool_calls"),
        ),
        text="A. B.",
        thinking="One. Two.",
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "message_start has no usage",
        "anthropic",
        sse(
            message_start(), block(0, type="text", text=""), delta(0, "text_delta", text="Hi"),
            stop(0), *message_end("end_turn"), event=True,
        ),
        text="Hi",
        input_tokens=0,
    ),
    Complaint(
        "the usage comes in a chunk without choices",
        "openai-chat",
        sse(
            chunk({"content": "Hi"}), chunk(finish="stop"),
            chunk() | {"choices": [], "usage": USAGE}, "[DONE]",
        ),
        text="Hi",
        input_tokens=7,
    ),
    Complaint(
        "the usage comes with the finish",
        "openai-chat",
        sse(chunk({"content": "Hi"}), chunk(finish="stop", usage=USAGE), "[DONE]"),
        text="Hi",
        input_tokens=7,
    ),
    Complaint(
        "the usage stands inside the choice",
        "openai-chat",
        sse(
            chunk({"content": "Hi"}),
            chunk() | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop",
                                    "usage": USAGE}]},
            "[DONE]",
        ),
        text="Hi",
        input_tokens=7,
    ),
    Complaint(
        "a call ends in stop",
        "openai-chat",
        sse(
            chunk(calls(call(0, BREST, id="a", name="weather"))), chunk(finish="stop"), "[DONE]"
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "a call has no index",
        "openai-chat",
        sse(
            chunk(calls(call(None, BREST, id="a", name="weather"))), chunk(finish="tool_calls"),
            "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "the name of a call is null first",
        "openai-chat",
        sse(
            chunk(calls(call(0, "", id="a", name=None))), chunk(calls(call(0, "", name="weather"))),
            chunk(calls(call(0, BREST, name=None))), chunk(finish="tool_calls"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "the name of a call is empty first",
        "openai-chat",
        sse(
            chunk(calls(call(0, "", id="a", name=""))),
            chunk(calls(call(0, BREST, name="weather"))), chunk(finish="tool_calls"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "there are two finish chunks",
        "openai-chat",
        sse(
            chunk(calls(call(0, BREST, id="a", name="weather"))), chunk(finish="tool_calls"),
            chunk(finish="stop"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "every chunk has an empty finish_reason",
        "openai-chat",
        sse(
            chunk({"content": "Hi"}, ""), chunk(calls(call(0, BREST, id="a", name="weather")), ""),
            chunk(finish="tool_calls"), "[DONE]",
        ),
        text="Hi",
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "response.completed has an empty output",
        "openai-responses",
        sse(
            CREATED, added(0, item(0, "weather")), piece(0, BREST), whole(0, BREST),
            ended(0, item(0, "weather", BREST)), completed(),
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "the finished item has an empty name",
        "openai-responses",
        sse(
            CREATED, added(0, item(0, "weather")), piece(0, BREST),
            ended(0, item(0, "", BREST)), completed(),
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "blocks overlap",
        "anthropic",
        sse(
            message_start(input_tokens=5, output_tokens=1),
            block(0, type="tool_use", id="a", name="weather", input={}),
            block(1, type="tool_use", id="b", name="tide", input={}),
            delta(1, "input_json_delta", partial_json=PORT),
            delta(0, "input_json_delta", partial_json=BREST), stop(1), stop(0),
            *message_end("tool_use", usage={"output_tokens": 9}), event=True,
        ),
        calls=TWO,
        reason="tool_use",
        input_tokens=5,
    ),
    Complaint(
        "a delta has no block of its own",
        "anthropic",
        sse(
            message_start(input_tokens=5), delta(3, "thinking_delta", thinking="lost"),
            block(0, type="text", text=""), delta(0, "text_delta", text="Hi"), stop(0),
            *message_end("end_turn"), event=True,
        ),
        text="Hi",
        thinking="lost",
    ),
    Complaint(
        "message_start comes twice",
        "anthropic",
        sse(
            message_start(input_tokens=5), message_start(input_tokens=5),
            block(0, type="text", text=""), delta(0, "text_delta", text="Hi"), stop(0),
            *message_end("end_turn"), event=True,
        ),
        text="Hi",
        input_tokens=5,
    ),
    Complaint(
        "the input of a call comes with its block",
        "anthropic",
        sse(
            message_start(input_tokens=5),
            block(0, type="tool_use", id="a", name="weather", input={"city": "Brest"}), stop(0),
            *message_end("tool_use"), event=True,
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "a local model prints its call as bare JSON",
        "openai-chat",
        sse(
            chunk({"content": '{"name": "weather", "argu'}),
            chunk({"content": 'ments": {"city": "Brest"}}'}), chunk(finish="stop"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
        format="bare_json",
    ),
    Complaint(
        "a local model prints its call in tags",
        "openai-chat",
        sse(
            chunk({"content": "Let me look.\n<fun"}), chunk({"content": "ction=weather>\n<param"}),
            chunk({"content": "eter=city>\nBrest\n</parameter>\n</function>"}),
            chunk(finish="stop"), "[DONE]",
        ),
        text="Let me look.",
        calls=ONE,
        reason="tool_use",
        format="qwen3_coder",
    ),
    Complaint(
        "a call stays in the content, whole in one delta",
        "openai-chat",
        sse(chunk({"content": HERMES}), chunk(finish="stop"), "[DONE]"),
        calls=ONE,
        reason="tool_use",
        format="hermes",
    ),
    Complaint(
        "the first delta of the arguments is null",
        "openai-chat",
        sse(
            chunk(calls({"index": 0, "id": "a",
                         "function": {"name": "weather", "arguments": None}})),
            chunk(calls(call(0, BREST))), chunk(finish="tool_calls"), "[DONE]",
        ),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "the stream is cut",
        "openai-chat",
        sse(chunk({"content": "Half an ans"})),
        text="Half an ans",
        reason="error",
    ),
    Complaint(
        "the stream is cut inside arguments",
        "openai-chat",
        sse(chunk(calls(call(0, '{"city": "Br', id="a", name="weather")))),
        reason="error",
    ),
    Complaint(
        "the mark done comes without a finish",
        "openai-chat",
        sse(chunk(calls(call(0, BREST, id="a", name="weather"))), "[DONE]"),
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "the finish comes without the mark done",
        "openai-chat",
        sse(chunk({"content": "Hi"}), chunk(finish="stop")),
        text="Hi",
    ),
    Complaint(
        "Gemini's finish comes alone, after the call",
        "gemini",
        sse(
            candidate({"text": "Let me look."}),
            candidate({"functionCall": {"name": "weather", "args": {"city": "Brest"}}}),
            candidate({"text": ""}, finish="STOP"),
        ),
        text="Let me look.",
        calls=ONE,
        reason="tool_use",
    ),
    Complaint(
        "a line is no JSON",
        "openai-chat",
        sse(chunk({"content": "Hi"}), "{oops", chunk(finish="stop"), "[DONE]"),
        text="Hi",
    ),
    Complaint(
        "an error comes inside the stream",
        "openai-chat",
        sse(chunk({"content": "Hi"}), {"error": {"message": "overloaded", "code": 529}}),
        text="Hi",
        reason="error",
    ),
    Complaint(
        "blank lines are missing between the frames",
        "openai-chat",
        sse(chunk({"content": "é"}), chunk({"content": "日"}), chunk(finish="stop"), "[DONE]")
        .replace(b"\n\n", b"\n"),
        text="é日",
    ),
    Complaint(
        "other choices stand before the first",
        "openai-chat",
        sse(
            chunk() | {"choices": [
                {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"},
                {"index": 0, "delta": {"content": "yes"}, "finish_reason": None}]},
            chunk(finish="stop"), "[DONE]",
        ),
        text="yes",
    ),
]  # fmt: skip
