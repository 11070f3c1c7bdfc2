"""The folder that the tools may not leave.

A path is taken to where it really leads, links and ``..`` resolved, and that place has to be in the
folder. Between that look and the opening somebody could put a link in the way, so every step of the
real path is then opened by itself, from the folder down, and none of them may be a link.

What this cannot see is a hard link, or a mount, to a file of elsewhere. It needs `dir_fd`, so it
works on POSIX systems.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.errors import ToolError, UsageError

SKIPPED: Final = frozenset({".git"})
"""Folders that are neither listed nor written to: a repository's own store is noise, and large, and
a hook in it would run by itself."""

_STEP: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_REASONS: Final = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "it is a link that changed, or that leads to itself",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the disk cannot be written to",
}


class Folder:
    """A folder, and what can be opened in it; paths are relative to it, or absolute and inside."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise UsageError(f"the working folder {os.fspath(root)!r} is no folder")

    def locate(self, path: str) -> Path:
        """Say where *path* really is, relative to the folder; raise `ToolError` if outside."""
        if not path:
            raise ToolError("The path is empty.")
        if "\0" in path:
            raise ToolError("A path cannot hold a null character.")
        if path == "~" or path.startswith("~/"):
            raise ToolError(f"{path}: the home folder is outside the working folder.")
        try:
            real = Path(os.path.realpath(self.root / path))
        except (OSError, ValueError) as exc:
            raise ToolError(f"{path}: {explained(exc)}.") from exc
        if not real.is_relative_to(self.root):
            raise ToolError(f"{path}: outside the working folder. Only paths inside can be used.")
        return real.relative_to(self.root)

    def locate_to_write(self, path: str) -> Path:
        """Say where *path* really is, as `locate`, if a file may be written there."""
        real = self.locate(path)
        if not real.name or os.path.basename(path) in {"", ".", ".."}:  # noqa: PTH119 - drops a slash
            raise ToolError(f"{path}: it is a folder.")
        kept = next((part for part in real.parts if part.lower() in SKIPPED), None)
        if kept is not None:
            raise ToolError(f"{path}: nothing is written in {kept}, which keeps a repository.")
        return real

    @contextmanager
    def entered(self, folder: Path, *, create: bool = False) -> Iterator[int]:
        """Open the real *folder* step by step and return its descriptor.

        *create* what is missing.
        """
        at = os.open(self.root, _STEP)
        try:
            for part in folder.parts:
                if create:
                    _make_folder(part, at)
                below = os.open(part, _STEP, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open the regular file at *path* for reading and return its descriptor."""
        real = self.locate(path)
        # Opening a pipe to read would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with failures_told(path), self.entered(real.parent) as at:
            file = os.open(real.name or ".", flags, dir_fd=at)
            try:
                check_regular(path, os.fstat(file))
                yield file
            finally:
                os.close(file)


@contextmanager
def failures_told(path: str) -> Iterator[None]:
    """Raise `ToolError` with words for the model where the system refuses *path*."""
    try:
        yield
    except (OSError, ValueError) as exc:
        raise ToolError(f"{path}: {explained(exc)}.") from exc


def check_regular(path: str, status: os.stat_result) -> None:
    """Refuse what is not a plain file: a folder, a pipe, a device."""
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path}: it is a folder. `list_files` shows what is in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: it is no regular file.")


def explained(exc: OSError | ValueError) -> str:
    """Say what the system refused, without paths of this machine."""
    if isinstance(exc, OSError) and exc.errno is not None:
        return _REASONS.get(exc.errno) or os.strerror(exc.errno)
    return str(exc)


def _make_folder(name: str, at: int) -> None:
    try:
        os.mkdir(name, dir_fd=at)
    except FileExistsError:
        return
