"""What a format of calls is: how a model is told to call, how its calls are read, how replayed.

A format is frozen data. Its `calls` say how a call looks, both ways: the syntax that the parser
reads it with, and how it is written. Formats of one family share the class of their `calls` and
differ in its fields; a format that only renames markers is a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypedDict, Unpack, runtime_checkable

from msgspec import Struct, structs

from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.events import Event, ToolCallEnd
from penstock.formats import prompts
from penstock.formats.grammar import Count, Outline, write_gbnf, write_structural_tag
from penstock.formats.reasoning import STYLES, THINK, TURN_ENDS, reasoning_of
from penstock.messages import AssistantMessage, ToolCall, ToolResult, failed_content
from penstock.parsing import Arguments, Engine, FencedCalls, OnError, Reasoning, Syntax, Untrusted
from penstock.parsing.reasoning import Wrapper
from penstock.tools import Tool, read_tools

Placement = Literal["first", "last"]
"""Where the tools are in a system prompt that says something else too."""

Template = str | Callable[[str], str]
"""A prompt of one's own: text with ``{tools}`` and ``{example}``, or a function of the tools."""


DoneReason = Literal["stop", "length", "tool_use"]


class ParserOptions(TypedDict, total=False):
    """The options of every parser but `reasoning`; `penstock.Parser` says what they mean."""

    arguments: Arguments
    prompt_suffix: str
    trim: bool
    repair: bool
    on_error: OnError | None
    ids: Callable[[], str] | None
    max_calls: int | None
    untrusted: Untrusted | Iterable[str] | None
    fenced: FencedCalls


class CallStyle(Protocol):
    """How calls look: the syntax to read them with, and how they and their results are written."""

    def syntax(self, tools: Iterable[Tool]) -> Syntax:
        """Return the syntax of calls of *tools*."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a model writes it.

        Raises `UsageError` for what cannot be written so that it reads back as it was.
        """

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, in the form that mirrors the call."""


@runtime_checkable
class Grouping(Protocol):
    """A call style that writes the calls of one message otherwise than one on each line."""

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls*, one or more, as a model writes them in one message.

        Raises `UsageError` for what `render_call` would refuse.
        """


