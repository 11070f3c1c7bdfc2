"""`rjson.repair`: what models break, mended by rules that can be predicted, and told in words."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import JSONParseError
from penstock.values import rjson
from penstock.values.rjson.mending.lookahead import LOOK_AHEAD
from penstock.values.rjson.mending.strings import MAX_SECOND_LOOKS
from penstock.values.rjson.repairs import EXAMPLE_LENGTH, Repair


class Case(NamedTuple):
    why: str
    text: str
    value: Any
    repairs: list[str]


def table(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.why) for case in cases])


def check(case: Case) -> None:
    repaired = rjson.repair(case.text)
    assert json.dumps(repaired.value) == json.dumps(case.value)
    assert list(repaired.repairs) == case.repairs


# --- brackets, commas, colons ---

STRUCTURE = [
    Case("one missing brace", '{"a": 1', {"a": 1}, ["closed an open bracket"]),
    Case(
        "missing closers at every depth",
        '{"a": [1, {"b": [2',
        {"a": [1, {"b": [2]}]},
        ["closed 4 open brackets"],
    ),
    Case(
        "a list left open inside an object",
        '{"a": [1, 2, "b": 3}',
        {"a": [1, 2], "b": 3},
        ["closed an open bracket"],
    ),
    Case(
        "an object left open inside a list",
        '[{"a": 1, {"b": 2}]',
        [{"a": 1}, {"b": 2}],
        ["closed an open bracket", "added a missing comma"],
    ),
    Case(
        "a closer that closes two levels",
        '{"a": {"b": [1, {"c": 2]}}',
        {"a": {"b": [1, {"c": 2}]}},
        ["closed an open bracket"],
    ),
    Case(
        "a closer of the wrong kind",
        '{"a": [1, 2}, "b": 3}',
        {"a": [1, 2], "b": 3},
        ["replaced a wrong closing bracket"],
    ),
    Case(
        "a closer that has no opener of its kind",
        '{"a": {"b": 1]}',
        {"a": {"b": 1}},
        ["replaced a wrong closing bracket"],
    ),
    Case(
        "a root that is closed too early",
        '{"a": {"b": 1}}, "c": 2}',
        {"a": {"b": 1}, "c": 2},
        ["dropped a closing bracket that came too early"],
    ),
    Case(
        "doubled braces",
        '{{"a": 1}}',
        {"a": 1},
        ["dropped a doubled brace", "dropped the text after the value"],
    ),
    Case("missing commas between numbers", "[1 2 3]", [1, 2, 3], ["added 2 missing commas"]),
    Case("missing commas between strings", '["a" "b"]', ["a", "b"], ["added a missing comma"]),
    Case(
        "missing commas between members",
        '{"a": "x" "b": 2\n"c": 3}',
        {"a": "x", "b": 2, "c": 3},
        ["added 2 missing commas"],
    ),
    Case(
        "missing commas between containers",
        '[{"a": 1} {"b": 2}[3]]',
        [{"a": 1}, {"b": 2}, [3]],
        ["added 2 missing commas"],
    ),
    Case("doubled commas", '{"a": 1,, "b": 2}', {"a": 1, "b": 2}, ["dropped an extra comma"]),
    Case("commas alone", "[,,1,,]", [1], ["dropped 3 extra commas", "dropped a trailing comma"]),
    Case("a semicolon", '{"a": "x"; "b": 2}', {"a": "x", "b": 2}, ["read a semicolon as a comma"]),
    Case("a missing colon", '{"a" 1}', {"a": 1}, ["added the colon after the key `a`"]),
    Case("a doubled colon", '{"a":: 1}', {"a": 1}, ["dropped an extra colon"]),
    Case(
        "equals signs and arrows",
        '{"a" = 1, b => 2}',
        {"a": 1, "b": 2},
        ["read 2 equals signs as colons", "quoted the key `b`"],
    ),
    Case(
        "a list that was meant to be an object",
        '{"x": ["a": 1, "b": 2]}',
        {"x": {"a": 1, "b": 2}},
        ["read a list of keys and values as an object", "replaced a wrong closing bracket"],
    ),
    Case(
        "a key without a value",
        '{"a": 1, "b":, "c"}',
        {"a": 1},
        ["dropped 2 keys without a value, `b` first"],
    ),
    Case(
        "a value without a key",
        '{"a": 1, [2], : 3}',
        {"a": 1, "": 3},
        [
            "kept 2 values without a key under the empty key",
            "took the last value of the repeated key ``",
        ],
    ),
    Case(
        "numbers and literals as keys",
        "{1: 2, true: 3}",
        {"1": 2, "true": 3},
        ["quoted 2 keys, `1` first"],
    ),
    Case(
        "a repeated key",
        '{"a": 1, "b": 2, "a": 3}',
        {"a": 3, "b": 2},
        ["took the last value of the repeated key `a`"],
    ),
    Case(
        "a word out of place",
        '{"a": 1, and "b": 2}',
        {"a": 1, "b": 2},
        ["dropped `and`"],
    ),
    Case(
        "white space of other alphabets",
        '{"a":\u00a01,\u3000"b": 2',
        {"a": 1, "b": 2},
        ["skipped unusual white space in 2 places", "closed an open bracket"],
    ),
    Case(
        "comments in broken text",
        '// c\n{"a": 1 /* one */ "b": 2 # two\n',
        {"a": 1, "b": 2},
        ["dropped 3 comments", "added a missing comma", "closed an open bracket"],
    ),
    Case(
        "a comment left open",
        '{"a": 1/* x',
        {"a": 1},
        ["dropped a comment", "closed an open bracket"],
    ),
]


@table(STRUCTURE)
def test_structure_is_mended(case: Case) -> None:
    check(case)


# --- strings ---

STRINGS = [
    Case(
        "inner quotes",
        '{"a": "say "hi" now", "b": 1}',
        {"a": 'say "hi" now', "b": 1},
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "inner quotes before commas",
        '{"q": "He said "yes", and "no", then left", "n": 5}',
        {"q": 'He said "yes", and "no", then left', "n": 5},
        ["kept 4 unescaped quotes in strings"],
    ),
    Case(
        "a call in code",
        '{"content": "print("Hello, World!")\\n", "path": "a.py"}',
        {"content": 'print("Hello, World!")\n', "path": "a.py"},
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "brackets in code",
        '{"x": {"code": "a = ["b", "c"]; log("}")", "n": 1}}',
        {"x": {"code": 'a = ["b", "c"]; log("}")', "n": 1}},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "an object in code",
        '{"code": "{"a": 1, "b": "y"}"}',
        {"code": '{"a": 1, "b": "y"}'},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "an object of strings in code",
        '{"arguments": "{"a": "b", "c": 1}", "name": "f"}',
        {"arguments": '{"a": "b", "c": 1}', "name": "f"},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "a JSON file over lines",
        '{"content": "{\n  "name": "x",\n  "version": "1.0"\n}\n", "path": "package.json"}',
        {"content": '{\n  "name": "x",\n  "version": "1.0"\n}\n', "path": "package.json"},
        ["kept 8 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "a list of strings in code, and more code behind it",
        '{"code": "a = ["x", "y"]\nb = {k: "z", l: "w"};\nlog(b["k"])\n"}',
        {"code": 'a = ["x", "y"]\nb = {k: "z", l: "w"};\nlog(b["k"])\n'},
        ["kept 10 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "code that leaves its brackets open",
        '{"edits": [{"old": "x = {"a": "b",", "new": "f({"}, {"old": "}", "new": "]"}]}',
        {"edits": [{"old": 'x = {"a": "b",', "new": "f({"}, {"old": "}", "new": "]"}]},
        ["kept 4 unescaped quotes in strings"],
    ),
    Case(
        "a bracket in prose that nothing closes",
        '["sad :( said "x", "y"]',
        ['sad :( said "x', "y"],
        ["kept an unescaped quote in a string"],
    ),
    Case(
        "code that the end of the text cuts",
        '{"code": "d = {\n"a": "x",\n"b": "y',
        {"code": 'd = {\n"a": "x",\n"b": "y'},
        [
            "closed an open string",
            "kept raw control characters in a string",
            "closed an open bracket",
        ],
    ),
    Case(
        "code that closes brackets it never opened",
        '{"path": "a.py", "content": "  "a": "b"\n}\nprint("x")\n"}',
        {"path": "a.py", "content": '  "a": "b"\n}\nprint("x")\n'},
        ["kept 6 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "a module that begins with its docstring",
        '{"content": """"Say it."""\n\nimport re\n", "n": 1}',
        {"content": '"""Say it."""\n\nimport re\n', "n": 1},
        ["kept 6 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "inner quotes before another value",
        '{"a": "say "hi" now"}\n{"b": "c"}',
        [{"a": 'say "hi" now'}, {"b": "c"}],
        ["kept 2 unescaped quotes in strings", "made a list of 2 values in a row"],
    ),
    Case(
        "code that the end of the text cuts behind a quote",
        '{"code": "d = {"a": 1, "b": "y"',
        {"code": 'd = {"a": 1, "b": "y"'},
        ["closed an open string", "closed an open bracket"],
    ),
    Case(
        "a style sheet",
        '{"css": "content: "";\n  color: red }\n", "n": 1}',
        {"css": 'content: "";\n  color: red }\n', "n": 1},
        ["kept 2 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "prose behind a string whose bracket is missing",
        '{"a": 1, "b": "c"\n\nLet me know!',
        {"a": 1, "b": "c"},
        ["dropped 3 words out of place, `Let` first", "closed an open bracket"],
    ),
    Case(
        "an inch",
        '{"text": "5" pipe", "n": 1}',
        {"text": '5" pipe', "n": 1},
        ["kept an unescaped quote in a string"],
    ),
    Case(
        "an inner quote in a list",
        '["a "b" c", "d"]',
        ['a "b" c', "d"],
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "an inner quote in a key",
        '{"a"b": 1,}',
        {'a"b': 1},
        ["kept an unescaped quote in a string", "dropped a trailing comma"],
    ),
    Case(
        "a missing closing quote",
        '{"a": "x, "b": "y"}',
        {"a": "x", "b": "y"},
        ["added a missing closing quote"],
    ),
    Case(
        "a missing closing quote at the end of a line",
        '{"a": "x\n  "b": 1\n}',
        {"a": "x", "b": 1},
        ["added a missing closing quote", "added a missing comma"],
    ),
    Case(
        "missing opening quotes",
        '{a": x, b": New York", "c": 1, d": [y"]}',
        {"a": "x", "b": "New York", "c": 1, "d": ["y"]},
        [
            "added 5 missing opening quotes",
            "quoted 3 keys, `a` first",
            "read 2 bare words as strings, `x` first",
            "quoted the text `New York`",
        ],
    ),
    Case(
        "raw new lines and tabs",
        '{"code": "if x:\n\ty()\n", "z": [1}',
        {"code": "if x:\n\ty()\n", "z": [1]},
        ["kept raw control characters in a string", "closed an open bracket"],
    ),
    Case(
        "patterns",
        '{"re": "\\d+\\.\\w*\\s", "to": "\\$1"}',
        {"re": "\\d+\\.\\w*\\s", "to": "\\$1"},
        ["kept the backslashes of 2 strings with bad escapes, `\\d` first"],
    ),
    Case(
        "word borders and slashes in a pattern",
        '{"re": "\\b\\d+\\/\\w\\f\\b", "tex": "\\alpha\\beta\\frac12\\n"}',
        {"re": "\\b\\d+\\/\\w\\f\\b", "tex": "\\alpha\\beta\\frac12\n"},
        ["kept the backslashes of 2 strings with bad escapes, `\\d` first"],
    ),
    Case(
        "good and bad escapes in one string",
        '["\\d\\n\\\\d\\"\\u0041\\u12"]',
        ['\\d\n\\d"A\\u12'],
        ["kept the backslash of `\\d`, which is no escape"],
    ),
    Case(
        "a Windows path",
        '{"p": "C:\\Users\\new\\temp.txt"}',
        {"p": "C:\\Users\\new\\temp.txt"},
        ["kept the backslashes of the path `C:\\Users\\new\\temp.txt`"],
    ),
    Case(
        "a Windows path that is half escaped",
        '{"p": "C:\\Users\\\\new"}',
        {"p": "C:\\Users\\new"},
        ["kept the backslashes of the path `C:\\Users\\\\new`"],
    ),
    Case(
        "a network path",
        '["\\\\server\\share\\new"]',
        ["\\\\server\\share\\new"],
        ["kept the backslashes of the path `\\\\server\\share\\new`"],
    ),
    Case(
        "a path whose last backslash hides the quote",
        '{"p": "C:\\dir\\", "b": 1}',
        {"p": "C:\\dir\\", "b": 1},
        ["kept the backslashes of the path `C:\\dir\\`"],
    ),
    Case(
        "single quotes with apostrophes",
        "{'it': 'don't stop', 'x': 'the boys' toys'}",
        {"it": "don't stop", "x": "the boys' toys"},
        ["read 4 strings in single quotes", "kept 2 unescaped quotes in strings"],
    ),
    Case(
        "smart quotes, one closed by a straight one",
        '{“a”: “b", "c": 1,,}',
        {"a": "b", "c": 1},
        [
            "read 2 strings in smart quotes",
            "closed a string with another kind of quote",
            "dropped an extra comma",
            "dropped a trailing comma",
        ],
    ),
    Case(
        "backticks over lines",
        "{`a`: `x\n`, b: `y`}",
        {"a": "x\n", "b": "y"},
        [
            "read 3 strings in backticks",
            "kept raw control characters in a string",
            "quoted the key `b`",
        ],
    ),
    Case(
        "triple quotes",
        '{"code": """a = "b"\n""", "n": 1}',
        {"code": 'a = "b"\n', "n": 1},
        ["read a string in triple quotes", "kept raw control characters in a string"],
    ),
]


