"""`penstock.framing`: the same lines from any pieces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.cutting import cut_at
from penstock.framing import LineSplitter, UniversalLineSplitter

if TYPE_CHECKING:
    from collections.abc import Iterable

BYTES = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\x85", b"\x0b"]), max_size=20)
CUTS = st.lists(st.integers(0, 30), max_size=8)


def split_all(splitter: LineSplitter, pieces: Iterable[bytes]) -> list[bytes]:
    """Give all lines, and what is left of the last as one more, be it empty."""
    return [line for piece in pieces for line in splitter.split(piece)] + [splitter.take_rest()]


@given(pieces=BYTES, cuts=CUTS)
def test_universal_lines_end_with_any_line_end(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    lines = split_all(UniversalLineSplitter(100), cut_at(data, cuts))
    assert lines == re.split(b"\r\n|\r|\n", data)


@given(pieces=BYTES, cuts=CUTS)
def test_plain_lines_end_with_lf_alone(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    assert split_all(LineSplitter(100), cut_at(data, cuts)) == data.split(b"\n")


@pytest.mark.parametrize("splitter", [LineSplitter(3), UniversalLineSplitter(3)])
def test_an_overflow_keeps_the_lines_before_it(splitter: LineSplitter) -> None:
    assert splitter.split(b"123\n\n1234\n1\n") == [b"123", b""]
    assert splitter.overflow is not None
    assert (splitter.overflow.limit, splitter.overflow.value) == ("max_line", 3)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", True, id="at the beginning"),
        pytest.param(b"a\n", True, id="behind an LF"),
        pytest.param(b"a", False, id="in a line"),
        pytest.param(b"a\r\n", True, id="behind a CRLF"),
        pytest.param(b"a\r", False, id="behind a CR, as an LF would belong to it"),
    ],
)
def test_a_splitter_knows_where_a_line_begins(data: bytes, *, expected: bool) -> None:
    splitter = UniversalLineSplitter(100)
    splitter.split(data)
    assert splitter.at_line_start is expected
