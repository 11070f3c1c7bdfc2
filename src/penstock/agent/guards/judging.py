"""Whether an edit can be meant for a file, as far as it has arrived.

A judge collects what an edit says it replaces; once the file is known it judges what is new, and
only that. It speaks only when it is sure: what a tool might take for something else is not judged.
"""

from __future__ import annotations

from typing import Final, Protocol

from penstock.agent.guards.files import Content
from penstock.agent.workspace.search import length_found, nearest

MAX_WAIT: Final = 200
"""How many characters of a line are waited for, behind the place where it went wrong, to tell which
line it is."""

_OTHER_KINDS: Final = ("*** ", "<<<<<<<")
_HEADERS: Final = ("--- ", "+++ ", "diff ")


class Judge(Protocol):
    """Judges one argument of an edit."""

    def add(self, piece: str) -> None:
        """Take one more piece of the argument."""

    def end(self) -> None:
        """Say that the argument is whole."""

    def replaces(self) -> bool:
        """Tell whether anything is replaced, so far."""

    def problem(self, content: Content) -> str | None:
        """Say what cannot be meant for a file with this *content*."""


class RemovedLines:
    """The removed lines of a diff: each must be a line of the file.

    Lines that stay are not judged, since many tools are not strict about them. Neither is anything
    behind markup that may lead to another file, or that is of another kind of patch.
    """

    def __init__(self) -> None:
        self._rest: list[str] = []  # the pieces of a line that is not whole
        self._count = 0
        self._waiting: list[tuple[int, str]] = []
        self._has_changes = False
        self._has_removed = False
        self._is_strange = False

    def add(self, piece: str) -> None:
        """Take one more piece of the diff."""
        self._rest.append(piece.replace("\r", ""))
        if "\n" in piece:
            *lines, rest = "".join(self._rest).split("\n")
            self._rest = [rest]
            for line in lines:
                self._take(line)

    def end(self) -> None:
        """Say that the diff is whole: its last line is, too."""
        self._take("".join(self._rest))
        self._rest.clear()

    def replaces(self) -> bool:
        """Tell whether any line is removed, so far."""
        return self._has_removed

    def problem(self, content: Content) -> str | None:
        """Say which removed line is not in the file."""
        waiting, self._waiting = self._waiting, []
        for number, line in waiting:
            if line.rstrip() not in content.lines:
                return (
                    f"line {number} of the diff removes a line that is not in the file:\n{line}\n"
                    + nearest(content.text, line)
                )
        return None

    def _take(self, line: str) -> None:
        self._count += 1
        is_header = line.startswith(_HEADERS) or line.rstrip() == "---"
        if line.startswith(_OTHER_KINDS) or (is_header and self._has_changes):
            self._is_strange = True
        if self._is_strange or is_header or not line.startswith(("-", "+")):
            return
        self._has_changes = True
        if line.startswith("-") and line[1:].strip():
            self._has_removed = True
            self._waiting.append((self._count, line[1:]))


class OldText:
    """The text that an edit replaces: all of it must be in the file, in one piece.

    Line ends before and behind it are not judged.
    """

    def __init__(self) -> None:
        self._new: list[str] = []
        self._pieces: list[str] = []
        self._length = 0
        self._at = 0  # where in the file the text may begin
        self._held = ""  # line ends that may be the last
        self._right = -1  # how much of the text is in the file, once it is known to be too little
        self._is_whole = False

    def add(self, piece: str) -> None:
        """Take one more piece of the text."""
        self._new.append(piece)

    def end(self) -> None:
        """Say that the text is whole."""
        self._is_whole = True

    def replaces(self) -> bool:
        """Tell whether there is any text, so far."""
        return bool(self._length or self._new)

    def problem(self, content: Content) -> str | None:
        """Say which line is not in the file, or not behind the lines before it."""
        piece = self._take_new()
        self._pieces.append(piece)
        if self._at != -1 and not content.text.startswith(piece, self._at + self._length):
            self._pieces = ["".join(self._pieces)]
            self._at = content.text.find(self._pieces[0], self._at)
        self._length += len(piece)
        return self._explained(content) if self._at == -1 else None

    def _take_new(self) -> str:
        arrived = self._held + "".join(self._new).replace("\r", "")
        self._new.clear()
        if not self._length:
            arrived = arrived.lstrip("\n")
        piece = arrived.rstrip("\n")
        self._held = arrived[len(piece) :]
        return piece

    def _explained(self, content: Content) -> str | None:
        """Name the line that went wrong, once there is enough of it."""
        text = "".join(self._pieces)
        if self._right == -1:
            self._right = length_found(text, content.text)
        right = self._right
        begin = text.rfind("\n", 0, right) + 1
        end = text.find("\n", right)
        if end == -1:
            if not (self._is_whole or self._held or len(text) - right > MAX_WAIT):
                return None
            end = len(text)
        number = text.count("\n", 0, right) + 1
        line = text[begin:end]
        if line.rstrip() in content.lines:
            return (
                f"line {number} of the text to replace does not follow the lines before it:\n{line}"
            )
        return f"line {number} of the text to replace is not in the file:\n{line}\n" + nearest(
            content.text, line
        )
