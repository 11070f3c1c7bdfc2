"""`DemoModel`: a scripted model for first tries, tests and documentation.

It needs no network and no API key, and returns the same response to the same request every time. It
calls the tool whose name and description share the most words with the user's message, fills the
arguments from that message or with example values, and quotes the result. It understands nothing.

Tools and results are found in the request, or as text where `ToolMiddleware` put them, so that the
script is the same with a middleware and without.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from json import JSONDecoder
from pathlib import PurePosixPath
from typing import Any, Final, Literal
from zlib import crc32

from msgspec import Struct, field

from penstock import _json, apis
from penstock.apis.history import content_text
from penstock.errors import UsageError, shorten
from penstock.events import (
    Delta,
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
from penstock.formats import AnyFormat, FormatLike, get
from penstock.formats.prompts import example_call
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage
from penstock.models.base import Batches, Model, Tap, ensure_end, ids_for
from penstock.models.tool_choice import MUST_CALL
from penstock.request import Request, RequestLike, UserMessage, make_request
from penstock.streams import EventStream
from penstock.tools import Tool
from penstock.values.schema import Schema

NAME: Final = "penstock-demo"
"""The default name of the model."""

NATIVE: Final = "native"
"""Instead of a format: calls are events, as from a server with native tools."""

MAX_QUOTED: Final = 200
"""How many characters of a message or a result are quoted."""

MAX_BRACKETS: Final = 1000
"""How many brackets of a system prompt are tried as JSON: a hostile prompt must not take long."""

_ABOUT: Final = (
    "I am penstock-demo, a scripted model: I follow simple rules and understand nothing."
)
# A rough token: up to five letters with the space before them, or one other character.
_TOKEN: Final = re.compile(r"\s?\w{1,5}|\s|[^\w\s]")


class DemoModel(Model):
    """A scripted model: no network, no API key, the same response every time.

    If tools are offered (in the request, or in the system prompt as by `ToolMiddleware`), it calls
    the one that fits the user's words: as text of *format*, or with ``native`` as a call. It quotes
    the results of its calls, and says that it is scripted.

    Tokens are *pace* seconds apart; *sleep* waits.
    """

    wire: str = "openai-chat"

    def __init__(
        self,
        format: FormatLike = "hermes",  # noqa: A002 - the public name of this option
        *,
        pace: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        name: str = NAME,
    ) -> None:
        if not pace >= 0:
            raise UsageError(f"pace must be 0 or more seconds, got {pace}")
        self._format = None if format == NATIVE else get(format)
        self._pace = pace
        self._sleep = sleep
        self._name = name

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    def stream(self, request: RequestLike) -> EventStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request, as do `batches` and `complete`.
        """
        return EventStream(self._respond(make_request(request)), interval=0)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response one by one.

        There is no network; *tap* receives what a server of the API `wire` would have sent.
        """
        return ensure_end(self._tap(make_request(request), tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Return the whole response."""
        async with self.stream(request) as stream:
            return await stream.result()

    async def _tap(self, request: Request, tap: Tap | None) -> Batches:
        encoder = apis.get(self.wire).encoder(model=self._name, id=NAME)
        async with aclosing(self._respond(request)) as events:
            async for event in events:
                if tap is not None:
                    tap.received(encoder.encode(event))
                yield [event]
        if tap is not None:
            tap.received(encoder.finish())

    async def _respond(self, request: Request) -> AsyncGenerator[Event, None]:
        text, call = write_response(request, self._format)
        for event in _make_events(request, text, call, self._name):
            if self._pace and isinstance(event, Delta):
                await self._sleep(self._pace)
            yield event


def _make_events(request: Request, text: str, call: ToolCall | None, name: str) -> Iterator[Event]:
    """Yield the events of a response, up to a stop string or the token limit of *request*."""
    # The id is derived from the content, so that it is the same every time.
    id_ = f"demo-{crc32(_json.encode([request.messages, text])):08x}"
    message = AssistantMessage(id_, name)
    yield MessageStart(message.id, message.model)
    reason: Literal["stop", "length", "tool_use"] = "stop"
    full = text
    for stop in filter(None, request.stop):
        text = text.partition(stop)[0]
    tokens = _TOKEN.findall(text)
    if request.max_tokens is not None and len(tokens) > request.max_tokens:
        tokens, reason = tokens[: max(0, request.max_tokens)], "length"
    is_cut = reason == "length" or text != full
    if tokens:
        text = "".join(tokens)
        message.content.append(Text(text))
        yield TextStart(0)
        for token in tokens:
            yield TextDelta(0, token, token)
        yield TextEnd(0, text)
    if call is not None and not is_cut:
        index = len(message.content)
        message.content.append(call)
        arguments = _TOKEN.findall(_json.encode(call.arguments).decode())
        tokens, reason = [*tokens, *arguments], "tool_use"
        yield ToolCallStart(index, call.id, call.name)
        for token in arguments:
            yield ToolCallDelta(index, token)
        yield ToolCallEnd(index, call)
    prompt = _json.encode([request.system, request.messages, request.tools]).decode()
    read, written = len(_TOKEN.findall(prompt)), len(tokens)
    message.usage = Usage(read, written, total=read + written)
    message.stop_reason = reason
    yield Done(reason, message)