@table(STRINGS)
def test_strings_keep_every_character(case: Case) -> None:
    check(case)


# --- words ---

WORDS = [
    Case(
        "the words of Python and JavaScript",
        '{"a": True, "b": None, "c": undefined, "d": NaN',
        {"a": True, "b": None, "c": "undefined", "d": "NaN"},
        [
            "read 2 of Python's literals, `True` first",
            "read 2 bare words as strings, `undefined` first",
            "closed an open bracket",
        ],
    ),
    Case(
        "hexadecimal and loose numbers",
        "[0x1F, -0xff, .5, +1, 007",
        [31, -255, 0.5, 1, 7],
        ["read 5 odd numbers, `0x1F` first", "closed an open bracket"],
    ),
    Case(
        "numbers with units, and versions",
        "[12px, 1.2.3, 12 px, 10%",
        ["12px", "1.2.3", "12 px", "10%"],
        [
            "read 3 bare words as strings, `12px` first",
            "quoted the text `12 px`",
            "closed an open bracket",
        ],
    ),
    Case(
        "text without quotes",
        '{"city": New York, "url": http://a.b/c?d=e#f, "it": don\'t}',
        {"city": "New York", "url": "http://a.b/c?d=e#f", "it": "don't"},
        [
            "quoted the text `New York`",
            "read 2 bare words as strings, `http://a.b/c?d=e#f` first",
        ],
    ),
    Case(
        "an integer of too many digits",
        "[" + "1" * 5000 + "]",
        ["1" * 5000],
        [f"read the bare word `{'1' * (EXAMPLE_LENGTH - 1)}…` as a string"],
    ),
]


