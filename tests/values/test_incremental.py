from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.errors import JSONParseError, UsageError
from penstock.values import rjson
from penstock.values.incremental import IncrementalJSON
from penstock.values.incremental_state import Change
from penstock.values.json_grammar import MAX_DEPTH, MAX_DIGITS

# --- what the laws are made of ----------------------------------------------------------


def feed_all(reader: IncrementalJSON, *pieces: str) -> list[Change]:
    changes = [change for piece in pieces for change in reader.feed(piece)]
    return changes + reader.finish()


def merged(changes: list[Change]) -> list[Change]:
    """Join neighbouring pieces of one string."""
    out: list[Change] = []
    for change in changes:
        if change.kind == "string" and out and out[-1].kind == "string":
            assert out[-1].path == change.path
            out[-1] = Change(change.path, "string", out[-1].text + change.text)
        else:
            out.append(change)
    return out


class Mirror:
    """A second value that is built from the changes alone."""

    def __init__(self) -> None:
        self.root: list[Any] = []
        self.open: tuple[str | int, ...] | None = None

    def add(self, change: Change) -> None:
        so_far = self._get(change.path) if self.open == change.path else ""
        self.open = change.path if change.kind == "string" else None
        match change.kind:
            case "object":
                self._put(change.path, {})
            case "array":
                self._put(change.path, [])
            case "string":
                self._put(change.path, so_far + change.text)
            case "value":
                self._put(change.path, change.value)
            case "end":
                assert self._get(change.path) == change.value

    def _parent(self, path: tuple[str | int, ...]) -> tuple[Any, Any]:
        node: Any = self.root
        for step in (0, *path)[:-1]:
            node = node[step]
        return node, (0, *path)[-1]

    def _get(self, path: tuple[str | int, ...]) -> Any:
        parent, step = self._parent(path)
        if isinstance(parent, list):
            return parent[step] if step < len(parent) else None
        return parent.get(step)

    def _put(self, path: tuple[str | int, ...], value: Any) -> None:
        parent, step = self._parent(path)
        if isinstance(parent, list) and step == len(parent):
            parent.append(value)
        else:
            parent[step] = value


def every_cut_in_two(text: str) -> list[tuple[str, str]]:
    return [(text[:at], text[at:]) for at in range(len(text) + 1)]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
CUTS = st.lists(st.integers(0, 10_000), max_size=12)

STRICT_DOCUMENTS = [
    pytest.param("{}", id="an empty object"),
    pytest.param("[]", id="an empty array"),
    pytest.param(' { "a" : [ 1 , 2 ] , "b" : { } } ', id="white space everywhere"),
    pytest.param('\r\n\t{"a":\n\n  1}\n', id="white space of every kind"),
    pytest.param('""', id="an empty string at the root"),
    pytest.param('"text"', id="a string at the root"),
    pytest.param("0", id="zero at the root"),
    pytest.param("-12.5e+2 ", id="a number at the root with white space behind"),
    pytest.param("true", id="true at the root"),
    pytest.param(" null ", id="null at the root"),
    pytest.param("[true,false,null]", id="literals in an array"),
    pytest.param("[0,-0,-0.0,1E5,1e-5,0.1,100]", id="numbers of every form"),
    pytest.param("[123456789012345678901234567890]", id="an integer past 64 bits"),
    pytest.param("[1e999,-1e999]", id="floats past the largest"),
    pytest.param('{"":{"":""}}', id="empty keys"),
    pytest.param('{"a":1,"a":2}', id="a repeated key"),
    pytest.param('{"a":[1,{"b":"x"}],"a":"y"}', id="a repeated key over a container"),
    pytest.param('{"k\\u00e9\\n":"\\"\\\\\\/\\b\\f\\n\\r\\t"}', id="every short escape"),
    pytest.param('["\\u00e9\\u4e2d\\u0000"]', id="unicode escapes"),
    pytest.param('["\\ud83d\\ude00","\\uD83D\\uDE00!"]', id="escaped surrogate pairs"),
    pytest.param('["\\ud83d","\\ud83dx","\\ude00"]', id="lone surrogates"),
    pytest.param('["\\ud83d\\ud83d\\ude00","\\ud83d\\n"]', id="a high surrogate before others"),
    pytest.param('["\\ud83d\\u0041","\\ud83d\\\\"]', id="a high surrogate before an escape"),
    pytest.param('["😀é中","\u2028\x7f\xa0"]', id="characters beyond ASCII and unprintable ones"),
    pytest.param('["\ud83d","\ude00"]', id="surrogates that were never escaped"),
    pytest.param('[[[[[["deep"]]]]],{"a":{"b":{"c":[]}}}]', id="nesting"),
    pytest.param('[{"id":1,"on":true},{"id":2,"on":null}]', id="an array of objects"),
]

