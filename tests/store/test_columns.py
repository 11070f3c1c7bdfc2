"""Whatever a record holds, its row can be written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.tables import (
    MAX_INTEGER,
    MAX_KEY,
    METADATA,
    Fields,
    clean_json,
    clean_key,
    clean_text,
)

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.text(st.characters()),
    st.lists(st.text(st.characters())),
    st.dictionaries(st.text(), st.integers()),
)


class Anything:
    """A record whose every field is the same value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return self.value


@given(text=st.text(st.characters()), length=st.none() | st.integers(0, 20))
def test_cleaned_text_is_taken_by_any_database(text: str, length: int | None) -> None:
    cleaned = clean_text(text, length)
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert length is None or len(cleaned) <= length
    assert clean_text(cleaned, length) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain é 🌊", "plain é 🌊"),
        ("a\0b", "a\ufffdb"),
        ("\ud83c\udf0a", "🌊"),
        ("x\ud83c", "x\ufffd"),
        ("\udf0ax", "\ufffdx"),
    ],
)
def test_only_what_no_database_takes_is_changed(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_a_long_key_is_told_apart_by_its_end() -> None:
    one, two = clean_key("k" * 500 + "1"), clean_key("k" * 500 + "2")
    assert one != two
    assert len(one) == len(two) == MAX_KEY
    assert clean_key("k" * MAX_KEY) == "k" * MAX_KEY


def test_what_has_no_json_form_is_empty() -> None:
    assert clean_json({"a": object()}, "{}") == "{}"
    assert clean_json(None, "[]") == "[]"
    assert clean_json({"a": "\0"}, "{}") == '{"a":"\\u0000"}'


@given(value=ANYTHING)
def test_no_value_at_all_breaks_a_row(value: object) -> None:
    for table in METADATA.sorted_tables:
        for cleaned in Fields(table.c).make_row(Anything(value)).values():
            if isinstance(cleaned, int):
                assert abs(cleaned) <= MAX_INTEGER
            elif isinstance(cleaned, str):
                cleaned.encode()
            elif isinstance(cleaned, float):
                assert cleaned - cleaned == 0, "finite"
            else:
                assert cleaned is None or isinstance(cleaned, bytes)
