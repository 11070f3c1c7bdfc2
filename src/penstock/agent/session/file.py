"""A session in a file: one line of JSON for each entry, only ever added to.

A line is written by one call to the system, after everything that is there, before `append`
returns; so a killed process can leave half of its last line at most. Whoever opens the file next
moves that half to a file beside it (``.torn``), and every whole line is still there. What a failed
write left is cut off before the next. A line in the middle that cannot be read is passed over and
told.

One session at a time writes to a file: it holds a lock, where the system has them. Files are
touched on threads of their own, lest a slow disk stop the loop, or busy tools a write.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, TypeVar

from msgspec import structs

from penstock.agent.session.entries import Contents, EntryLine, MessageEntry, read_line, read_lines
from penstock.agent.session.storage import (
    MAX_LISTED,
    SessionError,
    SessionGoneError,
    SessionInfo,
    check_id,
    chosen,
    describe,
)
from penstock.errors import JSONParseError, UsageError

if sys.platform != "win32":  # there, two writers are the user's to avoid
    import fcntl

THREADS: Final = 4
"""How many sessions touch their files at once: a disk does not serve more of them faster."""

OPENING: Final = b'{"type":"session"'
"""What a file begins with, if it is one of ours."""

_THREADS: Final = ThreadPoolExecutor(THREADS, "penstock: session")
_FLAGS: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

Result = TypeVar("Result")


async def on_thread(work: Callable[[], Result]) -> Result:
    """Do *work* on one of the threads for files."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def read_session(path: str | Path) -> Contents:
    """Read the record at *path*, whoever writes to it; it is left as it is.

    Raises `SessionError` if there is no such file, or it is not a record.
    """
    with _told("read"), Path(path).open("rb") as file:
        contents, torn = _read(file)
    if torn:
        contents.unread += 1
    return contents


