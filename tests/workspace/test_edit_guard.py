"""Edits of what is not there are stopped as they come, and others never are."""

from __future__ import annotations

import json
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.agent.hooks import Finding, Guard
from penstock.events import Event, TextDelta, TextStart, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.messages import ToolCall, ToolResult
from penstock.workspace.edit_guard import MAX_FILE, EditGuard

TEXT = "import os\n\n\ndef total(prices):\n    return sum(prices)\n\n\nprint(total([1, 2]))\n"
WRONG = "    return add(prices)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "shop.py").write_text(TEXT)
    return folder


def call(arguments: dict[str, Any], *, size: int = 4, name: str = "edit_file") -> list[Event]:
    """Make the events of one call, in deltas of *size* characters."""
    text = json.dumps(arguments)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    deltas: list[Event] = [ToolCallDelta(0, piece) for piece in pieces]
    return [ToolCallStart(0, "c1", name), *deltas, ToolCallEnd(0, ToolCall("c1", name, arguments))]


def watched(guard: Guard, *calls: list[Event]) -> tuple[Finding | None, str]:
    """Show one answer to *guard*; give its finding, and the arguments that had come by then."""
    guard.turn_started()
    guard.response_started()
    arrived = ""
    for index, events in enumerate(calls):
        for event in events:
            if isinstance(event, ToolCallDelta):
                arrived += event.arguments
            finding = guard.check(_at(event, index))
            if finding is not None:
                return finding, arrived
    return None, arrived


def _at(event: Event, index: int) -> Event:
    match event:
        case ToolCallStart():
            return ToolCallStart(index, f"c{index}", event.name)
        case ToolCallDelta():
            return ToolCallDelta(index, event.arguments)
        case ToolCallEnd():
            return ToolCallEnd(index, event.call)
        case _:
            return event


def diff(*lines: str) -> dict[str, Any]:
    return {"path": "src/shop.py", "diff": "\n".join(lines) + "\n"}


def test_a_removed_line_that_is_not_there_stops_the_answer_at_its_end(root: Path) -> None:
    arguments = diff("@@", " def total(prices):", f"-{WRONG}", *["+    x = 1"] * 200)
    finding, arrived = watched(EditGuard(root), call(arguments, size=1))
    assert finding is not None
    assert (finding.source, finding.names, finding.interrupts) == ("guard", ["edit"], True)
    assert arrived.endswith(rf"-{WRONG}\n")
    assert "line 3 of the diff" in finding.text
    assert WRONG in finding.text
    assert "The nearest is line 5: '    return sum(prices)'" in finding.text
    assert 'path="src/shop.py"' in finding.text


def test_old_text_that_is_not_there_stops_the_answer_at_the_end_of_its_line(root: Path) -> None:
    old = f"def total(prices):\n{WRONG}\n" + "more\n" * 200
    finding, arrived = watched(
        EditGuard(root), call({"path": "src/shop.py", "old": old, "new": ""}, size=1)
    )
    assert finding is not None
    assert arrived.endswith(rf"{WRONG}\n")
    assert "line 2 of the text to replace" in finding.text
    assert "The nearest is line 5" in finding.text


def test_lines_that_are_there_but_not_in_this_order_are_told_so(root: Path) -> None:
    old = "import os\nprint(total([1, 2]))\nx"
    finding, _ = watched(EditGuard(root), call({"path": "src/shop.py", "old": old}))
    assert finding is not None
    assert "line 2 of the text to replace does not follow" in finding.text


def test_a_line_without_an_end_is_not_waited_for(root: Path) -> None:
    finding, arrived = watched(
        EditGuard(root), call({"path": "src/shop.py", "old": "y" * 5_000}, size=10)
    )
    assert finding is not None
    assert len(arrived) < 300


