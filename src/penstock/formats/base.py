"""`Format`: one wire format of tool calls, as frozen data that both reads and writes.

`Format.calls` is a `CallStyle`: it has the syntax that the parser reads calls with, and the methods
that render calls and results. Formats of one family share a `CallStyle` class and differ in its
fields; a format that only renames markers is a few lines.

A `Preparation` has what a format needs for a set of tools, shared by all responses. Reading 31
tools from JSON takes 0.5 ms, which is more than a short response takes to parse. Servers decode the
same tools from every request, so preparations are cached by the tools' content. A cached one has
its own copy of the tools: what a caller does to its own later does not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import (
    Any,
    Final,
    Literal,
    Protocol,
    TypedDict,
    Unpack,
    runtime_checkable,
)

from msgspec import Struct, structs

from penstock import _json
from penstock.builder import MessageBuilder
from penstock.errors import JSONParseError, UsageError
from penstock.events import Event, TextEnd, ThinkingEnd, ToolCallEnd
from penstock.formats import prompts
from penstock.formats.reasoning import NONE, STYLES, THINK, find_reasoning, own_format
from penstock.formats.wrappers import WRAPPERS
from penstock.grammar import Count, Outline, write_gbnf, write_structural_tag
from penstock.messages import (
    AssistantMessage,
    Content,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    mark_failed,
)
from penstock.parsing import (
    Arguments,
    Engine,
    FencedCalls,
    OnError,
    Reasoning,
    Schemas,
    Syntax,
    Untrusted,
)
from penstock.parsing.body import ReasoningOnly, StrayReasoning, Wrapper
from penstock.parsing.state import MarkerSets
from penstock.tools import Tool, read_tools

Placement = Literal["first", "last"]
"""Where the tools go in a system prompt that has other text too."""

Template = str | Callable[[str], str]
"""A custom prompt: text with ``{tools}`` and ``{example}``, or a function of the tools' JSON."""

DoneReason = Literal["stop", "length", "tool_use"]


class ParserOptions(TypedDict, total=False):
    """The options of every parser except `reasoning`; `penstock.Parser` documents them."""

    arguments: Arguments
    prompt_suffix: str
    trim: bool
    repair: bool
    on_error: OnError | None
    ids: Callable[[], str] | None
    max_calls: int | None
    untrusted: Untrusted | Iterable[str] | None
    fenced: FencedCalls
    reasoning_only: ReasoningOnly | None
    stray_reasoning: StrayReasoning | None


class CallStyle(Protocol):
    """How calls look: the syntax to read them with, and how calls and results are rendered."""

    def syntax(self, tools: Iterable[Tool]) -> Syntax:
        """Return the syntax of calls of *tools*."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a model writes it.

        Raises `UsageError` for a call that would not be parsed back as it was.
        """

    def render_result(self, result: ToolResult) -> str:
        """Write the result of a call as the format's models expect it."""


@runtime_checkable
class Grouping(Protocol):
    """A call style that groups the calls of one message instead of writing one per line."""

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls*, one or more, as a model writes them in one message.

        Raises `UsageError` for what `render_call` would refuse.
        """


@runtime_checkable
class Outlined(Protocol):
    """A call style that can outline a call of a tool; grammars are generated from outlines."""

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*.

        Raises `UsageError` for a name that cannot be written.
        """


@runtime_checkable
class TextParser(Protocol):
    """A parser for one response: penstock's own or a user's."""

    def feed(self, text: str, /) -> list[Event]:
        """Parse more text; return the events that are certain now."""

    def finish(self) -> list[Event]:
        """End the response; return the events for the text that was held back."""


