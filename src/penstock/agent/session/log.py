"""The entries of a session in memory and in its writer.

An entry is added to the tree at once, and waits in a queue until it is written. Nothing is written
before the first message, so that a session which is only opened leaves no file. If a write fails,
its entries stay in the queue, and the next write begins with them. A cancelled caller does not
cancel the write.
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
"""How many bytes an entry may have before its longest strings are cut: no model reads more."""

NO_JSON: Final = "[this result has no JSON form and was not recorded]"
"""Replaces a result that cannot be recorded: without any, its call would have no result."""


class SessionLog:
    """The record of one session; *header* is that of a new one."""

    def __init__(self, writer: SessionWriter, header: Header) -> None:
        self.header = header
        self.tree = Tree()
        self.leaf = ""
        """The id of the entry that the next one follows."""
        self.faults: list[Fault] = []
        """The lines that could not be read."""
        self.is_new = True
        """Whether the record was empty."""
        self._writer = writer
        self._pending: list[EntryLine] = []
        self._since_title = TITLE_EVERY  # in bytes
        self._lock = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read the record; raise `SessionError` if it cannot be used."""
        contents = await self._writer.open()
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
        """Create a record; raise `SessionError` if it exists already."""
        await self.open()
        if not self.is_new:
            raise SessionError("the session exists already: choose another id or path")

    @property
    def title(self) -> str:
        """The last title; empty if there is none."""
        title = self.tree.title
        return self.header.title if title is None else title

    async def add(self, entry: Entry) -> Entry:
        """Add *entry* after the leaf, and write it if the session has a message.

        Returns it as it was written, with an id, a parent and a time. Raises `SessionError` if it
        cannot be written now; it is written later.
        """
        try:
            return self.queue(entry)
        finally:
            await self.flush()

    def queue(self, entry: Entry) -> Entry:
        """Add *entry* after the leaf, to be written with the next one.

        Raises `UsageError` if it has no JSON form; for a result, a note is recorded instead.
        """
        entry = structs.replace(entry, id=self._make_id(), parent=self.leaf, time=time.time())
        if isinstance(entry, MessageEntry):
            entry = structs.replace(entry, number=self.tree.messages + 1)
        try:
            self._append(_write_entry(entry))
        except UsageError:
            if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResult):
                result = structs.replace(entry.message, content=NO_JSON)
                self._append(write_line(structs.replace(entry, message=result)))
            elif isinstance(entry, ToolEndEntry):
                result = structs.replace(entry.result, content=NO_JSON)
                self._append(write_line(structs.replace(entry, result=result)))
            raise
        return self.tree[self.leaf]

    def copy_entry(self, entry: Entry) -> None:
        """Add an *entry* of another record after the leaf, to be written with the next one."""
        entry = structs.replace(entry, parent=self.leaf)
        if isinstance(entry, MessageEntry):
            entry = structs.replace(entry, number=self.tree.messages + 1)
        self._append(write_line(entry))

    async def flush(self) -> None:
        """Write the queued entries, if the session has a message."""
        # A session that was only opened, or renamed, leaves no file.
        if not self.tree.messages:
            return
        # A task of its own, so that a cancelled caller leaves no half-written line.
        write = asyncio.ensure_future(self._write())
        self._writes.add(write)
        write.add_done_callback(self._forget)
        await asyncio.shield(write)

    async def close(self) -> None:
        """Write the queued entries, and close the writer.

        Raises `SessionError` if some could not be written; they are lost.
        """
        try:
            if self._writes:
                await asyncio.wait(self._writes)
            if any(isinstance(line.item, Entry) for line in self._pending):
                await self.flush()
        finally:
            await self._writer.close()

    async def drop(self) -> None:
        """Close the writer without writing."""
        await self._writer.close()

    async def _write(self) -> None:
        async with self._lock:
            lines = list(self._pending)
            if not lines:  # an earlier write included them
                return
            try:
                await self._writer.append(lines)
            # The file was deleted, or the rows of the database: the whole record is in memory.
            except SessionGoneError:
                lines = list(self._pending)
                everything = [write_line(self.header), *map(write_line, self.tree.entries)]
                await self._writer.append(everything)
            del self._pending[: len(lines)]

    def _forget(self, write: asyncio.Task[None]) -> None:
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()  # its entries are still queued

    def _append(self, line: EntryLine) -> None:
        entry = line.item
        assert isinstance(entry, Entry)  # noqa: S101 - a header is not part of the tree
        title = self.tree.title
        # A list of sessions reads only the two ends of a file, so the title is repeated now and
        # then.
        is_far = self._since_title + len(line.data) > TITLE_EVERY
        if title is not None and is_far and not isinstance(entry, TitleEntry):
            self.queue(TitleEntry(id="", title=title))
            line = _write_entry(structs.replace(entry, parent=self.leaf))
            entry = line.item
            assert isinstance(entry, Entry)  # noqa: S101 - the same entry
        self.leaf = self.tree.add(entry)
        self._pending.append(line)
        is_title = isinstance(entry, TitleEntry)
        self._since_title = 0 if is_title else self._since_title + len(line.data) + 1

    def _make_id(self) -> str:
        id_ = secrets.token_hex(4)
        while id_ in self.tree:
            id_ = secrets.token_hex(4)
        return id_


def _write_entry(entry: Entry) -> EntryLine:
    """Write *entry*; a huge one with its longest strings cut."""
    line = write_line(entry)
    return line if len(line.data) <= MAX_ENTRY else write_line(cut_long_strings(entry))