@table(WORDS)
def test_words_are_read(case: Case) -> None:
    check(case)


# --- cut text ---

CUT = [
    ("a string", '{"a": "xy', {"a": "xy"}),
    ("an escape", '["x\\', ["x"]),
    ("a hex escape", '["x\\u12', ["x"]),
    ("half a surrogate pair", '["x\\ud83d', ["x"]),
    ("half a surrogate pair and the next escape", '["x\\ud83d\\ude', ["x"]),
    ("an escaped backslash", '["x\\\\', ["x\\"]),
    ("a key", '{"a": 1, "bc', {"a": 1}),
    ("a key before its colon", '{"a": 1, "bc"', {"a": 1}),
    ("a key after its colon", '{"a": 1, "bc":', {"a": 1}),
    ("a literal", "[true, fal", [True, False]),
    ("a literal of Python", "{'a': Non", {"a": None}),
    ("a number before its exponent", "[1.5e", [1.5]),
    ("a number inside its exponent", "[15e-", [15]),
    ("a lone minus", '{"a": 1, "b": -', {"a": 1}),
    ("a comma", "[1,", [1]),
    ("an opener", '{"a": [', {"a": []}),
    ("the root string", '"ab', "ab"),
    ("the root number", "12e", 12),
]


@pytest.mark.parametrize(
    ("text", "value"), [pytest.param(text, value, id=f"cut in {why}") for why, text, value in CUT]
)
def test_what_arrived_of_a_cut_text_is_kept(text: str, value: Any) -> None:
    repaired = rjson.repair(text)
    assert repaired.value == value
    assert repaired.repairs


