"""Calls in JSON that no marker opened: a bracket did, and what follows it looks like a call.

The bracket is text, and nobody is told, as long as it is not sure that a call was meant: no
signature follows, or no known tool is named. Once it is sure the value is the call's: where it
breaks all of it is text, up to where its brackets balance, and calls after it are still found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.envelope import Envelope, NotMeantError, Shape
from penstock.parsing.readers.json_calls import Balance, JSONValueReader, is_quote
from penstock.parsing.readers.json_steps import BrokenArgumentsError, BrokenJSONError, JSONFlow
from penstock.parsing.scanner import Scanner
from penstock.values.schema import Schema

# How JSON begins that may be a call, where no marker says so.
#
# A signature is the beginning of a JSON text up to the first key that tells, such as
# ``{"tool":``. White space between its tokens does not matter. It is looked for after every
# bracket of an answer, so the first character that differs ends the search.


MAX_SIGNATURE: Final = 256
"""Within how many characters a signature has to be whole: more white space is not a call."""

NO_CALL: Final = r"(?<=[{\[])[ \t\r\n]{0,99}[^ \t\r\n\"'{]"
"""What after a bracket says at once that no call begins there."""

_WHITESPACE: Final = " \t\r\n"
_TOKEN: Final = re.compile(r"""["']\w+["']|.""")


class CallSignature:
    """A set of beginnings, each written without white space."""

    def __init__(self, beginnings: Iterable[str]) -> None:
        self._beginnings = tuple(beginnings)
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._seconds: dict[str, str] = {}  # what may follow the bracket
        for bracket in "{[":
            rests = [text[1:] for text in self._beginnings if text.startswith(bracket)]
            self._patterns[bracket] = re.compile("|".join(map(_spaced, rests)) or r"(?!)")
            self._seconds[bracket] = _WHITESPACE + "".join({rest[0] for rest in rests})

    def judge(self, bracket: str, text: str, at: int) -> bool | None:
        """Return whether *text* from *at* on, after *bracket*, continues as a signature.

        None tells that only more text will tell.
        """
        if at < len(text) and text[at] not in self._seconds[bracket]:
            return False
        window = text[at : at + MAX_SIGNATURE]
        if self._patterns[bracket].match(window):
            return True
        if len(window) == MAX_SIGNATURE:
            return False
        begun = bracket + "".join(window.split())
        may_match = any(beginning.startswith(begun) for beginning in self._beginnings)
        return None if may_match else False


def _spaced(text: str) -> str:
    """Write a pattern of *text* that lets white space stand before each of its tokens."""
    return "".join(rf"[{_WHITESPACE}]*+{re.escape(token)}" for token in _TOKEN.findall(text))


class SignedJSONReader(JSONValueReader):
    """Reads the value that *bracket* begins, if it has the *signature* of a call."""

    def __init__(self, bracket: str, shape: Shape, signature: CallSignature) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._signature = signature
        self._has_begun = False
        self._balance: Balance | None = None  # of a value that broke

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._has_begun:
            verdict = self._judge(scanner, calls)
            if verdict is not None:
                return verdict
            self._begin(scanner, calls)
        verdict = None
        while verdict is None:
            if self._balance is not None:
                return self._skip(scanner, self._balance)
            if not self._steps.complete:
                verdict = self._read_on(scanner, calls)
            elif self._closed == self._closed_before:
                return Verdict.NOT_A_CALL
            else:
                verdict = self._read_behind(scanner, calls)
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: calls of a list that are complete stand."""
        is_open = self._closed == self._closed_before or self._envelope is not None
        if self._has_begun and (self._steps.complete or not is_open):
            return Verdict.DONE
        scanner.at = len(scanner.text)
        if calls.writer is None and self._balance is None:
            return Verdict.NOT_A_CALL
        self.error = self.error or "the call was cut"
        return Verdict.GIVE_UP

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        return super().mend(text if self._closed else self._bracket + text, ended=ended)

    # --- for subclasses ---

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Return what the bracket is, before anything is read; None tells that it may be a call."""
        del calls
        is_signed = self._signature.judge(self._bracket, scanner.text, scanner.at)
        if is_signed is None:
            return Verdict.MORE
        return None if is_signed else Verdict.NOT_A_CALL

    def _read_behind(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Say what the end of the value means; None tells that another value begins."""
        del scanner, calls
        return Verdict.DONE

    def _begin(self, scanner: Scanner, calls: CallSink) -> None:
        """Begin the value with the bracket, which the scanner has passed."""
        self._has_begun = True
        self._begin_value()
        self._start = scanner.offset + scanner.at - len(self._bracket)
        changes, _ = self._steps.step(self._bracket, 0, JSONFlow.WAITS)
        self._follow(changes, scanner.at, scanner, calls)

    # --- inside the value ---

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if scanner.at == len(scanner.text):
            return Verdict.MORE
        awaits = self._steps.awaits
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self._note_error(exc, scanner)
            if calls.writer is None or isinstance(exc, NotMeantError):
                if isinstance(exc, BrokenJSONError):  # How far a step goes depends on the cut.
                    scanner.at = max(scanner.at, exc.at)
                return Verdict.NOT_A_CALL
            self._balance = self._balance_from(exc, awaits, scanner)
            return None

    def _balance_from(self, exc: Exception, awaits: str, scanner: Scanner) -> Balance:
        """Begin to look for the end of a value that broke; *awaits* is how the last step began."""
        depth = self._depth - self._base
        if not isinstance(exc, BrokenJSONError) or isinstance(exc, BrokenArgumentsError):
            return Balance(depth, self._steps.awaits)
        if not is_quote(awaits):  # What a comment hides is passed already.
            scanner.at = max(scanner.at, exc.at)
        return Balance(depth, awaits)

    def _skip(self, scanner: Scanner, balance: Balance) -> Verdict:
        """Pass what is left of a value that broke."""
        scanner.at = balance.pass_over(scanner.text, scanner.at)
        return Verdict.GIVE_UP if balance.is_even else Verdict.MORE


# Calls in JSON as each provider's models were taught to write them, anywhere in an answer.
#
# A `Profile` is data: the signatures that tell a call from other JSON, and the shape it has
# then. A call opens as soon as it names a known tool; the name is matched as it is, then in any
# case.


class Profile(Struct, frozen=True):
    """What calls look like for one group of *providers*."""

    name: str
    providers: frozenset[str]
    signatures: tuple[str, ...]
    shape: Shape

    @property
    def starts(self) -> tuple[str, ...]:
        """The brackets that may open a call."""
        return ("{", "[")

    @property
    def folds(self) -> bool:
        """Brackets have no case."""
        return False

    @property
    def unless(self) -> str:
        """What may not follow a bracket that opens a call."""
        return NO_CALL

    def body(self, marker: str) -> ShapedCallReader:
        """Return a fresh reader for what follows *marker*."""
        return ShapedCallReader(marker, self)


OPENAI: Final = Profile(
    name="openai",
    providers=frozenset({"openai", "mistral", "deepseek", "grok"}),
    signatures=(
        '{"tool":',
        '{"tool_calls":',
        '{"tools":',
        '{"function":',
        '[{"tool":',
        '[{"function":',
    ),
    shape=Shape(
        names=frozenset({"function", "name"}),
        wrappers=frozenset({"tool"}),
        holders=frozenset({"function"}),
        lists=frozenset({"tool_calls", "tools"}),
    ),
)

GEMINI: Final = Profile(
    name="gemini",
    providers=frozenset({"gemini"}),
    signatures=('{"name":', '[{"name":'),
    shape=Shape(names=frozenset({"name"})),
)

DEFAULT: Final = Profile(
    name="default",
    providers=frozenset(),
    signatures=('{"tool":', '{"function":'),
    shape=Shape(
        names=frozenset({"function"}),
        wrappers=frozenset({"tool"}),
        holders=frozenset({"function"}),
    ),
)


def profile_of(provider: str | None) -> Profile:
    """Return the profile of *provider*, in any case; the default one for all that have none."""
    name = (provider or "").casefold()
    return next((known for known in (OPENAI, GEMINI) if name in known.providers), DEFAULT)


class ShapedCallReader(SignedJSONReader):
    """Reads the calls of one value as *profile* has them."""

    def __init__(self, bracket: str, profile: Profile) -> None:
        super().__init__(bracket, profile.shape, _signature(profile.signatures))

    def _new_envelope(self, calls: CallSink) -> Envelope:
        return _ToolEnvelope(calls, self._base, self._shape)


class _ToolEnvelope(Envelope):
    """An envelope that opens with its name, if that is a known tool's."""

    def _take_name(self, name: str) -> None:
        known = find_tool(name, self._calls.schemas)
        if known is None:
            raise NotMeantError(f"no tool is called {name!r}")
        self.name = known
        self._open()


def find_tool(name: str, schemas: Mapping[str, Schema]) -> str | None:
    """Return the known tool that *name* stands for: its own name, or the same in another case."""
    if name in schemas:
        return name
    folded = name.casefold()
    return next((known for known in schemas if known.casefold() == folded), None)


@lru_cache(maxsize=64)
def _signature(beginnings: tuple[str, ...]) -> CallSignature:
    return CallSignature(beginnings)
