"""The machine behind every parser: text in, blocks out.

Outside calls it shows text, or the model's reasoning, up to the next marker and holds back what may
begin one; behind a start marker a body reader takes over and says where the call ends. A body that
turns out to be no call is given back: its marker is text, and reading goes on behind it, so later
calls are still found. What is given back is read again a limited number of times an answer; then it
is text. Where calls are to be mended, a broken one is first read up to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, Protocol

from penstock.errors import ParseError, UsageError
from penstock.events import Event
from penstock.parsing.bodies.base import Body, Mendable, Verdict
from penstock.parsing.bodies.last_thing import LastThing
from penstock.parsing.calls import Calls
from penstock.parsing.mending import Mending, mend
from penstock.parsing.output import DELTAS, Output
from penstock.parsing.reasoning import Channel, Reasoning, Wrapper
from penstock.parsing.refusals import OnError, Refusals
from penstock.parsing.runs import CallRun, TextRun
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_READ_AGAIN: Final = 16
"""How often text that was no call is read again in one answer: broken answers stay linear."""

MAX_CALL: Final = 16 * 1024 * 1024
"""How many characters a call may have: any file that a model writes, and no flood."""

MAX_BLANK: Final = 4096
"""How much white space is held back before a possible call, or a first thought."""

MAX_PROSE: Final = 256
"""How much text may be read before a marker turns out to be prose, and not count as read again."""

_LEADING_BLANK: Final = re.compile(r"\s*+")


Arguments = Literal["whole", "live"]
"""Whether a call comes out when it is complete, or as it arrives."""


class Syntax(Protocol):
    """How calls look in one format: what opens one, and who reads what follows."""

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that open a call, or several."""

    @property
    def folds(self) -> bool:
        """Whether the case of a marker does not matter; then `starts` are in lower case."""

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*, which is as the text has it."""


class Machine:
    """Reads one answer of a model with one syntax of calls.

    *arguments* is `whole`, where a call comes out when it is complete and anything else is text, or
    `live`, where it comes out as it arrives and may turn out incomplete. *reasoning* says how the
    model marks its thoughts, *wrappers* are markers that say nothing, and *prompt_suffix* is what
    the prompt ended with. With *trim*, white space that touches a call is no text. With *repair*,
    calls that broke are mended. *on_error* is told of text that was meant to be a call; *ids* gives
    an id to a call that brings none. After `finish`, `rest` is text that no event claimed.
    """

    def __init__(  # noqa: PLR0913 - each is an option of every parser
        self,
        syntax: Syntax,
        tools: Iterable[Tool] = (),
        *,
        arguments: Arguments = "whole",
        reasoning: Reasoning | None = None,
        wrappers: Iterable[Wrapper] = (),
        prompt_suffix: str = "",
        trim: bool = False,
        repair: bool = False,
        on_error: OnError | None = None,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self.rest = ""
        self.spans: list[tuple[int, int]] = []
        """Where in the answer text was read as calls, markers included."""
        self._syntax = syntax
        self._starts = syntax.starts
        # A syntax may know what follows no start marker of its own; then it has no other markers.
        self._unless: str = getattr(syntax, "unless", "")
        self._reasoning = reasoning
        own = reasoning.wrappers if reasoning is not None else ()
        self._wrappers = {wrapper.marker: wrapper.where for wrapper in (*wrappers, *own)}
        self._preface = reasoning.preface if reasoning is not None else ""
        is_live = arguments == "live"
        self._scanner = Scanner(keeps=is_live and (repair or on_error is not None))
        self._output = Output(self._scanner)
        schemas = {tool.name: Schema(tool.parameters) for tool in tools}
        self._calls = Calls(self._output, schemas, ids or _counted(), self._tell, live=is_live)
        self._trim = trim
        self._repair = repair
        self._refusals = Refusals(on_error)
        self._channel: Channel | None = None
        self._fresh = False  # nothing but white space was shown in the channel
        self._awaits_thought = reasoning is not None  # nothing has come that is none
        self._may_think = reasoning is not None and not reasoning.leading
        self._newlines = 0  # how many may still be dropped
        self._body: Body | None = None
        self._marker = ""  # that opened the body, with the white space that `trim` took along
        self._calls_before = 0  # how many had come out when the body was opened
        self._end = ""  # the end marker that still belongs to the last call
        self._thought_ends: tuple[str, ...] = ()  # those of reasoning that a call has ended
        self._follows_call = False
        self._read_again = 0
        self._call_start = 0  # where in the answer the open call begins
        self._finished = False
        self._run: TextRun | CallRun | None = None
        self._markers = self._look_out()
        opened = reasoning.opened_in(prompt_suffix) if reasoning is not None else None
        if opened is not None:
            self._read_prompt(*opened)

    def number_from(self, index: int) -> None:
        """Give the blocks numbers from *index* on: they are part of a longer answer."""
        self._output.index = index

    def feed(self, text: str) -> list[Event]:
        """Read more text; give the events that it makes certain."""
        if self._run is not None and text:
            events = self._run.take(text)
            if events is not None:
                return events
            self._scanner.offset += self._run.size
            text = self._run.held + text
        elif self._finished:
            raise UsageError("the parser has finished: make a new one for a new answer")
        elif not text:
            return []
        self._run = None
        self._scanner.push(text)
        self._read(final=False)
        self._run = self._open_run()
        return self._output.take()

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002 - as the contract has it
        """End the answer; give what was held back.

        Without *cut* the model ended by itself: a call that it left open may be mended then.
        """
        if self._finished:
            raise UsageError("the parser has finished already")
        if self._run is not None:
            self._scanner.offset += self._run.size
        self._scanner.push("" if self._run is None else self._run.held)
        self._run = None
        self._finished = True
        self._repair = self._repair and not cut
        self._read(final=True)
        self._refusals.close()
        self._output.close_text()
        self.rest = self._scanner.take_raw()
        return self._output.take()

    # --- text ---

    def _read(self, *, final: bool) -> None:
        goes_on = True
        while goes_on:
            goes_on = (
                self._read_text(final=final)
                if self._body is None
                else self._read_body(self._body, final=final)
            )

    def _read_prompt(self, text: str, channel: Channel) -> None:
        """Read the end of the prompt as if the model had written it; nothing of it comes out."""
        self._awaits_thought = False
        self._may_think = self._reasoning is not None and self._reasoning.recurs
        self._enter(channel)
        self._scanner.push(text)
        while self._read_text(final=False) and self._body is None:
            pass
        self._body = None
        self._output.forget()
        self._scanner.drop()
        self._calls.is_first = True
        self._preface = ""

    def _read_text(self, *, final: bool) -> bool:
        """Show text up to the next marker and pass it; tell whether there was one."""
        scanner = self._scanner
        if self._trim and self._follows_call:
            self._skip_blank()
        if self._newlines:
            self._skip_newlines()
        if self._awaits_thought and self._reasoning is not None:
            has_begun = self._find_first_thought(self._reasoning, final=final)
            if has_begun is not False:
                return has_begun is True
        text = scanner.text
        found = self._markers.find(text, scanner.at)
        if found is None:
            end = len(text) if final else self._markers.find_held(text, scanner.at)
            self._show(end if final else self._before_blank(end))
            return False
        self._pass_marker(found, found[0].lower() if self._syntax.folds else found[0])
        return True

    def _pass_marker(self, found: re.Match[str], marker: str) -> None:
        channel = self._channel
        if self._refusals.is_open and marker == self._refusals.end.lower():
            self._end_refusal(found, marker)
        elif marker in self._starts and self._may_call:
            self._open_body(self._before_blank(found.start()), found)
        elif marker == self._end or marker in self._thought_ends:
            self._show(found.start())
            self._scanner.at = found.end()
            self._drop_stray(marker)
        elif marker in self._wrappers and (channel is None or marker not in channel.ends):
            self._pass_wrapper(found, self._wrappers[marker])
        else:
            self._pass_reasoning(found, marker)

    def _open_body(self, start: int, found: re.Match[str], body: Body | None = None) -> None:
        scanner = self._scanner
        self._show(start)
        self._refusals.close()
        scanner.begin_call()
        self._marker = scanner.text[start : found.end()]
        self._body = body or self._syntax.body(found[0])
        self._calls_before = self._output.calls
        self._call_start = scanner.offset + start
        scanner.at = found.end()

    def _pass_wrapper(self, found: re.Match[str], where: str) -> None:
        """Drop a marker that says nothing, if it stands where it says nothing."""
        if where == "last":
            self._open_body(found.start(), found, LastThing())
            return
        self._show(found.start())
        if where == "first" and not self._calls.is_first:
            self._show(found.end())
        else:
            self._scanner.at = found.end()
            self._newlines = self._reasoning.newlines if self._reasoning is not None else 0

    def _find_first_thought(self, reasoning: Reasoning, *, final: bool) -> bool | None:
        """Begin the thought that is the first thing of the answer; None where text will tell.

        White space before it is nobody's.
        """
        scanner = self._scanner
        blank = _LEADING_BLANK.match(scanner.text, scanner.at)
        at = blank.end() if blank else scanner.at
        longest = max(map(len, reasoning.starts), default=0)
        begin = scanner.text[at : at + longest]
        start = next((start for start in reasoning.starts if begin.startswith(start)), None)
        may_come = any(start.startswith(begin) for start in reasoning.starts)
        if start is None and may_come and not final and at - scanner.at <= MAX_BLANK:
            return None
        self._awaits_thought = False
        if start is not None:
            scanner.at = at + len(start)
            self._think(reasoning)
        return start is not None

    def _think(self, reasoning: Reasoning) -> None:
        self._awaits_thought = False
        self._may_think = reasoning.recurs
        self._enter(reasoning.channel)

    def _pass_reasoning(self, found: re.Match[str], marker: str) -> None:
        """Pass a marker of the channel, or of reasoning; where it cannot be one it is text."""
        scanner, channel = self._scanner, self._channel
        is_first = self._fresh and not scanner.text[scanner.at : found.start()].strip()
        if channel is not None and marker in channel.starts and not is_first:
            self._show(found.end())
            return
        self._show(found.start())
        scanner.at = found.end()
        if channel is not None and marker in channel.ends:
            self._newlines = channel.newlines
            self._enter(None)
        elif channel is None and self._reasoning is not None:
            self._think(self._reasoning)

    def _enter(self, channel: Channel | None) -> None:
        self._channel = channel
        self._fresh = channel is not None
        self._markers = self._look_out()

    def _show(self, end: int) -> None:
        scanner = self._scanner
        if end <= scanner.at:
            return
        self._follows_call = False
        channel = self._channel
        if self._refusals.is_open:
            self._refusals.add(scanner.text[scanner.at : end])
        if self._preface and channel is None:
            self._output.prefix(self._preface)
            self._preface = ""
        is_blank = (self._fresh or self._calls.is_first) and scanner.text[
            scanner.at : end
        ].isspace()
        self._output.show(end, "text" if channel is None else channel.kind)
        if is_blank:
            return
        if self._calls.is_first and (channel is None or channel.kind == "text"):
            self._calls.is_first = False
            self._markers = self._look_out()
        if self._fresh:
            self._fresh = False
            self._markers = self._look_out()

    def _before_blank(self, end: int) -> int:
        """Where the white space begins that `trim` keeps for a call that may follow."""
        if not self._trim or not self._may_call:
            return end
        at = self._scanner.at
        blank = end - len(self._scanner.text[at:end].rstrip()) - at
        return end - blank if blank <= MAX_BLANK else end

    def _skip_newlines(self) -> None:
        """Drop the newlines that belong to a marker; the first other character ends that."""
        scanner = self._scanner
        while self._newlines and scanner.text.startswith("\n", scanner.at):
            scanner.at += 1
            self._newlines -= 1
        if scanner.at < len(scanner.text):
            self._newlines = 0

    def _skip_blank(self) -> None:
        found = _LEADING_BLANK.match(self._scanner.text, self._scanner.at)
        if found:
            self._scanner.at = found.end()

    # --- bodies ---

    def _read_body(self, body: Body, *, final: bool) -> bool:
        """Let the body read on; tell whether it has come to an end."""
        verdict = self._read_within_limit(body)
        if verdict is Verdict.MORE:
            if not final:
                return False
            verdict = self._finish_body(body)
        elif verdict is Verdict.BROKEN and self._repair and isinstance(body, Mendable):
            folds = self._syntax.folds
            self._body = Mending(body, self._marker, self._starts, folds=folds)
            return True
        elif verdict is Verdict.TEXT and self._repair and self._mend(body, ended=False):
            verdict = Verdict.DONE
        self._body = None
        if verdict in _NO_CALLS:
            self._give_up(body, verdict)
        else:
            if self._output.calls > self._calls_before:
                self.spans.append((self._call_start, self._scanner.offset + self._scanner.at))
            self._follow_call(body.end if verdict is Verdict.STANDS else "")
        # Cheaper than asking whether it is a `Header`.
        entered: Channel | None = getattr(body, "enters", None)
        if entered is not None and verdict is Verdict.DONE:
            self._follows_call = False
            self._enter(entered)
        return True

    def _finish_body(self, body: Body) -> Verdict:
        """Tell the body that the text has ended inside it."""
        scanner = self._scanner
        verdict = body.finish(scanner, self._calls)
        if verdict not in _NO_CALLS:
            return verdict
        if self._repair and self._mend(body, ended=True):
            return Verdict.DONE
        if self._calls.started:  # It shows what there was of it: all of the text is its own.
            scanner.at = len(scanner.text)
            return Verdict.TEXT
        return verdict

    def _mend(self, body: Body, *, ended: bool) -> bool:
        """Make calls of a body after all; *ended* tells that the model stopped inside it."""
        mendable = body.body if isinstance(body, Mending) else body
        if not isinstance(mendable, Mendable):
            return False
        inside = self._scanner.read_since_call().removeprefix(self._marker)
        return mend(mendable, inside, self._calls, ended=ended and mendable is body)

    def _read_within_limit(self, body: Body) -> Verdict:
        """Let the body see no more of the text than a call may have: limits count characters."""
        scanner = self._scanner
        limit = self._call_start + MAX_CALL - scanner.offset
        beyond = scanner.text[limit:]
        if not beyond:
            return body.read(scanner, self._calls)
        scanner.text = scanner.text[:limit]
        verdict = body.read(scanner, self._calls)
        scanner.text += beyond
        if verdict is not Verdict.MORE:
            return verdict
        return Verdict.LONG

    def _follow_call(self, end: str) -> None:
        """Go on behind a call, or what is left of one; *end* may still come and belongs to it."""
        self._follows_call = True
        if self._channel is not None and self._output.calls > self._calls_before:
            self._thought_ends = self._channel.ends
            self._channel = None
        self._end = end
        self._markers = self._look_out()

    def _give_up(self, body: Body, verdict: Verdict) -> None:
        """Handle a body that is no call: as text, or as a call that is not complete."""
        scanner, calls = self._scanner, self._calls
        text, has_started = scanner.read_since_call(), calls.started
        looks_again = verdict not in (Verdict.TEXT, Verdict.LONG)
        if verdict is Verdict.LONG:
            body.error = f"a call of more than {MAX_CALL} characters"
        if not looks_again:
            self._refusals.tell(body.error, calls.name, text)
        elif verdict is Verdict.BROKEN:
            claimed = "".join(scanner.kept or ())
            self._refusals.begin(body.error, calls.name, claimed, body.end)
        if looks_again or not has_started:
            scanner.give_back()
        if self._output.calls > self._calls_before + has_started:
            self.spans.append((self._call_start, scanner.offset + scanner.at))
        calls.drop()
        if has_started or self._output.calls > self._calls_before:
            self._follow_call(body.end)
        self._markers = self._look_out()
        self._read_again += verdict is Verdict.BROKEN or len(text) > MAX_PROSE
        if has_started:
            return
        if not looks_again or self._read_again > MAX_READ_AGAIN:
            self._show(scanner.at + len(text))
        elif text.startswith(self._marker):  # It has had its chance; behind it may be another.
            self._show(scanner.at + len(self._marker))

    def _end_refusal(self, found: re.Match[str], marker: str) -> None:
        """Pass the end marker of a call that broke: text, or nobody's if some of it went out."""
        self._show(found.start())
        if marker == self._end:
            self._refusals.add(found[0])
            self._scanner.at = found.end()
            self._end = ""
        else:
            self._show(found.end())
        self._refusals.close()
        self._markers = self._look_out()

    def _tell(self, why: str | ParseError) -> None:
        """Tell of a call that stands and yet has something wrong."""
        self._refusals.tell(why, self._calls.name, self._scanner.read_since_call())

    # --- what to look out for ---

    @property
    def _may_call(self) -> bool:
        return self._channel is None or self._channel.interrupted

    def _look_out(self) -> Markers:
        """Give the markers that mean something here."""
        channel, reasoning = self._channel, self._reasoning
        literals = [*(self._starts if self._may_call else ()), *filter(None, [self._end])]
        literals += [*filter(None, [self._refusals.end]), *self._wrappers]
        literals += self._thought_ends
        if channel is not None:
            literals += [*channel.ends, *(channel.starts if self._fresh else ())]
        elif reasoning is not None and self._may_think:
            literals += reasoning.starts
        unless = self._unless if literals == [*self._starts] else ""
        return markers(*literals, fold=self._syntax.folds, unless=unless)

    def _drop_stray(self, marker: str) -> None:
        """Expect a marker no more that has come and belonged to what was before."""
        if marker == self._end:
            self._end = ""
        else:
            self._thought_ends = ()
        self._markers = self._look_out()

    # --- the fast path ---

    def _open_run(self) -> TextRun | CallRun | None:
        """Give the run that is open, if the next text could go straight to it."""
        scanner, output, calls = self._scanner, self._output, self._calls
        if scanner.at < len(scanner.text):
            return None
        if self._body is not None:
            run = self._body.run()
            if run is None or (calls.live and scanner.has_raw):
                return None
            scanner.pass_all()
            room = self._call_start + MAX_CALL - scanner.offset - scanner.at
            deltas = None if calls.live else calls.deltas
            copies = scanner.kept if calls.live else scanner.passed
            return CallRun(run, output.index, room, deltas=deltas, copies=copies)
        if output.pieces is None or scanner.has_raw or self._fresh or self._refusals.is_open:
            return None
        if (
            calls.is_first or self._newlines
        ) and output.kind == "text":  # White space: what follows may be the first.
            return None
        trims = self._trim and self._may_call
        delta = DELTAS[output.kind]
        return TextRun(self._markers, output.pieces, output.index, delta, trims=trims)


_NO_CALLS: Final = (Verdict.BROKEN, Verdict.TEXT, Verdict.LONG, Verdict.PROSE)


def _counted() -> Callable[[], str]:
    numbers = iter(range(1, 1 << 62))
    return lambda: f"call_{next(numbers)}"
