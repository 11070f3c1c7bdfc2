"""`ArgumentWriter`: pieces of strict JSON that say what the arguments are."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from laws.strategies import ARGUMENTS
from penstock.parsing.arguments import ArgumentWriter
from penstock.values import Schema

SCHEMA = Schema(
    {
        "properties": {
            "text": {"type": "string"},
            "n": {"type": "integer"},
            "maybe": {"type": ["string", "null"]},
            "unit": {"enum": ["kg", "lb"]},
            "any": {},
        }
    }
)


def write(arguments: dict[str, Any], schema: Schema | None = None) -> tuple[str, dict[str, Any]]:
    pieces: list[str] = []
    writer = ArgumentWriter(schema, pieces.append)
    for key, value in arguments.items():
        writer.put(key, value)
    writer._emit(writer.closing)
    return "".join(pieces), writer.arguments


def test_completing_a_text_that_is_whole_writes_no_empty_piece() -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(SCHEMA, pieces.append)
    writer.open_text("text")
    writer.add_text("a")
    writer.add_text("")
    writer.complete({"text": "a"}, "a")
    assert pieces == ['{"text":"', "a", '"']


@given(ARGUMENTS)
def test_any_arguments_are_written_as_strict_json(arguments: dict[str, Any]) -> None:
    text, seen = write(arguments)
    assert json.loads(text) == seen == arguments


def test_values_are_coerced_by_the_schema_of_a_known_tool_alone() -> None:
    assert write({"n": "3", "x": "3"}, SCHEMA)[1] == {"n": 3, "x": "3"}
    assert write({"n": "3"})[1] == {"n": "3"}


@pytest.mark.parametrize(
    ("key", "streams"),
    [
        ("text", True),
        ("any", True),
        ("unknown", True),
        ("n", False),
        ("maybe", False),
        ("unit", False),
    ],
)
def test_a_string_streams_where_coercion_would_not_touch_it(key: str, streams: bool) -> None:  # noqa: FBT001
    assert ArgumentWriter(SCHEMA, print).streams(key) is streams
    assert ArgumentWriter(None, print).streams(key)


def test_a_string_is_escaped_piece_by_piece() -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(SCHEMA, pieces.append)
    writer.open_text("text")
    writer.add_text('a "quoted"\n')
    writer.add_escaped("\\t")
    writer.add_text("é😀")
    writer.close_text('a "quoted"\n\té😀')
    writer._emit(writer.closing)
    assert json.loads("".join(pieces)) == writer.arguments == {"text": 'a "quoted"\n\té😀'}


def test_no_arguments_are_an_empty_object() -> None:
    assert write({}) == ("{}", {})


@pytest.mark.parametrize("again", [2, True, "1", [1], None])
def test_a_key_is_written_once_and_another_value_is_a_conflict(again: Any) -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(None, pieces.append)
    assert not writer.is_written("a")
    writer.put("a", 1)
    assert writer.is_written("a")
    writer.put("a", 1)
    assert writer.conflicts == {}
    writer.put("a", again)
    assert writer.arguments == {"a": again}
    assert writer.conflicts == writer.written == {"a": 1}
    assert "".join(pieces) + writer.closing == '{"a":1}'
    assert json.loads(writer.text) == {"a": again}


def test_a_string_that_comes_again_is_not_written() -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(None, pieces.append)
    for text in ("safe", "safe", "evil"):
        writer.open_text("a")
        writer.add_text(text)
        writer.add_escaped("\\n")
        writer.close_text(text + "\n")
    assert "".join(pieces) + writer.closing == '{"a":"safe\\n"}'
    assert (writer.written, writer.arguments) == ({"a": "safe\n"}, {"a": "evil\n"})


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 16**5000], ids="+-0x")
def test_a_number_that_json_cannot_say_is_a_flaw(number: float) -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(None, pieces.append)
    writer.put("a", [number])
    assert (pieces, writer.arguments) == ([], {})
    assert "'a'" in writer.flaw


def test_halves_of_a_surrogate_pair_that_meet_are_one_character() -> None:
    pieces: list[str] = []
    writer = ArgumentWriter(None, pieces.append)
    writer.open_text("\ud83d\ude00")
    writer.add_text("\ud83d")
    writer.add_text("\ude00")
    writer.close_text("\ud83d\ude00")
    writer.put("x", ["\ud83d\ude00", {"\ud83d\ude00": 1, "😀": 2}])
    text = "".join(pieces) + writer.closing
    assert json.loads(text) == writer.arguments == {"😀": "😀", "x": ["😀", {"😀": 2}]}
    assert text.count("1") == 0


@pytest.mark.parametrize("half", ["\ud800", "x\udfffy", "é\ud83d"])
def test_half_a_surrogate_pair_is_written_as_an_escape(half: str) -> None:
    arguments = {"any": [half], half: half, "text": half}
    pieces: list[str] = []
    writer = ArgumentWriter(SCHEMA, pieces.append)
    writer.open_text("text")
    writer.add_text(half)
    writer.close_text(half)
    writer.put("any", [half])
    writer.put(half, half)
    text = "".join(pieces) + writer.closing
    text.encode()
    assert json.loads(text) == writer.arguments == arguments
