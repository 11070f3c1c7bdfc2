"""Calls as elements: the tag is the tool's name, its children are the arguments.

The walker says where things end; `rxml.loads` reads the inside of the call when its end tag has
come, and what it says are the arguments. A string field goes out as it comes: it can come only
once, so what it says is certain when it is closed. Any other element may come again and is a list
then, so all of them are written when the call ends.

A call that `rxml.loads` refuses is text up to its end tag, and one that never ends is text to the
end of the answer: in neither is looked for other calls, for all of it may be a value. Where the
answer ends with the call's end tag and the walker took it for a part of something else (of a
comment that never ends, of a string whose closing tags were all data), `rxml.loads` has the last
word: it sees the end, and the walker did not.

An element with words in it and no element is not a call, but prose with a tag of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from penstock.errors import DuplicateStringTagError, ParseError, XMLParseError
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import OpenString, Verdict, skipped_text
from penstock.parsing.readers.plausible import without_turn_end
from penstock.parsing.readers.tagged.strings import RawString
from penstock.parsing.readers.walker import MAX_TAG, MORE, NextCallError, RawText, Walker
from penstock.parsing.scanner import Scanner, markers
from penstock.tools import Tool
from penstock.values import rxml
from penstock.values.rxml.markup import closing_at, is_name, may_become_closing
from penstock.values.schema import Schema

Duplicates = Literal["error", "first"]
"""Whether a string that is given twice undoes its call, or the first of the two stands."""


class ElementCalls(Struct, frozen=True):
    """Calls as elements named after the tools *names*.

    With *trims*, string values lose one newline next to each of their tags. *duplicates* says what
    becomes of a call that gives a string twice.
    """

    names: tuple[str, ...]
    trims: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(
        cls, tools: Iterable[Tool], *, trims: bool = False, duplicates: Duplicates = "error"
    ) -> ElementCalls:
        """Return the syntax of calls of *tools*; a name that no tag can have is never called."""
        names = tuple(tool.name for tool in tools if is_name(tool.name))
        return cls(names, trims, duplicates)

    @property
    def folds(self) -> bool:
        """Names of tools are matched as they are."""
        return False

    @property
    def starts(self) -> tuple[str, ...]:
        """The start tags, and those that are a whole call without arguments."""
        return tuple(f"<{name}{end}" for name in self.names for end in (">", "/>", " />"))

    def body(self, marker: str) -> ElementCallReader | EmptyCallReader:
        """Return a fresh reader for what follows *marker*."""
        name = marker.strip("</ >")
        if marker.endswith("/>"):
            return EmptyCallReader(name)
        return ElementCallReader(name, trims=self.trims, duplicates=self.duplicates)


class EmptyCallReader:
    """Reads nothing: a self-closing tag is a call without arguments."""

    def __init__(self, name: str) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._name = name

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Write the call."""
        del scanner
        calls.open(self._name)
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Write the call."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""


