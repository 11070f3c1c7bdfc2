"""`rxml.loads` against soup: it ends in a value or a `ParseError`, and in linear time."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock import _json
from penstock.errors import ParseError
from penstock.values import rxml

STRING = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "c": STRING,
        "n": {"type": "integer"},
        "t": {"type": "array", "items": STRING},
        "m": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "env": {"type": "object", "additionalProperties": STRING},
        "u": {"anyOf": [STRING, {"$ref": "#/$defs/row"}, {"type": "array", "items": STRING}]},
        "o": {"$ref": "#"},
        "any": True,
    },
    "$defs": {"row": {"type": "object", "properties": {"c": STRING, "n": {"type": "integer"}}}},
}
STRICT = {**SCHEMA, "additionalProperties": False, "required": ["c"]}

NAMES = ["c", "n", "t", "m", "rows", "env", "u", "o", "any", "item", "x", "0", "1", "script"]
SOUP = st.lists(
    st.sampled_from([f"<{name}>" for name in NAMES])
    | st.sampled_from([f"</{name}>" for name in NAMES])
    | st.sampled_from([f"<{name}/>" for name in NAMES])
    | st.sampled_from(["<", ">", "/", "</", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "<!D"])
    | st.sampled_from(["<c a='", '<n b="', "'", '"', "=", "{", "}", "[", "]", "\\", ",", "&lt;"])
    | st.sampled_from([" ", "\n", "5", "true", "null", "text", "&#x41;", "é", "\ud800"]),
    max_size=24,
).map("".join)


@settings(max_examples=120)
@given(
    xml=SOUP,
    schema=st.sampled_from([None, True, SCHEMA, STRICT, STRING]),
    duplicates=st.sampled_from(["error", "first"]),
)
def test_soup_gives_a_json_object_or_a_parse_error(xml: str, schema: Any, duplicates: Any) -> None:
    try:
        value = rxml.loads(xml, schema, duplicates=duplicates)
    except ParseError as error:
        assert 0 <= error.position <= len(xml)  # noqa: PT017 - either outcome is lawful
    else:
        assert _json.decode(_json.encode_strict(value)) == value


@given(SOUP, st.sampled_from([None, SCHEMA, STRICT]))
def test_a_string_field_takes_any_soup_that_does_not_close_it(soup: str, schema: Any) -> None:
    text = soup.replace("</c", "").replace("&", "")
    if schema is not None:
        assert rxml.loads(f"<c>{text}</c>", schema) == {"c": text}


HOSTILE = [
    pytest.param("<", "<c>", "</c>", id="brackets in a string"),
    pytest.param("</c>", "<c>", "</c>", id="closing tags in a string"),
    pytest.param("</c> x", "<c>", "</c>", id="closing tags that are data"),
    pytest.param("<c>", "<c>", "</c>", id="opening tags in a string"),
    pytest.param("<c>", "", "", id="strings that are never closed"),
    pytest.param("<a>", "", "", id="nesting"),
    pytest.param("<", "", "", id="brackets"),
    pytest.param("<!--", "", "", id="comments that never end"),
    pytest.param("</c><!--", "<c>", "</c>", id="closing tags before comments that never end"),
    pytest.param("<!--</c><!-- -->", "<c>", "</c>", id="closing tags among comments"),
    pytest.param("<![CDATA[", "", "", id="CDATA that never ends"),
    pytest.param("<?", "", "", id="instructions that never end"),
    pytest.param("<!D", "", "", id="declarations that never end"),
    pytest.param("</c><n a=\"' b='", "<c>", "</c>", id="attributes that never end"),
    pytest.param("<a ", "", "", id="tags that never end"),
    pytest.param('<n>["', "", "", id="JSON that never ends"),
    pytest.param('<x>["</x>', "", "", id="JSON that is broken"),
    pytest.param("<t><b>x</b> y", "", "", id="lists that never end"),
    pytest.param("<rows><c>a</c> x</rows>", "", "", id="strings without a structural end"),
    pytest.param("<u><c></u>", "", "", id="strings that may be objects"),
    pytest.param("<x/>", "", "", id="repeated tags"),
    pytest.param("&amp;", "<c>", "</c>", id="entities"),
    pytest.param(" ", "<c>x</c>", "</c>", id="white space"),
]


@pytest.mark.parametrize(("unit", "before", "after"), HOSTILE)
def test_time_grows_with_the_text_and_no_faster(unit: str, before: str, after: str) -> None:
    def read(size: int) -> None:
        load(before + unit * (size // len(unit)) + after)

    check_linear(read, 5_000, 40_000, at_most=3)


def test_many_names_without_a_structural_end_take_linear_time() -> None:
    def body(count: int) -> str:
        return "<env>" + "".join(f"<k{i}>x</k{i}> y " for i in range(count)) + "</env>"

    check_linear(lambda count: load(body(count)), 500, 4_000, at_most=3)


def load(xml: str) -> None:
    with contextlib.suppress(ParseError):
        rxml.loads(xml, SCHEMA)
