r"""Load rules from Markdown files: the front matter has the fields, the body is the text.

::

    ---
    condition: console\.log
    scope: [edit_file(*.ts), write_file(*.ts)]
    interrupt: tool-only
    ---
    Use `logger.debug`; see docs/logging.md.

A condition or a word of the scope that is invalid is dropped with a warning; a rule that has none
left is refused. Unknown fields are ignored: other programs may use them.

The front matter is the part of YAML that rules need: words, quoted strings, blocks after ``|`` or
``>``, lists as ``[a, b]`` or as lines that begin with ``-``, and comments. Deeper nesting is
skipped. It differs from YAML in two points, for regular expressions: in double quotes a backslash
is literal unless a quote or another backslash follows, and in a list a comma inside brackets
(``[a{1,3}, b]``) does not separate items.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, get_args

from penstock.agent.rules.matcher import compile_condition
from penstock.agent.rules.rule import (
    DEFAULT_SCOPE,
    SCOPE_KINDS,
    Interrupt,
    Repeat,
    Rule,
    RuleError,
    parse_scope,
)
from penstock.errors import ParseError

MAX_RULE: Final = 100_000
"""How long the file of a rule may be, in bytes: its text is sent to the model."""

MAX_GAP: Final = 999_999
"""How many turns a gap may have; more is a mistake."""

Warn = Callable[[str], None]
"""Receives what is wrong with a rule."""

Fields = dict[str, str | list[str]]
"""The fields of a front matter: words, and lists of words."""

# Other names of the fields, compared without case, ``-`` and ``_``.
_NAMES: Final = {
    "condition": "conditions",
    "glob": "globs",
    "interruptmode": "interrupt",
    "repeatmode": "repeat",
    "repeatgap": "gap",
    "contextmode": "context",
}

_CONTEXTS: Final = {"keep": True, "discard": False}
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False}

_FENCE: Final = re.compile(r"---[ \t]*")
_FIELD: Final = re.compile(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_ITEM: Final = re.compile(r"[ \t]*-(?:[ \t]+(?P<value>.*))?")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_QUOTED: Final = re.compile(
    r"""\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)')\s*(?:\#.*)?"""
)
_LIST_ITEM: Final = re.compile(
    r"""\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?=,|$)"""
    r"""|(?:\\.|\{[^{}]*\}|\([^()]*\)|\[[^][]*\]|[^,])*"""
)
_BLOCK: Final = re.compile(r"(?P<style>[|>])[-+]?[ \t]*(?:#.*)?")
_ESCAPED: Final = re.compile(r'\\(["\\])')


def read_rule(text: str, name: str, on_warning: Warn | None = None) -> Rule:
    """Read the rule called *name* from the *text* of its file.

    *on_warning* receives what was dropped. Raises `RuleError` if there is no usable rule.
    """
    try:
        fields, body = parse_front_matter(text)
    except FrontMatterError as exc:
        raise RuleError(name, str(exc)) from exc
    return _FieldReader(name, fields, on_warning or _ignore).make_rule(body.strip())


def load_rules(folder: str | Path, on_warning: Warn | None = None) -> list[Rule]:
    """Load a rule from every ``*.md`` file in *folder*, in the order of their names.

    A rule has the name of its file. *on_warning* receives what was dropped, and which files are not
    rules. A folder that does not exist has no rules.
    """
    warn = on_warning or _ignore
    rules = []
    for path in sorted(Path(folder).glob("*.md")):
        try:
            rules.append(read_rule(_read_file(path), path.stem, warn))
        except RuleError as exc:
            warn(str(exc))
    return rules


