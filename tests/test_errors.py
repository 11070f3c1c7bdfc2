"""Errors: one root, and every parse error knows its place."""

import copy
import pickle

import pytest

import penstock
from penstock.errors import (
    JSONParseError,
    LimitError,
    ParseError,
    PenstockError,
    ProviderError,
    describe_exception,
)

ALL = [getattr(penstock, name) for name in penstock.__all__ if name.endswith("Error")]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_has_one_root(kind: type[Exception]) -> None:
    assert issubclass(kind, PenstockError)


@pytest.mark.parametrize(
    ("position", "line", "column"), [(0, 1, 1), (2, 1, 3), (3, 2, 1), (5, 2, 3), (6, 3, 1)]
)
def test_a_parse_error_counts_lines_and_columns_from_one(
    position: int, line: int, column: int
) -> None:
    error = JSONParseError("bad", text="ab\ncd\nef", position=position)
    assert (error.line, error.column) == (line, column)
    assert str(error) == f"bad (line {line}, column {column})"


def test_a_parse_error_without_text_says_only_what_is_wrong() -> None:
    assert str(ParseError("bad")) == "bad"


def test_errors_carry_what_their_handler_needs() -> None:
    limit = LimitError("too long", limit="max_line", value=10)
    assert (limit.limit, limit.value) == ("max_line", 10)
    refused = ProviderError("slow down", status=429, type="rate_limit_error", retry_after=1.5)
    assert (refused.status, refused.type, refused.retry_after) == (429, "rate_limit_error", 1.5)


@pytest.mark.parametrize(
    "error",
    [
        LimitError("too long", limit="max_line", value=10),
        JSONParseError("bad", text="ab\ncd", position=4),
        ProviderError("slow down", status=429, type="rate_limit_error", retry_after=1.5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_be_copied_and_sent_to_another_process(error: PenstockError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError


def test_any_exception_can_be_described() -> None:
    assert describe_exception(ValueError("no tide")) == "ValueError: no tide"
    assert describe_exception(Unprintable()) == ("Unprintable: it cannot be printed: RuntimeError")
    group = ExceptionGroup("both", [ValueError("one"), ExceptionGroup("rest", [KeyError("two")])])
    assert describe_exception(group) == (
        "ExceptionGroup: both (2 sub-exceptions): ValueError: one; "
        "ExceptionGroup: rest (1 sub-exception): KeyError: 'two'"
    )
    assert len(describe_exception(ValueError("x" * 1_000_000))) < 11_000
