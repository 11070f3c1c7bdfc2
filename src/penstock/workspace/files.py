"""The tools that read, write and list files; the model reads their docstrings.

A model sees text without a byte order mark and with plain line ends, since that is how it writes.
Its changes are written in the file's own style. Everything else in the file stays the same, byte
for byte, even if the file mixes line ends.
"""

from __future__ import annotations

import os
import secrets
import stat
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any, Final

from msgspec import Meta

from penstock.agent.tools.base import ToolContext, ToolOutput
from penstock.agent.tools.results import read_image
from penstock.errors import ToolError
from penstock.workspace.patch import Change, find_changes, read_diff, render_diff
from penstock.workspace.sandbox import SKIPPED, Folder, check_regular, tool_errors
from penstock.workspace.search import check_single, describe_nearest, find_places, list_lines

MAX_LISTED: Final = 1_000
"""How many paths are listed: if there are more, a narrower pattern is better."""

MAX_VISITED: Final = 200_000
"""How many files and folders a search visits."""

MAX_DEPTH: Final = 100
"""How deep a search goes: each level keeps a descriptor open."""

MAX_FILE_BYTES: Final = 20_000_000
"""How large a file can be read; larger ones are for tools that read parts of them."""

MAX_LINES: Final = 2_000
"""How many lines are shown by default: most files are shorter."""

MAX_SHOWN_CHARS: Final = 80_000
"""How many characters are shown at once, however many lines are requested."""