# --- around the value ---

AROUND = [
    Case(
        "prose around the value",
        'Sure! Here it is: {"a": 1} Anything else?',
        {"a": 1},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "a footnote before the value",
        'As [1] says, use {"a": 1}.',
        {"a": 1},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "a list after a colon",
        'The numbers are: [1, 2, {"a": 3}]',
        [1, 2, {"a": 3}],
        ["dropped the text before the value"],
    ),
    Case("a log level", '[INFO] {"a": 1}', {"a": 1}, ["dropped the text before the value"]),
    Case(
        "a code fence",
        'Use {this}:\n```json\n{"a": [1, 2]}\n```\nDone.',
        {"a": [1, 2]},
        ["took the value out of a code fence"],
    ),
    Case(
        "a code fence that ends an open value",
        '```\n{"a": [1, "x"\n```\nand\n```\nmore\n```',
        {"a": [1, "x"]},
        [
            "took the value out of a code fence",
            "closed 2 open brackets",
            "dropped the text after the value",
        ],
    ),
    Case(
        "a fence inside a fenced string",
        '```json\n{"md": "a\n```py\nb\n```\n", "c": 1,}\n```',
        {"md": "a\n```py\nb\n```\n", "c": 1},
        [
            "took the value out of a code fence",
            "kept raw control characters in a string",
            "dropped a trailing comma",
        ],
    ),
    Case(
        "a closing tag",
        '{"a": "x"</tool_call>',
        {"a": "x"},
        ["dropped `</tool_call>`", "closed an open bracket"],
    ),
    Case(
        "a function call",
        'done({"a": "x"});',
        {"a": "x"},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "objects in a row",
        '{"a": 1}{"b": 2}\n{"c": 3}, [4]',
        [{"a": 1}, {"b": 2}, {"c": 3}, [4]],
        ["made a list of 4 values in a row"],
    ),
    Case(
        "an empty object glued in front",
        '{}{"a": 1}',
        {"a": 1},
        ["dropped an empty object in front of the value"],
    ),
    Case(
        "an empty object on a line of its own",
        '{}\n{"a": 1}',
        [{}, {"a": 1}],
        ["made a list of 2 values in a row"],
    ),
    Case(
        "a string that holds an object",
        '"{\\"a\\": \\"x\\\\n\\"}"',
        {"a": "x\n"},
        ["decoded a string that held JSON"],
    ),
    Case(
        "a string that holds a string that holds an object",
        json.dumps(json.dumps('{"a": 1,}')),
        {"a": 1},
        ["decoded a string that held JSON, 2 times over", "dropped a trailing comma"],
    ),
    Case(
        "an object whose quotes and line breaks are escaped",
        '{\\n  \\"a\\": \\"x\\\\ny\\"\\n}',
        {"a": "x\ny"},
        ["took away one level of escapes"],
    ),
    Case(
        "an object whose line breaks alone are escaped",
        '{\\n  "a": "x\\ny \\\\n \\"z\\"",\\n  "b": 1\\n}',
        {"a": 'x\ny \\n "z"', "b": 1},
        ["read escaped white space between the values", "kept raw control characters in a string"],
    ),
    Case(
        "an object whose quotes are escaped",
        '{\\"a\\": \\"x\\\\ny\\"}',
        {"a": "x\ny"},
        ["took away one level of escapes"],
    ),
    Case(
        "members without braces",
        '"a": 1, "b": [2',
        {"a": 1, "b": [2]},
        ["added the outer braces", "closed 2 open brackets"],
    ),
    Case("a byte order mark", "\ufeff[1]", [1], ["skipped a byte order mark"]),
]


