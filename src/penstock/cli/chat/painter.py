"""What is written to a terminal so that it shows the page with the prompt below it.

Lines that are done scroll away above and are never touched again. Below them is the *live area*:
the line that is being written, what is shown for now, and the prompt. Each painting erases that
area and writes it anew, so the terminal need not be asked for anything. The painter knows on which
row of the area it left the cursor; that is all it has to remember.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.cli.chat.page import Page
from penstock.cli.chat.rows import Line, Row, rendered, row_width, wrap

_HIDE: Final = "\x1b[?25l"
_SHOW: Final = "\x1b[?25h"
_ERASE: Final = "\x1b[J"


class Prompt(Struct, frozen=True):
    """The rows of the prompt, and where in them the cursor stands."""

    rows: list[Row]
    row: int = 0
    column: int = 0


class Painter:
    """Gives what brings a terminal from what it shows to what it is to show."""

    def __init__(self, *, colours: bool = True) -> None:
        self._colours = colours
        self._widths: list[int] = []  # of the rows of the live area, as they were written
        self._row = 0  # of the live area, on which the cursor stands
        self._column = 0

    def paint(self, page: Page, prompt: Prompt, width: int, height: int) -> str:
        """Write what is new on *page*, and the live area with *prompt* at its end."""
        out = [_HIDE, self._erased(width)]
        rows = [row for line in page.take() for row in wrap(line, width)]
        live = self._opened(page, rows, width)
        out += [f"{rendered(row, colours=self._colours)}\r\n" for row in rows]
        live += [row for line in page.live for row in wrap(line, width)]
        room = max(1, height - 1) - len(prompt.rows)
        live = live[-room:] if room > 0 else []
        out.append(self._area([*live, *prompt.rows], len(live) + prompt.row, prompt.column))
        return "".join(out)

    def cleared(self) -> str:
        """Write what leaves the terminal without the live area."""
        self._widths, erased = [], self._erased(0)
        return f"{erased}{_SHOW}"

    def _opened(self, page: Page, rows: list[Row], width: int) -> list[Row]:
        """Give the last row of the open line; those before it change no more, and are done."""
        if page.open is None:
            return []
        *full, last = wrap(page.open, width)
        if full:
            rows += full
            page.open = Line(last, page.open.hang, page.open.aside)
        return [last]

    def _erased(self, width: int) -> str:
        """Go to the beginning of the live area, and erase it.

        On a terminal that has become narrower, what was a row may be several by now.
        """
        above = self._widths[: self._row]
        up = sum(max(1, -(-cells // width)) if width else 1 for cells in above)
        up += self._column // width if width else 0
        self._row = self._column = 0
        return f"\r\x1b[{up}A{_ERASE}" if up else f"\r{_ERASE}"

    def _area(self, rows: list[Row], row: int, column: int) -> str:
        self._widths = [row_width(one) for one in rows]
        self._row, self._column = row, column
        up = len(rows) - 1 - row
        text = "\r\n".join(rendered(one, colours=self._colours) for one in rows)
        moves = [f"\x1b[{up}A" if up > 0 else "", "\r", f"\x1b[{column}C" if column else ""]
        return f"{text}{''.join(moves)}{_SHOW}"
