"""Storage of sessions: a `SessionWriter` has the record of one, a `SessionStore` has many.

There are two of each, for files and for a database. An entry that `append` has acknowledged
survives a crash of the process. An entry that it has not is written again with the next ones, in
the same order, so a record never has a gap.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct, structs

from penstock.agent.session.entries import (
    Contents,
    Entry,
    EntryLine,
    Header,
    MessageEntry,
    TitleEntry,
)
from penstock.errors import PenstockError, UsageError
from penstock.request import UserMessage

MAX_LISTED: Final = 1_000
"""How many sessions are listed at most, the newest."""

MAX_TITLE: Final = 200
"""How many characters of a title, or of a first prompt, are listed."""

# An id is the name of a file: no path separators, no leading dot, short enough for every file
# system.
_ID: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,99}", re.ASCII)


class SessionError(PenstockError):
    """A session cannot be read or written, because of its file or its database."""


class SessionGoneError(SessionError):
    """The record has disappeared: it has to be written again from the start."""


class SessionInfo(Struct, frozen=True):
    """A session in a list: *prompt* is the beginning of its first prompt.

    *size* is in bytes; *path* is the file, if there is one.
    """

    id: str
    title: str = ""
    prompt: str = ""
    cwd: str = ""
    parent: str = ""
    created: float = 0.0
    updated: float = 0.0
    messages: int = 0
    size: int = 0
    path: Path | None = None


class SessionWriter(Protocol):
    """The record of one session: opened once, then only appended to, by one writer."""

    async def open(self) -> Contents:
        """Read and repair the record, and lock it.

        Raises `SessionError` if it cannot be read, or is open elsewhere.
        """

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Write all of *lines* or none.

        Raises `SessionError` if they were not written, and `SessionGoneError` if the record has
        disappeared: then the next lines begin a new one.
        """

    async def close(self) -> None:
        """Unlock the record; may be called twice."""


class SessionStore(Protocol):
    """Many sessions, by id."""

    def writer(self, id: str) -> SessionWriter:  # noqa: A002 - the field's name
        """Return the writer of the session *id*, which need not exist yet."""

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, newest first: those of *cwd*, with *search* in title or prompt."""

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether it existed."""


class MemoryWriter:
    """The writer of a session that is not stored."""

    async def open(self) -> Contents:
        """Return an empty record."""
        return Contents()

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def new_session_id() -> str:
    """Make the id of a new session; ids sort by time, to the second."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def check_id(id_: str) -> str:
    """Return *id_*; raise `UsageError` if it cannot be the name of a file."""
    # The id becomes a file name, so it must not contain a slash or begin with a dot or a hyphen.
    if not _ID.fullmatch(id_):
        raise UsageError(
            f"invalid session id {id_[:100]!r}: use up to 100 letters, digits, `_`, `-` and `.`"
        )
    return id_


def update_info(info: SessionInfo, items: Iterable[Header | Entry]) -> SessionInfo:
    """Return *info* with the *items* that were added to its session."""
    for item in items:
        changes: dict[str, Any] = {}
        if isinstance(item, Header):
            if info.updated:  # a repeated header, for its version
                continue
            changes = {"id": item.id, "title": item.title, "cwd": item.cwd}
            changes |= {"parent": item.parent, "created": item.created}
            changes["updated"] = max(info.updated, item.created)
        else:
            changes["updated"] = max(info.updated, item.time)
        if isinstance(item, TitleEntry):
            changes["title"] = item.title
        elif isinstance(item, MessageEntry):
            changes["messages"] = info.messages + 1
            message = item.message
            if isinstance(message, UserMessage) and not message.source and not info.prompt:
                changes["prompt"] = " ".join(message.text.split())[:MAX_TITLE]
        info = structs.replace(info, **changes)
    return info


def filter_infos(
    infos: Iterable[SessionInfo], cwd: str | None, search: str, limit: int
) -> list[SessionInfo]:
    """Return the *infos* that match, newest first."""
    words = search.casefold()
    found = [
        info
        for info in infos
        if cwd in (None, info.cwd) and words in f"{info.title}\n{info.prompt}".casefold()
    ]
    newest = sorted(found, key=lambda info: (info.updated, info.id), reverse=True)
    return newest[: max(1, min(limit, MAX_LISTED))]