def _read_file(path: Path) -> str:
    try:
        # Reading a pipe would block.
        if not path.is_file():
            raise RuleError(path.stem, "not a file")
        with path.open("rb") as file:
            data = file.read(MAX_RULE + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise RuleError(path.stem, f"cannot read its file: {exc}") from exc
    if len(data) > MAX_RULE:
        raise RuleError(path.stem, f"its file is longer than {MAX_RULE} bytes")
    return text


def _ignore(_warning: str) -> None:
    pass


class _FieldReader:
    """Makes a rule from the fields of a front matter."""

    def __init__(self, name: str, fields: Fields, warn: Warn) -> None:
        self._name = name
        self._report = warn
        self._fields: Fields = {}
        for key, value in fields.items():
            plain = key.lower().replace("-", "").replace("_", "")
            self._fields[_NAMES.get(plain, plain)] = value

    def make_rule(self, body: str) -> Rule:
        """Make the rule from what is valid."""
        if not body:
            raise RuleError(self._name, "no text for the model after the front matter")
        conditions = self._conditions()
        if not conditions:
            raise RuleError(self._name, "no condition")
        return Rule(
            self._name,
            conditions,
            body,
            scope=self._scope(),
            globs=self._words("globs"),
            interrupt=self._one_of("interrupt", get_args(Interrupt)),
            repeat=self._one_of("repeat", get_args(Repeat)),
            gap=self._gap(),
            keep=self._keep(),
        )

    def _words(self, key: str) -> tuple[str, ...]:
        value = self._fields.get(key, "")
        words = [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(word for word in words if word))

    def _conditions(self) -> tuple[str, ...]:
        usable = []
        for word in self._words("conditions"):
            try:
                compile_condition(word)
            except ValueError as exc:
                self._warn(str(exc))
            else:
                usable.append(word)
        return tuple(usable)

    def _scope(self) -> tuple[str, ...]:
        words = self._words("scope")
        valid = tuple(word for word in words if parse_scope(word) is not None)
        for word in words:
            if word not in valid:
                self._warn(f"invalid scope {word!r}")
            elif word != word.lower() and word.lower() in SCOPE_KINDS:
                self._warn(f"scope {word!r} is a tool of that name; did you mean {word.lower()!r}?")
        return valid if words else DEFAULT_SCOPE

    def _one_of(self, key: str, choices: tuple[str, ...]) -> Any:
        words = self._words(key)
        if not words:
            return None
        if words[0] in choices:
            return words[0]
        self._warn(f"invalid {key} {words[0]!r}; expected one of {', '.join(choices)}")
        return None

    def _gap(self) -> int | None:
        words = self._words("gap")
        if not words:
            return None
        word = words[0]
        if word.isascii() and word.isdigit() and len(word) <= len(str(MAX_GAP)) and int(word):
            return int(word)
        self._warn(f"invalid gap {word!r}; expected a number of turns")
        return None

    def _keep(self) -> bool | None:
        for key, meanings in (("keep", _BOOLEANS), ("context", _CONTEXTS)):
            if (word := self._one_of(key, tuple(meanings))) is not None:
                return meanings[word]
        return None

    def _warn(self, reason: str) -> None:
        self._report(str(RuleError(self._name, reason)))


# --- front matter ---


class FrontMatterError(ParseError):
    """A front matter without an end, or with a line that is not a field."""


def parse_front_matter(text: str) -> tuple[Fields, str]:
    """Split *text* into the fields of its front matter and its body.

    Without a front matter all of it is body. The last value of a repeated key counts. Raises
    `FrontMatterError`.
    """
    # Editors on Windows write a byte order mark and carriage returns.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return {}, text
    for end in range(1, len(lines)):
        if _FENCE.fullmatch(lines[end]):
            return _parse_fields(text, lines[1:end]), "\n".join(lines[end + 1 :])
    raise FrontMatterError("the front matter has no end: add a line of ---", text=text)


def _parse_fields(text: str, lines: list[str]) -> Fields:
    fields: Fields = {}
    items: list[str] | None = None
    at = text.index("\n") + 1
    for number, line in enumerate(lines, 1):
        if (field := _FIELD.fullmatch(line)) is not None:
            value = field["value"] or ""
            if (block := _BLOCK.fullmatch(value)) is not None:
                parsed: str | list[str] = _join_block(lines[number:], block["style"])
            else:
                parsed = _parse_value(value)
            items = [] if parsed == "" else None
            fields[field["key"]] = parsed if items is None else items
        elif (item := _ITEM.fullmatch(line)) is not None:
            if items is not None:
                items.append(_parse_word(item["value"] or ""))
        elif line.strip() and not line.startswith((" ", "\t", "#")):
            raise FrontMatterError("expected a field, `key: value`", text=text, position=at)
        at += len(line) + 1
    return fields


def _join_block(lines: list[str], style: str) -> str:
    """Join the indented lines that *lines* begin with: as they are, or folded into one."""
    inside = list(takewhile(lambda line: line.startswith((" ", "\t")) or not line, lines))
    kept = dedent("\n".join(inside)).strip("\n")
    return kept if style == "|" else " ".join(kept.split("\n"))


def _parse_value(text: str) -> str | list[str]:
    """Parse the value of a field: a list in brackets, or a word."""
    bare = _COMMENT.sub("", text) if not _QUOTED.fullmatch(text) else text
    bare = bare.strip()
    if not (bare.startswith("[") and bare.endswith("]")):
        return _parse_word(text)
    words = []
    at, inside = 0, bare[1:-1]
    while at <= len(inside):
        found = _LIST_ITEM.match(inside, at)
        item = found[0] if found else ""
        if item.strip():
            words.append(_parse_word(item))
        at += len(item) + 1
    return words


def _parse_word(text: str) -> str:
    """Parse a word: the content of its quotes, or all of it but a comment."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return _COMMENT.sub("", text).strip()
    if quoted["single"] is not None:
        return quoted["single"].replace("''", "'")
    return _ESCAPED.sub(r"\1", quoted["double"])
