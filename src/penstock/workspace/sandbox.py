"""The folder that file tools cannot leave.

A path is resolved, with its links and ``..``, and the result has to be inside the folder. A link
could still be created between that check and the opening of the file. So each component of the
resolved path is then opened separately, from the folder down, and none of them may be a link.

Hard links and mounts of files from outside are not detected. `dir_fd` is needed, so this works on
POSIX systems only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.errors import ToolError, UsageError

SKIPPED: Final = frozenset({".git"})
"""Folders that are neither listed nor written to: `.git` is large, and git would run a hook written
to it."""

# Windows has neither flag. The module must be importable there: `Folder` says that it needs POSIX.
_STEP: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_REASONS: Final = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "it is a link that changed, or that leads to itself",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the disk is read-only",
}


class Folder:
    """The folder *root*; paths are relative to it, or absolute and inside."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise UsageError(f"the working folder {os.fspath(root)!r} is not a folder")

    def locate(self, path: str) -> Path:
        """Resolve *path*, relative to the folder; raise `ToolError` if it is outside."""
        if not path:
            raise ToolError("The path is empty.")
        if "\0" in path:
            raise ToolError("A path cannot contain a null character.")
        if path == "~" or path.startswith("~/"):
            raise ToolError(f"{path}: the home folder is outside the working folder.")
        try:
            real = Path(os.path.realpath(self.root / path))
        except (OSError, ValueError) as exc:
            raise ToolError(f"{path}: {explain_error(exc)}.") from exc
        # `realpath` has resolved links that lead out of the folder.
        if not real.is_relative_to(self.root):
            raise ToolError(f"{path}: outside the working folder. Only paths inside can be used.")
        return real.relative_to(self.root)

    def locate_to_write(self, path: str) -> Path:
        """Resolve *path* as `locate` does, if a file may be written there."""
        real = self.locate(path)
        if not real.name or os.path.basename(path) in {"", ".", ".."}:  # noqa: PTH119 - drops a slash
            raise ToolError(f"{path}: it is a folder.")
        skipped = next((part for part in real.parts if part.lower() in SKIPPED), None)
        if skipped is not None:
            raise ToolError(f"{path}: files in {skipped} cannot be written.")
        return real

    @contextmanager
    def open_folder(self, folder: Path, *, create: bool = False) -> Iterator[int]:
        """Open the resolved *folder* step by step; yield its descriptor.

        With *create*, missing folders are created.
        """
        at = os.open(self.root, _STEP)
        try:
            for part in folder.parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                below = os.open(part, _STEP, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    @contextmanager
    def open_file(self, path: str) -> Iterator[int]:
        """Open the regular file at *path* for reading; yield its descriptor."""
        real = self.locate(path)
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with tool_errors(path), self.open_folder(real.parent) as at:
            file = os.open(real.name or ".", flags, dir_fd=at)
            try:
                check_regular(path, os.fstat(file))
                yield file
            finally:
                os.close(file)


@contextmanager
def tool_errors(path: str) -> Iterator[None]:
    """Raise an error of the system as a `ToolError` about *path*."""
    try:
        yield
    except (OSError, ValueError) as exc:
        raise ToolError(f"{path}: {explain_error(exc)}.") from exc


def check_regular(path: str, status: os.stat_result) -> None:
    """Raise `ToolError` unless *status* is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path}: it is a folder. `list_files` shows what is in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: it is not a regular file.")


def explain_error(exc: OSError | ValueError) -> str:
    """Return the reason of *exc*, without paths of this machine."""
    if isinstance(exc, OSError) and exc.errno is not None:
        return _REASONS.get(exc.errno) or os.strerror(exc.errno)
    return str(exc)
