"""Tool choice, forced and begged for; retries; calls that are sent back."""

from __future__ import annotations

from typing import Any

import pytest

from gbnf import Grammar
from laws import check_monotone
from models.upstreams import (
    NOTE,
    PARIS,
    TOOLS,
    WEATHER,
    Scripted,
    answer_of,
    asking,
    conversation,
    events_of,
    spoken,
    told,
)
from penstock import Request, Tool, ToolMiddleware, formats
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
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
)
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage
from penstock.models import DemoModel
from penstock.models.tool_choice import make_call_schema
from penstock.request import ToolChoice, UserMessage
from penstock.values.schema import Schema

REQUIRED = ToolChoice("required")
NAMED = ToolChoice("tool", "take_note")
HERMES = formats.get("hermes")
CALL = HERMES.render_call(ToolCall("", "get_weather", PARIS))
NOTING = HERMES.render_call(ToolCall("", "take_note", {"text": "hi"}))


def names(message: AssistantMessage) -> list[str]:
    return [call.name for call in message.tool_calls]


def parts(message: AssistantMessage) -> list[Any]:
    return [block.data for block in message.content if isinstance(block, Opaque)]


# --- in words ---


def test_auto_asks_for_nothing() -> None:
    upstream = Scripted("Hello.")
    answer = answer_of(ToolMiddleware(upstream), asking(tool_choice=ToolChoice("auto")))
    assert answer.text == "Hello."
    assert "must" not in upstream.asked[0].system.partition("Call a tool only")[2]


def test_none_shows_no_tools_and_reads_no_calls() -> None:
    upstream = Scripted(CALL)
    answer = answer_of(ToolMiddleware(upstream, "hermes"), asking(tool_choice=ToolChoice("none")))
    assert upstream.asked[0].system == ""
    assert answer.text == CALL
    assert answer.stop_reason == "stop"


def test_none_says_so_where_the_history_has_calls() -> None:
    upstream = Scripted("Fine.")
    request = Request(messages=conversation(), tools=TOOLS, tool_choice=ToolChoice("none"))
    answer_of(ToolMiddleware(upstream, "hermes"), request)
    assert upstream.asked[0].system == "Call no tool in this response: write plain text."


def test_none_holds_for_a_format_that_cannot_be_read_without_its_calls() -> None:
    heard, on_error = told()
    written = formats.get("harmony").render_call(ToolCall("", "get_weather", PARIS))
    model = ToolMiddleware(Scripted(written), "harmony", on_error=on_error)
    answer = answer_of(model, asking(tool_choice=ToolChoice("none")))
    assert answer.tool_calls == []
    assert heard == ["the request does not allow a call of 'get_weather'"]


def test_required_is_said_and_satisfied_at_once_where_the_model_obeys() -> None:
    upstream = Scripted(CALL)
    answer = answer_of(ToolMiddleware(upstream), asking(tool_choice=REQUIRED))
    assert names(answer) == ["get_weather"]
    assert upstream.asked[0].system.endswith("You must call at least one tool in this response.")


def test_an_answer_without_the_required_call_is_asked_for_once_more() -> None:
    upstream = Scripted("I would rather talk.", CALL, usage=Usage(10, 5, 1, 2, 3, 15, {"n": 1}))
    events = events_of(ToolMiddleware(upstream), asking(tool_choice=REQUIRED))
    check_monotone(events)
    first, second = upstream.asked
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2] == AssistantMessage(content=[Text("I would rather talk.")])
    reminder = second.messages[-1]
    assert isinstance(reminder, UserMessage)
    assert "You must call at least one tool in this response." in reminder.text
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "tool_use"
    assert [type(block).__name__ for block in done.message.content] == [
        "Text",
        "Opaque",
        "ToolCall",
    ]
    assert parts(done.message) == [{"type": "retry", "reason": "the demanded call is missing"}]
    assert done.message.usage == Usage(20, 10, 2, 4, 6, 30, {"attempts": [{"n": 1}, {"n": 1}]})
    assert sum(isinstance(event, Done) for event in events) == 1


