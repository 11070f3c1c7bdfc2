"""Files keep every line that was acknowledged, however they were cut, broken or taken away."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.session.records import HEADER, TALK, entry, lines_of, talk
from async_runner import run
from penstock.agent.session.entries import (
    Contents,
    CustomEntry,
    Entry,
    Foreign,
    TitleEntry,
    write_line,
)
from penstock.agent.session.file import FileSessionWriter, read_session
from penstock.agent.session.storage import SessionError, SessionGoneError
from penstock.errors import UsageError

ENTRIES = [entry(number, message) for number, message in enumerate(TALK, 1)]
RECORD = lines_of(HEADER, *ENTRIES)
NEXT = entry(9, TALK[0], 4)


async def reopen(path: Path, *more: Entry) -> Contents:
    """Open a file, add *more*, and give what was there."""
    writer = FileSessionWriter(path)
    try:
        contents = await writer.open()
        if more:
            await writer.append([write_line(item) for item in more])
    finally:
        await writer.close()
    return contents


async def test_what_was_appended_is_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "s.jsonl"
    writer = FileSessionWriter(path)
    assert await writer.open() == Contents()
    assert not path.parent.exists()  # nothing yet
    await writer.append([write_line(HEADER), write_line(ENTRIES[0])])
    assert path.read_bytes() == lines_of(HEADER, ENTRIES[0])
    await writer.append([write_line(item) for item in ENTRIES[1:]])
    assert path.read_bytes() == RECORD
    await writer.close()
    await writer.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await reopen(path) == read_session(path) == Contents(HEADER, ENTRIES)


async def test_a_durable_file_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    writer = FileSessionWriter(path, durable=True)
    await writer.open()
    await writer.append([write_line(HEADER), *map(write_line, ENTRIES)])
    await writer.close()
    assert path.read_bytes() == RECORD


async def test_a_file_cut_at_any_byte_opens_and_has_every_whole_line(tmp_path: Path) -> None:
    path, torn = tmp_path / "s.jsonl", tmp_path / "s.jsonl.torn"
    entries = [TitleEntry(id="t", title='ä"{}\ud83d'), CustomEntry(id="c", parent="t", name="{}")]
    record = lines_of(HEADER, *entries)
    for cut in range(len(record) + 1):
        path.write_bytes(record[:cut])
        torn.unlink(missing_ok=True)
        contents = await reopen(path, NEXT)
        whole = record[:cut].count(b"\n")
        is_whole_but_its_end = record[cut : cut + 1] == b"\n"
        number = max(0, whole - 1 + is_whole_but_its_end)
        assert contents.entries == entries[:number]
        assert contents.faults == []
        half = b"" if is_whole_but_its_end else record[:cut].rpartition(b"\n")[2]
        assert (torn.read_bytes() if torn.exists() else b"") == (half and half + b"\n")
        assert read_session(path).entries == [*entries[:number], NEXT]


@settings(max_examples=25)
@given(
    st.lists(
        st.binary(min_size=1, max_size=30).map(lambda data: data.replace(b"\n", b"")), max_size=4
    ),
    st.data(),
)
async def test_garbage_anywhere_loses_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, garbage: list[bytes], data: st.DataObject
) -> None:
    lines = RECORD.splitlines(keepends=True)
    for piece in garbage:
        lines.insert(data.draw(st.integers(1, len(lines))), piece + b"\n")
    path = tmp_path_factory.mktemp("garbage") / "s.jsonl"
    path.write_bytes(b"".join(lines) + data.draw(st.binary(max_size=9)).replace(b"\n", b""))
    contents = await reopen(path, NEXT)
    assert [item for item in contents.entries if not isinstance(item, Foreign)] == ENTRIES
    assert NEXT in read_session(path).entries


def test_a_file_that_is_no_record_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    for text in ("Dear diary,\nnothing.\n", "no end", '{"type":"sess"}', '{"a": 1}\n', "\0\0\0"):
        path.write_text(text)
        with pytest.raises(SessionError, match="not the record of a session"):
            run(reopen(path, NEXT))
        assert path.read_text() == text
        assert list(tmp_path.iterdir()) == [path]


async def test_an_empty_file_is_a_record_that_has_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    assert await reopen(path) == Contents()


def test_what_is_torn_is_told_but_left_by_who_only_reads(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(RECORD[:-5])
    contents = read_session(path)
    assert (contents.entries, contents.unread) == (ENTRIES[:-1], 1)
    assert path.read_bytes() == RECORD[:-5]


async def test_one_session_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(RECORD)
    first, second = FileSessionWriter(path), FileSessionWriter(path)
    await first.open()
    with pytest.raises(SessionError, match="open in another session"):
        await second.open()
    assert read_session(path).entries == ENTRIES  # reading is free
    await first.close()
    third = FileSessionWriter(path)
    assert (await third.open()).entries == ENTRIES
    await third.close()


async def test_of_two_that_begin_the_same_file_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    first, second = FileSessionWriter(path), FileSessionWriter(path)
    await first.open()
    await second.open()
    await first.append([write_line(HEADER)])
    with pytest.raises(SessionError, match="another file was created"):
        await second.append([write_line(HEADER)])
    await first.close()
    await second.close()
    assert path.read_bytes() == lines_of(HEADER)


async def test_a_file_that_was_deleted_or_replaced_is_told(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.jsonl"
    line = [write_line(HEADER)]
    writer = FileSessionWriter(path)
    await writer.open()
    await writer.append(line)
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(SessionGoneError):
        await writer.append(line)
    await writer.append(line)  # it begins anew, folder and all
    path.rename(path.with_name("moved"))
    path.write_text("somebody else's")
    with pytest.raises(SessionGoneError):
        await writer.append(line)
    with pytest.raises(SessionError, match="another file was created"):
        await writer.append(line)
    await writer.close()
    assert path.read_text() == "somebody else's"
    assert path.with_name("moved").read_bytes() == lines_of(HEADER)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond *size* bytes; what fits is written, as on a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_half_a_write_is_cut_off_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(HEADER, *ENTRIES[:2]))
    writer = FileSessionWriter(path)
    await writer.open()
    with full_disk(path.stat().st_size + 50), pytest.raises(SessionError, match="written"):
        await writer.append([write_line(ENTRIES[2])])
    assert path.stat().st_size == len(lines_of(HEADER, *ENTRIES[:2])) + 50
    assert read_session(path).entries == ENTRIES[:2]
    await writer.append([write_line(item) for item in ENTRIES[2:]])
    await writer.close()
    assert path.read_bytes() == RECORD


async def test_what_somebody_else_adds_takes_no_line_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(RECORD)
    writer = FileSessionWriter(path)
    await writer.open()
    with path.open("ab") as file:
        file.write(b"half a line of somebody else's")
    await writer.append([write_line(NEXT)])
    await writer.close()
    contents = read_session(path)
    assert (contents.entries, contents.unread) == ([*ENTRIES, NEXT], 1)


async def test_a_folder_that_cannot_be_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = FileSessionWriter(tmp_path / "file" / "s.jsonl")
    with pytest.raises(SessionError, match="cannot be opened: Not a directory"):
        await writer.open()
    with pytest.raises(SessionError, match="cannot be written"):
        await writer.append([write_line(HEADER)])
    await writer.close()
    with pytest.raises(SessionError, match="cannot be opened"):
        await FileSessionWriter(tmp_path).open()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SessionError, match="regular file"):
        await FileSessionWriter(tmp_path / "pipe").open()
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        read_session(tmp_path / "absent")


async def test_a_closed_file_takes_no_more(tmp_path: Path) -> None:
    writer = FileSessionWriter(tmp_path / "s.jsonl")
    await writer.open()
    await writer.close()
    with pytest.raises(UsageError):
        await writer.append([write_line(HEADER)])


@pytest.mark.parametrize("turns", range(4))
async def test_who_gives_up_opening_leaves_no_lock(tmp_path: Path, turns: int) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(RECORD)
    given_up = FileSessionWriter(path)
    task = asyncio.ensure_future(given_up.open())
    for _ in range(turns):
        await asyncio.sleep(0)
    if not task.cancel():  # it was quicker
        await given_up.close()
    await asyncio.wait([task])
    await until_free(path)


async def until_free(path: Path) -> None:
    """Wait until a file can be opened."""
    while True:  # until `run` loses its patience
        writer = FileSessionWriter(path)
        try:
            assert (await writer.open()).entries == ENTRIES
        except SessionError:
            await asyncio.sleep(0.01)
        else:
            await writer.close()
            return


async def test_a_file_of_another_system_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(RECORD.replace(b"\n", b"\r\n"))
    assert await reopen(path, NEXT) == Contents(HEADER, ENTRIES)
    assert read_session(path).entries == [*ENTRIES, NEXT]


async def test_a_huge_entry_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    (huge,) = talk("x" * (5 << 20))
    await reopen(path, huge)
    assert read_session(path).entries == [huge]
    assert os.path.getsize(path) > 5 << 20  # noqa: PTH202 - as long as it is
