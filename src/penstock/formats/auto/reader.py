"""A reader that becomes another one: what follows a marker says whose call it is.

It looks ahead just as far as the formats of its marker differ, and consumes nothing while it does.
Then the reader of that format takes over. A marker that is in code is prose, and a call of a
tool that nobody has is text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.errors import ParseError
from penstock.formats.auto.table import AutoRow, FormatChoice, beginning_of
from penstock.formats.base import Format
from penstock.formats.json_models import LeadingJSON
from penstock.formats.reasoning import STYLES
from penstock.parsing import BodyReader, Channel, OpenString, Syntax, Verdict
from penstock.parsing.call_sink import CallSink, KnownToolSink, RepairedCall, Shown
from penstock.parsing.output import Output
from penstock.parsing.readers.bare_json import FENCE, Fences, ListedCalls, begins_item
from penstock.parsing.readers.base import Repairable
from penstock.parsing.scanner import Scanner
from penstock.tools import Tool

# What `auto` has found out about one answer so far.


TILDES: Final = "~~~"
"""What else a fence may be made of."""

_GRANITE: Final = LeadingJSON(("<|tool_call|>",))  # a token says enough, wherever it stands
_BRACKETS: Final = ("{", "[")
_TICKS: Final = re.compile("`+")
_TICKS_OR_BLANK_LINE: Final = re.compile(r"`+|\n[ \t\r]*+\n")
_QUOTATION: Final = re.compile(r"[ \t]{0,3}>[ \t]")


class AutoResponse:
    """The syntaxes that one answer is read with, and what they have in common."""

    def __init__(self, formats: Mapping[str, Format], tools: Sequence[Tool]) -> None:
        self.format: Format | None = None  # of the first call
        self.in_tildes = False  # a fence of tildes is open
        self.reads_code = False  # calls in code are calls
        self.has_protected = False  # a marker was text because it was in code
        self.family = ""  # the format whose header opened the last channel
        self._formats = formats
        self._tools = tools
        self._code = ""  # the backticks that opened the code which markers are in
        self._code_seen: Shown = (None, 0)  # what was shown up to the last of these
        bare = ListedCalls()
        self.fences: Fences = bare.fences
        self._syntaxes: dict[str, Syntax] = {"bare_json": bare, "granite": _GRANITE}

    def syntax_of(self, name: str) -> Syntax:
        """Return the syntax of the format *name*, the same one for all of the answer."""
        found = self._syntaxes.get(name)
        if found is None:
            found = self._formats[name].calls.syntax(self._tools)
            self._syntaxes[name] = found
        return found

    def interrupts(self, name: str) -> bool:
        """Return whether a call of the format *name* may end the thought that it is in."""
        if self.family:
            return name == self.family
        reasoning = self._formats[name].usual_reasoning
        return reasoning is None or reasoning.interrupted

    def note_call(self, name: str) -> None:
        """Note that a call of the format *name* is complete."""
        if self.format is None:
            self.format = self._formats[name]

    def is_quoted(self, line: str) -> bool:
        """Return whether what follows *line* is in code: in a fence, or after a backtick."""
        if self.fences.ticks or self.in_tildes:
            return True
        return _QUOTATION.match(line) is not None or _find_open_ticks(line) != ""

    def note_tildes(self, line: str) -> None:
        """Take three tildes after *line*: where they begin it they open a fence, or close one."""
        is_first = not line.strip() or (not self.in_tildes and begins_item(line))
        if is_first and not self.fences.ticks:
            self.in_tildes = not self.in_tildes

    def is_in_code(self, marker: str, line: str, gap: str, shown: Shown) -> bool:
        """Return whether *marker* after *line* is in code, be it code of more than one line.

        The *gap* is the end of what comes before it; what comes before that was *shown*.
        A backtick alone says little of the lines that follow it. But where a marker comes after
        it, code continues with the next line, up to as many backticks or a blank line. A bracket is
        too little: how the text was cut may say whether it is looked at.
        """
        if self.reads_code:
            return False
        goes_on = self._goes_on_in_code(gap, shown)
        if not goes_on:
            self._code = "" if marker in _BRACKETS else _find_open_ticks(line)
        self._code_seen = shown
        is_code = goes_on or self.is_quoted(line)
        self.has_protected = self.has_protected or (is_code and marker not in _BRACKETS)
        return is_code

    def _goes_on_in_code(self, gap: str, shown: Shown) -> bool:
        """Return whether the code of the last marker is open after what came since."""
        (pieces, size), (before, seen) = shown, self._code_seen
        if not self._code or pieces is None or pieces is not before:
            return False
        ends = _TICKS_OR_BLANK_LINE.findall("".join(pieces[seen:size]) + gap)
        return not any(end == self._code or end.startswith("\n") for end in ends)


def _find_open_ticks(line: str) -> str:
    """Return the backticks that open code which *line* ends in: as many end it as begin it."""
    begun = ""
    for ticks in _TICKS.findall(line):
        begun = ticks if not begun else "" if ticks == begun else begun
    return begun


def gap_before(marker: str, scanner: Scanner) -> str:
    """Return the white space that `trim` took along with *marker*, which was just passed."""
    before = scanner.read_since_call()
    return before[: len(before) - len(marker)]


def line_before(gap: str, calls: CallSink) -> str:
    """Return what comes before a marker on its line, with the *gap* that is not shown yet."""
    _, newline, rest = gap.rpartition("\n")
    return rest if newline else calls.line() + rest


# A reader that leaves the reading to that of one format, once it is known which.
#
# Whoever reads, a call of a tool that nobody has is text: its reader continues to its end, and
# nothing more comes of it.


REFUSALS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.NOT_A_CALL)
"""What a reader says that has no call, or none any more."""


class Delegate(ABC):
    """Reads as the reader of a format does; subclasses choose it in `_choose`."""

    def __init__(self, answer: AutoResponse) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._answer = answer
        self._format = ""  # whose reader it is
        self._body: BodyReader | None = None
        self._completed = 0  # how many calls there were before
        self._behind = 0  # where in the answer the marker ends
        self._is_mute = False  # the call that is open is text

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return getattr(self._body, "enters", None)

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that may end a call which broke: those of its own format."""
        return self._answer.syntax_of(self._format).starts if self._format else ()

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Find out who reads; then let it."""
        assert isinstance(calls, KnownToolSink)  # noqa: S101 - `auto` asks for it
        if self._body is None:
            self._completed = calls.completed
            verdict = self._choose(scanner, calls)
            if verdict is not None:
                return verdict
        assert self._body is not None  # noqa: S101 - it was chosen
        return self._settle(self._body, self._body.read(scanner, calls), scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: what has not told what it is by now is prose."""
        assert isinstance(calls, KnownToolSink)  # noqa: S101 - `auto` asks for it
        if self._body is None:
            return Verdict.NOT_A_CALL
        verdict = self._body.finish(scanner, calls)
        if calls.is_mute and verdict in REFUSALS:
            scanner.at = len(scanner.text)  # All of it is text, and no call in it was meant.
            verdict = Verdict.GIVE_UP
        return self._settle(self._body, verdict, scanner, calls)

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._body is None or self._is_mute else self._body.run()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, if the one who read it can."""
        return self._body.mend(text, ended=ended) if isinstance(self._body, Repairable) else []

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return self._body.open_text() if isinstance(self._body, Repairable) else None

    @abstractmethod
    def _choose(self, scanner: Scanner, calls: KnownToolSink) -> Verdict | None:
        """Find out who reads, and let `_body` be that; None tells that it is known."""

    def _settle(
        self, body: BodyReader, verdict: Verdict, scanner: Scanner, calls: KnownToolSink
    ) -> Verdict:
        """Take in what the format's reader says; return what is to be said of it."""
        self.error = body.error
        # An end that begins as a fence does could not be told from one.
        self.end = "" if body.end.startswith(FENCE) else body.end
        self._is_mute = calls.is_mute
        if calls.completed > self._completed and self._format:
            self._answer.note_call(self._format)
        if verdict is Verdict.MORE:
            return verdict
        if verdict is Verdict.DONE and self.enters is not None:
            self._answer.family = self._format
        if verdict in REFUSALS:  # The format's own marker may have been shorter.
            scanner.at = max(scanner.at, self._behind - scanner.offset)
        return self._hush(scanner, calls, verdict) if calls.is_mute else verdict

    def _hush(self, scanner: Scanner, calls: KnownToolSink, verdict: Verdict) -> Verdict:
        """Show what is left of a mute call; where it broke, what follows is looked at again."""
        if verdict is Verdict.BROKEN:
            scanner.give_back()
            scanner.begin_call()
        calls.end_mute()
        return Verdict.NOT_A_CALL