def test_an_answer_in_two_attempts_has_one_name() -> None:
    again = spoken(CALL)
    again[0] = MessageStart("m2", "another-model")
    assert isinstance(again[-1], Done)
    again[-1].message.id = "m2"
    events = events_of(ToolMiddleware(Scripted(spoken("No."), again)), asking(tool_choice=REQUIRED))
    start, done = events[0], events[-1]
    assert isinstance(start, MessageStart)
    assert isinstance(done, Done)
    assert (done.message.id, done.message.model) == (start.id, start.model) == ("m1", "some-model")


def test_the_retry_is_bounded_and_on_error_hears_that_no_call_came() -> None:
    heard, on_error = told()
    upstream = Scripted("No.", "No!", "never asked")
    answer = answer_of(ToolMiddleware(upstream, on_error=on_error), asking(tool_choice=REQUIRED))
    assert len(upstream.asked) == 2
    assert answer.text == "No.No!"
    assert answer.stop_reason == "stop"
    assert heard == ["the response has no call, although one was demanded"]


def test_without_retries_the_answer_stands() -> None:
    upstream = Scripted("No.")
    answer = answer_of(ToolMiddleware(upstream, retries=0), asking(tool_choice=REQUIRED))
    assert answer.text == "No."
    assert len(upstream.asked) == 1


def test_an_answer_that_was_cut_is_not_asked_for_again() -> None:
    upstream = Scripted("Let me th", reason="length")
    answer = answer_of(ToolMiddleware(upstream), asking(tool_choice=REQUIRED))
    assert answer.stop_reason == "length"
    assert len(upstream.asked) == 1


def test_a_failure_is_not_asked_again_and_one_in_the_retry_ends_the_answer() -> None:
    upstream = Scripted("No.", OSError("reset"))
    events = events_of(ToolMiddleware(upstream), asking(tool_choice=REQUIRED))
    check_monotone(events)
    assert isinstance(events[-1], Failed)
    assert events[-1].message.text == "No."


def test_an_empty_answer_is_asked_again_in_the_same_turn() -> None:
    upstream = Scripted("", CALL)
    answer = answer_of(ToolMiddleware(upstream), asking("Weather?", tool_choice=REQUIRED))
    assert names(answer) == ["get_weather"]
    (only,) = upstream.asked[1].messages
    assert isinstance(only, UserMessage)
    assert only.text.startswith("Weather?\nYou did not call a tool")


def test_a_named_tool_is_the_only_one_that_is_shown_and_the_only_one_that_passes() -> None:
    heard, on_error = told()
    upstream = Scripted(CALL, NOTING)
    model = ToolMiddleware(upstream, "hermes", on_error=on_error)
    events = events_of(model, asking(tool_choice=NAMED))
    check_monotone(events)
    assert "get_weather" not in upstream.asked[0].system
    assert "You must call the tool `take_note` in this response." in upstream.asked[0].system
    assert [e.call.name for e in events if isinstance(e, ToolCallEnd)] == ["take_note"]
    assert heard == ["the request does not allow a call of 'get_weather'"]
    assert "".join(event.raw for event in events) == CALL + NOTING


def test_a_broken_call_does_not_satisfy_a_demand_in_live_mode_either() -> None:
    broken = '<tool_call>{"name": "take_note", "arguments": {"text": "hi", nonsense'
    upstream = Scripted(broken, NOTING)
    model = ToolMiddleware(upstream, "hermes", arguments="live", repair=False)
    events = events_of(model, asking(tool_choice=REQUIRED))
    check_monotone(events)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "tool_use"
    assert [call.complete for call in done.message.tool_calls] == [True]


def test_a_broken_call_of_the_last_attempt_is_shown_as_it_is() -> None:
    broken = '<tool_call>{"name": "take_note", "arguments": {"text": "hi", nonsense'
    model = ToolMiddleware(Scripted(broken, broken), "hermes", arguments="live", repair=False)
    answer = answer_of(model, asking(tool_choice=REQUIRED))
    assert [call.complete for call in answer.tool_calls] == [False]
    assert answer.stop_reason == "stop"


