"""`EditGuard`: stop an edit that does not fit the file while its arguments still arrive.

A model that edits a file from memory writes hundreds of lines before a tool can report that the
first one is wrong. The guard reads the arguments as they arrive: a line that a diff removes, or the
text to replace, has to be in the file. If it is not, the response is stopped, and the model
receives the line that is wrong and the nearest line of the file.

False alarms are worse than missed ones. The guard ignores files outside of its root, large files,
files that are not text, and files that an earlier call of the same response may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Final, Protocol

from penstock.agent.hooks import Finding, Guard
from penstock.agent.rules.guard import ArgumentReader
from penstock.events import CALL_EVENTS, Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.messages import ToolResult
from penstock.values.incremental_state import Change
from penstock.workspace.search import describe_nearest, length_found

WRITING: Final = ("write_file",)
"""Tools that change the file at their `path` and no other, beside those that edit."""

READING: Final = ("read_file", "list_files")
"""Tools that change nothing. Any other tool, such as a shell, may change every file."""

MAX_FILE: Final = 1_000_000
"""How large a file may be to be compared, in bytes: the stream waits for the comparison."""

MAX_FILES: Final = 16
"""How many files are cached; a turn edits a few."""

MAX_WAIT: Final = 200
"""How many characters after a difference are waited for, so that the whole line can be named."""

_PATHS: Final = ("path", "file_path")
_BYTE_ORDER_MARK: Final = "\ufeff"
_OTHER_PATCHES: Final = ("*** ", "<<<<<<<")  # of apply_patch, and of search-and-replace blocks
_HEADERS: Final = ("--- ", "+++ ", "diff ")


class EditGuard(Guard):
    """Stops edits of files under *root* that cannot succeed, at most once in a turn.

    *tools* are the names of those that edit, by `path` and `diff` or by `path` and `old`.
    *writing* are others that change only the file at their `path`, *reading* those that change
    none; after a call of any other tool nothing is checked. Only new whole lines are checked, so
    the cost of a delta does not depend on the length of the edit.
    """

    def __init__(
        self,
        root: str | Path,
        tools: tuple[str, ...] = ("edit_file",),
        *,
        writing: tuple[str, ...] = WRITING,
        reading: tuple[str, ...] = READING,
    ) -> None:
        self._files = _FileCache(root)
        self._tools = tools
        self._writing = {*tools, *writing}
        self._reading = set(reading) - self._writing
        self._calls: dict[int, _Edit] = {}
        self._has_fired = False

    def turn_started(self) -> None:
        """Start a turn: the guard may fire again, and files may have changed."""
        self._has_fired = False
        self._files.clear()
        self._calls.clear()

    def response_started(self) -> None:
        """Start a response."""
        self._calls.clear()

    def check(self, event: Event) -> Finding | None:
        """Read *event*; return a finding if it belongs to an edit that cannot succeed."""
        if self._has_fired or not isinstance(event, CALL_EVENTS):
            return None
        if isinstance(event, ToolCallStart):
            if event.name not in self._reading:
                self._calls[event.index] = _Edit(
                    is_checked=event.name in self._tools, is_confined=event.name in self._writing
                )
            return None
        call = self._calls.get(event.index)
        if call is None or not call.is_confined:
            return None
        if isinstance(event, ToolCallDelta):
            call.add(event)
        else:
            call.close(event)
        return self._check(event.index, call)

    def tool_ended(self, result: ToolResult) -> None:  # noqa: ARG002 - any tool may change files
        """Forget all files: the tool may have changed them."""
        self._files.clear()

    def _check(self, index: int, call: _Edit) -> Finding | None:
        if call.path is None:
            return None
        if call.location is None:
            call.location = self._files.locate(call.path)
            call.is_checked = call.is_checked and call.location is not None
        if not call.is_checked or call.location is None:
            return None
        if not any(check.replaces() for check in call.checks.values()):
            return None
        # Calls of one response run in order, so an earlier one may still change the file.
        earlier = (other for at, other in self._calls.items() if at < index)
        if any(not each.is_confined or each.location in (None, call.location) for each in earlier):
            return None
        file = self._files.read(call.location)
        if file is None:
            return None
        if file is _MISSING:
            problem: str | None = "there is no such file."
        else:
            problems = (check.find_problem(file) for check in call.checks.values())
            problem = next((each for each in problems if each is not None), None)
        if problem is None:
            return None
        self._has_fired = True
        text = (
            f'<edit_guard path="{escape(call.path)}">\nYour edit was stopped: {problem}\n'
            "Nothing was changed. Look at the file, then edit what is there.\n</edit_guard>"
        )
        return Finding(source="guard", names=["edit"], text=text)


class _Edit:
    """What has arrived of a call that may change files; one that *is_confined* changes one file."""

    def __init__(self, *, is_checked: bool, is_confined: bool) -> None:
        self.is_checked = is_checked
        self.is_confined = is_confined
        self.path: str | None = None
        self.location: Path | None = None
        self.checks: dict[str, _EditCheck] = {}
        self._reader = ArgumentReader()

    def add(self, event: ToolCallDelta) -> None:
        """Read a delta of the arguments."""
        for change in self._reader.add(event):
            self._take(change)

    def close(self, event: ToolCallEnd) -> None:
        """Read the whole arguments if the deltas said something else."""
        changes = self._reader.close(event)
        if changes is not None:
            self.checks.clear()
            for change in changes:
                self._take(change)

    def _take(self, change: Change) -> None:
        if len(change.path) != 1:
            return
        key = str(change.path[0])
        if key in _PATHS and change.kind == "value" and isinstance(change.value, str):
            self.path, self.location = change.value, None
        elif self.is_checked and key in _CHECKS:
            if change.kind == "string":
                if key not in self.checks:
                    self.checks[key] = _CHECKS[key]()
                self.checks[key].add(change.text)
            elif change.kind == "value" and key in self.checks:
                self.checks[key].end()


# --- files ---


@dataclass(frozen=True)
class _FileText:
    """The text of a file as a model sees it: no byte order mark, and no carriage returns."""

    text: str

    @cached_property
    def lines(self) -> frozenset[str]:
        """All lines, without trailing white space."""
        return frozenset(line.rstrip() for line in self.text.split("\n"))


# A file that does not exist.
_MISSING: Final = _FileText("")


class _FileCache:
    """The files under *root*; no other is ever read."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).resolve()
        self._cached: dict[Path, _FileText | None] = {}

    def clear(self) -> None:
        """Forget all: files may have changed."""
        self._cached.clear()

    def locate(self, path: str) -> Path | None:
        """Resolve *path* with its links; return None if it is invalid or outside of the root."""
        try:
            location = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # too long, a null in it, a cycle of links
            return None
        return location if path and location.is_relative_to(self._root) else None

    def read(self, location: Path) -> _FileText | None:
        """Read a file; return `_MISSING` if it does not exist, None if it cannot be checked."""
        if location not in self._cached:
            if len(self._cached) >= MAX_FILES:
                self._cached.clear()
            self._cached[location] = _read_file(location)
        return self._cached[location]