@table(AROUND)
def test_the_value_is_found_in_its_surroundings(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": "{\\"b\\": 1}"}', id="a string with an object inside an object"),
        pytest.param('"[1] is a footnote"', id="a sentence that begins with a footnote"),
        pytest.param('"[2024-01-01]"', id="a date in brackets"),
        pytest.param('"{name} said {what}"', id="a template"),
        pytest.param('"see {\\"a\\": 1}"', id="a sentence with an object in it"),
        pytest.param('"{\\"a\\": 1} and more"', id="an object with a sentence after it"),
    ],
)
def test_a_string_that_is_more_than_json_stays_a_string(text: str) -> None:
    assert rjson.repair(text) == rjson.Repaired(json.loads(text), [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "Just a sentence.",
        "12px is a width",
        "{{ name }}",
        ")(",
        "```\n```",
        "}]",
        '"Hi," she said.',
    ],
)
def test_text_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(JSONParseError, match="no JSON value"):
        rjson.repair(text)


# --- laws ---

# What the rules look at, so that data is full of traps.
TRAPS = st.sampled_from(
    [
        '"',
        "\\",
        "\n",
        "}",
        "]",
        ",",
        ":",
        '"}',
        '", "a": ',
        '"]',
        "//",
        "/*",
        "#",
        "```",
        "'",
        "“",
        "C:\\Users",
        "\\d",
        "\u2028",
        "😀",
        "é",
        " ",
        "x",
        "true",
        "1",
        "{",
        "[",
        "\x00",
    ]
)
TEXTS = st.lists(TRAPS, max_size=6).map("".join) | st.text(max_size=6)
LONG = st.sampled_from(["k" * (2 * LOOK_AHEAD), " " * (2 * LOOK_AHEAD), '"' * 40])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | TEXTS | LONG
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | LONG, inner, max_size=4),
    max_leaves=8,
).filter(lambda value: isinstance(value, (dict, list)))
LAYOUTS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n  ", " :\t"), (",\n" + " " * 300, ": ")])

