"""A session is resumed as it was left, also after going back to an earlier entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.session.records import CALL, RESULT, agent, answer, user
from penstock.agent.session import Session
from penstock.agent.summarize import replace_with_summary
from penstock.request import Message

SAID: list[Message] = [user("a"), answer("b"), CALL, RESULT]

STEPS = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.integers(0, 4)),
    st.tuples(st.just("branch"), st.integers(0, 30)),
    st.tuples(st.just("fork"), st.integers(0, 30)),
    st.tuples(st.just("rename"), st.integers(0, 9)),
    st.tuples(st.just("resume"), st.just(0)),
)


class Talk:
    """An agent and its session, and what the agent should remember."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._agent = agent()
        self._session = Session(self._agent, folder / "0.jsonl")
        self._forks = 0

    async def play(self, steps: list[tuple[str, int]]) -> None:
        await self._session.open()
        for name, number in [*steps, ("resume", 0)]:
            await getattr(self, f"_{name}")(number)
        await self._session.close()

    async def _say(self, number: int) -> None:
        self._agent.messages.append(SAID[number])
        await self._session.message(SAID[number])

    async def _drop(self, number: int) -> None:
        await self._session.message(SAID[number], kept=False)

    async def _compact(self, kept: int) -> None:
        messages = self._agent.messages
        kept = min(kept, len(messages) - 1)
        if kept >= 0:  # as an agent does it: something is summed up
            messages[:] = replace_with_summary("sum", messages[len(messages) - kept :])
            await self._session.compacted("sum", kept, 0)

    async def _branch(self, number: int) -> None:
        entries = self._session.entries
        if entries:
            await self._session.branch(entries[number % len(entries)].id)
            await self._session.note("here")  # a way on which nothing is said leaves no trace

    async def _fork(self, number: int) -> None:
        entries = self._session.entries
        if entries:
            self._forks += 1
            path = self._folder / f"{self._forks}.jsonl"
            self._session = await self._session.fork(entries[number % len(entries)].id, path)

    async def _rename(self, number: int) -> None:
        await self._session.rename(f"title {number}")

    async def _resume(self, _: int) -> None:
        before: Any = (self._session.title, self._session.usage, self._session.leaf)
        is_written = self._session.tree.messages > 0
        await self._session.close()
        left = list(self._agent.messages)
        self._agent = agent()
        self._session = await Session(self._agent, self._session.path).open()
        if is_written:
            assert self._agent.messages == left
            assert (self._session.title, self._session.usage, self._session.leaf) == before
            assert self._session.faults == []


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=12))
async def test_a_session_is_resumed_as_it_was_left(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    await Talk(tmp_path_factory.mktemp("talk")).play(steps)