_BOM: Final = "\ufeff"
_READ_BYTES: Final = 1 << 20
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class Files:
    """The tools that read, list and change the files of *folder*."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read_file(
        self,
        path: str,
        offset: Annotated[int, Meta(ge=1)] = 1,
        limit: Annotated[int, Meta(ge=1)] = MAX_LINES,
    ) -> Any:
        """Read a text file, or look at an image.

        :param path: The file, relative to the working folder.
        :param offset: The first line to show, counted from 1.
        :param limit: How many lines to show.
        """
        data = read_bytes(self._folder, path)
        try:
            image = read_image(data)
        except ToolError as exc:
            raise ToolError(f"{path}: {exc}.") from exc
        if image is not None:
            return [image]
        return _show_lines(decode_file(path, data).text, offset, limit)

    def list_files(self, context: ToolContext, path: str = ".", pattern: str = "") -> str:
        """List what is in a folder, or find files below it by a pattern.

        :param path: The folder, relative to the working folder.
        :param pattern: Such as *.py or src/**/test_*.py: lists the files below the folder, at any
            depth, that match. Without it, the folder itself is listed; names of folders in it end
            in a slash.
        """
        real = self._folder.locate(path)
        is_complete = True
        with tool_errors(path), self._folder.open_folder(real) as at:
            if pattern:
                names, is_complete = _search(at, pattern, context)
            else:
                names = sorted(_list_entries(at))
        # Relative to the working folder, as the other tools take them.
        lines = [str(real / name) + "/" * name.endswith("/") for name in names[:MAX_LISTED]]
        if not is_complete or len(names) > MAX_LISTED:
            lines.append("(… and maybe more: the list was cut.)")
        return "\n".join(lines) or "(Nothing.)"

    def write_file(self, path: str, content: str) -> ToolOutput:
        """Write a file: create a new one, or replace all of its content.

        :param path: The file, relative to the working folder; missing folders are created.
        :param content: All of the new text.
        """
        is_new = write_text(self._folder, path, content)
        lines = len(_split_lines(content))
        size = f"{len(content.encode()):,} bytes in {lines:,} line{'' if lines == 1 else 's'}"
        return ToolOutput(f"{'Created' if is_new else 'Replaced'} {path}: {size}.")

    def edit_file(
        self, path: str, old: str | None = None, new: str | None = None, diff: str | None = None
    ) -> ToolOutput:
        """Change parts of a text file, either by `old` and `new`, or by a `diff`.

        :param path: The file, relative to the working folder.
        :param old: The exact text to replace, white space included; it must be in the file once.
        :param new: The text to put in its place; empty to delete.
        :param diff: Lines that each begin with a sign: a space for lines that stay, - for lines to
            remove, + for lines to add. Lines that stay show where the change is. Separate
            distant parts by a line of @@.
        """
        file, changes = self._plan_edit(path, old, new, diff)
        write_text(self._folder, path, file.replace(changes))
        places = [place for place, _, _ in changes]
        return ToolOutput(
            f"Edited {path}, in {list_lines(places, file.text)}.",
            details=render_diff(path, file.text, changes),
        )

    def preview_edit(self, path: str, **arguments: str | None) -> str:
        """Return the diff that `edit_file` would make; raise `ToolError` where it would."""
        texts = (arguments.get(name) for name in ("old", "new", "diff"))
        file, changes = self._plan_edit(path, *texts)
        return render_diff(path, file.text, changes)

    def _plan_edit(
        self, path: str, old: str | None, new: str | None, diff: str | None
    ) -> tuple[TextFile, list[Change]]:
        """Return the file and the changes to make, which change something."""
        file = decode_file(path, read_bytes(self._folder, path))
        # Models that fill in every field leave those empty that they do not mean.
        if diff and not old and not new:
            changes = find_changes(read_diff(diff), file.text)
        elif not diff and old is not None and new is not None:
            changes = [_find_replacement(file, old, new)]
        else:
            raise ToolError("Pass either `old` and `new`, or `diff`.")
        if file.replace(changes) == file.raw:
            raise ToolError("Nothing would change: the new text is the same as the old one.")
        return file, changes


def _find_replacement(file: TextFile, old: str, new: str) -> Change:
    wanted, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not wanted:
        raise ToolError("`old` is empty. `write_file` writes a whole file.")
    places = find_places(file.text, wanted)
    if not places:
        raise ToolError(f"`old` is not in the file. {describe_nearest(file.text, wanted)}")
    start = check_single(places, file.text)
    # A common beginning and end are not touched, so that their line ends stay the same.
    head = _count_common(wanted, new)
    rest, new = wanted[head:], new[head:]
    tail = _count_common(rest[::-1], new[::-1])
    start += head
    return start, start + len(rest) - tail, new[: len(new) - tail]


def _count_common(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _show_lines(text: str, offset: int, limit: int) -> str:
    lines = _split_lines(text)
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
    more = f"; continue with offset={last + 1}" if last < len(lines) else ""
    end = "" if shown[-1].endswith("\n") else "\n"
    return "".join(shown) + f"{end}(Lines {offset} to {last} of {len(lines)}{more}.)"


def _split_lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


# --- text files ---


class TextFile:
    """The text of a file: *raw* as it is stored, `text` as a model sees it."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._mark = len(_BOM) if raw.startswith(_BOM) else 0
        stored = raw[self._mark :]
        self.text = stored.replace("\r\n", "\n")
        self._returns: list[int] = []  # the offsets in `text` of line ends with a return
        at = stored.find("\r\n")
        while at != -1:
            self._returns.append(at - len(self._returns))
            at = stored.find("\r\n", at + 2)
        self.line_end = "\r\n" if len(self._returns) * 2 > self.text.count("\n") else "\n"

    def replace(self, changes: list[Change]) -> str:
        """Return the raw text after *changes* of `text`, which are in order."""
        raw = self.raw
        for start, end, new in reversed(changes):
            styled = new.replace("\r\n", "\n").replace("\n", self.line_end)
            raw = raw[: self._raw_offset(start)] + styled + raw[self._raw_offset(end) :]
        return raw

    def _raw_offset(self, offset: int) -> int:
        return self._mark + offset + bisect_left(self._returns, offset)


def read_bytes(folder: Folder, path: str) -> bytes:
    """Read the file at *path*; raise `ToolError` if it is too large."""
    with folder.open_file(path) as file:
        size = os.fstat(file).st_size
        if size > MAX_FILE_BYTES:
            raise ToolError(f"{path}: {size:,} bytes are too many to read.")
        pieces = []
        read = 0
        while piece := os.read(file, _READ_BYTES):
            pieces.append(piece)
            read += len(piece)
            if read > MAX_FILE_BYTES:  # it grew, or it is a file without a size, as in /proc
                raise ToolError(f"{path}: more than {MAX_FILE_BYTES:,} bytes are too many to read.")
        return b"".join(pieces)