def test_a_call_that_the_limit_cut_passes_where_no_retry_can_help() -> None:
    cut = '<tool_call>{"name": "take_note", "arguments": {"text": "hi'
    model = ToolMiddleware(Scripted(cut, reason="length"), "hermes", arguments="live")
    events = events_of(model, asking(tool_choice=REQUIRED))
    check_monotone(events)
    assert [e.call.complete for e in events if isinstance(e, ToolCallEnd)] == [False]
    assert "".join(event.raw for event in events) == cut


def test_without_parallel_calls_the_first_passes_and_the_others_stay_text() -> None:
    heard, on_error = told()
    text = f"One. {CALL} Two. {NOTING} Three."
    upstream = Scripted(text)
    model = ToolMiddleware(upstream, "hermes", trim=False, on_error=on_error)
    events = events_of(model, asking(parallel_tool_calls=False))
    check_monotone(events)
    assert "Call at most one tool in a response." in upstream.asked[0].system
    done = events[-1]
    assert isinstance(done, Done)
    assert names(done.message) == ["get_weather"]
    assert done.message.text == f"One.  Two. {NOTING} Three."
    assert "".join(event.raw for event in events) == text
    assert heard == ["the request allows no more calls: this one stays text"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tool_choice": ToolChoice("tool", "fly")}, "'fly', which is not a tool"),
        ({"tool_choice": REQUIRED, "tools": []}, "the request has no tools"),
    ],
)
def test_a_choice_that_cannot_be_made_fails_in_the_stream(fields: Any, why: str) -> None:
    upstream = Scripted()
    answer = answer_of(ToolMiddleware(upstream), asking(**fields))
    assert answer.error is not None
    assert why in answer.error.message
    assert upstream.asked == []


# --- forced ---


def test_a_grammar_forces_the_call_and_the_models_text_is_read_in_its_format() -> None:
    upstream = Scripted(CALL, name="nobody")
    request = asking(tool_choice=REQUIRED, source="anthropic", extra={"foreign": 1})
    answer = answer_of(ToolMiddleware(upstream, constrain="grammar"), request)
    assert names(answer) == ["get_weather"]
    asked = upstream.asked[0]
    assert asked.source == "openai-chat"
    assert set(asked.extra) == {"grammar"}
    grammar = Grammar(asked.extra["grammar"])
    assert grammar.matches(CALL)
    assert grammar.matches(CALL + "\n" + NOTING)
    assert not grammar.matches("Hello.")


def test_a_grammar_of_a_named_tool_has_no_other() -> None:
    upstream = Scripted(NOTING)
    answer_of(ToolMiddleware(upstream, constrain="grammar"), asking(tool_choice=NAMED))
    grammar = Grammar(upstream.asked[0].extra["grammar"])
    assert grammar.matches(NOTING)
    assert not grammar.matches(CALL)


def test_nothing_is_forced_where_the_model_may_choose() -> None:
    upstream = Scripted("Hi.", "Hi.")
    answer_of(ToolMiddleware(upstream, constrain="grammar"), asking(extra={"own": 1}))
    answer_of(ToolMiddleware(upstream, constrain="json_schema"), asking())
    assert upstream.asked[0].extra == {"own": 1}
    assert upstream.asked[1].response_format is None


@pytest.mark.parametrize(
    ("fields", "at_least_one", "stops"),
    [
        ({}, False, False),
        ({"tool_choice": REQUIRED}, True, False),
        ({"tool_choice": NAMED}, True, True),
        ({"parallel_tool_calls": False}, False, True),
    ],
)
def test_a_structural_tag_makes_sure_of_calls(
    fields: Any, *, at_least_one: bool, stops: bool
) -> None:
    upstream = Scripted(NOTING)
    answer_of(ToolMiddleware(upstream, constrain="structural_tag"), asking(**fields))
    tag = upstream.asked[0].extra["response_format"]
    assert tag["type"] == "structural_tag"
    assert tag["format"]["at_least_one"] is at_least_one
    assert tag["format"]["stop_after_first"] is stops


