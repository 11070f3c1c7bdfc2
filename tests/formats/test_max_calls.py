"""An answer that may have one call: the first is one, and what follows stays the text it was."""

from __future__ import annotations

from functools import partial

import pytest

import penstock
from laws import check_readings, cut_at, one_by_one
from penstock import formats
from penstock.errors import UsageError
from penstock.events import Done, Event, TextDelta, TextEnd, TextStart, ToolCallEnd, ToolCallStart
from penstock.formats import EventParser, Format, Parser
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.parsing import Arguments

TOOLS = [
    {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    }
]
CALLS = [
    ToolCall(f"c{days}", "get_weather", {"city": city, "days": days})
    for days, city in enumerate(("Oslo", "Rome"))
]
NAMES = [name for name in formats.names() if isinstance(formats.get(name), Format)]


def written(name: str) -> list[str]:
    """Give answers with both calls: one after the other, and as the format writes several."""
    format_ = formats.get(name)
    assert isinstance(format_, Format)
    try:
        first, second = map(format_.render_call, CALLS)
    except UsageError:
        return []
    texts = [f"I look.\n{first}\nThen:\n{second}\nDone."]
    try:
        return [*texts, format_.render_calls(CALLS)]
    except UsageError:
        return texts


@pytest.mark.parametrize("mode", ["whole", "live"])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_call_is_one_and_the_rest_stays_text(name: str, mode: Arguments) -> None:
    for text in written(name):
        for reads in (name, "auto"):
            if len(penstock.parse(text, reads, TOOLS).tool_calls) < len(CALLS):
                continue  # a format whose call has to be all of the answer
            make = partial(
                Parser, reads, TOOLS, arguments=mode, trim=True, repair=True, max_calls=1
            )
            ways = [one_by_one(text), *(cut_at(text, [at]) for at in range(1, len(text), 23))]
            events = check_readings(make, text, ways)
            calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
            assert [call.arguments for call in calls] == [CALLS[0].arguments]
            shown = "".join(event.text for event in events if isinstance(event, TextEnd))
            assert "Rome" in shown
            assert "Oslo" not in shown


def test_no_call_is_allowed_where_the_limit_is_none_at_all() -> None:
    text = "".join(formats.get("hermes").render_call(call) for call in CALLS)
    parser = Parser("hermes", TOOLS, arguments="live", max_calls=0)
    events = [*parser.feed(text), *parser.finish()]
    assert "".join(event.text for event in events if isinstance(event, TextEnd)) == text
    assert not any(isinstance(event, ToolCallEnd) for event in events)


def test_a_call_of_the_provider_counts() -> None:
    text, native = formats.get("hermes").render_call(CALLS[1]), CALLS[0]
    parser = EventParser("auto", TOOLS, max_calls=1)
    given: list[Event] = [
        ToolCallStart(0, native.id, native.name),
        ToolCallEnd(0, native),
        TextStart(1),
        TextDelta(1, text),
        TextEnd(1, text),
        Done("tool_use", AssistantMessage(content=[native, Text(text)])),
    ]
    events = [out for event in given for out in parser.add(event)]
    done = events[-1]
    assert isinstance(done, Done)
    assert done.message.content == [native, Text(text)]
    assert done.reason == "tool_use"
