"""The tool `apply_patch`, with the patch grammar that OpenAI's coding models were trained on.

::

    *** Begin Patch
    *** Add File: PATH          then lines with +
    *** Delete File: PATH
    *** Update File: PATH       then [*** Move to: PATH] and hunks
    *** End Patch

A hunk begins with ``@@``, perhaps followed by a line of the file that is before the change, such as
the head of a function. Its lines begin with a space, - or +. ``*** End of File`` after it says that
it is at the end of the file.

A patch is applied as a whole: every hunk is found before anything is written.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.agent.tools.base import ToolOutput
from penstock.errors import ToolError
from penstock.workspace.files import decode_file, read_bytes, write_text
from penstock.workspace.patch import Change, Hunk, fit_changes, render_diff, split_changes
from penstock.workspace.sandbox import Folder, check_regular, tool_errors
from penstock.workspace.search import check_single, describe_nearest, find_places, line_at

# The form that OpenAI's models were trained on (Codex). It has no line numbers: hunks are found by
# their text.
BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"

MAX_FILES: Final = 100
"""How many files one patch can change."""

_HEADER: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)")
_MOVE: Final = "*** Move to: "
_END_OF_FILE: Final = "*** End of File"


@dataclass
class PatchHunk:
    """One hunk: the lines *before* it that are named, its lines, and whether it ends the file."""

    before: list[str] = field(default_factory=list)
    hunk: Hunk = field(default_factory=Hunk)
    at_end: bool = False


@dataclass
class FilePatch:
    """What a patch does with one file."""

    kind: Literal["Add", "Delete", "Update"]
    path: str
    move_to: str = ""
    hunks: list[PatchHunk] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass
class _Plan:
    """A change that was checked: what is written where, and what is removed."""

    summary: str
    diff: str
    write: tuple[str, str] | None = None
    remove: str = ""
    like: os.stat_result | None = None  # of a file that is moved: an executable one stays so


# --- reading ---


def read_patch(patch: str) -> list[FilePatch]:
    """Read *patch*; raise `ToolError` if it is not valid."""
    lines = patch.replace("\r\n", "\n").strip("\n").split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolError(f"The patch must begin with `{BEGIN}` and end with `{END}`.")
    files: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        if header := _HEADER.fullmatch(line.rstrip()):
            kind: Literal["Add", "Delete", "Update"] = header[1]  # type: ignore[assignment]
            files.append(FilePatch(kind, header[2].strip()))
        elif not files:
            raise ToolError(f"Line {number} of the patch is not part of a file: {line!r}.")
        else:
            _read_line(files[-1], line, number)
    _check_files(files)
    return files


def _read_line(file: FilePatch, line: str, number: int) -> None:
    if file.kind == "Add" and line.startswith("+"):
        file.lines.append(line[1:])
    elif file.kind == "Update" and line.startswith(_MOVE) and not file.hunks:
        file.move_to = line.removeprefix(_MOVE).strip()
    elif file.kind == "Update":
        _read_hunk_line(file, line, number)
    elif line.strip():
        expected = "a line with +" if file.kind == "Add" else "nothing"
        raise ToolError(f"Line {number} of the patch: expected {expected}, got {line!r}.")


def _read_hunk_line(file: FilePatch, line: str, number: int) -> None:
    if line.startswith("@@"):
        # Codex writes "@@ def f():", and models add the second "@@" of unified diffs.
        anchor = line[2:].removeprefix(" ").removesuffix("@@").rstrip()
        last = file.hunks[-1] if file.hunks else None
        if last is None or last.hunk.lines:
            file.hunks.append(last := PatchHunk())
        last.before += [anchor] if anchor else []
        return
    if not file.hunks:
        file.hunks.append(PatchHunk())
    hunk = file.hunks[-1]
    if line.rstrip() == _END_OF_FILE:
        hunk.at_end = True
        return
    sign = line[:1] or " "  # models often drop the space of an empty line
    if sign not in {" ", "-", "+"} or line.startswith("*** "):
        raise ToolError(f"Line {number} of the patch must begin with a space, - or +: {line!r}.")
    hunk.hunk.lines.append((sign, line[1:]))
    hunk.hunk.blanks = 0 if line else hunk.hunk.blanks + 1


def _check_files(files: list[FilePatch]) -> None:
    if not files:
        raise ToolError("The patch changes no files.")
    if len(files) > MAX_FILES:
        raise ToolError(f"The patch changes more than {MAX_FILES} files.")
    seen: set[str] = set()
    for file in files:
        for path in filter(None, (file.path, file.move_to)):
            if os.path.normpath(path) in seen:
                raise ToolError(f"{path}: a patch can change a file only once.")
            seen.add(os.path.normpath(path))
        file.hunks = [one for one in file.hunks if one.hunk.changes]
        if file.kind == "Update" and not file.hunks and not file.move_to:
            raise ToolError(f"{file.path}: the patch changes nothing.")


# --- finding the hunks ---


def find_patch_changes(hunks: list[PatchHunk], text: str) -> list[Change]:
    """Find every hunk in *text*, in order; return its changes.

    A hunk must be in the rest of the file once, or be the first one after the lines that its header
    names. Raises `ToolError` if it is not.
    """
    whole = text if text.endswith("\n") or not text else text + "\n"
    changes: list[Change] = []
    at = 0
    for one in hunks:
        start = at
        for anchor in one.before:
            start = _find_anchor(anchor, whole, start)
        place, hunk = _find_hunk(one, whole, start)
        changes += split_changes(hunk, place)
        at = place + sum(len(line) + 1 for line in hunk.old)
    return fit_changes(changes, text)


def _find_anchor(anchor: str, text: str, start: int) -> int:
    """Return the end of the line *anchor* after *start*; white space around it does not matter."""
    pattern = re.compile(rf"^[ \t]*{re.escape(anchor.strip())}[ \t]*\n", re.MULTILINE)
    if found := pattern.search(text, start):
        return found.end()
    raise ToolError(
        f"The line after @@ is not in the file: {anchor}\n{describe_nearest(text, anchor)}"
    )


def _find_hunk(one: PatchHunk, text: str, start: int) -> tuple[int, Hunk]:
    """Return the offset of a hunk at or after *start*, and the hunk as it fits."""
    candidates = [one.hunk]
    if one.hunk.blanks:  # blank lines before the next header may not be part of it
        candidates.append(Hunk(None, one.hunk.lines[: -one.hunk.blanks]))
    for hunk in candidates:
        old = "".join(f"{line}\n" for line in hunk.old)
        if not old:
            # Added lines without context: after the named line, or at the end of the file.
            return (start if one.before and not one.at_end else len(text)), hunk
        places = [place for place in find_places(f"\n{text}", f"\n{old}") if place >= start]
        if one.at_end:
            places = [place for place in places if place + len(old) == len(text)]
        if places:
            return (places[0] if one.before else check_single(places, text)), hunk
    old = "".join(f"{line}\n" for line in one.hunk.old)
    where = f" after line {line_at(text, start)}" if start else ""
    raise ToolError(
        f"These lines of the patch are not in the file{where}:\n{old}{describe_nearest(text, old)}"
    )


# --- the tool ---


class PatchApplier:
    """The tool that applies patches to the files of *folder*."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def apply_patch(self, patch: str) -> ToolOutput:
        """Change, add, delete or move files by a patch.

        :param patch: The whole patch, from *** Begin Patch to *** End Patch.
        """
        # Everything is checked before anything is written: a patch that fails in its last file
        # changes nothing.
        plans = [self._plan(file) for file in read_patch(patch)]
        done: list[str] = []
        for plan in plans:
            try:
                if plan.write is not None:
                    write_text(self._folder, *plan.write, plan.like)
                if plan.remove:
                    self._remove(plan.remove)
            except ToolError as exc:
                before = f" Done before: {'; '.join(done)}." if done else ""
                raise ToolError(f"{exc}{before}") from exc
            done.append(plan.summary)
        return ToolOutput("\n".join(done), details="\n".join(plan.diff for plan in plans))

    def preview_patch(self, patch: str) -> str:
        """Return the diff that `apply_patch` would make; raise `ToolError` where it would."""
        return "\n".join(self._plan(file).diff for file in read_patch(patch))

    def _plan(self, file: FilePatch) -> _Plan:
        """Check one file of a patch, and return what to do."""
        path = file.path
        if file.kind == "Add":
            self._check_missing(path)
            text = "".join(f"{line}\n" for line in file.lines)
            diff = render_diff(path, "", [(0, 0, text)] if text else [])
            return _Plan(f"Added {path}", diff, (path, text))
        old = decode_file(path, read_bytes(self._folder, path))
        real = self._folder.locate_to_write(path)
        if file.kind == "Delete":
            diff = render_diff(path, old.text, [(0, len(old.text), "")] if old.text else [])
            return _Plan(f"Deleted {path}", diff, remove=path)
        changes = find_patch_changes(file.hunks, old.text)
        raw = old.replace(changes)
        if raw == old.raw and not file.move_to:
            raise ToolError(f"{path}: nothing would change.")
        diff = render_diff(file.move_to or path, old.text, changes)
        if not file.move_to:
            return _Plan(f"Updated {path}", diff, (path, raw))
        self._check_missing(file.move_to)
        like = (self._folder.root / real).lstat()
        return _Plan(f"Moved {path} to {file.move_to}", diff, (file.move_to, raw), path, like)

    def _check_missing(self, path: str) -> None:
        real = self._folder.root / self._folder.locate_to_write(path)
        if os.path.lexists(real):
            # A model adds a file that exists if it does not know about it: its content would be
            # lost.
            raise ToolError(f"{path}: the file exists already. Use *** Update File.")

    def _remove(self, path: str) -> None:
        real = self._folder.locate_to_write(path)
        with tool_errors(path), self._folder.open_folder(real.parent) as at:
            status = None
            with suppress(FileNotFoundError):
                status = os.stat(real.name, dir_fd=at, follow_symlinks=False)
            if status is None:
                raise ToolError(f"{path}: there is no such file.")
            check_regular(path, status)
            os.unlink(real.name, dir_fd=at)