# The header that an answer begins inside of, since the prompt has begun it.
#
# A prompt that nobody has told of may have, too: some models write the rest of a header first
# of all. Such a rest counts only where nothing else begins like that.


MAX_SIGN: Final = 256
"""How much of the beginning of an answer is looked at."""

MAX_THOUGHT: Final = 2048
"""How much is looked at where the answer may be a thought whose tokens a server has stripped."""


class AutoHeader(NamedTuple):
    """What the prompts of a *format* end with: its *marker*, and what comes after that.

    The answer continues with it where *sign* matches both; it may do so while they are *undecided*.
    A group `name` has to be a known tool. Without a sign the format's reader tells. *reach* is how
    much of the answer is looked at.
    """

    format: str
    marker: str
    begun: str = ""
    undecided: re.Pattern[str] | None = None
    sign: re.Pattern[str] | None = None
    reach: int = MAX_SIGN


def muse(marker: str, begun: str) -> AutoHeader:
    """Return the header of a message to somebody, which is not a tool of another format."""
    undecided = re.compile(r"assistant\s{0,8}(?:t|to|to=[^<]{0,160}(?:<\|?)?)?")
    sign = re.compile(r"assistant\s{0,8}to=(?!functions\.)[^<]{1,160}<\|m")
    return AutoHeader("muse_glimmer", marker, begun, undecided, sign)


