"""The Responses API, rule by rule: how servers really stream, and what a client is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laws import check_monotone
from laws.checks import check_bytes_chunk_free, check_honest_end, read
from penstock import MessageBuilder, apis
from penstock.apis.openai_responses.client_tools import ClientTools
from penstock.apis.openai_responses.response import write_response
from penstock.builder import message_events
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage
from penstock.request import Request

API = apis.get("openai-responses")
NAME = "openai-responses"
NOTE = {"type": "url_citation", "url": "https://a.example", "start_index": 0, "end_index": 2}


def ev(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def end(status: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "object": "response", "status": status, "output": [], **fields}
    return ev(status, response=response)


def call(id_: str | None, call_id: str | None = "call_1", **fields: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": id_, "call_id": call_id, "name": "f", "arguments": ""}
    return {**item, **fields}


def added(place: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return ev("output_item.added", output_index=place, item=item)


def done(place: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return ev("output_item.done", output_index=place, item=item)


def arguments(id_: str | None, place: int | None, delta: Any) -> dict[str, Any]:
    return ev("function_call_arguments.delta", item_id=id_, output_index=place, delta=delta)


def said(id_: str | None, place: int | None, text: str, part: int = 0) -> dict[str, Any]:
    where = {"item_id": id_, "output_index": place, "content_index": part}
    return ev("output_text.delta", **where, delta=text)


def wire(*events: dict[str, Any], end: str = "") -> bytes:
    frames = [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(events)
    ]
    return ("".join(frames) + end).encode()


def decoded(*events: dict[str, Any]) -> AssistantMessage:
    return folded(wire(*events))


def folded(data: bytes) -> AssistantMessage:
    found = read(API.decoder(), [data])
    check_monotone(found)
    check_honest_end(found, cut=False)
    check_bytes_chunk_free(API.decoder, [data[at : at + 7] for at in range(0, len(data), 7)])
    builder = MessageBuilder()
    for event in found:
        builder.add(event)
    return builder.message


def calls_of(message: AssistantMessage) -> list[tuple[str, dict[str, Any], bool]]:
    return [(block.id, block.arguments, block.complete) for block in message.tool_calls]


# --- calls ---


def test_deltas_of_two_open_calls_go_to_their_item_ids_though_the_places_are_all_zero() -> None:
    message = decoded(
        added(0, call("fc_a", "call_a")),
        added(0, call("fc_b", "call_b")),
        arguments("fc_a", 0, '{"a":'),
        arguments("fc_b", 0, '{"b":'),
        arguments("fc_a", 0, "1}"),
        arguments("fc_b", 0, "2}"),
        end(),
    )
    assert calls_of(message) == [("call_a|fc_a", {"a": 1}, True), ("call_b|fc_b", {"b": 2}, True)]
    assert message.stop_reason == "tool_use"


def test_items_without_ids_are_told_apart_by_their_place() -> None:
    message = decoded(
        added(0, call(None, "call_a")),
        added(1, call(None, "call_b")),
        arguments(None, 1, '{"b":2}'),
        arguments(None, 0, '{"a":1}'),
        done(1, call(None, "call_b", arguments='{"b":2}')),
        done(0, call(None, "call_a", arguments='{"a":1}')),
        end(),
    )
    assert calls_of(message) == [("call_a", {"a": 1}, True), ("call_b", {"b": 2}, True)]


def test_ids_that_change_with_every_event_do_not_matter_where_the_place_is_known() -> None:
    message = decoded(
        added(0, call("fc_1")),
        arguments("fc_2", 0, '{"a":1}'),
        done(0, call("fc_3", arguments='{"a":1}')),
        end(output=[call("fc_4", arguments='{"a":1}')]),
    )
    assert calls_of(message) == [("call_1|fc_1", {"a": 1}, True)]


WHOLE = '{"a":1}'


@pytest.mark.parametrize(
    "events",
    [
        [added(0, call("fc_1", arguments=WHOLE)), done(0, call("fc_1"))],
        [added(0, call("fc_1", arguments={"a": 1})), end()],
        [added(0, call("fc_1")), done(0, call("fc_1", arguments=WHOLE))],
        [added(0, call("fc_1")), done(0, call("fc_1", arguments={"a": 1}))],
        [done(0, call("fc_1", arguments=WHOLE))],
        [end(output=[call("fc_1", arguments=WHOLE)])],
        [
            added(0, call("fc_1")),
            ev("function_call_arguments.done", item_id="fc_1", arguments=WHOLE),
        ],
        [
            added(0, call("fc_1", arguments="{}")),
            arguments("fc_1", 0, None),
            arguments("fc_1", 0, ""),
            arguments("fc_1", 0, WHOLE),
        ],
        [added(0, call("fc_1", arguments='{"a"')), arguments("fc_1", 0, ":1}")],
        [
            added(0, call("fc_1")),
            arguments("fc_1", 0, WHOLE),
            done(0, call("fc_1", arguments="{}")),
        ],
        [added(0, call("fc_1")), arguments("fc_1", 0, WHOLE), done(0, call("fc_1", name=""))],
        [
            added(0, call("fc_1", name="")),
            arguments("fc_1", 0, WHOLE),
            done(0, call("fc_1", arguments=WHOLE)),
        ],
        [arguments("fc_1", 0, WHOLE), done(0, call("fc_1", arguments=WHOLE))],
    ],
    ids=[
        "text-when-added",
        "an-object-when-added",
        "text-when-done",
        "an-object-when-done",
        "never-added",
        "only-in-the-last-event",
        "whole-arguments-alone",
        "a-placeholder-when-added",
        "a-beginning-when-added",
        "an-empty-object-when-done",
        "no-name-when-done",
        "no-name-before-it-is-done",
        "deltas-before-anything",
    ],
)
def test_arguments_are_whole_wherever_a_server_says_them(events: list[dict[str, Any]]) -> None:
    message = decoded(*events, end())
    ((id_, found, complete),) = calls_of(message)
    assert (found, complete) == ({"a": 1}, True)
    assert id_ in ("call_1|fc_1", "fc_1")
    assert message.tool_calls[0].name == "f"
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("nothing", ["", None, "null", "{}", " "])
def test_no_arguments_at_all_are_an_empty_object(nothing: Any) -> None:
    message = decoded(added(0, call("fc_1")), done(0, call("fc_1", arguments=nothing)), end())
    assert calls_of(message) == [("call_1|fc_1", {}, True)]
    delta = arguments("fc_1", 0, nothing)
    assert calls_of(decoded(added(0, call("fc_1")), delta, end())) == [("call_1|fc_1", {}, True)]


def test_a_delta_may_be_any_piece_of_the_arguments() -> None:
    deltas = [arguments("fc_1", 0, piece) for piece in ('{"a":', "null", ',"b":', "{}", "}")]
    message = decoded(added(0, call("fc_1")), *deltas, end())
    assert calls_of(message) == [("call_1|fc_1", {"a": None, "b": {}}, True)]


def test_a_call_that_the_limit_cut_before_its_arguments_is_not_complete() -> None:
    for output in ([], [call("fc_1")]):
        message = decoded(added(0, call("fc_1")), end("incomplete", output=output))
        assert calls_of(message) == [("call_1|fc_1", {}, False)]


def test_final_arguments_that_differ_have_the_last_word_and_say_so() -> None:
    message = decoded(
        added(0, call("fc_1")),
        arguments("fc_1", 0, '{"a":1}'),
        done(0, call("fc_1", arguments='{"a":2}')),
        end(),
    )
    assert message.tool_calls[0].arguments == {"a": 2}
    assert message.tool_calls[0].repairs


def test_a_late_delta_of_an_item_that_is_done_is_dropped() -> None:
    message = decoded(
        added(0, {"type": "message", "id": "msg_1"}),
        said("msg_1", 0, "Hi"),
        done(0, {"type": "message", "id": "msg_1"}),
        said("msg_1", 0, " again"),
        added(1, call("fc_1")),
        arguments("fc_1", 1, "{}"),
        done(1, call("fc_1", arguments="{}")),
        arguments("fc_1", 1, '{"x":1}'),
        end(),
    )
    assert message.text == "Hi"
    assert calls_of(message) == [("call_1|fc_1", {}, True)]


def test_a_call_that_never_gets_a_name_is_never_run() -> None:
    message = decoded(added(0, call("fc_1", name="")), arguments("fc_1", 0, "{}"), end())
    assert [block.complete for block in message.tool_calls] == [False]
    assert message.stop_reason == "error"


def test_a_call_whose_item_is_incomplete_is_never_whole() -> None:
    item = call("fc_1", arguments="{}", status="incomplete")
    details = {"reason": "max_output_tokens"}
    message = decoded(
        added(0, call("fc_1")),
        arguments("fc_1", 0, "{}"),
        done(0, item),
        end("incomplete", incomplete_details=details),
    )
    assert calls_of(message) == [("call_1|fc_1", {}, False)]
    assert message.stop_reason == "length"


def custom(text: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "p", "input": text}


@pytest.mark.parametrize("by", ["deltas", "input.done", "item.done", "completed"])
def test_free_text_is_an_argument_called_input(by: str) -> None:
    text = 'say "hi"\n\\ 🚲'
    pieces = [
        ev("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta=piece)
        for piece in text
    ]
    events = {
        "deltas": [added(0, custom("")), *pieces],
        "input.done": [
            added(0, custom("")),
            *pieces[:3],
            ev("custom_tool_call_input.done", item_id="ctc_1", output_index=0, input=text),
        ],
        "item.done": [added(0, custom("")), done(0, custom(text))],
        "completed": [],
    }[by]
    last = end(output=[custom(text)] if by == "completed" else [])
    assert calls_of(decoded(*events, last)) == [("c|ctc_1", {"input": text}, True)]


def test_free_text_that_ends_as_something_else_has_the_last_word() -> None:
    delta = ev("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="abc")
    message = decoded(added(0, custom("")), delta, done(0, custom("xyz")), end())
    assert calls_of(message) == [("c|ctc_1", {"input": "xyz"}, True)]
    assert message.tool_calls[0].repairs


def test_no_free_text_at_all_is_an_empty_input() -> None:
    assert calls_of(decoded(done(0, custom("")), end())) == [("c|ctc_1", {"input": ""}, True)]


def test_a_signature_beside_a_call_is_kept() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    message = decoded(done(0, call("fc_1", arguments="{}", extra_content=extra)), end())
    assert message.tool_calls[0].signature == "sig"


def test_a_garbage_line_in_the_midst_of_a_call_leaves_it_incomplete() -> None:
    head = wire(added(0, call("fc_1")), arguments("fc_1", 0, '{"a":'))
    rest = wire(arguments("fc_1", 0, "1}"), done(0, call("fc_1", arguments='{"a":1}')), end())
    message = folded(head + b"data: {oops\n\n" + rest)
    assert calls_of(message) == [("call_1|fc_1", {"a": 1}, False)]
    assert message.stop_reason == "error"


# --- text and thinking ---


def message_item(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [*parts], **fields}


def text_part(text: str, *notes: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [*notes]}


def test_the_parts_of_a_message_are_one_text_and_its_id_and_phase_the_signature() -> None:
    whole = message_item(text_part("Hello, "), text_part("you"), phase="commentary")
    message = decoded(
        added(0, message_item()),
        said("msg_1", 0, "Hello, "),
        said("msg_1", 0, "you", 1),
        done(0, whole),
        end(),
    )
    assert message.content == [Text("Hello, you", "msg_1|commentary")]


@pytest.mark.parametrize(
    "events",
    [
        [ev("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="Hi")],
        [ev("content_part.done", item_id="msg_1", content_index=0, part=text_part("Hi"))],
        [done(0, message_item(text_part("Hi")))],
        [end(output=[message_item(text_part("Hi"))])],
        [said(None, None, "Hi")],
        [said("msg_1", 0, "Hi"), end(output=[message_item(text_part("Hi"))])],
        [said("msg_1", 0, "H"), said("msg_9", 0, "i"), done(0, message_item(text_part("Hi")))],
    ],
    ids=["text", "part", "item", "response", "unannounced", "twice", "another-id"],
)
def test_a_text_counts_once_wherever_a_server_says_it(events: list[dict[str, Any]]) -> None:
    assert decoded(*events, end()).text == "Hi"


def test_a_refusal_is_text() -> None:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole = message_item({"type": "refusal", "refusal": "I cannot."})
    message = decoded(
        added(0, message_item()),
        ev("refusal.delta", **where, delta="I can"),
        ev("refusal.delta", **where, delta="not."),
        ev("refusal.done", **where, refusal="I cannot."),
        done(0, whole),
        end(),
    )
    assert (message.text, message.stop_reason, message.error) == ("I cannot.", "stop", None)
    assert decoded(end(output=[whole])).text == "I cannot."


@pytest.mark.parametrize("at_the_end", [True, False])
def test_annotations_are_kept_behind_their_text(*, at_the_end: bool) -> None:
    live = ev("output_text.annotation.added", item_id="msg_1", output_index=0, annotation=NOTE)
    notes = [NOTE] if at_the_end else []
    message = decoded(
        added(0, message_item()),
        said("msg_1", 0, "Hi"),
        live,
        done(0, message_item(text_part("Hi", *notes))),
        end(),
    )
    kept = Opaque(NAME, {"type": "annotations", "annotations": [NOTE]})
    assert message.content == [Text("Hi", "msg_1"), kept]


def test_a_pair_of_surrogates_split_over_two_deltas_is_one_character() -> None:
    message = decoded(said("m", 0, "\ud83d"), said("m", 0, "\udeb2!"), end())
    assert message.text == "🚲!"


def summary(part: int, text: str) -> dict[str, Any]:
    where = {"item_id": "rs_1", "output_index": 0, "summary_index": part}
    return ev("reasoning_summary_text.delta", **where, delta=text)


def test_a_blank_line_stands_between_the_parts_of_a_summary_and_never_behind_the_last() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    events = [
        added(0, {**item, "summary": []}),
        summary(0, "One"),
        summary(1, "Two"),
        done(0, item),
    ]
    found = read(API.decoder(), [wire(*events, end())])
    deltas = [event.text for event in found if isinstance(event, ThinkingDelta)]
    assert deltas == ["One", "\n\n", "Two"]
    (thinking,) = decoded(*events, end()).content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "One\n\nTwo"
    assert json.loads(thinking.signature) == item


def test_a_summary_that_comes_whole_is_joined_alike() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("One", "Two")]
    item = {"type": "reasoning", "id": "rs_1", "summary": parts}
    assert decoded(end(output=[item])).thinking == "One\n\nTwo"
    part_done = ev("reasoning_summary_part.done", item_id="rs_1", summary_index=1, part=parts[1])
    assert decoded(summary(0, "One"), part_done, done(0, item), end()).thinking == "One\n\nTwo"


def test_the_reasoning_of_open_servers_is_thinking() -> None:
    delta = ev("reasoning_text.delta", item_id="rs_1", output_index=0, content_index=0, delta="Hm")
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    assert decoded(delta, done(0, item), end()).thinking == "Hm"
    assert decoded(done(0, item), end()).thinking == "Hm"


def test_reasoning_without_a_word_still_goes_back_to_its_model() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    (thinking,) = decoded(added(0, item), done(0, item), end()).content
    assert isinstance(thinking, Thinking)
    assert (thinking.text, json.loads(thinking.signature)) == ("", item)


# --- what others run ---


@pytest.mark.parametrize(
    "type_",
    ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
     "mcp_call", "mcp_list_tools", "computer_call", "compaction", "hologram_call"],
)  # fmt: skip
def test_an_item_of_the_provider_is_kept_whole_once(type_: str) -> None:
    item = {"type": type_, "id": "x_1", "status": "completed", "anything": [1]}
    progress = ev(f"{type_}.in_progress", item_id="x_1", output_index=0)
    message = decoded(
        added(0, {**item, "anything": []}), progress, done(0, item), end(output=[item])
    )
    assert message.content == [Opaque(NAME, item)]
    assert message.stop_reason == "stop"


def test_unknown_events_and_broken_ones_say_nothing() -> None:
    odd = [
        ev("sparkle.added", glow=1),
        ev("output_item.added", item=None),
        ev("output_item.done", output_index=0),
        ev("output_text.delta", delta=None),
        ev("content_part.done", part=None),
        {"type": "keepalive"},
    ]
    message = decoded(*odd, said("msg_1", 3, "Hi"), end())
    assert message.text == "Hi"


# --- the end ---


def test_a_call_is_tool_use_though_the_last_event_has_no_output() -> None:
    assert decoded(done(0, call("fc_1", arguments="{}")), end(output=[])).stop_reason == "tool_use"


def test_items_that_only_the_last_event_has_are_added_to_those_that_were_streamed() -> None:
    first, second = call("fc_1", "call_1", arguments="{}"), call("fc_2", "call_2", arguments="{}")
    message = decoded(
        said("msg_1", 0, "Hi"),
        done(1, first),
        end(output=[message_item(text_part("Hi")), first, second]),
    )
    assert message.text == "Hi"
    assert [block.id for block in message.tool_calls] == ["call_1|fc_1", "call_2|fc_2"]


@pytest.mark.parametrize(
    ("last", "stop", "kind", "type_"),
    [
        (end("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length", "", ""),
        (end("incomplete"), "length", "", ""),
        (
            end("incomplete", incomplete_details={"reason": "content_filter"}),
            "error",
            "filter",
            "content_filter",
        ),
        (end("cancelled"), "error", "provider", "cancelled"),
        (
            end("failed", error={"code": "rate_limit_exceeded", "message": "Slow"}),
            "error",
            "provider",
            "rate_limit_exceeded",
        ),
        (end("failed"), "error", "provider", ""),
        (ev("completed", response={"status": "incomplete"}), "length", "", ""),
        (ev("done", response={"status": "completed"}), "stop", "", ""),
    ],
)
def test_the_status_of_the_response_is_how_it_ends(
    last: dict[str, Any], stop: str, kind: str, type_: str
) -> None:
    message = decoded(said("msg_1", 0, "Hi"), last)
    assert (message.text, message.stop_reason) == ("Hi", stop)
    assert message.raw_stop_reason == last["response"]["status"]
    assert (message.error.kind, message.error.type) == (kind, type_) if message.error else not kind


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "Oops", "param": None},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "Oops"}},
        {"error": {"code": "server_error", "message": "Oops"}},
    ],
)
def test_an_error_event_ends_the_answer_in_whatever_shape(event: dict[str, Any]) -> None:
    data = wire(said("msg_1", 0, "Hi")) + f"event: error\ndata: {json.dumps(event)}\n\n".encode()
    message = folded(data + wire(end()))
    assert message.error is not None
    assert (message.text, message.error.message) == ("Hi", "Oops")
    assert (message.error.type, message.error.retryable) == ("server_error", True)


def test_the_time_to_wait_is_read_from_the_message() -> None:
    text = "Rate limit reached for m. Please try again in 1.5s. Visit us."
    message = decoded(end("failed", error={"code": "rate_limit_exceeded", "message": text}))
    assert message.error is not None
    assert message.error.retry_after == 1.5
    assert message.error.message == f"{text} retry-after-ms=1500"


def test_done_may_follow_the_end_or_stand_for_it() -> None:
    assert folded(wire(said("m", 0, "Hi"), end(), end="data: [DONE]\n\n")).stop_reason == "stop"
    alone = folded(wire(done(0, call("fc_1", arguments="{}")), end="data: [DONE]\n\n"))
    assert alone.stop_reason == "tool_use"
    nothing = folded(b"data: [DONE]\n\n")
    assert nothing.error is not None
    assert nothing.error.kind == "truncated"


def test_a_stream_without_an_end_was_cut() -> None:
    message = decoded(ev("created", response={"id": "resp_1", "model": "m"}), said("m", 0, "Hi"))
    assert (message.id, message.model, message.text) == ("resp_1", "m", "Hi")
    assert message.error is not None
    assert (message.error.kind, message.error.retryable) == ("truncated", True)


def test_blank_lines_may_be_missing() -> None:
    data = wire(said("msg_1", 0, "Hi"), said("msg_1", 0, " you"), end())
    assert folded(data.replace(b"\n\n", b"\n")).text == "Hi you"


def test_a_body_that_is_no_stream_is_read_as_what_it_is() -> None:
    whole = end(output=[message_item(text_part("Hi"))])["response"]
    assert folded(json.dumps(whole).encode()).text == "Hi"
    message = folded(b'{"error": {"message": "No", "type": "invalid_request_error"}}')
    assert message.error is not None
    assert (message.error.message, message.error.type) == ("No", "invalid_request_error")


def test_the_cache_is_counted_apart_and_reasoning_once() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 150,
    }
    found = decoded(end(usage=usage)).usage
    assert found == Usage(30, 50, 60, 10, 20, 150, usage)


def test_the_hot_path_reads_numbered_and_padded_deltas_alike() -> None:
    deltas = [
        {**said("msg_1", 0, text), "obfuscation": "x" * number, "sequence_number": number}
        for number, text in enumerate(["One ", "two ", 'three "', "\\ four", "five", "six"])
    ]
    frames = [f"data: {json.dumps(d, separators=(',', ':'))}\n\n".encode() for d in deltas]
    assert folded(b"".join(frames) + wire(end())).text == 'One two three "\\ fourfivesix'


def test_a_call_that_only_the_last_event_has_is_none_of_those_that_were_streamed() -> None:
    streamed, late = call("fc_1", "call_1", name="f"), call("fc_2", "call_2", name="g")
    whole = [{**item, "arguments": "{}", "status": "completed"} for item in (streamed, late)]
    message = decoded(added(0, streamed), done(0, whole[0]), end(output=[whole[1]]))
    assert [block.name for block in message.tool_calls] == ["f", "g"]


# --- what is written ---


def encoded(*events: Event, **options: Any) -> list[dict[str, Any]]:
    data = written(*events, **options)
    assert API.check(data) == []
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line[:6] == "data: "]


def written(*events: Event, **options: Any) -> bytes:
    encoder = API.encoder(**options)
    return b"".join([encoder.encode(event) for event in events]) + encoder.finish()


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def answer(*blocks: Any, stop: Any = "stop", error: ErrorInfo | None = None) -> list[Event]:
    return [*message_events(AssistantMessage("resp_1", "m", [*blocks], stop, error=error))]


def test_a_text_has_its_whole_life_on_the_wire() -> None:
    events = encoded(*answer(Text("Hi", "msg_9|final_answer")), created=7)
    assert types(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == [*range(9)]
    response = events[-1]["response"]
    assert (response["id"], response["model"], response["created_at"]) == ("resp_1", "m", 7)
    assert response["output"] == [events[-2]["item"]]
    assert response["output"][0]["phase"] == "final_answer"


def test_thinking_is_a_summary_with_its_signature_sealed() -> None:
    events = encoded(*answer(Thinking("Hm", "sig"), Thinking("", "x")))
    assert types(events)[2:-1] == [
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "output_item.done",
    ]  # fmt: skip
    again = API.read_response(events[-1]["response"])
    assert again.content == [Thinking("Hm", "sig"), Thinking("", "x")]


def test_calls_have_the_first_half_of_their_id_and_no_two_the_same() -> None:
    ids = ["call_a|fc_a", "call_a|fc_a", "", "call_b|unlawful!"]
    events = encoded(
        *answer(*[ToolCall(id_, "f", {}) for id_ in ids], stop="tool_use"), id="resp_x"
    )
    items = [event["item"] for event in events if event["type"].endswith("output_item.done")]
    assert (items[0]["call_id"], items[0]["id"]) == ("call_a", "fc_a")
    assert items[3]["call_id"] == "call_b"
    assert len({item["call_id"] for item in items}) == len({item["id"] for item in items}) == 4
    assert all(item["id"].startswith("fc_") for item in items)


def test_ids_of_items_differ_from_those_of_other_responses() -> None:
    first, second = (encoded(*answer(Text("Hi")), id=id_) for id_ in ("resp_a", "resp_b"))
    assert first[2]["item"]["id"] != second[2]["item"]["id"]


def test_interleaved_blocks_are_written_one_after_another() -> None:
    events = encoded(
        MessageStart("r", "m"),
        ToolCallStart(0, "a", "f"),
        ToolCallStart(1, "b", "g"),
        ToolCallDelta(1, '{"b":'),
        ToolCallDelta(0, "{}"),
        ToolCallDelta(1, "2}"),
        ToolCallEnd(1, ToolCall("b", "g", {"b": 2})),
        ToolCallEnd(0, ToolCall("a", "f", {})),
        Done("tool_use", AssistantMessage()),
    )
    assert [item["arguments"] for item in events[-1]["response"]["output"]] == ["{}", '{"b":2}']


def test_mended_arguments_are_what_a_client_gets_in_the_end() -> None:
    mended = ToolCall("a", "f", {"a": 1}, repairs=["mended"])
    start: list[Event] = [MessageStart("r", "m"), ToolCallStart(0, "a", "f")]
    start.append(ToolCallDelta(0, "{a:1}"))
    events = encoded(*start, ToolCallEnd(0, mended), Done("tool_use", AssistantMessage()))
    assert json.loads(events[-1]["response"]["output"][0]["arguments"]) == {"a": 1}


@pytest.mark.parametrize("said", ["null", " ", "", '"{}"'])
def test_arguments_that_are_no_object_are_written_as_they_were_understood(said: str) -> None:
    start: list[Event] = [MessageStart("r", "m"), ToolCallStart(0, "a", "f")]
    start.append(ToolCallDelta(0, said))
    events = encoded(
        *start, ToolCallEnd(0, ToolCall("a", "f")), Done("tool_use", AssistantMessage())
    )
    assert events[-1]["response"]["output"][0]["arguments"] == "{}"
    deltas = [e["delta"] for e in events if e["type"].endswith("arguments.delta")]
    assert "".join(deltas) == "{}"


def test_the_last_brace_of_arguments_waits_until_the_call_is_complete() -> None:
    encoder = API.encoder()
    encoder.encode(ToolCallStart(0, "a", "f"))
    data = encoder.encode(ToolCallDelta(0, '{"a":1}'))
    assert json.loads(data.decode().splitlines()[-2][6:])["delta"] == '{"a":1'


def test_a_call_of_a_tool_with_free_text_is_written_as_one() -> None:
    asked = ToolCall("call_a", "patch", {"input": "*** Begin"})
    events = encoded(
        *answer(asked, ToolCall("c|ctc_1", "x", {"input": ""})),
        tools=ClientTools(custom=frozenset({"patch"})),
    )
    first, second = events[-1]["response"]["output"]
    assert (first["type"], first["input"]) == ("custom_tool_call", "*** Begin")
    assert (second["id"], second["input"]) == ("ctc_1", "")


def test_a_call_of_a_tool_with_free_text_is_written_as_one_in_a_whole_answer_too() -> None:
    asked = ToolCall("call_a", "patch", {"input": "*** Begin"})
    written = write_response(
        AssistantMessage("r", "m", [asked], "tool_use"),
        tools=ClientTools(custom=frozenset({"patch"})),
    )
    (item,) = written["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")
    assert item["id"].startswith("ctc_")
    assert API.read_response(written).tool_calls[0].arguments == asked.arguments


def test_arguments_that_json_has_no_word_for_are_told_as_json_and_never_to_be_run() -> None:
    odd = ToolCall("c", "f", {"number": float("nan"), "text": "\ud800"})
    message = AssistantMessage("r", "m", [odd], "tool_use")
    with pytest.raises(UsageError, match="incomplete"):
        API.write_response(message)
    message.content.append(Text("Hi"))
    assert [item["type"] for item in API.write_response(message)["output"]] == ["message"]
    history = API.write_request(Request(model="m", messages=[message]))["input"][0]["arguments"]
    streamed = next(e for e in message_events(message) if isinstance(e, ToolCallDelta)).arguments
    for told in (history, streamed):
        assert told == '{"number":null,"text":"\\ufffd"}'


def test_annotations_and_items_of_the_provider_go_through() -> None:
    notes = Opaque(NAME, {"type": "annotations", "annotations": [NOTE]})
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    blocks = [
        Text("Hi"),
        notes,
        Opaque(NAME, search),
        Opaque(NAME, search),
        Opaque("other", search),
    ]
    events = encoded(*answer(*blocks))
    assert "output_text.annotation.added" in types(events)
    message, first, second = events[-1]["response"]["output"]
    assert message["content"][0]["annotations"] == [NOTE]
    assert first == search
    assert second["id"] != "ws_1"
    again = API.read_response(events[-1]["response"])
    assert again.content[1:3] == [notes, Opaque(NAME, search)]


@pytest.mark.parametrize(
    ("stop", "error", "last"),
    [
        ("length", None, "incomplete"),
        ("stop", None, "failed"),
        ("error", ErrorInfo("no", "provider"), "failed"),
        ("error", ErrorInfo("no", "refusal"), "incomplete"),
        ("error", ErrorInfo("no", "filter"), "incomplete"),
    ],
)
def test_a_call_that_was_cut_is_never_done(stop: str, error: ErrorInfo | None, last: str) -> None:
    cut = ToolCall("call_a", "f", {"a": 1}, complete=False)
    events = encoded(*answer(cut, stop=stop, error=error))
    assert types(events)[-1] == last
    finished = [e["item"]["type"] for e in events if e["type"].endswith("output_item.done")]
    assert "function_call" not in finished
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


def test_the_ends_that_the_models_side_chose_are_in_the_words_of_the_api() -> None:
    refused = encoded(*answer(Text("Well"), stop="error", error=ErrorInfo("I won't.", "refusal")))
    assert types(refused)[-1] == "completed"
    content = refused[-1]["response"]["output"][-1]["content"]
    assert content == [{"type": "refusal", "refusal": "I won't."}]
    filtered = encoded(*answer(stop="error", error=ErrorInfo("no", "filter")))
    assert filtered[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}
    limited = encoded(*answer(stop="length"))
    assert limited[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert limited[-1]["response"]["usage"]["total_tokens"] == 0


def test_an_answer_of_ours_that_was_refused_reads_as_refused() -> None:
    error = ErrorInfo("I won't.", "refusal")
    data = written(*answer(Text("Well"), stop="error", error=error))
    message = folded(data)
    assert (message.text, message.stop_reason, message.error) == ("Well", "error", error)
    whole = AssistantMessage("r", "m", [Text("Well")], "error", error=error)
    assert API.read_response(API.write_response(whole)).error == error


def test_complete_calls_before_a_refusal_are_not_run() -> None:
    asked = ToolCall("call_a", "f", {})
    events = encoded(*answer(asked, stop="error", error=ErrorInfo("no", "refusal")))
    assert types(events)[-1] == "incomplete"


@pytest.mark.parametrize(
    ("error", "code", "type_"),
    [
        (ErrorInfo("no", "provider", "rate_limit_exceeded"), "rate_limit_exceeded", None),
        (
            ErrorInfo("no", "provider", "rate_limit_error"),
            "rate_limit_exceeded",
            "rate_limit_error",
        ),
        (ErrorInfo("no", "provider", "", 429), "rate_limit_exceeded", None),
        (ErrorInfo("no", "provider", "too_many", 429), "rate_limit_exceeded", "too_many"),
        (ErrorInfo("no", "provider", "overloaded_error"), "server_error", "overloaded_error"),
        (ErrorInfo("no", "truncated"), "server_error", "stream_error"),
    ],
)
def test_an_error_has_a_code_of_the_api_and_keeps_its_own_word(
    error: ErrorInfo, code: str, type_: str | None
) -> None:
    events = encoded(*answer(Text("Hi"), stop="error", error=error))
    found = events[-1]["response"]["error"]
    assert (found["code"], found.get("type"), found["message"]) == (code, type_, "no")
    again = folded(written(*answer(stop="error", error=error)))
    assert again.error is not None
    assert again.error.type == (type_ if code == "server_error" else code)


def test_a_sequence_that_stops_is_written_as_one_that_failed() -> None:
    events = encoded(MessageStart("r", "m"), TextStart(0), TextDelta(0, "Hi"))
    assert types(events)[-1] == "failed"
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"
    thoughts = encoded(ThinkingStart(0), ThinkingDelta(0, "Hm"))
    assert types(thoughts)[-2:] == ["output_item.done", "failed"]
    asked = encoded(ToolCallStart(0, "a", "f"), ToolCallDelta(0, '{"a'))
    assert asked[-1]["response"]["output"][0]["arguments"] == '{"a'
    assert types(encoded())[-1] == "failed"


def test_nothing_is_written_for_empty_deltas_or_after_the_end() -> None:
    encoder = API.encoder()
    encoder.encode(TextStart(0))
    assert encoder.encode(TextDelta(0, "")) == b""
    encoder.encode(TextEnd(0, ""))
    encoder.encode(Done("stop", AssistantMessage()))
    assert encoder.encode(TextDelta(0, "late")) == b""
    assert encoder.encode(Failed("error", ErrorInfo("late"), AssistantMessage())) == b""
    assert encoder.finish() == b""


def test_a_part_that_only_looks_like_ours_is_left_out() -> None:
    odd = [Opaque(NAME, data) for data in (None, {}, {"type": 7}, {"type": "function_call"})]
    events = encoded(*answer(*odd))
    assert events[-1]["response"]["output"] == []


def test_half_a_character_in_an_item_of_the_provider_is_replaced() -> None:
    item = {"type": "x_call", "id": "x", "a": "\ud83d", "b": "\\ud83d", "c": "\ud83d\ude00"}
    found = encoded(*answer(Opaque(NAME, item)))[-1]["response"]["output"][0]
    assert found == {**item, "a": "\ufffd", "c": "😀"}


def test_half_a_character_is_replaced_wherever_it_is_said() -> None:
    error = ErrorInfo("no \ud83d", "provider", "x\ud83d")
    found = encoded(*answer(Text("Hi"), stop="error", error=error), model="m\ud83d")
    assert found[-1]["response"]["error"]["message"] == "no \ufffd"
    _, body = API.write_error(error)
    assert body["error"]["message"] == "no "
    message = AssistantMessage("r\ud83d", "m", [Text("Hi\ud83d")], "stop")
    assert API.write_response(message)["output"][0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        (400, "invalid_request_error"),
        (404, "invalid_request_error"),
        (422, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_exceeded"),
        (500, "server_error"),
    ],
)
def test_an_error_without_a_type_is_named_by_its_status(status: int, type_: str) -> None:
    error = ErrorInfo("no", "provider", "", status)
    code, body = API.write_error(error)
    assert (code, body["error"]["type"]) == (status, type_)
    found = encoded(*answer(stop="error", error=error))[-1]["response"]["error"]
    assert found.get("type", found["code"]) == type_


def test_a_keep_alive_means_nothing() -> None:
    encoder = API.encoder()
    data = encoder.keep_alive() + encoder.encode(MessageStart()) + encoder.keep_alive()
    assert API.check(data + encoder.encode(Done("stop", AssistantMessage()))) == []


def test_the_part_event_of_a_decoder_is_lawful_and_complete() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "output": "x"}
    found = read(API.decoder(), [wire(done(0, item), end())])
    assert [event.part for event in found if isinstance(event, Part)] == [Opaque(NAME, item)]
