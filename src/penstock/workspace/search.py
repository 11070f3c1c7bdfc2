"""Find a piece of text in a file, and explain to a model why it is not there.

This is fast for every input: matches are counted up to a limit, and only a limited amount of text
is compared. The edit guard uses it in the middle of a stream.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import islice
from typing import Final
from unicodedata import normalize

from penstock.errors import ToolError, shorten

MAX_PLACES: Final = 10
"""How many matches are listed."""

MAX_COUNTED: Final = 1_000
"""How many matches are counted; the exact number above that does not help."""

MAX_LINES: Final = 20_000
"""How many lines of a file are searched for the nearest one."""

MAX_COMPARED: Final = 40_000
"""How many characters are compared to find the nearest line: about ten milliseconds."""

MAX_LINE: Final = 120
"""How many characters of a line are compared: the cost is quadratic."""

MAX_SHOWN_LINE: Final = 300
"""How many characters of a line are shown: some files have a single line."""

ALIKE: Final = 0.6
"""The similarity from which a line is shown; less similar ones are misleading."""

_FINALISTS: Final = 4  # how many lines are compared completely
_WORDS: Final = 8  # how many words of a line are searched in others
_NOTHING: Final = "Read the file again: it contains nothing similar."


# --- matches ---


def line_at(text: str, place: int) -> int:
    """Return the number of the line, from one, that contains the offset *place*."""
    return text.count("\n", 0, place) + 1


def list_lines(places: list[int], text: str) -> str:
    """Return the numbers of the lines of *places* as text, up to a limit."""
    lines = sorted({line_at(text, place) for place in places[:MAX_PLACES]})
    more = ", …" if len(places) > MAX_PLACES else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more}"


def find_places(text: str, piece: str) -> list[int]:
    """Return the offsets of *piece* in *text*, overlaps included, at most one over the limit."""
    places: list[int] = []
    at = text.find(piece)
    while at != -1 and len(places) <= MAX_COUNTED:
        places.append(at)
        at = text.find(piece, at + 1)
    return places


def check_single(places: list[int], text: str) -> int:
    """Return the only offset in *places*; raise `ToolError` if there are several."""
    if len(places) == 1:
        return places[0]
    is_many = len(places) > MAX_COUNTED
    count = f"more than {MAX_COUNTED}" if is_many else str(len(places))
    raise ToolError(
        f"The text to replace is in the file {count} times"
        f" (in {list_lines(places, text)}). Add lines around it until it is there once."
    )


def length_found(text: str, within: str) -> int:
    """Return the length of the longest prefix of *text* that is somewhere *within*."""
    least, most = 0, len(text)
    while least < most:
        middle = (least + most + 1) // 2
        if text[:middle] in within:
            least = middle
        else:
            most = middle - 1
    return least


# --- the nearest line ---


def describe_nearest(text: str, piece: str) -> str:
    """Describe what in *text* is most similar to *piece*, which is not in it.

    If *piece* has several lines, its first wrong line is looked for.
    """
    begin, wanted = _find_first_wrong(text, piece)
    if not wanted.strip():
        return _NOTHING
    nearest = _describe_line(text.split("\n", MAX_LINES)[:MAX_LINES], wanted)
    if not piece[:begin].strip():
        return nearest
    return f"Its line {line_at(piece, begin)} is the first that is wrong. {nearest}"


def _find_first_wrong(text: str, piece: str) -> tuple[int, str]:
    """Return the first line of *piece* that is not in *text*, after its offset."""
    first = len(piece) - len(piece.lstrip("\n"))
    body = piece.strip("\n")
    found = length_found(body, text)
    # If all of it is in the text, it is in the wrong place: then its first line is the wrong one.
    begin = body.rfind("\n", 0, found) + 1 if found < len(body) else 0
    for line in body[begin:].split("\n"):
        if line.strip():
            return first + begin, line
        begin += len(line) + 1
    return first, ""


def _describe_line(lines: list[str], wanted: str) -> str:
    words = _split_words(wanted)
    for number, line in enumerate(lines, 1):
        if line == wanted:
            return f"Line {number} is the same, but the lines around it are not."
        if len(line) < len(wanted) * 4 + MAX_LINE and _split_words(line) == words:
            is_space = line.split() == wanted.split()
            difference = "white space" if is_space else "how its accents are encoded"
            return f"Line {number} differs only in {difference}: {_show(line)}"
    found = _find_most_alike(lines, wanted)
    return _NOTHING if found is None else f"The nearest is line {found + 1}: {_show(lines[found])}"


def _show(line: str) -> str:
    return repr(shorten(line, MAX_SHOWN_LINE))


def _split_words(line: str) -> list[str]:
    """Return the words of *line*, with composed characters."""
    return (line if line.isascii() else normalize("NFC", line)).split()


def _find_most_alike(lines: list[str], wanted: str) -> int | None:
    """Return the index of the line most similar to *wanted*.

    A quick comparison of the likely lines selects a few that are compared completely.
    """
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:MAX_LINE])
    room = MAX_COMPARED
    scores: dict[str, tuple[float, int]] = {}
    for at in _list_likely(lines, wanted):
        line = lines[at][:MAX_LINE]
        room -= len(line)
        if room < 0:
            break
        if line not in scores:
            matcher.set_seq1(line)
            is_likely = matcher.real_quick_ratio() > ALIKE
            scores[line] = (matcher.quick_ratio() if is_likely else 0.0, -at)
    best, found = ALIKE, None
    ranked = sorted(scores.items(), key=lambda item: item[1], reverse=True)
    for line, (score, at) in islice(ranked, _FINALISTS):
        if score > best:
            matcher.set_seq1(line)
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, -at
    return found


def _list_likely(lines: list[str], wanted: str) -> list[int]:
    """Return the indexes of lines of similar length, those that share words with it first."""
    words = sorted(set(wanted[:MAX_LINE].split()), key=len, reverse=True)[:_WORDS]
    length = min(len(wanted), MAX_LINE)
    # If one text is less than half as long as the other, their similarity is below `ALIKE`.
    fitting = [
        at
        for at, line in enumerate(lines)
        if line and length <= 2 * len(line) and (length == MAX_LINE or len(line) <= 2 * length)
    ]
    shared = {at: sum(word in lines[at] for word in words) for at in fitting}
    return sorted(fitting, key=lambda at: -shared[at])
