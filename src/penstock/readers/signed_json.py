"""Calls in JSON without a marker: a bracket opens them, and its text looks like a call.

Three kinds: JSON anywhere that begins like a call (`Profile`), JSON at the beginning of a response
or of a code fence (`LeadingJSONReader`), and an object that holds the text of the response
(`ResponseReader`). `bare_json` builds on the same reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.arguments import find_damaged_key
from penstock.parsing.body import CALL_CUT, Syntax, Verdict
from penstock.parsing.call_shape import CALL, HELD_NAME, CallShape
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.envelope import (
    BrokenArgumentsError,
    BrokenJSONError,
    Envelope,
    JSONFlow,
    JSONSteps,
    NameRule,
    NotMeantError,
)
from penstock.readers.json_calls import (
    BLANK,
    SEPARATOR,
    SURPLUS,
    Balance,
    JSONValueReader,
    PlainCall,
    find_next_object,
    is_quote,
    precedes_member,
)
from penstock.values.coercion import coerce
from penstock.values.incremental_state import Change
from penstock.values.schema import Schema

# --- signatures ---------------------------------------------------------------------------------

MAX_SIGNATURE: Final = 256
"""The length of a signature with its white space; longer text is not a call."""

NO_CALL: Final = r"(?<=[{\[])[ \t\r\n]{0,99}[^ \t\r\n\"'{]"
"""A pattern: after a bracket, it excludes a call."""

_WHITESPACE: Final = " \t\r\n"
_TOKEN: Final = re.compile(r"""["']\w+["']|.""")


class CallSignature:
    """The beginnings of JSON texts that may be calls, up to a key that shows it: ``{"tool":``.

    They are written without white space, but may have it between tokens. Every bracket of a
    response is checked, so the first character that differs ends the check.
    """

    def __init__(self, beginnings: Iterable[str]) -> None:
        self._beginnings = tuple(beginnings)
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._seconds: dict[str, str] = {}  # the characters that may follow the bracket
        for bracket in "{[":
            rests = [text[1:] for text in self._beginnings if text.startswith(bracket)]
            self._patterns[bracket] = re.compile("|".join(map(_spaced, rests)) or r"(?!)")
            self._seconds[bracket] = _WHITESPACE + "".join({rest[0] for rest in rests})

    def judge(self, bracket: str, text: str, at: int) -> bool | None:
        """Return whether *text* from *at* on, after *bracket*, continues as a signature.

        Returns None if more text is needed.
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
    """Return a pattern of *text* that allows white space before each of its tokens."""
    return "".join(rf"[{_WHITESPACE}]*+{re.escape(token)}" for token in _TOKEN.findall(text))


class SignedJSONReader(JSONValueReader):
    """Reads the value that *bracket* begins, if it has the *signature* of a call.

    The bracket is text, and no error is reported, until it is certain that a call was meant. From
    then on, a value that breaks is text as a whole, up to where its brackets balance.
    """

    def __init__(self, bracket: str, shape: CallShape, signature: CallSignature) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._signature = signature
        self._has_begun = False
        self._balance: Balance | None = None  # of a value that broke

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        verdict: Verdict | None = None
        if not self._has_begun:
            verdict = self._judge(scanner, calls)
            if verdict is None:
                self._begin(scanner, calls)
        while verdict is None:
            if self._balance is not None:
                scanner.advance_to(self._balance.find_end(scanner.text, scanner.at))
                verdict = Verdict.GIVE_UP if self._balance.is_even else Verdict.MORE
            elif not self._is_complete:
                verdict = self._read_on(scanner, calls)
            elif self._closed == self._closed_before:
                verdict = Verdict.NOT_A_CALL
            else:
                verdict = self._read_after(scanner, calls)
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text: complete calls of a list are valid."""
        if self._plain is not None:
            self._settle(scanner, calls)
        if self._ending:
            try:
                self._settle(scanner, calls)
            except (ParseError, NoCallError) as exc:
                if self._judge_broken(exc, "", scanner, calls) is not None:
                    scanner.skip_all()
                    return Verdict.NOT_A_CALL
            if self._base and SEPARATOR.fullmatch(scanner.text, scanner.at):
                scanner.skip_all()  # before a call that did not come
        is_open = self._closed == self._closed_before or self._envelope is not None
        has_value = self._has_begun and self._balance is None
        if has_value and (self._is_complete or not is_open):
            scanner.advance_to(skip_match(SURPLUS, scanner.text, scanner.at))
            return Verdict.DONE
        scanner.skip_all()
        if calls.writer is None and self._balance is None:
            return Verdict.NOT_A_CALL
        self.error = self.error or CALL_CUT
        return Verdict.GIVE_UP

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which is broken or incomplete JSON."""
        return super().repair(text if self._closed else self._bracket + text, ended=ended)

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Judge the bracket before anything is read; return None if it may begin a call."""
        del calls
        is_signed = self._signature.judge(self._bracket, scanner.text, scanner.at)
        if is_signed is None:
            return Verdict.MORE
        return None if is_signed else Verdict.NOT_A_CALL

    def _begin(self, scanner: Scanner, calls: CallSink) -> None:
        """Begin the value with the bracket, which the scanner has passed."""
        self._has_begun = True
        self._begin_value()
        self._start = scanner.position - len(self._bracket)
        if not self._read_at_once(scanner, calls):
            self._begin_steps(scanner, calls)

    def _find_value(self, scanner: Scanner) -> int:
        """Return where the value begins; -1 if that was read before."""
        return scanner.at - len(self._bracket)

    def _find_plain(self, value: Any, schemas: Mapping[str, Schema]) -> list[PlainCall]:
        """Return the calls that *value* is, if all fit their schemas: then none can break."""
        plain = super()._find_plain(value, schemas)
        return plain if all(_fits(call.arguments, schemas[call.name]) for call in plain) else []

    def _shape_plain(self, item: Any) -> PlainCall | None:
        """Return the call that *item* is, perhaps in an object around it, a holder, or both."""
        shape = self._shape
        if isinstance(item, dict) and len(item) == 1:
            ((key, inside),) = item.items()
            if key in shape.outer_keys and isinstance(inside, dict):
                item = inside
        if isinstance(item, dict) and len(item) == 1:
            ((key, inside),) = item.items()
            if key in shape.holders and isinstance(inside, dict) and HELD_NAME in inside:
                item = inside
        return super()._shape_plain(item)

    def _begin_steps(self, scanner: Scanner, calls: CallSink) -> None:
        """Read the bracket in steps; the scanner is after it."""
        changes, _ = self._steps.step(self._bracket, 0, JSONFlow.WAITS)
        self._follow(changes, scanner.at, scanner, calls)

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Continue with the value."""
        if scanner.is_at_end:
            return Verdict.MORE
        if self._plain is not None:
            return self._check_plain(scanner, calls)
        awaits = self._steps.awaits
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            return self._judge_broken(exc, awaits, scanner, calls)

    def _check_plain(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Emit the call that was read at once if it ends here; return None to continue."""
        is_early = precedes_member(scanner.text, scanner.at)
        if is_early is None:
            return Verdict.MORE
        if is_early:  # In steps it breaks where it should.
            scanner.rewind(scanner.position - self._start - len(self._bracket))
            self._plain = None
            self._begin_value()
            self._begin_steps(scanner, calls)
        else:
            self._settle(scanner, calls)
        return None

    def _judge_broken(
        self, exc: ParseError | NoCallError, awaits: str, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        """Return the verdict on a value that broke; None if a call was meant, which is skipped."""
        self._note_error(exc, scanner)
        broken = exc if isinstance(exc, BrokenJSONError) else None
        is_meant = calls.writer is not None or self._names_tool(broken, calls)
        if not is_meant or isinstance(exc, NotMeantError):
            if broken is not None:  # The end of a step depends on the chunks.
                scanner.advance_to(max(scanner.at, broken.at))
            return Verdict.NOT_A_CALL
        if broken is None or isinstance(broken, BrokenArgumentsError):
            awaits = self._steps.awaits
        elif not is_quote(awaits):  # The text of a comment is read already.
            scanner.advance_to(max(scanner.at, broken.at))
        self._balance = Balance(self._depth - self._base, awaits)
        return None

    def _names_tool(self, broken: BrokenJSONError | None, calls: CallSink) -> bool:
        """Return whether the JSON that is *broken* has named a tool, so that it may be repaired.

        Otherwise its text is read again: a call may begin in it.
        """
        if broken is None or not calls.is_repairing:
            return False
        return self._envelope is not None and self._envelope.name in calls.schemas

    def _read_after(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Process the end of the value; return None if another one begins."""
        del scanner, calls
        return Verdict.DONE


def _fits(arguments: dict[str, Any], schema: Schema) -> bool:
    """Return whether no argument has a damaged name, and none has to be coerced."""
    if find_damaged_key(arguments, schema) is not None:
        return False
    for key, value in arguments.items():
        child = schema.property(key)
        if child is None or (child.is_string and isinstance(value, str)):
            continue
        if coerce(value, child, typed=True) is not value:
            return False
    return True


# --- anywhere in a response ---------------------------------------------------------------------


class Profile(Syntax, Struct, frozen=True):
    """The *signatures* and the *shape* of calls for one group of *providers*.

    A call opens as soon as it names a known tool, in any case.
    """

    starts = ("{", "[")
    unless = NO_CALL
    name: str
    providers: frozenset[str]
    signatures: tuple[str, ...]
    shape: CallShape

    def body(self, marker: str) -> ShapedCallReader:
        """Return a new reader for the text after *marker*."""
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
    shape=CallShape(
        names=("name", "function"),
        outer_keys=("tool",),
        holders=("function",),
        lists=("tool_calls", "tools"),
        written_in=("tool", "function"),
    ),
)

GEMINI: Final = Profile(
    name="gemini",
    providers=frozenset({"gemini"}),
    signatures=('{"name":', '[{"name":'),
    shape=CallShape(names=("name",), arguments=("args", "arguments", "parameters", "input")),
)

DEFAULT: Final = Profile(
    name="default",
    providers=frozenset(),
    signatures=('{"tool":', '{"function":'),
    shape=CallShape(
        names=("function",),
        arguments=("parameters", "arguments", "args", "input"),
        outer_keys=("tool",),
        holders=("function",),
        written_in=("tool",),
    ),
)


def find_profile(provider: str | None) -> Profile:
    """Return the profile of *provider*, whose name may be in any case, or the default."""
    name = (provider or "").casefold()
    return next((known for known in (OPENAI, GEMINI) if name in known.providers), DEFAULT)


class ShapedCallReader(SignedJSONReader):
    """Reads the calls of one value as *profile* describes them."""

    def __init__(self, bracket: str, profile: Profile) -> None:
        super().__init__(bracket, profile.shape, _signature(profile.signatures))

    def _new_envelope(self, calls: CallSink) -> Envelope:
        return Envelope(calls, self._base, self._shape, NameRule.FOLDED)

    def _shape_plain(self, item: Any) -> PlainCall | None:
        """Return the call that *item* is; its id counts only before its name."""
        call = super()._shape_plain(item)
        return None if call is not None and call.id else call


@lru_cache(maxsize=64)
def _signature(beginnings: tuple[str, ...]) -> CallSignature:
    return CallSignature(beginnings)


# --- at the beginning of a response or of a fence -----------------------------------------------

MAX_UNNAMED: Final = 1024
"""Within how many characters the first call has to name its tool, or begin its arguments.

Until then nothing can be emitted, and a response that is other JSON should stream."""

_ANY: Final = CallSignature(())


class LeadingJSONReader(SignedJSONReader):
    """Reads the calls of *shape* that *bracket* begins, at the beginning of a response.

    They are calls only if the first of them names a known tool; then the others of the same list
    or row are calls, whatever their names. If the shape has outer_keys, an object is a call only in
    one of them.
    """

    def __init__(self, bracket: str, shape: CallShape = CALL) -> None:
        super().__init__(bracket, shape, _ANY)
        self._is_marked = False  # a marker opened the calls: any name is accepted
        self._is_sure = False  # the first call has named its tool, or begun its arguments
        self._lead = 0  # the length of the text between the start marker and the value

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        verdict = super().read(scanner, calls)
        if verdict is Verdict.MORE and self._has_begun and not self._is_sure:
            return Verdict.NOT_A_CALL if self._is_late(scanner, len(scanner.text)) else verdict
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text; part of a cut marker is not text."""
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self.end.startswith(scanner.unread.lstrip()):
            scanner.skip_all()
        if verdict is Verdict.NOT_A_CALL and self._has_begun and self._is_marked:
            self.error = self.error or CALL_CUT
            return Verdict.GIVE_UP
        return verdict

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without the text before its value."""
        return super().repair(text if self._closed else text[self._lead :], ended=ended)

    def _new_envelope(self, calls: CallSink) -> Envelope:
        # Without a start marker, only an object that names a known tool is a call.
        is_wrapped = self._base == 0 and bool(self._shape.outer_keys)
        is_first = not self._closed and not self._is_marked
        rule = NameRule.KNOWN if is_wrapped or is_first else NameRule.ANY
        return Envelope(calls, self._base, self._shape, rule, wrapped=is_wrapped)

    def _read_at_once(self, scanner: Scanner, calls: CallSink) -> bool:
        """Read a value all at once, unless its name may come too late."""
        beginning = scanner.text[scanner.at : scanner.at + MAX_UNNAMED // 2]
        is_wrapped = bool(self._shape.outer_keys)
        if beginning.count("{") < 1 + is_wrapped:  # that of the arguments, which follow the name
            return False
        self._is_sure = super()._read_at_once(scanner, calls) or self._is_sure
        return self._is_read

    def _shape_plain(self, item: Any) -> PlainCall | None:
        """Return the call that *item* is; if the shape has outer keys, it has to be in one."""
        outer = self._shape.outer_keys
        if outer and not (isinstance(item, dict) and any(key in item for key in outer)):
            return None
        return super()._shape_plain(item)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del scanner
        return None if calls.is_first else Verdict.NOT_A_CALL

    def _enter(self, scanner: Scanner, at: int) -> Verdict | None:
        """Enter the value that begins at *at*, after white space."""
        at = skip_match(BLANK, scanner.text, at)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "{[":
            self.error = "no JSON after the marker"
            return Verdict.BROKEN if self._is_marked else Verdict.NOT_A_CALL
        self._bracket = scanner.text[at]
        self._lead = at + 1 - scanner.at
        scanner.advance_to(at + 1)
        return None

    # --- inside the value ---

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: CallSink) -> None:
        super()._follow(changes, begin, scanner, calls)
        envelope = self._envelope
        if self._is_sure or envelope is None:
            return
        if envelope.rule is NameRule.ANY:
            self._is_sure = True
        elif envelope.name or envelope.has_arguments:
            self._is_sure = True
            if self._is_late(scanner, scanner.at):
                raise NotMeantError("the name comes too late")

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        verdict = super()._read_on(scanner, calls)
        is_broken = verdict is Verdict.NOT_A_CALL or self._balance is not None
        return Verdict.BROKEN if is_broken and self._is_marked else verdict

    def _is_late(self, scanner: Scanner, at: int) -> bool:
        return scanner.offset + at - self._start > MAX_UNNAMED

    # --- after the value ---

    def _read_after(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker or another value; return None if one begins."""
        found = find_next_object(scanner)
        if self.end:
            text, at = scanner.text, skip_match(BLANK, scanner.text, scanner.at)
            if text.startswith(self.end, at):
                scanner.advance_to(at + len(self.end))
                return Verdict.DONE
            if self.end.startswith(text[at : at + len(self.end)]):
                return Verdict.MORE
        if found is None:
            return Verdict.MORE
        if found == -1:
            return Verdict.UNTERMINATED
        self._bracket = "{"
        scanner.advance_to(found + 1)
        self._begin(scanner, calls)
        return None


class LabelledJSONReader(LeadingJSONReader):
    """Reads JSON after a *marker* that counts only with the *label* after it, up to *end*.

    With *known*, only known tools are called. A marker that is a bracket may also begin a response
    without the label. Markers are split in two parts where one is the beginning of another: only
    the following text shows which it is.
    """

    def __init__(self, marker: str, label: str, end: str = "", *, known: bool = False) -> None:
        super().__init__(marker)
        self.end = end
        self._label = label
        self._known = known

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without the end marker."""
        bare = text.rstrip()
        if self.end and bare.endswith(self.end):
            text = bare.removesuffix(self.end)
        return super().repair(text, ended=ended)

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        begin = skip_match(BLANK, scanner.text, scanner.at)
        end = begin + len(self._label)
        begun = scanner.text[begin:end]
        if not self._label.startswith(begun):
            return super()._judge(scanner, calls) if self._bracket in "{[" else Verdict.NOT_A_CALL
        if begun != self._label:
            return Verdict.MORE
        self._is_marked = not self._known
        return self._enter(scanner, end)


# --- text in JSON -------------------------------------------------------------------------------

RESPONSE: Final = "response"
"""The key of the text of a response."""

_SIGNATURE: Final = CallSignature((f'{{"{RESPONSE}":"',))


# llama.cpp's old generic format forced one of three objects: a call, a list of calls, or
# {"response": "…"} with the text.
class ResponseReader(LeadingJSONReader):
    """Reads leading calls, or an object with the text of the response: ``{"response": "…"}``.

    A model that is constrained to JSON (llama.cpp's generic format) writes its text so. The text is
    emitted decoded, as it arrives; other members of the object are ignored.
    """

    _response: JSONSteps | None = None  # reads the object, once it is known to have a response

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls or its text to *calls*."""
        if self._response is None and not self._has_begun and calls.is_first:
            is_response = _SIGNATURE.judge(self._bracket, scanner.text, scanner.at)
            if is_response is None:
                return Verdict.MORE
            if is_response:
                self._response = JSONSteps()
                self._response.step(self._bracket, 0, JSONFlow.WAITS)
        if self._response is None:
            return super().read(scanner, calls)
        return self._read_response(self._response, scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text, which ends the response, too."""
        if self._response is None:
            return super().finish(scanner, calls)
        is_broken = not self._response.awaits and bool(scanner.unread.strip())
        scanner.skip_all()
        return Verdict.NOT_A_CALL if is_broken else Verdict.DONE

    def _read_response(self, response: JSONSteps, scanner: Scanner, calls: CallSink) -> Verdict:
        """Emit the string; where the object breaks, the rest is text as it is."""
        moves = True
        try:
            while moves and not scanner.is_at_end and not response.complete:
                begin = scanner.at
                changes, end = response.step(scanner.text, begin, JSONFlow.STREAMS)
                scanner.advance_to(end)
                for change in changes:
                    if change.path == (RESPONSE,) and change.kind == "string":
                        calls.say(change.text)
                moves = scanner.at > begin or bool(changes)
        except BrokenJSONError:
            return Verdict.NOT_A_CALL
        return Verdict.DONE if response.complete else Verdict.MORE
