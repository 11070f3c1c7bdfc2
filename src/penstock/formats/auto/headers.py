"""The header that an answer begins inside of, since the prompt has begun it.

A prompt that nobody has told of may have, too: some models write the rest of a header first of all.
Such a rest counts only where nothing else begins like that.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.formats.auto.answer import Answer
from penstock.formats.auto.delegates import Delegate
from penstock.formats.auto.table import beginning_of
from penstock.parsing import Scanner, Verdict
from penstock.parsing.bodies.auto_calls import KnownCalls

MAX_SIGN: Final = 256
"""How much of the beginning of an answer is looked at."""

MAX_THOUGHT: Final = 2048
"""How much is looked at where the answer may be a thought whose tokens a server has stripped."""


class Header(NamedTuple):
    """What the prompts of a *format* end with: its *marker*, and what stands behind that.

    The answer goes on with it where *sign* matches both; it may do so while they are *undecided*. A
    group `name` has to be a known tool. Without a sign the format's reader tells. *reach* is how
    much of the answer is looked at.
    """

    format: str
    marker: str
    begun: str = ""
    undecided: re.Pattern[str] | None = None
    sign: re.Pattern[str] | None = None
    reach: int = MAX_SIGN


def muse(marker: str, begun: str) -> Header:
    """Give the header of a message to somebody, which is no tool of another format."""
    undecided = re.compile(r"assistant\s{0,8}(?:t|to|to=[^<]{0,160}(?:<\|?)?)?")
    sign = re.compile(r"assistant\s{0,8}to=(?!functions\.)[^<]{1,160}<\|m")
    return Header("muse_glimmer", marker, begun, undecided, sign)


_THOUGHT: Final = r"analysis[^\W_]"
_BEGUN_THOUGHT: Final = rf"{beginning_of('analysis')}|{_THOUGHT}[\s\S]{{0,{MAX_THOUGHT}}}"
_HARMONY: Final = Header(
    "harmony",
    "<|start|>",
    "assistant",
    undecided=re.compile(rf"assistant(?:{_BEGUN_THOUGHT})"),
    sign=re.compile(
        rf"assistant(?:(?!{_THOUGHT}|(?:{beginning_of('analysis')})\Z)"
        rf"|{_THOUGHT}[\s\S]{{0,{MAX_THOUGHT}}}?assistant(?:final|commentary\s{{1,8}}to=))"
    ),
    reach=MAX_THOUGHT,
)
"""A word of an answer may begin as a thought without tokens does: only the end of it tells."""

_NAME: Final = r"\s{0,8}(?P<name>[A-Za-z0-9_.:-]{0,128})"

USUAL: Final[tuple[Header, ...]] = (
    muse("<|start|>", "assistant"),
    _HARMONY,
    Header(
        "inkling",
        "<|message_model|>",
        undecided=re.compile(rf"{_NAME}(?:<(?:\|(?:c(?:o(?:n(?:t)?)?)?)?)?)?"),
        sign=re.compile(rf"{_NAME}<\|cont"),
    ),
    Header(
        "functionary_v3_2",
        ">>>",
        undecided=re.compile(rf"{_NAME}(?:\n\s{{0,99}})?"),
        sign=re.compile(rf"{_NAME}\n\s{{0,99}}\{{"),
    ),
)
"""Headers that a prompt may have begun which nobody has told of."""


class FirstHeader(Delegate):
    """Lets the reader of each of *headers* look at how the answer begins."""

    def __init__(self, headers: tuple[Header, ...], answer: Answer) -> None:
        super().__init__(answer)
        self._waiting = list(headers)

    def read(self, scanner: Scanner, calls: KnownCalls) -> Verdict:  # type: ignore[override]
        """Let one reader after the other look, until one finds its header."""
        verdict = super().read(scanner, calls)
        while verdict is Verdict.PROSE and self._waiting and calls.is_first:
            self._body = None
            scanner.give_back()
            scanner.begin_call()
            verdict = super().read(scanner, calls)
        return verdict

    def _choose(self, scanner: Scanner, calls: KnownCalls) -> Verdict | None:
        while self._waiting:
            may_begin = _may_begin(self._waiting[0], scanner, calls)
            if may_begin is None:
                return Verdict.MORE
            header = self._waiting.pop(0)
            if may_begin:
                self._begin(header, calls)
                return None
        return Verdict.PROSE

    def _begin(self, header: Header, calls: KnownCalls) -> None:
        """Let the reader of *header* read what the prompt says."""
        self._format = header.format
        self._body = self._answer.syntax_of(header.format).body(header.marker)
        prompt = Scanner()
        prompt.push(header.marker + header.begun)
        prompt.at = len(header.marker)
        self._body.read(prompt, calls)


def _may_begin(header: Header, scanner: Scanner, calls: KnownCalls) -> bool | None:
    """Tell whether the answer goes on with *header*; None where only more text will tell."""
    if header.sign is None or header.undecided is None:
        return True
    text = header.begun + scanner.text[scanner.at : scanner.at + header.reach]
    found = header.sign.match(text)
    if found is not None:
        name = found.groupdict().get("name")
        return name is None or name in calls.schemas
    found = header.undecided.fullmatch(text)
    if found is None or len(text) == len(header.begun) + header.reach:
        return False
    name = found.groupdict().get("name")
    if name is None or any(known.startswith(name) for known in calls.schemas):
        return None
    return False
