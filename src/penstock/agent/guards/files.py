"""What is in the files that a model edits, read when it is asked for and kept for a turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

MAX_FILE: Final = 1_000_000
"""How many bytes a file may have to be looked at: looking must be quick."""

MAX_FILES: Final = 16
"""How many files are kept at once; a turn edits a few."""

_MARK: Final = "\ufeff"


@dataclass(frozen=True)
class Content:
    """The text of a file as a model knows it: without a mark, and with plain line ends."""

    text: str

    @cached_property
    def lines(self) -> frozenset[str]:
        """All lines, without the white space at their ends."""
        return frozenset(line.rstrip() for line in self.text.split("\n"))


MISSING: Final = Content("")
"""What a file has that is not there."""


class Files:
    """The files under *root*; no other is ever looked at."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).resolve()
        self._kept: dict[Path, Content | None] = {}

    def forget(self) -> None:
        """Drop all: files may have changed."""
        self._kept.clear()

    def locate(self, path: str) -> Path | None:
        """Say where *path* leads, links followed; ``None`` is outside of the root, or nowhere."""
        try:
            place = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # too long, a null in it, links in a circle
            return None
        return place if path and place.is_relative_to(self._root) else None

    def look(self, place: Path) -> Content | None:
        """Read the file at *place*; `MISSING` if there is none, ``None`` if it is not for us."""
        if place not in self._kept:
            if len(self._kept) >= MAX_FILES:
                self._kept.clear()
            self._kept[place] = _read(place)
        return self._kept[place]


def _read(place: Path) -> Content | None:
    try:
        # Anything but a plain file might keep us waiting.
        if not place.is_file() or place.stat().st_size > MAX_FILE:
            return None if place.exists() else MISSING
        text = place.read_bytes().decode()
    except (OSError, ValueError):
        return None
    return Content(text.removeprefix(_MARK).replace("\r", ""))
