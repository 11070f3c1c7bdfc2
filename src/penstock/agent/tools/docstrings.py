"""Parse docstrings into a description and the descriptions of parameters.

Three styles are supported, also mixed: Google (``Args:`` and an indented list), NumPy
(``Parameters`` above a line of dashes) and Sphinx (``:param name: …``). Sections about parameters
are removed. The rest is the description, unchanged: what a function returns and raises helps a
model as much as a person.
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
_DASHES: Final = re.compile(r"-{3,}\s*$")
_SPHINX: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:(.*)"
)
_SPHINX_TYPE: Final = re.compile(r":type\s+\w+\s*:")
_FIELD: Final = re.compile(r":\w[^:]*:")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@dataclass
class Docstring:
    """The *description* of a function, and those of its *parameters* by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Docstring:
    """Parse the docstring *text* in any of the styles."""
    if not text:
        return Docstring()
    parser = _DocstringParser(inspect.cleandoc(text).splitlines())
    parser.parse()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(parser.prose)).strip()
    parameters = {
        name: " ".join(" ".join(lines).split()) for name, lines in parser.parameters.items()
    }
    return Docstring(description, {name: words for name, words in parameters.items() if words})


class _DocstringParser:
    """Parses the lines once; lines outside of sections about parameters are prose."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self.prose: list[str] = []
        self.parameters: dict[str, list[str]] = {}

    def parse(self) -> None:
        """Sort all lines."""
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            if _GOOGLE.match(line) and self._opens_block():
                self._take_google()
            elif _NUMPY.match(line) and self._is_underlined(self._at):
                self._take_numpy()
            elif (match := _SPHINX.match(line)) is not None:
                self._take_sphinx(match[1], match[2])
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

    def _is_underlined(self, at: int) -> bool:
        return at + 1 < len(self._lines) and bool(_DASHES.match(self._lines[at + 1].strip()))

    def _opens_block(self) -> bool:
        following = self._next_line(self._at + 1)
        return following < len(self._lines) and self._indent(following) > self._indent(self._at)

    def _next_line(self, at: int) -> int:
        """Return the number of the next line that is not blank."""
        while at < len(self._lines) and self._is_blank(at):
            at += 1
        return at

    def _take_google(self) -> None:
        outside = self._indent(self._at)
        self._at = self._next_line(self._at + 1)
        entries = self._indent(self._at)
        name = ""
        while self._at < len(self._lines):
            # Google: a section ends at the first line that is not indented.
            if not self._is_blank(self._at):
                if self._indent(self._at) <= outside:
                    return
                line = self._lines[self._at].strip()
                match = _GOOGLE_ENTRY.match(line) if self._indent(self._at) <= entries else None
                if match is not None:
                    name, line = match[1], match[2] or ""
                self._add(name, line)
            self._at += 1

    def _take_numpy(self) -> None:
        outside = self._indent(self._at)
        self._at += 2
        names: list[str] = []
        while self._at < len(self._lines) and not self._is_underlined(self._at):
            line = self._lines[self._at].strip()
            # NumPy: an entry may name several parameters (``x, y : int``), its text is indented.
            if line and self._indent(self._at) <= outside:
                match = _NUMPY_ENTRY.match(line)
                if match is None:
                    return
                names = [name.strip(" *") for name in match[1].split(",")]
            else:
                for name in names:
                    self._add(name, line)
            self._at += 1

    def _take_sphinx(self, name: str, text: str) -> None:
        self._add(name, text)
        self._at += 1
        while self._at < len(self._lines) and not self._is_blank(self._at):
            line = self._lines[self._at].strip()
            # Sphinx: any other field, such as ``:returns:``, ends the text of a parameter.
            if _FIELD.match(line):
                return
            self._add(name, line)
            self._at += 1

    def _add(self, name: str, line: str) -> None:
        if name:
            self.parameters.setdefault(name, []).append(line)