@runtime_checkable
class Outlined(Protocol):
    """A call style that can say how a call looks before there is one: grammars are made of that."""

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*.

        Raises `UsageError` for a name that cannot be written.
        """


@runtime_checkable
class TextParser(Protocol):
    """What reads an answer, whoever made it."""

    def feed(self, text: str, /) -> list[Event]:
        """Read more text; return the events that it makes certain."""

    def finish(self) -> list[Event]:
        """End the answer; return what was held back."""


class Format(Struct, frozen=True):
    """One wire format of calls.

    *models* are those that are known to write it, *prompt* tells any other model how to write it.
    *reasoning* is how its models mark their reasoning; None where the format reads them itself.
    *wrappers* are tokens around its answers that are not content. *tools* is how its models were
    taught to see the list of their tools; None where any JSON will do.
    """

    name: str
    calls: CallStyle
    prompt: str = ""
    models: tuple[str, ...] = ()
    reasoning: Reasoning | None = THINK
    wrappers: tuple[Wrapper, ...] = TURN_ENDS
    tools: prompts.ToolList | None = None

    @property
    def usual_reasoning(self) -> Reasoning | None:
        """How the models of this format mark their reasoning: as the style of its name, if any."""
        return STYLES.get(self.name, THINK) if self.reasoning is THINK else self.reasoning

    def render_tools(
        self,
        tools: object,
        *,
        template: Template | None = None,
        system: str = "",
        placement: Placement = "first",
    ) -> str:
        """Write the system prompt that shows *tools* and tells how to call them.

        *template* takes the place of the format's own words, and gets the tools as a plain JSON
        array; *system* is what else the prompt is to say, after the tools or, with *placement*
        ``last``, before them. Without tools there is nothing to tell.
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
        """Write *call* as a model writes it, so that it reads back equal.

        Raises `UsageError` for what this format cannot express, and for a call that is incomplete.
        """
        if not call.complete:
            raise UsageError("a call that is not complete is not to be shown as one")
        if not call.name:
            raise UsageError("a call needs a name")
        return self.calls.render_call(call)

    def render_calls(self, calls: Iterable[ToolCall]) -> str:
        """Write the calls of one message as a model writes them, so that they read back equal.

        Many formats put them into one section, others write one after the other. Raises
        `UsageError` as `render_call` does, and for calls that can only be written alone.
        """
        calls = tuple(calls)
        alone = [self.render_call(call) for call in calls]
        if len(alone) < _SEVERAL:
            return "".join(alone)
        text = render_together(self.calls, calls)
        tools = [Tool(name) for name in dict.fromkeys(call.name for call in calls)]
        if self._said(text, tools) != [said for one in alone for said in self._said(one, tools)]:
            raise UsageError(f"the format {self.name!r} cannot have these calls side by side")
        return text

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, in the form that mirrors the call.

        Where the wire has no flag for a call that failed, the content says it: text begins with
        ``Error: ``, and any other value stands under the key ``error``. What says so itself, text
        that begins with "error" or an object with that key, stays as it is.
        """
        written = self.calls.render_result(result)
        if not result.is_error:
            return written
        unmarked = structs.replace(result, is_error=False)
        if self.calls.render_result(unmarked) != written:
            return written  # The wire has a flag of its own.
        return self.calls.render_result(
            structs.replace(unmarked, content=failed_content(result.content))
        )

    def gbnf(self, tools: object, *, calls: Count = "one") -> str:
        """Write the grammar, in llama.cpp's GBNF, of exactly one call of *tools*, or of ``many``.

        A model that is held to it writes calls that this format reads, with arguments that their
        schemas accept, as far as a grammar can say that. Raises `UsageError` for a format without
        calls, and for a tool that cannot be called in it.
        """
        return write_gbnf(self._outlines(tools), calls)

    def structural_tag(
        self, tools: object, *, at_least_one: bool = False, stop_after_first: bool = False
    ) -> dict[str, Any]:
        """Return the structural tag, for xgrammar, vLLM and SGLang, of text with calls of *tools*.

        With *at_least_one* the answer is calls, with *stop_after_first* it ends after the first.
        Raises `UsageError` as `gbnf` does, and where a call has to be all of the answer unless both
        are asked for.
        """
        return write_structural_tag(
            self._outlines(tools), at_least_one=at_least_one, stop_after_first=stop_after_first
        )

    def parser(
        self,
        tools: object = (),
        *,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> Engine:
        """Return a fresh parser for one answer; the options are those of `penstock.Parser`."""
        known = read_tools(tools)
        style = reasoning_of(self.usual_reasoning, reasoning)
        syntax, wrappers = self.calls.syntax(known), self.wrappers
        return Engine(syntax, known, reasoning=style, wrappers=wrappers, **options)

    def parse(self, text: str, tools: object = ()) -> AssistantMessage:
        """Read a whole answer."""
        parser = self.parser(tools)
        return message_of([*parser.feed(text), *parser.finish(cut=False)])

    def _outlines(self, tools: object) -> list[tuple[Tool, Outline]]:
        calls = self.calls
        if not isinstance(calls, Outlined):
            raise UsageError(f"no grammar can be given for the format {self.name!r}")
        return [(tool, calls.outline(tool)) for tool in read_tools(tools)]

    def _said(self, text: str, tools: list[Tool]) -> list[tuple[str, dict[str, Any]]]:
        """Return what *text* calls, with values as they are where no schema says what they are."""
        machine = Engine(self.calls.syntax(tools), tools)
        events = (*machine.feed(text), *machine.finish())
        calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
        return [(call.name, call.arguments) for call in calls]

    def call_segments(self, text: str, tools: object = ()) -> list[str]:
        """Return the pieces of *text* that are read as calls, exactly as they stand, in order."""
        parser = self.parser(tools)
        parser.feed(text)
        parser.finish(cut=False)
        return [text[start:end] for start, end in parser.spans]


_SEVERAL: Final = 2
"""From how many calls on they stand together."""


def render_together(style: CallStyle, calls: Sequence[ToolCall]) -> str:
    """Write *calls* of one message as *style* writes several: one on each line if it says nothing.

    Raises `UsageError` for what `render_call` would refuse.
    """
    if len(calls) >= _SEVERAL and isinstance(style, Grouping):
        return style.render_calls(calls)
    return "\n".join(map(style.render_call, calls))


def message_of(events: Iterable[Event]) -> AssistantMessage:
    """Fold the blocks of an answer that is whole into a message, and say how it ended."""
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    message = builder.message
    message.stop_reason = end_of(message, "stop")
    return message


def end_of(message: AssistantMessage, reason: DoneReason) -> DoneReason:
    """Return how *message* ends that its provider ended for *reason*.

    One with calls ends in order to have them run, but never where one of them is incomplete. The
    token limit stays what it was.
    """
    calls = message.tool_calls
    if reason == "length":
        return "length"
    if calls and all(call.complete for call in calls):
        return "tool_use"
    return "stop"
