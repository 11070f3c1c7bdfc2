r"""The subset of YAML that models write as arguments, read by the core schema of YAML 1.2.

Supported: block mappings and sequences, plain and quoted scalars over one line or several, literal
and folded blocks with their indicators, flow collections, comments. Not supported: anchors, tags,
several documents, explicit keys. ``no``, ``off`` and ``1_000`` are strings, as the core schema has
it; ``.inf`` and ``.nan`` are strings too, because JSON has no such numbers.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from penstock.errors import ParseError

MAX_DEPTH: Final = 64
"""How deep collections may nest."""

KEY: Final = re.compile(
    r"""(?P<key>[A-Za-z_][\w.-]{0,127}|"(?:[^"\\\n]|\\.){0,128}"|'[^'\n]{0,128}')"""
    r"[ ]*:(?:[ \t]+|$)"
)
"""A key of a block mapping, up to its value."""

BLOCK: Final = re.compile(r"(?P<style>[|>])(?P<marks>[-+1-9]{0,2})[ \t]*(?:#.*)?$")
"""The header of a block scalar."""

# The core schema of YAML 1.2. That of 1.1, which PyYAML reads, also takes `no`, `off` and `y` for
# booleans, `1_000` and `0777` for numbers and `2026-08-08` for a date: all of them are text in what
# models write.
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_BOOLEAN: Final = {"true": True, "True": True, "TRUE": True,
                   "false": False, "False": False, "FALSE": False}  # fmt: skip
# Python converts at most 4,300 digits (`sys.set_int_max_str_digits`).
_INTEGER: Final = re.compile(r"[-+]?\d{1,4300}")
_BASED: Final = re.compile(r"0(?:o[0-7]{1,99}|x[0-9a-fA-F]{1,99})")
_FLOAT: Final = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*$")
_ESCAPES: Final = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v",
                   "f": "\f", "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\",
                   "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|(.))"
)
_FLOW_PLAIN: Final = re.compile(r"[^,\[\]{}\n]*?(?=[ \t]*(?:[,\[\]{}\n]|:[ \t,\[\]{}\n]|:$|$))")
_FOLD: Final = re.compile(r"[ \t]*\n[ \t]*")


def loads(text: str) -> Any:
    """Return the value of a block of YAML; raise `ParseError` for text outside of the subset."""
    reader = _Blocks(text)
    value = reader.value(0, 0)
    if reader.peek() is not None:
        raise reader.error("text after the value")
    return value


def resolve(plain: str) -> Any:
    """Return the value of a plain scalar by the core schema."""
    if _NULL.fullmatch(plain):
        return None
    if plain in _BOOLEAN:
        return _BOOLEAN[plain]
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if _BASED.fullmatch(plain):
        return int(plain[2:], 8 if plain[1] == "o" else 16)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if number - number == 0 else plain  # too large for a float
    return plain


def read_key(written: str) -> str:
    """Return the key that *written*, plain or quoted, is."""
    return _unquote(written) if written[0] in "\"'" else written


class BracketState:
    """Follows a quoted string or a flow collection over its lines, until it is closed."""

    def __init__(self, text: str) -> None:
        self._quote = ""
        self._depth = 0
        self._previous = "" if text[:1] in ("'", '"', "[", "{") else "x"
        self.is_open = False
        if self._previous == "":
            self.add(text)

    def add(self, text: str) -> None:
        """Follow more text of the value."""
        previous, quote, depth = self._previous, self._quote, self._depth
        for char in text:
            if previous == "\\" and quote == '"':
                previous = ""  # an escaped character
                continue
            if quote:
                quote = "" if char == quote else quote
            elif char in "\"'" and previous in ("", " ", "\t", "\n", ",", "[", "{", ":", "'"):
                quote = char
            else:
                depth += (char in "[{") - (char in "]}")
            previous = char
        self._previous, self._quote, self._depth = previous, quote, depth
        self.is_open = bool(quote) or depth > 0


