"""What a format of calls is: how a model is told to call, how its calls are read, how replayed.

A format is frozen data. Its `calls` say how a call looks, both ways: the syntax that the parser
reads it with, and how it is written. Formats of one family share the class of their `calls` and
differ in its fields; a format that only renames markers is a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.events import Event
from penstock.formats import prompts
from penstock.formats.thinking import THINK, find_reasoning
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.parsing import Arguments, Machine, OnError, Reasoning, Syntax
from penstock.tools import Tool

Placement = Literal["first", "last"]
"""Where the tools stand in a system prompt that says something else too."""

Template = str | Callable[[str], str]
"""A prompt of one's own: text with ``{tools}`` and ``{example}``, or a function of the tools."""


class CallStyle(Protocol):
    """How calls look: the syntax to read them with, and how they and their results are written."""

    def syntax(self, tools: Iterable[Tool]) -> Syntax:
        """Give the syntax of calls of *tools*."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a model writes it.

        Raises `UsageError` for what cannot be written so that it reads back as it was.
        """

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, in the form that mirrors the call."""


@runtime_checkable
class TextParser(Protocol):
    """What reads an answer, whoever made it."""

    def feed(self, text: str, /) -> list[Event]:
        """Read more text; give the events that it makes certain."""

    def finish(self) -> list[Event]:
        """End the answer; give what was held back."""


class Format(Struct, frozen=True):
    """One wire format of calls.

    *models* are those that are known to write it, *reasoning* is how they mark their thoughts, and
    *prompt* tells any other model how to write it.
    """

    name: str
    calls: CallStyle
    prompt: str = ""
    models: tuple[str, ...] = ()
    reasoning: Reasoning | None = THINK

    def render_tools(
        self,
        tools: Iterable[Tool],
        *,
        template: Template | None = None,
        system: str = "",
        placement: Placement = "first",
    ) -> str:
        """Write the system prompt that shows *tools* and tells how to call them.

        *template* takes the place of the format's own words; *system* is what else the prompt is to
        say, behind the tools or, with *placement* ``last``, before them.
        """
        shown = prompts.fill(template or self.prompt, tuple(tools), self.calls.render_call)
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

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, in the form that mirrors the call."""
        return self.calls.render_result(result)

    def parser(  # noqa: PLR0913 - the options of every parser
        self,
        tools: Iterable[Tool] = (),
        *,
        arguments: Arguments = "whole",
        reasoning: str | Reasoning | None = None,
        prompt_suffix: str = "",
        trim: bool = False,
        repair: bool = False,
        on_error: OnError | None = None,
        ids: Callable[[], str] | None = None,
    ) -> Machine:
        """Give a fresh parser for one answer; see `penstock.Parser` for the options."""
        tools = tuple(tools)
        return Machine(
            self.calls.syntax(tools),
            tools,
            arguments=arguments,
            reasoning=self.reasoning if reasoning is None else find_reasoning(reasoning),
            prompt_suffix=prompt_suffix,
            trim=trim,
            repair=repair,
            on_error=on_error,
            ids=ids,
        )

    def parse(self, text: str, tools: Iterable[Tool] = ()) -> AssistantMessage:
        """Read a whole answer."""
        parser, builder = self.parser(tools), MessageBuilder()
        for event in (*parser.feed(text), *parser.finish()):
            builder.add(event)
        return builder.message

    def call_segments(self, text: str, tools: Iterable[Tool] = ()) -> list[str]:
        """Give the pieces of *text* that are read as calls, exactly as they stand, in order."""
        parser = self.parser(tools)
        parser.feed(text)
        parser.finish()
        return [text[start:end] for start, end in parser.spans]
