"""Hints that msgspec does not support as a whole: pydantic in containers, tags, unions, checks."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from penstock.agent.tools.hint_reader import read_hint
from penstock.agent.tools.hints import HintError, convert_value
from penstock.errors import UsageError

T = TypeVar("T")


class Boat(pydantic.BaseModel):
    masts: int = pydantic.Field(gt=0)


class Fleet(typing_extensions.TypedDict):
    boats: list[Boat]


class Harbour(typing_extensions.TypedDict):
    boat: typing_extensions.ReadOnly[Boat]
    note: typing_extensions.NotRequired[str]


class Berth(NamedTuple):
    boat: Boat
    number: Annotated[int, pydantic.Field(lt=10)] = 5


@dataclass
class Page(Generic[T]):
    rows: list[T]
    number: Annotated[int, pydantic.Field(ge=1)] = 1


class Ebb(msgspec.Struct, tag="ebb"):
    hours: Annotated[int, "Until low water."]


class Flood(msgspec.Struct, tag="flood"):
    hours: Annotated[int, "Until high water."]


class Sail(msgspec.Struct, tag_field="kind", tag=1):
    boat: Boat


class Row(msgspec.Struct, tag_field="kind", tag=2):
    boat: Boat


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    boat: Boat


@dataclass
class Invoice:
    number: str


@dataclass
class Receipt:
    number: str
    paid: date


class Order(pydantic.BaseModel):
    number: str


class Delivery(pydantic.BaseModel):
    number: str
    parcels: list[Invoice | Receipt]


class Mixed(enum.Enum):
    NONE = None
    ONE = 1
    HALF = 0.5
    TEXT = "1"


def double(value: int) -> int:
    return value * 2


def name_case(value: Any) -> str:
    return re.sub(r" at 0x\w+", "", str(value))


LOOP = typing_extensions.TypeAliasType("LOOP", "list[LOOP]")
ALIAS = typing_extensions.TypeAliasType("ALIAS", list[int])

CASES: list[tuple[Any, Any, Any]] = [
    # Containers around a model.
    (dict[int, Boat], {"7": {"masts": 1}}, {7: Boat(masts=1)}),
    (dict[date, Boat], {"2026-03-01": {"masts": 1}}, {date(2026, 3, 1): Boat(masts=1)}),
    (dict[Literal["a"], Boat], {"a": {"masts": 1}}, {"a": Boat(masts=1)}),
    (Mapping[str, Boat], {"a": {"masts": 1}}, {"a": Boat(masts=1)}),
    (tuple[Boat, int], [{"masts": 1}, 2], (Boat(masts=1), 2)),
    (tuple[Boat, ...], [{"masts": 1}], (Boat(masts=1),)),
    (Fleet, {"boats": [{"masts": 1}]}, {"boats": [Boat(masts=1)]}),
    (Harbour, {"boat": {"masts": 1}}, {"boat": Boat(masts=1)}),
    (Berth, [{"masts": 1}, 4], Berth(Boat(masts=1), 4)),
    (Page[Boat], {"rows": [{"masts": 1}]}, Page([Boat(masts=1)])),
    (Page[int], {"rows": [1], "number": 2}, Page([1], 2)),
    # Types and validators of pydantic.
    (pydantic.HttpUrl, "http://tides.example/", pydantic.HttpUrl("http://tides.example/")),
    (pydantic.SecretStr, "key", pydantic.SecretStr("key")),
    (Annotated[int, pydantic.AfterValidator(double)], 2, 4),
    (list[Annotated[int, pydantic.AfterValidator(double)]], [2], [4]),
    # Tags.
    (Ebb | Flood, {"type": "flood", "hours": 2}, Flood(2)),
    (list[Sail | Row], [{"kind": 2, "boat": {"masts": 1}}], [Row(Boat(masts=1))]),
    # A union takes the member that has all properties of the value.
    (Invoice | Receipt, {"number": "1", "paid": "2026-03-01"}, Receipt("1", date(2026, 3, 1))),
    (Invoice | Receipt, {"number": "1"}, Invoice("1")),
    (Invoice | Receipt, {"number": "1", "note": "x"}, Invoice("1")),
    (Order | Receipt, {"number": "1", "paid": "2026-03-01"}, Receipt("1", date(2026, 3, 1))),
    (
        Order | Delivery,
        {"number": "1", "parcels": [{"number": "2", "paid": "2026-03-01"}]},
        Delivery(number="1", parcels=[Receipt("2", date(2026, 3, 1))]),
    ),
    # The rest.
    (Mixed, "1", Mixed.TEXT),
    (Mixed, 1, Mixed.ONE),
    (list[Mixed], [0.5, None], [Mixed.HALF, Mixed.NONE]),
    (ALIAS, [1], [1]),
    (list[ALIAS] | None, [[1]], [[1]]),
    (Annotated[Decimal, pydantic.Field(gt=0)], "1.5", Decimal("1.5")),
    (Annotated[Decimal | None, annotated_types.Gt(0)], None, None),
]


@pytest.mark.parametrize(("hint", "value", "expected"), CASES, ids=name_case)
def test_a_value_is_converted(hint: Any, value: Any, expected: Any) -> None:
    read = read_hint(hint)
    read.write_schema({})
    found = convert_value(read, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (Berth, [{"masts": 1}, 10], "less than 10"),
        (dict[int, Boat], {"x": {"masts": 1}}, "int"),
        (dict[int, Boat], {"7": {"masts": 0}}, r"\.7\.masts"),
        (tuple[Boat, int], [{"masts": 1}], "2"),
        (Ebb | Flood, {"type": "slack", "hours": 2}, "slack"),
        (Strict, {"boat": {"masts": 1}, "note": "x"}, "note"),
        (Mixed, "one", "one"),
        (Mixed, True, "true"),
        (Annotated[Decimal, pydantic.Field(gt=0)], "-1.5", "greater than 0"),
        (Annotated[Decimal, annotated_types.Le(2)], "3", "2 or less"),
        (Annotated[date, annotated_types.Ge(date(2026, 1, 1))], "2025-12-31", "2026-01-01 or"),
    ],
    ids=name_case,
)
def test_a_value_that_does_not_fit_is_refused(hint: Any, value: Any, words: str) -> None:
    read = read_hint(hint)
    with pytest.raises(HintError, match=words):
        convert_value(read, value)


def test_tags_and_closed_structs_are_in_the_schema() -> None:
    definitions: dict[str, Any] = {}
    for hint in (Ebb, Row, Strict):
        read_hint(hint).write_schema(definitions)
    assert definitions["Ebb"]["properties"]["type"] == {"enum": ["ebb"]}
    assert definitions["Ebb"]["required"] == ["type", "hours"]
    assert definitions["Row"]["properties"]["kind"] == {"enum": [2]}
    assert definitions["Strict"]["additionalProperties"] is False


def test_only_a_docstring_of_its_own_describes_a_record() -> None:
    definitions: dict[str, Any] = {}
    for hint in (Harbour, Ebb, Invoice, Node, Described):
        read_hint(Annotated[hint, "a note"]).write_schema(definitions)
    described = {
        name: one["description"]
        for name, one in definitions.items()
        if name != "Boat" and "description" in one
    }
    assert described == {"Described": "A record.\n\nWith words."}


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[ipaddress.IPv4Address, "an address"],
        Annotated[Ebb, pydantic.AfterValidator(str)],
        LOOP,
    ],
    ids=name_case,
)
def test_a_hint_without_a_json_form_is_refused(hint: Any) -> None:
    with pytest.raises(UsageError):
        read_hint(hint)


@dataclass
class Node:
    value: Annotated[int, annotated_types.Gt(0)]
    nodes: list[Node] = field(default_factory=list)


class Described(msgspec.Struct):
    """A record.

    With words.
    """

    boat: Boat


def test_a_union_in_a_recursive_record_ends() -> None:
    read = read_hint(list[Node | Invoice])
    found = convert_value(read, [{"value": 1, "nodes": [{"value": 2}]}, {"number": "1"}])
    assert found == [Node(1, [Node(2)]), Invoice("1")]
