"""The tools that read, write and list files; their docstrings are what the model reads."""

from __future__ import annotations

import os
import secrets
import stat
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from penstock.agent.tools.base import ToolContext, ToolOutput
from penstock.agent.tools.results import read_image
from penstock.agent.workspace.patch import changes_of, read_diff, shown_diff
from penstock.agent.workspace.sandbox import SKIPPED, Folder, check_regular, failures_told
from penstock.agent.workspace.search import counted_lines, nearest, only_place, places_of
from penstock.errors import ToolError

# The tool that lists files, and the patterns it takes.
#
# A pattern is matched part by part, with the places that it could be at kept as a set, so that
# no pattern takes longer than its length times that of the path.


MAX_LISTED: Final = 1_000
"""How many paths are listed: with more, a narrower pattern is better."""

MAX_VISITED: Final = 200_000
"""How many files and folders are looked at before a search gives up."""

MAX_DEPTH: Final = 100
"""How deep a search goes: every level is held open, and nobody nests folders so."""


class DirectoryListing:
    """The tool that lists what is in *folder*."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def list_files(self, context: ToolContext, path: str = ".", pattern: str = "") -> str:
        """List what is in a folder, or find files below it by a pattern.

        :param path: The folder, relative to the working folder.
        :param pattern: Such as *.py or src/**/test_*.py: lists the files below the folder, at any
            depth, that match. Without it, the folder itself is listed; names of folders in it end
            in a slash.
        """
        real = self._folder.locate(path)
        with failures_told(path), self._folder.entered(real) as at:
            found = _matching(at, pattern, context) if pattern else _Found(sorted(_entries(at)))
        # Told as the other tools take it: from the working folder on.
        names = [str(real / name) + "/" * name.endswith("/") for name in found.names]
        return _listed(names, complete=found.complete)


def matches(path: str, pattern: str) -> bool:
    """Return whether *pattern* fits *path*: ``*`` within a part, ``**`` for any number of parts.

    A pattern without a slash fits the name of a file anywhere.
    """
    parts = path.split("/")
    if "/" not in pattern:
        return fnmatchcase(parts[-1], pattern)
    steps = pattern.removeprefix("./").split("/")
    at = _skip({0}, steps)
    for part in parts:
        at = _skip({after for step in at for after in _after(step, part, steps)}, steps)
    return len(steps) in at


def _after(step: int, part: str, steps: list[str]) -> Iterator[int]:
    if step < len(steps) and steps[step] == "**":
        yield step
    elif step < len(steps) and fnmatchcase(part, steps[step]):
        yield step + 1


def _skip(at: set[int], steps: list[str]) -> set[int]:
    """Add the places after each ``**``, which may stand for nothing."""
    for step in range(len(steps)):
        if step in at and steps[step] == "**":
            at.add(step + 1)
    return at


def _entries(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in SKIPPED:
                yield entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")


class _Found(NamedTuple):
    names: list[str]
    complete: bool = True


def _matching(start: int, pattern: str, context: ToolContext) -> _Found:
    found = []
    visited = 0
    complete = True
    for folder, folders, files, _ in os.fwalk(".", dir_fd=start):  # follows no links
        folders[:] = sorted(set(folders) - SKIPPED)
        visited += len(files) + len(folders)
        if folders and folder.count("/") >= MAX_DEPTH:
            folders.clear()
            complete = False
        for name in sorted(files):
            path = f"{folder}/{name}".removeprefix("./")
            if matches(path, pattern):
                found.append(path)
        if context.cancelled or visited > MAX_VISITED or len(found) > MAX_LISTED:
            return _Found(sorted(found), complete=False)
    return _Found(sorted(found), complete=complete)


def _listed(names: list[str], *, complete: bool) -> str:
    lines = names[:MAX_LISTED]
    if not complete or len(names) > MAX_LISTED:
        lines.append("(… and maybe more: the list was cut.)")
    return "\n".join(lines) or "(Nothing.)"


# Text files, as a model sees them and as they are kept.
#
# A model sees text without a byte order mark and with plain line ends, since that is what it
# writes. What it changes is put back in the file's own ways; what it does not touch stays as it
# is, byte for byte, also where a file mixes line ends.


MAX_FILE_BYTES: Final = 20_000_000
"""How large a file is read: larger ones are for tools that look at parts of them."""

_BOM: Final = "\ufeff"
_READ: Final = 1 << 20
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class TextFile:
    """The text of a file: *raw* as it is kept, `text` as a model sees it."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._mark = len(_BOM) if raw.startswith(_BOM) else 0
        kept = raw[self._mark :]
        self.text = kept.replace("\r\n", "\n")
        self._returns = _returns_in(kept)
        self.line_end = "\r\n" if len(self._returns) * 2 > self.text.count("\n") else "\n"

    def replaced(self, changes: list[tuple[int, int, str]]) -> str:
        """Return the raw text with pieces of `text` changed: (start, end, new text), in order."""
        raw = self.raw
        for start, end, new in reversed(changes):
            own = new.replace("\r\n", "\n").replace("\n", self.line_end)
            raw = raw[: self._raw_place(start)] + own + raw[self._raw_place(end) :]
        return raw

    def _raw_place(self, place: int) -> int:
        return self._mark + place + bisect_left(self._returns, place)