_THOUGHT: Final = r"analysis[^\W_]"
_BEGUN_THOUGHT: Final = rf"{beginning_of('analysis')}|{_THOUGHT}[\s\S]{{0,{MAX_THOUGHT}}}"
_HARMONY: Final = AutoHeader(
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

USUAL: Final[tuple[AutoHeader, ...]] = (
    muse("<|start|>", "assistant"),
    _HARMONY,
    AutoHeader(
        "inkling",
        "<|message_model|>",
        undecided=re.compile(rf"{_NAME}(?:<(?:\|(?:c(?:o(?:n(?:t)?)?)?)?)?)?"),
        sign=re.compile(rf"{_NAME}<\|cont"),
    ),
    AutoHeader(
        "functionary_v3_2",
        ">>>",
        undecided=re.compile(rf"{_NAME}(?:\n\s{{0,99}})?"),
        sign=re.compile(rf"{_NAME}\n\s{{0,99}}\{{"),
    ),
)
"""Headers that a prompt may have begun which nobody has told of."""


class FirstHeader(Delegate):
    """Lets the reader of each of *headers* look at how the answer begins."""

    def __init__(self, headers: tuple[AutoHeader, ...], answer: AutoResponse) -> None:
        super().__init__(answer)
        self._waiting = list(headers)

    def read(self, scanner: Scanner, calls: KnownToolSink) -> Verdict:  # type: ignore[override]
        """Let one reader after the other look, until one finds its header."""
        verdict = super().read(scanner, calls)
        while verdict is Verdict.NOT_A_CALL and self._waiting and calls.is_first:
            self._body = None
            scanner.give_back()
            scanner.begin_call()
            verdict = super().read(scanner, calls)
        return verdict

    def _choose(self, scanner: Scanner, calls: KnownToolSink) -> Verdict | None:
        while self._waiting:
            may_begin = _may_begin(self._waiting[0], scanner, calls)
            if may_begin is None:
                return Verdict.MORE
            header = self._waiting.pop(0)
            if may_begin:
                self._begin(header, calls)
                return None
        return Verdict.NOT_A_CALL

    def _begin(self, header: AutoHeader, calls: KnownToolSink) -> None:
        """Let the reader of *header* read what the prompt says."""
        self._format = header.format
        self._body = self._answer.syntax_of(header.format).body(header.marker)
        prompt = Scanner()
        prompt.push(header.marker + header.begun)
        prompt.at = len(header.marker)
        self._body.read(prompt, calls)


def _may_begin(header: AutoHeader, scanner: Scanner, calls: KnownToolSink) -> bool | None:
    """Return whether the answer continues with *header*; None where only more text will tell."""
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


class Recognition(Delegate):
    """Reads what follows *marker*, which stands for one of the formats of *row*."""

    def __init__(self, marker: str, row: AutoRow, answer: AutoResponse) -> None:
        super().__init__(answer)
        self._marker = marker
        self._row = row
        self._rest = ""  # what the format's own marker has after ours
        self._surplus = ""  # what ours has after the format's own

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; what has not told what it is by now is prose.

        Where it names a tool it may yet be repaired, so one reader has to know what it says.
        """
        assert isinstance(calls, KnownToolSink)  # noqa: S101 - `auto` asks for it
        if self._body is not None:
            return super().finish(scanner, calls)
        choice = self._find_possible(self._choices(calls), scanner, calls)
        if choice is not None and "name" in choice.when.groupindex:
            self._rehearse(choice, scanner, calls)
        return Verdict.NOT_A_CALL

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which begins where the format's own marker ends."""
        return super().mend(self._surplus + text.removeprefix(self._rest), ended=ended)

    def _choose(self, scanner: Scanner, calls: KnownToolSink) -> Verdict | None:
        if self._is_code(scanner, calls):
            return Verdict.NOT_A_CALL
        choice = self._find_choice(scanner, calls)
        if isinstance(choice, Verdict):
            return choice
        self._behind = scanner.offset + scanner.at
        self._note_marker(choice)
        scanner.at += len(self._rest) - len(self._surplus)
        if choice.thinks:
            self._body = ThoughtMark(STYLES[choice.format].channel)
        else:
            self._format = choice.format
            self._body = self._answer.syntax_of(choice.format).body(choice.start)
        return None

    def _note_marker(self, choice: FormatChoice) -> None:
        """Note how the marker of the format differs from the one that was passed."""
        if not self._marker.endswith(choice.start):
            self._rest = choice.start[len(self._marker) :]
            self._surplus = self._marker[len(choice.start) :]

    def _rehearse(self, choice: FormatChoice, scanner: Scanner, calls: KnownToolSink) -> None:
        """Let the reader of *choice* read what is left of the answer, and nobody hear of it."""
        self._note_marker(choice)
        self._body = self._answer.syntax_of(choice.format).body(choice.start)
        stage = Scanner()
        stage.push(self._surplus + scanner.unread.removeprefix(self._rest))
        stage.begin_call()
        unheard = CallSink(Output(stage), calls.schemas, str, _ignore, live=False)
        if self._body.read(stage, unheard) is Verdict.MORE:
            self._body.finish(stage, unheard)
        scanner.at = len(scanner.text)

    def _is_code(self, scanner: Scanner, calls: KnownToolSink) -> bool:
        """Return whether the marker is in code, or is one of a fence of tildes."""
        gap = gap_before(self._marker, scanner)
        line = line_before(gap, calls)
        if self._marker == TILDES:
            if calls.kind() == "text":
                self._answer.note_tildes(line)
            return True
        if self._marker == FENCE:
            return self._answer.in_tildes
        return self._answer.is_in_code(self._marker, line, gap, calls.shown())

    def _find_choice(self, scanner: Scanner, calls: KnownToolSink) -> FormatChoice | Verdict:
        """Return the one choice that the text leaves, or what else it says."""
        choices = self._choices(calls)
        if self._marker == FENCE and self._answer.fences.ticks:
            return choices[-1] if choices else Verdict.NOT_A_CALL
        if choices and self._row.undecided.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        return self._find_possible(choices, scanner, calls) or Verdict.NOT_A_CALL

    def _choices(self, calls: KnownToolSink) -> tuple[FormatChoice, ...]:
        """Return what the marker may stand for: in a thought, only what may end that."""
        choices = self._row.choices
        return tuple(filter(self._interrupts, choices)) if calls.kind() == "thinking" else choices

    def _find_possible(
        self, choices: tuple[FormatChoice, ...], scanner: Scanner, calls: KnownToolSink
    ) -> FormatChoice | None:
        """Return the first of *choices* that the text says, if it may be."""
        for choice in choices:
            found = choice.when.match(scanner.text, scanner.at)
            if found is None or (choice.first and not calls.is_first):
                continue
            name = choice.tool or found.groupdict().get("name")
            is_possible = calls.thinks if choice.thinks else name is None or name in calls.schemas
            return choice if is_possible else None
        return None

    def _interrupts(self, choice: FormatChoice) -> bool:
        return not choice.thinks and self._answer.interrupts(choice.format)

    def _settle(
        self, body: BodyReader, verdict: Verdict, scanner: Scanner, calls: KnownToolSink
    ) -> Verdict:
        if verdict in REFUSALS and self._marker == FENCE and self._rest:
            self._answer.fences.open(len(FENCE))  # It is a fence like any other.
        return super()._settle(body, verdict, scanner, calls)


class ThoughtMark:
    """Passes the marker that opens a thought, and enters its channel."""

    def __init__(self, enters: Channel) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self.enters = enters

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the marker is all there is."""
        del scanner, calls
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say the same."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""


def _ignore(why: str | ParseError) -> None:
    """Hear what is wrong, and do nothing about it."""