class ElementCallReader:
    """Reads the inside of the element *name*, up to its end tag."""

    def __init__(self, name: str, *, trims: bool = False, duplicates: Duplicates = "error") -> None:
        self.error: str | ParseError = ""
        self.end = f"</{name}>"
        self._name = name
        self._trims = trims
        self._duplicates = duplicates
        self._schema: Schema | None = None
        self._walker: Walker | None = None  # none before the text begins
        self._broken = False
        self._is_unended = False  # another call begins before the end tag
        self._pieces: list[str] = []  # all of the inside
        self._rest = ""  # of the inside, where the answer ended in it
        self._string: RawString | None = None  # the string that streams just now
        self._open_text: str | None = None  # what it says, where the answer ended in it

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        walker = self._walker or self._begin(calls)
        try:
            while not (self._broken or walker.ended):
                if not self._step(walker, scanner, calls):
                    return Verdict.MORE
        except NextCallError as exc:
            self._refuse(exc)
            self._is_unended = True
            return Verdict.BROKEN
        except (NoCallError, ParseError) as exc:
            self._refuse(exc)
            if calls.started:
                return Verdict.GIVE_UP
        if self._broken:
            return self._skip_to_end(scanner)
        if calls.writer is None and _is_words("".join(self._pieces), walker):
            return Verdict.NOT_A_CALL
        return self._close(calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the call has not, unless its end tag is the last of it."""
        self._rest = scanner.unread
        scanner.at = len(scanner.text)
        if self._walker is not None and not self._broken:
            if self._close_after_all(self._walker, calls):
                return Verdict.DONE
            self._finish_string(self._walker)
        self.error = self.error or f"a call of `{self._name}` was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._string.run() if self._string is not None else None

    def _begin(self, calls: CallSink) -> Walker:
        calls.name = self._name
        self._schema = calls.schemas.get(self._name)
        self._walker = Walker(self._name, self._schema, calls.schemas)
        return self._walker

    def _step(self, walker: Walker, scanner: Scanner, calls: CallSink) -> bool:
        """Take one step of the walker; return whether there was text enough for it."""
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
        if self._string is not None:
            self._string.close()
            self._string = None
        if not walker.ended:
            self._pieces.append(scanner.text[begin:end])
        if after is not None and before is None and after.name not in walker.seen:
            self._open_string(after, calls)
        return True

    def _open_string(self, field: RawText, calls: CallSink) -> None:
        """Let the string field that has begun stream, if it can come out as it stands."""
        if field.schema is not None and field.schema.is_string:
            writer = calls.writer or calls.open(self._name)
            writer.open_text(field.name)
            self._string = RawString(field.tags, writer, self._pieces, trims=self._trims)

    def _close(self, calls: CallSink) -> Verdict:
        """End the call: its end tag has come."""
        self.end = ""
        try:
            self._complete("".join(self._pieces), calls)
        except (NoCallError, ParseError) as exc:
            self._refuse(exc)
            return Verdict.GIVE_UP
        return Verdict.DONE

    def _complete(self, inside: str, calls: CallSink) -> None:
        """Read the inside, write what has waited, end the call.

        What was written and the whole of the text have to say the same. They do not where the text
        before a decision was longer than the walker looks at.
        """
        surplus: list[str] = []
        skipped: list[str] = []
        arguments = self._load(inside, surplus, skipped)
        writer = calls.writer or calls.open(self._name)
        if not writer.agrees_with(arguments, None):
            raise NoCallError("where a string ends is not clear")
        for message in surplus:
            calls.tell(DuplicateStringTagError(self._named(message)))
        for text in skipped:
            calls.note(skipped_text(text))
        writer.complete(arguments, None)
        calls.close()

    def _load(self, inside: str, surplus: list[str], skipped: list[str]) -> dict[str, Any]:
        return rxml.loads(
            inside,
            self._schema,
            duplicates=self._duplicates,
            trims=self._trims,
            strict=True,
            on_error=surplus.append,
            on_skip=skipped.append,
        )

    def _refuse(self, exc: NoCallError | ParseError) -> None:
        """Note why this is not a call, with the tool's name, as an error of its kind."""
        self._broken = True
        if isinstance(exc, ParseError):
            message = self._named(exc.reason)
            self.error = type(exc)(message, text=exc.text, position=exc.position)
        else:
            inside = "".join(self._pieces)
            self.error = XMLParseError(self._named(str(exc)), text=inside, position=len(inside))

    def _named(self, message: str) -> str:
        return f"in a call of `{self._name}`: {message}"

    # --- where the answer ends ---

    def _close_after_all(self, walker: Walker, calls: CallSink) -> bool:
        """End the call if its end tag is the last of the answer; return whether it could be.

        A string that went out with the end tag in it is not taken back.
        """
        inside, has_end = self._without_end("".join(self._pieces) + self._rest)
        if not has_end or (calls.started and self._string is not None):
            return False
        if calls.writer is None and walker.text is None and _is_words(inside, walker):
            return False
        if self._string is not None:
            calls.open(self._name)  # again, for the string that was written is another
        try:
            self._complete(inside, calls)
        except (NoCallError, ParseError):
            return False
        return True

    def _without_end(self, text: str) -> tuple[str, bool]:
        """Take the call's end tag, and white space after it, off *text*; tell if it was there."""
        bare = text.rstrip()
        at = bare.rfind("</")
        closing = closing_at(bare, at) if at != -1 else None
        if closing != (self._name, len(bare)):
            return text, False
        return bare[:at], True

    def _finish_string(self, walker: Walker) -> None:
        """Let the open string take what was held back, unless it is a whole closing tag."""
        string, field = self._string, walker.field
        if string is None or field is None:
            return
        closing = closing_at(self._rest, 0)
        if closing is None:
            string.add(self._rest)
        if closing is not None and closing[0] == field.name:
            string.close()
            self._string = None
        else:
            self._open_text = string.finish(at_tag=closing is not None)

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams, or did where the answer ended."""
        if self._open_text is None and self._string is not None:
            return self._string.gone_out()
        return self._open_text

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close what the model left open when it stopped; a call that broke stays broken.

        An end tag of the call that stands anywhere but at the end of the *text* tells that the
        model went on after it: then nobody knows what the text is. Words before the first field
        tell of prose that names the tags and means no call.
        """
        walker = self._walker
        is_open = self._is_unended or (ended and not self._broken)
        if not is_open or walker is None or not walker.begun:
            return []
        if not text.lstrip().startswith("<"):
            return []
        inside, has_end = self._without_end(without_turn_end(text))
        rest = self._rest or text[sum(map(len, self._pieces)) :]
        names = walker.unclosed(without_turn_end(rest))
        if not names or markers(f"</{self._name}>", f"</ {self._name}>").find(inside) is not None:
            return []
        added = names[:-1] if has_end else names
        repairs = [f"added the missing `</{name}>`" for name in added]
        if not has_end:
            inside = self._before_begun_tag(inside, names[0])
        arguments = self._load_closed(inside, names[:-1], repairs)
        return [] if arguments is None else [RepairedCall(self._name, arguments, repairs)]

    def _load_closed(
        self, inside: str, names: list[str], repairs: list[str]
    ) -> dict[str, Any] | None:
        """Read *inside*, whose elements *names* are open; return None where its meaning is unclear.

        An element in which nothing has come may have been cut, and one that holds the tag of
        another argument lacks its end there.
        """
        if names:
            begin = inside.rfind(f"<{names[0]}")
            value = inside[inside.find(">", begin) + 1 :]
            if not value.strip() or self._holds_markup(value):
                return None
        skipped: list[str] = []
        try:
            arguments = self._load(inside + "".join(f"</{name}>" for name in names), [], skipped)
        except ParseError:
            return None
        repairs.extend(map(skipped_text, skipped))
        return arguments

    def _holds_markup(self, value: str) -> bool:
        """Return whether *value* holds a tag of the call or of one of its arguments."""
        known = (self._name, *(self._schema.properties if self._schema is not None else ()))
        tags = (f"{begin}{name}{end}" for name in known for begin in ("<", "</") for end in "> ")
        return any(tag in value for tag in tags)

    def _before_begun_tag(self, inside: str, name: str) -> str:
        """Take the beginning of the closing tag of *name* off the end of *inside*."""
        at = inside.rfind("</")
        if at != -1 and may_become_closing(inside, at, name):
            return inside[:at]
        # A newline that comes before no tag is part of its string.
        return inside + "\n" if self._trims and inside.endswith("\n") else inside

    # --- where the call is broken ---

    def _skip_to_end(self, scanner: Scanner) -> Verdict:
        """Look for the end tag of a call that is broken: up to it all is text."""
        text, tags = scanner.text, markers(f"</{self._name}", f"</ {self._name}")
        while found := tags.find(text, scanner.at):
            scanner.at = found.start()
            window = text[scanner.at : scanner.at + MAX_TAG]
            closing = closing_at(window, 0)
            if closing is not None and closing[0] == self._name:
                scanner.at += closing[1]
                self.end = ""
                return Verdict.GIVE_UP
            if len(window) < MAX_TAG and may_become_closing(window, 0, self._name):
                return Verdict.MORE
            scanner.at = found.end()
        scanner.at = tags.find_held(text, scanner.at)
        return Verdict.MORE


def _is_words(inside: str, walker: Walker) -> bool:
    """Return whether *inside* holds words and no element; a remark is not one of both."""
    words = "" if walker.seen else inside.lstrip()
    return words != "" and not words.startswith("<!")