RELAXED_DOCUMENTS = [
    pytest.param("{a: 1, b_c: 'x'}", id="unquoted keys and single quotes"),
    pytest.param("[bare, v1.2, a//b, a#b, $x, /x, a/*b]", id="bare words"),
    pytest.param("[1,2,]", id="a trailing comma in an array"),
    pytest.param('{"a":1,}', id="a trailing comma in an object"),
    pytest.param("[True, False, None, NaN, -Infinity]", id="Python's literals"),
    pytest.param("[.5, +1, 1., 007, -.5e3, +0.5E-1]", id="relaxed numbers"),
    pytest.param("// one\n{ # two\n'a' /* three */ : /**/ 1 /***/ } // four", id="comments"),
    pytest.param("[1// one\n, 2# two\r, true/* x */, null/*a*//*b*/]", id="glued comments"),
    pytest.param("[1/* a b */, 2/*/ x */, 3/***/]", id="glued comments with spaces"),
    pytest.param(
        "[\u201csmart\u201d, \u2018q\u2019, \u201elow\u201c, \u201alow\u2018]", id="smart quotes"
    ),
    pytest.param("['it\\'s \\`so\\`', 'a\"b', \"a'b\"]", id="quotes in quotes"),
    pytest.param('["raw\nnew\tline\x00"]', id="raw control characters"),
    pytest.param("\ufeff{a:1}", id="a byte order mark"),
    pytest.param("nope", id="a bare word at the root"),
    pytest.param("/", id="a slash at the root"),
    pytest.param("1 //", id="a number and an open comment line"),
    pytest.param("[nullish]x", id="a glued literal"),
    pytest.param("[12px]", id="a glued number"),
    pytest.param("{1: 2}", id="a number as a key"),
    pytest.param("{true: 2}", id="a literal as a key"),
    pytest.param("{nullable: 1, true//x: 2}", id="keys that begin like literals"),
    pytest.param("1 /* open", id="a comment that never ends"),
    pytest.param("1/* open", id="a glued comment that never ends"),
    pytest.param("1/*open", id="a glued comment that never ends without a space"),
    pytest.param("[1/2]", id="a slash glued to a number"),
    pytest.param("[1 /]", id="a slash behind a number"),
    pytest.param("[1/**/2]", id="a number glued to a comment"),
    pytest.param("[\ufeff1]", id="a byte order mark inside"),
]