def read_scalar(value: str) -> Any:
    """Return the value of a scalar or a flow collection, which may have several lines."""
    value = value.strip()
    if value[:1] in ("'", '"'):
        end = _find_quote_end(value)
        if end == -1 or _COMMENT.sub("", value[end:]).strip():
            raise ParseError("text after a quoted string", text=value, position=max(end, 0))
        return _unquote(value[:end])
    if value[:1] in ("[", "{"):
        found, end = _read_flow(value, 0, 0)
        if _COMMENT.sub("", value[end:]).strip():
            raise ParseError("text after a flow collection", text=value, position=end)
        return found
    return resolve(read_plain(value))


def read_plain(value: str) -> str:
    """Return the text of a plain scalar: without a comment, its lines joined."""
    lines = [_COMMENT.sub("", line).strip() for line in value.split("\n")]
    return " ".join(lines).strip() if all(lines) else _fold(lines)


class BlockHeader(NamedTuple):
    """How a block scalar is read: literally or folded, its indentation (0 if unknown), its end."""

    is_folded: bool
    indent: int
    chomp: str

    @classmethod
    def parse(cls, text: str, parent: int) -> BlockHeader | None:
        """Return the header that *text* is, under a key with the indentation *parent*."""
        found = BLOCK.match(text)
        if found is None:
            return None
        digits = [int(mark) for mark in found["marks"] if mark.isdigit()]
        chomp = next((mark for mark in found["marks"] if mark in "+-"), "")
        return cls(found["style"] == ">", parent + digits[0] if digits else 0, chomp)

    def join(self, lines: list[str]) -> str:
        """Return the text of *lines*, which have lost their indentation."""
        text = "\n".join([*lines, ""]) if self.chomp == "+" else "\n".join(lines).rstrip("\n")
        if self.is_folded:
            ending = text[len(text.rstrip("\n")) :]
            text = _fold(text.rstrip("\n").split("\n")) + ending
        # One final newline is kept by default ("clip"), none with "-", all of them with "+".
        return text + "\n" if text and self.chomp == "" else text


def get_indent(line: str) -> int:
    """Return how many spaces *line* begins with."""
    return len(line) - len(line.lstrip(" "))


class _Blocks:
    """Reads block collections line by line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._at = 0

    def error(self, message: str) -> ParseError:
        position = sum(len(line) + 1 for line in self._lines[: self._at])
        return ParseError(message, text=self._text, position=min(position, len(self._text)))

    def peek(self) -> str | None:
        """Return the next line that is neither blank nor a comment."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.lstrip().startswith("#"):
                return line
            self._at += 1
        return None

    def value(self, least: int, depth: int) -> Any:
        """Return the value that begins on the next line, indented by *least* or more."""
        line = self.peek()
        if line is None or get_indent(line) < least:
            return None
        if depth > MAX_DEPTH:
            raise self.error("collections nest too deep")
        indent = get_indent(line)
        content = line[indent:]
        if content == "-" or content.startswith("- "):
            return self._sequence(indent, depth)
        if KEY.match(content):
            return self._mapping(indent, depth)
        self._at += 1
        return self._inline(content, indent - 1, depth)

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self.peek()) is not None and get_indent(line) == indent:
            key = KEY.match(line[indent:])
            if key is None:
                break
            self._at += 1
            name = read_key(key["key"])
            if name in found:
                # YAML forbids it, and one of the two values would be lost silently.
                raise self.error(f"the key {name!r} came twice")
            found[name] = self._inline(line[indent + key.end() :], indent, depth, in_mapping=True)
        return found

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (line := self.peek()) is not None and get_indent(line) == indent:
            content = line[indent:]
            if content != "-" and not content.startswith("- "):
                break
            rest = content[1:].lstrip()
            inner = len(line) - len(rest)
            if KEY.match(rest) or rest == "-" or rest.startswith("- "):
                self._lines[self._at] = " " * inner + rest
                found.append(self.value(inner, depth + 1))
            else:
                self._at += 1
                found.append(self._inline(rest, indent, depth))
        return found

    def _inline(self, rest: str, indent: int, depth: int, *, in_mapping: bool = False) -> Any:
        """Return the value that begins with *rest*, under a line with the indentation *indent*."""
        header = BlockHeader.parse(rest, max(indent, 0))
        if header is not None:
            return self._block(header, indent)
        if not _COMMENT.sub("", rest).strip():
            line = self.peek()
            # The items of a list may be at the indentation of its key.
            is_list = line is not None and line[indent:].startswith("- ") and in_mapping
            is_here = is_list and line is not None and get_indent(line) == indent
            return self.value(indent if is_here else indent + 1, depth + 1)
        pieces, opened = [rest], BracketState(rest)
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not opened.is_open and (rest[:1] in "\"'[{" or get_indent(line) <= indent):
                break
            opened.add("\n" + line)
            pieces.append(line)
            self._at += 1
        return read_scalar("\n".join(pieces))

    def _block(self, header: BlockHeader, parent: int) -> str:
        lines: list[str] = []
        indent = header.indent
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip():
                indent = indent or get_indent(line)
                if get_indent(line) < indent or indent <= parent:
                    break
            lines.append(line[indent:] if indent else "")
            self._at += 1
        return header.join(lines)