GOOD: dict[str, dict[str, Any]] = {
    "a diff that fits": diff("@@ -4,2 +4,2 @@", "-    return sum(prices)", "+    return 0"),
    "a diff with headers": diff("--- a/shop.py", "+++ b/shop.py", "@@", "-import os", "+import re"),
    "a diff with git's headers": diff("diff --git a/x b/x", "--- a/x", "+++ b/x", "-import os"),
    "context that is wrong": diff(" nothing like this", "-import os"),
    "added lines only": diff("@@", "+nothing like this"),
    "a blank line removed": diff("-", "-   ", "-import os"),
    "no line end in a file": diff("-import os", "\\ No newline at end of file"),
    "white space at the end of a line": diff("-import os  "),
    "another file behind": diff("-import os", "--- a/other", "+++ b/other", "-nothing like this"),
    "another kind of patch": diff("*** Update File: other", "-nothing like this"),
    "search and replace": diff("<<<<<<< SEARCH", "- a list", "=======", ">>>>>>> REPLACE"),
    "old text that fits": {"path": "src/shop.py", "old": TEXT[12:60], "new": ""},
    "all of the file": {"path": "src/shop.py", "old": TEXT, "new": ""},
    "more line ends than there are": {"path": "src/shop.py", "old": f"\n{TEXT}\n\n", "new": ""},
    "the line ends of another system": {"path": "src/shop.py", "old": TEXT.replace("\n", "\r\n")},
    "an absolute path": {"path": "{root}/src/shop.py", "old": "import os"},
    "no path": {"old": "nothing like this"},
    "a path that is no text": {"path": 7, "old": "nothing like this"},
    "a path with a null": {"path": "src/\0", "old": "nothing like this"},
    "a path that is too long": {"path": "x" * 10_000, "old": "nothing like this"},
    "an empty path": {"path": "", "old": "nothing like this"},
    "a folder": {"path": "src", "old": "nothing like this"},
    "a path outside": {"path": "../secret", "old": "nothing like this"},
    "old text that is none": {"path": "src/shop.py", "old": None, "new": "x"},
    "old text deeper down": {"path": "src/shop.py", "edits": [{"old": "nothing like this"}]},
    "nothing to replace in a new file": {"path": "src/new.py", "diff": "+import os\n"},
    "arguments that are none": {},
}


@pytest.mark.parametrize("arguments", GOOD.values(), ids=GOOD)
def test_an_edit_that_may_succeed_is_left_alone(root: Path, arguments: dict[str, Any]) -> None:
    (root.parent / "secret").write_text("secret")
    arguments = {
        key: value.replace("{root}", str(root)) if isinstance(value, str) else value
        for key, value in arguments.items()
    }
    assert watched(EditGuard(root), call(arguments)) == (None, json.dumps(arguments))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "the path behind the diff": ({"diff": f"-{WRONG}\n+x\n", "path": "src/shop.py"}, "line 1"),
    "the path behind the text": ({"old": WRONG, "path": "src/shop.py"}, "line 1 of the text"),
    "a last line without its end": ({"path": "src/shop.py", "diff": f"-{WRONG}"}, "line 1"),
    "other names": ({"file_path": "src/shop.py", "old_string": WRONG}, "line 1 of the text"),
    "a patch": ({"path": "src/shop.py", "patch": f"-{WRONG}\n"}, "line 1 of the diff"),
    "no such file": ({"path": "src/new.py", "old": "import os"}, "there is no such file"),
    "no such file for a diff": ({"path": "src/n.py", "diff": "-import os\n"}, "no such file"),
    "indented otherwise": (
        {"path": "src/shop.py", "old": "      return sum(prices)"},
        "white space",
    ),
    "the second of two lines": (diff("-import os", "-import re", "+x"), "line 2 of the diff"),
    "a line that is shorter": ({"path": "src/shop.py", "old": "import\nos"}, "line 1 of the text"),
    "white space around a path": (diff("-nothing") | {"path": "./src/../src/shop.py"}, "line 1"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_an_edit_that_cannot_succeed_is_stopped(
    root: Path, arguments: dict[str, Any], said: str
) -> None:
    finding, _ = watched(EditGuard(root), call(arguments))
    assert finding is not None
    assert said in finding.text


def test_a_file_with_a_mark_and_other_line_ends_is_read_as_the_model_sees_it(root: Path) -> None:
    (root / "a.txt").write_bytes("\ufeffone\r\ntwo\r\n".encode())
    assert watched(EditGuard(root), call({"path": "a.txt", "old": "one\ntwo\n"}))[0] is None
    assert watched(EditGuard(root), call({"path": "a.txt", "diff": "-one\n-two\n"}))[0] is None


def test_a_file_that_is_no_text_or_too_large_is_not_judged(root: Path) -> None:
    (root / "a.bin").write_bytes(b"\xff\xfe")
    (root / "large").write_bytes(b"x" * (MAX_FILE + 1))
    os.mkfifo(root / "pipe")
    for path in ("a.bin", "large", "pipe"):
        assert watched(EditGuard(root), call({"path": path, "old": "nothing"}))[0] is None


def test_a_link_that_leads_outside_is_not_followed(root: Path) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "link").symlink_to(root.parent / "secret")
    assert watched(EditGuard(root), call({"path": "link", "old": "nothing"}))[0] is None