# --- the script ---


def write_response(request: Request, format_: AnyFormat | None) -> tuple[str, ToolCall | None]:
    """Return the text of the response to *request*; without *format_*, a call may follow it."""
    facts = read_facts(request, format_ or get("auto"))
    wanted = request.response_format
    if wanted is not None and wanted.kind == "schema":
        return _write_json(wanted.schema, facts.words), None
    if facts.results:
        lines = [
            f"{name} says: {shorten(text.strip(), MAX_QUOTED)}" for name, text in facts.results
        ]
        return "\n".join([*lines, "(This answer is scripted.)"]), None
    tool = choose_tool(facts.words, facts.tools, must=facts.must_call)
    if tool is None:
        said = (
            f" You said: “{shorten(facts.words.strip(), MAX_QUOTED)}”."
            if facts.words.strip()
            else ""
        )
        if not facts.tools:
            return f"{_ABOUT}{said} Offer me tools, and I call the one that fits your words.", None
        names = ", ".join(tool.name for tool in facts.tools)
        return f"{_ABOUT}{said} None of the tools fits your words; there are: {names}.", None
    call = ToolCall(ids_for(request)(), tool.name, make_arguments(tool, facts.words))
    lead = f"I use {call.name} for that."
    if format_ is None:
        return lead, call
    try:
        written = format_.render_call(call)
    except UsageError as exc:
        return f"{_ABOUT} I cannot write a call of {call.name} in {format_.name}: {exc}", None
    # In some formats a call counts only at the beginning of a response.
    text = f"{lead}\n{written}"
    return text if format_.parse(text, facts.tools).tool_calls else written, None


def _write_json(schema: dict[str, Any], words: str) -> str:
    """Return JSON that *schema* accepts; for a schema of tool calls, a call that fits *words*."""
    tools = []
    for each in schema.get("anyOf", [schema]):
        properties = each.get("properties") if isinstance(each, dict) else None
        match properties:
            case {"name": {"const": str(name)}, "arguments": dict(parameters)}:
                tools.append(Tool(name, "", parameters))
    tool = choose_tool(words, tools, must=True)
    if tool is None:
        return _json.encode(make_arguments(Tool("answer", "", schema), words)).decode()
    call = {"name": tool.name, "arguments": make_arguments(tool, words)}
    return _json.encode(call).decode()


# --- choosing a tool and its arguments ---