def test_an_upstream_that_names_its_api_gets_the_fields_in_its_own_words() -> None:
    class Named(Scripted):
        api_name = "ollama"

    upstream = Named(CALL)
    answer_of(ToolMiddleware(upstream, constrain="grammar"), asking(tool_choice=REQUIRED))
    assert upstream.asked[0].source == "ollama"


def test_a_format_without_a_grammar_is_begged() -> None:
    class Silent:
        name = "silent"
        render_tools, render_call = HERMES.render_tools, HERMES.render_call
        render_result, parse, parser = HERMES.render_result, HERMES.parse, HERMES.parser

    upstream = Scripted("No.", CALL)
    model = ToolMiddleware(upstream, Silent(), constrain="grammar")
    assert names(answer_of(model, asking(tool_choice=REQUIRED))) == ["get_weather"]
    assert upstream.asked[0].extra == {}
    assert len(upstream.asked) == 2


# --- the tool-choice stream ---


def chosen(text: str, **fields: Any) -> tuple[list[Event], list[str], Scripted]:
    heard, on_error = told()
    upstream = Scripted(text, reason=fields.pop("reason", "stop"))
    model = ToolMiddleware(upstream, constrain="json_schema", on_error=on_error)
    events = events_of(model, asking(**{"tool_choice": REQUIRED, **fields}))
    check_monotone(events)
    return events, heard, upstream


def test_one_whole_answer_becomes_one_call_and_a_finish() -> None:
    text = '{"name": "get_weather", "arguments": {"city": "Paris", "days": "3"}}'
    events, heard, upstream = chosen(text)
    assert [event.type for event in events] == [
        "start", "toolcall_start", "toolcall_delta", "toolcall_end", "done",
    ]  # fmt: skip
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "tool_use"
    assert done.message.usage == Usage(10, 5, total=15, raw={"n": 1})
    notes = ["coerced days from string to integer"]
    assert done.message.tool_calls == [ToolCall("call_1", "get_weather", PARIS, repairs=notes)]
    assert "".join(event.raw for event in events) == text
    assert heard == []
    asked = upstream.asked[0]
    assert asked.response_format is not None
    assert asked.response_format.kind == "schema"
    assert Schema(asked.response_format.schema).accepts(
        {"name": "get_weather", "arguments": {"city": "x"}}
    )
    assert asked.tools == []
    assert "get_weather" in asked.system


@pytest.mark.parametrize(
    "text", ["no JSON at all", '{"arguments": {}}', "[1]", '{"name": 3}', ""], ids=repr
)
def test_what_cannot_be_read_is_an_unknown_call_that_is_never_run(text: str) -> None:
    events, heard, _ = chosen(text)
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert (end.call.name, end.call.arguments, end.call.complete) == ("unknown", {}, False)
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "tool_use"
    assert len(heard) == 1
    assert "not a JSON object" in heard[0]


def test_a_call_of_another_tool_than_the_chosen_one_is_never_run() -> None:
    events, heard, _ = chosen('{"name": "get_weather", "arguments": {}}', tool_choice=NAMED)
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert not end.call.complete
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "stop"
    assert len(heard) == 1


def test_json_that_is_nearly_right_is_mended_and_says_so() -> None:
    events, _, _ = chosen('```json\n{"name": "take_note", "arguments": {"text": "a",}}\n```')
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert (end.call.arguments, end.call.complete) == ({"text": "a"}, True)
    assert end.call.repairs


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"get_weather","argum',
        '{"name": "take_note", "arguments": {"text": "a"',
        '{"name": "take_note", "arguments": {"text": "a", "tags: ["b"]}}',
    ],
)
def test_json_whose_end_is_made_up_or_guessed_is_never_run(text: str) -> None:
    events, _, _ = chosen(text)
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert not end.call.complete
    assert end.call.repairs
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "stop"


def test_arguments_may_be_json_in_a_string_but_nothing_else() -> None:
    events, _, _ = chosen(r'{"name": "take_note", "arguments": "{\"text\": \"a\"}"}')
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert (end.call.arguments, end.call.complete) == ({"text": "a"}, True)
    events, heard, _ = chosen('{"name": "take_note", "arguments": "a"}')
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert (end.call.name, end.call.complete) == ("unknown", False)
    assert heard


