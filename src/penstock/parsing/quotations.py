r"""Calls that are shown and not made: in code, in a block quote, or quoted from untrusted input.

`CodeSpans` follows the code and the block quotes of a response. A fence is a line of three
backticks or tildes, or more, with an info string or none; as many alone on a line close it. It may
be indented, or begin an item of a list. Inline code begins with backticks and ends with as many. A
block quote is a line that begins with ``> ``. All of this is as CommonMark has it, but for one
thing: inside a fence, a line of as many backticks with a label opens another one. CommonMark ends
both at the next line that closes, and takes the one after for a new fence; models nest fences and
mean it.

Text is followed only when a marker of a call was found, and then from the last marker on, so text
without markers costs nothing. The decision depends only on the text before the marker: a fence that
is never closed protects all that follows, because a stream cannot wait for its end. For inline code
only the marker's own line counts, since many texts have a backtick too many. Where a marker was in
inline code or in a block quote, so is what follows, up to the closing backticks or a blank line: a
call has several markers.

`Untrusted` finds calls that input of the conversation has word for word. A page contains
``<tool_call>…``, the model repeats it to the user, and the call would be executed. It holds the
text that may be repeated (tool results, documents, earlier user text) and finds a call in it.
Nothing is searched before a call was found, so most responses cost nothing. Then a few words of the
call are looked up in the input, and only input that has all of them is compared.

Texts are compared without white space, and with JSON escapes and the common HTML entities decoded:
a page inside a JSON result has ``\"`` and ``\n``, a server in Go writes ``\u003c``, and the source
of a page ``&lt;``, where the model writes the characters themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import ToolCall

FencedCalls = Literal["text", "calls"]
"""What a call in a code fence, in inline code or in a block quote is."""

CALL_IN_CODE: Final = (
    'in a code fence, inline code or a block quote: text, not a call (see "fenced")'
)
"""The report of a call that is text because it is in code."""

FENCE: Final = "```"

MAX_HEAD: Final = 128
"""How much of the beginning of a line is kept: indentation, list markers, a fence, its label."""

_FENCE_LINE: Final = re.compile(
    r"^(?P<before>[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*)(?P<run>`{3,}|~{3,})(?P<rest>[^\n]*+)",
    re.MULTILINE,
)
_LABEL: Final = re.compile(r"[A-Za-z0-9_+.#-]{1,32}")
_QUOTE: Final = re.compile(r"[ \t]{0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*>[ \t]")
_TICKS: Final = re.compile(r"`+")
_TICKS_OR_BLANK_LINE: Final = re.compile(r"`+|\n[ \t\r]*+\n")

QuotedCalls = Literal["text", "calls"]
"""What becomes of a call that is quoted: it is text, or a call like any other."""

MIN_QUOTED: Final = 16
"""How many characters, without white space, a call needs to be recognised as quoted.

