"""Arguments are whole when any reader of JSON takes them, and leave as such."""

from __future__ import annotations

import json
import math

import pytest

from penstock.apis.arguments import ArgumentsOut, strict_object
from penstock.messages import ToolCall


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("text", ['{"a": %s}', '{"a": [{"b": [1, %s]}]}'])
def test_a_number_without_end_makes_no_whole_object(text: str, number: str) -> None:
    assert strict_object(text % number) is None
    assert strict_object(text % "1e99") is not None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_leaves_as_it_was_understood_is_json(number: float) -> None:
    out = ArgumentsOut()
    assert out.add("call me with ") == ""
    written = out.end(ToolCall("c", "f", {"a": number, "b": "\ud83d"}))
    assert json.loads(written, parse_constant=pytest.fail) == {"a": None, "b": "\ufffd"}
