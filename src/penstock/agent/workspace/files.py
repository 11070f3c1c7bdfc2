"""The tools that read, write and list files; their docstrings are what the model reads."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

from msgspec import Meta

from penstock.agent.tools.base import ToolOutput
from penstock.agent.tools.contents import read_picture
from penstock.agent.workspace.diffs import changes_of, read_diff
from penstock.agent.workspace.finding import counted_lines, nearest, only_place, places_of
from penstock.agent.workspace.folder import Folder
from penstock.agent.workspace.showing import shown_diff
from penstock.agent.workspace.texts import TextFile, decoded, read_bytes, write_text
from penstock.errors import ToolError

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
            picture = read_picture(data)
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
