"""Calls as elements: the tag is the tool's name, its children are the arguments.

The walker finds where elements end; when the end tag of the call has come, `rxml.loads` reads the
inside, and its result are the arguments. A string field is emitted as it arrives: it can come only
once, so its value is certain when it is closed. Any other element may come again to make a list, so
all of them are written when the call ends. A call that has come whole is read at once if its
elements are plain (`simple_elements`).

A call that `rxml.loads` refuses is text up to its end tag, and one that never ends is text to the
end of the response: no calls are searched for in it, because all of it may be a value. If the
response ends with the call's end tag, and the walker took that for part of something else (a
comment that never ends, a string whose closing tags were all data), `rxml.loads` decides: it has
the whole text.

An element with words in it and no element is not a call, but prose with a tag of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.errors import DuplicateStringTagError, ParseError, XMLParseError
from penstock.parsing.body import BodyReader, OpenString, Syntax, Verdict, make_skipped_note
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, markers
from penstock.readers.plausible import (
    REASONING,
    ends_with_loose_tag,
    fits,
    has_loose_tags,
    holds_turn_end,
)
from penstock.readers.simple_elements import SimpleFields, find_simple_fields
from penstock.readers.tagged import Trim
from penstock.readers.tagged.damaged_tags import element_tags
from penstock.readers.tagged.endings import is_line
from penstock.readers.tagged.strings import StreamedText
from penstock.readers.walker import MAX_TAG, MORE, NextCallError, RawText, Walker
from penstock.tools import Tool
from penstock.values import rxml
from penstock.values.coercion import coerce
from penstock.values.control_tokens import CONTROL_TOKEN, has_control_token, without_turn_end
from penstock.values.rxml.markup import closing_at, is_name, may_become_closing, opening_at
from penstock.values.schema import Schema

Duplicates = Literal["error", "first"]
"""Whether a string that is given twice breaks its call, or the first of the two counts."""


class ElementCalls(Syntax, Struct, frozen=True):
    """Calls as elements named after the tools *names*.

    With *trims*, string values lose one newline next to each of their tags. *duplicates* decides
    about a call that gives a string twice.
    """

    names: tuple[str, ...]
    trims: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(
        cls, tools: Iterable[Tool], *, trims: bool = False, duplicates: Duplicates = "error"
    ) -> ElementCalls:
        """Return the syntax of calls of *tools*; one whose name is not valid in a tag has none."""
        names = tuple(tool.name for tool in tools if is_name(tool.name))
        return cls(names, trims, duplicates)

    @property
    def starts(self) -> tuple[str, ...]:
        """The start tags, and those that are a whole call without arguments."""
        return _starts(self.names)

    def body(self, marker: str) -> ElementCallReader | EmptyCallReader:
        """Return a new reader for the text after *marker*."""
        name = marker.strip("</ >")
        if marker.endswith("/>"):
            return EmptyCallReader(name)
        return ElementCallReader(name, trims=self.trims, duplicates=self.duplicates)


@lru_cache(maxsize=64)
def _starts(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"<{name}{end}" for name in names for end in (">", "/>", " />"))


class EmptyCallReader(BodyReader):
    """Reads nothing: a self-closing tag is a call without arguments."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Write the call."""
        del scanner
        calls.open(self._name)
        calls.close()
        return Verdict.DONE


