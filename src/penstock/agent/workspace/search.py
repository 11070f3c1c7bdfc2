"""Where a piece of text is in a file, and what to tell a model that got it wrong.

Whatever the file and the piece are, this is quick: places are counted up to a limit, and only so
much is compared to find what is most alike. A guard asks in the midst of a stream.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import islice
from typing import Final
from unicodedata import normalize

from penstock.errors import ToolError

MAX_PLACES: Final = 10
"""How many places are listed where there are many."""

MAX_COUNTED: Final = 1_000
"""How many places are counted; that there are more is all one needs to know."""

MAX_LINES: Final = 20_000
"""How many lines of a file are looked through for the nearest one."""

MAX_COMPARED: Final = 40_000
"""How many characters are compared to find the nearest line: some ten milliseconds of work."""

MAX_LINE: Final = 120
"""How much of a line is compared: comparing is quadratic."""

MAX_SHOWN: Final = 300
"""How much of a line is shown: some files are one line."""

ALIKE: Final = 0.6
"""From which likeness on a line is worth showing; lower ones lead astray."""

_FINALISTS: Final = 4  # how many lines are compared in earnest
_WORDS: Final = 8  # how many words of a line are looked for in others


# --- places ---


def line_at(text: str, place: int) -> int:
    """Count the line, from one, in which *place* is."""
    return text.count("\n", 0, place) + 1


def counted_lines(places: list[int], text: str) -> str:
    """Name the lines of *places*, up to a limit."""
    lines = sorted({line_at(text, place) for place in places[:MAX_PLACES]})
    more = ", …" if len(places) > MAX_PLACES else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more}"


def places_of(text: str, piece: str) -> list[int]:
    """List where *piece* begins in *text*, overlaps included; one more than is counted ends it."""
    places: list[int] = []
    at = text.find(piece)
    while at != -1 and len(places) <= MAX_COUNTED:
        places.append(at)
        at = text.find(piece, at + 1)
    return places


def only_place(places: list[int], text: str) -> int:
    """Return the one place of *places*; raise `ToolError` for several."""
    if len(places) == 1:
        return places[0]
    many = len(places) > MAX_COUNTED
    count = f"more than {MAX_COUNTED}" if many else str(len(places))
    raise ToolError(
        f"The text to replace is in the file {count} times"
        f" (in {counted_lines(places, text)}). Add lines around it until it is there once."
    )


def length_found(text: str, within: str) -> int:
    """Return how much of the beginning of *text* is somewhere *within*."""
    least, most = 0, len(text)
    while least < most:
        middle = (least + most + 1) // 2
        if text[:middle] in within:
            least = middle
        else:
            most = middle - 1
    return least


# --- the nearest line ---


def nearest(text: str, piece: str) -> str:
    """Say what in *text* is most like *piece*, for whoever did not copy it exactly.

    Of several lines, that is the first one that is wrong.
    """
    begin, wanted = _first_wrong(text, piece)
    if not wanted.strip():
        return _NOTHING
    told = _told(text.split("\n", MAX_LINES)[:MAX_LINES], wanted)
    if not piece[:begin].strip():
        return told
    return f"Its line {line_at(piece, begin)} is the first that is wrong. {told}"


_NOTHING: Final = "Read the file again: it holds nothing like that."


def _first_wrong(text: str, piece: str) -> tuple[int, str]:
    """Find where in *piece* the line begins up to which all is in *text*, and that line."""
    first = len(piece) - len(piece.lstrip("\n"))
    body = piece.strip("\n")
    right = length_found(body, text)
    # If it is all there, it is not where it would have to be: then nothing of it is.
    begin = body.rfind("\n", 0, right) + 1 if right < len(body) else 0
    for line in body[begin:].split("\n"):
        if line.strip():
            return first + begin, line
        begin += len(line) + 1
    return first, ""


def _told(lines: list[str], wanted: str) -> str:
    plain = _plain(wanted)
    for number, line in enumerate(lines, 1):
        if line == wanted:
            return f"Line {number} is the same, but what stands around it is not."
        if len(line) < len(wanted) * 4 + MAX_LINE and _plain(line) == plain:
            same = line.split() == wanted.split()
            way = "white space" if same else "how its accents are made of characters"
            return f"Line {number} differs in {way} only: {_shown(line)}"
    found = _most_alike(lines, wanted)
    return _NOTHING if found is None else f"The nearest is line {found + 1}: {_shown(lines[found])}"


def _shown(line: str) -> str:
    return repr(line) if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]!r} …"


def _plain(line: str) -> list[str]:
    """Return the words of *line*, however their characters are put together."""
    return (line if line.isascii() else normalize("NFC", line)).split()


def _most_alike(lines: list[str], wanted: str) -> int | None:
    """Find the line that is most like *wanted*: of the likely ones the few that look best."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:MAX_LINE])
    room = MAX_COMPARED
    looks: dict[str, tuple[float, int]] = {}
    for at in _likely(lines, wanted):
        line = lines[at][:MAX_LINE]
        room -= len(line)
        if room < 0:
            break
        if line not in looks:
            matcher.set_seq1(line)
            is_likely = matcher.real_quick_ratio() > ALIKE
            looks[line] = (matcher.quick_ratio() if is_likely else 0.0, -at)
    best, where = ALIKE, None
    for line, (look, at) in islice(sorted(looks.items(), key=_look_of, reverse=True), _FINALISTS):
        if look > best:
            matcher.set_seq1(line)
            ratio = matcher.ratio()
            if ratio > best:
                best, where = ratio, -at
    return where


def _look_of(item: tuple[str, tuple[float, int]]) -> tuple[float, int]:
    return item[1]


def _likely(lines: list[str], wanted: str) -> list[int]:
    """List the lines of about the length of *wanted*, those that share words with it first."""
    words = sorted(set(wanted[:MAX_LINE].split()), key=len, reverse=True)[:_WORDS]
    length = min(len(wanted), MAX_LINE)
    # Of two texts, one less than half as long as the other, less than `ALIKE` can be the same.
    fitting = [
        at
        for at, line in enumerate(lines)
        if line and length <= 2 * len(line) and (length == MAX_LINE or len(line) <= 2 * length)
    ]
    shared = {at: sum(word in lines[at] for word in words) for at in fitting}
    return sorted(fitting, key=lambda at: -shared[at])
