"""Keys out of bytes, wherever the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.chat.keys import MAX_PASTE, Key, KeyReader, Pressed, Typed


def keys(*pieces: bytes) -> list[Key]:
    """Read *pieces*; texts that follow each other are one."""
    reader = KeyReader()
    joined: list[Key] = []
    for key in (key for piece in pieces for key in reader.feed(piece)):
        last = joined[-1] if joined else None
        if isinstance(key, Typed) and isinstance(last, Typed):
            joined[-1] = Typed(last.text + key.text)
        else:
            joined.append(key)
    return joined


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("hé日", [Typed("hé日")]),
        ("a\rb\n", [Typed("a"), Pressed("enter"), Typed("b"), Pressed("enter")]),
        ("\x1b[A\x1bOB", [Pressed("up"), Pressed("down")]),
        ("\x1b[1;5D\x1bf", [Pressed("word-left"), Pressed("word-right")]),
        ("\x1b\r", [Pressed("newline")]),
        ("\x03\x04\x1a", [Pressed("interrupt"), Pressed("end-of-input"), Pressed("suspend")]),
        ("a\tb", [Typed("a\tb")]),
        ("\x1b[200~one\r\ntwo\x03\x1b[201~\r", [Typed("one\ntwo\x03"), Pressed("enter")]),
        ("\x1b[99;99Xa\x1b[?1;2c", [Typed("a")]),
    ],
)
def test_keys_are_read(sent: str, read: list[Key]) -> None:
    data = sent.encode()
    assert keys(data) == read
    assert keys(*(data[at : at + 1] for at in range(len(data)))) == read


@given(st.binary(max_size=40), st.integers(0, 40))
def test_it_does_not_matter_where_bytes_are_cut(data: bytes, cut: int) -> None:
    assert keys(data[:cut], data[cut:]) == keys(data)


def test_escape_alone_does_nothing() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.waits
    reader.flush()
    assert reader.feed(b"y") == [Typed("y")]


def test_a_paste_without_an_end_is_bounded() -> None:
    reader = KeyReader()
    reader.feed(b"\x1b[200~")
    for _ in range(20):
        assert reader.feed(b"x" * (MAX_PASTE // 10)) == []
    (key,) = reader.feed(b"\x1b[201~")
    assert key == Typed("x" * MAX_PASTE)
