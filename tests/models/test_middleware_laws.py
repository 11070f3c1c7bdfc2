"""The laws, over the middleware: whatever a model writes and however it is cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_monotone, merged, without_raw
from laws.strategies import CUTS, event_sequences, soup
from models.upstreams import PARIS, Scripted, asking, events_of, spoken
from penstock import Request, ToolCall, ToolMiddleware, formats
from penstock.events import Event, Failed, TextDelta, TextEnd
from penstock.messages import AssistantMessage
from penstock.request import ToolChoice

FORMATS = ["hermes", "gemma", "morph_xml", "qwen3_coder", "glm45", "mistral_args", "pythonic",
           "kimi_k2", "harmony", "auto"]  # fmt: skip
CALLS = [formats.get(name).render_call(ToolCall("", "get_weather", PARIS)) for name in FORMATS[:-1]]
NOT_TO_RUN = [
    '<tool_call>{"name": "fly", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "get_weather", "arguments": {"days": "x"}}</tool_call>',
    '<tool_call>{"name": "get_weather", "arguments": {"city": ',
]
MARKUP = st.sampled_from([*NOT_TO_RUN, *CALLS, "No."]) | soup(
    "<tool_call>", "</tool_call>", "<think>", "</think>", *CALLS[:4], *NOT_TO_RUN
)
REQUESTS = st.builds(
    asking,
    tool_choice=st.sampled_from(
        [None, ToolChoice("required"), ToolChoice("tool", "take_note"), ToolChoice("none")]
    ),
    parallel_tool_calls=st.sampled_from([None, False]),
)
OPTIONS = st.fixed_dictionaries(
    {
        "format": st.sampled_from(FORMATS),
        "arguments": st.sampled_from(["whole", "live"]),
        "send_back": st.booleans(),
        "trim": st.booleans(),
        "repair": st.booleans(),
    }
)
TEXTS = st.lists(MARKUP, min_size=2, max_size=2)


@given(texts=TEXTS, cuts=CUTS, request=REQUESTS, options=OPTIONS)
@settings(max_examples=150)
def test_whatever_a_model_writes_events_are_lawful_and_nothing_is_lost(
    texts: list[str], cuts: list[int], request: Request, options: Any
) -> None:
    upstream = Scripted(*texts, cuts=cuts)
    events = events_of(ToolMiddleware(upstream, **options), request)
    check_monotone(events)
    assert not isinstance(events[-1], Failed)
    written = "".join(texts[: len(upstream.asked)])
    assert "".join(event.raw for event in events) == written


@given(texts=TEXTS, cuts=CUTS, request=REQUESTS, options=OPTIONS)
@settings(max_examples=60)
def test_cuts_change_nothing(
    texts: list[str], cuts: list[int], request: Request, options: Any
) -> None:
    whole = events_of(ToolMiddleware(Scripted(*texts), **options), request)
    cut = events_of(ToolMiddleware(Scripted(*texts, cuts=cuts), **options), request)
    assert without_raw(merged(cut)) == without_raw(merged(whole))


@given(text=MARKUP, cuts=CUTS, name=st.sampled_from(FORMATS))
@settings(max_examples=60)
def test_without_a_demand_the_parser_alone_decides(text: str, cuts: list[int], name: str) -> None:
    out = events_of(ToolMiddleware(Scripted(text, cuts=cuts), name), asking())
    by_hand = formats.parse_events(spoken(text, cuts), name, asking().tools, trim=True, repair=True)
    assert without_raw(merged(out[:-1])) == without_raw(merged(list(by_hand)[:-1]))


@given(sequence=event_sequences())
@settings(max_examples=60)
def test_any_lawful_upstream_gives_a_lawful_answer(
    sequence: tuple[list[Event], AssistantMessage],
) -> None:
    events, _ = sequence
    out = events_of(ToolMiddleware(Scripted(events), "hermes", send_back=True), asking())
    check_monotone(out)
    if not any(isinstance(event, TextDelta | TextEnd) for event in events):
        native = [event for event in events if event.type.startswith("toolcall")]
        assert [event for event in out if event.type.startswith("toolcall")] == native