class Format(Struct, frozen=True):
    """One wire format of calls.

    *models* are known to write it; *prompt* instructs any other model. *reasoning* is how its
    models mark their reasoning; None if the format's syntax reads reasoning itself. *wrappers* are
    tokens around responses that are not content. *tools* is how the models were trained to see
    their list of tools; None for a plain JSON array.
    """

    name: str
    calls: CallStyle
    prompt: str = ""
    models: tuple[str, ...] = ()
    reasoning: Reasoning | None = THINK
    wrappers: tuple[Wrapper, ...] = WRAPPERS
    tools: prompts.ToolList | None = None

    def __repr__(self) -> str:
        # All fields with their markers and prompts are up to 19,000 characters.
        return f"<Format {self.name!r}>"

    @property
    def usual_reasoning(self) -> Reasoning | None:
        """The reasoning style of the format's models: by default the style of the same name."""
        return STYLES.get(self.name, THINK) if self.reasoning is THINK else self.reasoning

    def render_tools(
        self,
        tools: object,
        *,
        template: Template | None = None,
        system: str = "",
        placement: Placement = "first",
    ) -> str:
        """Write the system prompt that lists *tools* and explains how to call them.

        *template* replaces the format's own prompt and receives the tools as a plain JSON array.
        *system* is the rest of the prompt: it follows the tools or, with *placement* ``last``,
        precedes them. Without tools only *system* is returned.
        """
        known = read_tools(tools)
        shown = ""
        if template is not None:
            shown = prompts.fill(template, known, self.calls.render_call)
        elif known:
            shown = prompts.fill(self.prompt, known, self.calls.render_call, self.tools)
        parts = [shown, system] if placement == "first" else [system, shown]
        return "\n\n".join(part for part in parts if part)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a model writes it; parsing the text gives an equal call.

        Raises `UsageError` for a call that this format cannot express, and for an incomplete one.
        """
        if not call.complete:
            raise UsageError(f"cannot render the incomplete call of {call.name!r}")
        if not call.name:
            raise UsageError("cannot render a call without a name")
        return self.calls.render_call(call)

    def render_calls(self, calls: Iterable[ToolCall]) -> str:
        """Write the calls of one message as a model writes them; parsing gives equal calls.

        Many formats put them into one section, others write one after the other. Raises
        `UsageError` as `render_call` does, and for calls that cannot share a message.
        """
        calls = tuple(calls)
        alone = [self.render_call(call) for call in calls]
        if len(alone) < _SEVERAL:
            return "".join(alone)
        text = render_together(self.calls, calls)
        tools = [Tool(name) for name in dict.fromkeys(call.name for call in calls)]
        expected = [call for one in alone for call in read_calls(self.calls, one, tools)]
        if read_calls(self.calls, text, tools) != expected:
            raise UsageError(f"the format {self.name!r} cannot express these calls in one message")
        return text

    def render_result(self, result: ToolResult) -> str:
        """Write the result of a call as the format's models expect it.

        If the format has no flag for a failed call, the content is marked: text gets the prefix
        ``Error: ``, any other value goes under the key ``error``. Text that already begins with
        "error" and an object that has that key stay unchanged.
        """
        written = self.calls.render_result(result)
        if not result.is_error:
            return written
        unmarked = structs.replace(result, is_error=False)
        if self.calls.render_result(unmarked) != written:
            return written  # The format has a flag for errors.
        return self.calls.render_result(
            structs.replace(unmarked, content=mark_failed(result.content))
        )

    def gbnf(self, tools: object, *, calls: Count = "one") -> str:
        """Write the grammar, in llama.cpp's GBNF, of exactly one call of *tools*, or of ``many``.

        A model constrained by it writes calls that this format reads, with arguments that fit their
        schemas as far as a grammar can express them. Raises `UsageError` for a format without
        calls, and for a tool that cannot be called in it.
        """
        return write_gbnf(self._outlines(tools), calls)

    def structural_tag(
        self, tools: object, *, at_least_one: bool = False, stop_after_first: bool = False
    ) -> dict[str, Any]:
        """Return the structural tag, for xgrammar, vLLM and SGLang, of text with calls of *tools*.

        With *at_least_one* the response is calls, with *stop_after_first* it ends after the first.
        Raises `UsageError` as `gbnf` does, and for a format whose calls must begin the response
        unless both options are set.
        """
        return write_structural_tag(
            self._outlines(tools), at_least_one=at_least_one, stop_after_first=stop_after_first
        )

    def response_template(self, *, start_anchor: str) -> dict[str, Any]:
        """Write Hugging Face's `response_template` for this format.

        *start_anchor* is what the prompt ends with before a response, such as
        ``<|im_start|>assistant`` and a new line. Raises `UsageError` for a format that no template
        can express.
        """
        from penstock.formats.template_export import (  # noqa: PLC0415 - it needs all formats
            write_response_template,
        )

        return write_response_template(self, start_anchor=start_anchor)

    def parser(
        self,
        tools: object = (),
        *,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> Engine:
        """Return a new parser for one response; the options are those of `penstock.Parser`."""
        return Engine(**self.engine_setup(tools, reasoning), **options)

    def engine_setup(
        self, tools: object = (), reasoning: str | Reasoning | None = None
    ) -> EngineSetup:
        """Return what every engine of this format is created with, besides the user's options."""
        return prepare(self, tools, reasoning).engine_setup()

    def parse(self, text: str, tools: object = ()) -> AssistantMessage:
        """Parse a whole response."""
        parser = self.parser(tools)
        return collect_message([*parser.feed(text), *parser.finish(cut=False)])

    def _outlines(self, tools: object) -> list[tuple[Tool, Outline]]:
        calls = self.calls
        if not isinstance(calls, Outlined):
            raise UsageError(f"the format {self.name!r} has no grammar")
        return [(tool, calls.outline(tool)) for tool in read_tools(tools)]

    def call_segments(self, text: str, tools: object = ()) -> list[str]:
        """Return the pieces of *text* that are read as calls, verbatim and in order."""
        parser = self.parser(tools)
        parser.feed(text)
        parser.finish(cut=False)
        return [text[start:end] for start, end in parser.spans]


