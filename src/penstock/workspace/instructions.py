"""The instructions of a project for agents: its AGENTS.md files.

The file of the project's root comes first and the nearest one last, so that the nearest has the
last word. The project is the folder with ``.git``, or the working folder itself if there is none
above. The text is marked as what it is: a part of the project, not of the user's request.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from msgspec import Struct, field

from penstock.agent.tools.results import cut_middle

# The name that agents of several vendors agreed on.
NAMES: Final = ("AGENTS.md",)
"""The names of files with instructions."""

MAX_CHARS: Final = 32_000
"""How many characters of all files are used: about 8,000 tokens."""

MAX_LEVELS: Final = 20
"""How many folders above the working folder are searched."""

_READ_BYTES: Final = 4 * MAX_CHARS
_INTRODUCTION: Final = (
    "The project has these instructions for agents. Follow them where they do not contradict the"
    " user; where two of them differ, the last one counts."
)


class ProjectInstructions(Struct, frozen=True):
    """The *files* with instructions, and their text for a system prompt; both may be empty."""

    files: list[Path] = field(default_factory=list)
    text: str = ""


def read_instructions(
    folder: str | os.PathLike[str], *, names: Sequence[str] = NAMES, max_chars: int = MAX_CHARS
) -> ProjectInstructions:
    """Read the instructions for work in *folder*.

    Files that are not regular, lead out of the project or cannot be read are skipped. Of longer
    texts than *max_chars* the middle is omitted; the nearest file gets the most of it.
    """
    start = Path(os.path.realpath(folder))
    root = _find_root(start)
    found: list[tuple[Path, str]] = []
    for path in _list_files(start, root, names):
        with suppress(OSError, ValueError):
            found.append((path, _read(path, root)))
    left = max_chars
    sections: list[str] = []
    # From the nearest file outwards, so that it is the last one to be cut.
    for path, text in reversed(found):
        kept = cut_middle(text, left) if left > 0 else ""
        left -= len(kept)
        name = path.relative_to(root).as_posix()
        if kept:
            sections.insert(0, f"<instructions path={quoteattr(name)}>\n{kept}\n</instructions>")
    if not sections:
        return ProjectInstructions()
    files = [path for path, _ in found]
    return ProjectInstructions(files, "\n\n".join([_INTRODUCTION, *sections]))


def _find_root(start: Path) -> Path:
    """Return the folder of the project: the nearest one with ``.git``."""
    for folder in (start, *list(start.parents)[:MAX_LEVELS]):
        if (folder / ".git").exists():
            return folder
    return start


def _list_files(start: Path, root: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the files from *root* down to *start*, one per folder."""
    folders = [start, *start.parents]
    for folder in reversed(folders[: folders.index(root) + 1]):
        for name in names:
            if (folder / name).is_file():
                yield folder / name
                break


def _read(path: Path, root: Path) -> str:
    # A link could otherwise put any file of the user into the prompt.
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise ValueError(f"{path} leads out of the project")
    with real.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        text = file.read(_READ_BYTES).decode("utf-8", "replace").strip()
    if not text:
        raise ValueError(f"{path} is empty")
    return text
