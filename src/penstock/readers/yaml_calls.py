"""Calls as elements whose body is a YAML mapping (the AI SDK middleware's ``yamlXml``).

The tag is the tool's name, as in morph_xml; a body that begins with ``<`` is read as morph_xml. The
fields of the mapping are read line by line. Two values that the schema makes strings stream: a
literal block, and the first line of a plain scalar up to a comment, to white space or to half a
token at its end. Any other value is written when the next field begins or the call ends, because a
plain scalar may continue on the next line.

Models also write unquoted text over several lines, Python with docstrings for example. A line at
the indentation of the keys that is not the key of a property then belongs to the text before it.
A single such line may also be a sentence between two fields, so the call is not complete.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import (
    MAX_BLANK,
    BodyReader,
    ChoosingReader,
    OpenString,
    Verdict,
    without_begun,
)
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall, read_call
from penstock.parsing.scanner import Markers, Scanner, markers, skip_match
from penstock.readers.elements import ElementCallReader, ElementCalls, EmptyCallReader
from penstock.readers.plausible import is_misspelled
from penstock.readers.tagged.strings import find_blank, make_open_string
from penstock.readers.yaml_drift import read_child_lines
from penstock.values import yaml
from penstock.values.control_tokens import (
    LAST_TURN_END,
    TURN_ENDS,
    has_control_token,
    without_turn_end,
)
from penstock.values.json_grammar import string_gate
from penstock.values.schema import Schema

_FORBIDDEN: Final = frozenset({"__proto__", "constructor", "prototype"})
"""Keys that the middleware refuses; JavaScript clients would be harmed by them."""

_LEAD: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[\w.-]+")
_OTHER_FIELD: Final = re.compile(r"[A-Za-z_][\w-]*:[ \t]+(?![^#\n]*\s=\s)\S")
"""A field that the schema does not have; with an equals sign it is rather a line of code."""
_CODE_LINE: Final = re.compile(r"""(?:[:(\[{,\\]|\"{3}|'{3})\s*(?:\#.*)?\Z|:\s""")
"""The first line of a text of two lines: it ends with an opening sign, or is a field itself. After
any other value, a line may be a sentence."""
_INLINE_KEY: Final = re.compile(r"[,;]\s*(?P<key>[\w.-]+):\s")
_INNER_KEY: Final = re.compile(r":(?:\s|\Z)")
_UNCERTAIN: Final = re.compile(r"\s+\Z|\s\#")
"""What may not be part of a plain scalar: white space at its end, and a comment."""


_LINE_GATE: Final = re.compile(r"[\n<]")
_PLAIN_GATE: Final = string_gate("<#", r"\s")
"""What ends a piece of a plain scalar, or is not certain to be part of it."""

_DAMAGE: Final = re.compile(r"[\"'\[\]{}]")
"""Signs of a collection, which a plain scalar that is not a string lost the rest of."""

_QUOTED: Final = re.compile(r"""\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"|'[^']*+'""", re.DOTALL)
_CURLY: Final = frozenset("\u201c\u201d\u201e\u2018\u2019\u201a")
_CURLY_ITEM: Final = re.compile("[\\[{,:]\\s*+[\u201c\u201d\u201e\u00ab]")
_BROKEN_HEADER: Final = re.compile(r"[|>+-]{1,3}\d?\s*\Z")
"""What is left of the header of a block that lost a character: ``-`` of ``|-``."""

_NAMED_LINE: Final = re.compile(r"([\w.-]+)[ ]*:")
"""A line that begins like a field, also if there is no space after the colon."""

MAX_KEY: Final = 512
"""How long the beginning of a line may be that is searched for a key before the line has ended."""

_FIRST: Final = re.compile(
    r"""\s*(?:\#.*|(?:[A-Za-z_][\w.-]{0,127}|"[^"\n]{0,128}"?|'[^'\n]{0,128}'?)?[ ]*(?::.*)?)"""
)
"""The first line of a mapping, or the beginning of it."""


class YAMLCalls(ElementCalls, frozen=True):
    """Calls as elements named after the tools, with a YAML mapping or elements inside."""

    def body(self, marker: str) -> BodyReader:  # type: ignore[override]
        """Return a new reader for the text after *marker*."""
        name = marker.strip("</ >")
        if marker.endswith("/>"):
            return ClosedRootReader(name)
        return YAMLCallReader(name)


class YAMLField:
    """A field of the mapping whose lines are being read."""

    def __init__(self, key: str, rest: str, indent: int, schema: Schema | None) -> None:
        self.key = key
        self.is_string = schema is not None and schema.is_string
        self._is_text = schema is None or "string" in schema.types
        self.header = yaml.BlockHeader.parse(rest, indent)
        self.indent = self.header.indent if self.header is not None else 0
        self.lines: list[str] = [] if self.header is not None else [rest]
        self.is_raw = False  # unquoted text with lines that look like keys
        self.streamed: list[str] | None = None  # the pieces that went out
        self._least = indent
        self._blanks = 0
        self.held = ""  # the end of the first line, which is not certain to be text
        self._open = yaml.BracketState(rest if self.header is None else "")

    @property
    def is_open(self) -> bool:
        """Whether a quoted string or a flow collection is not closed yet."""
        return self._open.is_open

    @property
    def is_plain(self) -> bool:
        """Whether the value is a plain scalar that begins on the line of its key."""
        begins = self.lines[0].strip() if self.header is None else ""
        return bool(begins) and begins[0] not in "\"'[{#"

    def takes(self, line: str) -> bool:
        """Return whether *line* continues the value, and take it."""
        indent = yaml.get_indent(line)
        if self.header is not None:
            if line.strip():
                if not self.indent and indent > self._least:
                    self.indent = indent
                if not self.indent or indent < self.indent:
                    return False
            self.lines.append(line[self.indent :] if self.indent else "")
            return True
        is_item = line[self._least :].startswith("- ") and not self.lines[0].strip()
        if self.is_open or not line.strip() or indent > self._least or is_item:
            self._open.add("\n" + line)
            self.lines.append(line)
            return True
        return False

    def begin_block(self, writer: ArgumentWriter) -> None:
        """Open the string of a literal block, before its first line."""
        if self.header is not None and not self.header.is_folded and self.is_string:
            self.streamed = []
            writer.open_text(self.key)

    def stream(self, writer: ArgumentWriter) -> None:
        """Write what is certain of a literal block: its lines without the newlines at the end."""
        if self.streamed is None or self.header is None or not self.indent:
            return
        while self.lines:
            line = self.lines.pop(0)
            if not line:
                self._blanks += 1
                continue
            piece = "\n" * (self._blanks + bool(self.streamed)) + line
            self._blanks = 0
            self.streamed.append(piece)
            writer.add_text(piece)

    def take_plain(self, piece: str, after: str, tokens: Markers) -> tuple[str, int]:
        """Take *piece* of the first line of a plain scalar; *after* is known of what follows it.

        Return the text that is certain now, and how many characters of *piece* it includes. What
        may be one of *tokens* is not certain.
        """
        text = self.held + piece
        token, found = tokens.find(text + after, 0), _UNCERTAIN.search(text)
        end = token.start() if token else tokens.find_held(text + after, 0)
        end = min(end, found.start() if found else len(text))
        size = max(0, end - len(self.held))
        self.held = text[end:]
        return text[:end], size

    def close(self, writer: ArgumentWriter) -> None:
        """Write the value, and the fields that were taken for lines of its text."""
        others = self._split() if self.is_raw else {}
        self._close(writer)
        for key, value in others.items():
            writer.put(key, value)

    def _split(self) -> dict[str, Any]:
        """Take the fields out of unquoted text that is a valid mapping, with keys of no property.

        Unquoted text of several lines is not valid YAML; only then are all of its lines text.
        """
        starts = [
            at
            for at, line in enumerate(self.lines)
            if at and line.strip() and yaml.get_indent(line) == self._least
        ]
        is_mapping = all(_OTHER_FIELD.match(self.lines[at], self._least) for at in starts)
        if not is_mapping or _INNER_KEY.search(self.lines[0]):
            return {}
        try:
            others = yaml.loads("\n".join(self.lines[starts[0] :]))
        except ParseError:
            return {}
        if not isinstance(others, dict) or not _FORBIDDEN.isdisjoint(others):
            raise NoCallError(f"other fields in the value of {self.key!r}")
        del self.lines[starts[0] :]
        self.is_raw = False
        return others

    def _close(self, writer: ArgumentWriter) -> None:
        if self.streamed is not None and self.header is None:
            value, sent = self._read(), "".join(self.streamed)
            if not value.startswith(sent):
                raise NoCallError(f"the value of {self.key!r} is not what its first line was")
            writer.add_text(value[len(sent) :])
            writer.close_text(value)
        elif self.streamed is not None:
            assert self.header is not None  # noqa: S101 - checked above
            tail = {"-": "", "": "\n", "+": "\n" * (self._blanks + 1)}[self.header.chomp]
            if not self.streamed:  # A block without text has no last line to end.
                tail = self.header.join([*self.lines, *[""] * self._blanks])
            writer.add_text(tail)
            writer.close_text("".join([*self.streamed, tail]))
        else:
            writer.put(self.key, self._read())

    def _read(self) -> Any:
        if self.header is not None:
            return self.header.join(self.lines)
        if any(token in line for line in self.lines for token in TURN_ENDS):
            raise NoCallError(f"a token that ends the turn in the value of {self.key!r}")
        self._check_plain()
        if self.is_raw:
            _, *others = filter(str.strip, self.lines)
            if len(others) == 1 and not _CODE_LINE.search(self.lines[0]):
                raise NoCallError(f"a line after the value of {self.key!r} that is not a field")
            return "\n".join(self.lines).strip()
        if self.is_string and self.is_plain:
            text = "\n".join(self.lines).rstrip()
            # A colon at the end of its first line is not YAML: it is code, whose lines matter.
            is_code = "\n" in text and _INNER_KEY.search(self.lines[0])
            return text.lstrip() if is_code else yaml.read_plain(text)
        if self.is_plain and not self._is_text and _DAMAGE.search("\n".join(self.lines)):
            raise NoCallError(f"the value of {self.key!r} lost a bracket or a quote")
        if self.is_plain or self.lines[0].strip()[:1] in ("'", '"', "[", "{"):
            text = "\n".join(self.lines)
            bare = _QUOTED.sub("", text)
            if has_control_token(bare) or LAST_TURN_END in bare:
                raise NoCallError(f"a token that ends the turn in the value of {self.key!r}")
            if not self.is_plain and _CURLY_ITEM.search(bare):
                raise NoCallError(f"curly quotes around an item of {self.key!r}")
            return yaml.read_scalar(text)
        return yaml.loads("\n".join(self.lines[1:]))

    def _check_plain(self) -> None:
        """Raise `NoCallError` if a plain scalar is a block or a quoted string that is damaged."""
        if not self.is_plain:
            return
        others = any(map(str.strip, self.lines[1:]))
        first = self.lines[0].lstrip()
        # No plain scalar of YAML begins with the sign of a block.
        if others and (_BROKEN_HEADER.match(first) or first.startswith(("|", ">"))):
            raise NoCallError(f"the block of {self.key!r} has a damaged header")
        last = self.lines[-1].rstrip()
        is_curly = first[:1] in _CURLY and last[-1:] in _CURLY
        if is_curly or (first.startswith('\\"') and last.endswith('"')):
            raise NoCallError(f"the string of {self.key!r} has other quotes than those of YAML")
        if last.endswith('"') and sum(line.count('"') for line in self.lines) % 2:
            raise NoCallError(f"the string of {self.key!r} lost its first quote")


# The format of the AI SDK middleware `yamlXml`. It repairs some drift in the same way: XML children
# instead of YAML (Nova 2 Lite), and unquoted text of several lines (Mistral Small).
class YAMLCallReader(BodyReader):
    """Reads the body of the element *name*, up to its end tag."""

    is_repairable = True

    def __init__(self, name: str) -> None:
        self.end = f"</{name}>"
        self._name = name
        self._elements: ElementCallReader | None = None  # reads a body that is not YAML
        self._schema: Schema | None = None
        self._writer: ArgumentWriter | None = None
        self._base = -1  # the indentation of the keys
        self._pieces: list[str] = []  # of the line that has not ended
        self._size = 0  # how many characters they had before the last one
        self._field: YAMLField | None = None
        self._ended: str | None = None  # the line before an end tag that may be data
        self._key_end = -1  # where in its line the value begins that streams before the line ends
        self._waits = False  # nothing of the open line is written before it has ended
        self._tokens = markers(self.end, *TURN_ENDS)
        self._marks = markers("\n", "#", self.end, *TURN_ENDS)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._elements is not None:
            return self._read_elements(self._elements, scanner, calls)
        if self._base == -1 and not self._pieces:
            calls.name = self._name
            self._schema = calls.schemas.get(self._name)
            begins = skip_match(_LEAD, scanner.text, scanner.at)
            if begins == len(scanner.text):
                return Verdict.MORE
            end = scanner.text[begins : begins + len(self.end)]
            if scanner.text[begins] == "<" and end != self.end:
                if self.end.startswith(end):
                    return Verdict.MORE
                self._elements = ElementCallReader(self._name)
                return self._read_elements(self._elements, scanner, calls)
        try:
            return self._read_lines(scanner, calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.BROKEN if self._writer is not None else Verdict.NOT_A_CALL

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a call without its end tag was cut."""
        if self._elements is not None:
            verdict = self._elements.finish(scanner, calls)
            return self._relay(self._elements, verdict, with_end=True)
        if self._ended is not None:
            try:
                return self._end_call(self._ended, calls)
            except (NoCallError, ParseError) as exc:
                self.error = exc if isinstance(exc, ParseError) else str(exc)
                return Verdict.GIVE_UP
        scanner.skip_all()
        if self._writer is None and yaml.KEY.match("".join(self._pieces).lstrip()) is None:
            return Verdict.NOT_A_CALL
        self.error = f"a call of `{self._name}` was cut"
        return Verdict.GIVE_UP

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, or the line that is kept until its end."""
        if self._elements is not None:
            return self._elements.open_string()
        if self._ended is not None:
            return None
        if self._waits:
            return OpenString(_LINE_GATE, self._pieces, waits=True)
        field = self._field
        if self._key_end == -1 or field is None or field.held or field.streamed is None:
            return None
        return make_open_string(_PLAIN_GATE, field.streamed, self._marks, find_blank)

    def open_text(self) -> str | None:
        """Return what was emitted of the block that is streaming."""
        if self._elements is not None:
            return self._elements.open_text()
        if self._field is None or self._field.streamed is None:
            return None
        return "".join(self._field.streamed)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close a call whose end tag is missing at the end of the response."""
        if self._elements is not None:
            calls = self._elements.repair(text, ended=ended)
            lines = without_turn_end(text).rstrip().removesuffix(f"</{self._name}>")
            children = None if calls else read_child_lines(lines, self._schema)
            if children is not None:
                return [RepairedCall(self._name, children, ["read one element a line"])]
            return calls
        text = without_begun(without_turn_end(text), self.end)
        try:
            value = yaml.loads(text) if ended else None
        except ParseError:
            return []
        if not isinstance(value, dict) or not _FORBIDDEN.isdisjoint(value) or _is_begun(text):
            return []
        schemas = {} if self._schema is None else {self._name: self._schema}
        whole = f"{text.rstrip(' ')}\n{self.end}"
        if read_call(YAMLCallReader(self._name), whole, schemas) is None:
            return []
        return [RepairedCall(self._name, value, ["closed the call"])]

    def _read_elements(
        self, elements: ElementCallReader, scanner: Scanner, calls: CallSink
    ) -> Verdict:
        return self._relay(elements, elements.read(scanner, calls), with_end=True)

    def _read_lines(self, scanner: Scanner, calls: CallSink) -> Verdict:
        while True:
            if self._ended is not None:
                verdict = self._judge_end(scanner, calls)
                if verdict is not None:
                    return verdict
            text, at = scanner.text, scanner.at
            newline, tag = text.find("\n", at), text.find(self.end, at)
            if tag != -1 and (newline == -1 or tag < newline):
                line = self._take_piece(scanner, tag, calls)
                scanner.skip(len(self.end))
                self._pieces = []
                if self._is_data(line):
                    self._pieces = [line, self.end]
                else:
                    self._ended = line
            elif newline != -1:
                line = self._take_piece(scanner, newline, calls)
                scanner.skip(1)
                self._pieces = []
                self._take_line(line.rstrip("\r"), calls)
            else:
                end = markers(self.end).find_held(text, at)
                self._take_piece(scanner, end, calls, is_line=False)
                return Verdict.MORE

    def _take_piece(
        self, scanner: Scanner, end: int, calls: CallSink, *, is_line: bool = True
    ) -> str:
        """Take the text up to *end*, a piece of a line; return all of the line if *is_line*."""
        piece = scanner.text[scanner.at : end]
        if self._key_end == -1:
            self._pieces.append(piece)
        is_begun = self._base == -1 and not is_line
        if is_begun and _FIRST.fullmatch("".join(self._pieces)) is None:
            scanner.advance_to(end)
            raise NoCallError(f"not a YAML mapping in a call of `{self._name}`")
        if piece or self._key_end != -1:
            self._stream_line(end, scanner, calls)
        scanner.advance_to(end)
        self._size = 0 if is_line else self._size + len(piece)
        if not is_line:
            return ""
        self._waits = False
        field, line = self._field, "".join(self._pieces)
        if self._key_end == -1 or field is None:
            return line
        return line[: self._key_end] + "".join(field.streamed or ()) + field.held

    def _stream_line(self, end: int, scanner: Scanner, calls: CallSink) -> None:
        """Write what is certain of a line's next text, up to *end*, if it is a plain string."""
        field = self._field
        rest = piece = scanner.text[scanner.at : end]
        if self._key_end == -1:
            if (field is not None and field.is_open) or self._size > MAX_KEY:
                self._waits = True
                return
            line = "".join(self._pieces)
            indent = yaml.get_indent(line)
            key = yaml.KEY.match(line, indent)
            if key is None or key.end() == len(line) or key.end() >= MAX_KEY:
                return
            name = yaml.read_key(key["key"])
            schema = None if self._schema is None else self._schema.property(name)
            is_new = self._base in (-1, indent) and name not in _FORBIDDEN and self._may_begin(name)
            is_string = schema is not None and schema.is_string
            rest, first = line[key.end() :], line[key.end()]
            if is_new and self._field is not None:
                # The key belongs to what ends the field before, the value to what follows.
                scanner.skip(max(0, len(piece) - len(rest)))
                self._close_field(self._begin(calls))
                piece = scanner.text[scanner.at : end]
            if not is_new or not is_string or first in "|>\"'[{#" or first.isspace():
                self._waits = self._base != -1
                return
            self._base = indent
            self._key_end = key.end()
            scanner.skip(len(piece) - len(rest))
            self._begin_field(name, rest, calls)
            field = self._field
            self._begin(calls).open_text(name)
        assert field is not None  # noqa: S101 - its value streams
        after = scanner.text[end : end + len(self.end)]
        text, size = field.take_plain(rest, after, self._tokens)
        field.streamed = field.streamed or []
        if text:
            scanner.skip(size)
            field.streamed.append(text)
            self._begin(calls).add_text(text)

    def _is_data(self, line: str) -> bool:
        """Return whether an end tag after *line* is in a quoted string."""
        field = self._field
        if field is not None and field.is_open:
            return field.lines[0].lstrip()[:1] in ("'", '"')
        key = yaml.KEY.match(line.lstrip())
        rest = line.lstrip()[key.end() :] if key else ""
        return rest[:1] in ("'", '"') and yaml.BracketState(rest).is_open

    def _judge_end(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Decide whether an end tag ends the call; None means that it is data.

        In a block scalar it is data if the block continues after it.
        """
        assert self._ended is not None  # noqa: S101 - the caller has checked it
        line = self._ended
        field, indent = self._field, yaml.get_indent(line)
        least = -1
        if field is not None and field.header is not None:
            is_first = bool(line.strip()) and indent > self._base
            least = field.indent or (indent if is_first else -1)
        if least != -1 and indent >= least:
            found = _LEAD.match(scanner.text, scanner.at)
            blank = found[0] if found else ""
            if "\n" in blank or blank == scanner.unread:
                if len(blank) <= MAX_BLANK and blank == scanner.unread:
                    return Verdict.MORE
                last = blank.rpartition("\n")[2]
                is_data = "\n" in blank and len(last) >= least
            else:
                is_data = True  # text follows on the same line
            if is_data:
                self._ended = None
                self._pieces = [line, self.end]
                return None
        return self._end_call(line, calls)

    def _end_call(self, line: str, calls: CallSink) -> Verdict:
        """End the call after *line*, which the end tag follows."""
        self._ended = None
        if line.strip():
            self._take_line(line, calls)
        self._close_field(self._begin(calls))
        calls.close()
        return Verdict.DONE

    def _take_line(self, line: str, calls: CallSink) -> None:
        """Take one line of the body."""
        field = self._field
        if self._key_end != -1:
            assert field is not None  # noqa: S101 - its value streams
            field.lines = [line[self._key_end :]]
            self._key_end = -1
            return
        if self._base == -1:
            if not line.strip():
                return
            self._base = yaml.get_indent(line)
        elif field is not None and field.takes(line):
            if self._writer is not None:
                field.stream(self._writer)
            return
        indent, content = yaml.get_indent(line), line.lstrip(" ")
        if not content.strip() or content.startswith("#"):
            return
        key = yaml.KEY.match(content) if indent == self._base else None
        name = yaml.read_key(key["key"]) if key is not None else ""
        if field is not None and not self._may_begin(name):
            if self._is_damaged(content):
                raise NoCallError(f"a damaged key in a call of `{self._name}`")
            field.is_raw = True
            field.lines.append(line)
            return
        if key is None or name in _FORBIDDEN:
            raise NoCallError(f"not a YAML mapping in a call of `{self._name}`")
        self._begin_field(name, content[key.end() :], calls)

    def _begin_field(self, name: str, rest: str, calls: CallSink) -> None:
        """Begin the field *name*, whose line has *rest* after the key, or the beginning of it."""
        writer = self._begin(calls)
        self._close_field(writer)
        schema = self._schema.property(name) if self._schema is not None else None
        self._field = YAMLField(name, rest, self._base, schema)
        self._field.begin_block(writer)

    def _may_begin(self, name: str) -> bool:
        """Return whether a key *name* begins a field, and is not a line of unquoted text."""
        field, schema = self._field, self._schema
        if field is None or not field.is_plain or not (field.is_string or schema is None):
            return True
        properties = schema.properties if schema is not None else {}
        return bool(name) and (name in properties or not properties)

    def _is_damaged(self, line: str) -> bool:
        """Return whether *line*, which is not a field, was meant to be one."""
        word, named = _WORD.match(line), _NAMED_LINE.match(line)
        if self._schema is None or word is None:
            return False
        is_known = word[0] in self._schema.properties
        return is_known or (named is not None and is_misspelled(named[1], self._schema))

    def _begin(self, calls: CallSink) -> ArgumentWriter:
        if self._writer is None:
            self._writer = calls.open(self._name)
        return self._writer

    def _close_field(self, writer: ArgumentWriter) -> None:
        if self._field is not None:
            self._check_line(self._field)
            self._field.close(writer)  # If it raises, `open_text` is still needed.
            self._field = None

    def _check_line(self, field: YAMLField) -> None:
        """Raise `NoCallError` if a plain scalar holds another field of the tool on its line."""
        if self._schema is None or not field.is_plain:
            return
        for found in _INLINE_KEY.finditer(field.lines[0]):
            if found["key"] in self._schema.properties:
                raise NoCallError(f"two fields on one line: {field.key!r} and {found['key']!r}")


_FIELD_BELOW: Final = re.compile(r"[ \t]{0,64}\n([A-Za-z_][\w.-]{0,127}):(?=\s)")
_FIELD_BEGUN: Final = re.compile(r"[ \t]{0,64}(?:\n((?:[A-Za-z_][\w.-]{0,127}:?)?))?")


# The AI SDK middleware repairs such a tag in the same way.
class ClosedRootReader(ChoosingReader):
    """Reads what follows ``<NAME/>``: nothing, or the fields that the model writes after all."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._default = EmptyCallReader(name)
        self._keys: Collection[str] = ()

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose the reader, then continue with it."""
        schema = calls.schemas.get(self._name)
        self._keys = schema.properties if schema is not None else ()
        return super().read(scanner, calls)

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        """Return the reader, as soon as it is known whether a field follows."""
        found = _FIELD_BELOW.match(scanner.text, scanner.at)
        if found is not None and found[1] in self._keys:
            return YAMLCallReader(self._name)
        begun = _FIELD_BEGUN.fullmatch(scanner.text, scanner.at)
        key = (begun[1] or "").rstrip(":") if begun is not None else "\n"
        return None if any(one.startswith(key) for one in self._keys) else self._default


def _is_begun(text: str) -> bool:
    """Return whether *text* ends with a key, and nothing of its value is there."""
    last = text.rstrip().rpartition("\n")[2].lstrip()
    key = yaml.KEY.match(last)
    rest = last[key.end() :] if key is not None else "x"
    return not rest or yaml.BlockHeader.parse(rest, 0) is not None
