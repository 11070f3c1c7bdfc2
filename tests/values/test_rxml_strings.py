"""String fields of `rxml`: raw text up to the structural closing tag, and the rule for a stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values import rxml
from penstock.values.rxml.closing_tags import ClosingPlace, ClosingRule, TagVerdict

STRING = {"type": "string"}
PAGE = {
    "type": "object",
    "properties": {"path": STRING, "content": STRING, "mode": {"type": "integer"}},
}

EXACT = [
    pytest.param("if (a < b && c > d) {}", id="comparisons"),
    pytest.param("x<3 and '<ok'", id="an unclosed tag in quotes"),
    pytest.param("std::vector<int> v; std::map<K, V<int>> m;", id="templates"),
    pytest.param("<!DOCTYPE html><html><body>&nbsp;&amp;</body></html>", id="HTML"),
    pytest.param("<div class='a' {...rest}><>{x}</></div>", id="JSX"),
    pytest.param("<p>one<br>two<li>three", id="unclosed inner tags"),
    pytest.param("</b></i>", id="closing tags of others"),
    pytest.param("<!-- a comment --> <![CDATA[x < y]]> <?php echo 1 ?>", id="other markup"),
    pytest.param("<!-- never closed", id="a comment that never ends"),
    pytest.param("<write_page><path>/x</path></write_page>", id="a tool's own call"),
    pytest.param("see <path>old</path> here", id="a sibling's tag"),
    pytest.param("use <content>x</content> tags", id="the field's own tag"),
    pytest.param("<content>a<content>b</content>c</content> d", id="the own tag, nested"),
    pytest.param("<content>a</content></div>", id="the own tag before another closing tag"),
    pytest.param("<content><b>1</b></content><b>2</b> .", id="the own tag before another tag"),
    pytest.param("print('</content>')", id="the closing tag in quotes"),
    pytest.param("a </content> b </content > c", id="closing tags before text"),
    pytest.param("cat <<EOF\n<x>\n</content>\nEOF", id="a heredoc with XML"),
    pytest.param("<!-- </content> -->", id="the closing tag in a comment"),
    pytest.param("</content><b a='", id="a closing tag before half a tag"),
    pytest.param("", id="nothing"),
    pytest.param(" \r\n\t ", id="white space"),
    pytest.param("\x00\x1f\ufffe\ud800é🌦", id="characters that XML cannot carry"),
    pytest.param("a & b &unknown; &#xD800; &#0; &#x110000; &#; &#99999999999;", id="no entities"),
]
FOLLOWERS = [
    pytest.param("", id="at the end"),
    pytest.param(" <!-- c -->\n", id="before a last comment"),
    pytest.param("<path>p</path>", id="before a sibling"),
    pytest.param("\n<!-- </content> <b> --><mode>1</mode>", id="before a comment and a sibling"),
    pytest.param("<path/>", id="before a self-closing sibling"),
    pytest.param('<path kind="a > b">p</path>', id="before a sibling with attributes"),
]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param("\nx\n", "x", id="one"),
        pytest.param("\n\nx\n\n", "\nx\n", id="one of two"),
        pytest.param("\n", "", id="the only one"),
        pytest.param("\r\nx ", "\r\nx ", id="none"),
        pytest.param("&#10;x", "\nx", id="none that is escaped"),
    ],
)
def test_every_string_can_lose_one_newline_next_to_each_tag(raw: str, value: str) -> None:
    schema = {
        "properties": {
            "a": STRING,
            "b": {"type": "object", "properties": {"c": STRING}},
            "d": {"type": "array", "items": STRING},
        }
    }
    xml = f"<a>{raw}</a><b><c>{raw}</c></b><d><item>{raw}</item></d>"
    assert rxml.loads(xml, schema, trims=True) == {"a": value, "b": {"c": value}, "d": [value]}


@pytest.mark.parametrize("after", FOLLOWERS)
@pytest.mark.parametrize("value", EXACT)
def test_a_string_field_comes_out_exactly(value: str, after: str) -> None:
    assert rxml.loads(f"<content>{value}</content>{after}", PAGE)["content"] == value
    inside = rxml.loads(f"<call>\n<content>{value}</content>{after}</call>", PAGE)
    assert inside["content"] == value


@pytest.mark.parametrize("value", EXACT)
def test_a_string_deep_inside_comes_out_exactly(value: str) -> None:
    row = {"type": "object", "properties": {"content": STRING, "n": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    xml = f"<rows><row><content>{value}</content><n>1</n></row><row><n>2</n></row></rows>"
    assert rxml.loads(xml, schema) == {"rows": [{"content": value, "n": 1}, {"n": 2}]}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": ["string", "null"]}, id="a string or null"),
        pytest.param({"anyOf": [STRING, {"type": "number"}]}, id="a string or a number"),
        pytest.param({"anyOf": [STRING, {"type": "array", "items": STRING}]}, id="or a list"),
        pytest.param({"allOf": [STRING, {"minLength": 1}]}, id="a string under allOf"),
        pytest.param({"$ref": "#/$defs/text"}, id="a reference to a string"),
        pytest.param({"type": "string", "enum": ["x"]}, id="a string of an enum"),
    ],
)
def test_whatever_may_be_a_string_is_raw_text(schema: Any) -> None:
    document = {"type": "object", "properties": {"s": schema}, "$defs": {"text": STRING}}
    for value in (" a < b ", "5 <br> 6", "null</s> void<b>"):
        assert rxml.loads(f"<s>{value}</s>", document) == {"s": value}


def test_a_string_that_may_be_a_list_is_one_if_it_holds_elements() -> None:
    either = {"anyOf": [STRING, {"type": "array", "items": STRING}]}
    schema = {"type": "object", "properties": {"s": either}}
    assert rxml.loads("<s><item>a < b</item></s>", schema) == {"s": ["a < b"]}
    assert rxml.loads("<s> a, b </s>", schema) == {"s": " a, b "}
    assert rxml.loads("<s/>", schema) == {"s": ""}
    assert rxml.loads("<s><b>a</b> c</s>", schema) == {"s": "<b>a</b> c"}


def test_a_string_that_may_be_an_object_is_one_if_it_begins_with_a_property() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    schema = {"type": "object", "properties": {"s": {"anyOf": [STRING, point]}}}
    assert rxml.loads("<s> <x>1</x> <y>2</y> </s>", schema) == {"s": {"x": 1, "y": 2}}
    assert rxml.loads("<s><p>a</p></s>", schema) == {"s": "<p>a</p>"}


def test_the_values_of_a_map_of_strings_are_raw_text() -> None:
    schema = {
        "type": "object",
        "properties": {"env": {"type": "object", "additionalProperties": STRING}},
    }
    xml = "<env><A>a<b</A><B> 5 </B><C/></env>"
    assert rxml.loads(xml, schema) == {"env": {"A": "a<b", "B": " 5 ", "C": ""}}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param("&lt;a&gt; &amp; &quot;b&quot; &apos;", '<a> & "b" \'', id="all five"),
        pytest.param("&#65;&#x42;&#X1F326;", "AB🌦", id="numeric ones"),
        pytest.param("&amp;lt;", "&lt;", id="only once"),
        pytest.param("&lt; <b>", "&lt; <b>", id="none beside a bracket"),
        pytest.param("&LT; &amp &#xZZ;", "&LT; &amp &#xZZ;", id="nothing that is not one"),
        pytest.param("<![CDATA[&amp;]]>", "<![CDATA[&amp;]]>", id="none in CDATA, which is kept"),
    ],
)
def test_entities_are_decoded_once_and_only_without_markup(raw: str, value: str) -> None:
    assert rxml.loads(f"<path>{raw}</path>", PAGE) == {"path": value}


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        pytest.param(
            "<content>a</content> tail </content> more",
            {"content": "a</content> tail "},
            id="without a structural closing tag the last one closes",
        ),
        pytest.param(
            "<content>a<content>b</content><x>1</x>",
            {"content": "a<content>b", "x": 1},
            id="also past an unmatched tag of its own",
        ),
        pytest.param(
            "<content>a</content><x>1</x>",
            {"content": "a", "x": 1},
            id="an unknown tag ends a value without unmatched tags",
        ),
        pytest.param(
            "<content>a<content/></content><x>1</x>",
            {"content": "a<content/>", "x": 1},
            id="a self-closing tag is not unmatched",
        ),
        pytest.param(
            "<content>a<content>b</content><path>p</path>",
            {"content": "a<content>b", "path": "p"},
            id="a sibling ends a value with unmatched tags",
        ),
        pytest.param(
            "<content lang='en' x>a</content \n>", {"content": "a"}, id="attributes are dropped"
        ),
    ],
)
def test_the_closing_tag_is_chosen(xml: str, expected: Any) -> None:
    assert rxml.loads(xml, PAGE) == expected


# --- the rule as a stream asks it -----------------------------------------------------------------

INSIDE = ClosingPlace("call", ("path", "content"))
AT_ROOT = ClosingPlace(None, ("path", "content"))

JUDGED = [
    pytest.param("", INSIDE, False, TagVerdict.UNKNOWN, id="nothing yet"),
    pytest.param("\n  ", INSIDE, False, TagVerdict.UNKNOWN, id="white space so far"),
    pytest.param("<", INSIDE, False, TagVerdict.UNKNOWN, id="a bracket"),
    pytest.param("< ", INSIDE, False, TagVerdict.DATA, id="a lone bracket"),
    pytest.param("x", INSIDE, False, TagVerdict.DATA, id="text"),
    pytest.param("</ca", INSIDE, False, TagVerdict.UNKNOWN, id="half the enclosing tag"),
    pytest.param("</call", INSIDE, False, TagVerdict.UNKNOWN, id="the enclosing tag but its end"),
    pytest.param("</call  >", INSIDE, False, TagVerdict.STRUCTURAL, id="the enclosing tag"),
    pytest.param("</cal ", INSIDE, False, TagVerdict.DATA, id="a shorter closing tag"),
    pytest.param("</x", INSIDE, False, TagVerdict.DATA, id="another closing tag, begun"),
    pytest.param("</", AT_ROOT, False, TagVerdict.DATA, id="any closing tag at the root"),
    pytest.param("<path", INSIDE, True, TagVerdict.UNKNOWN, id="a sibling, begun"),
    pytest.param("<path a='>", INSIDE, True, TagVerdict.UNKNOWN, id="a sibling, in an attribute"),
    pytest.param("<path a=", INSIDE, True, TagVerdict.UNKNOWN, id="a sibling, before a value"),
    pytest.param("<path a='>'", INSIDE, True, TagVerdict.UNKNOWN, id="a sibling, before its end"),
    pytest.param("<path a='>'/>", INSIDE, True, TagVerdict.STRUCTURAL, id="a sibling"),
    pytest.param("<path '", INSIDE, False, TagVerdict.DATA, id="a sibling's name, but no tag"),
    pytest.param("<b>", INSIDE, False, TagVerdict.STRUCTURAL, id="another opening tag"),
    pytest.param("<b>", INSIDE, True, TagVerdict.DATA, id="another opening tag, one unmatched"),
    pytest.param("<3 y", INSIDE, False, TagVerdict.DATA, id="a heart"),
    pytest.param("<!-", INSIDE, False, TagVerdict.UNKNOWN, id="a comment, begun"),
    pytest.param("<!-- x -->", INSIDE, False, TagVerdict.UNKNOWN, id="a comment so far"),
    pytest.param("<!-- x --> y", INSIDE, False, TagVerdict.DATA, id="a comment and text"),
    pytest.param("<!-- x --><!----> </call>", INSIDE, True, TagVerdict.STRUCTURAL, id="comments"),
    pytest.param("<!D", INSIDE, False, TagVerdict.DATA, id="a declaration"),
    pytest.param("<?", INSIDE, False, TagVerdict.DATA, id="an instruction"),
]  # fmt: skip


def judge(
    text: str, place: ClosingPlace, *, final: bool, unmatched: bool, strict: bool = False
) -> TagVerdict:
    """Judge the closing tag of ``content`` that stands before *text*."""
    rule = ClosingRule(text, final=final, strict=strict)
    return rule.judge("content", 0, place, unmatched=unmatched).verdict


@pytest.mark.parametrize(("text", "place", "unmatched", "verdict"), JUDGED)
def test_a_stream_hears_the_verdict_as_soon_as_it_is_certain(
    text: str, place: ClosingPlace, *, unmatched: bool, verdict: TagVerdict
) -> None:
    assert judge(text, place, final=False, unmatched=unmatched) is verdict


TAGS = ["<b>", "<path>", "</path>", "</call>", '<path a="', "<!--", "-->"]
MARKUP = st.lists(st.sampled_from([*TAGS, "call", "path", *"</>= \n'\"bx3!-?"]), max_size=10).map(
    "".join
)


@given(
    text=MARKUP,
    place=st.sampled_from([INSIDE, AT_ROOT]),
    unmatched=st.booleans(),
    strict=st.booleans(),
)
def test_more_text_never_changes_a_verdict(
    text: str, place: ClosingPlace, *, unmatched: bool, strict: bool
) -> None:
    whole = judge(text, place, final=True, strict=strict, unmatched=unmatched)
    assert whole is not TagVerdict.UNKNOWN
    for cut in range(len(text) + 1):
        early = judge(text[:cut], place, final=False, strict=strict, unmatched=unmatched)
        assert early in (TagVerdict.UNKNOWN, whole)