def read_bytes(folder: Folder, path: str) -> bytes:
    """Read the file at *path*, if it is not too large."""
    with folder.opened(path) as file:
        size = os.fstat(file).st_size
        if size > MAX_FILE_BYTES:
            raise ToolError(f"{path}: {size:,} bytes are too many to read.")
        pieces = []
        read = 0
        while piece := os.read(file, _READ):
            pieces.append(piece)
            read += len(piece)
            if read > MAX_FILE_BYTES:  # it grew, or it is one of those that have no size
                raise ToolError(f"{path}: more than {MAX_FILE_BYTES:,} bytes are too many to read.")
        return b"".join(pieces)


def decoded(path: str, data: bytes) -> TextFile:
    """Read *data* as text, or raise `ToolError`."""
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise ToolError(f"{path}: {len(data):,} bytes that are not UTF-8 text.") from exc
    if "\0" in text:
        raise ToolError(f"{path}: {len(data):,} bytes that are not text.")
    return TextFile(text)


def write_text(folder: Folder, path: str, text: str) -> bool:
    """Put *text* at *path*, whole or not at all; return whether the file is new.

    The file keeps its owner and its mode, as far as that is permitted; folders on the way are made.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise ToolError("The text holds half a surrogate pair, which no file can hold.") from exc
    real = folder.locate_to_write(path)
    with failures_told(path), folder.entered(real.parent, create=True) as at:
        return _replace(path, real, data, at)


def _replace(path: str, real: Path, data: bytes, at: int) -> bool:
    try:
        status = os.stat(real.name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    if status is not None:
        check_regular(path, status)
    draft = f".{secrets.token_hex(8)}.draft"
    # Without a file to take the mode from, the mode is what the system's mask leaves of this.
    file = os.open(draft, _NEW_FILE, 0o666 if status is None else 0o600, dir_fd=at)
    try:
        with os.fdopen(file, "wb") as output:
            output.write(data)
            output.flush()
            if status is not None:  # now, since writing takes away the right to run as the owner
                _keep_owner_and_mode(output.fileno(), status)
        os.replace(draft, real.name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.unlink(draft, dir_fd=at)
        raise
    return status is None


def _keep_owner_and_mode(file: int, status: os.stat_result) -> None:
    """Make *file* what *status* says; it never runs as somebody who was not its owner before."""
    for owner in (status.st_uid, -1):  # who may not give it away may still keep its group
        with suppress(OSError):
            os.fchown(file, owner, status.st_gid)
            break
    now = os.fstat(file)
    mode = stat.S_IMODE(status.st_mode)
    if now.st_uid != status.st_uid:
        mode &= ~stat.S_ISUID
    if now.st_gid != status.st_gid:
        mode &= ~stat.S_ISGID
    os.fchmod(file, mode)


def _returns_in(kept: str) -> list[int]:
    """List where, in the text with plain line ends, one stands that has a return before it."""
    places: list[int] = []
    at = kept.find("\r\n")
    while at != -1:
        places.append(at - len(places))
        at = kept.find("\r\n", at + 2)
    return places


MAX_LINES: Final = 2_000
"""How many lines are shown unless more are asked for: most files are shorter."""

MAX_SHOWN_CHARS: Final = 80_000
"""How much text is shown at once, however many lines are asked for."""


class Files:
    """The tools that work on the files of *folder*."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read_file(
        self,
        path: str,
        offset: Annotated[int, Meta(ge=1)] = 1,
        limit: Annotated[int, Meta(ge=1)] = MAX_LINES,
    ) -> Any:
        """Read a text file, or look at a picture.

        :param path: The file, relative to the working folder.
        :param offset: The first line to show, counted from 1.
        :param limit: How many lines to show.
        """
        data = read_bytes(self._folder, path)
        try:
            picture = read_image(data)
        except ToolError as exc:
            raise ToolError(f"{path}: {exc}.") from exc
        if picture is not None:
            return [picture]
        return _excerpt(decoded(path, data).text, offset, limit)

    def write_file(self, path: str, content: str) -> ToolOutput:
        """Write a file: make a new one, or replace all that is in it.

        :param path: The file, relative to the working folder; folders are made as needed.
        :param content: All of the new text.
        """
        new = write_text(self._folder, path, content)
        done = "Made" if new else "Replaced"
        return ToolOutput(f"{done} {path}: {_counted(content)}.")

    def edit_file(
        self,
        path: str,
        old: str | None = None,
        new: str | None = None,
        diff: str | None = None,
    ) -> ToolOutput:
        """Change parts of a text file, either by `old` and `new`, or by a `diff`.

        :param path: The file, relative to the working folder.
        :param old: The exact text to replace, white space included; it must be in the file once.
        :param new: The text to put in its place; empty to delete.
        :param diff: Lines with a first character that says what they are: a space for lines that
            stay, - for lines to remove, + for lines to add. Lines that stay say where it is.
            Parts that lie apart are separated by a line of @@.
        """
        file = decoded(path, read_bytes(self._folder, path))
        # Models that fill in every field leave empty what they do not mean.
        if diff and not old and not new:
            changes = changes_of(read_diff(diff), file.text)
        elif not diff and old is not None and new is not None:
            changes = [_replacement(file, old, new)]
        else:
            raise ToolError("Give either `old` and `new`, or `diff`.")
        raw = file.replaced(changes)
        if raw == file.raw:
            raise ToolError("Nothing would change: the new text is the old one.")
        write_text(self._folder, path, raw)
        said = f"Edited {path}, in {counted_lines([place for place, _, _ in changes], file.text)}."
        return ToolOutput(said, details=shown_diff(path, file.text, changes))


