"""A session's tree and its journal, kept in step: what is added is written, in order, once.

An entry has its place in the tree at once and waits in a queue until the journal has it. Nothing is
written before the first message, so that who only looks leaves no file. A write that fails leaves
its entries in the queue, raises, and the next one begins with them. Who is cancelled while an entry
is being written leaves it to be written.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from msgspec import structs

from penstock.agent.session.entries import (
    VERSION,
    Entry,
    EntryLine,
    Fault,
    Header,
    MessageEntry,
    TitleEntry,
    ToolEndEntry,
    cut_long_strings,
    write_line,
)
from penstock.agent.session.file import TITLE_EVERY
from penstock.agent.session.storage import SessionError, SessionGoneError, SessionWriter
from penstock.agent.session.tree import Tree
from penstock.errors import UsageError
from penstock.messages import ToolResult

MAX_ENTRY: Final = 32 << 20
"""From how many bytes on an entry is written with its longest strings cut: no model reads more."""

NO_FORM: Final = "[this result has no JSON form and was not written down]"
"""What is written of a result that cannot be: without one, its call would stand unanswered."""


class SessionLog:
    """The record of one session, in memory and in *journal*; *header* is that of a new one."""

    def __init__(self, journal: SessionWriter, header: Header) -> None:
        self.header = header
        self.tree = Tree()
        self.leaf = ""
        """The id of the entry that the next one hangs on."""
        self.faults: list[Fault] = []
        """The lines that could not be read."""
        self.is_new = True
        """Whether there was nothing before."""
        self._journal = journal
        self._pending: list[EntryLine] = []
        self._since_title = TITLE_EVERY  # in bytes
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read what there is; raise `SessionError` if it cannot be used."""
        contents = await self._journal.open()
        for entry in contents.entries:
            self.tree.add(entry)
        self.leaf = self.tree.last
        self.faults = contents.faults
        found = contents.header
        self.is_new = found is None and not contents.entries
        if found is not None:
            self.header = structs.replace(found, version=max(VERSION, found.version))
        if found is None or found.version < VERSION:
            self._pending.append(write_line(self.header))

    async def open_new(self) -> None:
        """Begin a record; raise `SessionError` if there is one already."""
        await self.open()
        if not self.is_new:
            raise SessionError("there is a session already")

    @property
    def title(self) -> str:
        """The title that was given last; empty if there is not one."""
        given = self.tree.title
        return self.header.title if given is None else given

    async def add(self, entry: Entry) -> Entry:
        """Hang *entry* on the leaf and write it, if there is a message in the session.

        Gives it as it was written, with an id, a parent and a time. Raises `SessionError` if it
        cannot be written now; it has its place all the same.
        """
        try:
            return self.queue(entry)
        finally:
            await self.flush()

    def queue(self, entry: Entry) -> Entry:
        """Hang *entry* on the leaf, to be written with the next.

        Raises `UsageError` if it has no JSON form; of a result, at least that is kept.
        """
        entry = structs.replace(entry, id=self._new_id(), parent=self.leaf, time=time.time())
        if isinstance(entry, MessageEntry):
            entry = structs.replace(entry, number=self.tree.messages + 1)
        try:
            self._hang(_write(entry))
        except UsageError:
            if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResult):
                told = structs.replace(entry.message, content=NO_FORM)
                self._hang(write_line(structs.replace(entry, message=told)))
            elif isinstance(entry, ToolEndEntry):
                told = structs.replace(entry.result, content=NO_FORM)
                self._hang(write_line(structs.replace(entry, result=told)))
            raise
        return self.tree[self.leaf]

    def take_over(self, entry: Entry) -> None:
        """Hang an *entry* of another record on the leaf, to be written with the next."""
        entry = structs.replace(entry, parent=self.leaf)
        if isinstance(entry, MessageEntry):
            entry = structs.replace(entry, number=self.tree.messages + 1)
        self._hang(write_line(entry))

    async def flush(self) -> None:
        """Write what waits, if there is a message in the session."""
        if not self.tree.messages:
            return
        write = asyncio.ensure_future(self._write())
        self._writes.add(write)
        write.add_done_callback(self._forget)
        await asyncio.shield(write)

    async def close(self) -> None:
        """Write what waits, and let go of the journal.

        Raises `SessionError` if something could not be written; it is lost then.
        """
        try:
            if self._writes:
                await asyncio.wait(self._writes)
            if any(isinstance(line.item, Entry) for line in self._pending):
                await self.flush()
        finally:
            await self._journal.close()

    async def drop(self) -> None:
        """Let go of the journal as it is."""
        await self._journal.close()

    # --- one at a time ---

    async def _write(self) -> None:
        async with self._turn:
            lines = list(self._pending)
            if not lines:  # written with what came before
                return
            try:
                await self._journal.append(lines)
            except SessionGoneError:
                lines = list(self._pending)
                await self._journal.append(self._everything())
            del self._pending[: len(lines)]

    def _everything(self) -> list[EntryLine]:
        return [write_line(self.header), *map(write_line, self.tree.entries)]

    def _forget(self, write: asyncio.Task[None]) -> None:
        """Forget a write; whoever waited for it was told, and what failed is still in the queue."""
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()

    # --- places ---

    def _hang(self, line: EntryLine) -> None:
        entry = line.item
        assert isinstance(entry, Entry)  # noqa: S101 - a header has no place in the tree
        title = self.tree.title
        is_far = self._since_title + len(line.data) > TITLE_EVERY
        if title is not None and is_far and not isinstance(entry, TitleEntry):
            self.queue(TitleEntry(id="", title=title))
            line = _write(structs.replace(entry, parent=self.leaf))
        self._put(line)

    def _put(self, line: EntryLine) -> None:
        assert isinstance(line.item, Entry)  # noqa: S101 - see above
        self.leaf = self.tree.add(line.item)
        self._pending.append(line)
        is_title = isinstance(line.item, TitleEntry)
        self._since_title = 0 if is_title else self._since_title + len(line.data) + 1

    def _new_id(self) -> str:
        id_ = secrets.token_hex(4)
        while id_ in self.tree:
            id_ = secrets.token_hex(4)
        return id_


def _write(entry: Entry) -> EntryLine:
    """Write *entry*; one that is huge with its longest strings cut."""
    line = write_line(entry)
    return line if len(line.data) <= MAX_ENTRY else write_line(cut_long_strings(entry))