def test_the_guard_speaks_once_in_a_turn(root: Path) -> None:
    guard = EditGuard(root)
    wrong = call({"path": "src/shop.py", "old": "nothing like this"})
    assert watched(guard, wrong)[0] is not None
    guard.response_started()
    assert not any(guard.check(event) for event in wrong)
    guard.turn_ended()
    assert watched(guard, wrong)[0] is not None


def test_an_edit_behind_another_of_the_same_file_is_not_judged(root: Path) -> None:
    first = call({"path": "./src/shop.py", "old": "import os", "new": "import re"})
    second = call({"path": "src/shop.py", "old": "import re", "new": ""})
    assert watched(EditGuard(root), first, second)[0] is None


def test_an_edit_behind_one_of_another_file_is_judged(root: Path) -> None:
    (root / "a.txt").write_text("one")
    first = call({"path": "a.txt", "old": "one"})
    second = call({"path": "src/shop.py", "old": "import re"})
    assert watched(EditGuard(root), first, second)[0] is not None


def test_an_edit_behind_a_command_is_not_judged(root: Path) -> None:
    first = call({"command": "sed -i s/os/re/ src/shop.py"}, name="run_bash")
    second = call({"path": "src/shop.py", "old": "import re"})
    assert watched(EditGuard(root), first, second)[0] is None


def test_an_edit_behind_a_call_of_an_unknown_tool_is_not_judged(root: Path) -> None:
    """A server's tool may write what it likes, whatever its `path` says."""
    first = call({"path": "notes.txt", "content": "import re"}, name="fs_write")
    second = call({"path": "src/shop.py", "old": "import re"})
    assert watched(EditGuard(root), first, second)[0] is None
    assert watched(EditGuard(root, reading=("fs_write",)), first, second)[0] is not None


@pytest.mark.parametrize("name", ["read_file", "list_files", "write_file"])
def test_an_edit_behind_a_tool_that_leaves_its_file_alone_is_judged(root: Path, name: str) -> None:
    first = call({"path": "notes.txt"}, name=name)
    second = call({"path": "src/shop.py", "old": "import re"})
    assert watched(EditGuard(root), first, second)[0] is not None


def test_a_return_inside_a_line_is_no_reason_to_stop(root: Path) -> None:
    (root / "bar.txt").write_bytes(b"10%\r20%\rdone\n")
    for edit in ({"old": "10%\r20%\rdone"}, {"diff": "-10%\r20%\rdone\n"}):
        assert watched(EditGuard(root), call({"path": "bar.txt", **edit}))[0] is None


