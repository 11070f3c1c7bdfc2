"""Tools for models that have none: what goes upstream, and what becomes of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
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
from penstock import EventStream, HTTPModel, Request, Tool, ToolMiddleware, UsageError, formats
from penstock.debug import DebugSettings, Summary
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.models import DemoModel, gemma_tools, hermes_tools, qwen_tools, xml_tools
from penstock.models.tracing import Tracer, make_reader
from penstock.request import Image, Message, SystemMessage, UserMessage

pytestmark = pytest.mark.virtual_time

CALL = ToolCall("c1", "get_weather", PARIS)
SPEAKING = [
    name
    for name in formats.names()
    if name not in ("none", "auto", "file_tags")  # which have no call of a tool of one's own
]


def calls_of(message: AssistantMessage) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


# --- the way in ---


def test_tools_stand_in_the_system_prompt_and_nowhere_else() -> None:
    upstream = Scripted("Hello.")
    choice = penstock.request.ToolChoice("auto")
    answer_of(
        ToolMiddleware(upstream, "hermes"),
        asking(system="Be kind.", tool_choice=choice, parallel_tool_calls=True),
    )
    (asked,) = upstream.asked
    assert asked.tools == []
    assert asked.tool_choice is None
    assert asked.parallel_tool_calls is None
    assert asked.system.index("get_weather") < asked.system.index("Be kind.")


def test_placement_last_puts_the_tools_behind_what_the_system_says() -> None:
    upstream = Scripted("Hello.")
    answer_of(ToolMiddleware(upstream, "hermes", placement="last"), asking(system="Be kind."))
    assert upstream.asked[0].system.startswith("Be kind.\n\n")
    assert "take_note" in upstream.asked[0].system


def test_a_template_of_ones_own_takes_the_place_of_the_words() -> None:
    upstream = Scripted("Hello.")
    answer_of(ToolMiddleware(upstream, "hermes", template="Mine: {tools}"), asking())
    assert upstream.asked[0].system.startswith('Mine: [{"name":"get_weather"')


def test_the_name_of_the_model_picks_the_prompt_and_an_unknown_one_gets_hermes() -> None:
    known, unknown = Scripted("Hi.", name="Qwen3-Coder-30B"), Scripted("Hi.", name="nobody-7b")
    for upstream in (known, unknown):
        answer_of(ToolMiddleware(upstream), asking())
    assert "<function=" in known.asked[0].system
    assert "<tool_call>" in unknown.asked[0].system
    assert "<function=" not in unknown.asked[0].system


def test_the_name_in_the_request_counts_where_that_of_the_model_says_nothing() -> None:
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream), asking(model="Qwen3-Coder-30B"))
    assert "<function=" in upstream.asked[0].system


def test_calls_and_results_of_the_history_are_told_as_text() -> None:
    upstream = Scripted("Sunny, as I said.")
    request = Request(messages=conversation(), tools=TOOLS)
    answer_of(ToolMiddleware(upstream, "hermes"), request)
    user, assistant, result = upstream.asked[0].messages
    hermes = formats.get("hermes")
    assert user == request.messages[0]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.text == f"I look.\n{hermes.render_call(CALL)}"
    assert assistant.tool_calls == []
    assert result == UserMessage(
        [Text(hermes.render_result(ToolResult("c1", "get_weather", "sunny")))]
    )


def test_the_callers_request_stays_as_it_was() -> None:
    request = Request(messages=conversation(), tools=list(TOOLS), stop=["x"])
    answer_of(ToolMiddleware(Scripted("Hi."), "hermes"), request)
    assert request.messages == conversation()
    assert request.tools == TOOLS
    assert request.stop == ["x"]


def test_neighbours_of_one_side_become_one_message_and_pictures_stay() -> None:
    picture = Image("image/png", "aGk=")
    messages: list[Message] = [
        UserMessage([Text("One."), picture]),
        UserMessage([Text("Two.")]),
        AssistantMessage(content=[Text("a"), CALL]),
        ToolResult("c1", "get_weather", [Text("sunny"), picture]),
        UserMessage([Text("And now?")]),
        SystemMessage("Be brief."),
    ]
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream, "gemma"), Request(messages=list(messages), tools=TOOLS))
    first, _, second = upstream.asked[0].messages
    assert isinstance(first, UserMessage)
    assert first.content == [Text("One."), picture, Text("Two.")]
    assert isinstance(second, UserMessage)
    assert [type(block) for block in second.content] == [Text, Image, Text]
    assert second.content[1:] == [picture, Text("And now?\n<system>\nBe brief.\n</system>")]


def test_who_says_nothing_takes_no_turn() -> None:
    messages: list[Message] = [
        UserMessage([Text("a")]),
        AssistantMessage(content=[Thinking("hm")]),
        UserMessage([Text("b")]),
        AssistantMessage(content=[Text("")]),
        UserMessage([]),
        UserMessage([Text("c")]),
    ]
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream, "hermes"), Request(messages=messages, tools=TOOLS))
    assert upstream.asked[0].messages == [UserMessage([Text("a\nb\nc")])]


def test_a_result_without_markup_of_its_own_says_whose_it_is() -> None:
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream, "pythonic"), Request(messages=conversation(), tools=TOOLS))
    last = upstream.asked[0].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.text == "Result of get_weather:\nsunny"


def test_a_result_that_says_nothing_or_failed_says_so() -> None:
    messages = conversation()
    messages[-1:] = [ToolResult("c1", "", " ", is_error=False)]
    upstream = Scripted("Hi.", "Hi.")
    model = ToolMiddleware(upstream, "hermes")
    answer_of(model, Request(messages=messages, tools=TOOLS))
    messages[-1:] = [ToolResult("c1", "", "no such city", is_error=True)]
    answer_of(model, Request(messages=messages, tools=TOOLS))
    texts = [asked.messages[-1].text for asked in upstream.asked]  # type: ignore[union-attr]
    assert "(no output)" in texts[0]
    assert '"name":"get_weather"' in texts[0]
    assert "Error: no such city" in texts[1]


def test_a_result_of_pictures_alone_says_that_they_follow() -> None:
    picture = Image("image/png", "aGk=")
    messages = conversation()
    messages[-1] = ToolResult("c1", "get_weather", [picture])
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream, "hermes"), Request(messages=messages, tools=TOOLS))
    last = upstream.asked[0].messages[-1]
    assert isinstance(last, UserMessage)
    assert "(see the images)" in last.text
    assert last.content[1] == picture


def test_several_calls_of_one_message_are_written_as_the_format_has_them_together() -> None:
    calls = [ToolCall("c1", "get_weather", PARIS), ToolCall("c2", "take_note", {"text": "x"})]
    called = AssistantMessage(content=[*calls])
    for name in ("kimi_k2", "mistral_array", "hermes", "llama3_json"):
        upstream = Scripted("Hi.")
        request = Request(messages=[UserMessage([Text("x")]), called], tools=TOOLS)
        answer_of(ToolMiddleware(upstream, name), request)
        assistant, results = upstream.asked[0].messages[1:]
        assert isinstance(assistant, AssistantMessage)
        read = formats.get(name).parse(assistant.text, TOOLS)
        assert [call.name for call in read.tool_calls][:1] == ["get_weather"]
        assert "take_note" in assistant.text
        assert isinstance(results, UserMessage)
        assert results.text.count("No result provided") == 2


def test_thoughts_go_back_only_in_the_turn_in_which_they_were_thought() -> None:
    thought = Thinking("hm")
    messages: list[Message] = [
        UserMessage([Text("One.")]),
        AssistantMessage(content=[Thinking("old"), Text("1")]),
        UserMessage([Text("Two.")]),
        AssistantMessage(content=[thought, CALL]),
        ToolResult("c1", "get_weather", "sunny"),
    ]
    upstream = Scripted("Hi.", "Hi.", "Hi.")
    for shown in ("turn", "all", "none"):
        model = ToolMiddleware(upstream, "hermes", shown_reasoning=shown)
        answer_of(model, Request(messages=list(messages), tools=TOOLS))
    kept = [
        "".join(m.thinking for m in asked.messages if isinstance(m, AssistantMessage))
        for asked in upstream.asked
    ]
    assert kept == ["hm", "oldhm", ""]


def test_what_a_format_cannot_write_is_told_in_json_and_on_error_hears_of_it() -> None:
    heard, on_error = told()
    odd = AssistantMessage(content=[ToolCall("c1", "no tag!", {"a b": 1})])
    upstream = Scripted("Hi.")
    request = Request(messages=[UserMessage([Text("x")]), odd], tools=TOOLS)
    answer_of(ToolMiddleware(upstream, "morph_xml", on_error=on_error), request)
    assistant = upstream.asked[0].messages[1]
    assert isinstance(assistant, AssistantMessage)
    assert '{"name":"no tag!","arguments":{"a b":1}}' in assistant.text
    assert heard == ["the format 'morph_xml' cannot express a call of the history"]


def test_stop_strings_of_the_format_are_added_to_those_of_the_caller() -> None:
    upstream = Scripted(*["Hi."] * 4)
    answer_of(ToolMiddleware(upstream, "hermes"), asking(stop=["END"]))
    answer_of(ToolMiddleware(upstream, "qwen3_coder"), asking())
    answer_of(ToolMiddleware(upstream, "hermes", stops=()), asking())
    answer_of(ToolMiddleware(upstream, "hermes"), asking(tools=[]))
    assert [asked.stop for asked in upstream.asked] == [
        ["END", "\n<tool_response>"],
        [],
        [],
        [],
    ]


def test_tools_in_the_fields_of_the_clients_api_go_too() -> None:
    upstream = Scripted("Hi.")
    extra = {"tools": [{"type": "web_search"}], "logprobs": True}
    raw = {"tools": [], "max_completion_tokens": 9}
    answer_of(ToolMiddleware(upstream, "hermes"), asking(extra=extra, raw=raw))
    assert upstream.asked[0].extra == {"logprobs": True}
    assert upstream.asked[0].raw == {"max_completion_tokens": 9}


# --- the way out ---


@pytest.mark.parametrize("told_as", ["auto", "itself"])
@pytest.mark.parametrize("name", SPEAKING)
def test_a_call_in_any_format_becomes_a_call(name: str, told_as: str) -> None:
    written = formats.get(name).render_call(CALL)
    model = ToolMiddleware(Scripted(written), "auto" if told_as == "auto" else name)
    answer = answer_of(model, asking())
    assert calls_of(answer) == [("get_weather", PARIS)]
    assert answer.stop_reason == "tool_use"
    assert answer.text == ""
    assert answer.usage == Usage(10, 5, total=15, raw={"n": 1})


@pytest.mark.parametrize("name", SPEAKING)
def test_a_conversation_is_the_same_with_and_without_middleware(name: str) -> None:
    """Call, result, answer: a model with tools of its own, and one that writes text."""
    told_and_native = []
    for model in (ToolMiddleware(DemoModel(name), name), DemoModel("native")):
        request = asking("How is the weather in Paris for 3 days?")
        called = answer_of(model, request)
        request.messages += [
            called,
            *[ToolResult(call.id, call.name, "sunny") for call in called.tool_calls],
        ]
        answered = answer_of(model, request)
        told_and_native.append(
            (calls_of(called), called.stop_reason, answered.text, answered.stop_reason)
        )
    told_, native = told_and_native
    assert told_ == native
    assert native[0] == [("get_weather", PARIS)]
    assert "get_weather says: sunny" in native[2]


def test_arguments_are_coerced_by_the_callers_own_schema() -> None:
    text = (
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "days": "2"}}</tool_call>'
    )
    answer = answer_of(ToolMiddleware(Scripted(text)), asking())
    assert calls_of(answer) == [("get_weather", {"city": "Oslo", "days": 2})]


def test_a_broken_call_is_mended_unless_that_is_off() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}'
    mended = answer_of(ToolMiddleware(Scripted(text), "hermes"), asking())
    assert calls_of(mended) == [("get_weather", {"city": "Oslo"})]
    left = answer_of(ToolMiddleware(Scripted(text), "hermes", repair=False), asking())
    assert left.tool_calls == []
    assert left.text == text
    assert left.stop_reason == "stop"


def test_a_call_cut_by_the_limit_is_no_call_and_the_end_stays_length() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Os'
    answer = answer_of(ToolMiddleware(Scripted(text, reason="length"), "hermes"), asking())
    assert answer.tool_calls == []
    assert answer.stop_reason == "length"


def test_live_arguments_stream_as_they_come() -> None:
    text = '<tool_call>{"name": "take_note", "arguments": {"text": "abcdef"}}</tool_call>'
    upstream = Scripted(text, cuts=range(len(text)))
    events = events_of(ToolMiddleware(upstream, "hermes", arguments="live"), asking())
    deltas = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert len(deltas) > 6
    assert "".join(deltas) == '{"text":"abcdef"}'


def test_thoughts_in_the_text_become_thinking() -> None:
    answer = answer_of(ToolMiddleware(Scripted("<think>hm</think>Hello."), "hermes"), asking())
    assert (answer.thinking, answer.text) == ("hm", "Hello.")
    without_tools = asking(tools=[])
    for name in ("auto", "hermes"):
        answer = answer_of(ToolMiddleware(Scripted("<think>hm</think>Hi."), name), without_tools)
        assert (answer.thinking, answer.text) == ("hm", "Hi.")


def test_a_prompt_suffix_may_have_opened_the_thought() -> None:
    upstream = Scripted("hm</think>Hello.")
    answer = answer_of(ToolMiddleware(upstream, "hermes", prompt_suffix="<think>\n"), asking())
    assert (answer.thinking, answer.text) == ("hm", "Hello.")


def native_events() -> list[Event]:
    call = ToolCall("call_1", "anything", {"a": 1}, signature="s")
    message = AssistantMessage("m", "x", [], "tool_use", "tool_calls")
    return [
        MessageStart("m", "x"),
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingEnd(0, "hm", "sig"),
        ToolCallStart(1, "call_1", "anything"),
        ToolCallDelta(1, '{"a":1}'),
        ToolCallEnd(1, call),
        Done("tool_use", message),
    ]


def test_native_calls_and_thoughts_of_the_upstream_pass_untouched() -> None:
    events = native_events()
    out = events_of(ToolMiddleware(Scripted(events), send_back=True), asking())
    assert out[:-1] == events[:-1]
    last = out[-1]
    assert isinstance(last, Done)
    assert last.reason == "tool_use"
    assert last.message.raw_stop_reason == "tool_calls"


def test_ids_of_calls_are_new_in_the_conversation() -> None:
    request = asking()
    request.messages = [*conversation(), *request.messages]
    called = request.messages[1]
    assert isinstance(called, AssistantMessage)
    called.tool_calls[0].id = "call_1"
    text = formats.get("hermes").render_call(CALL)
    answer = answer_of(ToolMiddleware(Scripted(text + text), "hermes"), request)
    assert [call.id for call in answer.tool_calls] == ["call_2", "call_3"]


def test_without_tools_what_looks_like_a_call_is_text() -> None:
    text = formats.get("hermes").render_call(CALL)
    answer = answer_of(ToolMiddleware(Scripted(text), "hermes"), asking(tools=[]))
    assert answer.text == text
    assert answer.tool_calls == []
    assert answer.stop_reason == "stop"


# --- ends ---


def test_a_failure_of_the_upstream_is_in_the_stream() -> None:
    failed = answer_of(ToolMiddleware(Scripted(ConnectionResetError("gone"))), asking())
    assert failed.error is not None
    assert failed.stop_reason == "error"


def test_a_cut_upstream_keeps_what_arrived() -> None:
    events: list[Event] = [MessageStart("m", "x"), TextStart(0), TextDelta(0, "so far", "so far")]
    out = events_of(ToolMiddleware(Scripted(events)), asking())
    assert isinstance(out[-1], Failed)
    assert out[-1].error.kind == "truncated"
    assert out[-1].message.text == "so far"
    check_monotone(out)


async def test_abort_closes_the_upstream_and_leaves_no_task() -> None:
    closed = []

    class Endless(Scripted):
        def stream(self, request: Request) -> EventStream:
            del request
            return EventStream(self._forever(), interval=0)

        async def _forever(self) -> AsyncIterator[Event]:
            try:
                yield MessageStart("m", "x")
                yield TextStart(0)
                while True:
                    yield TextDelta(0, "more ", "more ")
                    await asyncio.sleep(0.001)
            finally:
                closed.append(True)

    stream = ToolMiddleware(Endless()).stream(asking())
    async for event in stream:
        if isinstance(event, TextDelta):
            stream.abort()
    message = await stream.result()
    assert message.stop_reason == "aborted"
    assert closed == [True]


async def test_leaving_a_stream_early_closes_the_upstream() -> None:
    closed = []

    class Watched(Scripted):
        async def _watched(self) -> AsyncIterator[Event]:
            try:
                for event in spoken("a b c d", range(7)):
                    yield event
                    await asyncio.sleep(1)
            finally:
                closed.append(True)

        def stream(self, request: Request) -> EventStream:
            del request
            return EventStream(self._watched(), interval=0)

    async with ToolMiddleware(Watched()).stream(asking()) as stream:
        async for _ in stream:
            break
    assert closed == [True]


async def test_closing_closes_the_upstream() -> None:
    upstream = Scripted()
    model = ToolMiddleware(upstream)
    await model.close()
    assert upstream.closed
    assert model.name == "some-model"


# --- parts that compose ---


def test_the_same_reading_by_hand_gives_the_same_message() -> None:
    text = "I look. " + formats.get("glm45").render_call(CALL)
    by_hand = penstock.MessageBuilder()
    for event in penstock.parse_events(spoken(text), "glm45", TOOLS, trim=True, repair=True):
        by_hand.add(event)
    answer = answer_of(ToolMiddleware(Scripted(text), "glm45"), asking())
    assert answer.content == by_hand.message.content
    assert answer.stop_reason == by_hand.message.stop_reason


def test_the_pace_is_that_of_the_upstream() -> None:
    paced = HTTPModel("ollama", "http://here", "m", interval=0.25, environ={})
    assert ToolMiddleware(ToolMiddleware(paced)).interval == 0.25
    assert ToolMiddleware(Scripted()).interval == 0


def test_a_middleware_over_a_middleware_changes_nothing_more() -> None:
    text = "I look. " + formats.get("hermes").render_call(CALL)
    once = answer_of(ToolMiddleware(Scripted(text)), asking())
    twice = answer_of(ToolMiddleware(ToolMiddleware(Scripted(text))), asking())
    # The inner one is asked without tools, so what it reads is text for the outer one.
    assert twice.content == once.content


def test_a_stream_of_it_can_be_read_by_a_script() -> None:
    text = formats.get("hermes").render_call(CALL)
    sync = ToolMiddleware(Scripted(text)).stream(asking()).sync()
    assert [event.type for event in sync][-1] == "done"


async def test_a_stream_of_it_can_be_teed() -> None:
    text = formats.get("hermes").render_call(CALL)
    branches = ToolMiddleware(Scripted(text)).stream(asking()).tee(2)
    one, two = [[event async for event in branch] for branch in branches]
    assert one == two


class OwnFormat:
    """A format of the user's own, whose parser knows no options."""

    name = "own"

    def render_tools(self, tools: list[Tool]) -> str:
        return "Call with " + " or ".join(tool.name for tool in tools)

    def render_call(self, call: ToolCall) -> str:
        return f"!{call.name}"

    def render_result(self, result: ToolResult) -> str:
        return f"?{result.content}"

    def parse(self, text: str, tools: list[Tool]) -> AssistantMessage:
        return formats.get("hermes").parse(text, tools)

    def parser(self, tools: list[Tool]) -> formats.TextParser:
        return penstock.Parser("hermes", tools)


