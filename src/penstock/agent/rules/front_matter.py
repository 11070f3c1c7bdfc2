"""The head of a Markdown file: lines of ``key: value`` between two lines of ``---``.

This is the part of YAML that rules need, read by its look: words, quoted strings, blocks behind
``|`` or ``>``, lists as ``[a, b]`` or as lines that begin with ``-``, and comments. What is nested
deeper is skipped, since files may say things that are for others. Two things are for regular
expressions: in double quotes a backslash stands for itself unless a quote or another backslash
follows, and in a list a comma inside brackets (``[a{1,3}, b]``) parts nothing.
"""

from __future__ import annotations

import re
from itertools import takewhile
from textwrap import dedent
from typing import Final

from penstock.errors import ParseError

Fields = dict[str, str | list[str]]
"""What a head says: words, and lists of words."""

_FENCE: Final = re.compile(r"---[ \t]*")
_FIELD: Final = re.compile(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_ITEM: Final = re.compile(r"[ \t]*-(?:[ \t]+(?P<value>.*))?")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_QUOTED: Final = re.compile(
    r"""\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)')\s*(?:\#.*)?"""
)
_PLAIN_OR_QUOTED: Final = re.compile(
    r"""\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?=,|$)"""
    r"""|(?:\\.|\{[^{}]*\}|\([^()]*\)|\[[^][]*\]|[^,])*"""
)
_BLOCK: Final = re.compile(r"(?P<style>[|>])[-+]?[ \t]*(?:#.*)?")
_ESCAPED: Final = re.compile(r'\\(["\\])')


class FrontMatterError(ParseError):
    """A head that has no end, or a line in it that says nothing."""


def read_front_matter(text: str) -> tuple[Fields, str]:
    """Split *text* into what its head says and its body; without a head all of it is body.

    Raises `FrontMatterError`. Of a repeated key the last value counts.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return {}, text
    for end in range(1, len(lines)):
        if _FENCE.fullmatch(lines[end]):
            return _read_fields(text, lines[1:end]), "\n".join(lines[end + 1 :])
    raise FrontMatterError("the head has no end", text=text)


def _read_fields(text: str, lines: list[str]) -> Fields:
    fields: Fields = {}
    items: list[str] | None = None
    at = text.index("\n") + 1
    for number, line in enumerate(lines, 1):
        if (field := _FIELD.fullmatch(line)) is not None:
            block = _BLOCK.fullmatch(field["value"] or "")
            value = _block(lines[number:], block["style"]) if block else read_value(field["value"])
            items = [] if value == "" else None
            fields[field["key"]] = value if items is None else items
        elif (item := _ITEM.fullmatch(line)) is not None:
            if items is not None:
                items.append(read_word(item["value"] or ""))
        elif line.strip() and not line.startswith((" ", "\t", "#")):
            raise FrontMatterError("a line that is no field", text=text, position=at)
        at += len(line) + 1
    return fields


def _block(lines: list[str], style: str) -> str:
    """Read the indented lines that *lines* begin with: as they are, or folded into one."""
    inside = list(takewhile(lambda line: line.startswith((" ", "\t")) or not line, lines))
    kept = dedent("\n".join(inside)).strip("\n")
    return kept if style == "|" else " ".join(kept.split("\n"))


def read_value(text: str | None) -> str | list[str]:
    """Read what stands behind a key: a list in brackets, or a word."""
    text = text or ""
    bare = _COMMENT.sub("", text) if not _QUOTED.fullmatch(text) else text
    bare = bare.strip()
    if not (bare.startswith("[") and bare.endswith("]")):
        return read_word(text)
    words = []
    at, inside = 0, bare[1:-1]
    while at <= len(inside):
        found = _PLAIN_OR_QUOTED.match(inside, at)
        piece = found[0] if found else ""
        if piece.strip():
            words.append(read_word(piece))
        at += len(piece) + 1
    return words


def read_word(text: str) -> str:
    """Read a word: what is in its quotes, or all of it but a comment."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return _COMMENT.sub("", text).strip()
    if quoted["single"] is not None:
        return quoted["single"].replace("''", "'")
    return _ESCAPED.sub(r"\1", quoted["double"])
