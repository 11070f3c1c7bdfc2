"""What `rjson.repair` costs on broken tool arguments, beside json-repair, and that it is linear.

The text is a call that writes code, broken in one of the ways that models break it, or in all of
them, with one long string or with many short ones. json-repair gets growing sizes until one takes
longer than `PATIENCE`, and is compared at the largest that it finished. The bar holds where it
reads what is there; where an inner quote ends a string too early for it, it is quick because it
drops the code, and the ratio stands without a bar, beside how much of the value it kept.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import json_repair

from penstock.errors import JSONParseError
from penstock.values import rjson

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[str, str, str, str]
"""What was measured, the figure, the bar, and the verdict."""

KB = 1_000
SIZES = (1, 2, 4, 8, 16, 32, 64, 100)
PATIENCE = 3.0
MIN_FASTER = 100
READ_IT_ALL = 0.95
MAX_GROWTH = 12  # for ten times the text

CODE = """def greet(name: str) -> str:
    # Say "hello", or match \\d+ and C:\\Users.
    if name == "world":
        return f"Hello, {name}!"
    return "It's {}".format(name)
"""


def code_of(size: int) -> str:
    """Return about *size* characters of code."""
    return CODE * (size // len(CODE) + 1)


def escaped(code: str) -> str:
    """Return *code* as it stands between the quotes of a JSON string."""
    return json.dumps(code)[1:-1]


def call(body: str, tail: str) -> str:
    """Return a call whose code is *body*, up to its closers."""
    head = '{"name": "write_file", "arguments": {"path": "greet.py", "content": "'
    return f'{head}{body}", "mode": "w"{tail}'


def without_closers(size: int) -> str:
    """Break a call by leaving out its closers."""
    return call(escaped(code_of(size)), "")


def with_inner_quotes(size: int) -> str:
    """Break a call by not escaping the quotes of the code."""
    return call(escaped(code_of(size)).replace('\\"', '"'), "}}")


def with_raw_newlines(size: int) -> str:
    """Break a call by not escaping the newlines of the code, and by trailing commas."""
    return call(escaped(code_of(size)).replace("\\n", "\n"), ",},}")


def with_everything(size: int) -> str:
    """Break a call by not escaping anything, with prose before it and no closers."""
    return "Sure, here is the file:\n" + call(code_of(size), ",")


def with_many_edits(size: int) -> str:
    """Break a call of many short strings in every way at once."""
    edit = f'{{"path": "greet.py", "keep": True, "content": "{CODE}",}}'
    edits = [edit + ("" if number % 5 == 0 else ",") for number in range(size // len(edit) + 1)]
    return 'Sure:\n{"name": "edit_files", "arguments": {"edits": [' + "\n".join(edits)


def seconds(read: Callable[[str], object], text: str, rounds: int) -> float:
    """Return the CPU time of the fastest of several *rounds*."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        read(text)
        best = min(best, time.process_time() - began)
    return best


def largest_that_json_repair_finishes(broken: Callable[[int], str]) -> tuple[int, float]:
    """Return the size in KB, and the seconds that json-repair took for it."""
    finished = (0, 0.0)
    for size in SIZES:
        took = seconds(json_repair.loads, broken(size * KB), 1)
        if took > PATIENCE and finished[0]:
            break
        finished = (size, took)
    return finished


def against_json_repair(what: str, broken: Callable[[int], str]) -> Row:
    """Compare the two at the largest size that json-repair finishes in time."""
    size, theirs = largest_that_json_repair_finishes(broken)
    text = broken(size * KB)
    ours = seconds(rjson.repair, text, 5)
    label = f"json-repair / repair: {what}, {size} KB ({theirs:.2f} s / {ours * 1e3:.1f} ms)"
    kept = len(json.dumps(json_repair.loads(text))) / len(json.dumps(rjson.repair(text).value))
    if kept < READ_IT_ALL:
        return label, f"{theirs / ours:.0f}x", f"none: it keeps {kept:.0%} of the value", "-"
    return row(label, theirs / ours, at_least=MIN_FASTER)


def exactness() -> Row:
    """Count the ways of breaking a call out of which the code comes byte for byte."""
    size = 2 * KB
    ways = (without_closers, with_inner_quotes, with_raw_newlines, with_everything)
    ours, theirs = (
        sum(content_of(read(broken(size))) == code_of(size) for broken in ways)
        for read in (lambda text: rjson.repair(text).value, json_repair.loads)
    )
    verdict = "ok" if ours == len(ways) else "MISSED"
    label = "broken calls with their code byte for byte: repair (json-repair)"
    return label, f"{ours} ({theirs}) of {len(ways)}", f"{len(ways)} of {len(ways)}", verdict


def content_of(value: Any) -> Any:
    """Return the code of a call that was read, or nothing."""
    try:
        return value["arguments"]["content"]
    except (KeyError, IndexError, TypeError):
        return None


def growth(small: int) -> Row:
    """Compare ten times *small* KB with *small* KB."""
    first = seconds(rjson.repair, with_everything(small * KB), 7)
    second = seconds(rjson.repair, with_everything(10 * small * KB), 3)
    label = (
        f"repair: everything broken, {10 * small} KB / {small} KB"
        f" ({second / small * 1e5:.0f} / {first / small * 1e6:.0f} µs a KB)"
    )
    return row(label, second / first, at_most=MAX_GROWTH)


def growth_on_quotes() -> Row:
    """Compare texts of nothing but quotes: the dearest thing to look ahead from."""
    first, second = (seconds(rjson.repair, '{"a": ' + '"' * size, 3) for size in (10_000, 100_000))
    return row("repair: nothing but quotes, 100 KB / 10 KB", second / first, at_most=MAX_GROWTH)


def strict_text() -> Row:
    """Compare `loads` with the standard library on strict text: the price of the two checks."""
    edits = [{"path": f"{n}.py", "line": n, "content": CODE} for n in range(400)]
    text = json.dumps({"name": "edit_files", "arguments": {"edits": edits}})
    ours, theirs = seconds(rjson.loads, text, 25), seconds(json.loads, text, 25)
    return row("rjson.loads / json.loads: 100 KB of strict calls", ours / theirs, at_most=3)


def deep_text() -> Row:
    """Compare the refusal of 100,000 brackets with the reading of as much broken text."""

    def refuse(text: str) -> None:
        with suppress(JSONParseError):
            raise AssertionError(rjson.repair(text))

    deep = seconds(refuse, "[" * 100 * KB, 3)
    usual = seconds(rjson.repair, with_everything(100 * KB), 3)
    return row("repair: 100,000 brackets refused / 100 KB repaired", deep / usual, at_most=1)


def row(what: str, ratio: float, *, at_least: float = 0, at_most: float = 0) -> Row:
    """Return a row of the table, judged."""
    if at_least:
        return what, f"{ratio:.0f}x", f">= {at_least}x", "ok" if ratio >= at_least else "MISSED"
    return what, f"{ratio:.2f}x", f"<= {at_most}x", "ok" if ratio <= at_most else "MISSED"


def table() -> list[Row]:
    """Return the rows of this benchmark."""
    return [
        against_json_repair("closers missing", without_closers),
        against_json_repair("quotes not escaped", with_inner_quotes),
        against_json_repair("newlines not escaped", with_raw_newlines),
        against_json_repair("everything broken", with_everything),
        against_json_repair("everything broken in many edits", with_many_edits),
        exactness(),
        growth(10),
        growth(100),
        growth_on_quotes(),
        strict_text(),
        deep_text(),
    ]


if __name__ == "__main__":
    for cells in table():
        print(*cells, sep=" | ")