def test_a_format_of_ones_own_works() -> None:
    upstream = Scripted(formats.get("hermes").render_call(CALL), "Fine.")
    model = ToolMiddleware(upstream, OwnFormat())
    answer = answer_of(model, asking())
    assert calls_of(answer) == [("get_weather", PARIS)]
    assert upstream.asked[0].system == "Call with get_weather or take_note"
    answer_of(model, Request(messages=conversation(), tools=TOOLS))
    assistant, result = upstream.asked[1].messages[1:]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.text == "I look.\n!get_weather"
    assert result == UserMessage([Text("?sunny")])


def test_misuse_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="unknown format"):
        ToolMiddleware(Scripted(), "nonsense")
    with pytest.raises(UsageError, match="0 or more"):
        ToolMiddleware(Scripted(), retries=-1)


# --- presets ---


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        (gemma_tools, "gemma"),
        (hermes_tools, "hermes"),
        (xml_tools, "morph_xml"),
        (qwen_tools, "qwen_web"),
    ],
)
def test_a_preset_reads_its_format(preset: type[ToolMiddleware], name: str) -> None:
    upstream = Scripted("I look.\n" + formats.get(name).render_call(CALL))
    answer = answer_of(preset(upstream, repair=False), asking(system="Be kind."))
    assert calls_of(answer) == [("get_weather", PARIS)]
    assert answer.text == "I look."
    assert "get_weather" in upstream.asked[0].system


