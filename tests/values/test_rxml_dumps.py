"""`rxml.dumps`: what it writes, what it refuses, and that `rxml.loads` reads it back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.values import rxml
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.writer import Style, write_element

STRING = {"type": "string"}

WRITTEN = [
    pytest.param("x", "<r>x</r>", id="a text"),
    pytest.param(5, "<r>5</r>", id="a number"),
    pytest.param(1.5e300, "<r>1.5e+300</r>", id="a float"),
    pytest.param(True, "<r>true</r>", id="a boolean"),
    pytest.param(None, "<r/>", id="null"),
    pytest.param("", "<r></r>", id="an empty text"),
    pytest.param({}, "<r></r>", id="an empty object"),
    pytest.param({"a": 1, "b": {"c": "d"}}, "<r><a>1</a><b><c>d</c></b></r>", id="an object"),
    pytest.param({"a": [1, 2]}, "<r><a>1</a><a>2</a></r>", id="a list as repeated tags"),
    pytest.param({"a": (1, 2)}, "<r><a>1</a><a>2</a></r>", id="a tuple as a list"),
    pytest.param({"a": [{"b": 1}, {}]}, "<r><a><b>1</b></a><a></a></r>", id="a list of objects"),
    pytest.param({"a": []}, "<r><a></a></r>", id="an empty list as an empty tag"),
    pytest.param({"a": ["x y"]}, "<r><a>x y</a></r>", id="a list of one plain text"),
    pytest.param({"a": ["x, y"]}, "<r><a><item>x, y</item></a></r>", id="of one text with a comma"),
    pytest.param({"a": [{"b": 1}]}, "<r><a><item><b>1</b></item></a></r>", id="of one object"),
    pytest.param(
        {"a": [[1], []]},
        "<r><a><item><item>1</item></item><item></item></a></r>",
        id="a list of lists",
    ),
    pytest.param([1, 2], "<r><item>1</item><item>2</item></r>", id="a list at the root"),
    pytest.param("<a> & \"b\" 'c'", "<r>&lt;a&gt; &amp; &quot;b&quot; &apos;c&apos;</r>",
                 id="the five entities"),
    pytest.param({"@id": 7, "#text": "x"}, '<r id="7">x</r>', id="an attribute and a text"),
    pytest.param({"@_id": "7", "a": 1}, '<r id="7"><a>1</a></r>', id="an attribute as it is read"),
    pytest.param({"_attributes": {"a": "b", "c": None}, "_text": 1}, '<r a="b" c>1</r>',
                 id="attributes in a group"),
    pytest.param({"@q": 'say "x"'}, "<r q='say &quot;x&quot;'></r>", id="the better quotes"),
]  # fmt: skip


def test_null_has_a_text_and_newlines_are_doubled_for_a_reader_that_needs_it() -> None:
    style = Style(format=False, null="null", pads=True)
    written = write_element("r", {"a": None, "b": "\nx", "c": ["y\n", "z"]}, style)
    assert written == "<r><a>null</a><b>\n\nx</b><c>y\n\n</c><c>z</c></r>"


@pytest.mark.parametrize(("value", "expected"), WRITTEN)
def test_a_value_is_written(value: Any, expected: str) -> None:
    assert rxml.dumps("r", value, format=False) == expected


def test_formatted_elements_stand_on_lines_of_their_own() -> None:
    value = {"a": [1, 2], "b": {"c": " d\n", "e": None}}
    assert rxml.dumps("r", value).splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<r>",
        "  <a>1</a>",
        "  <a>2</a>",
        "  <b>",
        "    <c> d",
        "</c>",
        "    <e/>",
        "  </b>",
        "</r>",
    ]


def test_options_say_how_to_write() -> None:
    value = {"a": None, "b": {"@f": None, "@g": '\'""', "#text": "x > 'y' & ]]>"}, "c": ""}
    assert rxml.dumps("r", value, format=False, suppress_empty=True, minimal_escaping=True) == (
        "<r><b f g='&apos;\"\"'>x > 'y' &amp; ]]&gt;</b><c></c></r>"
    )
    strict = rxml.dumps("r", {"@f": None}, format=False, strict_boolean_attributes=True)
    assert strict == '<r f="f"></r>'


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        pytest.param("a b", 1, id="a root name with a space"),
        pytest.param("", 1, id="no root name"),
        pytest.param("r", {"a/b": 1}, id="a key that is no name"),
        pytest.param("r", {"": 1}, id="an empty key"),
        pytest.param("r", {"-a": 1}, id="a key that begins with a dash"),
        pytest.param("r", {1: 1}, id="a key that is no text"),
        pytest.param("r", {"a": {"@b c": 1}}, id="an attribute that is no name"),
        pytest.param("r", {"_attributes": {1: 1}}, id="an attribute whose name is no text"),
        pytest.param("r", {"@a": [1]}, id="an attribute that is no scalar"),
        pytest.param("r", {"#text": {"a": 1}}, id="a text that is no scalar"),
        pytest.param("r", math.nan, id="NaN"),
        pytest.param("r", [math.inf], id="infinity"),
        pytest.param("r", 10**5000, id="an integer of too many digits"),
        pytest.param("r", {"a": object()}, id="what is no JSON"),
        pytest.param("r", CYCLE, id="a value that holds itself"),
    ],
)
def test_what_elements_cannot_carry_is_refused(tag: str, value: Any) -> None:
    with pytest.raises(UsageError):
        rxml.dumps(tag, value)


def test_depth_has_the_limit_of_the_reader() -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH - 1):
        value = {"a": value}
    xml = rxml.dumps("a", value, format=False)
    assert rxml.loads(xml.removeprefix("<a>").removesuffix("</a>")) == value
    with pytest.raises(UsageError, match="deeper"):
        rxml.dumps("a", {"a": value})


# --- round trip ----------------------------------------------------------------------------------

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.:-]{0,5}|[0-9]{1,2}", fullmatch=True).filter(
    lambda name: name != "item"
)
TEXTS = st.text(max_size=12) | st.text("<>&;,/abc\"'[]{} \t\r\n\ud800\x00", max_size=12)
INTEGERS = st.integers() | st.integers(-(10**40), 10**40)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)

Typed = tuple[dict[str, Any], st.SearchStrategy[Any]]
"""A schema, and the values that conform to it."""

SCALARS: st.SearchStrategy[Typed] = st.sampled_from(
    [
        (STRING, TEXTS),
        ({"type": ["string", "null"]}, TEXTS),
        ({"type": "integer"}, INTEGERS),
        ({"type": "number"}, FLOATS | INTEGERS),
        ({"type": "boolean"}, st.booleans()),
    ]
)


def typed_list(item: Typed) -> Typed:
    schema, values = item
    return {"type": "array", "items": schema}, st.lists(values, max_size=4)


def typed_object(properties: dict[str, Typed]) -> Typed:
    schemas = {name: schema for name, (schema, _) in properties.items()}
    values = {name: values for name, (_, values) in properties.items()}
    return {"type": "object", "properties": schemas}, st.fixed_dictionaries({}, optional=values)


TYPED: st.SearchStrategy[Typed] = st.recursive(
    SCALARS,
    lambda inner: (
        inner.map(typed_list)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(typed_object)
    ),
    max_leaves=12,
)


@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    properties = data.draw(st.dictionaries(NAMES, TYPED, min_size=1, max_size=4))
    schema, values = typed_object(properties)
    value = data.draw(values)
    options = data.draw(
        st.fixed_dictionaries({"format": st.booleans(), "minimal_escaping": st.booleans()})
    )
    xml = rxml.dumps("call", value, **options)
    inner = xml[xml.index("<call>") + len("<call>") :].removesuffix("</call>")
    assert rxml.loads(inner, schema) == value
    assert rxml.loads(xml, schema) == value


@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_a_map_of_strings_is_read_back(value: dict[str, str]) -> None:
    schema = {
        "type": "object",
        "properties": {"env": {"type": "object", "additionalProperties": STRING}},
    }
    assert rxml.loads(rxml.dumps("env", value), schema) == {"env": value}


@given(TEXTS)
def test_any_text_survives_both_ways_of_escaping(text: str) -> None:
    schema = {"type": "object", "properties": {"s": STRING}}
    for minimal in (False, True):
        xml = rxml.dumps("s", text, format=False, minimal_escaping=minimal)
        assert rxml.loads(xml, schema) == {"s": text}
        flagged = rxml.dumps("a", {"@b": text}, format=False, minimal_escaping=minimal)
        assert rxml.loads(flagged) == {"a": {"@_b": text}}
