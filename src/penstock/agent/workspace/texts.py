"""Text files, as a model sees them and as they are kept.

A model sees text without a byte order mark and with plain line ends, since that is what it writes.
What it changes is put back in the file's own ways; what it does not touch stays as it is, byte for
byte, also where a file mixes line ends.
"""

from __future__ import annotations

import os
import secrets
import stat
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.agent.workspace.folder import Folder, check_regular, failures_told
from penstock.errors import ToolError

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
        """Give the raw text with pieces of `text` changed: (start, end, new text), in order."""
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
    """Put *text* at *path*, whole or not at all; tell whether the file is new.

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