# How many calls it takes to group them.
_SEVERAL: Final = 2


def render_together(style: CallStyle, calls: Sequence[ToolCall]) -> str:
    """Write *calls* of one message as *style* groups them; one per line if it does not.

    Raises `UsageError` for what `render_call` would refuse.
    """
    if len(calls) >= _SEVERAL and isinstance(style, Grouping):
        return style.render_calls(calls)
    return "\n".join(map(style.render_call, calls))


def build_message(events: Iterable[Event]) -> AssistantMessage:
    """Build the message from the blocks of a whole response, with its stop reason."""
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    message = builder.message
    message.stop_reason = stop_reason_for(message, "stop")
    return message


def collect_message(events: Iterable[Event]) -> AssistantMessage:
    """Build the message from all events of an engine.

    They are consistent by construction (law 3), so the ends of the blocks suffice; checking them as
    `build_message` does takes as long as parsing a short call.
    """
    content: list[Content] = []
    calls = complete = 0
    for event in events:
        if isinstance(event, ToolCallEnd):
            content.append(event.call)
            calls += 1
            complete += event.call.complete
        elif isinstance(event, TextEnd):
            content.append(Text(event.text, event.signature))
        elif isinstance(event, ThinkingEnd):
            content.append(Thinking(event.text, event.signature))
    reason: DoneReason = "tool_use" if calls and calls == complete else "stop"
    return AssistantMessage(content=content, stop_reason=reason)


def stop_reason_for(message: AssistantMessage, reason: DoneReason) -> DoneReason:
    """Return the stop reason of *message*, whose provider reported *reason*.

    It is ``tool_use`` if the message has calls and all are complete. ``length`` stays.
    """
    calls = message.tool_calls
    if reason == "length":
        return "length"
    if calls and all(call.complete for call in calls):
        return "tool_use"
    return "stop"


def read_calls(style: CallStyle, text: str, tools: list[Tool]) -> list[tuple[str, dict[str, Any]]]:
    """Return names and arguments of the calls in *text*, read with nothing but *style*."""
    engine = Engine(style.syntax(tools), tools)
    events = (*engine.feed(text), *engine.finish())
    calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
    return [(call.name, call.arguments) for call in calls]


# --- preparation ---

MAX_SMALL: Final = 32 * 1024
"""How many bytes of JSON the tools may have to be cached among 64 others: 2 MB in all."""

MAX_CACHED: Final = 512 * 1024
"""How many bytes of JSON the tools may have to be cached at all, among four: clients send them."""