def test_the_qwen_preset_lists_tools_in_words_behind_the_system_prompt() -> None:
    upstream = Scripted("Hi.")
    ping = Tool("ping", "Says pong")
    parameters = {
        "properties": {
            "unit": {"type": "string", "default": "C", "description": "the unit"},
            "on": {"type": "boolean"},
            "tags": {"type": "array"},
        },
        "required": ["on"],
    }
    tools = [ping, Tool("heat", "Heats", parameters)]
    answer_of(qwen_tools(upstream), asking(system="Be kind.", tools=tools))
    system = upstream.asked[0].system
    assert system.startswith("Be kind.\n\n====\n\nTOOL USE\n")
    assert "exactly one tool per message" in system
    assert (
        "<tools>\n## ping\nDescription: Says pong\nParameters: None\n\nUsage:\n<ping>\n</ping>\n"
        in system
    )
    assert (
        "## heat\nDescription: Heats\nParameters:\n- unit: (optional) string - the unit\n"
        "- on: (required) boolean\n- tags: (optional) array\n\nUsage:\n<heat>\n<unit>C</unit>\n"
        "<on>true</on>\n<tags>[]</tags>\n</heat>\n</tools>" in system
    )


def test_the_qwen_preset_tells_results_in_its_own_words() -> None:
    messages = conversation()
    upstream = Scripted("Hi.", "Hi.")
    answer_of(qwen_tools(upstream), Request(messages=messages, tools=TOOLS))
    messages[-1] = ToolResult("c1", "", "\n")
    answer_of(qwen_tools(upstream), Request(messages=messages, tools=TOOLS))
    assert [asked.messages[-1] for asked in upstream.asked] == [
        UserMessage([Text("Tool Result from get_weather:\nsunny")]),
        UserMessage(
            [Text("Tool Result from get_weather:\n(Command completed successfully with no output)")]
        ),
    ]