def test_thoughts_before_a_choice_are_kept() -> None:
    text = '{"name": "take_note", "arguments": {"text": "a"}}'
    message = AssistantMessage("m", "x", [], "stop")
    upstream = Scripted(
        [
            ThinkingStart(0),
            ThinkingDelta(0, "hm"),
            ThinkingEnd(0, "hm", "sig"),
            TextStart(1),
            TextDelta(1, text),
            TextEnd(1, text),
            Done("stop", message),
        ]
    )
    model = ToolMiddleware(upstream, constrain="json_schema")
    events = events_of(model, asking(tool_choice=REQUIRED))
    check_monotone(events)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.message.content[0] == Thinking("hm", "sig")
    assert names(done.message) == ["take_note"]


def test_a_format_of_one_call_is_forced_to_one() -> None:
    written = formats.get("llama3_json").render_call(ToolCall("", "get_weather", PARIS))
    upstream = Scripted(written)
    model = ToolMiddleware(upstream, "llama3_json", constrain="grammar")
    assert names(answer_of(model, asking(tool_choice=REQUIRED))) == ["get_weather"]
    assert Grammar(upstream.asked[0].extra["grammar"]).matches(written)


def test_a_tool_that_no_grammar_can_name_is_begged_for() -> None:
    odd = Tool("no tag!", "", {})
    upstream = Scripted("No.", "No.")
    model = ToolMiddleware(upstream, "morph_xml", constrain="grammar")
    answer_of(model, asking(tools=[odd], tool_choice=REQUIRED))
    assert upstream.asked[0].extra == {}
    assert len(upstream.asked) == 2


def test_a_choice_that_the_limit_cut_ends_with_length() -> None:
    events, _, _ = chosen('{"name": "take_note", "arguments": {"te', reason="length")
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "length"
    assert not done.message.tool_calls[0].complete


def test_a_failed_choice_is_a_failed_stream() -> None:
    upstream = Scripted(OSError("reset"))
    model = ToolMiddleware(upstream, constrain="json_schema")
    events = events_of(model, asking(tool_choice=REQUIRED))
    assert isinstance(events[-1], Failed)