def _read_file(location: Path) -> _FileText | None:
    try:
        # Reading anything but a regular file, such as a pipe, might block.
        if not location.is_file() or location.stat().st_size > MAX_FILE:
            return None if location.exists() else _MISSING
        text = location.read_bytes().decode()
    except (OSError, ValueError):
        return None
    return _FileText(text.removeprefix(_BYTE_ORDER_MARK).replace("\r", ""))


# --- checks ---


class _EditCheck(Protocol):
    """Checks one argument of an edit, as far as it has arrived.

    A check collects what the edit replaces. Once the file is known it checks what is new, and only
    that. It reports only what no tool could accept.
    """

    def add(self, piece: str) -> None:
        """Add a piece of the argument."""

    def end(self) -> None:
        """End the argument."""

    def replaces(self) -> bool:
        """Return whether anything is replaced so far."""

    def find_problem(self, file: _FileText) -> str | None:
        """Return why the edit does not fit *file*, or None."""


class _RemovedLinesCheck:
    """Checks that each line that a diff removes is in the file.

    Context lines are not checked, since many tools tolerate wrong ones. Neither is anything after a
    header of another file, or in another kind of patch.
    """

    def __init__(self) -> None:
        self._rest: list[str] = []  # the pieces of an unfinished line
        self._count = 0
        self._unchecked: list[tuple[int, str]] = []
        self._has_changes = False
        self._has_removed = False
        self._is_unknown = False  # another file, or another kind of patch

    def add(self, piece: str) -> None:
        """Add a piece of the diff."""
        self._rest.append(piece.replace("\r", ""))
        if "\n" in piece:
            *lines, rest = "".join(self._rest).split("\n")
            self._rest = [rest]
            for line in lines:
                self._take_line(line)

    def end(self) -> None:
        """End the diff, and with it its last line."""
        self._take_line("".join(self._rest))
        self._rest.clear()

    def replaces(self) -> bool:
        """Return whether any line is removed so far."""
        return self._has_removed

    def find_problem(self, file: _FileText) -> str | None:
        """Return which removed line is not in the file, or None."""
        unchecked, self._unchecked = self._unchecked, []
        for number, line in unchecked:
            if line.rstrip() not in file.lines:
                return (
                    f"line {number} of the diff removes a line that is not in the file:\n{line}\n"
                    + describe_nearest(file.text, line)
                )
        return None

    def _take_line(self, line: str) -> None:
        self._count += 1
        is_header = line.startswith(_HEADERS) or line.rstrip() == "---"
        if line.startswith(_OTHER_PATCHES) or (is_header and self._has_changes):
            self._is_unknown = True
        if self._is_unknown or is_header or not line.startswith(("-", "+")):
            return
        self._has_changes = True
        if line.startswith("-") and line[1:].strip():
            self._has_removed = True
            self._unchecked.append((self._count, line[1:]))


