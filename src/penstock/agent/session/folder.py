"""Sessions in a folder, a file each, and a list of them that does not read them whole.

A list needs the beginning of a file (the header, the first prompt) and its end (the last message
with its number, the title, which is written again before it is too far back: `TITLE_EVERY`). Where
these do not tell, because a line is longer than what is looked at, the file is read whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import structs

from penstock.agent.session.archive import (
    MAX_LISTED,
    SessionError,
    SessionInfo,
    check_id,
    chosen,
    describe,
)
from penstock.agent.session.entries import MessageEntry, read_lines
from penstock.agent.session.file import FileJournal, on_thread, read_session

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

    def journal(self, id: str) -> FileJournal:  # noqa: A002 - the field's name
        """Give the record of the session *id*."""
        return FileJournal(self._path(id), durable=self._durable)

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, the one last written to first."""
        infos = await on_thread(lambda: sessions_in(self.folder))
        return chosen(infos, cwd, search, limit)

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; raise `SessionError` if somebody has it open."""
        path = self._path(id)
        journal = FileJournal(path)
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

    Files that are no sessions are left out.
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
