"""What tasks wait for at a connection."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.http_exchange import DisconnectSignal
from penstock.gateway.protocol import DirectWriter, LightEvent, LightFlowControl, LightQueue

DEADLINE = 20.0


async def test_a_gate_lets_everybody_pass_who_waits_and_who_comes_later() -> None:
    gate = LightEvent()
    waiting = [asyncio.create_task(gate.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    gate.set()
    gate.clear()  # Who waited before passes all the same.
    await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE)
    gate.set()
    await asyncio.wait_for(gate.wait(), DEADLINE)


async def test_a_gate_forgets_who_waits_no_longer() -> None:
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


def test_who_came_first_to_a_queue_is_its_next() -> None:
    queue: LightQueue[int] = LightQueue()
    for number in range(3):
        queue.appendleft(number)
    assert [queue.pop() for _ in range(3)] == [0, 1, 2]


# --- chunks of a stream ---


class Wire(asyncio.Transport):
    """A transport that records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


@pytest.mark.parametrize(
    ("is_chunked", "sent"), [(True, b"c\r\ndata: high\n\n\r\n"), (False, b"data: high\n\n")]
)
def test_a_chunk_is_framed_if_the_client_reads_chunks(sent: bytes, *, is_chunked: bool) -> None:
    wire = Wire()
    writer = DirectWriter(wire, LightFlowControl(wire), DisconnectSignal(), is_chunked=is_chunked)
    assert writer.write(b"data: high\n\n")
    assert wire.written == [sent]


def test_the_head_of_a_response_is_written_with_what_follows_it() -> None:
    wire = Wire()
    writer = DirectWriter(wire, LightFlowControl(wire), DisconnectSignal(), is_chunked=True)
    writer.join_head()
    writer.write_framed(b"head ")
    assert wire.written == []
    assert writer.write(b"one")
    assert writer.write(b"two")
    assert wire.written == [b"head 3\r\none\r\n", b"3\r\ntwo\r\n"]


def test_no_chunk_is_written_while_the_client_is_slow_or_gone() -> None:
    wire, signal = Wire(), DisconnectSignal()
    flow = LightFlowControl(wire)
    writer = DirectWriter(wire, flow, signal, is_chunked=True)
    flow.pause_writing()
    assert not writer.write(b"one")
    flow.resume_writing()
    assert writer.write(b"two")
    signal.set()
    assert not writer.write(b"three")
    assert wire.written == [b"3\r\ntwo\r\n"]
