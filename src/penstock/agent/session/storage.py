"""Where sessions are kept: a `SessionWriter` is the record of one, an `SessionStore` holds many.

There are two of each, in files and in a database, and a session does not know which it has. What
`append` has acknowledged is there after a crash of the process. What it has not is tried again by
whoever appends next, in the same order; so a record never has a hole.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, structs

from penstock.agent.session.entries import (
    Contents,
    Entry,
    EntryLine,
    Header,
    MessageEntry,
    TitleEntry,
)
from penstock.agent.session.tree import text_of
from penstock.errors import PenstockError, UsageError
from penstock.request import UserMessage

MAX_LISTED: Final = 1_000
"""How many sessions a list has at most, the newest."""

MAX_PROMPT: Final = 200
"""How many characters of a first prompt a list shows; a title has no more either."""

_ID: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,99}", re.ASCII)


class SessionError(PenstockError):
    """A session cannot be read or written: its file or its database does not let it."""


class SessionGoneError(SessionError):
    """A record that was there is there no more: only writing all of it again can save it."""


class SessionInfo(Struct, frozen=True):
    """What a list tells of a session: *prompt* is the beginning of what was asked first.

    *size* is in bytes; *path* is the file, where there is one.
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
    """The record of one session: opened once, then only added to, by one writer."""

    async def open(self) -> Contents:
        """Read what there is, repaired where it needs to be, and keep others from writing.

        Raises `SessionError` if it cannot be read, or somebody else writes to it.
        """

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Write *lines*, all of them or none; they are there when this returns.

        Raises `SessionError` if they are not, and `SessionGoneError` if nothing else is either:
        then the next lines begin a new record.
        """

    async def close(self) -> None:
        """Let others write; may be called twice."""


class SessionStore(Protocol):
    """Many sessions, by their ids."""

    def journal(self, id: str) -> SessionWriter:  # noqa: A002 - the field's name
        """Return the record of the session *id*, which need not be there yet."""

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, the one last written to first: of *cwd*, with *search* in their name."""

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether there was one."""


class MemoryWriter:
    """The journal of a session that is not kept."""

    async def open(self) -> Contents:
        """Find nothing."""
        return Contents()

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Keep nothing."""

    async def close(self) -> None:
        """Do nothing."""


def new_id() -> str:
    """Make up the id of a session: ids sort by time, to the second."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def check_id(id_: str) -> str:
    """Return *id_* back; raise `UsageError` if it is not one that a file can be named by."""
    if not _ID.fullmatch(id_):
        raise UsageError("a session's id is made of letters, digits, `_`, `-` and `.`, up to 100")
    return id_


def describe(info: SessionInfo, items: Iterable[Header | Entry]) -> SessionInfo:
    """Bring what a list tells of a session up to date with *items* that were added to it."""
    for item in items:
        info = _described(info, item)
    return info


def _described(info: SessionInfo, item: Header | Entry) -> SessionInfo:
    if isinstance(item, Header):
        if info.updated:  # it comes again, for its version
            return info
        names = ("id", "title", "cwd", "parent", "created")
        known = {name: getattr(item, name) for name in names}
        return structs.replace(info, updated=max(info.updated, item.created), **known)
    changes: dict[str, object] = {"updated": max(info.updated, item.time)}
    if isinstance(item, TitleEntry):
        changes["title"] = item.title
    elif isinstance(item, MessageEntry):
        changes["messages"] = info.messages + 1
        if isinstance(item.message, UserMessage) and not item.message.source and not info.prompt:
            changes["prompt"] = text_of(item.message)[:MAX_PROMPT]
    return structs.replace(info, **changes)


def chosen(
    infos: Iterable[SessionInfo], cwd: str | None, search: str, limit: int
) -> list[SessionInfo]:
    """Return those of *infos* that a list asks for, in its order."""
    words = search.casefold()
    found = [
        info
        for info in infos
        if cwd in (None, info.cwd) and words in f"{info.title}\n{info.prompt}".casefold()
    ]
    newest = sorted(found, key=lambda info: (info.updated, info.id), reverse=True)
    return newest[: max(1, min(limit, MAX_LISTED))]
