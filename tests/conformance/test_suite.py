"""The public conformance suite: its cases, its runner, and penstock in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.pack import TARGET, pack
from penstock.cli.app import app
from penstock.conformance.suite import (
    SUITES,
    WAYS,
    Case,
    Expected,
    PiecesUnsupported,
    Reading,
    compare,
    cut_by_chance,
    load_cases,
    run_suite,
)
from penstock.errors import UsageError
from penstock.testing.drivers import PenstockDriver, make_driver
from penstock.testing.server_drivers import ByteTokenizer
from penstock.testing.text_driver import MarkerTokenizer

MAX_BYTES = 1_000_000
SHARDS = 8
"""One case in so many runs here: tests/formats reads all vectors, `make e2e` the whole suite."""


def test_the_packed_cases_are_those_of_the_vectors() -> None:
    assert TARGET.read_bytes() == pack(), "run `python tests/conformance/pack.py`"
    assert len(pack()) < MAX_BYTES


def test_penstock_passes_its_cases() -> None:
    rows = run_suite(PenstockDriver(), load_cases()[::SHARDS])
    assert {row.suite for row in rows} == set(SUITES)
    assert [line for row in rows for line in row.failed] == []
    assert all(row.passed == [row.cases] * len(WAYS) for row in rows)


class Careless(PenstockDriver):
    """Drops what comes in small pieces and raises on reasoning."""

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        if case.suite == "reasoning":
            raise ValueError("no reasoning")
        kept = [chunk for chunk in chunks if len(chunk) > 1 or len(chunks) == 1]
        return super().parse(case, kept)

    def decode(self, case: Case, chunks: Sequence[bytes]) -> Reading:
        return super().decode(case, [b"".join(chunks)])


def test_a_careless_driver_fails_where_it_is_careless() -> None:
    rows = run_suite(Careless(), load_cases(limit=3))
    for row in rows:
        if row.suite == "reasoning":
            assert row.passed == [0, 0, 0]
            assert row.failed[0].endswith("whole: raised ValueError: no reasoning")
        elif row.suite == "streams":
            assert row.passed == [row.cases] * len(WAYS)
        else:
            assert row.passed[0] == row.cases
            assert row.passed[1] == row.all_ways == 0
            assert "by character" in row.failed[0]


@pytest.mark.parametrize(
    ("reading", "problem"),
    [
        (Reading("a b", "", (("f", {"x": True}),)), ""),
        (Reading("ab", "", (("f", {"x": True}),)), "content"),
        (Reading("a b", "", (("f", {"x": 1}),)), "calls"),
        (Reading("a b", "", (("f", {"x": True}), ("f", {"x": True}))), "calls"),
        (Reading("a b", "why", (("f", {"x": True}),)), "reasoning"),
    ],
)
def test_what_differs_is_named(reading: Reading, problem: str) -> None:
    expected = Expected("a b", (("f", {"x": True}),), "")
    assert compare(reading, expected, "exact").partition(" ")[0] == problem


def test_the_random_cuts_are_the_same_in_every_run() -> None:
    text = "The tide turns at nine.\n" * 4
    pieces = cut_by_chance(text, "one")
    assert "".join(pieces) == text
    assert pieces == cut_by_chance(text, "one") != cut_by_chance(text, "two")
    assert {1} < {len(piece) for piece in pieces} <= set(range(1, 12))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown suite 'x': the suites are calls"):
        load_cases(["x"])
    with pytest.raises(UsageError, match="no case has the format 'x'"):
        load_cases(formats=["x"])
    with pytest.raises(UsageError, match="unknown driver 'x'"):
        make_driver("x")


def test_a_missing_package_is_named_with_its_version() -> None:
    absent = r"sglang is not installed; it is written for sglang 0\.5\.23: pip install sglang==0"
    with pytest.raises(UsageError, match=f"cannot load the driver 'sglang': {absent}"):
        make_driver("sglang")
    for name, wanted in (("vllm-rs", r"vllm 0\.32\.0"), ("smg", r"smg 1\.13\.0")):
        with pytest.raises(UsageError, match=f"cannot load the driver {name!r}.*{wanted}"):
            make_driver(name)


def test_the_command_has_a_dash_for_a_way_that_was_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.cli.conformance.make_driver", lambda _: Whole())
    code, output = run("--suite", "calls", "--format", "qwen3_coder")
    assert code == 0
    assert output.splitlines()[-1].split() == ["all", "12", "/", "12", "12", "/", "12", "-", "-"]


def test_a_marker_that_a_parser_asks_for_is_one_token() -> None:
    tokenizer = MarkerTokenizer()
    assert tokenizer.split("<a>b") == ["<", "a", ">", "b"]
    assert "<a>" in tokenizer.get_vocab()
    assert tokenizer.split("<a>b") == ["<a>", "b"]
    assert tokenizer.decode(tokenizer.encode("x<a>é")) == "x<a>é"


def test_a_byte_tokenizer_has_a_token_for_each_byte_and_marker(tmp_path: Path) -> None:
    tokenizer = ByteTokenizer(["<|endoftext|>", "<a>"])
    assert tokenizer.encode("é<a>\n") == [*"é".encode(), 257, 10]
    tokenizer.write_model(tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    names = {number: name for name, number in written["model"]["vocab"].items()}
    assert sorted(names) == [*range(256)]
    assert [names[byte] for byte in b"a \n\xad"] == ["a", "\u0120", "\u010a", "\u0143"]
    assert [(one["id"], one["content"]) for one in written["added_tokens"]] == [
        (256, "<|endoftext|>"),
        (257, "<a>"),
    ]


class Whole(PenstockDriver):
    """Reads no pieces."""

    name = "whole"

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        if len(chunks) > 1:
            raise PiecesUnsupported
        return super().parse(case, chunks)


def test_a_driver_may_read_whole_texts_only() -> None:
    (row,) = run_suite(Whole(), load_cases(["calls"], ["qwen3_coder"]))
    assert row.passed == [row.cases, None, None]
    assert row.all_ways == row.cases
    assert not row.failed


# --- the command ---


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["conformance", *arguments])
    return result.exit_code, result.output


def test_the_command_prints_a_row_for_each_format() -> None:
    code, output = run("--suite", "calls", "--format", "qwen3_coder", "--format", "hermes")
    assert code == 0
    lines = output.splitlines()
    assert lines[0].startswith("penstock ")
    assert [line.split()[1] for line in lines[2:-1]] == ["hermes", "qwen3_coder"]
    assert lines[-1].startswith("all ")


def test_the_command_exits_with_1_if_a_case_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.conformance.make_driver", lambda _: Careless())
    code, output = run("--format", "hermes", "--limit", "2", "--failures", "1")
    assert code == 1
    assert "0 / 2" in output
    assert "and 1 more" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--driver", "nobody"], "unknown driver 'nobody'"),
        (["--format", "nobody"], "no case has the format 'nobody'"),
        (["--driver", "server"], "needs --url"),
        (["--driver", "server", "--url", "http://127.0.0.1:9/v1"], "GET http://127.0.0.1:9/v1/mod"),
        (["--driver", "server", "--url", "ftp://x/v1"], "is not an HTTP URL"),
    ],
)
def test_mistakes_exit_with_2(arguments: list[str], message: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert message in output
