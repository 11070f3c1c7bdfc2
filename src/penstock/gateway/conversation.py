"""Conversations: their requests described for the log, and calls that a model repeats in them.

Requests of one agent run repeat the conversation so far, so a request continues the one whose
messages are those before the last response in it. Both are compared by a hash of the roles, texts,
tool results and names of called tools: what clients change when they send a message back (ids, the
spelling of arguments, cache marks) is not part of it, and neither is the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import PenstockError
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.base import Batches
from penstock.request import Image, Message, Request, SystemMessage, UserMessage
from penstock.store import MAX_LINE

MAX_ASKED: Final = 4_000
"""How many characters of the new messages can be searched: an open stream holds them."""

HASHED: Final = 256
"""How many characters at each end of a text are hashed: a file in a request may have megabytes."""

MAX_ARGUMENTS: Final = 4_000
MAX_REASONING: Final = 3_000
"""How many characters of arguments and reasoning can be searched."""

_REMINDER: Final = "<system-reminder"  # Claude Code adds these to what the user wrote.


class RequestSummary(Struct, frozen=True):
    """What the log keeps of the messages of a request besides the body."""

    messages: int = 0
    messages_hash: str = ""
    prefix_hash: str = ""
    prompt: str = ""
    asked: str = ""


def summarize_request(request: Request) -> RequestSummary:
    """Return the summary of *request*."""
    digest = blake2b(digest_size=16)
    prefix = None
    is_response = False
    last, prompt = 0, ""
    for number, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage) and not is_response:
            prefix = digest.copy()
        is_response = isinstance(message, AssistantMessage)
        if is_response:
            last = number + 1
        elif isinstance(message, UserMessage):
            prompt = _find_prompt(message) or prompt
        parts = [_select_hashed(part) for part in _list_parts(message)]
        digest.update("\0".join((*parts, "")).encode("utf-8", "surrogatepass"))
    return RequestSummary(
        messages=len(request.messages),
        messages_hash=digest.hexdigest(),
        prefix_hash="" if prefix is None else prefix.hexdigest(),
        prompt=make_line(prompt),
        asked="\n".join(_list_asked(request.messages[last:])),
    )


def _select_hashed(part: str) -> str:
    """Return what of a long text is hashed: both ends and the length tell texts apart."""
    if len(part) <= 2 * HASHED:
        return part
    return f"{part[:HASHED]}{len(part)}{part[-HASHED:]}"


def _list_parts(message: Message) -> Iterator[str]:
    """Yield what identifies *message*."""
    match message:
        case SystemMessage():
            yield "system"
            yield message.text
        case UserMessage():
            yield "user"
            for block in message.content:
                if isinstance(block, Text):
                    yield block.text.strip()
                elif isinstance(block, Image):
                    yield f"{len(block.data)} {block.url}"
        case AssistantMessage():
            yield "assistant"
            yield message.text.strip()
            yield from (call.name for call in message.tool_calls)
        case ToolResult():
            yield "tool"
            yield _read_result(message.content)


def _read_result(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(one, Text) for one in content):
        return "\n".join(one.text for one in content)
    try:
        return _json.encode(content).decode("utf-8", "surrogatepass")
    except (PenstockError, TypeError, ValueError, RecursionError):
        return ""


def _find_prompt(message: UserMessage) -> str:
    """Return the last text of *message* that the user wrote."""
    texts = [block.text for block in message.content if isinstance(block, Text)]
    written = [text for text in texts if text.strip() and not text.startswith(_REMINDER)]
    return written[-1] if written else ""


def _list_asked(messages: Iterable[Message]) -> Iterator[str]:
    left = MAX_ASKED
    for message in messages:
        for part in list(_list_parts(message))[1:]:
            yield part[:left]
            left -= len(part)
            if left <= 0:
                return


def make_line(text: str) -> str:
    """Return the beginning of *text* on one line."""
    return " ".join(text[: 2 * MAX_LINE].split())[:MAX_LINE]


def summarize_response(message: AssistantMessage) -> str:
    """Return the names of the tools that *message* calls, or else the beginning of its text."""
    if names := [call.name for call in message.tool_calls]:
        return make_line(", ".join(names[:MAX_LINE]))
    return make_line(message.text.lstrip()) or make_line(message.thinking.lstrip())


def list_searched(message: AssistantMessage) -> Iterator[str]:
    """Yield what a response is found by, besides its text."""
    left = MAX_ARGUMENTS
    for call in message.tool_calls:
        yield call.name
        for text in _list_strings(call.arguments):
            yield text[:left]
            left -= len(text) + 1
            if left <= 0:
                break
        if left <= 0:
            break
    yield message.thinking[:MAX_REASONING]


def _list_strings(arguments: dict[str, Any]) -> Iterator[str]:
    """Yield the keys and values of *arguments*, in their order."""
    waiting: list[Any] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(part for pair in reversed(value.items()) for part in reversed(pair))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, str):
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)[:MAX_LINE]


# --- calls that a model repeats ---

# Small models repeat a call whose result they did not understand. A client runs it each time, and
# pays for each turn, until the user notices. A request has the whole conversation, so the
# repetition can be seen in it.


class CallLoop(Struct, frozen=True):
    """A call of *name* that was made *times* in a row with the same arguments."""

    name: str
    times: int

    @property
    def reason(self) -> str:
        """What happened, in words."""
        return f"{self.name!r} was called {self.times} times in a row with the same arguments"

    def __str__(self) -> str:
        return f"loop: {self.reason}"


def find_loop(request: Request, limit: int) -> CallLoop | None:
    """Return the loop that *request* ends in, if a call was made *limit* times; 0 finds none.

    Only turns with one call count, and a user message between two of them ends the series. A
    message right after a tool's result does not: Claude Code sends reminders there.
    """
    if limit < 1:
        return None
    turns: list[AssistantMessage] = []
    messages = request.messages
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AssistantMessage):
            turns.append(message)
        elif not isinstance(message, ToolResult) and not (
            place and isinstance(messages[place - 1], ToolResult)
        ):
            break
    times = _count_same(turns)
    return CallLoop(turns[0].tool_calls[0].name, times) if times >= limit else None


def _count_same(turns: Sequence[AssistantMessage]) -> int:
    """Return how many of the first *turns* made the same call, and no other."""
    times, made = 0, None
    for turn in turns:
        calls = [(call.name, call.arguments) for call in turn.tool_calls]
        if len(calls) != 1 or calls[0] != (made or calls[0]):
            break
        made = calls[0]
        times += 1
    return times


async def end_loop(loop: CallLoop, model: str) -> Batches:
    """Yield the response that ends *loop*: text for the user, and no call."""
    text = f"The conversation was ended: {loop.reason}."
    message = AssistantMessage(model=model, content=[Text(text)], stop_reason="stop")
    events: list[Event] = [
        MessageStart(model=model),
        TextStart(0),
        TextDelta(0, text),
        TextEnd(0, text),
        Done("stop", message),
    ]
    yield events
