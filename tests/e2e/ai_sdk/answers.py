"""What is said to the AI SDK: answers of all kinds, as the events that our encoder gets."""

from __future__ import annotations

import json
from collections.abc import Iterator

from penstock import MessageBuilder, parse_events
from penstock.builder import message_events
from penstock.events import (
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

PROSE = 'A pipe, "one way"\\under control:\nno drop lost. é日本😀 '
USAGE = Usage(input=20, output=9, cache_read=5, reasoning=4, total=34)
CALLS = [
    ToolCall("call_a", "get_weather", {"city": "Leith", "days": 3}),
    ToolCall("call_b", "write_file", {"path": "a.md", "content": 'say "hi"\n\\o/ é😀'}),
    ToolCall("call_c", "get_weather", {}),
]
SPOKEN = """Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "hours": [6, 12]}}
</tool_call>
<tool_call>
{"name": "write_file", "arguments": {"path": "b.md", "content": "# Tides\\n\\nHigh water."}}
</tool_call>"""


def answers() -> dict[str, list[Event]]:
    """Give the events of every answer, by its name."""
    return {
        "text": [*message_events(answer("stop", Text(PROSE * 3)))],
        "thinking": [*message_events(answer("stop", Thinking("Hm. " * 5), Text("Yes.")))],
        "parallel-calls": in_parallel(),
        "calls-in-text": read_from_text(),
        "length": [*message_events(answer("length", Text("A pipe, one")))],
        "cut-call": cut_call(),
        "filter": [*message_events(failed("Up to here", "filter"))],
        "refusal": [*message_events(failed("", "refusal"))],
        "error": [*message_events(failed("Up to here", "provider"))],
        "empty": [*message_events(answer("stop"))],
    }


def message_of(events: list[Event]) -> AssistantMessage:
    """Fold *events* into their message."""
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def answer(reason: StopReason, *content: Content) -> AssistantMessage:
    """Make an answer that ended as it should."""
    return AssistantMessage("id-1", "m", [*content], reason, "", USAGE)


def failed(text: str, kind: str) -> AssistantMessage:
    """Make an answer that did not."""
    message = answer("error", *[Text(text)] * bool(text))
    message.error = ErrorInfo("the turbine is shut", kind, status=503)  # type: ignore[arg-type]
    return message


def in_parallel() -> list[Event]:
    """Let three calls stream their arguments side by side, with text before them."""
    events: list[Event] = [MessageStart("id-1", "m"), TextStart(0), TextDelta(0, "Three:")]
    events.append(TextEnd(0, "Three:"))
    waiting = [pieces(index, call) for index, call in enumerate(CALLS, start=1)]
    events += [ToolCallStart(index, call.id, call.name) for index, call in enumerate(CALLS, 1)]
    while waiting:
        for deltas in [*waiting]:
            delta = next(deltas, None)
            if delta is None:
                waiting.remove(deltas)
            else:
                events.append(delta)
    events += [ToolCallEnd(index, call) for index, call in enumerate(CALLS, start=1)]
    return [*events, Done("tool_use", answer("tool_use", Text("Three:"), *CALLS))]


def pieces(index: int, call: ToolCall) -> Iterator[ToolCallDelta]:
    """Cut the arguments of *call* into deltas of three characters."""
    text = json.dumps(call.arguments, ensure_ascii=False)
    for at in range(0, len(text), 3):
        yield ToolCallDelta(index, text[at : at + 3])


def read_from_text() -> list[Event]:
    """Let the parser find calls in what a model streams as text, a few characters at a time."""
    said: list[Event] = [MessageStart("id-1", "m"), TextStart(0)]
    said += [TextDelta(0, SPOKEN[at : at + 4]) for at in range(0, len(SPOKEN), 4)]
    said += [TextEnd(0, SPOKEN), Done("stop", answer("stop", Text(SPOKEN)))]
    return [*parse_events(said, format="hermes", arguments="live")]


def cut_call() -> list[Event]:
    """Let the limit cut a call in the middle of a string."""
    call = ToolCall("call_a", "write_file", {"path": "a.m"}, complete=False)
    begun: list[Event] = [ToolCallStart(0, call.id, call.name), ToolCallDelta(0, '{"path": "a.m')]
    return [
        MessageStart("id-1", "m"),
        *begun,
        ToolCallEnd(0, call),
        Done("length", answer("length", call)),
    ]
