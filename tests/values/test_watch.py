from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.incremental import IncrementalJSON

ARGUMENTS = {"path": "src/a.py", "content": 'print("é😀")\n\t\\ "x"\n', "mode": 7}


def test_a_field_streams_while_its_json_still_arrives() -> None:
    reader = IncrementalJSON()
    content = reader.watch("content")
    reader.feed('{"path": "a.py", "content": "one\\n')
    assert content.take() == "one\n"
    reader.feed("two")
    assert content.take() == "two"
    assert (content.take(), content.complete) == ("", False)
    reader.feed('", "mode')
    assert (content.take(), content.complete) == ("", True)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_takes_join_to_the_field_at_every_cut(ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(ARGUMENTS, ensure_ascii=ascii_only)
    for at in range(len(text) + 1):
        reader = IncrementalJSON()
        watch = reader.watch("content")
        taken = []
        for piece in (text[:at], text[at:]):
            reader.feed(piece)
            taken.append(watch.take())
        assert "".join(taken) == ARGUMENTS["content"]
        assert watch.complete


@given(text=st.text(), cuts=st.lists(st.integers(0, 999), max_size=9), late=st.integers(0, 9))
def test_a_watch_may_come_late_and_still_gets_all(text: str, cuts: list[int], late: int) -> None:
    whole = json.dumps({"a": [0, {"b": text}], "c": 1})
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(edges)]
    reader = IncrementalJSON()
    for piece in pieces[:late]:
        reader.feed(piece)
        reader.value  # noqa: B018 - looking must not matter
    watch = reader.watch("a", 1, "b")
    taken = watch.take()
    for piece in pieces[late:]:
        reader.feed(piece)
        taken += watch.take()
    assert taken == text
    assert watch.complete


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(("files", 1, "body"), "two", id="a field in an object in an array"),
        pytest.param(("files", 0, "body"), "one", id="the field of the same name before it"),
        pytest.param(("body",), "three", id="the field of the same name at the top"),
        pytest.param(("files", 2, "body"), "", id="an item that does not exist"),
        pytest.param(("files",), "", id="a list"),
        pytest.param(("count",), "", id="a number"),
        pytest.param(("files", "body"), "", id="a key of a list"),
        pytest.param((), "", id="the root, an object"),
    ],
)
def test_a_path_finds_its_own_field_only(path: tuple[str | int, ...], text: str) -> None:
    value = {"files": [{"body": "one"}, {"body": "two"}], "body": "three", "count": 3}
    reader = IncrementalJSON()
    early = reader.watch(*path)
    for character in json.dumps(value):
        reader.feed(character)
    late = reader.watch(*path)
    assert early.take() == late.take() == text
    assert early.complete
    assert late.complete


def test_the_root_can_be_watched() -> None:
    reader = IncrementalJSON()
    watch = reader.watch()
    reader.feed('"he')
    assert watch.take() == "he"
    reader.feed('y"')
    assert (watch.take(), watch.complete) == ("y", True)


def test_several_watchers_of_one_field_each_get_all() -> None:
    reader = IncrementalJSON()
    first = reader.watch("a")
    reader.feed('{"a": "x')
    second = reader.watch("a")
    reader.feed('y"}')
    assert first.take() == second.take() == "xy"


@pytest.mark.parametrize("value", [1, None, True, [], {}, ["x"]])
def test_a_field_that_is_no_string_gives_nothing_and_is_complete(value: Any) -> None:
    reader = IncrementalJSON()
    watch = reader.watch("a")
    reader.feed('{"a": ')
    assert (watch.take(), watch.complete) == ("", False)
    reader.feed(json.dumps(value) + ",")
    assert (watch.take(), watch.complete) == ("", True)


def test_a_field_that_never_comes_is_complete_with_the_root() -> None:
    reader = IncrementalJSON()
    watch = reader.watch("a")
    reader.feed('{"b": "x"')
    assert (watch.take(), watch.complete) == ("", False)
    reader.feed("}")
    assert (watch.take(), watch.complete) == ("", True)


def test_a_field_that_was_cut_stays_incomplete() -> None:
    reader = IncrementalJSON(recover=True)
    cut = reader.watch("a")
    never = reader.watch("b")
    reader.feed('{"a": "x\\')
    assert reader.finish()[-2].value == "x\\"
    assert cut.take() == "x\\"
    assert not cut.complete
    assert not never.complete


def test_of_a_repeated_key_the_first_value_is_followed() -> None:
    reader = IncrementalJSON()
    watch = reader.watch("a")
    reader.feed('{"a": "x", "a": "y"}')
    assert watch.take() == "x"
    assert reader.value == {"a": "y"}


def test_a_bare_word_is_watched_as_a_string() -> None:
    reader = IncrementalJSON(lenient=True)
    watch = reader.watch("a")
    reader.feed("{a: yes}")
    assert (watch.take(), watch.complete) == ("yes", True)


def test_a_watch_is_copied_along_with_its_reader() -> None:
    reader = IncrementalJSON()
    watch = reader.watch("a")
    reader.feed('{"a": "x')
    twin, twin_watch = copy.deepcopy((reader, watch))
    reader.feed('y"}')
    twin.feed('z"}')
    assert watch.take() == "xy"
    assert twin_watch.take() == "xz"
    assert twin_watch.complete