Leaf = tuple[tuple[str | int, ...], int, Any]


def written(value: Any, layout: tuple[str, str]) -> tuple[str, list[Leaf]]:
    """Write *value*; return the text, and each leaf with its path and the offset that ends it."""
    pieces: list[str] = []
    leaves: list[Leaf] = []
    comma, colon = layout
    at = 0

    def put(text: str) -> None:
        nonlocal at
        pieces.append(text)
        at += len(text)

    def write(item: Any, path: tuple[str | int, ...]) -> None:
        if not (item and isinstance(item, (dict, list))):
            put(json.dumps(item, ensure_ascii=len(path) % 2 == 0))
            # Only what follows a number or literal shows that it is whole.
            leaves.append((path, at + (not isinstance(item, (str, dict, list))), item))
            return
        is_object = isinstance(item, dict)
        put("{" if is_object else "[")
        for number, key in enumerate(item if is_object else range(len(item))):
            put(comma if number else "")
            put(json.dumps(key) + colon if is_object else "")
            write(item[key], (*path, key))
        put("}" if is_object else "]")

    write(value, ())
    return "".join(pieces), leaves


def agrees(part: Any, whole: Any) -> bool:
    """Tell whether *part* is a beginning of *whole*: nothing invented, nothing out of order."""
    if isinstance(whole, dict):
        return (
            isinstance(part, dict)
            and list(part) == list(whole)[: len(part)]
            and all(agrees(part[key], whole[key]) for key in part)
        )
    if isinstance(whole, list):
        return (
            isinstance(part, list)
            and len(part) <= len(whole)
            and all(agrees(a, b) for a, b in zip(part, whole, strict=False))
        )
    if isinstance(whole, str):
        return isinstance(part, str) and whole.startswith(part)
    if isinstance(whole, bool) or whole is None:
        return part is whole
    return isinstance(part, (int, float))


