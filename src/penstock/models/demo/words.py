"""Arguments out of the user's words: what a schema asks for, found in a sentence by simple rules.

There is no understanding here, and none is claimed: numbers go to numbers, quoted texts, paths,
addresses and names go to texts, members of an enumeration are looked for by their own words. What
is found nowhere gets a value that the schema accepts.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.formats.prompts import example_call
from penstock.models.demo.samples import sample_for
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_DEPTH: Final = 4
"""How deep arguments are made from words: what lies deeper gets an example's value."""

_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_QUOTED: Final = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`")
_ADDRESS: Final = re.compile(r"https?://[^\s\"'<>)]+")
_PATH: Final = re.compile(r"(?<![\w/:.])[\w.~-]*/[\w./~-]*\w|(?<![\w/])\w[\w-]*\.[a-zA-Z]\w{0,4}\b")
_NAMED: Final = re.compile(
    r"\b(?:in|at|for|of|to|from|about|on|near)\s+([A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*)"
)
_PLAIN: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and are at be by can could do does for from get give have how i in is it me my of on "
        "or please show tell that the this to use was what when where which who will with would "
        "you your if any all not no as text name value tool given",
    )
)
"""Words that say nothing about what a tool is for."""
_NOT: Final = frozenset({"no", "not", "without", "never", "dont", "false", "off"})


def words_of(text: str) -> set[str]:
    """Give the words of *text* that may tell tools apart."""
    found = {word.lower() for word in _WORD.findall(text)}
    return {word for word in found if word not in _PLAIN and len(word) > 1}


def fitting_tool(words: str, tools: list[Tool], *, must: bool = False) -> Tool | None:
    """Pick the tool whose name, description and arguments share most with *words*.

    None where nothing is shared, unless one *must* be picked. Of equals the first is picked.
    """
    said = words_of(words)
    scores = [(_score(said, tool), -at) for at, tool in enumerate(tools)]
    best, at = max(scores, default=(0, 0))
    return tools[-at] if tools and (best or must) else None


def _score(said: set[str], tool: Tool) -> int:
    """Count what *tool* shares with the words; its name says more than its description."""
    named = _shared(said, words_of(tool.name))
    told = _shared(said, words_of(tool.description))
    asked = _shared(said, words_of(" ".join(Schema(tool.parameters).properties)))
    return 3 * named + 2 * told + asked


def _shared(said: set[str], offered: set[str]) -> int:
    return sum(any(_alike(one, other) for other in said) for one in offered)


def _alike(one: str, other: str) -> bool:
    """Tell whether two words are one word but for its ending."""
    stem = min(len(one), len(other), 5)
    return one == other or (stem >= 4 and one[:stem] == other[:stem])  # noqa: PLR2004


def arguments_for(tool: Tool, words: str) -> dict[str, Any]:
    """Make arguments for *tool* out of *words*; its schema accepts them if it accepts an example.

    What is required is there, and of the rest what the words say something about.
    """
    schema = Schema(tool.parameters)
    example = example_call(tool).arguments
    finder = _Finder(words)
    made: dict[str, Any] = {}
    for name, inner in schema.properties.items():
        value = finder.value(name, inner)
        if value is not None and inner.accepts(value):
            made[name] = value
        elif name in schema.required:
            made[name] = sample_for(name, inner, made, example.get(name))
    for name in schema.required:
        made.setdefault(name, example.get(name))
    return made if schema.accepts(made) else example


class _Finder:
    """Finds values in *words*, each of them once."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._said = words_of(words)
        self._addresses = _ADDRESS.findall(words)
        quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(words)]
        self._quoted: list[str] = quoted
        bare = _ADDRESS.sub(" ", _QUOTED.sub(" ", words))
        self._paths = _PATH.findall(bare)
        self._numbers = _NUMBER.findall(_PATH.sub(" ", bare))
        self._names: list[str] = _NAMED.findall(bare)

    def value(self, name: str, schema: Schema, depth: int = 0) -> Any:
        """Find a value for the argument *name*; None where the words have none."""
        if schema.members is not None and schema.members.values:
            return self._member(list(schema.members.values))
        match schema.wants:
            case "integer":
                return self._number(whole=True)
            case "number":
                return self._number(whole=False)
            case "boolean":
                return self._flag(name)
            case "array":
                return self._list(name, schema, depth)
            case "object":
                return self._object(schema, depth)
            case "null":
                return None
            case _:
                return self._text(name)

    def _member(self, members: list[Any]) -> Any:
        for member in members:
            if isinstance(member, str) and words_of(member) & self._said:
                return member
        return None

    def _number(self, *, whole: bool) -> int | float | None:
        for at, text in enumerate(self._numbers):
            if not whole or "." not in text:
                del self._numbers[at]
                return float(text) if "." in text else int(text)
        return None

    def _flag(self, name: str) -> bool | None:
        if not _shared(self._said, words_of(name)):
            return None
        said = {word.lower().replace("'", "") for word in re.findall(r"[\w']+", self._words)}
        return not said & _NOT

    def _list(self, name: str, schema: Schema, depth: int) -> list[Any] | None:
        item = schema.item(0)
        if item is None or depth >= MAX_DEPTH:
            return None
        found = []
        for _ in range(len(self._words)):  # Each value is found once, so this ends far earlier.
            value = self.value(name, item, depth + 1)
            if value is None or value in found or not item.accepts(value):
                break
            found.append(value)
            if isinstance(value, dict | list | bool):
                break
        return found or None

    def _object(self, schema: Schema, depth: int) -> dict[str, Any] | None:
        if depth >= MAX_DEPTH:
            return None
        found = {key: self.value(key, inner, depth + 1) for key, inner in schema.properties.items()}
        return {key: value for key, value in found.items() if value is not None} or None

    def _text(self, name: str) -> str | None:
        wanted = words_of(name)
        if wanted & {"url", "uri", "link", "address"} and self._addresses:
            return str(self._addresses.pop(0))
        if wanted & {"path", "file", "filename", "directory", "folder"} and self._paths:
            return str(self._paths.pop(0))
        for found in (self._quoted, self._names, self._paths, self._addresses):
            if found:
                return found.pop(0)
        return None
