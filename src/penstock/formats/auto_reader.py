"""The readers of `auto`: the text after a marker decides which format reads the call.

A reader looks ahead only as far as the formats of its marker differ, and consumes nothing
meanwhile. Then the reader of that format takes over. A marker that is in code is text, and so is a
call of a tool that was not declared.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.formats.auto_table import AutoRow, FormatChoice, prefix_pattern
from penstock.formats.base import Format
from penstock.formats.json_models import LeadingJSON
from penstock.formats.marker_context import (
    find_quotation,
    gap_before,
    is_in_element,
    line_before,
    may_span,
    text_before,
)
from penstock.formats.pythonic import PythonCalls
from penstock.formats.reasoning import STYLES
from penstock.parsing import BodyReader, Channel, OpenString, Syntax, Verdict
from penstock.parsing.body import StreamingPart
from penstock.parsing.call_sink import CallSink, RepairedCall, Shown
from penstock.parsing.scanner import Scanner
from penstock.readers.bare_json import FENCE, BareCalls, Fences, begins_item, pass_fence
from penstock.tools import Tool, clean_name

TILDES: Final = "~~~"
"""The other fence of Markdown."""

_GRANITE: Final = LeadingJSON(("<|tool_call|>",))  # a special token, which is unambiguous anywhere
_PYTHONIC: Final = PythonCalls(bare=True, alone=True)
_BRACKETS: Final = ("{", "[")


class DetectionState:
    """What is known of one response: the syntaxes in use, its format, its code."""

    def __init__(self, formats: Mapping[str, Format], tools: Sequence[Tool]) -> None:
        self.format: Format | None = None  # of the first call
        self.chosen = ""  # the format of the first marker
        self.in_tildes = False  # a fence of tildes is open
        self.reads_code = False  # calls in code are calls
        self.has_calls_in_code = False  # a marker was text because it was in code
        self.family = ""  # the format whose header opened the last channel
        self._formats = formats
        self._tools = tools
        self._code: re.Pattern[str] | None = None  # the end of the code which markers are in
        self._code_seen: Shown = (None, 0)  # what was shown up to the last of these
        bare = BareCalls(listed=True)
        self.fences: Fences = bare.fences
        self._syntaxes: dict[str, Syntax] = {
            "bare_json": bare,
            "granite": _GRANITE,
            "pythonic": _PYTHONIC,
        }

    def syntax_for(self, name: str) -> Syntax:
        """Return the syntax of the format *name*, the same one throughout the response."""
        found = self._syntaxes.get(name)
        if found is None:
            found = self._formats[name].calls.syntax(self._tools)
            self._syntaxes[name] = found
        return found

    def interrupts(self, name: str) -> bool:
        """Return whether a call of the format *name* may end the reasoning that it is in."""
        if self.family:
            return name == self.family
        reasoning = self._formats[name].usual_reasoning
        return reasoning is None or reasoning.interrupted

    def note_call(self, name: str) -> None:
        """Note that a call of the format *name* is complete."""
        if self.format is None:
            self.format = self._formats[name]

    def is_quoted(self, line: str) -> bool:
        """Return whether a marker after *line* is in code: in a fence, a string or backticks."""
        return bool(self.fences.ticks) or self.in_tildes or find_quotation(line) is not None

    def note_tildes(self, line: str) -> None:
        """Handle three tildes after *line*: at its beginning they open or close a fence."""
        is_first = not line.strip() or (not self.in_tildes and begins_item(line))
        if is_first and not self.fences.ticks:
            self.in_tildes = not self.in_tildes

    def is_in_code(self, marker: str, line: str, gap: str, shown: Shown) -> bool:
        """Return whether *marker* after *line* is in code, which may span several lines.

        The *gap* is the white space before the marker; the text before that was *shown*. A backtick
        alone means little for the lines that follow it. But where a marker comes after it, code
        continues on the next line, up to as many backticks or a blank line. For a bracket that does
        not hold: whether it is looked at may depend on how the text was cut.
        """
        if self.reads_code:
            return False
        is_code = self._continues_code(gap, shown)
        if not is_code:
            code = find_quotation(line, text_before(gap, shown) if may_span(line, shown) else "")
            is_code = code is not None or bool(self.fences.ticks) or self.in_tildes
            self._code = None if marker in _BRACKETS else code
        self._code_seen = shown
        self.has_calls_in_code = self.has_calls_in_code or (is_code and marker not in _BRACKETS)
        return is_code

    def _continues_code(self, gap: str, shown: Shown) -> bool:
        """Return whether the code of the last marker is still open."""
        (pieces, size), (before, seen) = shown, self._code_seen
        if self._code is None or pieces is None or pieces is not before:
            return False
        return self._code.search("".join(pieces[seen:size]) + gap) is None


REFUSALS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.NOT_A_CALL)
"""The verdicts of a reader that found no call."""


class Delegate(BodyReader, ABC):
    """Delegates to the reader of one format, which subclasses choose in `_choose`.

    A call of an unknown tool is muted: its reader continues to the end of the call, and all of it
    is text.
    """

    is_repairable = True

    def __init__(self, response: DetectionState) -> None:
        self._response = response
        self._format = ""  # that was chosen
        self._body: BodyReader | None = None
        self._completed = 0  # how many calls there were before
        self._marker_end = 0  # where in the response the marker ends
        self._is_mute = False  # the call that is open is text

    @property
    def enters(self) -> Channel | None:
        """The channel that begins after the body."""
        return None if self._body is None else self._body.enters

    @property
    def next_starts(self) -> tuple[str, ...]:
        """The markers that may end a call which broke: those of its own format."""
        return self._response.syntax_for(self._format).starts if self._format else ()

    @property
    def next_folds(self) -> bool:
        """Whether these match in any case."""
        return bool(self._format) and self._response.syntax_for(self._format).folds

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose the reader, then delegate to it."""
        if self._body is None:
            self._completed = calls.completed
            verdict = self._choose(scanner, calls)
            if verdict is not None:
                return verdict
        assert self._body is not None  # noqa: S101 - it was chosen
        return self._settle(self._body, self._body.read(scanner, calls), scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a marker that is still undecided is text."""
        if self._body is None:
            return Verdict.NOT_A_CALL
        verdict = self._body.finish(scanner, calls)
        if calls.is_muted and verdict in REFUSALS:
            scanner.skip_all()  # All of it is text, and no call in it was meant.
            verdict = Verdict.GIVE_UP
        return self._settle(self._body, verdict, scanner, calls)

    @property
    def open_part(self) -> StreamingPart | None:
        """The reader of the call."""
        return self._body

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one; a muted call has none."""
        return None if self._is_mute else super().open_string()

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, if the reader can."""
        return [] if self._body is None else self._body.repair(text, ended=ended)

    def begins_next(self, text: str, at: int) -> bool | None:
        """Return whether the start marker at *at* begins the next call; None if it may."""
        return True if self._body is None else self._body.begins_next(text, at)

    @abstractmethod
    def _choose(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Set `_body` and return None, or return a verdict while the format is unknown."""

    def _settle(
        self, body: BodyReader, verdict: Verdict, scanner: Scanner, calls: CallSink
    ) -> Verdict:
        """Adopt the state of the format's reader; return the verdict on the whole."""
        self.error = body.error
        # An end that begins like a fence could not be distinguished from one.
        self.end = "" if body.end.startswith(FENCE) else body.end
        self._is_mute = calls.is_muted
        if calls.completed > self._completed and self._format:
            self._response.note_call(self._format)
        if verdict is Verdict.MORE:
            return verdict
        if verdict is Verdict.DONE and self.enters is not None:
            self._response.family = self._format
        if verdict in REFUSALS:  # The format's own marker may have been shorter.
            scanner.advance_to(max(scanner.at, self._marker_end - scanner.offset))
        return self._end_muted(scanner, calls, verdict) if calls.is_muted else verdict

    def _end_muted(self, scanner: Scanner, calls: CallSink, verdict: Verdict) -> Verdict:
        """Show the rest of a muted call; if it broke, the text after its marker is read again."""
        if verdict is Verdict.BROKEN:
            scanner.give_back()
            scanner.begin_call()
        calls.end_muted()
        return Verdict.NOT_A_CALL


# --- a header that the prompt has begun ---------------------------------------------------------
#
# Even without `prompt_suffix`, the prompt may have begun a header: some models write the rest of it
# first. Such a rest counts only where nothing else begins like that.


MAX_SIGN: Final = 256
"""How much of the beginning of a response is looked at."""

MAX_REASONING: Final = 2048
"""How much is looked at where a server may have stripped the tokens around reasoning."""


class AutoHeader(NamedTuple):
    """What the prompts of a *format* end with: its *marker*, and the text *begun* after that.

    The response continues it where *sign* matches both, and may do so while *undecided* matches. A
    group `name` has to be a known tool. Without a sign the format's reader decides. *reach* is how
    much of the response is looked at.
    """

    format: str
    marker: str
    begun: str = ""
    undecided: re.Pattern[str] | None = None
    sign: re.Pattern[str] | None = None
    reach: int = MAX_SIGN


def muse_header(marker: str, begun: str) -> AutoHeader:
    """Return the header of a Muse message; ``to=functions.`` would be harmony."""
    undecided = re.compile(r"assistant\s{0,8}(?:t|to|to=[^<]{0,160}(?:<\|?)?)?")
    sign = re.compile(r"assistant\s{0,8}to=(?!functions\.)[^<]{1,160}<\|m")
    return AutoHeader("muse_glimmer", marker, begun, undecided, sign)


_REASONING: Final = r"analysis[^\W_]"
_BEGUN_REASONING: Final = rf"{prefix_pattern('analysis')}|{_REASONING}[\s\S]{{0,{MAX_REASONING}}}"
# Text may begin with the word "analysis"; only the end of reasoning confirms the header.
_HARMONY: Final = AutoHeader(
    "harmony",
    "<|start|>",
    "assistant",
    undecided=re.compile(rf"assistant(?:{_BEGUN_REASONING})"),
    sign=re.compile(
        rf"assistant(?:(?!{_REASONING}|(?:{prefix_pattern('analysis')})\Z)"
        rf"|{_REASONING}[\s\S]{{0,{MAX_REASONING}}}?assistant(?:final|commentary\s{{1,8}}to=))"
    ),
    reach=MAX_REASONING,
)

_NAME: Final = r"\s{0,8}(?P<name>[A-Za-z0-9_.:-]{0,128})"

USUAL: Final[tuple[AutoHeader, ...]] = (
    muse_header("<|start|>", "assistant"),
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
"""Headers that a prompt may have begun if `prompt_suffix` is not known."""


def usual_firsts(names: Iterable[str]) -> frozenset[str]:
    """Return the characters that the rest of one of `USUAL` begins with, for tools of *names*.

    That is a token, a recipient (``to=``), a channel, or the name of a tool.
    """
    return frozenset(name[:1] for name in ("<", "to=", "analysis", "commentary", *names))


def may_begin_header(text: str, firsts: frozenset[str] | None) -> bool:
    """Return whether *text* may begin with the rest of a header; None means any character may."""
    begin = text[:MAX_SIGN].lstrip()
    return firsts is None or not begin or begin[0] in firsts


class FirstHeader(Delegate):
    """Tries the reader of each of *headers* on the beginning of the response.

    With *firsts*, it begins with one of these characters if there is a header.
    """

    def __init__(
        self,
        headers: tuple[AutoHeader, ...],
        response: DetectionState,
        firsts: frozenset[str] | None = None,
    ) -> None:
        super().__init__(response)
        self._waiting = list(headers)
        self._firsts = firsts

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Try one reader after the other, until one finds its header."""
        verdict = super().read(scanner, calls)
        while verdict is Verdict.NOT_A_CALL and self._waiting and calls.is_first:
            self._body = None
            scanner.give_back()
            scanner.begin_call()
            verdict = super().read(scanner, calls)
        return verdict

    def _choose(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        firsts, self._firsts = self._firsts, None
        if not may_begin_header(scanner.peek(MAX_SIGN), firsts):
            self._waiting.clear()
        while self._waiting:
            may_begin = _may_begin(self._waiting[0], scanner, calls)
            if may_begin is None:
                return Verdict.MORE
            header = self._waiting.pop(0)
            if may_begin:
                self._begin(header, calls)
                return None
        return Verdict.NOT_A_CALL

    def _begin(self, header: AutoHeader, calls: CallSink) -> None:
        """Start the reader of *header* with the text that is in the prompt."""
        self._format = header.format
        self._body = self._response.syntax_for(header.format).body(header.marker)
        prompt = Scanner()
        prompt.push(header.marker + header.begun)
        prompt.skip(len(header.marker))
        self._body.read(prompt, calls)


def _may_begin(header: AutoHeader, scanner: Scanner, calls: CallSink) -> bool | None:
    """Return whether the response continues *header*; None if more text is needed."""
    if header.sign is None or header.undecided is None:
        return True
    text = header.begun + scanner.peek(header.reach)
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


_ELEMENTS: Final = ("morph_xml", "yaml_xml")
_WITH_HEADERS: Final = ("harmony", "inkling", "kimi_k3", "muse_glimmer")
_HEADER: Final = re.compile(
    r"(?:[\w.= ]{0,80}+<\|(?:channel|constrain|message|sep|content_\w{1,24})\|>){1,4}"
)
_HEADER_BEGUN: Final = re.compile(r"[\w.= ]{0,80}+(?:<(?:\|\w{0,32}\|?)?)?")
_AFTER_WORD: Final = frozenset(" ,.;:)")
_JSON_BEGINS: Final = re.compile(r"[\[{]\s{0,16}[\"'{\[\]}]")
_OPENING_TAG: Final = re.compile(r"<[^<>/|]{0,200}>\Z")


def _ends_like_call(text: str) -> bool:
    """Return whether *text* begins like JSON, or ends with a bracket or a tag that closes."""
    bare = text.strip()
    if _JSON_BEGINS.match(bare) is not None:
        return True
    return bare[-1:] in (">", "}", "]", ")") and _OPENING_TAG.search(bare) is None


class Recognition(Delegate):
    """Reads what follows *marker*, which belongs to one of the formats of *row*."""

    def __init__(self, marker: str, row: AutoRow, response: DetectionState) -> None:
        super().__init__(response)
        self._marker = marker
        self._row = row
        self._rest = ""  # the rest of the format's marker after ours
        self._surplus = ""  # the rest of ours after the format's
        self._line = ""  # the text before the marker on its line

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a marker that is still undecided is text.

        Where it names a tool it may yet be repaired, so the format's reader has to read it.
        """
        if self._body is not None:
            return super().finish(scanner, calls)
        choice = self._find_possible(self._choices(calls), scanner, calls)
        if choice is not None and "name" in choice.when.groupindex:
            self._rehearse(choice, scanner, calls)
        return Verdict.NOT_A_CALL

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which begins after the format's marker.

        Where the marker is inside a line and text follows the last tag, a sentence shows it.
        """
        if ended and self._line.strip() and not _ends_like_call(text):
            return []
        return super().repair(self._surplus + text.removeprefix(self._rest), ended=ended)

    def _choose(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._is_code(scanner, calls):
            return Verdict.NOT_A_CALL
        choice = self._find_choice(scanner, calls)
        if isinstance(choice, Verdict):
            return choice
        if choice.format in _ELEMENTS and is_in_element(
            gap_before(self._marker, scanner), calls.shown
        ):
            return Verdict.NOT_A_CALL
        if choice.thinks or choice.format in _WITH_HEADERS:
            verdict = self._judge_sentence(choice, scanner)
            if verdict is not None:
                return verdict
        self._marker_end = scanner.position
        if self._marker == choice.start == FENCE and self._pass_fence(choice, scanner, calls):
            return Verdict.NOT_A_CALL
        self._note_marker(choice)
        scanner.skip(len(self._rest) - len(self._surplus))
        if choice.thinks:
            self._body = ReasoningMarker(STYLES[choice.format].channel)
        else:
            self._format = choice.format
            self._response.chosen = self._response.chosen or choice.format
            self._body = self._response.syntax_for(choice.format).body(choice.start)
        return None

    def _judge_sentence(self, choice: FormatChoice, scanner: Scanner) -> Verdict | None:
        """Return a verdict for a header, or the start of reasoning, that may be a word of prose.

        A blank is before it, and a blank or a punctuation mark after it.
        """
        if self._line[-1:] != " " or self._line.isspace():
            return None
        end = scanner.at + max(0, len(choice.start) - len(self._marker))
        if not choice.thinks:
            header = _HEADER.match(scanner.text, end)
            end = end if header is None else header.end()
            if _HEADER_BEGUN.fullmatch(scanner.text, end) is not None:
                return Verdict.MORE
            if header is None:
                return None
        if end >= len(scanner.text):
            return Verdict.MORE
        return Verdict.NOT_A_CALL if scanner.text[end] in _AFTER_WORD else None

    def _pass_fence(self, choice: FormatChoice, scanner: Scanner, calls: CallSink) -> bool:
        """Pass a fence around code, if it is one; return whether it is."""
        if not pass_fence(self._response.fences, scanner, calls):
            return False
        self._response.chosen = self._response.chosen or choice.format
        return True

    def _note_marker(self, choice: FormatChoice) -> None:
        """Note how the format's marker differs from the one that was passed."""
        if not self._marker.endswith(choice.start):
            self._rest = choice.start[len(self._marker) :]
            self._surplus = self._marker[len(choice.start) :]

    def _rehearse(self, choice: FormatChoice, scanner: Scanner, calls: CallSink) -> None:
        """Read the rest of the response with the reader of *choice*, without emitting anything."""
        self._note_marker(choice)
        self._body = self._response.syntax_for(choice.format).body(choice.start)
        stage = Scanner()
        stage.push(self._surplus + scanner.unread.removeprefix(self._rest))
        stage.begin_call()
        sink = CallSink.detached(stage, calls.schemas)
        if self._body.read(stage, sink) is Verdict.MORE:
            self._body.finish(stage, sink)
        scanner.skip_all()

    def _is_code(self, scanner: Scanner, calls: CallSink) -> bool:
        """Return whether the marker is in code, or belongs to a fence of tildes."""
        if self._marker == FENCE:
            return self._response.in_tildes
        gap = gap_before(self._marker, scanner)
        self._line = line = line_before(gap, calls)
        if self._marker == TILDES:
            if calls.kind == "text":
                self._response.note_tildes(line)
            return True
        return self._response.is_in_code(self._marker, line, gap, calls.shown)

    def _find_choice(self, scanner: Scanner, calls: CallSink) -> FormatChoice | Verdict:
        """Return the choice that the text leaves, or a verdict if none matches yet."""
        choices = self._choices(calls)
        if self._marker == FENCE and self._response.fences.ticks:
            return choices[-1] if choices else Verdict.NOT_A_CALL
        if choices and self._row.undecided.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        return self._find_possible(choices, scanner, calls) or Verdict.NOT_A_CALL

    def _choices(self, calls: CallSink) -> tuple[FormatChoice, ...]:
        """Return the formats that the marker may belong to: in reasoning, those that may end it."""
        choices = self._row.choices
        return tuple(filter(self._interrupts, choices)) if calls.kind == "thinking" else choices

    def _find_possible(
        self, choices: tuple[FormatChoice, ...], scanner: Scanner, calls: CallSink
    ) -> FormatChoice | None:
        """Return the first of *choices* that matches the text, if it is possible here."""
        for choice in choices:
            found = scanner.match(choice.when)
            if found is None or (choice.first and not calls.is_first):
                continue
            if choice.thinks:
                return choice if calls.recognises_reasoning else None
            name = choice.tool or found.groupdict().get("name")
            # Without tools any name may be one, but "python" is a word of its own format.
            is_possible = name is None or clean_name(name, calls.schemas) in calls.schemas
            return choice if is_possible or (not calls.schemas and not choice.tool) else None
        return None

    def _interrupts(self, choice: FormatChoice) -> bool:
        return not choice.thinks and self._response.interrupts(choice.format)

    def _settle(
        self, body: BodyReader, verdict: Verdict, scanner: Scanner, calls: CallSink
    ) -> Verdict:
        if verdict in REFUSALS and self._marker == FENCE and self._rest:
            self._response.fences.open(len(FENCE))  # It is an ordinary fence.
        return super()._settle(body, verdict, scanner, calls)


class ReasoningMarker(BodyReader):
    """Passes the marker that opens reasoning, and enters its channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def enters(self) -> Channel:
        """The channel of the reasoning."""
        return self._channel

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Return that the marker is complete."""
        del scanner, calls
        return Verdict.DONE
