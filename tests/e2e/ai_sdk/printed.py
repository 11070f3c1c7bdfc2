"""What a model without tools says to the AI SDK through the gateway: its calls are text.

Each answer is a pair: the message that the client has to see, and the events of the upstream, which
say the same in words. Thoughts stand in ``<think>``, calls in the shapes that agents meet.
"""

from __future__ import annotations

from typing import Literal

from msgspec import structs

from e2e.agents.shapes import NASTIER, NASTY, SHAPES
from e2e.ai_sdk.answers import CALLS, PROSE, answer, failed
from penstock.builder import message_events
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall

PIECE = 4


def printed() -> dict[str, tuple[AssistantMessage, list[Event]]]:
    """Give every answer by its name: as it has to be read, and as it is said."""
    return {
        "text": plain(answer("stop", Text(PROSE * 3))),
        "thinking": thoughts(),
        "hermes": calls("hermes", *CALLS),
        "hermes-nasty": calls("hermes", write(NASTIER)),
        "qwen3_coder": calls("qwen3_coder", write(NASTY)),
        "bare_json": calls("bare_json", write(NASTIER)),
        "length": plain(answer("length", Text("A pipe, one"))),
        "cut-call": cut("hermes"),
        "cut-unclosed": cut("qwen3_coder"),
        "filter": plain(failed("Up to here", "filter")),
        "refusal": plain(failed("", "refusal")),
        "error": plain(failed("Up to here", "provider")),
        "empty": plain(answer("stop")),
    }


def plain(message: AssistantMessage) -> tuple[AssistantMessage, list[Event]]:
    """Say *message* as it is."""
    return message, [*message_events(message)]


def thoughts() -> tuple[AssistantMessage, list[Event]]:
    """Think before the answer, between tags."""
    seen = answer("stop", Thinking("Hm. A pipe."), Text("Yes."))
    return seen, spoken("<think>Hm. A pipe.</think>Yes.", "stop")


def calls(shape: str, *made: ToolCall) -> tuple[AssistantMessage, list[Event]]:
    """Print the calls *made* in *shape*, one after the other."""
    texts = [SHAPES[shape].write(call.name, call.arguments) for call in made]
    text = SHAPES[shape].before + "\n".join(texts)
    return answer("tool_use", *said_before(shape), *made), spoken(text, "stop")


def cut(shape: str) -> tuple[AssistantMessage, list[Event]]:
    """Let the limit cut a call in the middle of a string."""
    call = write(NASTY)
    text = SHAPES[shape].before + SHAPES[shape].write(call.name, call.arguments)
    begun = structs.replace(call, complete=False)
    return answer("length", *said_before(shape), begun), spoken(text[: len(text) // 2], "length")


def said_before(shape: str) -> list[Text]:
    """Give the text before a call, without the blank lines that only belong to the call."""
    text = SHAPES[shape].before.rstrip()
    return [Text(text)] if text else []


def write(content: str) -> ToolCall:
    return ToolCall("call_a", "write_file", {"path": "a.md", "content": content})


def spoken(text: str, reason: Literal["stop", "length"]) -> list[Event]:
    """Say *text*, a few characters at a time."""
    said: list[Event] = [MessageStart("id-1", "m"), TextStart(0)]
    said += [TextDelta(0, text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    return [*said, TextEnd(0, text), Done(reason, answer(reason, Text(text)))]