class ElementCallReader(BodyReader):
    """Reads the inside of the element *name*, up to its end tag."""

    is_repairable = True

    def __init__(self, name: str, *, trims: bool = False, duplicates: Duplicates = "error") -> None:
        self.end = f"</{name}>"
        self._name = name
        self._trims = trims
        self._duplicates = duplicates
        self._schema: Schema | None = None
        self._walker: Walker | None = None  # none before the text begins
        self._broken = False
        self._is_unended = False  # another call begins before the end tag
        self._pieces: list[str] = []  # the inside, except for the string that is streaming
        self._rest = ""  # of the inside, if the response ended in it
        self._string: StreamedText | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        verdict = self._read_at_once(scanner, calls) if self._walker is None else None
        return verdict or self._read_in_steps(scanner, calls)

    def _read_in_steps(self, scanner: Scanner, calls: CallSink) -> Verdict:
        walker = self._walker or self._begin(calls)
        try:
            while not (self._broken or walker.ended):
                if not self._step(walker, scanner, calls):
                    return Verdict.MORE
        except NextCallError as exc:
            if self._close_before_next(walker, calls):
                return Verdict.UNTERMINATED
            self._refuse(exc)
            self._is_unended = True
            return Verdict.BROKEN
        except (NoCallError, ParseError) as exc:
            self._refuse(exc)
            if calls.started:
                return Verdict.GIVE_UP
        if self._broken:
            return self._skip_to_end(scanner)
        if calls.writer is None and _is_words(self._inside, walker):
            return Verdict.NOT_A_CALL
        return self._close(calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: the call is cut, unless its end tag is the last of it."""
        self._rest = scanner.unread
        scanner.skip_all()
        if self._walker is not None and not self._broken:
            if self._close_after_all(self._walker, calls):
                return Verdict.DONE
            self._finish_string(self._walker)
        self.error = self.error or f"a call of `{self._name}` was cut"
        return Verdict.GIVE_UP

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""
        return self._string.open_string() if self._string is not None else None

    def _begin(self, calls: CallSink) -> Walker:
        calls.name = self._name
        self._schema = calls.schemas.get(self._name)
        self._walker = Walker(self._name, self._schema, calls.schemas)
        return self._walker

    def _read_at_once(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read a call that is complete and holds plain elements alone; return None for any other.

        A call that has to stream is left to the walker, too.
        """
        schema = calls.schemas.get(self._name) if calls.is_whole else None
        if schema is None:
            return None
        text, begin = scanner.text, scanner.at
        found = find_simple_fields(self._name, schema, text, begin, trims=self._trims)
        if found is None:
            return None
        self._schema = schema
        inside, arguments = text[begin : found.inside_end], coerce(found.values, schema)
        if not self._is_clear(found, arguments, inside):
            return None
        self._pieces.append(inside)
        scanner.advance_to(found.end)
        self.end = ""
        writer = calls.open(self._name)
        for key in found.strings:
            writer.put_text(key, found.values[key])
        try:
            writer.complete(arguments, None)
            calls.close()
        except NoCallError as exc:
            self._refuse(exc)
            return Verdict.GIVE_UP
        return Verdict.DONE

    def _is_clear(self, found: SimpleFields, arguments: Any, inside: str) -> bool:
        """Return whether *arguments* are what was meant, and its strings are as written."""
        if not isinstance(arguments, dict):
            return False
        if any(arguments.get(key) != found.values[key] for key in found.strings):
            return False
        try:
            self._check(arguments, inside)
        except NoCallError:
            return False
        return True

    def _step(self, walker: Walker, scanner: Scanner, calls: CallSink) -> bool:
        """Take one step of the walker; return whether there was text enough for it."""
        begin, before = scanner.at, walker.field
        end = walker.step(scanner.text, begin)
        if end == MORE:
            return False
        scanner.advance_to(end)
        if walker.begun and calls.writer is None:
            calls.open(self._name)
        after = walker.field
        if self._string is not None and after is not None:
            if after.is_doubtful and is_line(self._string.raw):
                self._string.wait()  # The closing tag may be missing.
            after.is_doubtful = False
            self._string.add(scanner.text[begin:end])
            return True
        if self._string is not None:
            self._pieces.append(self._string.raw)
            self._string.close()
            self._string = None
        if not walker.ended:
            self._pieces.append(scanner.text[begin:end])
        if after is not None and before is None and after.name not in walker.seen:
            self._open_string(after, calls)
        return True

    def _open_string(self, field: RawText, calls: CallSink) -> None:
        """Begin to emit the string field that has begun, if coercion will not change it."""
        if field.schema is not None and field.schema.is_string:
            writer = calls.writer or calls.open(self._name)
            writer.open_text(field.name)
            trim: Trim = "newlines" if self._trims else "exact"
            self._string = StreamedText(field.tags, writer, trim, entities=True)

    @property
    def _inside(self) -> str:
        """All text of the call that was read."""
        return "".join(self._pieces) + ("" if self._string is None else self._string.raw)

    def _close(self, calls: CallSink) -> Verdict:
        """End the call: its end tag has come."""
        self.end = ""
        try:
            self._complete(self._inside, calls)
        except (NoCallError, ParseError) as exc:
            self._refuse(exc)
            return Verdict.GIVE_UP
        return Verdict.DONE

    def _close_before_next(self, walker: Walker, calls: CallSink) -> bool:
        """Close the call before the next one, if only its end tag is missing.

        Words between them may be a value whose tag is missing.
        """
        required = () if self._schema is None else self._schema.required
        if not walker.seen or not walker.seen.issuperset(required):
            return False
        try:
            self._complete(self._inside, calls, ended=False)
        except (NoCallError, ParseError):
            return False
        return True

    def _complete(self, inside: str, calls: CallSink, *, ended: bool = True) -> None:
        """Read the inside, write what has waited, and close the call.

        The strings that were emitted must agree with the whole text. They do not if the text before
        a decision was longer than `MAX_TAG`.
        """
        surplus: list[str] = []
        skipped: list[str] = []
        arguments = self._load(inside, surplus, skipped, ended=ended)
        writer = calls.writer or calls.open(self._name)
        if not writer.agrees_with(arguments, None):
            raise NoCallError("it is not clear where a string ends")
        if skipped and not ended:
            raise NoCallError("words before the next call")
        if any(_TAG_BEGINS.search(_TOKEN.sub("", text)) for text in skipped):
            raise NoCallError("a damaged tag between arguments")
        for message in surplus:
            calls.report(DuplicateStringTagError(self._describe(message)))
        for text in skipped:
            calls.note(make_skipped_note(text))
        if not ended:
            calls.note(f"added the missing `</{self._name}>`")
        writer.complete(arguments, None)
        calls.close()

    def _load(
        self, inside: str, surplus: list[str], skipped: list[str], *, ended: bool
    ) -> dict[str, Any]:
        arguments = rxml.loads(
            inside,
            self._schema,
            duplicates=self._duplicates,
            trims=self._trims,
            strict=True,
            on_error=surplus.append,
            on_skip=skipped.append,
        )
        # Of YAML, only the tags inside its strings would be read.
        if any(_VALUE_SIGN.search(each.removeprefix("<![CDATA[")) for each in skipped):
            raise NoCallError("the text between the elements may be an argument")
        skipped += self._take_reasoning(arguments)
        self._check(arguments, inside)
        if not ended:
            self._check_unended(arguments)
        return arguments

    def _take_reasoning(self, arguments: dict[str, Any]) -> list[str]:
        """Take the elements of reasoning out of *arguments*, and return their text."""
        known = self._schema.properties if self._schema is not None else ()
        names = [key for key in arguments if known and key in REASONING and key not in known]
        return [str(arguments.pop(name)) for name in names]

    def _check(self, arguments: dict[str, Any], inside: str) -> None:
        """Raise `NoCallError` if one of *arguments* is not what was meant."""
        schema = self._schema
        damaged = element_tags(self._name, *(schema.properties if schema is not None else ()))
        is_unescaped = holds_turn_end(inside)
        known = schema.properties if schema is not None else {}
        missing = [key for key in known if key not in arguments]
        for key, value in arguments.items():
            is_list = isinstance(value, list)
            texts = [each for each in (value if is_list else [value]) if isinstance(each, str)]
            if is_unescaped and any(map(holds_turn_end, texts)):
                raise NoCallError(f"a token that ends the turn inside `{key}`")
            if is_list and any(
                has_loose_tags(text, {"item", key}) or damaged.are_in(text) for text in texts
            ):
                raise NoCallError(f"a tag inside an item of `{key}`")
            if not isinstance(value, str):
                continue
            child = schema.property(key) if schema is not None else None
            is_all = value.strip() == inside.strip()  # the argument has no element of its own
            if is_all and (self._holds_markup(value) or has_control_token(value)):
                raise NoCallError("text in the place of an element")
            if not fits(value, child) or _is_broken_object(value, child):
                raise NoCallError(f"the text of `{key}` is not what its schema demands")
            is_loose = missing and has_loose_tags(value, missing) and value in inside
            if is_loose or damaged.are_in(value):
                raise NoCallError(f"a damaged tag inside `{key}`")

    def _check_unended(self, arguments: dict[str, Any]) -> None:
        """Raise `NoCallError` if a call without its end tag has it, or an unknown argument."""
        known = self._schema.properties if self._schema is not None else ()
        for key, value in arguments.items():
            if known and key not in known:
                raise NoCallError(f"the tool has no argument `{key}`")
            if not isinstance(value, str):
                continue
            is_loose = ends_with_loose_tag(value) and self._holds_markup(value)
            if is_loose or has_loose_tags(value, {self._name}):
                raise NoCallError(f"it is not clear where `{key}` ends")

    def _refuse(self, exc: NoCallError | ParseError) -> None:
        """Keep why this is not a call, with the tool's name, as an error of the same type."""
        self._broken = True
        if isinstance(exc, ParseError):
            message = self._describe(exc.reason)
            self.error = type(exc)(message, text=exc.text, position=exc.position)
        else:
            inside = self._inside
            self.error = XMLParseError(self._describe(str(exc)), text=inside, position=len(inside))

    def _describe(self, message: str) -> str:
        return f"in a call of `{self._name}`: {message}"

    # --- at the end of the response ---

    def _close_after_all(self, walker: Walker, calls: CallSink) -> bool:
        """Close the call if its end tag ends the response; return whether it was closed.

        A string that was emitted with the end tag in it cannot be taken back.
        """
        inside, has_end = self._without_end(self._inside + self._rest)
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
        """Return *text* without the end tag of the call at its end, and whether it was there."""
        bare = text.rstrip()
        at = bare.rfind("</")
        closing = closing_at(bare, at) if at != -1 else None
        if closing != (self._name, len(bare)):
            return text, False
        return bare[:at], True

    def _finish_string(self, walker: Walker) -> None:
        """Add what was held back to the open string, unless it is a whole closing tag."""
        string, field = self._string, walker.field
        if string is None or field is None:
            return
        closing = closing_at(self._rest, 0)
        if closing is None:
            string.add(self._rest)
        if closing is not None and closing[0] == field.name:
            self._pieces.append(string.raw)
            string.close()
            self._string = None
        else:
            string.flush(at_tag=closing is not None)

    def open_text(self) -> str | None:
        """Return what was emitted of the string that is streaming."""
        return None if self._string is None else self._string.open_text()

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close what the model left open when it stopped; a call that broke is not repaired.

        If an end tag of the call is anywhere but at the end of *text*, the model continued after
        it, and the meaning is not clear. Words before the first field are prose about the tags.
        """
        walker = self._walker
        is_open = self._is_unended or (ended and not self._broken)
        if not is_open or walker is None or not walker.begun:
            return []
        if not text.lstrip().startswith("<"):
            return []
        inside, has_end = self._without_end(without_turn_end(text))
        rest = self._rest or text[len(self._inside) :]
        names = walker.list_open(without_turn_end(rest))
        if not names or markers(f"</{self._name}>", f"</ {self._name}>").find(inside) is not None:
            return []
        added = names[:-1] if has_end else names
        repairs = [f"added the missing `</{name}>`" for name in added]
        rest = ""
        if not has_end:
            end = inside.rfind(">") + 1
            if names == [self._name] and inside[end:].strip() and "<" not in inside[end:]:
                inside, rest = inside[:end], text[end:]  # Words after the last argument are text.
            inside = self._before_begun_tag(inside, names[0])
        arguments = self._load_closed(inside, names[:-1], repairs, has_end=has_end)
        if arguments is None:
            return []
        return [RepairedCall(self._name, arguments, repairs, rest=rest)]

    def _load_closed(
        self, inside: str, names: list[str], repairs: list[str], *, has_end: bool
    ) -> dict[str, Any] | None:
        """Read *inside*, whose elements *names* are open; return None where its meaning is unclear.

        An element in which nothing has come may have been cut, and one that holds the tag of
        another argument lacks its end there.
        """
        if names:
            begin = inside.rfind(f"<{names[0]}")
            value = inside[inside.find(">", begin) + 1 :]
            if self._holds_markup(value) and not has_end:
                return None
            if self._holds_markup(value):
                return self._load_split(inside[: len(inside) - len(value)], value, names)
            if not value.strip() or _CUT.search(value):
                return None
            if ends_with_loose_tag(value) or self._holds_half_tag(value, names[0]):
                return None
        skipped: list[str] = []
        try:
            closed = inside + "".join(f"</{name}>" for name in names)
            arguments = self._load(closed, [], skipped, ended=False)
        except (NoCallError, ParseError):
            return None
        lists = (value for value in arguments.values() if isinstance(value, list))
        items = (item for each in lists for item in each if isinstance(item, str))
        if any(map(self._holds_markup, items)):
            return None
        repairs.extend(map(make_skipped_note, skipped))
        return arguments

    def _load_split(self, before: str, value: str, names: list[str]) -> dict[str, Any] | None:
        """Read a call in which a closing tag is missing before the tag of another argument.

        *value* is the text from the open element on. It must be one line up to the other tag, and
        everything after that has to be complete.
        """
        line, begin, rest = value.partition("<")
        tag = opening_at(begin + rest, 0)
        known = self._schema.properties if self._schema is not None else ()
        seen = self._walker.seen if self._walker is not None else set()
        is_other = tag is not None and tag.name in known and tag.name not in (*seen, names[0])
        if len(names) != 1 or not is_other or not is_line(line) or line != line.rstrip():
            return None
        skipped: list[str] = []
        try:
            whole = f"{before}{line}</{names[0]}>{begin}{rest}"
            arguments = self._load(whole, [], skipped, ended=False)
        except (NoCallError, ParseError):
            return None
        is_split = arguments.get(names[0]) == (line.lstrip("\n") if self._trims else line)
        return arguments if is_split and not skipped else None

    def _holds_markup(self, value: str) -> bool:
        """Return whether *value* holds a tag of the call or of one of its arguments."""
        known = (self._name, *(self._schema.properties if self._schema is not None else ()))
        tags = (f"{begin}{name}{end}" for name in known for begin in ("<", "</") for end in "> ")
        return any(tag in value for tag in tags)

    def _holds_half_tag(self, value: str, name: str) -> bool:
        """Return whether *value* holds half of the closing tag of *name*, or of the call."""
        if f"</{name[:_HALF]}" in value:
            return True
        return any(f"{each[-_HALF:]}>" in value for each in (name, self._name))

    def _before_begun_tag(self, inside: str, name: str) -> str:
        """Take the beginning of the closing tag of *name* off the end of *inside*."""
        at = inside.rfind("</")
        if at != -1 and may_become_closing(inside, at, name):
            return inside[:at]
        # A newline that comes before no tag is part of its string.
        return inside + "\n" if self._trims and inside.endswith("\n") else inside

    # --- where the call is broken ---

    def _skip_to_end(self, scanner: Scanner) -> Verdict:
        """Skip to the end tag of a broken call: everything up to it is text."""
        text, tags = scanner.text, markers(f"</{self._name}", f"</ {self._name}")
        while found := tags.find(text, scanner.at):
            scanner.advance_to(found.start())
            window = text[scanner.at : scanner.at + MAX_TAG]
            closing = closing_at(window, 0)
            if closing is not None and closing[0] == self._name:
                scanner.skip(closing[1])
                self.end = ""
                return Verdict.GIVE_UP
            if len(window) < MAX_TAG and may_become_closing(window, 0, self._name):
                return Verdict.MORE
            scanner.advance_to(found.end())
        scanner.advance_to(tags.find_held(text, scanner.at))
        return Verdict.MORE


_VALUE_SIGN: Final = re.compile(r'[{}\[\]"]')
"""What prose between two elements does not have."""

_TOKEN: Final = re.compile(CONTROL_TOKEN)
_TAG_BEGINS: Final = re.compile(r"<(?!!)")  # but no comment and no CDATA section
_HALF: Final = 4
"""How many letters of a name are a sign of its closing tag in a value without one."""

_CUT: Final = re.compile(r"&[#\w]{0,8}\Z|</?\Z|</\w{0,64}+[^\w<>]{0,16}\Z")
"""An entity or a tag that the end of the text has cut, before what may close other brackets."""


def _is_broken_object(value: str, schema: Schema | None) -> bool:
    """Return whether *value* is text where only an object is expected."""
    return schema is not None and schema.types == {"object"} and value.strip() != ""


def _is_words(inside: str, walker: Walker) -> bool:
    """Return whether *inside* is words without an element or a comment."""
    words = "" if walker.seen else inside.lstrip()
    return words != "" and not words.startswith("<!")
