"""Sessions in files: one line of JSON for each entry, only ever appended to.

A line is written with one system call before `append` returns, so a killed process can leave at
most half of its last line. The next `open` moves that half to a file beside it (``.torn``); every
complete line stays. What a failed write left is cut off before the next one. A line in the middle
that cannot be read is skipped and reported.

One session at a time writes to a file: it holds a lock, if the system has locks. Files are accessed
in threads of their own, so that a slow disk does not block the event loop, nor busy tools a write.

A list of sessions does not read whole files: the header and the first prompt are at the beginning,
and the last message with its number at the end. So is the title, which is repeated every
`TITLE_EVERY` bytes. A file is read completely only if a line is longer than what is read of its
ends.
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
    filter_infos,
    update_info,
)
from penstock.errors import JSONParseError, UsageError

if sys.platform != "win32":  # Windows has no flock: there the user has to avoid two writers
    import fcntl

THREADS: Final = 4
"""How many sessions access their files at once: a disk does not serve more of them faster."""

SUFFIX: Final = ".jsonl"
"""The suffix of the files of sessions."""

READ_BYTES: Final = 1 << 16
"""How many bytes of each end of a file a list reads."""

TITLE_EVERY: Final = READ_BYTES - (1 << 12)
"""After how many bytes a title is repeated, so that it is among the last `READ_BYTES`."""

_OPENING: Final = b'{"type":"session"'  # the first bytes of a record

_THREADS: Final = ThreadPoolExecutor(THREADS, "penstock: session")
# POSIX has no O_BINARY and Windows no O_CLOEXEC: without the first, Windows translates line ends;
# without the second, commands that tools start inherit the file.
_FLAGS: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

Result = TypeVar("Result")


async def on_thread(work: Callable[[], Result]) -> Result:
    """Run *work* in one of the threads for files."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def read_session(path: str | Path) -> Contents:
    """Read the record at *path*, even while a session writes to it.

    Raises `SessionError` if there is no such file, or it is not a record.
    """
    with _session_errors("read"), Path(path).open("rb") as file:
        contents, torn = _read(file)
    if torn:
        contents.unread += 1
    return contents


class FileSessionWriter:
    """Writes the record of a session to the file *path*, which is created with the first line.

    With *durable*, `append` waits until the disk has the line, so a power failure loses none.
    """

    def __init__(self, path: str | Path, *, durable: bool = False) -> None:
        self.path = Path(path).absolute()
        self._durable = durable
        self._descriptor: int | None = None
        self._size = 0  # as far as this writer knows
        self._is_dirty = False  # a failed write may have left bytes after `_size`
        self._is_closed = False
        self._lock = Lock()

    async def open(self) -> Contents:
        """Read the record, and move an incomplete last line away."""
        try:
            return await on_thread(self._open)
        except asyncio.CancelledError:
            _THREADS.submit(self._close)  # whether or not the thread has begun
            raise

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Append *lines* to the file, which is created if necessary."""
        data = b"".join(line.data + b"\n" for line in lines)
        await on_thread(lambda: self._append(data))

    async def close(self) -> None:
        """Close the file, even if the caller is cancelled."""
        await asyncio.shield(on_thread(self._close))

    # --- in a thread ---

    def _open(self) -> Contents:
        with self._lock, _session_errors("opened"):
            self._check_open()
            try:
                self._descriptor = os.open(self.path, _FLAGS)
            except FileNotFoundError:
                return Contents()
            try:
                self._lock_file()
                return self._repair()
            except BaseException:
                self._release()
                raise

    def _append(self, data: bytes) -> None:
        with self._lock, _session_errors("written"):
            self._check_open()
            if self._descriptor is None:
                self._create()
            self._check_same()
            if self._is_dirty:
                os.ftruncate(self._number, self._size)
            elif os.fstat(self._number).st_size != self._size:
                data = b"\n" + data  # an editor wrote to it, perhaps an incomplete line
            self._is_dirty = True
            _write(self._number, data)
            if self._durable:
                os.fsync(self._number)
            self._check_same()
            self._is_dirty = False
            self._size = os.fstat(self._number).st_size

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._release()

    @property
    def _number(self) -> int:
        assert self._descriptor is not None  # noqa: S101 - used only while it is open
        return self._descriptor

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("the session's file is closed: make a new session for it")

    def _check_same(self) -> None:
        """Raise `SessionGoneError` if the path no longer leads to the open file."""
        here = os.fstat(self._number)
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            self._release()
            raise SessionGoneError("the session's file was moved or deleted")

    def _create(self) -> None:
        """Create the file, readable by its owner only: prompts are private."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            name = self.path.name
            raise SessionError(f"another file was created at {name}: choose another path") from None
        self._lock_file()
        self._size = 0
        self._is_dirty = False
        if self._durable:
            _sync_folder(self.path.parent)

    def _lock_file(self) -> None:
        """Lock the file; raise `SessionError` if it is locked or not a regular file."""
        if not stat.S_ISREG(os.fstat(self._number).st_mode):  # a pipe would never end
            raise SessionError("the session's file is not a regular file")
        if not _lock(self._number):
            self._release()
            name = self.path.name
            raise SessionError(f"{name} is open in another session: close that session first")

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _repair(self) -> Contents:
        """Read the file; move an incomplete last line away, or add a missing line end."""
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
    """Return a record and its incomplete last line; raise `SessionError` if it is not a record."""
    torn: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for line in file:
            if line.endswith(b"\n") or _is_complete(line):
                yield line
            else:
                torn.append(line)

    contents = read_lines(lines())
    tail = b"".join(torn)
    is_record = contents.header is not None or contents.entries
    may_be_opening = tail.startswith(_OPENING) or _OPENING.startswith(tail)
    if not is_record and (contents.unread or not may_be_opening):
        raise SessionError("the file is not the record of a session")
    return contents, tail