ToolShape = Literal["tools", "dicts"]
"""Whether tools were given as `Tool` or as JSON of any provider, which has to be interpreted."""


class EngineSetup(TypedDict):
    """The arguments of an engine that a format decides."""

    syntax: Syntax
    tools: Schemas
    reasoning: Reasoning | None
    wrappers: tuple[Wrapper, ...]
    marker_sets: MarkerSets


class Preparation(Struct, frozen=True):
    """A *format* prepared for tools; any number of threads may use it."""

    format: Format
    syntax: Syntax
    schemas: Schemas
    reasoning: Reasoning | None
    marker_sets: MarkerSets

    def engine_setup(self) -> EngineSetup:
        """Return the arguments of a new engine: a syntax may keep track of its response."""
        return EngineSetup(
            syntax=self.syntax.copy(),
            tools=self.schemas,
            reasoning=self.reasoning,
            wrappers=self.format.wrappers,
            marker_sets=self.marker_sets,
        )

    def with_reasoning(self, reasoning: str | Reasoning | None) -> Preparation:
        """Return the preparation for another style of *reasoning*; None keeps this one."""
        if reasoning is None:
            return self
        own = own_format(reasoning)
        if own is not None and self.format.name == NONE:
            message = f"reasoning of {own!r} is a part of its messages: set the format to {own!r}"
            raise UsageError(f"{message}, with max_calls=0 if calls are to stay text")
        style = find_reasoning(self.format.usual_reasoning, reasoning)
        return self if style == self.reasoning else structs.replace(self, reasoning=style)


def prepare(
    format: Format,  # noqa: A002 - the word of the whole interface
    tools: object = (),
    reasoning: str | Reasoning | None = None,
) -> Preparation:
    """Prepare *format* for *tools*, in any shape that `read_tools` accepts, or already prepared.

    The same format and equal tools give the same preparation, as long as it is cached.
    """
    if isinstance(tools, Preparation):
        prepared = tools if tools.format is format else _make(format, tools.schemas.tools)
        return prepared.with_reasoning(reasoning)
    key = _encode(tools)
    if key is not None:
        cached = _prepare_small if len(key[1]) <= MAX_SMALL else _prepare_large
        with suppress(JSONParseError):  # A schema may be nested too deeply to be copied.
            return cached(_SameFormat(format), *key).with_reasoning(reasoning)
    return _make(format, read_tools(tools)).with_reasoning(reasoning)


def _make(format: Format, tools: Iterable[Tool]) -> Preparation:  # noqa: A002
    schemas = Schemas(tools)
    syntax = format.calls.syntax(schemas.tools)
    return Preparation(format, syntax, schemas, format.usual_reasoning, MarkerSets())


class _SameFormat:
    """A format as the key of a cache, by identity: comparing all of its fields takes longer."""

    __slots__ = ("format",)

    def __init__(self, format: Format) -> None:  # noqa: A002
        self.format = format

    def __hash__(self) -> int:
        return id(self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameFormat) and other.format is self.format


def _encode(tools: object) -> tuple[ToolShape, bytes] | None:
    """Return *tools* as JSON, which identifies them; None if they are not to be cached.

    A `Tool` and a dict with equal fields may mean different things, so they are not mixed.
    """
    if type(tools) not in (list, tuple):
        return None
    kinds = set(map(type, tools))  # type: ignore[call-overload]
    if kinds not in _KINDS:
        return None
    try:
        data = _json.encode(tools)
    except UsageError:
        return None
    shape: ToolShape = "dicts" if dict in kinds else "tools"
    return (shape, data) if len(data) <= MAX_CACHED else None


_KINDS: Final[tuple[set[type], ...]] = (set(), {Tool}, {dict})


def _prepare(key: _SameFormat, shape: ToolShape, data: bytes) -> Preparation:
    if shape == "tools":
        return _make(key.format, read_tools(_json.decode_as(data, list[Tool])))
    return _make(key.format, read_tools(_json.decode(data)))


_prepare_small: Final = lru_cache(maxsize=64)(_prepare)
_prepare_large: Final = lru_cache(maxsize=4)(_prepare)