def _fold(lines: list[str]) -> str:
    """Join lines as YAML folds them: one newline is a space, more than one lose the first."""
    text, blanks = lines[0], 0
    for line in lines[1:]:
        if not line.strip():
            blanks += 1
        elif line[0] in " \t":  # an indented line keeps its newline
            text += "\n" * (blanks + 1) + line
            blanks = 0
        else:
            text += ("\n" * blanks if blanks else " ") + line
            blanks = 0
    return text + "\n" * blanks


def _find_quote_end(text: str) -> int:
    """Return where the quoted string that begins *text* ends; -1 if it does not."""
    quote, at = text[0], 1
    while at < len(text):
        if text[at] == quote:
            # Two single quotes are one in the string; there are no other escapes in it.
            if quote == "'" and text[at + 1 : at + 2] == "'":
                at += 2
                continue
            return at + 1
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return -1


def _unquote(written: str) -> str:
    inside = written[1:-1]
    if written[0] == "'":
        return _fold_quoted(inside).replace("''", "'")
    inside = _fold_quoted(re.sub(r"\\\n[ \t]*", "", inside))
    return _ESCAPE.sub(_decode_escape, inside) if "\\" in inside else inside


def _decode_escape(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    return chr(int(digits, 16)) if digits else _ESCAPES.get(found[4], found[0])


def _fold_quoted(text: str) -> str:
    if "\n" not in text:
        return text
    return re.sub(
        r"[ \t]*\n(?:[ \t]*\n)*[ \t]*",
        lambda found: "\n" * (found[0].count("\n") - 1) or " ",
        text,
    )


def _read_flow(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the flow value at *at*, and where it ends."""
    if depth > MAX_DEPTH:
        raise ParseError("collections nest too deep", text=text, position=at)
    at = _skip(text, at)
    if text[at : at + 1] in ("[", "{"):
        return _read_collection(text, at, depth)
    if text[at : at + 1] in ("'", '"'):
        end = _find_quote_end(text[at:])
        if end == -1:
            raise ParseError("a string that is never closed", text=text, position=at)
        return _unquote(text[at : at + end]), at + end
    found = _FLOW_PLAIN.match(text, at)
    end = found.end() if found else at
    plain = _FOLD.sub(" ", text[at:end]).strip()
    # A quote that is missing or too many is not guessed; a sentence is rather the model's own.
    if not plain or '"' in plain or (plain[-1] in ".!?" and " " in plain):
        raise ParseError("not a value in a flow collection", text=text, position=at)
    return resolve(plain), end


def _read_collection(text: str, at: int, depth: int) -> tuple[Any, int]:
    is_list = text[at] == "["
    closer = "]" if is_list else "}"
    items: list[Any] = []
    members: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] != closer:
        begin = at
        value, at = _read_flow(text, at, depth + 1)
        at = _skip(text, at)
        if is_list:
            items.append(value)
        else:
            key = value if isinstance(value, str) else text[begin:at].strip()
            if text[at : at + 1] != ":":  # YAML says null, but a model has lost something.
                raise ParseError("a key without a value", text=text, position=begin)
            value, at = _read_flow(text, at + 1, depth + 1)
            at = _skip(text, at)
            members[key] = value
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closer:
            raise ParseError("a flow collection that is not closed", text=text, position=at)
    return (items if is_list else members), at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
