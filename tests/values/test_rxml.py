"""`rxml.loads`: the vectors, and the rules of reading elements one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CoercionError, DuplicateStringTagError, UsageError, XMLParseError
from penstock.values import rxml
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.schema import Schema

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "rxml.jsonl").read_text().splitlines()
]
ERRORS = {
    "duplicate": DuplicateStringTagError,
    "parse": XMLParseError,
    "coerce": CoercionError,
}

STRING = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PAGE = an_object(path=STRING, content=STRING, mode=INTEGER)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['id']} {v['why']}")
def test_a_vector_reads_as_it_says(vector: dict[str, Any]) -> None:
    expected = vector["expect"]
    if set(expected) == {"error"}:
        with pytest.raises(ERRORS[expected["error"]]):
            rxml.loads(vector["xml"], vector["schema"])
    else:
        found = rxml.loads(vector["xml"], vector["schema"])
        assert json.dumps(found) == json.dumps(expected)


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        pytest.param("<o/>", {}, id="an empty object is empty"),
        pytest.param("<o> \n </o>", {}, id="a blank object is empty"),
        pytest.param("<o>x<k>a</k>y</o>", {"k": "a"}, id="free text beside elements is ignored"),
        pytest.param("<o><k>a</k><k>b</k></o>", {"k": ["a", "b"]}, id="a nested repeat is a list"),
        pytest.param("<o><k/><k>b</k></o>", {"k": ["", "b"]}, id="with a self-closing one too"),
        pytest.param("<o><z>1</z><z>2</z></o>", {"z": [1, 2]}, id="unknown repeats are numbers"),
        pytest.param("<o a='z'><k>b</k></o>", {"k": "b", "@_a": "z"}, id="attributes are kept"),
        pytest.param("<o a='z'/>", {"@_a": "z"}, id="an empty object keeps attributes"),
        pytest.param('<o>{"k": 5}</o>', {"k": "5"}, id="JSON is coerced inside"),
        pytest.param('<o>{"k": "<k>"}</o>', {"k": "<k>"}, id="a tag in a JSON string is data"),
        pytest.param(
            '<o>{&quot;k&quot;: "a &amp; b"}</o>', {"k": "a & b"}, id="escaped JSON is decoded"
        ),
        pytest.param(
            '<o>{"k": "say &quot;a&quot;"}</o>',
            {"k": "say &quot;a&quot;"},
            id="JSON that decoding would break is not decoded",
        ),
        pytest.param("<o><item>1</item></o>", {"item": 1}, id="an item is a property of an object"),
        pytest.param("<o><0>a</0></o>", {"0": "a"}, id="and so is a number"),
    ],
)
def test_an_object_is_read(xml: str, expected: Any) -> None:
    assert rxml.loads(xml, an_object(o=an_object(k=STRING))) == {"o": expected}


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        pytest.param("<a>5</a><b>-1.5</b>", {"a": 5, "b": -1.5}, id="numbers"),
        pytest.param("<a>00531</a><b>1.50</b><c>1_0</c>", {"a": "00531", "b": "1.50", "c": "1_0"},
                     id="numbers that print otherwise stay text"),
        pytest.param("<a> True </a>", {"a": True}, id="booleans"),
        pytest.param('<a>{"b": "1"}</a>', {"a": {"b": "1"}}, id="JSON with its values as they are"),
        pytest.param("<a></a><b/>", {"a": "", "b": ""}, id="empty elements are empty text"),
        pytest.param("<a><b>5</b></a>", {"a": {"b": 5}}, id="nested elements"),
        pytest.param("<a>1</a><a>x</a>", {"a": [1, "x"]}, id="repeated tags"),
        pytest.param("<a><item>1</item></a>", {"a": [1]}, id="an item list of one"),
        pytest.param("<a><1>y</1><0>x</0></a>", {"a": ["x", "y"]}, id="a numbered list"),
        pytest.param("<a><0>x</0><2>y</2></a>", {"a": {"0": "x", "2": "y"}},
                     id="numbers with a gap are an object"),
        pytest.param("<item>1</item><item>2</item>", {"item": [1, 2]}, id="the root is an object"),
        pytest.param("<a x='1' y>5</a>", {"a": {"#text": 5, "@_x": "1", "@_y": None}},
                     id="attributes beside the text"),
        pytest.param("<a x=1/>", {"a": {"@_x": "1"}}, id="attributes alone"),
        pytest.param("<a x='&lt;' x='2'/>", {"a": {"@_x": "<"}}, id="an attribute is decoded once"),
        pytest.param("<a>hi <b>1</b></a>", {"a": {"b": 1, "#text": "hi"}}, id="mixed text is kept"),
        pytest.param("<a><![CDATA[<x>&amp;]]></a>", {"a": "<x>&amp;"}, id="CDATA is text as it is"),
        pytest.param("<a>&lt;x&gt;</a>", {"a": "<x>"}, id="entities are decoded"),
        pytest.param("<a>&lt; < 3</a>", {"a": "&lt; < 3"}, id="but not beside a bare bracket"),
        pytest.param("<a> 1 <!-- c --> </a>", {"a": 1}, id="a comment inside is nothing"),
        pytest.param("<script>if (a<b) c()</script>", {"script": "if (a<b) c()"}, id="scripts"),
        pytest.param("<É.b-c:d>1</É.b-c:d >", {"É.b-c:d": 1}, id="names of many characters"),
        pytest.param("<a>1</a><A>2</A>", {"a": 1, "A": 2}, id="names keep their case"),
        pytest.param("i <3 you> <a>1</a>", {"a": 1}, id="a heart is no tag"),
        pytest.param("<a>[1, 2</a>", {"a": "[1, 2"}, id="broken JSON is text"),
        pytest.param("<a>[1] and 2</a>", {"a": "[1] and 2"}, id="so is JSON with more behind it"),
    ],
)  # fmt: skip
def test_elements_without_a_schema_are_read_by_their_shape(xml: str, expected: Any) -> None:
    assert rxml.loads(xml) == expected


@pytest.mark.parametrize(
    "around",
    [
        pytest.param("<!-- {} -->", id="a comment"),
        pytest.param("<!-- <path>a</path> -->{}", id="a comment that holds a field"),
        pytest.param("<?xml version='1.0'?>{}", id="a declaration"),
        pytest.param("<!DOCTYPE a [<!ENTITY b 'c'>]>{}", id="a DOCTYPE"),
        pytest.param("words & {} < more", id="free text"),
        pytest.param("<!-- never closed {}", id="a comment that never ends"),
        pytest.param("<![CDATA[ x ]]>{}", id="CDATA"),
        pytest.param("<![CDATA[ {}", id="CDATA that never ends"),
        pytest.param("<? {}", id="an instruction that never ends"),
        pytest.param("<?x {} ?>", id="an instruction around an element"),
        pytest.param("</x {}", id="half a closing tag"),
    ],
)
def test_what_is_no_element_is_ignored_outside_string_fields(around: str) -> None:
    expected = {} if around.endswith("-->") else {"mode": 1}
    assert rxml.loads(around.replace("{}", "<mode>1</mode>"), PAGE) == expected


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        pytest.param("<r><mode>1</mode></r>", {"mode": 1}, id="one root"),
        pytest.param("<a><b><mode>1</mode></b></a>", {"mode": 1}, id="two roots"),
        pytest.param("<!-- c --> <r>\n<mode>1</mode></r> x", {"mode": 1}, id="among other things"),
        pytest.param("<r><x>1</x></r>", {"x": 1}, id="around unknown fields"),
        pytest.param("<x>9</x>", {"x": 9}, id="an unknown field alone is no root"),
        pytest.param("<x/>", {"x": ""}, id="nor is a self-closing one"),
        pytest.param("<r> <!-- no arguments --> </r>", {}, id="around nothing"),
        pytest.param("<x><mode>1</mode></x><mode>2</mode>", {"x": {"mode": 1}, "mode": 2},
                     id="nor is one of two elements"),
        pytest.param("<r><x><mode>1</mode></x><mode>2</mode></r>", {"x": {"mode": 1}, "mode": 2},
                     id="nor is one of two inside a root"),
        pytest.param("<r><content>a</r></content></r>", {"content": "a</r>"}, id="around raw text"),
        pytest.param("<content><mode>1</mode></content>", {"content": "<mode>1</mode>"},
                     id="a known field is no root"),
    ],
)  # fmt: skip
def test_a_root_that_the_schema_does_not_know_is_taken_off(xml: str, expected: Any) -> None:
    assert rxml.loads(xml, PAGE) == expected


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, an_object()])
def test_without_declared_properties_there_is_no_unknown_root(schema: Any) -> None:
    assert list(rxml.loads("<a><b>1</b></a>", schema)) == ["a"]


@pytest.mark.parametrize(
    ("xml", "line", "column"),
    [
        pytest.param("<mode>5", 1, 1, id="a tag that is never closed"),
        pytest.param("\n <path>x</path", 2, 2, id="a string with half a closing tag"),
        pytest.param("<mode>5</made>", 1, 8, id="another closing tag"),
        pytest.param("<mode>5</mode>\n\n  </mode>", 3, 3, id="a closing tag that closes nothing"),
        pytest.param("<r><path>x</path>\n<mode>1</r>", 2, 8, id="an unclosed tag in a root"),
        pytest.param("<x>5<b></x>", 1, 8, id="an unclosed tag in an element"),
        pytest.param("<x>[1, 2", 1, 1, id="JSON that never ends"),
        pytest.param("<mode>1</mode><path>", 1, 15, id="a string that is never closed"),
    ],
)
def test_tags_that_do_not_match_are_an_error_with_its_place(
    xml: str, line: int, column: int
) -> None:
    with pytest.raises(XMLParseError) as caught:
        rxml.loads(xml, PAGE)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.text == xml


def test_depth_has_a_limit() -> None:
    deep = "<a>" * (MAX_DEPTH - 1) + "x" + "</a>" * (MAX_DEPTH - 1)
    assert list(rxml.loads(deep)) == ["a"]
    with pytest.raises(XMLParseError, match="deeper"):
        rxml.loads(f"<a>{deep}</a>")


@pytest.mark.parametrize(
    "xml",
    [
        pytest.param("<path>a</path><path>b</path>", id="two tags"),
        pytest.param("<path>a</path><mode>1</mode><path/>", id="a self-closing one later"),
        pytest.param("<r><path>a</path><path>b</path></r>", id="inside a root"),
    ],
)
def test_a_string_field_given_twice_is_an_error(xml: str) -> None:
    with pytest.raises(DuplicateStringTagError, match="<path>"):
        rxml.loads(xml, PAGE)


def test_of_duplicates_the_first_may_stand_and_the_caller_is_told() -> None:
    told: list[str] = []
    found = rxml.loads(
        "<path>a</path><path>b</path><mode>1</mode><path/>",
        PAGE,
        duplicates="first",
        on_error=told.append,
    )
    assert found == {"path": "a", "mode": 1}
    assert len(told) == 2
    assert all("<path>" in message for message in told)
    assert rxml.loads("<path>a</path><path>b</path>", PAGE, duplicates="first") == {"path": "a"}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": ["string", "null"]}, id="one that may be null"),
        pytest.param({"enum": ["a", "b"]}, id="one of an enum"),
    ],
)
def test_duplicates_of_other_text_fields_are_an_error_too(schema: Any) -> None:
    with pytest.raises(DuplicateStringTagError):
        rxml.loads("<x>a</x><x>b</x>", an_object(x=schema))


def test_only_two_words_say_what_to_do_with_duplicates() -> None:
    with pytest.raises(UsageError, match="last"):
        rxml.loads("", PAGE, duplicates="last")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("xml", "schema"),
    [
        pytest.param("text", {"type": "string"}, id="a string at the root"),
        pytest.param("<a>1</a>", {"type": "number"}, id="a number at the root"),
        pytest.param("<item>1</item>", array(NUMBER), id="a list at the root"),
        pytest.param("<a>1</a>", {"$ref": "#/$defs/none"}, id="a root that refers to nowhere"),
        pytest.param("<a>1</a>", an_object(a={"$ref": "#/none"}), id="a field that does"),
        pytest.param("<a>1</a>", False, id="a schema that allows nothing"),
    ],
)
def test_what_can_be_no_object_of_the_schema_is_a_coercion_error(xml: str, schema: Any) -> None:
    with pytest.raises(CoercionError):
        rxml.loads(xml, schema)


def test_a_body_of_free_text_is_an_empty_object() -> None:
    assert rxml.loads("just words, 1 < 2", PAGE) == {}


def test_the_text_node_has_the_name_that_the_caller_wants() -> None:
    found = rxml.loads("<a x='1'>5</a>", text_node="text")
    assert found == {"a": {"text": 5, "@_x": "1"}}


def test_beside_a_strict_object_unknown_text_is_left() -> None:
    schema = {**PAGE, "additionalProperties": False}
    assert rxml.loads("<mode>1</mode><x>5</x>", schema) == {"mode": 1, "x": "5"}


def test_references_into_the_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": an_object(name=STRING, kids=array({"$ref": "#/$defs/node"}))},
    }
    xml = "<tree><name> r<s </name><kids><name>1</name></kids><kids><name>2</name></kids></tree>"
    expected = {"tree": {"name": " r<s ", "kids": [{"name": "1"}, {"name": "2"}]}}
    assert rxml.loads(xml, schema) == expected
    assert rxml.loads(xml, Schema(schema)) == expected
    assert rxml.loads(xml, {"jsonSchema": schema}) == expected
