"""What tasks wait for at a connection."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.server.protocol import LightEvent, LightQueue

DEADLINE = 20.0


def test_a_gate_lets_everybody_pass_who_waits_and_who_comes_later() -> None:
    async def run() -> None:
        gate = LightEvent()
        waiting = [asyncio.create_task(gate.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        gate.set()
        gate.clear()  # Who waited before passes all the same.
        await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE)
        gate.set()
        await asyncio.wait_for(gate.wait(), DEADLINE)

    asyncio.run(run())


def test_a_gate_forgets_who_waits_no_longer() -> None:
    async def run() -> None:
        gate = LightEvent()
        impatient, patient = (asyncio.create_task(gate.wait()) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        gate.set()
        await asyncio.wait_for(patient, DEADLINE)
        gate.clear()
        late = asyncio.create_task(gate.wait())
        await asyncio.sleep(0)
        assert not late.done()
        gate.set()
        await asyncio.wait_for(late, DEADLINE)

    asyncio.run(run())


def test_who_came_first_to_a_queue_is_its_next() -> None:
    queue: LightQueue[int] = LightQueue()
    for number in range(3):
        queue.appendleft(number)
    assert [queue.pop() for _ in range(3)] == [0, 1, 2]
