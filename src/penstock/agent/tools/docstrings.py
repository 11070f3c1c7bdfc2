"""What a docstring says: what the function does, and what each of its parameters is.

The three common styles are read: Google (``Args:`` and an indented list), NumPy (``Parameters``
over a line of dashes) and Sphinx (``:param name: …``), also mixed. What speaks of parameters is
taken out; all the rest is the description, as it stands, since what a function returns and raises
helps a model as much as it helps a person.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Final

_GOOGLE: Final = re.compile(
    r"(?:Args|Arguments|Params|Parameters|Keyword Arg(?:ument)?s|Other Parameters):\s*$"
)
_NUMPY: Final = re.compile(r"(?:Other )?Parameters\s*$")
_RULE: Final = re.compile(r"-{3,}\s*$")
_SPHINX: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:(.*)"
)
_SPHINX_TYPE: Final = re.compile(r":type\s+\w+\s*:")
_FIELD: Final = re.compile(r":\w[^:]*:")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@dataclass
class Docstring:
    """A docstring, taken apart: the *description*, and what is said of each parameter by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    """Take the docstring *text* apart, whatever its style."""
    if not text:
        return Docstring()
    reader = _Reader(inspect.cleandoc(text).splitlines())
    reader.read()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(reader.prose)).strip()
    parameters = {name: " ".join(" ".join(said).split()) for name, said in reader.said.items()}
    return Docstring(description, {name: said for name, said in parameters.items() if said})


class _Reader:
    """Goes through the lines once; what it takes for no section of parameters is prose."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self.prose: list[str] = []
        self.said: dict[str, list[str]] = {}

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            if _GOOGLE.match(line) and self._opens_block():
                self._read_google()
            elif _NUMPY.match(line) and self._is_ruled(self._at):
                self._read_numpy()
            elif (match := _SPHINX.match(line)) is not None:
                self._read_sphinx(match[1], match[2])
            elif _SPHINX_TYPE.match(line):
                self._at += 1
            else:
                self.prose.append(self._lines[self._at])
                self._at += 1

    def _indent(self, at: int) -> int:
        line = self._lines[at]
        return len(line) - len(line.lstrip())

    def _is_blank(self, at: int) -> bool:
        return not self._lines[at].strip()

    def _is_ruled(self, at: int) -> bool:
        return at + 1 < len(self._lines) and bool(_RULE.match(self._lines[at + 1].strip()))

    def _opens_block(self) -> bool:
        following = self._next_line(self._at + 1)
        return following < len(self._lines) and self._indent(following) > self._indent(self._at)

    def _next_line(self, at: int) -> int:
        """Find the next line that is not blank."""
        while at < len(self._lines) and self._is_blank(at):
            at += 1
        return at

    def _read_google(self) -> None:
        outside = self._indent(self._at)
        self._at = self._next_line(self._at + 1)
        entries = self._indent(self._at)
        name = ""
        while self._at < len(self._lines):
            if not self._is_blank(self._at):
                if self._indent(self._at) <= outside:
                    return
                line = self._lines[self._at].strip()
                match = _GOOGLE_ENTRY.match(line) if self._indent(self._at) <= entries else None
                if match is not None:
                    name, line = match[1], match[2] or ""
                self._say(name, line)
            self._at += 1

    def _read_numpy(self) -> None:
        outside = self._indent(self._at)
        self._at += 2
        names: list[str] = []
        while self._at < len(self._lines) and not self._is_ruled(self._at):
            line = self._lines[self._at].strip()
            if line and self._indent(self._at) <= outside:
                match = _NUMPY_ENTRY.match(line)
                if match is None:
                    return
                names = [name.strip(" *") for name in match[1].split(",")]
            else:
                for name in names:
                    self._say(name, line)
            self._at += 1

    def _read_sphinx(self, name: str, text: str) -> None:
        self._say(name, text)
        self._at += 1
        while self._at < len(self._lines) and not self._is_blank(self._at):
            line = self._lines[self._at].strip()
            if _FIELD.match(line):
                return
            self._say(name, line)
            self._at += 1

    def _say(self, name: str, line: str) -> None:
        if name:
            self.said.setdefault(name, []).append(line)
