"""What a terminal shows after any number of paintings, however the text came."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cli.chat.emulator import Emulator
from penstock.cli.chat.editor import Editor
from penstock.cli.chat.page import Page
from penstock.cli.chat.painter import Painter, Prompt
from penstock.cli.chat.rows import Span

LEAD = Span("> ", "bold")
PIECES = st.lists(
    st.text(st.sampled_from("ab \n\r日\u0301\x1b\t"), max_size=30) | st.just("\x00note"),
    max_size=12,
)


def told(pieces: list[str], page: Page) -> None:
    for piece in pieces:
        if piece == "\x00note":
            page.line("a note", "dim", "! ")
        else:
            page.add(piece)


def seen(emulator: Emulator) -> list[str]:
    return [row.rstrip() for row in emulator.text.split("\n")]


@settings(max_examples=60)
@given(PIECES, st.text("xy日 \n", max_size=30), st.integers(12, 40))
def test_it_does_not_matter_how_often_it_was_painted(
    pieces: list[str], typed: str, width: int
) -> None:
    screens = []
    for often in (True, False):
        page, painter, emulator = Page(), Painter(), Emulator(width)
        editor = Editor()
        for piece in pieces:
            told([piece], page)
            page.show_live(["for now", "and here"])
            if often:
                emulator.feed(painter.paint(page, editor.prompt(LEAD, width, 10), width, 24))
        page.live = []
        editor.insert(typed)
        emulator.feed(painter.paint(page, editor.prompt(LEAD, width, 10), width, 24))
        screens.append((seen(emulator), emulator.row, emulator.column))
    assert screens[0] == screens[1]


def test_what_is_for_now_goes_and_what_is_done_stays() -> None:
    page, painter, emulator = Page(), Painter(), Emulator()
    prompt = Prompt([[LEAD, Span("typed")]], 0, 7)
    page.line("done", "", "● ")
    page.add("half a li")
    page.show_live(["a thought"])
    emulator.feed(painter.paint(page, prompt, 80, 24))
    assert seen(emulator) == ["● done", "half a li", "  ┆ a thought", "> typed"]
    page.live = []
    page.add("ne\nmore")
    emulator.feed(painter.paint(page, prompt, 80, 24))
    assert seen(emulator) == ["● done", "half a line", "more", "> typed"]
    assert (emulator.row, emulator.column) == (3, 7)
    page.end()
    emulator.feed(painter.paint(page, Prompt([[]]), 80, 24) + painter.cleared())
    assert seen(emulator) == ["● done", "half a line", "more", ""]


def test_the_live_area_never_outgrows_the_terminal() -> None:
    page, painter, emulator = Page(), Painter(), Emulator(height=8)
    page.show_live([f"line {n}" for n in range(100)])
    emulator.feed(painter.paint(page, Prompt([[LEAD]], 0, 2), 80, 8))
    assert seen(emulator) == [*(f"  ┆ line {n}" for n in range(94, 100)), ">"]


def test_on_a_terminal_that_became_narrower_the_old_rows_are_erased() -> None:
    page, painter, emulator = Page(), Painter(colours=False), Emulator(80)
    page.line("stays")
    page.add("x" * 50)
    emulator.feed(painter.paint(page, Prompt([[LEAD]], 0, 2), 80, 24))
    emulator.rows[1:2] = [["x"] * 20, ["x"] * 20, ["x"] * 10]  # as terminals break it anew
    emulator.row += 2
    emulator.width = 20
    emulator.feed(painter.paint(page, Prompt([[LEAD]], 0, 2), 20, 24))
    assert seen(emulator) == ["stays", "x" * 19, "x" * 19, "x" * 12, ">"]


def test_without_colours_no_style_is_sent() -> None:
    page = Page()
    page.line("red", "red")
    assert "m" not in Painter(colours=False).paint(page, Prompt([[LEAD]]), 80, 24).split("red")[0]
    page.line("red", "red")
    assert "\x1b[31mred\x1b[0m" in Painter().paint(page, Prompt([[LEAD]]), 80, 24)