def _replacement(file: TextFile, old: str, new: str) -> tuple[int, int, str]:
    wanted, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not wanted:
        raise ToolError("`old` is empty. `write_file` writes a whole file.")
    places = places_of(file.text, wanted)
    if not places:
        raise ToolError(f"`old` is not in the file. {nearest(file.text, wanted)}")
    start = only_place(places, file.text)
    # What both have is not touched, so that its line ends stay what they are.
    same = _shared(wanted, new)
    rest, new = wanted[same:], new[same:]
    after = _shared(rest[::-1], new[::-1])
    start += same
    return start, start + len(rest) - after, new[: len(new) - after]


def _shared(one: str, other: str) -> int:
    """Count how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _excerpt(text: str, offset: int, limit: int) -> str:
    lines = _split(text)
    if not lines:
        return "(The file is empty.)"
    if offset > len(lines):
        raise ToolError(f"The file has only {len(lines)} lines.")
    shown: list[str] = []
    room = MAX_SHOWN_CHARS
    for line in islice(lines, offset - 1, offset - 1 + limit):
        if len(line) > room:
            break
        shown.append(line)
        room -= len(line)
    if not shown:
        return f"{lines[offset - 1][:MAX_SHOWN_CHARS]}\n(Line {offset} is cut: it is too long.)"
    last = offset - 1 + len(shown)
    if last == len(lines) and offset == 1:
        return "".join(shown)
    more = f"; go on with offset={last + 1}" if last < len(lines) else ""
    end = "" if shown[-1].endswith("\n") else "\n"
    return "".join(shown) + f"{end}(Lines {offset} to {last} of {len(lines)}{more}.)"


def _split(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _counted(text: str) -> str:
    lines = len(_split(text))
    return f"{len(text.encode()):,} bytes in {lines:,} line{'' if lines == 1 else 's'}"
