"""Calls of Cohere Command 5: nested ``<cofl:value>`` elements that declare their types.

``<cofl:value name="port" type="raw">`` is text without escapes, ``json`` a JSON value; ``dict`` and
``list`` contain values, with names and without. The flat variant has ``<cofl:tool_param>`` with
text. A closing tag in a text ends it only if a tag of the call follows. The tags are tokens
of the model, so any other tag in a text means that the call is damaged. A list may come in several
values; any other argument that comes twice means that the call is damaged, too.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import CALL_CUT, BodyReader, OpenString, Verdict
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner, markers
from penstock.readers.tagged.damaged_tags import DamagedTags
from penstock.readers.tagged.strings import make_open_string
from penstock.readers.tagged.values import has_one_type, read_typed
from penstock.values import rjson
from penstock.values.control_tokens import TURN_ENDS
from penstock.values.json_grammar import string_gate
from penstock.values.rxml.elements import is_list

# Read with Cohere's own reader, melody 0.15.3. Its flat variants write `tool_param` instead of
# `value`; which one a model uses is set in its configuration and not visible in the text, but the
# tags differ. A raw value has no escapes.
SECTION: Final = "<cofl:tool_calls>"
SECTION_END: Final = "</cofl:tool_calls>"
CALL_END: Final = "</cofl:tool_call>"
VALUE_END: Final = "</cofl:value>"
PARAM_END: Final = "</cofl:tool_param>"

MAX_TAG: Final = 1024
"""How many characters a tag may have."""

MAX_GAP: Final = 256
"""How much white space may be between two tags."""

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
_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP + 1}}}")
_MARKS: Final = markers("<cofl:", "</cofl:", *TURN_ENDS)
_GATE: Final = string_gate(_MARKS.firsts)
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
        self.error: str | ParseError = ""
        self.end = SECTION_END
        self._calls = 0  # that have ended
        self._writer: ArgumentWriter | None = None  # of the open call
        self._stack: list[tuple[str, Any]] = []  # open containers with their names
        self._key = ""  # of the text that is open
        self._kind = ""  # its declared type, empty if no text is open
        self._text_end = ""
        self._pieces: list[str] = []
        self._streams = False
        self._missing: set[str] = set()  # parameters of the tool that were not given
        self._given: set[str] = set()  # arguments that came
        self._lists: dict[str, list[Any]] = {}  # values of lists, which may come again

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        try:
            verdict = None
            while verdict is None:
                step = self._read_text if self._kind else self._read_tag
                verdict = step(scanner, calls)
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

    def open_text(self) -> str | None:
        """Return what was emitted of the text that is streaming."""
        return "".join(self._pieces) if self._streams else None

    def open_string(self) -> OpenString | None:
        """Return the text that is streaming, if there is one."""
        return make_open_string(_GATE, self._pieces, _MARKS) if self._streams else None

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:  # noqa: C901
        """Take the next tag after white space."""
        gap = _GAP.match(scanner.text, scanner.at)
        at = gap.end() if gap else scanner.at
        text = scanner.text
        if at == len(text):
            return Verdict.MORE if at - scanner.at <= MAX_GAP else self._leave()
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
        self._key, self._kind, self._pieces = name, kind or "raw", []
        self._begin_argument(name)
        self._text_end = VALUE_END if word == "value" else PARAM_END
        writer = self._open_writer
        child = writer.child(name)
        is_string = child is not None and child.is_string
        self._streams = not self._stack and kind != "json" and is_string
        if self._streams:
            writer.open_text(name)
        if is_empty:
            self._close_text()

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

    def _read_text(self, scanner: Scanner, calls: CallSink) -> Verdict | None:  # noqa: C901
        """Take text up to its closing tag."""
        text, at = scanner.text, scanner.at
        found = text.find("<", at)
        while found != -1:
            rest = text[found : found + len(PARAM_END)]
            if rest.startswith(self._text_end):
                after = _GAP.match(text, found + len(self._text_end))
                begins = after.end() if after else found
                if begins == len(text) or (
                    any(each.startswith(text[begins : begins + len(each)]) for each in _FOLLOWERS)
                    and not text.startswith(_FOLLOWERS, begins)
                ):
                    break
                if text.startswith(_FOLLOWERS, begins):
                    self._add(scanner.take_to(found))
                    scanner.skip(len(self._text_end))
                    self._close_text()
                    return None
                if self._stack or self._missing - {self._key}:
                    # It may be a value whose opening tag is missing (law 11).
                    raise self._break(scanner, found, "text after a closing tag")
            elif self._text_end.startswith(rest):
                break
            elif rest.startswith(("<cofl:", "</cofl:")):
                follows = self._find_next_argument(text, found)
                if follows is None:
                    break
                if not follows or not self._may_end("".join((*self._pieces, text[at:found]))):
                    raise self._break(scanner, found, "a tag in a value")
                self._add(scanner.take_to(found))
                self._close_text()
                calls.note("added a closing tag that was missing")
                return None
            elif "<cofl:".startswith(rest) or "</cofl:".startswith(rest):
                break
            elif text.startswith(TURN_ENDS, found):
                raise self._break(scanner, found, "a token that ends the turn in a value")
            elif any(token.startswith(rest) for token in TURN_ENDS) and found + 24 > len(text):
                break
            found = text.find("<", found + 1)
        end = len(text) if found == -1 else found
        self._add(scanner.take_to(end))
        return Verdict.MORE

    def _find_next_argument(self, text: str, at: int) -> bool | None:
        """Return whether the tag at *at* opens an argument that is missing; None if it is cut."""
        found = _TAG.match(text, at, at + MAX_TAG)
        if found is None:
            is_cut = len(text) - at < MAX_TAG and _BEGUN.fullmatch(text, at) is not None
            return None if is_cut and not self._stack else False
        if self._stack or found["end"] or found["word"] not in ("value", "tool_param"):
            return False
        return dict(_ATTRIBUTE.findall(found["rest"])).get("name", "") in self._missing

    def _may_end(self, value: str) -> bool:
        """Return whether *value* is whole although its closing tag is missing.

        Several lines may be words after the value, and other tags the damaged closing tag.
        """
        is_line = value.strip() == value != "" and "\n" not in value
        return is_line and not _DAMAGED.are_in(value, is_cut=True)

    def _break(self, scanner: Scanner, at: int, why: str) -> NoCallError:
        """Take the text before *at*, as any cut would have, and return the error."""
        self._add(scanner.take_to(at))
        return NoCallError(why)

    def _add(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)
            if self._streams and self._writer is not None:
                self._writer.add_text(piece)

    def _close_text(self) -> None:
        text, kind, writer = "".join(self._pieces), self._kind, self._open_writer
        if _DAMAGED.are_in(text):
            raise NoCallError("a damaged tag in a value")
        self._kind = ""
        if self._streams:
            self._streams = False
            writer.close_text(text)
            return
        value: Any = text
        if kind == "json":
            try:
                value = rjson.loads(text)
            except ParseError as exc:
                raise NoCallError("a JSON value that is not one") from exc
        child = writer.child(self._key) if not self._stack else None
        if isinstance(value, str) and has_one_type(child):
            value = read_typed(value, child)
        self._put(self._key, value)

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


def _join_lists(values: list[Any]) -> list[Any]:
    """Return one list of the items of a list that came several times; a scalar is an item."""
    joined: list[Any] = []
    for value in values:
        joined += value if isinstance(value, list) else [value]
    return joined