def decode_file(path: str, data: bytes) -> TextFile:
    """Decode *data* as text; raise `ToolError` if it is not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise ToolError(f"{path}: {len(data):,} bytes that are not UTF-8 text.") from exc
    if "\0" in text:
        raise ToolError(f"{path}: {len(data):,} bytes that are not text.")
    return TextFile(text)


def write_text(folder: Folder, path: str, text: str, like: os.stat_result | None = None) -> bool:
    """Write *text* to *path* atomically; return whether the file is new.

    The file keeps its owner and its mode as far as permitted; a new one gets those of *like*.
    Missing folders are created.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise ToolError("The text contains half a surrogate pair, which is not UTF-8.") from exc
    real = folder.locate_to_write(path)
    with tool_errors(path), folder.open_folder(real.parent, create=True) as at:
        status = None
        with suppress(FileNotFoundError):
            status = os.stat(real.name, dir_fd=at, follow_symlinks=False)
            check_regular(path, status)
        # A rename is atomic: readers see the old or the new text, and a full disk changes nothing.
        draft = f".{secrets.token_hex(8)}.draft"
        # The mode of a new file is this, less the umask.
        kept = like if status is None else status
        mode = 0o666 if kept is None else 0o600
        file = os.open(draft, _NEW_FILE, mode, dir_fd=at)
        try:
            with os.fdopen(file, "wb") as output:
                output.write(data)
                output.flush()
                if kept is not None:  # after writing, which removes the setuid bit
                    _copy_owner_and_mode(output.fileno(), kept)
            os.replace(draft, real.name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            os.unlink(draft, dir_fd=at)
            raise
    return status is None


def _copy_owner_and_mode(file: int, status: os.stat_result) -> None:
    """Copy *status* to *file*; setuid and setgid are dropped if the owner or group differs."""
    for owner in (status.st_uid, -1):  # a user who may not change the owner may keep the group
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


# --- listing ---


def _list_entries(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in SKIPPED:
                yield entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")


def _search(start: int, pattern: str, context: ToolContext) -> tuple[list[str], bool]:
    """Return the files below *start* that match, and whether the search is complete."""
    found = []
    visited = 0
    is_complete = True
    for folder, folders, files, _ in os.fwalk(".", dir_fd=start):  # does not follow links
        folders[:] = sorted(set(folders) - SKIPPED)
        visited += len(files) + len(folders)
        if folders and folder.count("/") >= MAX_DEPTH:
            folders.clear()
            is_complete = False
        for name in sorted(files):
            path = f"{folder}/{name}".removeprefix("./")
            if matches(path, pattern):
                found.append(path)
        if context.cancelled or visited > MAX_VISITED or len(found) > MAX_LISTED:
            return sorted(found), False
    return sorted(found), is_complete


def matches(path: str, pattern: str) -> bool:
    """Return whether *pattern* matches *path*: ``*`` within a part, ``**`` any number of parts.

    A pattern without a slash matches the name of a file anywhere. The cost is at most the length of
    the pattern times that of the path: all positions in the pattern are tracked as a set.
    """
    parts = path.split("/")
    if "/" not in pattern:
        return fnmatchcase(parts[-1], pattern)
    steps = pattern.removeprefix("./").split("/")
    positions = _skip_stars({0}, steps)
    for part in parts:
        after = set()
        for at in positions:
            if at < len(steps) and steps[at] == "**":
                after.add(at)
            elif at < len(steps) and fnmatchcase(part, steps[at]):
                after.add(at + 1)
        positions = _skip_stars(after, steps)
    return len(steps) in positions


def _skip_stars(positions: set[int], steps: list[str]) -> set[int]:
    """Add the positions after each ``**``, which may match no part."""
    for at in range(len(steps)):
        if at in positions and steps[at] == "**":
            positions.add(at + 1)
    return positions
