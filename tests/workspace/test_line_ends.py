"""An edit changes nothing else in a file, whatever its line ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.workspace.files import TextFile

RAW = st.lists(st.sampled_from(["a", "b\n", "\r\n", "\n", "\r", "ä"]), max_size=12).map("".join)


@settings(max_examples=60)
@given(raw=RAW, mark=st.booleans(), start=st.integers(0, 12), length=st.integers(0, 12))
def test_only_the_piece_that_changes_changes(
    raw: str, start: int, length: int, *, mark: bool
) -> None:
    file = TextFile("\ufeff" * mark + raw)
    start = min(start, len(file.text))
    end = min(start + length, len(file.text))
    changed = TextFile(file.replace([(start, end, "<new>")]))
    assert changed.text == file.text[:start] + "<new>" + file.text[end:]
    before, _, after = changed.raw.partition("<new>")
    assert file.raw.startswith(before)
    assert file.raw.endswith(after)


def test_new_lines_end_as_most_others_do() -> None:
    assert TextFile("a\r\nb\r\nc\n").replace([(0, 1, "x\ny")]) == "x\r\ny\r\nb\r\nc\n"
    assert TextFile("a\r\nb\nc\n").replace([(0, 1, "x\r\ny")]) == "x\ny\r\nb\nc\n"
    assert TextFile("").replace([(0, 0, "x\n")]) == "x\n"
