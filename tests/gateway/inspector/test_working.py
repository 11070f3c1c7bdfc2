"""What a piece has cost, over time."""

from __future__ import annotations

from itertools import count

from penstock.gateway.inspector.working import KEPT, Working


def test_the_cost_of_pieces_is_told_for_each_stretch_of_time() -> None:
    clock, worked = iter([0.0, 3.0, 20.0, 40.0, 90.0]), iter([1.0, 1.5, 2.5, 3.0])
    working = Working(lambda: next(clock), lambda: next(worked))
    working.note(100)  # too soon for a sample
    working.note(400)
    working.note(50)
    working.note(200)
    assert working.chunks == 750
    assert working.over_time(0.0, 30.0, 4) == [1000.0, None, None, 2500.0]
    assert working.over_time(1000.0, 30.0, 2) == [None, None]


def test_samples_are_bounded() -> None:
    clock = count(0.0, 100.0)
    working = Working(lambda: next(clock), lambda: 0.0)
    for _ in range(KEPT * 2):
        working.note(1)
    assert len(working._samples) == KEPT
