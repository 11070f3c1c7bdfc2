r"""Calls that a model quotes: text that untrusted input of the conversation has word for word.

A page says ``<tool_call>…``, the model repeats it to the user, and an engine runs it. `Untrusted`
holds what such text may come from (tool results, documents, earlier user text) and finds a call in
it. Nothing is looked at before a call was found, so most responses cost nothing. Then a few words
of the call are looked up in the input, and only input that has all of them is compared.

Texts are compared without white space, and with JSON escapes and the common HTML entities decoded:
a page inside a JSON result has ``\"`` and ``\n``, a server in Go writes ``\u003c``, and the source
of a page ``&lt;``, where the model writes what they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from penstock.errors import UsageError
from penstock.messages import ToolCall

QuotedCalls = Literal["text", "calls"]
"""What becomes of a call that is quoted: it is text, or a call like any other."""

MIN_QUOTED: Final = 16
"""How many characters a call has, white space not counted, that can be told to be quoted.

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
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Untrusted:
    """Input that a model may quote calls from, and what speaks for a call all the same.

    *sources* gives pairs of what a text is ("a tool result") and the text. *trusted* gives texts
    that are instructions (the system prompt, the last user message), and *own* the calls that the
    model made before: a call that is among them is a call, wherever else it occurs. Both are looked
    at only where a call occurs in *sources*. *quoted* says what a quoted call is, *tools* says it
    for single tools, by name or by a pattern such as ``read_*``; the first that fits counts.
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
        """Return *given* as what parsers take: texts of the caller's own, or None for none."""
        if given is None or isinstance(given, Untrusted):
            return given
        texts = [given] if isinstance(given, str) else list(given)
        return cls(lambda: [("untrusted input", text) for text in texts])

    def find_source(self, text: str, name: str, arguments: dict[str, Any]) -> str:
        """Say what the call of *name* that *text* is was quoted from; nothing where it was not."""
        if self._lets_pass(name):
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
        """Return what follows a call of *name* that begins with *text*; None where none has to."""
        if self._lets_pass(name) or not text.strip():
            return None
        trail = Trail(list(self._suspects(text)))
        return trail if trail.goes_on_with(text) else None

    def _lets_pass(self, name: str) -> bool:
        rule = next((rule for one, rule in self._tools.items() if fnmatchcase(name, one)), None)
        return (rule or self._quoted) == "calls"

    def _suspects(self, text: str) -> Iterable[_Input]:
        """Yield the inputs that have all words of *text*: the longest, which are the rarest."""
        if self._inputs is None:
            self._inputs = [_Input(source, said) for source, said in self._gather() if said]
        words = _words_of(text)
        for one in self._inputs:
            if one.has_all(words):
                yield one

    def _has_been_made(self, name: str, arguments: dict[str, Any]) -> bool:
        """Return whether the model made this very call before: harnesses echo what they ran."""
        try:
            return any(
                call.complete and call.name == name and call.arguments == arguments
                for call in self._own()
            )
        except RecursionError:  # values deeper than Python compares
            return False


class _Input:
    """One text of the conversation, and what it is."""

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
        """Return whether all of *words* occur; one that does not is looked up once a response."""
        if not self._absent.isdisjoint(words):
            return False
        missing = next((word for word in words if word not in self.text), None)
        if missing is not None:
            self._absent.add(missing)
        return missing is None


class Trail:
    """Follows a call that may be quoted, while it comes: where it occurs in each of *inputs*."""

    __slots__ = ("_places",)

    def __init__(self, inputs: list[_Input]) -> None:
        self._places = dict.fromkeys(inputs, 0)

    def goes_on_with(self, text: str) -> bool:
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
            text = _UNICODE.sub(_unescaped, text)
        for escape in ("\\n", "\\r", "\\t"):
            text = text.replace(escape, "")
        if has_codes and _SURROGATE.search(text):  # JSON writes an emoji as two halves
            text = text.replace("\\", "")
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    return text.encode("utf-8", "surrogatepass").translate(None, _DROPPED)


def check_choice(option: str, value: object) -> None:
    """Raise `UsageError` unless *value* is what *option* may be: `text` or `calls`."""
    if value not in ("text", "calls"):
        raise UsageError(f'{option} must be "text" or "calls", not {value!r}')


def _unescaped(found: re.Match[str]) -> str:
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


def _words_of(text: str) -> list[str]:
    """Return the longest words of *text*; no way of quoting changes them."""
    plain = _ENTITY.sub(" ", _ESCAPE.sub(" ", text[:MAX_LOOKED_UP]))
    return sorted({*_WORD.findall(plain)}, key=len, reverse=True)[:MAX_WORDS]