# --- debug modes ---


def test_debug_shows_chunks_events_and_the_summary() -> None:
    text = "Hi " + formats.get("hermes").render_call(CALL)
    lines: list[str] = []
    model = ToolMiddleware(Scripted(text), "hermes", debug="parse", write=lines.append)
    out = events_of(model, asking())
    tags = [line.split()[0] for line in lines]
    assert tags.count("[penstock:out]") == len(out)
    assert sum(text[:2] in line for line in lines if line.startswith("[penstock:raw]")) == 1
    assert ">>><tool_call>" in next(line for line in lines if "origin" in line)
    assert lines[-1].startswith('[penstock:summary] [{"name":"get_weather"')


def test_debug_is_switched_by_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_DEBUG", "stream")
    answer_of(ToolMiddleware(Scripted("Hi."), "hermes"), asking())
    answer_of(ToolMiddleware(Scripted("Off."), "hermes", debug="off"), asking())
    shown = capsys.readouterr().err
    assert '[penstock:raw] "Hi."' in shown
    assert "summary" not in shown
    assert "Off." not in shown


def test_a_program_gets_the_summary_as_a_value() -> None:
    summaries: list[Summary] = []
    text = formats.get("hermes").render_call(CALL)
    model = ToolMiddleware(Scripted(text), debug="off", on_summary=summaries.append)
    answer_of(model, asking())
    (summary,) = summaries
    assert summary.original_text == text
    assert [call.name for call in summary.calls] == ["get_weather"]


