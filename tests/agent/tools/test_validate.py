"""A call's arguments are made to fit, or the model is told where and why they do not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from penstock.agent.tools import AgentTool, prepare, tool
from penstock.agent.tools.validate import MAX_FAULTS, find_faults
from penstock.errors import ToolError
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values import Schema


@tool
def sail(
    boat: str,
    days: Annotated[int, Meta(ge=1, le=30)],
    crew: list[str] | None = None,
    wind: Literal["north", "south"] = "north",
) -> str:
    """Sail somewhere."""
    return f"{boat} {days} {crew} {wind}"


def call(**arguments: Any) -> ToolCall:
    return ToolCall("call_1", "sail", arguments)


def complaint(**arguments: Any) -> str:
    with pytest.raises(ToolError) as raised:
        prepare(sail, call(**arguments))
    return str(raised.value)


def test_what_fits_stays() -> None:
    arguments = {"boat": "Anna", "days": 3, "crew": ["Bo"], "wind": "south"}
    assert prepare(sail, call(**arguments)) == arguments


def test_what_can_only_mean_one_thing_becomes_it() -> None:
    asked = call(boat="Anna", days="3", crew='["Bo"]', wind=" South ")
    assert prepare(sail, asked) == {"boat": "Anna", "days": 3, "crew": ["Bo"], "wind": "south"}
    assert asked.arguments["days"] == "3"


def test_null_for_what_may_be_left_out_is_left_out() -> None:
    prepared = prepare(sail, call(boat="Anna", days=1, crew=None, wind=None))
    assert prepared == {"boat": "Anna", "days": 1, "crew": None}
    assert "days: expected an integer, got null" in complaint(boat="Anna", days=None)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"days": 3}, "boat: missing, expected a string"),
        ({"boat": "Anna", "days": "soon"}, 'days: expected an integer, got "soon"'),
        ({"boat": "Anna", "days": 31}, "days: expected at most 30, got 31"),
        ({"boat": "Anna", "days": 0}, "days: expected at least 1, got 0"),
        ({"boat": {}, "days": 3}, "boat: expected a string, got {}"),
        (
            {"boat": "Anna", "days": 3, "wind": "west"},
            'wind: expected one of "north", "south", got "west"',
        ),
        ({"boat": "Anna", "days": 3, "crew": ["Bo", []]}, "crew[1]: expected a string, got []"),
        (
            {"boat": "Anna", "days": 3, "colour": "red"},
            "colour: unknown; known are: boat, days, crew, wind",
        ),
    ],
)
def test_a_fault_says_where_it_is_what_was_expected_and_what_came(
    arguments: dict[str, Any], fault: str
) -> None:
    assert complaint(**arguments) == (f"The arguments of `sail` do not fit its schema:\n- {fault}")


def test_all_faults_are_told_at_once_up_to_a_limit() -> None:
    assert complaint(colour=5, wind=1).count("\n- ") == 4
    many = complaint(**{f"unknown_{number}": 1 for number in range(50)})
    assert many.count("\n- ") == MAX_FAULTS + 1
    assert many.endswith("- … and more")


def test_a_long_value_is_not_repeated_to_the_model() -> None:
    assert len(complaint(boat="Anna", days="x" * 100_000)) < 300


def test_a_lenient_tool_gets_its_arguments_as_they_came() -> None:
    lenient = AgentTool(sail.tool, sail.run, lenient=True)
    assert prepare(lenient, call(days="soon")) == {"days": "soon"}
    assert prepare(lenient, call(boat="Anna", days="3")) == {"boat": "Anna", "days": 3}


def test_what_a_tool_does_with_its_arguments_does_not_change_the_call() -> None:
    asked = call(boat="Anna", days=1, crew=["Bo"])
    prepare(sail, asked)["crew"].append("Cy")
    prepare(AgentTool(sail.tool, sail.run, lenient=True), asked)["crew"].append("Cy")
    assert asked.arguments["crew"] == ["Bo"]


def test_a_call_that_was_cut_is_never_run() -> None:
    lenient = AgentTool(sail.tool, sail.run, lenient=True)
    with pytest.raises(ToolError, match="cut off"):
        prepare(lenient, ToolCall("1", "sail", {"boat": "Anna", "days": 1}, complete=False))


def test_a_tool_without_a_schema_takes_everything() -> None:
    free = AgentTool(Tool("free"), sail.run)
    assert prepare(free, call(a=1, b="2")) == {"a": 1, "b": "2"}


def test_a_fault_in_the_one_alternative_of_its_kind_is_told_there() -> None:
    schema = Schema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"size": {"type": "integer"}},
                    "required": ["size"],
                },
            ]
        }
    )
    assert list(find_faults({"size": "x"}, schema)) == ['size: expected an integer, got "x"']
    assert list(find_faults({}, schema)) == ["size: missing, expected an integer"]
    assert list(find_faults(3, schema)) == ["expected an object or a string, got 3"]


SCHEMAS: list[Any] = [
    sail.tool.parameters,
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
    {"not": {"required": ["a"]}},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"enum": [1, "x", None]}}}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "maxProperties": 1},
    {"properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}], "minItems": 2}}},
    {"properties": {"a": False}},
    {"properties": {"a": {"$ref": "#/nowhere"}}},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.sampled_from(["x", "north", "1", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    schema=st.sampled_from(SCHEMAS),
    arguments=st.dictionaries(st.sampled_from(["a", "b", "boat", "days", "crew"]), JSON),
)
def test_faults_are_found_exactly_where_a_value_does_not_fit(
    schema: Any, arguments: dict[str, Any]
) -> None:
    read = Schema(schema)
    assert bool(list(find_faults(arguments, read))) == (not read.accepts(arguments))


def test_a_deep_value_is_not_gone_into_without_end() -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = {"a": deep}
    schema = Schema({"type": "object", "properties": {"a": {"$ref": "#"}}, "maxProperties": 1})
    assert len(list(find_faults(deep, schema))) == 1
