"""What is added is written in order, once, and a write that failed is made up for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.session.records import HEADER, answer, lines_of, talk, user
from penstock.agent.session.entries import (
    VERSION,
    Contents,
    CustomEntry,
    EntryLine,
    Header,
    MessageEntry,
    TitleEntry,
)
from penstock.agent.session.file import FileSessionWriter, read_session
from penstock.agent.session.log import MAX_ENTRY, NO_JSON, SessionLog
from penstock.agent.session.storage import SessionError
from penstock.errors import UsageError
from penstock.messages import ToolResult
from penstock.request import Message


def message(said: Message) -> MessageEntry:
    return MessageEntry(id="", message=said)


async def opened(path: Path) -> SessionLog:
    log = SessionLog(FileSessionWriter(path), HEADER)
    await log.open()
    return log


def block(folder: Path) -> None:
    """Let no folder be made there."""
    folder.touch()


def unblock(folder: Path) -> None:
    folder.unlink()


class Gate(FileSessionWriter):
    """A file that waits before it is written to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_waiting = asyncio.Event()
        self.may_write = asyncio.Event()

    async def append(self, lines: Sequence[EntryLine]) -> None:
        self.is_waiting.set()
        await self.may_write.wait()
        await super().append(lines)


async def test_nothing_is_written_before_the_first_message(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    await log.add(TitleEntry(id="", title="t"))
    await log.add(CustomEntry(id="", name="n"))
    assert not path.exists()
    await log.add(message(user("a")))
    await log.close()
    assert read_session(path) == Contents(HEADER, log.tree.entries)
    assert len(log.tree.entries) == 3


async def test_who_says_nothing_leaves_nothing(tmp_path: Path) -> None:
    log = await opened(tmp_path / "s.jsonl")
    await log.add(TitleEntry(id="", title="t"))
    await log.close()
    assert list(tmp_path.iterdir()) == []


async def test_entries_added_at_once_are_written_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    await asyncio.gather(*(log.add(message(user(f"{n}"))) for n in range(50)))
    assert read_session(path).entries == log.tree.entries
    assert path.read_bytes() == lines_of(HEADER, *log.tree.entries)
    await log.close()


async def test_a_write_that_fails_is_told_and_made_up_for_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    log = await opened(folder / "s.jsonl")
    block(folder)
    for text in ("a", "b"):
        with pytest.raises(SessionError, match="cannot be written"):
            await log.add(message(user(text)))
    unblock(folder)
    await log.add(message(answer("c")))
    assert read_session(folder / "s.jsonl") == Contents(HEADER, log.tree.entries)
    assert len(log.tree.entries) == 3
    await log.close()


async def test_what_waits_is_written_at_the_end_or_said_to_be_lost(tmp_path: Path) -> None:
    async def main(folder: Path, *, back: bool) -> None:
        log = await opened(folder / "s.jsonl")
        block(folder)
        with pytest.raises(SessionError):
            await log.add(message(user("a")))
        if back:
            unblock(folder)
            await log.close()
            assert read_session(folder / "s.jsonl").entries == log.tree.entries
        else:
            with pytest.raises(SessionError):
                await log.close()

    await main(tmp_path / "one", back=True)
    await main(tmp_path / "two", back=False)


async def test_a_record_that_was_taken_away_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    await log.add(message(user("a")))
    path.unlink()
    await log.add(message(answer("b")))
    await log.add(message(user("c")))
    await log.close()
    assert path.read_bytes() == lines_of(HEADER, *log.tree.entries)
    assert len(log.tree.entries) == 3


async def test_who_is_cancelled_leaves_the_entry_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    gate = Gate(path)
    log = SessionLog(gate, HEADER)
    await log.open()
    task = asyncio.ensure_future(log.add(message(user("a"))))
    await gate.is_waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.may_write.set()
    await log.close()
    assert read_session(path).entries == log.tree.entries
    assert len(log.tree.entries) == 1


async def test_the_message_is_written_as_it_was_when_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    gate = Gate(path)
    log = SessionLog(gate, HEADER)
    await log.open()
    said = user("a")
    task = asyncio.ensure_future(log.add(message(said)))
    await gate.is_waiting.wait()
    said.content.clear()
    gate.may_write.set()
    await task
    await log.close()
    (found,) = read_session(path).entries
    assert isinstance(found, MessageEntry)
    assert found.message == user("a")


async def test_a_result_without_a_json_form_leaves_a_word_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    with pytest.raises(UsageError, match="not a JSON value"):
        await log.add(message(ToolResult("c", "t", {"x": object()})))
    await log.add(message(user("next")))
    await log.close()
    first, second = read_session(path).entries
    assert isinstance(first, MessageEntry)
    assert first.message == ToolResult("c", "t", NO_JSON)
    assert second.parent == first.id


async def test_what_an_extension_cannot_say_in_json_has_no_place(tmp_path: Path) -> None:
    log = await opened(tmp_path / "s.jsonl")
    await log.add(message(user("a")))
    with pytest.raises(UsageError):
        await log.add(CustomEntry(id="", name="n", data=object()))
    assert len(log.tree.entries) == 1
    await log.close()


async def test_an_entry_beyond_all_measure_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    await log.add(message(ToolResult("c", "t", "x" * (MAX_ENTRY + 1))))
    await log.close()
    assert read_session(path).entries == log.tree.entries
    assert path.stat().st_size < MAX_ENTRY // 8


async def test_a_record_without_its_header_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = await opened(path)
    await log.add(message(user("a")))
    await log.close()
    path.write_bytes(b"lost" + path.read_bytes())  # the header is none any more
    log = await opened(path)
    assert [fault.line for fault in log.faults] == [1]
    await log.add(message(answer("b")))
    await log.close()
    contents = read_session(path)
    assert (contents.header, len(contents.entries)) == (HEADER, 2)


async def test_a_record_of_an_older_version_goes_on_with_a_header_of_this_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(Header(version=VERSION - 1, id="old", title="t")))
    log = await opened(path)
    await log.add(message(user("a")))
    await log.close()
    first, again, _ = path.read_bytes().splitlines()
    assert again == first.replace(b'"version":%d' % (VERSION - 1), b'"version":%d' % VERSION)


async def test_a_record_that_is_only_looked_at_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    data = lines_of(Header(version=VERSION - 1, id="old"), *talk("a", "b"))
    path.write_bytes(data)
    log = await opened(path)
    await log.close()
    assert path.read_bytes() == data


async def test_a_record_of_a_newer_version_is_gone_on_with_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(Header(version=VERSION + 5, id="new")))
    log = await opened(path)
    assert log.header.version == VERSION + 5
    await log.add(message(user("a")))
    await log.close()
    assert path.read_bytes().count(b"\n") == 2