@given(value=VALUES, layout=LAYOUTS, data=st.data())
@settings(max_examples=250, deadline=None)
def test_a_truncation_agrees_with_everything_that_is_complete(
    value: Any, layout: tuple[str, str], data: st.DataObject
) -> None:
    text, leaves = written(value, layout)
    assert json.loads(text) == value
    cuts = data.draw(st.lists(st.integers(1, len(text)), min_size=1, max_size=12))
    for cut in cuts:
        part = rjson.repair(text[:cut]).value
        assert agrees(part, value)
        for path, end, leaf in leaves:
            if end <= cut:
                found = part
                for step in path:
                    found = found[step]
                assert json.dumps(found) == json.dumps(leaf)


@given(value=VALUES, comment=st.sampled_from(["", "//x\n", "/**/", "# y\n"]))
@settings(max_examples=150)
def test_what_loads_reads_is_never_changed(value: Any, comment: str) -> None:
    text = comment + json.dumps(value)[:-1] + (",]" if isinstance(value, list) else "\n}")
    with suppress(JSONParseError):
        assert json.dumps(rjson.repair(text).value) == json.dumps(rjson.loads(text))


@given(code=TEXTS, quote=st.sampled_from(['"', "'"]))
@settings(max_examples=200)
def test_a_string_survives_damage_elsewhere(code: str, quote: str) -> None:
    body = json.dumps(code)[1:-1].replace("'", "\\'")
    text = f'Here: {{name: "write", {quote}code{quote}: "{body}" "path": "a.py",, "n": [1, 2'
    value = rjson.repair(text).value
    assert value == {"name": "write", "code": code, "path": "a.py", "n": [1, 2]}


@given(raw=st.lists(st.sampled_from(["\n", "\t", "\r", "\\d", "\\(", "\\ ", "a", " ", "é"])))
@settings(max_examples=100)
def test_no_newline_backslash_or_space_of_a_string_is_lost(raw: list[str]) -> None:
    code = "".join(raw)
    assert rjson.repair(f'{{"code": "{code}", "n": 1,,}}').value["code"] == code