REFUSED = [
    pytest.param("{a:1}", 1, id="an unquoted key"),
    pytest.param("{'a':1}", 1, id="single quotes"),
    pytest.param("[1,]", 3, id="a trailing comma in an array"),
    pytest.param('{"a":1,}', 7, id="a trailing comma in an object"),
    pytest.param("[,1]", 1, id="a leading comma"),
    pytest.param("[1 2]", 3, id="a missing comma"),
    pytest.param('{"a" 1}', 5, id="a missing colon"),
    pytest.param('{"a":}', 5, id="a missing value"),
    pytest.param('{"a":1]', 6, id="the wrong closing bracket"),
    pytest.param("[1}", 2, id="the other wrong closing bracket"),
    pytest.param("]", 0, id="a closing bracket alone"),
    pytest.param("{} x", 3, id="text after the value"),
    pytest.param("nul]", 0, id="a broken literal"),
    pytest.param("truex", 4, id="a glued literal"),
    pytest.param("[True]", 1, id="a Python literal"),
    pytest.param("[NaN]", 1, id="not a number"),
    pytest.param("[-Infinity]", 1, id="an infinity"),
    pytest.param("[01]", 1, id="a leading zero"),
    pytest.param("[1.]", 1, id="a point without digits"),
    pytest.param("[.5]", 1, id="a point in front"),
    pytest.param("[+1]", 1, id="a plus sign"),
    pytest.param("[1-2]", 1, id="two numbers in one"),
    pytest.param("[-]", 1, id="a sign alone"),
    pytest.param('["a\nb"]', 3, id="a raw newline in a string"),
    pytest.param('["\\x41"]', 2, id="an unknown escape"),
    pytest.param('["\\u12g4"]', 2, id="a unicode escape with a wrong digit"),
    pytest.param('["\\u+123"]', 2, id="a unicode escape with a sign"),
    pytest.param("// x\n1", 0, id="a comment"),
    pytest.param("\ufeff1", 0, id="a byte order mark"),
    pytest.param("[\xa01]", 1, id="a space that JSON does not know"),
]

UNFINISHED = ["", " ", "{", "[", '"', '"a', '{"a', '{"a"', '{"a":', '{"a":1', "[1", "[1,", '["\\']
UNFINISHED += ["-", "1.", "1e", "tru", '"\\ud83d', '["\\u00', '{"a":"b"', "[[]"]


# --- strict ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", STRICT_DOCUMENTS)
def test_every_cut_gives_the_value_and_the_changes_of_the_whole(text: str) -> None:
    whole = IncrementalJSON()
    expected = merged(feed_all(whole, text))
    assert whole.value == json.loads(text)
    assert whole.complete
    for pieces in [*every_cut_in_two(text), tuple(text)]:
        reader = IncrementalJSON()
        assert merged(feed_all(reader, *pieces)) == expected
        assert reader.value == whole.value


