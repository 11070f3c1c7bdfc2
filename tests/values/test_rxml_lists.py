"""Lists in `rxml.loads`: repeated tags, wrappers, items, numbered tags, and text that is a list."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.values import rxml

STRING = {"type": "string"}
NUMBER = {"type": "number"}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


ROWS = an_object(rows=array(an_object(id=NUMBER, v=STRING)))

LISTS = [
    pytest.param(
        "<t><line>one</line></t>", array(STRING), ["one"], id="a wrapper of one is a list"
    ),
    pytest.param(
        "<t><line>1</line><line>2</line></t>",
        array(NUMBER),
        [1, 2],
        id="a wrapper of many is a list",
    ),
    pytest.param("<t/>", array(STRING), [], id="a self-closing list is empty"),
    pytest.param("<t>  \n</t>", array(STRING), [], id="a blank list is empty"),
    pytest.param("<t><item/></t>", array(STRING), [""], id="an empty item is one empty string"),
    pytest.param(
        "<t><item></item></t>", array(an_object(a=STRING)), [{}], id="or one empty object"
    ),
    pytest.param("<t><item/></t>", array(NUMBER), [""], id="an empty number stays empty text"),
    pytest.param("<t/><t>b</t>", array(STRING), ["", "b"], id="an empty repeated tag counts"),
    pytest.param("<t>a, b</t>", array(STRING), ["a", "b"], id="one tag with commas is a list"),
    pytest.param(
        "<t>a, b</t><t> c </t>",
        array(STRING),
        ["a, b", " c "],
        id="repeated tags are strings, commas and space included",
    ),
    pytest.param(
        "<t><item>x < y</item><item> <b>z</b> </item></t>",
        array(STRING),
        ["x < y", " <b>z</b> "],
        id="an item of a list of strings is raw text",
    ),
    pytest.param(
        "<t>a<br>b</t><t><i>c</i> d</t>",
        array(STRING),
        ["a<br>b", "<i>c</i> d"],
        id="a repeated string tag is raw text",
    ),
    pytest.param(
        "<t><b>x</b><br> y</t>",
        array(STRING),
        ["<b>x</b><br> y"],
        id="markup that is no list of elements is raw text",
    ),
    pytest.param(
        "<t><b>x</b><i>y</i></t>",
        array(STRING),
        ["<b>x</b><i>y</i>"],
        id="elements of unequal names are raw text",
    ),
    pytest.param(
        "<t>a</b> c</t>", array(STRING), ["a</b> c"], id="a stray closing tag is raw text there"
    ),
    pytest.param(
        "<t><i>a</i></b> c</t>",
        array(STRING),
        ["<i>a</i></b> c"],
        id="a stray closing tag after an element is raw text there",
    ),
    pytest.param(
        "<t><item>1</item></t><t><item>2</item></t>",
        array(NUMBER),
        [1, 2],
        id="repeated wrappers are one list",
    ),
    pytest.param(
        "<t><r><c>1</c><c>2</c></r><r>3,4</r></t>",
        array(array(NUMBER)),
        [[1, 2], [3, 4]],
        id="lists nest",
    ),
    pytest.param(
        "<t><item>1</item></t><t><item>2</item></t>",
        array(array(NUMBER)),
        [[1], [2]],
        id="repeated wrappers are the rows of a list of lists",
    ),
    pytest.param(
        "<t><2>c</2><0>a</0></t>", array(STRING), ["a", "c"], id="numbered tags sort, gaps close"
    ),
    pytest.param(
        "<t><1>x</1><0>5</0></t>",
        {"type": "array", "prefixItems": [NUMBER, STRING]},
        [5, "x"],
        id="a numbered tag has the schema of its place",
    ),
    pytest.param(
        "<t><item>1</item><item>01</item></t>",
        {"type": "array"},
        [1, "01"],
        id="items without a schema become numbers where that is safe",
    ),
    pytest.param(
        "<t><a>1</a><b>2</b></t>",
        array(NUMBER),
        [{"a": "1", "b": "2"}],
        id="nothing of a list of the wrong shape is lost",
    ),
    pytest.param(
        "<t kind='x'><item>1</item></t>", array(NUMBER), [1], id="a list drops its attributes"
    ),
]


@pytest.mark.parametrize(("xml", "schema", "expected"), LISTS)
def test_a_list_is_read(xml: str, schema: Any, expected: Any) -> None:
    assert rxml.loads(xml, an_object(t=schema)) == {"t": expected}


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        pytest.param(
            "<rows><row><id>1</id><v> a</v></row></rows>", [{"id": 1, "v": " a"}], id="in a wrapper"
        ),
        pytest.param("<rows><id>1</id></rows>", [{"id": 1}], id="as the only element"),
        pytest.param("<rows/><rows><id>1</id></rows>", [{}, {"id": 1}], id="beside an empty one"),
        pytest.param("<rows><row/></rows>", [{}], id="empty, in a wrapper"),
        pytest.param('<rows>[{"id": "2"}]</rows>', [{"id": 2}], id="as JSON"),
        pytest.param(
            '<rows>[{"v": "a<b></rows><rows>"}]</rows>',
            [{"v": "a<b></rows><rows>"}],
            id="as JSON with tags in its strings",
        ),
        pytest.param(
            "<rows>[{'v': '<b>c</b>'}]</rows>",
            [{"v": "<b>c</b>"}],
            id="as relaxed JSON with markup",
        ),
        pytest.param(
            "<rows>[{'v': '<v>c</v>'}]</rows>", [{"v": "<v>c</v>"}], id="with its own tag inside"
        ),
        pytest.param(
            '<rows>{"id": 1}</rows><rows>{"id": 2}</rows>',
            [{"id": 1}, {"id": 2}],
            id="as JSON each",
        ),
    ],
)
def test_an_object_in_a_list_is_read(xml: str, expected: Any) -> None:
    assert rxml.loads(xml, ROWS) == {"rows": expected}
