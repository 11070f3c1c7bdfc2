"""A small line editor: what is being typed, and where in it the cursor stands.

Text may have several lines: Alt-Enter makes a new one, and so does Enter behind a backslash. It is
all in memory and knows no terminal: keys in, rows out.
"""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len, set_cell_size

from penstock.cli.chat.keys import Key, Pressed, Typed
from penstock.cli.chat.painter import Prompt
from penstock.cli.chat.rows import LEAST_WIDTH, Row, Span, shown_character

MAX_HISTORY: Final = 1_000
"""How many lines are remembered."""


class Editor:
    """Edits one text; `press` tells when it is to be sent."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.history: list[str] = []
        self._place = 0  # in the history; at its end is what is being typed
        self._draft = ""

    def press(self, key: Key) -> str | None:
        """Take *key*; give the text if it was Enter, which empties the editor."""
        if isinstance(key, Typed):
            self.insert(key.text)
        elif key.name == "enter":
            return self._entered()
        else:
            self._edit(key)
        return None

    def insert(self, text: str) -> None:
        """Put *text* where the cursor is, without what steers terminals."""
        kept = "".join(one for one in text if one >= " " or one in "\n\t")
        kept = kept.replace("\x7f", "")
        self.text = self.text[: self.cursor] + kept + self.text[self.cursor :]
        self.cursor += len(kept)

    def set(self, text: str) -> None:
        """Edit *text* from now on."""
        self.text, self.cursor = text, len(text)

    def take(self) -> str:
        """Take the text away."""
        text = self.text
        self.set("")
        self._place = len(self.history)
        return text

    def remember(self, text: str) -> None:
        """Keep *text* for the arrow keys."""
        if text.strip() and self.history[-1:] != [text]:
            self.history = [*self.history, text][-MAX_HISTORY:]
        self._place = len(self.history)

    def _entered(self) -> str | None:
        if self.text[: self.cursor].endswith("\\"):
            self._cut(self.cursor - 1, self.cursor)
            self.insert("\n")
            return None
        return self.take()

    def _edit(self, key: Pressed) -> None:
        match key.name:
            case "newline":
                self.insert("\n")
            case "backspace":
                self._cut(self._before(), self.cursor)
            case "delete":
                self._cut(self.cursor, self._behind())
            case "kill-start":
                self._cut(self._line_start(), self.cursor)
            case "kill-end":
                self._cut(self.cursor, self._line_end())
            case "kill-word":
                self._cut(self._word_start(), self.cursor)
            case _:
                self._move(key)

    def _move(self, key: Pressed) -> None:
        match key.name:
            case "left":
                self.cursor = self._before()
            case "right":
                self.cursor = self._behind()
            case "home":
                self.cursor = self._line_start()
            case "end":
                self.cursor = self._line_end()
            case "word-left":
                self.cursor = self._word_start()
            case "word-right":
                self.cursor = self._word_end()
            case "up":
                self._go_up()
            case "down":
                self._go_down()

    # --- places ---

    def _before(self) -> int:
        """Give the place of the character before the cursor, with all that is drawn onto it."""
        at = max(0, self.cursor - 1)
        while at > 0 and _joins(self.text[at]):
            at -= 1
        return at

    def _behind(self) -> int:
        at = min(len(self.text), self.cursor + 1)
        while at < len(self.text) and _joins(self.text[at]):
            at += 1
        return at

    def _line_start(self) -> int:
        return self.text.rfind("\n", 0, self.cursor) + 1

    def _line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end == -1 else end

    def _word_start(self) -> int:
        head = self.text[: self.cursor].rstrip()
        return max(head.rfind(" "), head.rfind("\n")) + 1

    def _word_end(self) -> int:
        rest = self.text[self.cursor :]
        word = rest.lstrip()
        start = len(rest) - len(word)
        ends = [at for at in (word.find(" "), word.find("\n")) if at != -1]
        return self.cursor + start + min(ends, default=len(word))

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    # --- lines above and below, and the history ---

    def _go_up(self) -> None:
        start = self._line_start()
        if start:
            column = self.cursor - start
            above = self.text.rfind("\n", 0, start - 1) + 1
            self.cursor = min(above + column, start - 1)
        else:
            self._recall(self._place - 1)

    def _go_down(self) -> None:
        end = self._line_end()
        if end < len(self.text):
            column = self.cursor - self._line_start()
            self.cursor = end + 1
            self.cursor = min(end + 1 + column, self._line_end())
        else:
            self._recall(self._place + 1)

    def _recall(self, place: int) -> None:
        if not 0 <= place <= len(self.history):
            return
        if self._place == len(self.history):
            self._draft = self.text
        self._place = place
        self.set(self.history[place] if place < len(self.history) else self._draft)

    # --- rows ---

    def prompt(self, lead: Span, width: int, height: int, hint: str = "") -> Prompt:
        """Give the rows of the text behind *lead*, at most *height* of them, about the cursor."""
        if not self.text:
            row = [lead, Span(_fitting(hint, width - cell_len(lead.text) - 1), "dim")]
            return Prompt([row], 0, cell_len(lead.text))
        indent = " " * cell_len(lead.text)
        rows, at, column = _laid_out(self.text, self.cursor, len(indent), max(LEAST_WIDTH, width))
        leads = [lead, *(Span(indent) for _ in rows[1:])]
        whole: list[Row] = [[one, Span(row)] for one, row in zip(leads, rows, strict=True)]
        first = max(0, min(at - height + 1, len(whole) - height)) if at >= height else 0
        return Prompt(whole[first : first + height], at - first, column)


def _laid_out(text: str, cursor: int, indent: int, width: int) -> tuple[list[str], int, int]:
    """Give *text* in rows, and the row and the column of the *cursor*."""
    rows: list[list[str]] = [[]]
    used, place = indent, (0, indent)
    for at, one in enumerate(text):
        piece = "" if one == "\n" else shown_character(one)
        size = cell_len(piece)
        if used + size >= width:
            rows.append([])
            used = indent
        if at == cursor:
            place = (len(rows) - 1, used)
        rows[-1].append(piece)
        used += size
        if one == "\n":
            rows.append([])
            used = indent
    if cursor >= len(text):
        place = (len(rows) - 1, used)
    return ["".join(row) for row in rows], *place


def _joins(one: str) -> bool:
    """Tell whether a character is drawn onto the one before it."""
    return one >= "\u0300" and cell_len(one) == 0


def _fitting(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(0, room - 1)) + "…"
