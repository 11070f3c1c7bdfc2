"""Conversations of any shape, as an agent's loop makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.messages import AssistantMessage, Content, Text, ToolCall, ToolResult, Usage
from penstock.request import Message, SystemMessage, UserMessage

SIZES = st.sampled_from([1, 40, 400, 4_000, 50_000])


def user(words: str) -> Message:
    return UserMessage([Text(words)])


def said(words: str, *calls: str, usage: Usage | None = None) -> Message:
    content: list[Content] = [Text(words), *(ToolCall(id_, "read", {"n": id_}) for id_ in calls)]
    message = AssistantMessage(content=content, stop_reason="stop", usage=usage or Usage())
    message.stop_reason = "tool_use" if calls else "stop"
    return message


def result(id_: str, words: object = "ok") -> Message:
    return ToolResult(id_, "read", words)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Draw one turn: a question, answers that call, results in any order, words in between.

    Calls are named alike in every answer, as many a model does.
    """
    messages: list[Message] = [user("q" * draw(SIZES))]
    for _ in range(draw(st.integers(0, 3))):
        names = [f"call_{n}" for n in range(draw(st.integers(0, 3)))]
        messages.append(said("a" * draw(SIZES), *names))
        order = draw(st.permutations(names))
        arrived = order[: draw(st.sampled_from([len(order), len(order) // 2]))]
        results: list[Message] = [result(id_, "r" * draw(SIZES)) for id_ in arrived]
        words: list[Message] = [user("wait"), SystemMessage("a rule")]
        is_steered = draw(st.booleans())
        if results and is_steered:
            results.insert(draw(st.integers(0, len(results))), draw(st.sampled_from(words)))
        messages += results
    return messages


CONVERSATIONS = st.lists(turns(), max_size=5).map(lambda each: [m for turn in each for m in turn])
"""Conversations; calls may be without results, as those of an answer that was aborted are."""


def pairs(messages: list[Message]) -> list[tuple[int, int]]:
    """Give the places of each call's answer and of its result."""
    found = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolResult):
            answers = [n for n in range(at) if isinstance(messages[n], AssistantMessage)]
            if answers and message.id in _ids(messages[answers[-1]]):
                found.append((answers[-1], at))
    return found


def _ids(message: Message) -> set[str]:
    return {c.id for c in message.tool_calls} if isinstance(message, AssistantMessage) else set()