def test_a_trace_shows_text_that_comes_only_with_its_end() -> None:
    lines: list[str] = []
    events: list[Event] = [TextStart(0), TextEnd(0, "Hi."), Done("stop", AssistantMessage())]
    trace = Tracer(DebugSettings("stream"), lines.append, None)
    hermes = formats.get("hermes")
    read = make_reader(lambda _: penstock.EventParser("hermes"), trace, hermes, [])
    for event in events:
        read(event)
    assert '[penstock:raw] "Hi."' in lines


def test_a_trace_changes_no_event() -> None:
    for events in (native_events(), spoken("Hi " + formats.get("hermes").render_call(CALL), [3])):
        plain = events_of(ToolMiddleware(Scripted(events)), asking())
        traced = ToolMiddleware(Scripted(events), debug="parse", write=lambda _: None)
        assert events_of(traced, asking()) == plain


def test_opaque_parts_stay_in_the_history() -> None:
    part = Opaque("anthropic", {"type": "redacted_thinking"})
    called = AssistantMessage(content=[part, Text("a"), CALL])
    messages: list[Message] = [UserMessage([Text("x")]), called]
    upstream = Scripted("Hi.")
    answer_of(ToolMiddleware(upstream, "hermes"), Request(messages=list(messages), tools=[NOTE]))
    assistant = upstream.asked[0].messages[1]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.content[0] == part
    assert WEATHER.name in assistant.text
