"""The tool that lists files, and the patterns it takes.

A pattern is matched part by part, with the places that it could be at kept as a set, so that no
pattern takes longer than its length times that of the path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from penstock.agent.tools.base import ToolContext
from penstock.agent.workspace.folder import SKIPPED, Folder, failures_told

MAX_LISTED: Final = 1_000
"""How many paths are listed: with more, a narrower pattern is better."""

MAX_VISITED: Final = 200_000
"""How many files and folders are looked at before a search gives up."""

MAX_DEPTH: Final = 100
"""How deep a search goes: every level is held open, and nobody nests folders so."""


class Listing:
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
    """Tell whether *pattern* fits *path*: ``*`` within a part, ``**`` for any number of parts.

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
    """Add the places behind each ``**``, which may stand for nothing."""
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
