"""Markdown of a model as styled lines, while it arrives.

Models write Markdown, and a line is final when the next one begins. So complete lines are written
to the buffer at once, and the line that is being written is a draft, rendered again with each
delta. A table is a draft as a whole: the width of its columns depends on its last row. Drafts are
limited, so the cost of a delta does not depend on the length of the response.

Markup that is not closed is text: no character of a response disappears because of a stray
asterisk. What the lines look like does not depend on how the text was cut into deltas.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field
from rich.cells import cell_len
from rich.style import Style
from rich.syntax import Syntax

from penstock.cli.chat.render import LineBuffer, OutputLine, StyledText, escape_text

MAX_DRAFT: Final = 1_000
"""The characters of a line that are rendered again with each delta: a paragraph is one line."""

MAX_TABLE_ROWS: Final = 100
"""The rows of a table that are aligned; further ones are shown as they were written."""

MAX_INDENT: Final = 16
"""The columns by which a list is indented, however deep it is."""

MIN_CELL: Final = 6
"""The narrowest column of a table; a table that is too wide for that is shown as written."""

MAX_NESTING: Final = 4
"""How deep emphasis is nested."""

CONTEXT_LINES: Final = 30
"""The lines of code before a line that are read for its colours: a string may have begun there."""

RULE: Final = "─" * 24

# The rules are CommonMark's, as far as they can be decided before the text after them has come.
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_FENCE: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*")
_QUOTE: Final = re.compile(r" {0,3}> ?(.*)")
_ITEM: Final = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)")
_TASK: Final = re.compile(r"\[([ xX])\] (.*)")
# Tables are GitHub's extension.
_TABLE_RULE: Final = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_CELL_END: Final = re.compile(r"(?<!\\)\|")

_SPECIAL: Final = re.compile(r"[\\`*_~\[]")
_ESCAPABLE: Final = frozenset(string.punctuation)
_LINK: Final = re.compile(r"\[([^\[\]]{1,300})\]\(([^()\s]{1,1000})\)")
_TICKS: Final = re.compile("`+")
# Each mark with its style, and the pattern of its end.
_EMPHASIS: Final = {
    "**": ("bold", re.compile(r"(?<!\s)\*\*")),
    "__": ("bold", re.compile(r"(?<!\s)__(?!\w)")),
    "~~": ("strike", re.compile(r"(?<!\s)~~")),
    "*": ("italic", re.compile(r"(?<![\s*])\*(?!\*)")),
    "_": ("italic", re.compile(r"(?<![\s_])_(?![\w_])")),
}


class MarkdownWriter:
    """Writes the Markdown of one block of text to *lines*; *width* returns that of the terminal."""

    def __init__(self, lines: LineBuffer, width: Callable[[], int]) -> None:
        self._lines = lines
        self._width = width
        self._held = ""  # the beginning of a line
        self._is_continued = False  # whether the line was too long, and part of it is written
        self._fence: _Fence | None = None
        self._table: list[str] = []
        lines.begin()

    def add(self, text: str) -> None:
        """Render one more piece of the text."""
        first, *rest = (self._held + text).split("\n")
        self._held = first
        for line in rest:
            self._finish_line()
            self._held = line
        self._write_long_lines()
        self._lines.draft = self._render_draft()

    def end(self) -> None:
        """Write what is a draft; the text has ended."""
        if self._held or self._is_continued:
            self._finish_line()
        self._flush_table()
        self._lines.draft = []
        self._lines.end()

    def _finish_line(self) -> None:
        self._write_long_lines()
        line, self._held = self._held.removesuffix("\r"), ""
        if self._is_continued:
            self._is_continued = False
            self._add_spans(self._render_continued(line))
            self._lines.end()
        else:
            self._write_line(line)

    def _write_long_lines(self) -> None:
        """Write the beginning of a line that is too long for a draft."""
        while len(self._held) > MAX_DRAFT:
            piece, self._held = self._held[:MAX_DRAFT], self._held[MAX_DRAFT:]
            if self._is_continued:
                self._add_spans(self._render_continued(piece))
            else:
                self._flush_table()
                self._write(self._render_line(piece), close=False)
                self._is_continued = True

    def _render_continued(self, piece: str) -> list[StyledText]:
        return [StyledText(piece)] if self._fence else render_inline(piece)

    def _write_line(self, line: str) -> None:
        if self._fence is not None:
            self._write_code(self._fence, line)
        elif line.lstrip().startswith("|") and len(self._table) < MAX_TABLE_ROWS:
            self._table.append(line)
        elif fence := _FENCE.fullmatch(line):
            self._flush_table()
            self._fence = _Fence(_expand(fence[1]), fence[2], fence[3])
        else:
            self._flush_table()
            self._write(self._render_line(line))

    def _write_code(self, fence: _Fence, line: str) -> None:
        if fence.is_closed_by(line):
            self._fence = None
            return
        code = fence.strip(line)
        fence.code.append(code)
        spans = fence.colour()
        self._write(_Line(fence.lead, spans))

    def _flush_table(self) -> None:
        for line in render_table(self._table, self._width() - 1):
            self._write(line)
        self._table = []

    def _render_line(self, line: str) -> _Line:
        if self._fence is not None:
            return _Line(self._fence.lead, [StyledText(self._fence.strip(line))])
        return render_line(line)

    def _render_draft(self) -> list[OutputLine]:
        drafts = render_table(self._table, self._width() - 1)
        fence = self._fence
        if self._is_continued:
            drafts.append(_Line("", self._render_continued(self._held)))
        elif self._held and fence is not None:
            if not fence.is_closed_by(self._held):
                drafts.append(_Line(fence.lead, [StyledText(fence.strip(self._held))]))
        elif self._held and not _FENCE.fullmatch(self._held):
            drafts.append(render_line(self._held))
        return [_make_output(line) for line in drafts]

    def _write(self, line: _Line, *, close: bool = True) -> None:
        self._lines.begin(line.lead, line.style)
        self._add_spans(line.spans)
        if close and not any(span.text for span in line.spans):
            self._lines.add("\n")  # an empty line, too
        if close:
            self._lines.end()

    def _add_spans(self, spans: list[StyledText]) -> None:
        for span in spans:
            self._lines.add(span.text, span.style)


class _Line(Struct):
    """A rendered line; its text is not escaped yet."""

    lead: str
    spans: list[StyledText]
    style: str = ""


def _make_output(line: _Line) -> OutputLine:
    spans = [StyledText(escape_text(span.text), span.style) for span in line.spans]
    return OutputLine(StyledText(line.lead, line.style), spans)


def _expand(indent: str) -> int:
    return min(len(indent.expandtabs(4)), MAX_INDENT)


# --- blocks ---


def render_line(line: str) -> _Line:
    """Render one line outside of code and tables."""
    if heading := _HEADING.fullmatch(line):
        style = "bold underline" if len(heading[1]) == 1 else "bold"
        return _Line("", _restyle(render_inline(heading[2]), style))
    if _RULE.fullmatch(line):
        return _Line("", [StyledText(RULE, "dim")])
    if quote := _QUOTE.fullmatch(line):
        return _Line("│ ", _restyle(render_inline(quote[1]), "italic"), "dim")
    if item := _ITEM.fullmatch(line):
        indent = " " * _expand(item[1])
        mark, text = item[2] if item[2][-1] in ".)" else "•", item[3]
        if task := _TASK.fullmatch(text):
            mark, text = "☐" if task[1] == " " else "☑", task[2]
        return _Line(f"{indent}{mark} ", render_inline(text))
    return _Line("", render_inline(line))


def _restyle(spans: list[StyledText], style: str) -> list[StyledText]:
    return [StyledText(span.text, f"{style} {span.style}".strip()) for span in spans]


class _Fence(Struct):
    """A block of code: the indent and the mark of its first line, and its language."""

    indent: int
    mark: str
    language: str
    code: list[str] = field(default_factory=list)
    syntax: Syntax | None = None

    @property
    def lead(self) -> str:
        """The beginning of each line."""
        return " " * (self.indent + 2)

    def is_closed_by(self, line: str) -> bool:
        """Return whether *line* is the end of the block."""
        line = line.strip()
        return len(line) >= len(self.mark) and not line.strip(self.mark[0])

    def strip(self, line: str) -> str:
        """Return *line* without the indent of the block."""
        blank = len(line) - len(line.lstrip(" \t"))
        return line[min(blank, self.indent) :]

    def colour(self) -> list[StyledText]:
        """Return the last line of the code in the colours of its language."""
        del self.code[: -CONTEXT_LINES - 1]
        last = self.code[-1]
        if not self.language or not last.strip():
            return [StyledText(last)]
        if self.syntax is None:
            self.syntax = Syntax("", self.language, theme="ansi_dark")
        text = self.syntax.highlight("\n".join(self.code))
        start = len(text.plain.rstrip("\n")) - len(last.rstrip("\n"))
        # The lexer may have changed the text, as those that drop control characters do.
        if text.plain[start : start + len(last)] != last:
            return [StyledText(last)]
        styles = [""] * len(last)
        for span in text.spans:
            name = span.style if isinstance(span.style, str) else _name_style(span.style)
            for at in range(max(0, span.start - start), min(len(last), span.end - start)):
                styles[at] = name
        return list(_group_styles(last, styles))


def _name_style(style: Style) -> str:
    """Return the name of the style's colour in the terminal's own palette."""
    number = None if style.color is None else style.color.number
    if number is None:
        return "dim" if style.dim else ""
    return _COLOURS[number] if number < len(_COLOURS) else ""


# The colours of terminals by number; black and white depend on the background.
_COLOURS: Final = (
    *("", "red", "green", "yellow", "blue", "magenta", "cyan", ""),
    *("dim", "brightred", "brightgreen", "brightyellow", "brightblue", "brightmagenta"),
    *("brightcyan", ""),
)


def _group_styles(text: str, styles: list[str]) -> Iterator[StyledText]:
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or styles[at] != styles[start]:
            yield StyledText(text[start:at], styles[start])
            start = at


# --- tables ---


def render_table(rows: list[str], width: int) -> list[_Line]:
    """Render *rows* as a table of at most *width* columns.

    Lines that are not a table, or one that is too wide, are returned as they were written.
    """
    if not rows:
        return []
    as_written = [_Line("", render_inline(row)) for row in rows]
    if len(rows) < 2 or not _TABLE_RULE.fullmatch(rows[1].strip()):  # noqa: PLR2004 - head, rule
        return as_written
    cells = [_split_cells(row) for row in (rows[0], *rows[2:])]
    columns = max(map(len, cells))
    for row in cells:
        row += [[] for _ in range(columns - len(row))]
    sizes = [max(1, *(_measure(row[at]) for row in cells)) for at in range(columns)]
    if not _fit_columns(sizes, width - 3 * (columns - 1)):
        return as_written
    head, *body = cells
    right = [cell.strip().endswith(":") for cell in rows[1].strip().strip("|").split("|")]
    drawn = list(_draw_row([_restyle(cell, "bold") for cell in head], sizes, right))
    drawn.append(_Line("", [StyledText("─┼─".join("─" * size for size in sizes), "dim")]))
    for row in body:
        drawn += _draw_row(row, sizes, right)
    return drawn


def _split_cells(row: str) -> list[list[StyledText]]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [
        [StyledText(escape_text(span.text), span.style) for span in render_inline(cell.strip())]
        for cell in _CELL_END.split(inner)
    ]


def _measure(spans: list[StyledText]) -> int:
    return sum(cell_len(span.text) for span in spans)


def _fit_columns(sizes: list[int], width: int) -> bool:
    """Make the widest columns smaller until all fit; return whether that is possible."""
    if width < MIN_CELL * len(sizes):
        return sum(sizes) <= width
    while sum(sizes) > width:
        widest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[widest] -= 1
    return True


def _draw_row(
    cells: list[list[StyledText]], sizes: list[int], right: list[bool]
) -> Iterator[_Line]:
    """Draw a row; a cell that is too long continues below."""
    broken = [_break_cell(cell, size) for cell, size in zip(cells, sizes, strict=True)]
    for at in range(max(map(len, broken))):
        spans: list[StyledText] = []
        for number, (parts, size) in enumerate(zip(broken, sizes, strict=True)):
            part = parts[at] if at < len(parts) else []
            spans += [StyledText(" │ ", "dim")] if number else []
            blank = StyledText(" " * (size - _measure(part)))
            spans += [blank, *part] if right[number : number + 1] == [True] else [*part, blank]
        yield _Line("", spans)


def _break_cell(spans: list[StyledText], size: int) -> list[list[StyledText]]:
    """Break a cell into rows of at most *size* columns, between words if possible."""
    rows: list[list[StyledText]] = [[]]
    used = 0
    for span in spans:
        for word in re.findall(r"\s+|\S+", span.text):
            left = word
            if used and used + cell_len(left) > size:
                rows.append([])
                used = 0
                left = left.lstrip()
            while cell_len(left) > size:
                kept = next(at for at in range(len(left), 0, -1) if cell_len(left[:at]) <= size)
                rows[-1].append(StyledText(left[:kept], span.style))
                rows.append([])
                left = left[kept:]
            if left:
                rows[-1].append(StyledText(left, span.style))
                used += cell_len(left)
    return rows


# --- text within a line ---


def render_inline(text: str, style: str = "", depth: int = 0) -> list[StyledText]:
    """Render emphasis, code and links in *text*; marks without an end are text."""
    spans: list[StyledText] = []
    missing: set[str] = set()  # marks whose end is not in the text, so that none is sought twice
    start = at = 0
    while found := _SPECIAL.search(text, at):
        here = found.start()
        inner, at = _render_mark(text, here, style, depth, missing)
        if inner:
            if here > start:
                spans.append(StyledText(text[start:here], style))
            spans += inner
            start = at
    if start < len(text):
        spans.append(StyledText(text[start:], style))
    return spans


def _render_mark(
    text: str, here: int, style: str, depth: int, missing: set[str]
) -> tuple[list[StyledText], int]:
    """Render what begins with the mark *here*; return it and its end.

    A mark that begins nothing gives no spans, and its end is that of the mark.
    """
    after = here + 1
    match text[here]:
        case "\\" if text[after : after + 1] in _ESCAPABLE and after < len(text):
            return [StyledText(text[after], style)], after + 1
        case "`":
            return _render_code(text, here, style, missing)
        case "[" if link := _LINK.match(text, here):
            spans = render_inline(link[1], f"{style} underline".strip(), depth + 1)
            if link[1] != link[2]:
                spans.append(StyledText(f" ({link[2]})", "dim"))
            return spans, link.end()
        case "*" | "_" | "~" as sign:
            mark = sign * 2 if text.startswith(sign * 2, here) else sign
            after = here + len(mark)
            if mark in _EMPHASIS and mark not in missing and depth < MAX_NESTING:
                name, pattern = _EMPHASIS[mark]
                if _begins_emphasis(text, here, mark):
                    if end := pattern.search(text, after + 1):
                        joined = f"{style} {name}".strip()
                        inner = render_inline(text[after : end.start()], joined, depth + 1)
                        return inner, end.end()
                    missing.add(mark)
    return [], after


def _render_code(
    text: str, here: int, style: str, missing: set[str]
) -> tuple[list[StyledText], int]:
    after = next((at for at in range(here, len(text)) if text[at] != "`"), len(text))
    mark = text[here:after]
    if mark not in missing:
        for run in _TICKS.finditer(text, after):
            if run[0] == mark:
                code = text[after : run.start()]
                # CommonMark: one space on both sides is removed, so that code can begin with a
                # backtick.
                if code.startswith(" ") and code.endswith(" ") and code.strip():
                    code = code[1:-1]
                return [StyledText(code, f"{style} cyan".strip())], run.end()
        missing.add(mark)
    return [], after


def _begins_emphasis(text: str, here: int, mark: str) -> bool:
    """Return whether the *mark* at *here* can begin emphasis.

    It cannot within a word or a number, as in ``snake_case`` and ``2*3*4``. Scripts that use no
    spaces have no such rule.
    """
    before = text[here - 1] if here else " "
    follows = text[here + len(mark) : here + len(mark) + 1]
    if not follows or follows.isspace() or follows == mark[0]:
        return False
    return not (before.isascii() and before.isalnum()) and before != mark[0]
