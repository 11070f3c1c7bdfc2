"""What a tool returns is made into what a model can be shown."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from penstock import _json
from penstock.agent.tools import ToolOutput, cut_middle, make_content
from penstock.messages import Opaque, Text
from penstock.request import Image

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"


@dataclass
class Boat:
    name: str
    built: date


class Tide(Struct):
    hour: int
    boats: tuple[Boat, ...] = ()


class Wind(enum.Enum):
    NORTH = "north"


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Model:
    """As pydantic's are."""

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, ""),
        ("", ""),
        ("text", "text"),
        (3, 3),
        (False, False),
        ([1, "a"], [1, "a"]),
        ((1, 2), [1, 2]),
        ([], "[]"),
        ({}, {}),
        ({"a": {1: date(2026, 1, 2)}}, {"a": {"1": "2026-01-02"}}),
        (Tide(6, (Boat("Anna", date(1900, 1, 2)),)), {
            "hour": 6, "boats": [{"name": "Anna", "built": "1900-01-02"}],
        }),
        (Wind.NORTH, "north"),
        (Path("a/b"), "a/b"),
        ([Path("a")], ["a"]),
        (ValueError("no boat"), "no boat"),
        (Model(), {"mode": "json"}),
        (b"text", "text"),
        (b"\xff\xfe", "(2 bytes that are not text)"),
        (b"RIFF\xff\0\0\0WEBPVP8", [Image("image/webp", "UklGRv8AAABXRUJQVlA4")]),
        (PNG, [Image("image/png", "iVBORw0KGgoA/w==")]),
        (Text("a"), [Text("a")]),
        ([Text("a"), Image(url="u"), "b"], [Text("a"), Image(url="u"), Text("b")]),
        ((Text("a"), Opaque("p", 1)), [Text("a"), Opaque("p", 1)]),
        (ToolOutput({"a": 1}, details="more"), {"a": 1}),
        (ToolOutput(None), ""),
        (Silent(), "(Silent, cannot be printed: RuntimeError)"),
    ],
    ids=lambda case: type(case).__name__,
)  # fmt: skip
def test_a_value_is_shown(value: object, content: Any) -> None:
    assert make_content(value) == content
    assert type(make_content(value)) is type(content)


def test_a_value_that_contains_itself_is_printed() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert make_content(ring) == "[[...]]"


def test_a_block_among_other_values_is_json_like_them() -> None:
    assert make_content([Text("a"), 1]) == [{"type": "text", "text": "a", "signature": ""}, 1]


def test_a_long_text_loses_its_middle() -> None:
    assert cut_middle("abcdefghij", 4) == ("ab\n[… 6 characters omitted …]\nij")
    assert make_content("x" * 101, 100).count("x") == 100


def test_a_long_value_is_cut_as_text() -> None:
    content = make_content({"a": "x" * 500}, 100)
    assert isinstance(content, str)
    assert content.startswith('{"a":"xxx')
    assert content.endswith('x"}')


def test_long_blocks_share_the_room_and_pictures_are_left() -> None:
    picture = Image("image/png", "A" * 1000)
    first, second, third = make_content([Text("x" * 300), picture, Text("y" * 100)], 100)
    assert (first.text.count("x"), second, third.text.count("y")) == (75, picture, 25)


@settings(max_examples=25)
@given(st.text(), st.integers(1, 50))
def test_a_cut_keeps_the_ends_and_the_size(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    if len(text) <= limit:
        assert cut == text
    else:
        assert len(cut) <= limit + 60
        assert cut[0] == text[0]


@settings(max_examples=25)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
        max_leaves=5,
    )
)
def test_whatever_comes_can_be_written(value: object) -> None:
    assert _json.encode(make_content(value))
