"""Hints become schemas, and arguments what the hints say."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from agent.tools.contexts import Heard
from penstock import _json
from penstock.agent.tools import prepare, tool
from penstock.agent.tools.signatures import FunctionSignature
from penstock.errors import ToolError, UsageError
from penstock.messages import ToolCall
from penstock.values import Schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    x: int
    y: float = 0.0


class Boat(TypedDict):
    name: str
    masts: int


@dataclass
class Berth:
    number: int
    boats: list[Boat] = field(default_factory=list)


@dataclass
class Buoy:
    colour: Colour


class Tree(Struct):
    value: int
    branches: list[Tree] = []


UNIQUE = uuid.UUID("12345678123456781234567812345678")

CASES: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (int, 4, 4),
    (int, 4.0, 4),
    (float, 3, 3.0),
    (bool, True, True),
    (None, None, None),
    (Literal["a", 2], 2, 2),
    (Colour, "red", Colour.RED),
    (list[int], [1, 2], [1, 2]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (set[str], ["a"], {"a"}),
    (frozenset[int], [1], frozenset({1})),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Optional[int], None, None),  # noqa: UP045 - the old way is a case
    (Union[int, str], "a", "a"),  # noqa: UP007
    (int | list[int] | None, [1], [1]),
    (Place, [1, 2.5], Place(1, 2.5)),
    (Boat, {"name": "Anna", "masts": 2}, {"name": "Anna", "masts": 2}),
    (Berth, {"number": 1, "boats": []}, Berth(1, [])),
    (Tree, {"value": 1, "branches": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (datetime, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (date, "2026-01-02", date(2026, 1, 2)),
    (uuid.UUID, str(UNIQUE), UNIQUE),
    (Path, "a/b", Path("a/b")),
    (list[PurePosixPath], ["a/b"], [PurePosixPath("a/b")]),
    (bytes, "aGk=", b"hi"),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, "a", "a"),
    (Annotated[int, Meta(ge=0)], 3, 3),
    # Unions that msgspec refuses are tried one by one.
    (date | str, "2026-01-02", date(2026, 1, 2)),
    (date | str, "soon", "soon"),
    (Path | int, 3, 3),
    (Berth | Buoy, {"colour": "blue"}, Buoy(Colour.BLUE)),
    (list[int] | list[str] | None, ["a"], ["a"]),
]


@pytest.mark.parametrize(("hint", "given_", "wanted"), CASES, ids=[str(each[0]) for each in CASES])
def test_an_argument_is_what_its_hint_says(hint: Any, given_: Any, wanted: Any) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = hint
    signature = FunctionSignature(function, {})
    assert Schema(signature.schema).accepts({"value": given_})
    value = signature.bind({"value": given_}, Heard()).arguments["value"]
    assert value == wanted
    assert type(value) is type(wanted)


def test_a_recursive_type_is_defined_once() -> None:
    def function(tree: Tree, other: Tree) -> None: ...

    schema = FunctionSignature(function, {}).schema
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert list(schema["$defs"]) == ["Tree"]
    assert not Schema(schema).accepts({"tree": {"value": "x"}, "other": {"value": 1}})


def test_words_stand_in_a_hint_before_those_of_the_docstring() -> None:
    def function(
        a: Annotated[int, "in the hint"],
        b: Annotated[int, Meta(description="in the meta")],
        c: int,
        d: Annotated[str | None, "and optional"] = None,
    ) -> None: ...

    said = dict.fromkeys("abcd", "in the docstring")
    properties = FunctionSignature(function, said).schema["properties"]
    assert [properties[name]["description"] for name in "abcd"] == [
        "in the hint", "in the meta", "in the docstring", "and optional",
    ]  # fmt: skip


def test_a_default_is_shown_if_json_has_a_form_for_it() -> None:
    anything = object()

    def function(
        colour: Colour = Colour.RED,
        folder: Path = Path("src"),
        day: date = date(2026, 1, 2),
        thing: Any = anything,
        nothing: int = None,  # type: ignore[assignment]  # noqa: RUF013 - people write this
    ) -> None: ...

    signature = FunctionSignature(function, {})
    properties = signature.schema["properties"]
    assert properties["colour"]["default"] == "red"
    assert properties["folder"]["default"] == "src"
    assert properties["day"]["default"] == "2026-01-02"
    assert "default" not in properties["thing"]
    assert Schema(signature.schema).accepts({"nothing": None})
    assert signature.bind({}, Heard()).arguments["thing"] is anything


def test_every_kind_of_parameter_is_given_as_it_takes_it() -> None:
    def function(
        first: int, /, second: int, third: int = 3, *rest: int, fourth: int, **others: int
    ) -> tuple[Any, ...]:
        return first, second, third, rest, fourth, others

    signature = FunctionSignature(function, {})
    assert signature.schema["required"] == ["first", "second", "fourth"]
    assert signature.schema["properties"]["rest"] == {"type": "array", "items": {"type": "integer"}}
    assert signature.schema["additionalProperties"] == {"type": "integer"}

    def called(**arguments: Any) -> tuple[Any, ...]:
        bound = signature.bind(arguments, Heard())
        return function(*bound.args, **bound.kwargs)

    assert called(first=1, second=2, fourth=4) == (1, 2, 3, (), 4, {})
    assert called(first=1, second=2, fourth=4, rest=[7, 8], a=5, others=6) == (
        1, 2, 3, (7, 8), 4, {"a": 5, "others": 6},
    )  # fmt: skip


def test_a_parameter_without_a_hint_takes_anything() -> None:
    signature = FunctionSignature(lambda x, y=1: (x, y), {})
    assert signature.schema["properties"] == {"x": {}, "y": {"default": 1}}
    assert signature.bind({"x": [{}]}, Heard()).args == ([{}], 1)


def test_an_argument_that_only_looks_right_is_told_by_name() -> None:
    def function(day: date) -> None: ...

    with pytest.raises(ToolError, match="invalid value for `day`: Invalid RFC3339"):
        FunctionSignature(function, {}).bind({"day": "soon"}, Heard())


def test_a_union_deep_inside_is_tried_from_left_to_right() -> None:
    def function(days: list[date | str]) -> None: ...

    bound = FunctionSignature(function, {}).bind({"days": ["2026-03-01", "soon"]}, Heard())
    assert bound.arguments["days"] == [date(2026, 3, 1), "soon"]


def test_something_without_a_signature_is_refused() -> None:
    class Odd:
        __signature__ = "none"

        def __call__(self) -> None: ...

    with pytest.raises(UsageError, match="are unknown"):
        FunctionSignature(Odd(), {})


# --- round trip ----------------------------------------------------------------------------------

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**53), 2**53),
    str: st.text(st.characters(codec="utf-8")),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    date: st.dates(),
    Colour: st.sampled_from(Colour),
    Tree: st.builds(Tree, st.integers(-9, 9), st.lists(st.builds(Tree, st.just(1)), max_size=2)),
    Berth: st.builds(Berth, st.integers(-9, 9), st.just([{"name": "Anna", "masts": 1}])),
    Place: st.builds(Place, st.integers(-9, 9), st.just(0.5)),
    Path: st.sampled_from([Path("a"), Path("b/c")]),
}

Typed = tuple[Any, st.SearchStrategy[Any]]
"""A hint, and the values that it allows."""


def containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def listed(item: Typed) -> Typed:
        return GenericAlias(list, (item[0],)), st.lists(item[1], max_size=3)

    def named(item: Typed) -> Typed:
        names = st.text(st.characters(codec="utf-8"), max_size=3)
        return GenericAlias(dict, (str, item[0])), st.dictionaries(names, item[1], max_size=3)

    def paired(item: Typed) -> Typed:
        return GenericAlias(tuple, (item[0], bool)), st.tuples(item[1], st.booleans())

    return st.one_of(inner.map(listed), inner.map(named), inner.map(paired))


TYPED = st.recursive(st.sampled_from(list(LEAVES.items())), containers, max_leaves=3)


@settings(max_examples=40)
@given(data=st.data())
def test_what_python_writes_as_json_comes_back_as_it_was(data: st.DataObject) -> None:
    hint, values = data.draw(TYPED)
    value = data.draw(values)

    def function(value: Any) -> Any:
        return value

    function.__annotations__["value"] = hint
    made = tool(function)
    written = _json.decode(_json.encode(msgspec.to_builtins(value, str_keys=True, enc_hook=str)))
    arguments = prepare(made, ToolCall("1", "function", {"value": written}))
    bound = FunctionSignature(function, {}).bind(arguments, Heard())
    assert bound.arguments["value"] == value