_WORD: Final = re.compile(r"[a-z]{3,}")
_STOP_WORDS: Final = frozenset(
    _WORD.findall(
        "all and any are can does for from get give given have how name not please show tell text "
        "that the this tool use value was what when where which who will with would you your"
    )
)
# At most 15 digits: a float keeps them exactly.
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?!\w)")
_QUOTED: Final = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`")
_PATH: Final = re.compile(r"(?<![\w/:.])[\w.~-]*/[\w./~-]*\w|(?<![\w/])\w[\w-]*\.[a-zA-Z]\w{0,4}\b")
_PLACE: Final = re.compile(r"\b(?:in|at|for|of|to|from|about)\s+([A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*)")

FILES: Final = {
    ".py": '''\
"""A file that a script wrote."""


def greet(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    print(greet("world"))
''',
    ".sh": """\
#!/bin/sh
# A file that a script wrote.
echo "Hello, world!"
""",
    "": """\
Hello, world!
A script wrote this file.
""",
}
"""The content of files by suffix; all others are plain text."""


def choose_tool(words: str, tools: list[Tool], *, must: bool = False) -> Tool | None:
    """Return the tool that shares the most words with *words*, the first of equals.

    A word of the name counts more than one of the description. If no tool shares a word, return
    None, or with *must* the first tool.
    """
    said = _split_words(words)

    def score(tool: Tool) -> int:
        shared = len(said & _split_words(tool.name)), len(said & _split_words(tool.description))
        return 3 * shared[0] + 2 * shared[1]

    best = max(tools, key=score, default=None)
    return best if best is not None and (must or score(best)) else None


def _split_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _STOP_WORDS


def make_arguments(tool: Tool, words: str) -> dict[str, Any]:
    """Return arguments for *tool*: numbers, paths, quoted text and places of *words*, each once.

    Required arguments that are not in *words* get a sample or an example value. The schema of the
    tool accepts the result if it accepts `example_call`.
    """
    schema, example = Schema(tool.parameters), example_call(tool).arguments
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(words)]
    rest = _QUOTED.sub(" ", words)
    paths, places = _PATH.findall(rest), _PLACE.findall(rest)
    digits = _NUMBER.findall(_PATH.sub(" ", rest))
    numbers = [float(each) if "." in each else int(each) for each in digits]
    arguments: dict[str, Any] = {}
    for name, inner in schema.properties.items():
        order: tuple[list[Any], ...] = ()
        if inner.wants in ("integer", "number"):
            order = (numbers,)
        elif inner.wants in ("string", None):
            order = (paths, quoted, places) if "path" in name else (quoted, places, paths)
        source = next(filter(None, order), [])
        if source and inner.accepts(source[0]):
            arguments[name] = source.pop(0)
        elif name in schema.required:
            sample = "echo 'Hello, world!'" if name == "command" else None
            if name == "content" and isinstance(path := arguments.get("path"), str):
                sample = FILES.get(PurePosixPath(path).suffix, FILES[""])
            is_fitting = sample is not None and inner.accepts(sample)
            arguments[name] = sample if is_fitting else example.get(name)
    for name in schema.required:
        arguments.setdefault(name, example.get(name))
    return arguments if schema.accepts(arguments) else example


# --- reading a request ---

# msgspec cannot decode from the middle of a text.
_DECODER: Final = JSONDecoder()
_BRACKET: Final = re.compile(r"[\[{]")
# A private-use character in place of the text of a result, in its frame.
_MARK: Final = "\ue000"


class PromptFacts(Struct, frozen=True):
    """What the script needs of a request: the last user message, tools, and results of calls.

    *must_call* means that a tool has to be called, whatever the words are.
    """

    words: str = ""
    tools: list[Tool] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    must_call: bool = False


def read_facts(request: Request, format_: AnyFormat) -> PromptFacts:
    """Return the facts of *request* to a model that writes *format_*."""
    users = (m.text for m in reversed(request.messages) if isinstance(m, UserMessage))
    tools = list(request.tools) or find_tools(request.system)
    results = _find_results(request) or _find_rendered_results(request, tools, format_)
    choice = request.tool_choice
    mode = "auto" if choice is None else choice.mode
    if mode == "none":
        tools = []
    elif mode == "tool" and choice is not None:
        tools = [tool for tool in tools if tool.name == choice.name]
    must_call = mode in ("required", "tool") or MUST_CALL in request.system
    return PromptFacts(next(users, ""), tools, results, must_call)


def find_tools(system: str) -> list[Tool]:
    """Return the tools that a system prompt describes as JSON, in any frame.

    A prompt may also show a call as an example, after the tool of that name.
    """
    found: dict[str, Tool] = {}
    at = 0
    for _ in range(MAX_BRACKETS):
        bracket = _BRACKET.search(system, at)
        if bracket is None:
            break
        try:
            value, at = _DECODER.raw_decode(system, bracket.start())
        except (ValueError, RecursionError):
            at = bracket.end()
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and ("parameters" in each or "function" in each):
                with suppress(UsageError):
                    tool = Tool.read(each)
                    found.setdefault(tool.name, tool)
    return list(found.values())


def _find_results(request: Request) -> list[tuple[str, str]]:
    """Return the names and texts of the results at the end of the conversation."""
    responses = [m for m in request.messages if isinstance(m, AssistantMessage)]
    names = {call.id: call.name for response in responses for call in response.tool_calls}
    found: list[tuple[str, str]] = []
    for message in reversed(request.messages):
        if not isinstance(message, ToolResult):
            break
        name = message.name or names.get(message.id, "the tool")
        found.insert(0, (name, content_text(message.content)))
    return found


def _find_rendered_results(
    request: Request, tools: list[Tool], format_: AnyFormat
) -> list[tuple[str, str]]:
    """Return the results in the last user message, if the response before it called tools."""
    match request.messages:
        case [*_, AssistantMessage() as response, UserMessage() as user]:
            calls = format_.parse(response.text, tools).tool_calls
            calls = calls or get("auto").parse(response.text, tools).tool_calls
        case _:
            return []
    found, rest = [], user.text
    for call in calls:
        text, rest = _cut_result(call, rest, format_)
        found.append((call.name, text))
    return found


def _cut_result(call: ToolCall, text: str, format_: AnyFormat) -> tuple[str, str]:
    """Return the result of *call* that is rendered in *text*, and the text after it."""
    # The id in the result may be that of another parser, or missing.
    marks = [ToolResult(id_, call.name, _MARK) for id_ in (call.id, "")]
    frames = [
        each.render_result(mark).partition(_MARK)
        for each in (format_, get("hermes"))
        for mark in marks
    ]
    for before, _, after in sorted(frames, key=lambda frame: -len(frame[0])):
        start = text.find(before)
        if not before or start == -1:
            continue
        at = start + len(before)
        if text[at - 1] == '"':  # The text of the result is a JSON string.
            with suppress(ValueError):
                value, end = _DECODER.raw_decode(text, at - 1)
                return str(value), text[end:]
        if not after:
            return text[at:], ""
        inside, _, rest = text[at:].partition(after)
        return inside, rest
    return text.partition(":\n")[2] or text, ""