class _OldTextCheck:
    """Checks that the text to replace is in the file in one piece, but for line ends around it."""

    def __init__(self) -> None:
        self._new: list[str] = []
        self._pieces: list[str] = []
        self._length = 0
        self._at = 0  # where in the file the text may begin; -1 if nowhere
        self._line_ends = ""  # line ends that may be the last
        self._common = -1  # how much of the text is in the file, once it is known to differ
        self._is_whole = False

    def add(self, piece: str) -> None:
        """Add a piece of the text."""
        self._new.append(piece)

    def end(self) -> None:
        """End the text."""
        self._is_whole = True

    def replaces(self) -> bool:
        """Return whether there is any text so far."""
        return bool(self._length or self._new)

    def find_problem(self, file: _FileText) -> str | None:
        """Return which line is not in the file, or not after the lines before it, or None."""
        arrived = self._line_ends + "".join(self._new).replace("\r", "")
        self._new.clear()
        if not self._length:
            arrived = arrived.lstrip("\n")
        piece = arrived.rstrip("\n")
        self._line_ends = arrived[len(piece) :]
        self._pieces.append(piece)
        if self._at != -1 and not file.text.startswith(piece, self._at + self._length):
            self._pieces = ["".join(self._pieces)]
            self._at = file.text.find(self._pieces[0], self._at)
        self._length += len(piece)
        return self._explain(file) if self._at == -1 else None

    def _explain(self, file: _FileText) -> str | None:
        """Name the line that differs, once enough of it has arrived."""
        text = "".join(self._pieces)
        if self._common == -1:
            self._common = length_found(text, file.text)
        common = self._common
        begin = text.rfind("\n", 0, common) + 1
        end = text.find("\n", common)
        if end == -1:
            if not (self._is_whole or self._line_ends or len(text) - common > MAX_WAIT):
                return None
            end = len(text)
        number = text.count("\n", 0, common) + 1
        line = text[begin:end]
        if line.rstrip() in file.lines:
            return (
                f"line {number} of the text to replace does not follow the lines before it:\n{line}"
            )
        return (
            f"line {number} of the text to replace is not in the file:\n{line}\n"
            + describe_nearest(file.text, line)
        )


_CHECKS: Final[dict[str, type[_RemovedLinesCheck | _OldTextCheck]]] = {
    "diff": _RemovedLinesCheck,
    "patch": _RemovedLinesCheck,
    "old": _OldTextCheck,
    "old_text": _OldTextCheck,
    "old_string": _OldTextCheck,
}