class FileSessionWriter:
    """The record of a session in the file *path*, which is made with the first line.

    A *durable* one waits until the disk has each line: then a power cut loses none either.
    """

    def __init__(self, path: str | Path, *, durable: bool = False) -> None:
        self.path = Path(path).absolute()
        self._durable = durable
        self._descriptor: int | None = None
        self._size = 0  # as far as we wrote it
        self._is_dirty = False  # after `size` there is what a failed write left
        self._is_closed = False
        self._lock = Lock()

    async def open(self) -> Contents:
        """Read what there is; cut off half a line at its end."""
        try:
            return await on_thread(self._open)
        except asyncio.CancelledError:
            _THREADS.submit(self._close)  # whether the thread had begun or not
            raise

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Write *lines* to the end of the file, which is made if it is not there yet."""
        data = b"".join(line.data + b"\n" for line in lines)
        await on_thread(lambda: self._append(data))

    async def close(self) -> None:
        """Let go of the file, also if nobody waits for it."""
        await asyncio.shield(on_thread(self._close))

    # --- on a thread ---

    def _open(self) -> Contents:
        with self._lock, _told("opened"):
            self._check_open()
            try:
                self._descriptor = os.open(self.path, _FLAGS)
            except FileNotFoundError:
                return Contents()
            try:
                self._take()
                return self._mend()
            except BaseException:
                self._let_go()
                raise

    def _append(self, data: bytes) -> None:
        with self._lock, _told("written"):
            self._check_open()
            if self._descriptor is None:
                self._make()
            self._check_there()
            if self._is_dirty:
                os.ftruncate(self._number, self._size)
            elif os.fstat(self._number).st_size != self._size:
                data = b"\n" + data  # an editor wrote to it, perhaps half a line
            self._is_dirty = True
            _write(self._number, data)
            if self._durable:
                os.fsync(self._number)
            self._check_there()
            self._is_dirty = False
            self._size = os.fstat(self._number).st_size

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._let_go()

    @property
    def _number(self) -> int:
        assert self._descriptor is not None  # noqa: S101 - asked for only while it is open
        return self._descriptor

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("the session's file has been closed")

    def _check_there(self) -> None:
        """Raise if the open file is no longer the one of that name: nobody would find it."""
        here = os.fstat(self._number)
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            self._let_go()
            raise SessionGoneError("the session's file was moved or deleted")

    def _make(self) -> None:
        """Make the file, for its owner alone: it holds what people asked."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SessionError(f"there is another file by now: {self.path.name}") from None
        self._take()
        self._size = 0
        self._is_dirty = False
        if self._durable:
            _sync_folder(self.path.parent)

    def _take(self) -> None:
        """Keep others from writing, or raise because another does, or it is not a file."""
        if not stat.S_ISREG(os.fstat(self._number).st_mode):  # a pipe would never end
            raise SessionError("the session's file is no file")
        if not _lock(self._number):
            self._let_go()
            raise SessionError(f"another session has the file open: {self.path.name}")

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _mend(self) -> Contents:
        """Read the file; take half a line away from its end, or complete a whole one."""
        with os.fdopen(os.dup(self._number), "rb") as file:
            file.seek(0)
            contents, torn = _read(file)
            self._size = file.tell()
            file.seek(max(0, self._size - 1))
            last = file.read(1)
        if torn:
            beside = self.path.with_name(f"{self.path.name}.torn")
            with beside.open("ab") as file:
                file.write(torn + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self._size -= len(torn)
            os.ftruncate(self._number, self._size)
        elif last not in (b"", b"\n"):
            _write(self._number, b"\n")
            self._size += 1
        return contents


def _read(file: BinaryIO) -> tuple[Contents, bytes]:
    """Read a record, and what is torn at its end; raise `SessionError` if it is not a record."""
    torn: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for line in file:
            if line.endswith(b"\n") or _is_whole(line):
                yield line
            else:
                torn.append(line)

    contents = read_lines(lines())
    tail = b"".join(torn)
    is_ours = contents.header is not None or contents.entries
    if not is_ours and (contents.unread or not _may_be_opening(tail)):
        raise SessionError("the file is not the record of a session")
    return contents, tail


def _is_whole(line: bytes) -> bool:
    """Return whether a last line lacks nothing but its end.

    No piece of a JSON object is one too.
    """
    try:
        read_line(line.strip())
    except JSONParseError:
        return False
    return True


def _may_be_opening(tail: bytes) -> bool:
    return tail.startswith(OPENING) or OPENING.startswith(tail)


def _lock(descriptor: int) -> bool:
    """Take the lock of a file; return whether it was free, as far as the system can say."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
    return True


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system opens folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Yield an error of the system as ours."""
    try:
        yield
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise SessionError(f"the session's file cannot be {what}: {reason}") from exc


# Sessions in a folder, a file each, and a list of them that does not read them whole.
#
# A list needs the beginning of a file (the header, the first prompt) and its end (the last
# message with its number, the title, which is written again before it is too far back:
# `TITLE_EVERY`). Where these do not tell, because a line is longer than what is looked at, the
# file is read whole.


ENDING: Final = ".jsonl"
"""What the names of sessions' files end with."""

LOOK: Final = 1 << 16
"""How many bytes of each end of a file a list reads."""

TITLE_EVERY: Final = LOOK - (1 << 12)
"""After how many bytes a title is written again, so that it is among the last `LOOK` bytes."""


class SessionFolder:
    """The sessions in *folder*, which is made with the first of them.

    Those of a *durable* one wait for the disk with each entry.
    """

    def __init__(self, folder: str | Path, *, durable: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._durable = durable

    def journal(self, id: str) -> FileSessionWriter:  # noqa: A002 - the field's name
        """Return the record of the session *id*."""
        return FileSessionWriter(self._path(id), durable=self._durable)

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, the one last written to first."""
        infos = await on_thread(lambda: sessions_in(self.folder))
        return chosen(infos, cwd, search, limit)

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; raise `SessionError` if somebody has it open."""
        path = self._path(id)
        journal = FileSessionWriter(path)
        if not await on_thread(path.exists):
            return False
        await journal.open()  # so that nobody writes to what is gone
        try:
            await on_thread(lambda: _delete(path))
        finally:
            await journal.close()
        return True

    def _path(self, id_: str) -> Path:
        return self.folder / f"{check_id(id_)}{ENDING}"


def sessions_in(folder: str | Path) -> list[SessionInfo]:
    """List the sessions in *folder*, the one last written to first.

    Files that are not sessions are omitted.
    """
    try:
        paths = [
            path for path in Path(folder).iterdir() if path.suffix == ENDING and path.is_file()
        ]
    except OSError:  # no such folder: no sessions
        return []
    found = [info for path in paths if (info := _look_at(path)) is not None]
    return sorted(found, key=lambda info: (info.updated, info.id), reverse=True)


def _look_at(path: Path) -> SessionInfo | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(LOOK)
            file.seek(max(LOOK, size - LOOK))
            tail = file.read(LOOK)
        info = _describe_ends(head, tail) if size > 2 * LOOK else None
        info = info or _describe_whole(path)
    except (OSError, SessionError):
        return None
    # By the name of the file: that is how a session of this folder is opened.
    return structs.replace(info, id=path.stem, size=size, path=path.absolute())


def _describe_ends(head: bytes, tail: bytes) -> SessionInfo | None:
    """Describe a long file by its two ends, if they tell all."""
    first = read_lines(head.split(b"\n")[:-1])
    last = read_lines(tail.split(b"\n")[1:])
    numbers = [entry.number for entry in last.entries if isinstance(entry, MessageEntry)]
    if first.header is None or not numbers or not numbers[-1]:
        return None
    info = describe(SessionInfo(id=""), [first.header, *first.entries])
    if not info.prompt:
        return None
    return structs.replace(describe(info, last.entries), messages=numbers[-1])


def _describe_whole(path: Path) -> SessionInfo:
    contents = read_session(path)
    info = SessionInfo(id=path.stem)
    return describe(info, [*filter(None, [contents.header]), *contents.entries])


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.torn").unlink(missing_ok=True)