def test_an_edit_that_is_wrong_in_a_hostile_file_is_stopped_in_linear_time(root: Path) -> None:
    chance = random.Random(8)
    wrong, *lines = ["".join(chance.choices("ab", k=200)) for _ in range(4_000)]

    def stop(count: int) -> None:
        (root / "long.txt").write_text("\n".join(lines[:count]))
        finding, _ = watched(EditGuard(root), call({"path": "long.txt", "diff": f"-{wrong}\n"}))
        assert finding is not None

    check_linear(stop, 400, 4_000, at_most=3)


def test_a_file_is_read_once_and_again_after_a_tool_has_run(root: Path) -> None:
    guard = EditGuard(root)
    right = call({"path": "src/shop.py", "old": "import os"})
    assert watched(guard, right)[0] is None
    (root / "src" / "shop.py").write_text("import re")
    guard.response_started()
    assert not any(guard.check(event) for event in right)
    guard.tool_ended(ToolResult("c1", "edit_file"))
    guard.response_started()
    assert any(guard.check(event) for event in right)


def test_other_tools_and_text_are_not_looked_at(root: Path) -> None:
    guard = EditGuard(root)
    other = call({"path": "src/shop.py", "old": "nothing"}, name="other")
    assert watched(guard, other)[0] is None
    assert guard.check(TextStart(0)) is None
    assert guard.check(TextDelta(0, f"-{WRONG}\n")) is None
    assert watched(EditGuard(root, tools=("other",)), other)[0] is not None


def test_a_call_that_was_never_streamed_is_judged_when_it_is_whole(root: Path) -> None:
    arguments = {"path": "src/shop.py", "old": "nothing"}
    start, *_, end = call(arguments)
    assert watched(EditGuard(root), [start, end])[0] is not None


def test_a_call_that_was_cut_is_not_judged_further(root: Path) -> None:
    start, *deltas, _ = call({"path": "src/shop.py", "diff": "-nothing"})
    cut = ToolCallEnd(0, ToolCall("c1", "edit_file", complete=False))
    assert watched(EditGuard(root), [start, *deltas[:-2], cut])[0] is None


LINES = st.sampled_from(
    ["import os", "import re", "", "def total(prices):", "    return sum(prices)", "--", "- x"]
)
SIGNS = st.sampled_from(["-", "+", " ", "@@", "--- ", "+++ ", "*** "])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lines=st.lists(st.tuples(SIGNS, LINES).map("".join), max_size=6),
    key=st.sampled_from(["diff", "old"]),
    ends=st.sampled_from(["\n", "\r\n"]),
    order=st.sampled_from([1, -1]),
    cuts=st.lists(st.integers(0, 150), max_size=6),
)
def test_how_the_arguments_are_cut_does_not_matter(
    root: Path,
    lines: list[str],
    key: str,
    ends: str,
    order: int,
    cuts: list[int],
) -> None:
    value = ends.join(line[1:] if key == "old" else line for line in lines)
    arguments = dict([("path", "src/shop.py"), (key, value)][::order])
    whole, _ = watched(EditGuard(root), call(arguments, size=10_000))
    single, _ = watched(EditGuard(root), call(arguments, size=1))
    start, *_, end = call(arguments)
    text = json.dumps(arguments)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    some = [ToolCallDelta(0, text[a:b]) for a, b in pairwise(edges)]
    cut, _ = watched(EditGuard(root), [start, *some, end])
    assert whole == single == cut


@pytest.mark.parametrize("key", ["diff", "old"])
def test_a_delta_costs_the_same_however_long_the_edit_is(root: Path, key: str) -> None:
    sign = "-" if key == "diff" else ""

    def read(lines: int) -> None:
        (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(lines)))
        value = "".join(f"{sign}line {number}\n" for number in range(lines))
        assert watched(EditGuard(root), call({"path": "long.txt", key: value}))[0] is None

    check_linear(read, 100, 2_000, at_most=3)
