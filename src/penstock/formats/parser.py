"""Reading an answer in any format: at once, as it comes, or inside a sequence of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self, Unpack

from msgspec import structs

from penstock.events import Event
from penstock.formats.base import Format, Options, message_of
from penstock.formats.registry import FormatLike, get
from penstock.formats.thinking import reasoning_of
from penstock.messages import AssistantMessage
from penstock.parsing import Arguments, FencedCalls, Machine, OnError, Reasoning, Untrusted
from penstock.tools import read_tools


class Parser(Machine):
    """Reads one answer of a model, as it arrives: `feed` text, get events; `finish` at its end.

    *format* is the name of a format, or a format. *tools* are those that the model may call, in any
    shape that `read_tools` reads.

    * *arguments*: ``whole``, where a call comes out when it is complete and anything else is text,
      or ``live``, where it comes out as it arrives and may turn out incomplete.
    * *reasoning*: how the model marks its thoughts; None is what the format's models do, ``none``
      leaves them in the text. *prompt_suffix* is what the prompt ended with: it may have opened a
      thought.
    * *trim*: white space that touches a call is no text, and neither are the blank lines between
      reasoning and the text after it.
    * *repair*: a call that is broken, or left open by a model that ended by itself, is mended if
      the tool is known and its schema satisfied.
    * *on_error*: told in words, and with the segment, of text that was meant to be a call.
    * *ids*: gives an id to a call that brings none.
    * *max_calls*: how many calls an answer may have; what follows them stays text. None is any
      number.
    * *untrusted*: texts of the conversation that are not instructions, such as tool results. A call
      that occurs in one of them word for word is quoted: it is text, and *on_error* says so.
    * *fenced*: what a call in a code fence, in inline code or in a block quote is: ``text``, or
      ``calls`` for a model that always fences its calls.

    No text of a model makes it raise. After `finish`, `rest` is text that no event claimed.
    """

    def __new__(cls, format: FormatLike, tools: object = (), **options: Any) -> Self:  # noqa: A002
        """Make the parser that *format* asks for: a format of the user's own brings its own."""
        del tools, options
        kind: Any = cls if isinstance(get(format), Format) else _BorrowedParser
        return super().__new__(kind)  # type: ignore[no-any-return]

    def __init__(  # noqa: PLR0913 - each is an option of every parser
        self,
        format: FormatLike,  # noqa: A002 - the word of the whole interface
        tools: object = (),
        *,
        arguments: Arguments = "whole",
        reasoning: str | Reasoning | None = None,
        prompt_suffix: str = "",
        trim: bool = False,
        repair: bool = False,
        on_error: OnError | None = None,
        ids: Callable[[], str] | None = None,
        max_calls: int | None = None,
        untrusted: Untrusted | Iterable[str] | None = None,
        fenced: FencedCalls = "text",
    ) -> None:
        found, known = get(format), read_tools(tools)
        assert isinstance(found, Format)  # noqa: S101 - `__new__` has looked
        super().__init__(
            found.calls.syntax(known),
            known,
            arguments=arguments,
            reasoning=reasoning_of(found.usual_reasoning, reasoning),
            wrappers=found.wrappers,
            prompt_suffix=prompt_suffix,
            trim=trim,
            repair=repair,
            on_error=on_error,
            ids=ids,
            max_calls=max_calls,
            untrusted=untrusted,
            fenced=fenced,
        )


class _BorrowedParser(Parser):
    """The parser of a format of the user's own, which is told only the options that were given."""

    def __init__(self, format: FormatLike, tools: object = (), **options: Any) -> None:  # noqa: A002
        self.rest = ""
        self.spans = []
        self._first_index = 0
        self._own = get(format).parser(read_tools(tools), **options)

    def feed(self, text: str) -> list[Event]:
        """Read more text; give the events that it makes certain."""
        return self._numbered(self._own.feed(text))

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002
        """End the answer; how it ended is nothing that such a parser is told."""
        del cut
        events = self._numbered(self._own.finish())
        self.rest = str(getattr(self._own, "rest", ""))
        return events

    def number_from(self, index: int) -> None:
        """Give the blocks numbers from *index* on."""
        self._first_index = index

    def follow_thought(self) -> None:
        """Do nothing: such a parser is told nothing of what came before."""

    def _numbered(self, events: list[Event]) -> list[Event]:
        first = self._first_index
        if not first:
            return list(events)
        return [structs.replace(event, index=event.index + first) for event in events]  # type: ignore[union-attr]


def parse(
    text: str,
    format: FormatLike = "hermes",  # noqa: A002
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    **options: Unpack[Options],
) -> AssistantMessage:
    """Read a whole answer; the options are those of `Parser`.

    The message ends as ``tool_use`` where it has calls and all of them are complete, else as
    ``stop``: the model is taken to have ended by itself.
    """
    found = get(format)
    if not isinstance(found, Format):
        return found.parse(text, read_tools(tools))
    parser = found.parser(tools, reasoning=reasoning, **options)
    return message_of([*parser.feed(text), *parser.finish(cut=False)])