``[ping()]`` or ``<status/>`` may occur in any input by chance.
"""

MAX_WORDS: Final = 6
"""How many words of a call are looked up in the input before it is compared."""

MAX_LOOKED_UP: Final = 4096
"""In how much of a call words are looked for: a call may be a file."""

_UNSAFE: Final = 24
"""How far before the end of a text an escape may begin that the text ends within."""

_WORD: Final = re.compile(r"[A-Za-z0-9_]{3,}")
_ESCAPE: Final = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|[nrt])?")
_UNICODE: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_DROPPED: Final = b" \n\t\r\\"
_ENTITY: Final = re.compile(r"&#?[A-Za-z0-9]{1,8};")
_ENTITIES: Final = {
    **dict.fromkeys(("&lt;", "&#60;", "&#x3c;", "&#x3C;"), "<"),
    **dict.fromkeys(("&gt;", "&#62;", "&#x3e;", "&#x3E;"), ">"),
    **dict.fromkeys(("&quot;", "&#34;", "&#x22;"), '"'),
    **dict.fromkeys(("&apos;", "&#39;", "&#x27;"), "'"),
    "&nbsp;": "",
    "&amp;": "&",
}


# --- code ---


class CodeSpans:
    """Follows the code of one response up to each marker."""

    __slots__ = ("_depth", "_fence", "_head", "_is_shown", "_pieces", "_place", "_runs", "_seen",
                 "_ticks", "_until", "has_protected")  # fmt: skip

    def __init__(self) -> None:
        self.has_protected = False  # a marker was found in code
        self._pieces: list[str] | None = None  # of the block that is followed
        self._seen = 0  # how many of them
        self._place: object = None  # the channel that they are in
        self._fence = ""  # what opened the fence that is open
        self._depth = 0  # how many of the same kind are open inside of it
        self._is_shown = False  # a marker was found in that fence
        self._head = ""  # the beginning of the line
        self._ticks = ""  # the backticks that opened inline code on the line
        self._runs = 0  # how many runs of backticks the line has
        self._until = ""  # what ends the code or the quotation that the last marker was in

    def note(self, pieces: list[str] | None, place: object) -> None:
        """Follow the text of the open block in the channel *place*; a new channel starts afresh."""
        if place is not self._place:
            self._place = place
            self._fence = self._until = ""
        if pieces is not self._pieces:
            self._pieces, self._seen = pieces, 0
            self._begin_line()
        if pieces is not None:
            if self._seen < len(pieces):
                self._follow("".join(pieces[self._seen :]))
            self._seen = len(pieces)

    def end_message(self, pieces: list[str] | None) -> None:
        """Start afresh after a message, whose last text is in *pieces*.

        A message that ends in code which shows a call is one that the code shows.
        """
        self.note(pieces, self._place)
        if not (self._until or (self._fence and self._is_shown)):
            self._fence = ""
            self._begin_line()

    def protects(self, marker: str, gap: str) -> bool:
        """Return whether *marker* is in code; *gap* is the white space before it, not emitted yet.

        A marker that is itself a fence is in code only inside a fence of another kind.
        """
        is_code = self._is_code(marker, gap)
        self.has_protected = self.has_protected or is_code
        return is_code

    def _is_code(self, marker: str, gap: str) -> bool:
        if marker.startswith(FENCE):
            return self._fence[:1] == "~" or len(self._fence) > len(FENCE)
        if gap:
            saved = (self._fence, self._depth, self._head, self._ticks, self._runs, self._until)
            self._follow(gap)
            fence, head, ticks, until = self._fence, self._head, self._ticks, self._until
            self._fence, self._depth, self._head, self._ticks, self._runs, self._until = saved
        else:
            fence, head, ticks, until = self._fence, self._head, self._ticks, self._until
        if fence:
            self._is_shown = True
            return True
        if not until and (ticks or _QUOTE.match(head)):
            until = self._until = ticks or ">"
        return until != ""

    # --- lines ---

    def _follow(self, text: str) -> None:
        if self._until:
            self._look_for_end(text)
        line = self._head + text
        if "`" not in line and "~" not in line:  # no line of it is a fence
            _, newline, last = text.rpartition("\n")
            if newline:
                self._begin_line()
            self._head = (self._head + last)[:MAX_HEAD]
            return
        first, newline, rest = text.partition("\n")
        self._continue_line(first)
        if not newline:
            return
        self._end_line()
        lines, newline, last = rest.rpartition("\n")
        if newline and (FENCE in lines or "~~~" in lines):
            for found in _FENCE_LINE.finditer(lines):
                self._take_fence(found)
        self._begin_line()
        self._continue_line(last if newline else rest)

    def _begin_line(self) -> None:
        self._head = self._ticks = ""
        self._runs = 0

    def _continue_line(self, text: str) -> None:
        if len(self._head) < MAX_HEAD:
            self._head = (self._head + text)[:MAX_HEAD]
        if self._fence or "`" not in text:
            return
        for run in _TICKS.findall(text):
            self._runs += 1
            if not self._ticks:
                self._ticks = run
            elif self._ticks == run:
                self._ticks = ""

    def _end_line(self) -> None:
        found = _FENCE_LINE.match(self._head)
        if found is not None:
            self._take_fence(found, runs=self._runs)

    def _take_fence(self, found: re.Match[str], *, runs: int = 0) -> None:
        """Handle a line that begins like a fence: it opens one, or closes the one that is open."""
        before, run, rest = found.group("before", "run", "rest")
        if not self._fence:
            # Backticks in the label mean that it is inline code.
            if run[0] == "~" or ("`" not in rest and runs <= 1):
                self._fence, self._depth, self._is_shown = run, 0, False
        elif run.startswith(self._fence) and not before.strip():
            # Some formats end a call after its fence, on the same line.
            rest = rest.strip()
            if rest and rest[0] != "<":
                self._depth += run == self._fence and _LABEL.fullmatch(rest) is not None
            elif self._depth:
                self._depth -= 1
            else:
                self._fence = ""

    def _look_for_end(self, text: str) -> None:
        """Look for the end of the code or the block quote that the last marker was in."""
        ends = _TICKS_OR_BLANK_LINE.findall(text)
        if any(end == self._until or end[0] == "\n" for end in ends):
            self._until = ""


# --- quotations ---


class Quotation(NamedTuple):
    """A call of the tool *name* that was shown as text, and *why*."""

    why: str
    name: str
    text: str


class Untrusted:
    """Input that a model may quote calls from.

    *sources* returns pairs of a description ("a tool result") and a text. *trusted* returns texts
    that are instructions (the system prompt, the last user message), and *own* the calls that the
    model made before: a call that is among them is a call, wherever else it occurs. Both are used
    only if a call occurs in *sources*. *quoted* decides what a quoted call is; *tools* decides it
    for single tools, by name or by a pattern such as ``read_*``, of which the first match counts.
    """

    def __init__(
        self,
        sources: Callable[[], Iterable[tuple[str, str]]],
        *,
        trusted: Callable[[], Iterable[str]] = tuple,
        own: Callable[[], Iterable[ToolCall]] = tuple,
        quoted: QuotedCalls = "text",
        tools: Mapping[str, QuotedCalls] | None = None,
    ) -> None:
        for value in (quoted, *(tools or {}).values()):
            check_choice("quoted", value)
        self._gather = sources
        self._trusted, self._own = trusted, own
        self._quoted, self._tools = quoted, tools or {}
        self._inputs: list[_Input] | None = None

    @classmethod
    def of(cls, given: Untrusted | str | Iterable[str] | None) -> Untrusted | None:
        """Return *given*, which may be plain texts, in the form that parsers use."""
        if given is None or isinstance(given, Untrusted):
            return given
        texts = [given] if isinstance(given, str) else list(given)
        return cls(lambda: [("untrusted input", text) for text in texts])

    def find_source(self, text: str, name: str, arguments: dict[str, Any]) -> str:
        """Return the description of the input that quotes the call *text*; empty if none does."""
        if self._is_exempt(name):
            return ""
        suspects = list(self._suspects(text))
        needle = fold(text) if suspects else b""
        if len(needle) < MIN_QUOTED:
            return ""
        found = next((one for one in suspects if needle in one.folded), None)
        if found is None or self._has_been_made(name, arguments):
            return ""
        return "" if any(needle in fold(said) for said in self._trusted()) else found.source

    def follow(self, text: str, name: str) -> Trail | None:
        """Return a trail for a call of *name* that begins with *text*; None if it is not quoted."""
        if self._is_exempt(name) or not text.strip():
            return None
        trail = Trail(list(self._suspects(text)))
        return trail if trail.continues_with(text) else None

    def _is_exempt(self, name: str) -> bool:
        rule = next((rule for one, rule in self._tools.items() if fnmatchcase(name, one)), None)
        return (rule or self._quoted) == "calls"

    def _suspects(self, text: str) -> Iterable[_Input]:
        """Yield the inputs that have the longest words of *text*, which are the rarest."""
        if self._inputs is None:
            self._inputs = [_Input(source, said) for source, said in self._gather() if said]
        words = _find_words(text)
        for one in self._inputs:
            if one.has_all(words):
                yield one

    def _has_been_made(self, name: str, arguments: dict[str, Any]) -> bool:
        """Return whether the model made this very call before: tools echo what they ran."""
        try:
            return any(
                call.complete and call.name == name and call.arguments == arguments
                for call in self._own()
            )
        except RecursionError:  # values deeper than Python compares
            return False


class _Input:
    """One text of the conversation, with its description."""

    __slots__ = ("_absent", "_folded", "source", "text")

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.text = text
        self._folded: bytes | None = None
        self._absent: set[str] = set()  # words that are not in it

    @property
    def folded(self) -> bytes:
        """The text as it is compared."""
        if self._folded is None:
            self._folded = fold(self.text)
        return self._folded

    def has_all(self, words: list[str]) -> bool:
        """Return whether all of *words* occur; a missing one is looked up once per response."""
        if not self._absent.isdisjoint(words):
            return False
        missing = next((word for word in words if word not in self.text), None)
        if missing is not None:
            self._absent.add(missing)
        return missing is None


class Trail:
    """Follows a call that may be quoted as it comes: where it occurs in each of *inputs*."""

    __slots__ = ("_places",)

    def __init__(self, inputs: list[_Input]) -> None:
        self._places = dict.fromkeys(inputs, 0)

    def continues_with(self, text: str) -> bool:
        """Return whether *text*, which is all of the call so far, occurs in an input.

        A longer text occurs nowhere but where its beginning does, so each place is looked at once.
        """
        needle = fold(text[: _find_safe_end(text)])
        for one, place in list(self._places.items()):
            found = one.folded.find(needle, place)
            if found == -1:
                del self._places[one]
            else:
                self._places[one] = found
        return bool(self._places)


def fold(text: str) -> bytes:
    """Return *text* as it is compared: without white space, escapes and entities decoded.

    Plain replacements on bytes: a pattern takes ten times as long, and the input may be megabytes.
    """
    if "\\" in text:
        has_codes = "\\u" in text
        if has_codes:
            text = _UNICODE.sub(_decode_escape, text)
        for escape in ("\\n", "\\r", "\\t"):
            text = text.replace(escape, "")
        if has_codes and _json.SURROGATE.search(text):  # JSON writes an emoji as two halves
            text = text.replace("\\", "")
            text = _json.join_surrogates(text, lone="replace")
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    return text.encode("utf-8", "surrogatepass").translate(None, _DROPPED)


def check_choice(option: str, value: object) -> None:
    """Raise `UsageError` unless *value* is valid for *option*: `text` or `calls`."""
    if value not in ("text", "calls"):
        raise UsageError(f'{option} must be "text" or "calls", not {value!r}')


def _decode_escape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def _find_safe_end(text: str) -> int:
    """Find up to where *text* reads the same whatever follows it: escapes may continue."""
    end = max(0, len(text) - _UNSAFE)
    begins = [at for at in (text.find("\\", end), text.find("&", end)) if at != -1]
    if not begins:
        return len(text)
    at = min(begins)
    while at and text[at - 1] == "\\":
        at -= 1
    return at


def _find_words(text: str) -> list[str]:
    """Return the longest words of *text*; no way of quoting changes them."""
    plain = _ENTITY.sub(" ", _ESCAPE.sub(" ", text[:MAX_LOOKED_UP]))
    return sorted({*_WORD.findall(plain)}, key=len, reverse=True)[:MAX_WORDS]