def test_the_schema_of_a_choice_takes_references_along() -> None:
    city = {"$defs": {"c": {"type": "string"}}, "properties": {"city": {"$ref": "#/$defs/c"}}}
    odd = {"properties": {"default": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    schema = Schema(make_call_schema([Tool("a", "", city), Tool("b", "", odd), NOTE]))
    assert schema.accepts({"name": "a", "arguments": {"city": "x"}})
    assert not schema.accepts({"name": "a", "arguments": {"city": 1}})
    assert schema.accepts({"name": "b", "arguments": {"default": 1}})
    assert not schema.accepts({"name": "b", "arguments": {"default": "x"}})
    assert not schema.accepts({"name": "c", "arguments": {}})
    assert Schema(make_call_schema([WEATHER])).accepts({"name": "get_weather", "arguments": PARIS})


# --- sent back ---


BAD = '<tool_call>{"name": "get_weather", "arguments": {"days": "soon"}}</tool_call>'


def test_calls_are_not_judged_unless_that_is_asked_for() -> None:
    upstream = Scripted(BAD)
    assert names(answer_of(ToolMiddleware(upstream, "hermes"), asking())) == ["get_weather"]


@pytest.mark.parametrize("arguments", ["whole", "live"])
def test_arguments_that_the_schema_refuses_are_sent_back_once(arguments: Any) -> None:
    upstream = Scripted("Ah. " + BAD, CALL)
    model = ToolMiddleware(upstream, "hermes", send_back=True, arguments=arguments)
    events = events_of(model, asking())
    check_monotone(events)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == "tool_use"
    assert [call.arguments for call in done.message.tool_calls] == [PARIS]
    (part,) = [event.part.data for event in events if isinstance(event, Part)]
    why = '`city` is missing; `days` is "soon", which does not satisfy {"type":"integer"}'
    assert part == {
        "type": "retry",
        "reason": why,
        "calls": [{"name": "get_weather", "arguments": {"days": "soon"}, "error": why}],
    }
    answer, complaint = upstream.asked[1].messages[-2:]
    assert answer == AssistantMessage(content=[Text("Ah. " + BAD)])
    assert isinstance(complaint, UserMessage)
    assert "`city` is missing" in complaint.text
    assert done.message.usage.total == 30
    assert "".join(event.raw for event in events) == "Ah. " + BAD + CALL


def test_a_call_of_a_tool_that_nobody_has_is_sent_back() -> None:
    upstream = Scripted('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', CALL)
    answer = answer_of(ToolMiddleware(upstream, "hermes", send_back=True), asking())
    assert names(answer) == ["get_weather"]
    (part,) = parts(answer)
    assert part["reason"] == "there is no tool called 'fly'; the tools are: get_weather, take_note"


def test_a_good_call_beside_a_bad_one_passes_and_is_not_asked_for_again() -> None:
    upstream = Scripted(NOTING + BAD + " and so on", CALL)
    events = events_of(ToolMiddleware(upstream, "hermes", send_back=True), asking())
    check_monotone(events)
    done = events[-1]
    assert isinstance(done, Done)
    assert names(done.message) == ["take_note", "get_weather"]
    assert len({call.id for call in done.message.tool_calls}) == 2
    complaint = upstream.asked[1].messages[-1]
    assert isinstance(complaint, UserMessage)
    assert "do not repeat them" in complaint.text
    assert "".join(event.raw for event in events) == NOTING + BAD + " and so on" + CALL


def test_a_call_that_is_not_allowed_behind_one_that_is_sent_back_keeps_its_place() -> None:
    flying = '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'
    text = f"a{BAD}b{flying}c"
    model = ToolMiddleware(Scripted(text, CALL), "hermes", send_back=True, trim=False)
    events = events_of(model, asking(tool_choice=REQUIRED))
    check_monotone(events)
    assert "".join(event.raw for event in events) == text + CALL
    done = events[-1]
    assert isinstance(done, Done)
    assert done.message.text == "abc"
    assert names(done.message) == ["get_weather"]


def test_a_call_that_is_bad_twice_passes_as_it_is() -> None:
    upstream = Scripted(BAD, BAD)
    answer = answer_of(ToolMiddleware(upstream, "hermes", send_back=True), asking())
    assert [call.arguments for call in answer.tool_calls] == [{"days": "soon"}]
    assert len(upstream.asked) == 2


def test_an_unknown_argument_is_sent_back_only_where_the_schema_is_closed() -> None:
    extra = '<tool_call>{"name": "take_note", "arguments": {"text": "a", "b": 1}}</tool_call>'
    upstream = Scripted(extra, NOTING)
    answer = answer_of(ToolMiddleware(upstream, "hermes", send_back=True), asking())
    assert parts(answer)[0]["reason"] == "there is no argument `b`"


def test_a_bad_call_that_the_limit_followed_passes_as_it_is() -> None:
    upstream = Scripted(BAD + " and th", reason="length")
    events = events_of(ToolMiddleware(upstream, "hermes", send_back=True), asking())
    check_monotone(events)
    assert "".join(event.raw for event in events) == BAD + " and th"
    assert sum(isinstance(event, ToolCallEnd) for event in events) == 1


# --- with the scripted model, from end to end ---


@pytest.mark.parametrize("constrain", [None, "json_schema"])
@pytest.mark.parametrize("choice", [REQUIRED, NAMED], ids=lambda choice: choice.mode)
def test_a_demanded_call_comes_whatever_the_words_are(constrain: Any, choice: ToolChoice) -> None:
    model = ToolMiddleware(DemoModel(), constrain=constrain)
    answer = answer_of(model, asking("Hm.", tool_choice=choice))
    (call,) = answer.tool_calls
    assert call.name == (choice.name or "get_weather")
    tool = next(tool for tool in TOOLS if tool.name == call.name)
    assert Schema(tool.parameters).accepts(call.arguments)
    assert answer.stop_reason == "tool_use"
