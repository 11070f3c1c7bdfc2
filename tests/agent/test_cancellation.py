"""What must end is waited for, whoever is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from penstock.agent.cancellation import shielded


async def test_a_result_and_an_error_come_through() -> None:
    async def fail() -> None:
        raise LookupError("no boat")

    assert await shielded(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError, match="no boat"):
        await shielded(fail())


@pytest.mark.parametrize("ends", ["well", "badly"])
async def test_a_cancellation_waits_for_the_work(ends: str) -> None:
    may_end = asyncio.Event()
    seen: list[str] = []

    async def work() -> None:
        await may_end.wait()
        seen.append("ended")
        if ends == "badly":
            raise LookupError("no boat")

    task = asyncio.create_task(shielded(work(), lambda: seen.append("asked to end")))
    await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["asked to end", "asked to end", "ended"]
