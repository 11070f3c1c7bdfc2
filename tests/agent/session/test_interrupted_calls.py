"""Calls that were running when their process ended: found, decided about, never run again alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.session.payments import Payer, Till
from agent.session.records import HEADER, entry, lines_of, user
from penstock.agent import Agent, Allow, Defer, Deny, Edit, Resolution, Retry, Session, ToolOutput
from penstock.agent.session import (
    SessionFolder,
    SessionWriter,
    ToolEndEntry,
    ToolStartEntry,
    Tree,
    read_session,
    to_html,
    to_markdown,
)
from penstock.agent.session.entries import Contents, Entry, EntryLine
from penstock.agent.session.tree import find_unfinished
from penstock.agent.tool_calls import INTERRUPTED
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message

PAY = [ToolCall("c1", "pay", {"number": 1}), ToolCall("c2", "pay", {"number": 2})]
ANSWER = AssistantMessage("m", "payer", [*PAY], "tool_use")
BROKEN = AssistantMessage("m", "payer", [*PAY], "error", error=ErrorInfo("gone"))
PAID = [ToolResult("c1", "pay", "paid 1"), ToolResult("c2", "pay", "paid 2")]


def path_of(*items: Any) -> list[Entry]:
    """Make a path of messages, calls that begin (by number) and results that exist."""
    entries: list[Entry] = []
    for at, item in enumerate(items, 1):
        if isinstance(item, int):
            fields: Any = {"call": f"c{item}", "name": "pay", "arguments": {"number": item}}
            entries.append(ToolStartEntry(id=f"e{at}", parent=f"e{at - 1}", **fields))
        elif isinstance(item, tuple):
            entries.append(ToolEndEntry(id=f"e{at}", parent=f"e{at - 1}", result=item[0]))
        else:
            entries.append(entry(at, item))
    return entries


CASES: dict[str, tuple[list[Any], list[Message], list[str]]] = {
    "nothing began": ([user("x"), ANSWER], [], []),
    "one began": ([user("x"), ANSWER, 1], [], ["c1"]),
    "both began": ([user("x"), ANSWER, 1, 2], [], ["c1", "c2"]),
    "the second ended": ([user("x"), ANSWER, 1, 2, (PAID[1],)], [PAID[1]], ["c1"]),
    "both ended": ([user("x"), ANSWER, 1, 2, (PAID[1],), PAID[0]], [PAID[1]], []),
    "all was said": ([user("x"), ANSWER, 1, 2, (PAID[1],), *PAID], [], []),
    "it ran again": ([user("x"), ANSWER, 1, (PAID[0],), 1], [], ["c1"]),
    "an answer that broke": ([user("x"), BROKEN, 1], [], ["c1"]),
    "before its answer": ([user("x"), 1, (PAID[0],), 2, ANSWER], [PAID[0]], ["c2"]),
    "an earlier answer": ([user("x"), ANSWER, 1, 2, *PAID, ANSWER], [], []),
    "a later prompt": ([user("x"), ANSWER, 1, user("y")], [], []),
    "no answer": (
        [user("x"), 1, (PAID[0],), 2],
        [AssistantMessage(content=[*PAY], stop_reason="tool_use"), PAID[0]],
        ["c2"],
    ),
    "the same ids again, and no answer": (
        [user("x"), ANSWER, 1, 2, *PAID, 1],
        [AssistantMessage(content=[PAY[0]], stop_reason="tool_use")],
        ["c1"],
    ),
}


@pytest.mark.parametrize(("items", "said", "interrupted"), CASES.values(), ids=CASES)
def test_a_record_says_of_each_call_whether_it_began_and_ended(
    items: list[Any], said: list[Message], interrupted: list[str]
) -> None:
    found = find_unfinished(path_of(*items))
    assert found.messages == said
    assert [call.id for call in found.interrupted] == interrupted


async def opened(folder: Path, *items: Any) -> tuple[Session, Till]:
    """Open a session whose process was killed after *items*."""
    (folder / "s.jsonl").write_bytes(lines_of(HEADER, *path_of(*items)))
    till = Till(str(folder))
    agent = Agent(Payer(), till.tools(), approve="all")
    return await Session(agent, folder / "s.jsonl").open(), till


def results(session: Session) -> list[Any]:
    messages = session.agent.messages
    return [message.content for message in messages if isinstance(message, ToolResult)]


@pytest.mark.parametrize(
    ("said", "result", "paid"),
    [
        (None, INTERRUPTED, []),
        (Retry(), "paid 1", [1]),
        (Retry({"number": 7}), "paid 7", [7]),
        (ToolOutput("it was paid"), "it was paid", []),
        (Deny("the bank says no"), f"{INTERRUPTED} the bank says no", []),
        (False, INTERRUPTED, []),
    ],
)
async def test_the_owner_decides_what_becomes_of_an_interrupted_call(
    tmp_path: Path, said: Resolution | None, result: str, paid: list[int]
) -> None:
    session, till = await opened(tmp_path, user("x"), ANSWER, 1, 2, (PAID[1],))
    assert [call.id for call in session.interrupted] == ["c1"]
    assert session.agent.deferred == []
    decisions = {} if said is None else {"c1": said}
    await session.resume(decisions).result(check=True)
    assert results(session) == ["paid 2", result]
    assert till.paid() == paid
    assert session.interrupted == []
    await session.close()
    again = Agent(Payer())
    async with Session(again, tmp_path / "s.jsonl") as later:
        assert again.messages == session.agent.messages
        assert later.interrupted == []
    assert ('"approval":"retried"' in _text(tmp_path)) == isinstance(said, Retry)


def _text(folder: Path) -> str:
    return (folder / "s.jsonl").read_text()


@pytest.mark.parametrize("said", [Allow(), True, Edit({"number": 3}), "retry", None])
async def test_an_interrupted_call_is_not_allowed_by_accident(tmp_path: Path, said: Any) -> None:
    session, till = await opened(tmp_path, user("x"), ANSWER, 1)
    with pytest.raises(UsageError):
        session.resume({"c1": said})
    assert till.paid() == []
    await session.close()


async def test_an_interrupted_call_may_wait_and_a_prompt_leaves_it_unknown(tmp_path: Path) -> None:
    session, till = await opened(tmp_path, user("x"), ANSWER, 1, 2)
    await session.resume({"c1": Defer(), "c2": ToolOutput("seen")}).result(check=True)
    assert [call.id for call in session.interrupted] == ["c1"]
    await session.run("Never mind.").result(check=True)
    assert results(session) == ["seen", INTERRUPTED]
    assert till.paid() == []
    await session.close()


async def test_a_call_that_had_not_begun_waits_as_before(tmp_path: Path) -> None:
    session, till = await opened(tmp_path, user("x"), ANSWER, 1)
    assert [call.id for call in session.agent.deferred] == ["c2"]
    await session.resume().result(check=True)
    assert results(session) == [INTERRUPTED, "paid 2"]
    assert till.paid() == [2]
    await session.close()


async def test_an_interrupted_call_is_seen_by_who_only_reads(tmp_path: Path) -> None:
    session, _ = await opened(tmp_path, user("x"), ANSWER, 1, 2, (PAID[1],))
    await session.close()
    contents = read_session(tmp_path / "s.jsonl")
    for write in (to_markdown, to_html):
        page = write(contents.header, Tree(contents.entries))
        assert page.count("Tool started") == 2
        assert page.count("paid 2") == 1


class Full:
    """A writer that takes no beginnings of calls: the disk is full by then."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer

    async def open(self) -> Contents:
        return await self._writer.open()

    async def append(self, lines: Sequence[EntryLine]) -> None:
        if any(isinstance(line.item, ToolStartEntry) for line in lines):
            raise OSError("no space left")
        await self._writer.append(lines)

    async def close(self) -> None:
        await self._writer.close()


class FullFolder(SessionFolder):
    def writer(self, id: str) -> Any:  # noqa: A002 - the field's name
        return Full(super().writer(id))


async def test_a_call_whose_beginning_cannot_be_recorded_is_not_run(tmp_path: Path) -> None:
    till = Till(str(tmp_path))
    agent = Agent(Payer(), till.tools(), approve="all")
    session = await Session(agent, store=FullFolder(tmp_path), id="s").open()
    await session.run("Pay both.").result(check=True)
    for content in results(session):
        assert content.startswith("The call was not run")
        assert "no space left" in content
    assert till.paid() == []
    with pytest.raises(OSError, match="no space"):
        await session.close()