@given(value=JSON_VALUES, cuts=CUTS, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_any_value_written_and_cut_anywhere_reads_back_equal(
    value: Any,
    cuts: list[int],
    ascii_only: bool,  # noqa: FBT001 - drawn by hypothesis
    indent: int | None,
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    reader = IncrementalJSON()
    feed_all(reader, *pieces_of(text, cuts))
    assert json.dumps(reader.value) == json.dumps(json.loads(text))
    assert reader.complete


@given(value=JSON_VALUES, cuts=CUTS)
def test_folding_the_changes_gives_the_live_value_after_every_piece(
    value: Any, cuts: list[int]
) -> None:
    reader = IncrementalJSON()
    mirror = Mirror()
    for piece in pieces_of(json.dumps(value), cuts):
        for change in reader.feed(piece):
            assert change.kind != "string" or change.text
            mirror.add(change)
        assert (mirror.root or [None])[0] == reader.snapshot()


def assert_grows(before: Any, after: Any, open_path: bool = True) -> None:  # noqa: FBT001, FBT002
    """Check that *after* is *before* plus what arrived: only the last of anything may be open."""
    if isinstance(before, dict):
        assert list(before) == list(after)[: len(before)]
        for position, key in enumerate(before):
            last = open_path and position == len(before) - 1
            assert_grows(before[key], after[key], last)
        assert open_path or len(before) == len(after)
    elif isinstance(before, list):
        for position, item in enumerate(before):
            assert_grows(item, after[position], open_path and position == len(before) - 1)
        assert open_path or len(before) == len(after)
    elif isinstance(before, str) and open_path:
        assert after.startswith(before)
    else:
        assert type(before) is type(after)
        assert before == after


@settings(max_examples=60)
@given(value=JSON_VALUES)
def test_every_prefix_is_accepted_and_the_value_only_grows(value: Any) -> None:
    text = json.dumps(value)
    reader = IncrementalJSON()
    before = None
    for character in text:
        reader.feed(character)
        after = reader.snapshot()
        if before is not None:
            assert_grows(before, after)
        before = after
    reader.finish()
    if before is not None:
        assert_grows(before, reader.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a":"', {}),
        ('{"a":"x', {"a": "x"}),
        ('{"a":"x\\', {"a": "x"}),
        ('{"a":"x\\u00', {"a": "x"}),
        ('{"a":"x\\ud83d', {"a": "x"}),
        ('{"a":"x\\ud83d\\ude0', {"a": "x"}),
        ('{"a":"x\\ud83dy', {"a": "x\ud83dy"}),
        ('{"a":1', {}),
        ('{"a":1.', {}),
        ('{"a":-', {}),
        ('{"a":1,', {"a": 1}),
        ('{"a":tr', {}),
        ('{"a":true', {"a": True}),
        ('{"a":nul', {}),
        ('{"a":[1,{"b":', {"a": [1, {}]}),
        ('["x', ["x"]),
        ("12", None),
        ("12 ", 12),
    ],
)
def test_a_prefix_shows_what_is_certain(text: str, shown: Any) -> None:
    reader = IncrementalJSON()
    for character in text:
        reader.feed(character)
    assert reader.value == shown


@pytest.mark.parametrize(("text", "position"), REFUSED)
def test_malformed_text_is_refused_at_the_same_offset_for_every_cut(
    text: str, position: int
) -> None:
    for pieces in [(text,), *every_cut_in_two(text), tuple(text)]:
        reader = IncrementalJSON()
        with pytest.raises(JSONParseError) as caught:
            feed_all(reader, *pieces)
        assert caught.value.position == position
        with pytest.raises(UsageError, match="broke"):
            reader.feed("1")
        with pytest.raises(UsageError, match="broke"):
            reader.finish()


@pytest.mark.parametrize("text", UNFINISHED)
def test_text_that_ends_too_early_is_refused_by_finish_only(text: str) -> None:
    reader = IncrementalJSON()
    for character in text:
        reader.feed(character)
    assert not reader.complete
    with pytest.raises(JSONParseError):
        reader.finish()
    assert not reader.complete


@given(text=st.text('{}[]",:\\ut0e-1. \n', max_size=30), cuts=CUTS)
def test_strict_accepts_what_the_standard_library_accepts(text: str, cuts: list[int]) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(JSONParseError):
            feed_all(IncrementalJSON(), *pieces_of(text, cuts))
    else:
        reader = IncrementalJSON()
        feed_all(reader, *pieces_of(text, cuts))
        assert reader.value == expected


# --- changes, the live value, ends -----------------------------------------------------


def test_changes_come_in_the_order_of_the_text() -> None:
    reader = IncrementalJSON()
    assert reader.feed('{"a": [1, "x\\ty"], "b": nul') == [
        Change((), "object"),
        Change(("a",), "array"),
        Change(("a", 0), "value", value=1),
        Change(("a", 1), "string", "x\ty"),
        Change(("a", 1), "value", value="x\ty"),
        Change(("a",), "end", value=[1, "x\ty"]),
    ]
    assert reader.feed("l}") == [
        Change(("b",), "value", value=None),
        Change((), "end", value={"a": [1, "x\ty"], "b": None}),
    ]
    assert reader.finish() == []


def test_the_root_and_the_containers_stay_the_same_objects() -> None:
    reader = IncrementalJSON()
    reader.feed('{"a": [')
    root = reader.value
    items = root["a"]
    feed_all(reader, '"x', 'y", {"b', '": 1}]}')
    assert reader.value is root
    assert root["a"] is items
    assert root == {"a": ["xy", {"b": 1}]}


def test_a_snapshot_is_left_alone_by_later_pieces() -> None:
    reader = IncrementalJSON()
    reader.feed('{"a": [1, {"b": "x')
    snapshot = reader.snapshot()
    reader.feed('y"}, 2]}')
    assert snapshot == {"a": [1, {"b": "x"}]}
    assert reader.value == {"a": [1, {"b": "xy"}, 2]}


def test_asking_for_the_value_between_all_pieces_changes_nothing() -> None:
    text = '["ab", "", {"k": "cd\\n"}, "ef"]'
    reader = IncrementalJSON()
    for character in text:
        reader.feed(character)
        reader.value  # noqa: B018 - the question is what is tested
    assert reader.value == json.loads(text)


def test_a_number_at_the_root_is_whole_only_when_something_follows() -> None:
    whole = [Change((), "value", value=12)]
    reader = IncrementalJSON()
    assert (reader.feed("12"), reader.complete) == ([], False)
    assert (reader.finish(), reader.complete) == (whole, True)
    other = IncrementalJSON()
    assert (other.feed("12\n"), other.complete) == (whole, True)


def test_feed_after_finish_is_a_usage_error_and_finish_again_is_not() -> None:
    reader = IncrementalJSON()
    feed_all(reader, "{}")
    assert reader.finish() == []
    for delta in ("", " ", "{}"):
        with pytest.raises(UsageError, match="finished"):
            reader.feed(delta)
    assert reader.value == {}


def test_an_empty_piece_changes_nothing() -> None:
    reader = IncrementalJSON()
    for character in '{"a": "x\\u0041", "b": -1.5}':
        reader.feed(character)
        assert reader.feed("") == []
    assert reader.value == {"a": "xA", "b": -1.5}


# --- copies ----------------------------------------------------------------------------


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("text", STRICT_DOCUMENTS)
def test_a_copy_goes_its_own_way_from_any_point(make_copy: Any, text: str) -> None:
    expected = json.loads(text)
    for start, rest in every_cut_in_two(text):
        reader = IncrementalJSON()
        reader.feed(start)
        twin = make_copy(reader)
        feed_all(reader, rest)
        assert reader.value == expected
        feed_all(twin, *rest)
        assert twin.value == expected
        assert not isinstance(expected, (dict, list)) or twin.value is not reader.value


def test_the_deepest_value_can_be_copied_and_shown() -> None:
    reader = IncrementalJSON()
    reader.feed('{"a":[' * (MAX_DEPTH // 2))
    assert copy.deepcopy(reader).snapshot() == reader.value
    reader.feed("]}" * (MAX_DEPTH // 2))
    assert reader.complete


# --- lenient ---------------------------------------------------------------------------


def outcome_of_loads(text: str) -> Any:
    try:
        return json.dumps(rjson.loads(text, duplicates="last"))
    except JSONParseError:
        return JSONParseError


def outcome_of_reader(*pieces: str) -> Any:
    reader = IncrementalJSON(lenient=True)
    try:
        feed_all(reader, *pieces)
    except JSONParseError:
        return JSONParseError
    return json.dumps(reader.value)


@pytest.mark.parametrize("text", [*STRICT_DOCUMENTS, *RELAXED_DOCUMENTS])
def test_lenient_reads_what_rjson_reads_at_every_cut(text: str) -> None:
    expected = outcome_of_loads(text)
    for pieces in [(text,), *every_cut_in_two(text), tuple(text)]:
        assert outcome_of_reader(*pieces) == expected


RELAXED_TEXT = st.lists(
    st.sampled_from(
        [
            *"{}[],:'/*# \n\r\"\\`\u201c\u201d\ufeff\x00é.+-01ea",
            *("true", "True", "null", "//", "/*", "*/"),
            *("\\u00e9", "\\ud83d", "\\ude00", '"k":', "k:"),
        ]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=120)
@given(text=RELAXED_TEXT, cuts=CUTS)
def test_lenient_agrees_with_rjson_on_any_text(text: str, cuts: list[int]) -> None:
    expected = outcome_of_loads(text)
    assert outcome_of_reader(text) == expected
    assert outcome_of_reader(*pieces_of(text, cuts)) == expected


def test_a_bare_word_has_the_changes_of_a_string() -> None:
    reader = IncrementalJSON(lenient=True)
    assert feed_all(reader, "[ye", "s]")[1:3] == [
        Change((0,), "string", "yes"),
        Change((0,), "value", value="yes"),
    ]


# --- recover ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "complete"),
    [
        pytest.param('{"a": 1}', {"a": 1}, True, id="nothing to mend"),
        pytest.param('{"a": "x\ny"}', {"a": "x\ny"}, True, id="a raw newline"),
        pytest.param('{"p": "C:\\dir\\q"}', {"p": "C:\\dir\\q"}, True, id="bad escapes stay"),
        pytest.param('{"p": "\\u12x"}', {"p": "\\u12x"}, True, id="a bad unicode escape stays"),
        pytest.param('{"a": 1 "b": 2}', {"a": 1, "b": 2}, True, id="a missing comma"),
        pytest.param('{"a": 1 b "c": 2}', {"a": 1, "b": "c"}, True, id="nothing but words"),
        pytest.param("[1 2 {} []]", [1, 2, {}, []], True, id="missing commas in an array"),
        pytest.param('{"a" 1}', {"a": 1}, True, id="a missing colon"),
        pytest.param('{"a":, "b": 2}', {"b": 2}, True, id="a missing value"),
        pytest.param('{"a":}', {}, True, id="a missing last value"),
        pytest.param('{"a", "b": 2}', {"b": 2}, True, id="a key alone"),
        pytest.param("[,1,,2,,]", [1, 2], True, id="too many commas"),
        pytest.param('{,"a":1,,"b":2}', {"a": 1, "b": 2}, True, id="too many commas in an object"),
        pytest.param('{"a":[1}, "b":2}', {"a": [1], "b": 2}, True, id="the wrong closing bracket"),
        pytest.param("[{]]", [{}], True, id="the wrong closing bracket of an object"),
        pytest.param("[12px, 2024-01-01]", ["12px", "2024-01-01"], True, id="glued numbers"),
        pytest.param("{1: 2, true: 3}", {"1": 2, "true": 3}, True, id="keys that are no words"),
        pytest.param('{} {"a":1}', {}, True, id="text after the value"),
        pytest.param('```json\n{"a":1}\n```', {"a": 1}, True, id="a fence around the value"),
        pytest.param('Sure! {"a":1}', {"a": 1}, True, id="prose before the value"),
        pytest.param("@@[@1@]@", [1], True, id="characters without a meaning"),
        pytest.param('{"a":"x', {"a": "x"}, False, id="a cut string"),
        pytest.param('{"a":"x\\', {"a": "x\\"}, False, id="a cut escape stays"),
        pytest.param('["\\ud83d', ["\ud83d"], False, id="a cut surrogate pair"),
        pytest.param('{"a":1,"b', {"a": 1}, False, id="a cut key"),
        pytest.param('{"a":[1,2', {"a": [1, 2]}, False, id="a cut array"),
        pytest.param('{"a":tru', {"a": "tru"}, False, id="a cut literal"),
        pytest.param("[1 /* x", [1], False, id="a cut comment"),
        pytest.param("1", 1, True, id="a number"),
        pytest.param("", None, False, id="no text"),
        pytest.param("}]:,", None, False, id="no value"),
    ],
)
def test_recovering_goes_on_at_every_cut(text: str, value: Any, complete: bool) -> None:  # noqa: FBT001
    seen = set()
    for pieces in [(text,), *every_cut_in_two(text), tuple(text)]:
        reader = IncrementalJSON(recover=True)
        changes = merged(feed_all(reader, *pieces))
        assert reader.value == value
        assert reader.complete is complete
        seen.add(repr((changes, reader.problems)))
    assert len(seen) == 1


def test_problems_say_what_was_mended_and_where() -> None:
    reader = IncrementalJSON(recover=True)
    feed_all(reader, '{"a" 1 "b": @@2}')
    assert reader.problems == (
        "a colon is missing at offset 5",
        "a comma is missing at offset 7",
        "a value is expected at offset 12",
    )


@given(text=st.text() | RELAXED_TEXT, cuts=CUTS)
def test_recovering_never_raises_and_does_not_depend_on_the_cut(text: str, cuts: list[int]) -> None:
    whole = IncrementalJSON(recover=True)
    expected = merged(feed_all(whole, text))
    mirror = Mirror()
    for change in expected:
        mirror.add(change)
    assert (mirror.root or [None])[0] == whole.value
    cut = IncrementalJSON(recover=True)
    assert merged(feed_all(cut, *pieces_of(text, cuts))) == expected
    assert cut.snapshot() == whole.value
    assert cut.complete is whole.complete
    assert cut.problems == whole.problems


@given(value=JSON_VALUES, cuts=CUTS)
def test_recovering_has_no_problem_with_lawful_text(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    reader = IncrementalJSON(recover=True)
    feed_all(reader, *pieces_of(text, cuts))
    assert json.dumps(reader.value) == json.dumps(json.loads(text))
    assert reader.complete
    assert reader.problems == ()


@given(text=RELAXED_TEXT)
def test_recovering_reads_containers_as_lenient_does(text: str) -> None:
    expected = outcome_of_loads(f"[{text}]")
    if expected is not JSONParseError:
        reader = IncrementalJSON(recover=True)
        feed_all(reader, f"[{text}]")
        assert json.dumps(reader.value) == expected
        assert reader.problems == ()


# --- limits and cost -------------------------------------------------------------------


@pytest.mark.parametrize("lenient", [False, True])
def test_nesting_is_limited(lenient: bool) -> None:  # noqa: FBT001
    reader = IncrementalJSON(lenient=lenient)
    feed_all(reader, "[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert reader.complete
    with pytest.raises(JSONParseError, match="nested"):
        IncrementalJSON(lenient=lenient).feed("[" * 100_000)


@pytest.mark.parametrize("lenient", [False, True])
def test_digits_are_limited(lenient: bool) -> None:  # noqa: FBT001
    reader = IncrementalJSON(lenient=lenient)
    feed_all(reader, "[-", "9" * MAX_DIGITS, "]")
    assert reader.value == [-int("9" * MAX_DIGITS)]
    with pytest.raises(JSONParseError, match="digits"):
        feed_all(IncrementalJSON(lenient=lenient), "[", "9" * (MAX_DIGITS + 1), "]")


HOSTILE = [
    pytest.param("", "7", "", id="digits without end"),
    pytest.param("[", "1,", "", id="items without end"),
    pytest.param("[", ",", "", id="commas without end"),
    pytest.param("", "[", "", id="brackets without end"),
    pytest.param("", "]", "", id="closing brackets without end"),
    pytest.param("{", '"k":0,', "", id="one key without end"),
    pytest.param('{"', "key", '":1}', id="a huge key"),
    pytest.param('["', "\\n", '"]', id="escapes without end"),
    pytest.param('["', "\\ud83d", '"]', id="high surrogates without end"),
    pytest.param('["', "\\", '"]', id="backslashes without end"),
    pytest.param("[", '"a"', "]", id="strings without commas"),
    pytest.param("[", "/**/", "]", id="comments without end"),
    pytest.param("[/*", "*", "]", id="stars without end"),
    pytest.param("[", "1/**/", "]", id="glued comments without end"),
    pytest.param("[1", "/*", "]", id="comment openings without end"),
    pytest.param("[", "/", "]", id="slashes without end"),
    pytest.param("[", "a", "]", id="a word without end"),
    pytest.param("[", " ", "]", id="spaces without end"),
    pytest.param("[", "1.e", "]", id="half a number without end"),
    pytest.param("", "{'", "", id="openings without end"),
    pytest.param("", "@", "", id="nonsense without end"),
]


def read_recovering(text: str, size: int) -> None:
    reader = IncrementalJSON(recover=True)
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])
    reader.finish()


@pytest.mark.parametrize("size", [3, 1 << 30])
@pytest.mark.parametrize(("start", "middle", "end"), HOSTILE)
def test_time_is_linear_on_hostile_text(start: str, middle: str, end: str, size: int) -> None:
    def read(length: int) -> None:
        read_recovering(start + middle * (length // len(middle)) + end, size)

    check_linear(read, 4_000, 32_000, at_most=4)


def test_keys_strings_and_lists_may_be_huge() -> None:
    text = json.dumps({"k" * 1_000_000: "v" * 1_000_000, "n": [0] * 100_000})
    reader = IncrementalJSON()
    feed_all(reader, *[text[at : at + 1000] for at in range(0, len(text), 1000)])
    assert reader.value == json.loads(text)


@pytest.mark.parametrize("kind", ["a long string", "many objects"])
def test_a_delta_costs_the_same_however_much_came_before(kind: str) -> None:
    def read(size: int) -> None:
        row = {"id": 1, "name": "Anna", "ok": True}
        text = json.dumps("x" * size if kind == "a long string" else [row] * (size // 40))
        reader = IncrementalJSON()
        for at in range(0, len(text), 4):
            reader.feed(text[at : at + 4])

    check_linear(read, 4_000, 80_000, at_most=2)


# --- reading up to a change ---


def advance_all(chunks: list[str]) -> tuple[list[Change], str]:
    """Read as a parser does: come again with what was left and more; tell what was not read."""
    reader, changes, left = IncrementalJSON(lenient=True), list[Change](), ""
    for chunk in chunks:
        left += chunk
        at, before = 0, -1
        while before < at < len(left) and not reader.complete:
            before = at
            found, at = reader.advance(left, at)
            changes += found
        left = left[at:]
    return changes, left


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "x\\n\\u00e9\\ud83d\\ude00", "b": [1, {"c": null}], "d": ""}',
        "{a: 'it\\'s', /* c */ b: [True, .5,],}",
        '[{"name": "f"}, {"name": "g", "n": 12}]',
    ],
)
def test_advancing_gives_the_changes_of_feeding_and_stops_behind_the_root(text: str) -> None:
    whole = IncrementalJSON(lenient=True).feed(text)
    for chunks in ([text + " tail"], [*text, " tail"]):
        changes, left = advance_all(chunks)
        assert left == " tail"
        assert merged(changes) == merged(whole)


def test_advancing_stops_at_every_change() -> None:
    text = '{"a": 1, "b": "x"}'
    reader, stops, at = IncrementalJSON(), list[str](), 0
    while not reader.complete:
        before = at
        changes, at = reader.advance(text, at)
        assert changes
        stops.append(text[before:at])
    assert stops == ["{", '"a": 1', ', "b": "x"', "}"]


def test_an_open_string_tells_its_quote_and_takes_plain_text() -> None:
    assert IncrementalJSON().open_string is None
    reader = IncrementalJSON(lenient=True)
    reader.feed("{'a': 'x")
    opened = reader.open_string
    assert opened is not None
    assert opened[0] == "'"
    opened[1].append("yz")
    reader.feed("'}")
    assert reader.value == {"a": "xyz"}
    assert reader.open_string is None
