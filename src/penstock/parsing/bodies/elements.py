"""Calls as elements: the tag is the tool's name, its children are the arguments.

The walker says where things end; `rxml.loads` reads the inside of the call when its end tag has
come, and what it says are the arguments. A string field goes out as it comes: it can come only
once, so what it says is certain when it is closed. Any other element may come again and is a list
then, so all of them are written when the call ends.

A call that `rxml.loads` refuses is text up to its end tag, and one that never ends is text to the
end of the answer: in neither is looked for other calls, for all of it may be a value.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.raw_strings import RawString
from penstock.parsing.bodies.walker import MAX_TAG, MORE, RawText, Walker
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner, markers
from penstock.tools import Tool
from penstock.values import rxml
from penstock.values.rxml.fields import is_string_field
from penstock.values.rxml.markup import closing_at, is_name, may_become_closing
from penstock.values.schema import Schema


class ElementCalls(Struct, frozen=True):
    """Calls as elements named after the tools *names*.

    With *trims*, string values lose one newline next to each of their tags.
    """

    names: tuple[str, ...]
    trims: bool = False

    @classmethod
    def of(cls, tools: Iterable[Tool], *, trims: bool = False) -> ElementCalls:
        """Give the syntax of calls of *tools*; a name that no tag can have is never called."""
        return cls(tuple(tool.name for tool in tools if is_name(tool.name)), trims)

    @property
    def folds(self) -> bool:
        """Names of tools are matched as they are."""
        return False

    @property
    def starts(self) -> tuple[str, ...]:
        """The start tags, and those that are a whole call without arguments."""
        return tuple(f"<{name}{end}" for name in self.names for end in (">", "/>"))

    def body(self, marker: str) -> ElementCallReader | EmptyCallReader:
        """Give a fresh reader for what follows *marker*."""
        name = marker.strip("</>")
        if marker.endswith("/>"):
            return EmptyCallReader(name)
        return ElementCallReader(name, trims=self.trims)


class EmptyCallReader:
    """Reads nothing: a self-closing tag is a call without arguments."""

    def __init__(self, name: str) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._name = name

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Write the call."""
        del scanner
        calls.open(self._name)
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Write the call."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""


class ElementCallReader:
    """Reads the inside of the element *name*, up to its end tag."""

    def __init__(self, name: str, *, trims: bool = False) -> None:
        self.error: str | ParseError = ""
        self.end = f"</{name}>"
        self._name = name
        self._trims = trims
        self._schema: Schema | None = None
        self._walker: Walker | None = None  # none before the text begins
        self._pieces: list[str] = []  # all of the inside
        self._string: RawString | None = None  # the string that streams just now
        self._streamed: dict[str, str] = {}  # as `rxml` has to read it

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        walker = self._walker or self._begin(calls)
        try:
            while not (self.error or walker.ended):
                if not self._step(walker, scanner, calls):
                    return Verdict.MORE
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if calls.started:
                return Verdict.TEXT
        return self._skip_to_end(scanner) if self.error else self._close(calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the call has not."""
        del calls
        scanner.at = len(scanner.text)
        self.error = self.error or "the call was cut"
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return self._string.run() if self._string is not None else None

    def _begin(self, calls: Calls) -> Walker:
        calls.name = self._name
        self._schema = calls.schemas.get(self._name)
        self._walker = Walker(self._name, self._schema)
        return self._walker

    def _step(self, walker: Walker, scanner: Scanner, calls: Calls) -> bool:
        """Take one step of the walker; tell whether there was text enough for it."""
        begin, before = scanner.at, walker.field
        end = walker.step(scanner.text, begin)
        if end == MORE:
            return False
        scanner.at = end
        if walker.begun and calls.writer is None:
            calls.open(self._name)
        after = walker.field
        if self._string is not None and after is not None:
            self._string.add(scanner.text[begin:end])
            return True
        if self._string is not None and before is not None:
            self._streamed[before.name] = self._string.close()
            self._string = None
        if not walker.ended:
            self._pieces.append(scanner.text[begin:end])
        if after is not None and before is None:
            self._open_string(after, calls)
        return True

    def _open_string(self, field: RawText, calls: Calls) -> None:
        """Let the string field that has begun stream, if it can come out as it stands."""
        can_stream = field.schema is not None and field.schema.is_string
        if can_stream and field.name not in self._streamed:
            writer = calls.writer or calls.open(self._name)
            writer.open_text(field.name)
            self._string = RawString(field.tags, writer, self._pieces, trims=self._trims)

    def _close(self, calls: Calls) -> Verdict:
        """Read the inside, write what has waited, end the call."""
        self.end = ""  # has come
        try:
            arguments = rxml.loads("".join(self._pieces), self._schema)
            waiting = self._tell_waiting(arguments)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.TEXT
        writer = calls.writer or calls.open(self._name)
        for key, value in waiting.items():
            writer.write(key, value)
        calls.close()
        return Verdict.DONE

    def _tell_waiting(self, arguments: dict[str, object]) -> dict[str, object]:
        """Give the arguments that were not written yet.

        What was written and the whole of the text have to say the same. They do not where the text
        before a decision was longer than the walker looks at.
        """
        for key, text in self._streamed.items():
            if arguments.pop(key, None) != text:
                raise NoCallError(f"where `<{key}>` ends is not clear")
        return {key: self._trimmed(key, value) for key, value in arguments.items()}

    def _trimmed(self, key: str, value: object) -> object:
        if not self._trims or not isinstance(value, str) or self._schema is None:
            return value
        if not is_string_field(self._schema.property(key)):
            return value
        return value.removeprefix("\n").removesuffix("\n")

    def _skip_to_end(self, scanner: Scanner) -> Verdict:
        """Look for the end tag of a call that is broken: up to it all is text."""
        text, tags = scanner.text, markers(f"</{self._name}")
        while found := tags.find(text, scanner.at):
            scanner.at = found.start()
            window = text[scanner.at : scanner.at + MAX_TAG]
            closing = closing_at(window, 0)
            if closing is not None and closing[0] == self._name:
                scanner.at += closing[1]
                self.end = ""
                return Verdict.TEXT
            if len(window) < MAX_TAG and may_become_closing(window, 0, self._name):
                return Verdict.MORE
            scanner.at = found.end()
        scanner.at = tags.find_held(text, scanner.at)
        return Verdict.MORE
