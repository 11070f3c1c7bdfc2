"""Calls of Cohere Command 5: nested ``<cofl:value>`` elements that declare their types.

``<cofl:value name="port" type="raw">`` is text without escapes, ``json`` a JSON value; ``dict`` and
``list`` contain values, with names and without. The flat variant has ``<cofl:tool_param>`` with
text. A closing tag in a text ends it only if a tag of the call follows. The tags are tokens
of the model, so any other tag in a text means that the call is damaged. A list may come in several
values; any other argument that comes twice means that the call is damaged, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import CALL_CUT, BodyReader, StreamingPart, Verdict
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner, markers
from penstock.readers.tagged.damaged_tags import DamagedTags
from penstock.readers.tagged.endings import Action, Ending, EndingJudgement, read_value
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText
from penstock.readers.tagged.tags import MAX_TAG, skip_gap
from penstock.readers.tagged.values import has_one_type, read_typed
from penstock.values import rjson
from penstock.values.control_tokens import TURN_ENDS
from penstock.values.rxml.elements import is_list

# Read with Cohere's own reader, melody 0.15.3. Its flat variants write `tool_param` instead of
# `value`; which one a model uses is set in its configuration and not visible in the text, but the
# tags differ. A raw value has no escapes.
SECTION: Final = "<cofl:tool_calls>"
SECTION_END: Final = "</cofl:tool_calls>"
CALL_END: Final = "</cofl:tool_call>"
VALUE_END: Final = "</cofl:value>"
PARAM_END: Final = "</cofl:tool_param>"

MAX_DEPTH: Final = 64
"""How deep values may nest."""

_TAG: Final = re.compile(
    r'<(?P<end>/?)cofl:(?P<word>tool_calls|tool_call|value|tool_param)(?P<rest>(?:\s+\w+="[^"]*")*)'
    r"\s{0,8}(?P<empty>/?)>"
)
_BEGUN: Final = re.compile(
    r'</?(?:c(?:o(?:f(?:l(?::[a-z_]*(?:\s+(?:\w+(?:="?[^"]*"?)?)?)*/?)?)?)?)?)?'
)
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"]*)"')
_MARKS: Final = markers("<cofl:", "</cofl:", *TURN_ENDS)
_DAMAGED: Final = DamagedTags(
    ("<cofl:value name=", VALUE_END, "<cofl:tool_param name=", PARAM_END, CALL_END, SECTION_END), ()
)
# Melody ends a raw value at the first closing tag. Here the tag is data unless one of these
# follows, so a value may quote the format.
_CALL: Final = "<cofl:tool_call "
_FOLLOWERS: Final = ("<cofl:value", "<cofl:tool_param", VALUE_END, CALL_END, _CALL)


class CoflReader(BodyReader):
    """Reads the calls of one section."""

    def __init__(self) -> None:
        self.end = SECTION_END
        self._calls = 0  # that have ended
        self._writer: ArgumentWriter | None = None  # of the open call
        self._stack: list[tuple[str, Any]] = []  # open containers with their names
        self._key = ""  # of the text that is open
        self._kind = ""  # its declared type
        self._value: OpenValue | None = None  # the text that is open
        self._ending: _CoflEnding | None = None
        self._missing: set[str] = set()  # parameters of the tool that were not given
        self._given: set[str] = set()  # arguments that came
        self._lists: dict[str, list[Any]] = {}  # values of lists, which may come again

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        try:
            verdict = None
            while verdict is None:
                if self._value is not None:
                    verdict = self._read_text(self._value, scanner, calls)
                else:
                    verdict = self._read_tag(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            return Verdict.BROKEN
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: calls that have ended are complete."""
        del calls
        is_open = self._writer is not None or scanner.unread.lstrip().startswith("<cofl:")
        scanner.skip_all()
        if self._calls and not is_open:
            return Verdict.DONE
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._value

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:  # noqa: C901, PLR0912
        """Take the next tag after white space."""
        text, at = scanner.text, skip_gap(scanner.text, scanner.at)
        if at is None:
            return self._leave()
        if at == len(text):
            return Verdict.MORE
        found = _TAG.match(text, at, at + MAX_TAG)
        if found is None:
            if len(text) - at < MAX_TAG and _BEGUN.fullmatch(text, at):
                return Verdict.MORE
            return self._leave()
        word, is_end = found["word"], bool(found["end"])
        attributes = dict(_ATTRIBUTE.findall(found["rest"]))
        if word == "tool_call" and not is_end and self._has_required:
            calls.note("closed the call before the next one")
            self._end_call(calls)
        if self._writer is None:
            if word == "tool_calls" and is_end and self._calls:
                scanner.advance_to(found.end())
                return Verdict.DONE
            name = attributes.get("name", "")
            if word != "tool_call" or is_end or not name:
                return self._leave()
            scanner.advance_to(found.end())
            calls.name = name
            self._writer = calls.open(name, attributes.get("id", ""))
            schema = calls.find_schema(name)
            self._missing = set() if schema is None else set(schema.properties)
            self._given = set()
            if found["empty"]:
                self._end_call(calls)
            return None
        scanner.advance_to(found.end())
        if word == "tool_call" and is_end and not self._stack:
            self._end_call(calls)
        elif word == "value" and is_end and self._stack:
            name, value = self._stack.pop()
            self._put(name, value)
        elif word in ("value", "tool_param") and not is_end:
            self._open_value(word, attributes, is_empty=bool(found["empty"]))
        else:
            raise NoCallError(f"{found[0]} out of place")
        return None

    def _leave(self) -> Verdict:
        if self._writer is not None:
            raise NoCallError("text between the tags of a call")
        if self._calls:
            return Verdict.UNTERMINATED
        raise NoCallError("the section has no call")

    @property
    def _has_required(self) -> bool:
        """Whether a call is open that has an argument, and all that its tool requires."""
        if self._writer is None or self._stack or not self._given:
            return False
        schema = self._writer.schema
        return schema is None or self._given.issuperset(schema.required)

    def _end_call(self, calls: CallSink) -> None:
        for name, values in self._lists.items():
            self._open_writer.put(name, values[0] if len(values) == 1 else _join_lists(values))
        self._lists = {}
        calls.close()
        self._writer = None
        self._calls += 1

    def _open_value(self, word: str, attributes: dict[str, str], *, is_empty: bool) -> None:
        name, kind = attributes.get("name", ""), attributes.get("type", "")
        in_list = bool(self._stack) and isinstance(self._stack[-1][1], list)
        if not name and not in_list:
            raise NoCallError("a value without a name")
        if name and in_list:
            raise NoCallError("an item of a list with a name")
        if kind in ("dict", "list") and word == "value":
            if len(self._stack) == MAX_DEPTH:
                raise NoCallError("values nest too deep")
            self._begin_argument(name)
            self._stack.append((name, {} if kind == "dict" else []))
            if is_empty:
                self._put(*self._stack.pop())
            return
        self._key, self._kind = name, kind
        self._begin_argument(name)
        closing = VALUE_END if word == "value" else PARAM_END
        self._ending = _CoflEnding(closing, None if self._stack else self._missing)
        writer = self._open_writer
        child = writer.child(name)
        value: OpenValue = CollectedText(marks=_MARKS)
        if not self._stack and kind != "json" and child is not None and child.is_string:
            writer.open_text(name)
            value = StreamedText(_MARKS, writer)
        self._value = value
        if is_empty:
            value.close()
            self._take_text(value)

    @property
    def _open_writer(self) -> ArgumentWriter:
        assert self._writer is not None  # noqa: S101 - a call is open
        return self._writer

    def _begin_argument(self, name: str) -> None:
        """Note that the argument *name* comes: only a list may come again."""
        if self._stack:
            return
        if name in self._given and not self._may_repeat(name):
            raise NoCallError(f"the argument {name[:99]!r} came twice")
        self._given.add(name)
        self._missing.discard(name)

    def _may_repeat(self, name: str) -> bool:
        child = self._open_writer.child(name)
        return child is not None and is_list(child) and "string" not in child.types

    def _read_text(self, value: OpenValue, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take text up to its closing tag."""
        assert self._ending is not None  # noqa: S101 - a value is open
        if not read_value(value, self._ending, scanner):
            return Verdict.MORE
        self._take_text(value)
        if self._ending.is_forgotten:
            calls.note("added a closing tag that was missing")
        return None

    def _take_text(self, value: OpenValue) -> None:
        """Write the text of *value*, which has ended."""
        self._value = None
        if _DAMAGED.are_in(value.text):
            raise NoCallError("a damaged tag in a value")
        if isinstance(value, StreamedText):
            return
        found: Any = value.text
        if self._kind == "json":
            try:
                found = rjson.loads(value.text)
            except ParseError as exc:
                raise NoCallError("a JSON value that is not one") from exc
        child = self._open_writer.child(self._key) if not self._stack else None
        if isinstance(found, str) and has_one_type(child):
            found = read_typed(found, child)
        self._put(self._key, found)

    def _put(self, name: str, value: Any) -> None:
        """Write *value*, or add it to the container that is open."""
        if not self._stack:
            if self._may_repeat(name):
                self._lists.setdefault(name, []).append(value)
            else:
                self._open_writer.put(name, value)
            return
        holder = self._stack[-1][1]
        if isinstance(holder, list):
            holder.append(value)
        elif name in holder:
            raise NoCallError(f"the value {name[:99]!r} came twice")
        else:
            holder[name] = value


class _CoflEnding(Ending):
    """The end of a text: *closing*, if a tag of the call follows it.

    *missing* are the arguments that were not given yet; None inside of a container.
    """

    marks = _MARKS

    def __init__(self, closing: str, missing: Collection[str] | None) -> None:
        self._closing = closing
        self._missing = missing

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge the tag at *at*."""
        del final
        if text.startswith(self._closing, at):
            return self._judge_closing(text, at + len(self._closing))
        if text.startswith(TURN_ENDS, at):
            raise NoCallError("a token that ends the turn in a value")
        is_begun = self._closing.startswith(text[at : at + len(PARAM_END)])
        follows = None if is_begun else self._opens_missing(text, at)
        if follows is None:
            return EndingJudgement(Action.MORE)
        # Several lines may be words after the value, and other tags the damaged closing tag.
        line = value.text
        is_whole = line.strip() == line != "" and "\n" not in line
        if not follows or not is_whole or _DAMAGED.are_in(line, is_cut=True):
            raise NoCallError("a tag in a value")
        self.is_forgotten = True
        return EndingJudgement(Action.END, at)

    def _judge_closing(self, text: str, end: int) -> EndingJudgement:
        """Judge the closing tag before *end* by what follows it."""
        begins = skip_gap(text, end) or end
        if text.startswith(_FOLLOWERS, begins):
            return EndingJudgement(Action.END, end)
        if any(each.startswith(text[begins : begins + len(each)]) for each in _FOLLOWERS):
            return EndingJudgement(Action.MORE)
        if self._missing is None or self._missing:
            # It may be a value whose opening tag is missing (law 11).
            raise NoCallError("text after a closing tag")
        return EndingJudgement(Action.DATA)

    def _opens_missing(self, text: str, at: int) -> bool | None:
        """Return whether the tag at *at* opens an argument that is missing; None if it is cut."""
        found = _TAG.match(text, at, at + MAX_TAG)
        if self._missing is None:
            return False
        if found is None:
            is_cut = len(text) - at < MAX_TAG and _BEGUN.fullmatch(text, at) is not None
            return None if is_cut else False
        if found["end"] or found["word"] not in ("value", "tool_param"):
            return False
        return dict(_ATTRIBUTE.findall(found["rest"])).get("name", "") in self._missing


def _join_lists(values: list[Any]) -> list[Any]:
    """Return one list of the items of a list that came several times; a scalar is an item."""
    joined: list[Any] = []
    for value in values:
        joined += value if isinstance(value, list) else [value]
    return joined
