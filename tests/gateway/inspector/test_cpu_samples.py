"""The processor time of a chunk, over time."""

from __future__ import annotations

from itertools import count

from penstock.gateway.inspector.live import MAX_SAMPLES, CpuSamples


def test_the_cost_of_chunks_is_returned_for_each_bucket() -> None:
    clock, worked = iter([0.0, 3.0, 20.0, 40.0, 90.0]), iter([1.0, 1.5, 2.5, 3.0])
    samples = CpuSamples(lambda: next(clock), lambda: next(worked))
    samples.note(100)  # too soon for a sample
    samples.note(400)
    samples.note(50)
    samples.note(200)
    assert samples.chunks == 750
    assert samples.per_bucket(0.0, 30.0, 4) == [1000.0, None, None, 2500.0]
    assert samples.per_bucket(1000.0, 30.0, 2) == [None, None]


def test_samples_are_bounded() -> None:
    clock = count(0.0, 100.0)
    samples = CpuSamples(lambda: next(clock), lambda: 0.0)
    for _ in range(MAX_SAMPLES * 2):
        samples.note(1)
    assert len(samples._samples) == MAX_SAMPLES