def _is_complete(line: bytes) -> bool:
    """Return whether a last line lacks only its line end: no prefix of a JSON object is one."""
    try:
        read_line(line.strip())
    except JSONParseError:
        return False
    return True


def _lock(descriptor: int) -> bool:
    """Lock a file; return whether it was free, as far as the system can say."""
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
    with suppress(OSError):  # not every system can open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _session_errors(action: str) -> Iterator[None]:
    """Raise an error of the system as a `SessionError`."""
    try:
        yield
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise SessionError(f"the session's file cannot be {action}: {reason}") from exc


# --- folders ---


class SessionFolder:
    """The sessions in *folder*, which is created with the first of them.

    *durable* is passed to each `FileSessionWriter`.
    """

    def __init__(self, folder: str | Path, *, durable: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._durable = durable

    def writer(self, id: str) -> FileSessionWriter:  # noqa: A002 - the field's name
        """Return the writer of the session *id*."""
        return FileSessionWriter(self._path(id), durable=self._durable)

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, newest first."""
        infos = await on_thread(lambda: sessions_in(self.folder))
        return filter_infos(infos, cwd, search, limit)

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; raise `SessionError` if it is open."""
        path = self._path(id)
        writer = FileSessionWriter(path)
        if not await on_thread(path.exists):
            return False
        await writer.open()  # a lock, so that no session writes to a deleted file
        try:
            await on_thread(lambda: _delete(path))
        finally:
            await writer.close()
        return True

    def _path(self, id_: str) -> Path:
        return self.folder / f"{check_id(id_)}{SUFFIX}"


def sessions_in(folder: str | Path) -> list[SessionInfo]:
    """List the sessions in *folder*, newest first; other files are ignored."""
    try:
        paths = [
            path for path in Path(folder).iterdir() if path.suffix == SUFFIX and path.is_file()
        ]
    except OSError:  # there is no such folder
        return []
    found = [info for path in paths if (info := _read_info(path)) is not None]
    return sorted(found, key=lambda info: (info.updated, info.id), reverse=True)


def _read_info(path: Path) -> SessionInfo | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(READ_BYTES)
            file.seek(max(READ_BYTES, size - READ_BYTES))
            tail = file.read(READ_BYTES)
        info = _describe_ends(head, tail) if size > 2 * READ_BYTES else None
        info = info or _describe_whole(path)
    except (OSError, SessionError):
        return None
    # The id is the name of the file, by which a session of this folder is opened.
    return structs.replace(info, id=path.stem, size=size, path=path.absolute())


def _describe_ends(head: bytes, tail: bytes) -> SessionInfo | None:
    """Return the info of a long file from its two ends; None if they are not enough."""
    # The last line of the head and the first of the tail may be cut.
    first = read_lines(head.split(b"\n")[:-1])
    last = read_lines(tail.split(b"\n")[1:])
    numbers = [entry.number for entry in last.entries if isinstance(entry, MessageEntry)]
    if first.header is None or not numbers or not numbers[-1]:
        return None
    info = update_info(SessionInfo(id=""), [first.header, *first.entries])
    if not info.prompt:
        return None
    return structs.replace(update_info(info, last.entries), messages=numbers[-1])


def _describe_whole(path: Path) -> SessionInfo:
    contents = read_session(path)
    info = SessionInfo(id=path.stem)
    return update_info(info, [*filter(None, [contents.header]), *contents.entries])


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.torn").unlink(missing_ok=True)
