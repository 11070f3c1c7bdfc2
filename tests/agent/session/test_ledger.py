"""What is added is written in order, once, and a write that failed is made up for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.session.records import HEADER, answer, lines_of, run, talk, user
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
from penstock.agent.session.log import MAX_ENTRY, NO_FORM, SessionLog
from penstock.agent.session.storage import SessionError
from penstock.errors import UsageError
from penstock.messages import ToolResult
from penstock.request import Message


def message(said: Message) -> MessageEntry:
    return MessageEntry(id="", message=said)


async def opened(path: Path) -> SessionLog:
    ledger = SessionLog(FileSessionWriter(path), HEADER)
    await ledger.open()
    return ledger


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


def test_nothing_is_written_before_the_first_message(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        await ledger.add(TitleEntry(id="", title="t"))
        await ledger.add(CustomEntry(id="", name="n"))
        assert not path.exists()
        await ledger.add(message(user("a")))
        await ledger.close()
        assert read_session(path) == Contents(HEADER, ledger.tree.entries)
        assert len(ledger.tree.entries) == 3

    run(main())


def test_who_says_nothing_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = await opened(tmp_path / "s.jsonl")
        await ledger.add(TitleEntry(id="", title="t"))
        await ledger.close()

    run(main())
    assert list(tmp_path.iterdir()) == []


def test_entries_added_at_once_are_written_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        await asyncio.gather(*(ledger.add(message(user(f"{n}"))) for n in range(50)))
        assert read_session(path).entries == ledger.tree.entries
        assert path.read_bytes() == lines_of(HEADER, *ledger.tree.entries)
        await ledger.close()

    run(main())


def test_a_write_that_fails_is_told_and_made_up_for_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    async def main() -> None:
        ledger = await opened(folder / "s.jsonl")
        block(folder)
        for text in ("a", "b"):
            with pytest.raises(SessionError, match="cannot be written"):
                await ledger.add(message(user(text)))
        unblock(folder)
        await ledger.add(message(answer("c")))
        assert read_session(folder / "s.jsonl") == Contents(HEADER, ledger.tree.entries)
        assert len(ledger.tree.entries) == 3
        await ledger.close()

    run(main())


def test_what_waits_is_written_at_the_end_or_said_to_be_lost(tmp_path: Path) -> None:
    async def main(folder: Path, *, back: bool) -> None:
        ledger = await opened(folder / "s.jsonl")
        block(folder)
        with pytest.raises(SessionError):
            await ledger.add(message(user("a")))
        if back:
            unblock(folder)
            await ledger.close()
            assert read_session(folder / "s.jsonl").entries == ledger.tree.entries
        else:
            with pytest.raises(SessionError):
                await ledger.close()

    run(main(tmp_path / "one", back=True))
    run(main(tmp_path / "two", back=False))


def test_a_record_that_was_taken_away_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        await ledger.add(message(user("a")))
        path.unlink()
        await ledger.add(message(answer("b")))
        await ledger.add(message(user("c")))
        await ledger.close()
        assert path.read_bytes() == lines_of(HEADER, *ledger.tree.entries)
        assert len(ledger.tree.entries) == 3

    run(main())


def test_who_is_cancelled_leaves_the_entry_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        gate = Gate(path)
        ledger = SessionLog(gate, HEADER)
        await ledger.open()
        task = asyncio.ensure_future(ledger.add(message(user("a"))))
        await gate.is_waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.may_write.set()
        await ledger.close()
        assert read_session(path).entries == ledger.tree.entries
        assert len(ledger.tree.entries) == 1

    run(main())


def test_the_message_is_written_as_it_was_when_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        gate = Gate(path)
        ledger = SessionLog(gate, HEADER)
        await ledger.open()
        said = user("a")
        task = asyncio.ensure_future(ledger.add(message(said)))
        await gate.is_waiting.wait()
        said.content.clear()
        gate.may_write.set()
        await task
        await ledger.close()

    run(main())
    (found,) = read_session(path).entries
    assert isinstance(found, MessageEntry)
    assert found.message == user("a")


def test_a_result_without_a_json_form_leaves_a_word_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        with pytest.raises(UsageError, match="not a JSON value"):
            await ledger.add(message(ToolResult("c", "t", {"x": object()})))
        await ledger.add(message(user("next")))
        await ledger.close()

    run(main())
    first, second = read_session(path).entries
    assert isinstance(first, MessageEntry)
    assert first.message == ToolResult("c", "t", NO_FORM)
    assert second.parent == first.id


def test_what_an_extension_cannot_say_in_json_has_no_place(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = await opened(tmp_path / "s.jsonl")
        await ledger.add(message(user("a")))
        with pytest.raises(UsageError):
            await ledger.add(CustomEntry(id="", name="n", data=object()))
        assert len(ledger.tree.entries) == 1
        await ledger.close()

    run(main())


def test_an_entry_beyond_all_measure_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        await ledger.add(message(ToolResult("c", "t", "x" * (MAX_ENTRY + 1))))
        await ledger.close()
        assert read_session(path).entries == ledger.tree.entries

    run(main())
    assert path.stat().st_size < MAX_ENTRY // 8


def test_a_record_without_its_header_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    async def main() -> None:
        ledger = await opened(path)
        await ledger.add(message(user("a")))
        await ledger.close()
        path.write_bytes(b"lost" + path.read_bytes())  # the header is none any more
        ledger = await opened(path)
        assert [fault.line for fault in ledger.faults] == [1]
        await ledger.add(message(answer("b")))
        await ledger.close()

    run(main())
    contents = read_session(path)
    assert (contents.header, len(contents.entries)) == (HEADER, 2)


def test_a_record_of_an_older_version_goes_on_with_a_header_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(Header(version=VERSION - 1, id="old", title="t")))

    async def main() -> None:
        ledger = await opened(path)
        await ledger.add(message(user("a")))
        await ledger.close()

    run(main())
    first, again, _ = path.read_bytes().splitlines()
    assert again == first.replace(b'"version":%d' % (VERSION - 1), b'"version":%d' % VERSION)


def test_a_record_that_is_only_looked_at_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    data = lines_of(Header(version=VERSION - 1, id="old"), *talk("a", "b"))
    path.write_bytes(data)

    async def main() -> None:
        ledger = await opened(path)
        await ledger.close()

    run(main())
    assert path.read_bytes() == data


def test_a_record_of_a_newer_version_is_gone_on_with_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(Header(version=VERSION + 5, id="new")))

    async def main() -> None:
        ledger = await opened(path)
        assert ledger.header.version == VERSION + 5
        await ledger.add(message(user("a")))
        await ledger.close()

    run(main())
    assert path.read_bytes().count(b"\n") == 2