CODE = st.lists(
    st.sampled_from(
        [
            'print("a", end="")\n',
            'd = {"a": "b", "c": ["d", "e"]}\n',
            'const o = {k: "v", l: "w"};\n',
            '{\n  "name": "x",\n  "version": "1.0"\n}\n',
            'if (s === "}") { return "{"; }\n',
            '<a href="x" class="b c">y</a>\n',
            'SELECT "id", "name" FROM "t" WHERE "n" = "x";\n',
            'grep -rn "foo" . | awk "{print}" && echo "done"\n',
            "a { font: \"x\", 'y'; color: red }\n",
            '"""Say it."""\n',
            "plain = words, and more: of them\n",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@given(code=CODE, is_raw=st.booleans(), outer=st.sampled_from(["%s", '{"name": "w", "args": %s}']))
@settings(max_examples=200)
@pytest.mark.parametrize("members", ['{"p": 1, "code": "%s"}', '{"code": "%s", "p": "x"}'])
def test_code_whose_quotes_nobody_escaped_is_kept_exactly(
    members: str, code: str, *, is_raw: bool, outer: str
) -> None:
    body = code if is_raw else code.replace("\n", "\\n")
    value = rjson.repair(outer.replace("%s", members.replace("%s", body))).value
    assert value.get("args", value)["code"] == code


SOUP = st.lists(
    TRAPS | st.sampled_from(['"a": ', '{"', "[1,", "```json\n", '"""', "0x1", "= ", ";", "\\u"]),
    max_size=30,
).map("".join)


@given(SOUP)
@settings(max_examples=400)
def test_any_text_gives_a_json_value_or_the_typed_error(text: str) -> None:
    try:
        repaired = rjson.repair(text)
    except JSONParseError as exc:
        assert 0 <= exc.position <= len(exc.text)  # noqa: PT017 - to raise is lawful too
        return
    assert json.loads(json.dumps(repaired.value)) == repaired.value
    assert len(repaired.repairs) <= len(Repair)


# --- limits ---


@pytest.mark.parametrize("unit", ["[", "{", '{"a":', '[{"a":', '{"a":[', "[{'b': "])
def test_a_hundred_thousand_brackets_are_a_value_or_a_typed_error(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    if unit == "{":  # doubled braces are one
        assert rjson.repair(text + '"a": 1').value == {"a": 1}
        return
    with pytest.raises(JSONParseError, match="nested deeper"):
        rjson.repair(text)


def test_a_hundred_thousand_repairs_are_a_few_lines() -> None:
    repaired = rjson.repair("[" + "1 " * 20_000 + "'a' " * 20_000 + ",,")
    assert len(repaired.value) == 40_000
    assert repaired.repairs == [
        "added 39999 missing commas",
        "read 20000 strings in single quotes",
        "dropped an extra comma",
        "dropped a trailing comma",
        "closed an open bracket",
    ]


def test_only_so_many_missing_quotes_are_looked_for() -> None:
    few, many = ("{" + '"k": "x, ' * count + '"z": 1}' for count in (4, MAX_SECOND_LOOKS + 8))
    assert rjson.repair(few).value == {"k": "x", "z": 1}
    assert rjson.repair(many).value["k"].count('"k": ') > 1


def seconds(text: str) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        with suppress(JSONParseError):
            rjson.repair(text)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("start", ["", '{"a": "', "["])
@pytest.mark.parametrize(
    "unit",
    [
        '"',
        '",',
        '" ',
        "[1] ",
        "{} ",
        "1 ",
        '{"a":1}',
        '{"a":1,,}',
        '"b": "x, ',
        "\\",
        '"}',
        "x'",
        "/*",
        '"//',
        "\n```\n{",
        "`",
        '"""',
        "C:\\d",
        "}",
        "{a ",
        '"k":',
        "“",
        "[[",
        "\\ud83d",
        '("x", ',
        '"b": "(x", ',
        '"};x="',
        "{\\n",
    ],
)
def test_time_is_linear_on_hostile_text(start: str, unit: str) -> None:
    small, large = (seconds(start + unit * (size // len(unit))) for size in (3_000, 30_000))
    assert large < 40 * small + 0.02
