"""The grammar of JSON as a table: what every reader must read, must refuse, or may do as it likes.

Each line of `conformance.jsonl` is a case. The standard library is the judge of what is strict; for
a text that is not, the line says what `loads` and `repair` make of it (nothing: they refuse it).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import _json
from penstock.errors import JSONParseError
from penstock.values import rjson
from penstock.values.incremental import IncrementalJSON

LINES = Path(__file__).with_name("conformance.jsonl").read_text(encoding="utf-8").split("\n")
CASES: list[dict[str, Any]] = [json.loads(line) for line in LINES if line]


def cases(*classes: str) -> pytest.MarkDecorator:
    chosen = [pytest.param(case, id=case["id"]) for case in CASES if case["class"] in classes]
    return pytest.mark.parametrize("case", chosen)


def exactly(value: Any) -> str:
    """Tell values apart that are equal but not the same: `1` and `1.0`, `True` and `1`, `-0.0`."""
    return json.dumps(value)


def read_incrementally(text: str) -> Any:
    reader = IncrementalJSON()
    reader.feed(text)
    reader.finish()
    return reader.value


def test_the_table_is_large_and_each_case_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 250
    assert len({case["id"] for case in CASES}) == len(CASES)
    assert {case["class"] for case in CASES} == {"must", "must not", "free"}


@cases("must")
def test_every_reader_reads_what_it_must(case: dict[str, Any]) -> None:
    text = case["text"]
    wanted = exactly(json.loads(text))
    assert exactly(_json.decode(text)) == wanted
    assert exactly(rjson.loads(text)) == wanted
    repaired = rjson.repair(text)
    assert exactly(repaired.value) == wanted
    assert repaired.repairs == []


@cases("must")
def test_the_incremental_reader_reads_what_it_must(case: dict[str, Any]) -> None:
    assert exactly(read_incrementally(case["text"])) == exactly(json.loads(case["text"]))


@cases("must not")
def test_the_strict_readers_refuse_what_they_must(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".*"):
        json.loads(case["text"])
    with pytest.raises(JSONParseError):
        _json.decode(case["text"])


@cases("must not")
def test_the_incremental_reader_refuses_what_it_must(case: dict[str, Any]) -> None:
    with pytest.raises(JSONParseError):
        read_incrementally(case["text"])


@cases("must not")
def test_loads_reads_the_relaxed_and_refuses_the_broken(case: dict[str, Any]) -> None:
    if "loads" in case:
        assert exactly(rjson.loads(case["text"])) == exactly(case["loads"])
        return
    with pytest.raises(JSONParseError) as caught:
        rjson.loads(case["text"])
    assert 0 <= caught.value.position <= len(case["text"])


@cases("must not")
def test_repair_mends_as_the_table_says_and_tells_of_it(case: dict[str, Any]) -> None:
    if "repair" in case:
        repaired = rjson.repair(case["text"])
        assert exactly(repaired.value) == exactly(case["repair"])
        assert repaired.repairs
        return
    with pytest.raises(JSONParseError):
        rjson.repair(case["text"])


@cases("must not")
def test_repair_never_changes_what_loads_can_read(case: dict[str, Any]) -> None:
    if "loads" in case:
        assert exactly(case["repair"]) == exactly(case["loads"])


@cases("free")
def test_a_free_case_gives_a_value_or_the_typed_error(case: dict[str, Any]) -> None:
    for read in (_json.decode, rjson.loads, rjson.repair, read_incrementally):
        try:
            read(case["text"])
        except JSONParseError as exc:
            assert exc.position <= len(case["text"])  # noqa: PT017 - to raise is lawful too
