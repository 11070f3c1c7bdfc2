"""Entries: lines of a record, read whatever they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.session.records import HEADER, TALK, entry, lines_of
from penstock.agent.session.entries import (
    MAX_FAULTS,
    MAX_STRING,
    VERSION,
    CompactionEntry,
    Contents,
    CustomEntry,
    Entry,
    FindingEntry,
    Foreign,
    LabelEntry,
    MessageEntry,
    ModelEntry,
    TitleEntry,
    cut_long_strings,
    read_lines,
    write_line,
)
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text, Thinking, ToolResult

EVERY: list[Entry] = [
    *(entry(number, message) for number, message in enumerate(TALK, 1)),
    entry(5, TALK[0], kept=False),
    CompactionEntry(id="c", parent="e5", time=1.5, summary="all", first_kept="e3", tokens=9),
    FindingEntry(id="f", parent="c", time=2.0, source="rule", names=["a", "b"]),
    ModelEntry(id="m", parent="f", model="other"),
    LabelEntry(id="l", parent="m", target="e1", label="here"),
    TitleEntry(id="t", parent="l", title="Ä title"),
    CustomEntry(id="x", parent="t", name="mine", data={"deep": [float("nan"), "\ud800"]}),
]


def read(data: bytes) -> Contents:
    return read_lines(data.split(b"\n"))


@pytest.mark.parametrize("item", EVERY[:-1], ids=lambda item: f"{item.type}-{item.id}")
def test_an_entry_is_read_back_as_it_was_written(item: Entry) -> None:
    assert read(lines_of(HEADER, item)) == Contents(HEADER, [item])


def test_what_json_cannot_say_is_read_back_too() -> None:
    (found,) = read(lines_of(EVERY[-1])).entries
    assert isinstance(found, CustomEntry)
    assert repr(found.data) == repr(EVERY[-1].data)  # type: ignore[attr-defined]


def test_a_line_is_one_line() -> None:
    for item in EVERY:
        assert b"\n" not in write_line(item).data


def test_what_a_line_leaves_out_is_the_default() -> None:
    assert write_line(ModelEntry(id="a", model="m")).data == (
        b'{"type":"model_change","id":"a","model":"m"}'
    )


def test_an_entry_of_a_newer_version_keeps_its_place_and_its_bytes() -> None:
    strange = b'{"id": "n1", "type": "dream", "parent": "e1",   "time": 5.5, "about": {"x": 1}}'
    contents = read(lines_of(HEADER) + strange + b"\n" + lines_of(entry(2, TALK[1], "n1")))
    found = contents.entries[0]
    assert found == Foreign(id="n1", parent="e1", time=5.5, kind="dream", line=strange)
    assert write_line(found).data == strange
    assert contents.faults == []


def test_a_known_type_of_a_shape_that_is_not_known_is_foreign_too() -> None:
    line = b'{"type":"message","id":"z","message":{"role":"oracle"},"parent":7,"time":"now"}'
    (found,) = read(line).entries
    assert found == Foreign(id="z", kind="message", line=line)


def test_fields_that_are_not_known_do_no_harm() -> None:
    line = b'{"type":"title","id":"t","title":"x","colour":"red"}'
    assert read(line).entries == [TitleEntry(id="t", title="x")]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"null",
        b"[1]",
        b'{"type":"message"}',
        b'{"id":"a"}',
        b'{"type":"session","version":"one"}',
        b'{"type":1,"id":"a"}',
        b'{"type":"dream","id":""}',
        b"\xff\xfe\x00",
        b"\x00" * 50,
        b"[" * 100_000,
        b'{"type":"dream","id":"a","time":' + b"9" * 5000 + b"}",
    ],
    ids=range(12),
)
def test_a_line_that_is_no_entry_is_told_and_passed_over(line: bytes) -> None:
    contents = read(lines_of(HEADER) + line + b"\n" + lines_of(*EVERY[:2]))
    assert (contents.header, contents.entries) == (HEADER, EVERY[:2])
    assert [fault.line for fault in contents.faults] == [2]
    assert contents.unread == 1


def test_lines_that_cannot_be_read_are_counted_and_not_all_told() -> None:
    contents = read(b"x\n" * 1000)
    assert (len(contents.faults), contents.unread) == (MAX_FAULTS, 1000)


@settings(max_examples=50)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(EVERY[:3]))))
def test_no_bytes_keep_the_others_from_being_read(parts: list[bytes | Entry]) -> None:
    data = b"\n".join(
        part.replace(b"\n", b"") if isinstance(part, bytes) else write_line(part).data
        for part in parts
    )
    found = [item for item in read(data).entries if isinstance(item, MessageEntry)]
    assert found == [part for part in parts if isinstance(part, Entry)]


def test_an_older_version_is_brought_up_to_date_line_by_line() -> None:
    def rename(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "title": value.pop("name")} if value["type"] == "title" else value

    def shout(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "title": value["title"].upper()} if value["type"] == "title" else value

    steps = {VERSION - 2: rename, VERSION - 1: shout}
    lines = [
        b'{"type":"session","version":%d,"id":"s"}' % (VERSION - 2),
        b'{"type":"title","id":"t1","name":"old"}',
        b'{"type":"session","version":%d,"id":"s"}' % (VERSION - 1),  # it went on with this
        b'{"type":"title","id":"t2","title":"newer"}',
        b'{"type":"session","version":%d,"id":"s"}' % VERSION,
        b'{"type":"title","id":"t3","title":"today"}',
    ]
    contents = read_lines(lines, steps)
    assert [item.title for item in contents.entries if isinstance(item, TitleEntry)] == [
        "OLD",
        "NEWER",
        "today",
    ]
    assert contents.header is not None
    assert contents.header.version == VERSION - 2
    assert contents.faults == []


def test_a_line_that_cannot_be_brought_up_to_date_is_foreign() -> None:
    def fail(value: dict[str, Any]) -> dict[str, Any]:
        return {"type": value["nothing"]}

    line = b'{"type":"title","id":"t"}'
    contents = read_lines([b'{"type":"session","version":0,"id":"s"}', line], {0: fail})
    assert contents.entries == [Foreign(id="t", kind="title", line=line)]


def test_a_value_without_json_form_is_refused() -> None:
    with pytest.raises(UsageError):
        write_line(CustomEntry(id="x", name="n", data=object()))


# --- huge entries ---


def test_long_strings_are_cut_and_say_so() -> None:
    content = {"a": ["x" * (MAX_STRING + 7), "short"], "b": "y" * MAX_STRING}
    found = cut_long_strings(entry(1, ToolResult("c", "t", content)))
    assert isinstance(found, MessageEntry)
    assert isinstance(found.message, ToolResult)
    cut, short = found.message.content["a"]
    assert cut == "x" * MAX_STRING + "\n[7 characters were not recorded]"
    assert (short, found.message.content["b"]) == ("short", content["b"])


def test_half_a_signature_is_none() -> None:
    said = AssistantMessage(content=[Thinking("hm", "s" * MAX_STRING * 2), Text("t", "kept")])
    found = cut_long_strings(entry(1, said))
    assert isinstance(found, MessageEntry)
    assert found.message == AssistantMessage(content=[Thinking("hm"), Text("t", "kept")])
