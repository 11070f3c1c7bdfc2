"""`rjson.repair` on any text: nothing complete is changed, nothing in a string is lost, no hang."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.errors import JSONParseError
from penstock.values import rjson
from penstock.values.rjson.notes import Repair
from penstock.values.rjson.repair_strings import LOOK_AHEAD, MAX_SECOND_LOOKS

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
@settings(max_examples=80, deadline=None)
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
@settings(max_examples=60)
def test_what_loads_reads_is_never_changed(value: Any, comment: str) -> None:
    text = comment + json.dumps(value)[:-1] + (",]" if isinstance(value, list) else "\n}")
    with suppress(JSONParseError):
        assert json.dumps(rjson.repair(text).value) == json.dumps(rjson.loads(text))


@given(code=TEXTS, quote=st.sampled_from(['"', "'"]))
@settings(max_examples=70)
def test_a_string_survives_damage_elsewhere(code: str, quote: str) -> None:
    body = json.dumps(code)[1:-1].replace("'", "\\'")
    text = f'Here: {{name: "write", {quote}code{quote}: "{body}" "path": "a.py",, "n": [1, 2'
    value = rjson.repair(text).value
    assert value == {"name": "write", "code": code, "path": "a.py", "n": [1, 2]}


@given(raw=st.lists(st.sampled_from(["\n", "\t", "\r", "\\d", "\\(", "\\ ", "a", " ", "é"])))
@settings(max_examples=60)
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
@settings(max_examples=70)
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
@settings(max_examples=120)
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
    def repair(size: int) -> None:
        with suppress(JSONParseError):
            rjson.repair(start + unit * (size // len(unit)))

    check_linear(repair, 3_000, 30_000, at_most=4)
