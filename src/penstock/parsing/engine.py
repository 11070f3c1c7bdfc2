"""The engine of every parser: text in, blocks out.

Outside calls, `TextReader` emits text or reasoning up to the next marker. After a start marker a
body reader takes over and decides where the call ends. A body that turns out not to be a call is
handed back: its start marker is text, and scanning continues after it, so later calls are still
found. Text is handed back a limited number of times per response (`MAX_READ_AGAIN`); after that it
is text. With `repair`, a broken call is first read up to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

from penstock.errors import ParseError, UsageError
from penstock.events import Event, ToolCallEnd
from penstock.parsing.call_sink import CallSink, KnownToolSink, NoCallError, UnclearCallError
from penstock.parsing.code_spans import CALL_IN_CODE, CodeSpans, FencedCalls
from penstock.parsing.errors import ErrorReporter, OnError
from penstock.parsing.fast_path import StringRun, TextRun
from penstock.parsing.marker_state import MarkerState, Syntax
from penstock.parsing.output import Output
from penstock.parsing.quotations import Untrusted, check_choice
from penstock.parsing.readers.base import BodyReader, Repairable, Verdict
from penstock.parsing.readers.markers import TrailingMarker
from penstock.parsing.reasoning import Channel, Reasoning, Wrapper
from penstock.parsing.repair import RepairReader, repair
from penstock.parsing.scanner import Scanner
from penstock.parsing.text import OpenedMarker, TextReader
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_READ_AGAIN: Final = 16
"""How often text that was not a call is read again in one answer: broken answers stay linear."""

MAX_CALL: Final = 16 * 1024 * 1024
"""How many characters a call may have: any file that a model writes, and no flood."""

MAX_PROSE: Final = 256
"""How much text may be read before a marker turns out to be prose, and not count as read again."""

MAX_REREAD: Final = 64 * 1024
"""In how long a text calls in code are looked for, to report them."""

Arguments = Literal["whole", "live"]
"""Whether a call comes out when it is complete, or as it arrives."""

_NO_CALLS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.TOO_LONG, Verdict.NOT_A_CALL)

ONE_TOO_MANY: Final = "the request allows no more calls: this one stays text"


class Schemas(Mapping[str, Schema]):
    """The schemas of *tools* by name, each read when somebody asks for it.

    A parser is made for every answer, and most answers call few of the tools.
    """

    __slots__ = ("_read", "_tools")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._read: dict[str, Schema] = {}

    def __getitem__(self, name: str) -> Schema:
        known = self._read.get(name)
        if known is None:
            known = self._read[name] = Schema(self._tools[name].parameters)
        return known

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def tools(self) -> Iterable[Tool]:
        """The tools themselves."""
        return self._tools.values()


class Engine:
    """Reads one answer of a model with one syntax of calls.

    *arguments* is `whole`, where a call comes out when it is complete and anything else is text, or
    `live`, where it comes out as it arrives and may turn out incomplete. *reasoning* says how the
    model marks its reasoning, *wrappers* are markers that say nothing, and *prompt_suffix* is what
    the prompt ended with. With *trim*, white space that touches a call, or separates reasoning from
    the text after it, is not a text. With *repair*, calls that broke are repaired. *on_error* is
    told of text that was meant to be a call; *ids* gives an id to a call that brings none. After
    *max_calls* calls others are text. A call that occurs in *untrusted* text is text, and so is one
    in code, unless *fenced* is `calls`. After `finish`, `rest` is text that no event claimed.
    """

    __slots__ = ("_body", "_call_start", "_calls", "_calls_before", "_code", "_end_before",
                 "_finished", "_lookout", "_marker", "_output", "_prose", "_read_again",
                 "_refusals", "_repair", "_run", "_scanner", "_syntax", "rest",
                 "spans")  # fmt: skip

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
        max_calls: int | None = None,
        untrusted: Untrusted | Iterable[str] | None = None,
        fenced: FencedCalls = "text",
    ) -> None:
        self.rest = ""
        self.spans: list[tuple[int, int]] = []
        """Where in the answer text was read as calls, markers included."""
        if arguments not in ("whole", "live"):
            raise UsageError(f"arguments come `whole` or `live`, not {arguments!r}")
        is_live = arguments == "live"
        schemas = Schemas(tools)
        self._syntax = syntax
        self._repair = repair
        self._scanner = Scanner(keeps=is_live and (repair or on_error is not None))
        self._output = Output(self._scanner)
        kind = KnownToolSink if getattr(syntax, "knows_tools", False) else CallSink
        give_id = ids or getattr(syntax, "new_id", None) or _counted()
        self._calls = kind(self._output, schemas, give_id, self._tell, live=is_live, most=max_calls)
        self._refusals = ErrorReporter(on_error)
        self._lookout = MarkerState(syntax, reasoning, wrappers)
        check_choice("fenced", fenced)
        self._code = CodeSpans() if fenced == "text" and self._lookout.is_quoted is None else None
        let_fenced: Callable[[], None] | None = getattr(syntax, "let_fenced", None)
        if fenced == "calls" and let_fenced is not None:
            let_fenced()
        self._prose = TextReader(
            self._scanner,
            self._output,
            self._calls,
            self._lookout,
            self._refusals,
            trim=trim,
            code=self._code,
        )
        self._calls.show = self._prose.show_read
        self._calls.untrusted = Untrusted.of(untrusted)
        if isinstance(self._calls, KnownToolSink):
            thinks = hasattr(reasoning, "opened_by")
            self._calls.begin(lambda: self._lookout.kind, thinks=thinks)
        self._body: BodyReader | None = None
        self._marker = ""  # that opened the body, with the white space that `trim` took along
        self._calls_before = 0  # how many had come out when the body was opened
        self._end_before = ""  # the end marker that was expected then
        self._read_again = 0
        self._call_start = 0  # where in the answer the open call begins
        self._finished = False
        self._run: TextRun | StringRun | None = None
        self._read_prompt(prompt_suffix)

    def number_from(self, index: int) -> None:
        """Give the blocks numbers from *index* on: they are part of a longer answer."""
        self._output.index = index

    def follow_thought(self) -> None:
        """Let the text come after reasoning.

        With `trim`, white space between them is not a text.
        """
        self._prose.follows_call = True

    def feed(self, text: str) -> list[Event]:
        """Read more text; return the events that it makes certain."""
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
        if self._calls.is_held:
            self._calls.check_held()
        self._run = self._open_run()
        return self._output.take()

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002 - as the contract has it
        """End the answer; return what was held back.

        Without *cut* the model ended by itself: a call that it left open may be repaired then.
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
        if self._refusals.is_heard and self._has_calls_in_code():
            self._report_calls_in_code()
        self._output.close_text()
        self.rest = self._scanner.take_raw()
        self._part()
        return self._output.take()

    def _has_calls_in_code(self) -> bool:
        """Return whether the marker of a call was found in code, and was text therefore."""
        code = self._syntax if self._code is None else self._code
        return getattr(code, "has_protected", False)

    def _report_calls_in_code(self) -> None:
        """Report the calls in the last text that are text because they are in code.

        A model that fences all of its calls would else never make one, and nobody know why. Only
        what reads as a complete call is reported: most code that has a marker in it is prose.
        """
        text = "".join(self._output.pieces or ())
        schemas = self._calls.schemas
        if len(text) > MAX_REREAD or not isinstance(schemas, Schemas):
            return
        give: Callable[[], Syntax] | None = getattr(self._syntax, "afresh", None)
        syntax = self._syntax if give is None else give()
        again = Engine(syntax, schemas.tools, fenced="calls")
        events = (*again.feed(text), *again.finish())
        calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
        for call, (start, end) in zip(calls, again.spans, strict=False):
            if call.name in schemas:
                self._refusals.tell(CALL_IN_CODE, call.name, text[start:end], "")

    def _part(self) -> None:
        """Cut what leads back here, so that a parser goes with whoever held it.

        Else each answer would leave kilobytes for the collector to find, when it looks.
        """
        self._calls.tell = _say_nothing
        self._calls.show = _show_nothing
        self._calls.untrusted = None
        if isinstance(self._calls, KnownToolSink):
            self._calls.begin(lambda: "text", thinks=False)

    def _read(self, *, final: bool) -> None:
        goes_on = True
        while goes_on:
            if self._body is not None:
                goes_on = self._read_body(self._body, final=final)
                continue
            step = self._prose.read(final=final)
            if isinstance(step, OpenedMarker):
                self._open_body(step)
            goes_on = step is not False

    def _read_prompt(self, prompt: str) -> None:
        """Read the end of the prompt as if the model had written it; nothing of it comes out.

        A syntax with headers may know what every prompt of its models ends with.
        """
        reasoning = self._lookout.reasoning
        opener = getattr(self._syntax, "opened_in", None)
        opened: tuple[str, Channel | None] | None = opener(prompt) if opener is not None else None
        thought = None
        if opened is None and reasoning is not None:
            opened = thought = reasoning.opened_in(prompt)
        if opened is None:
            self._body = self._first_body()
            return
        text, channel = opened
        if thought is not None:
            self._lookout.think(thought[1])
        else:
            self._lookout.enter(channel)
        self._scanner.push(text)
        self._read(final=False)
        if self._calls.writer is not None or thought is not None:
            # Nothing is known of half a call.
            self._calls.drop()
            self._body = None
        self._marker = ""
        self._call_start = 0
        self._prose.forget()
        self._output.forget()
        self._scanner.drop()

    def _first_body(self) -> BodyReader | None:
        """Return who reads the very beginning of the answer, if the syntax has such a reader."""
        give: Callable[[], BodyReader | None] | None = getattr(self._syntax, "first_body", None)
        return None if give is None else give()

    def _open_run(self) -> TextRun | StringRun | None:
        """Return the run that is open, if the next text could go straight to it."""
        scanner, calls = self._scanner, self._calls
        if scanner.at < len(scanner.text):
            return None
        if self._body is None:
            return self._prose.run()
        if calls.writer is not None and calls.writer.is_repeating:
            return None  # What is not written must not go straight out.
        run = self._body.run()
        if run is None or calls.is_held or (calls.live and scanner.has_raw):
            return None
        scanner.pass_all()
        room = self._call_start + MAX_CALL - scanner.offset - scanner.at
        deltas = None if calls.live else calls.deltas
        copies = scanner.kept if calls.live else scanner.passed
        return StringRun(run, self._output.index, room, deltas=deltas, copies=copies)

    # --- bodies ---

    def _open_body(self, opening: OpenedMarker) -> None:
        scanner = self._scanner
        self._prose.show(opening.start)
        scanner.begin_call()
        self._marker = scanner.text[opening.start : opening.end]
        self._body = TrailingMarker() if opening.is_wrapper else self._syntax.body(opening.marker)
        self._end_before = "" if opening.is_wrapper else self._lookout.end
        if self._end_before:
            self._lookout.drop(self._end_before)  # from here on it would be another call's
        self._calls_before = self._output.calls
        self._call_start = scanner.offset + opening.start
        scanner.at = opening.end

    def _read_body(self, body: BodyReader, *, final: bool) -> bool:
        """Let the body read on; return whether it has come to an end."""
        verdict = self._read_within_limit(body)
        if verdict is Verdict.MORE:
            if not final:
                return False
            verdict = self._finish_body(body)
        elif verdict is Verdict.BROKEN and self._repair and isinstance(body, Repairable):
            starts, folds = getattr(body, "starts", self._syntax.starts), self._syntax.folds
            self._calls.settle_held()
            self._body = RepairReader(body, self._marker, starts, folds=folds)
            return True
        elif verdict is Verdict.GIVE_UP and self._repair and self._mend(body, ended=False):
            verdict = Verdict.DONE
        self._body = None
        if self._ends_refusal(verdict):
            self._prose.end_refusal()
        refused, self._calls.refused = self._calls.refused, ""
        if verdict in _NO_CALLS:
            self._give_up(body, verdict)
        elif refused:
            self._show_refused(refused)
        else:
            self._end_calls(body.end if verdict is Verdict.UNTERMINATED else "")
        # Cheaper than asking whether it is a `Header`.
        entered: Channel | None = getattr(body, "enters", None)
        if entered is not None and verdict is Verdict.DONE:
            self._prose.follows_call = False
            self._lookout.enter(entered)
        return True

    def _end_calls(self, end: str) -> None:
        """Continue after calls that were read; *end* may still come. Quoted ones are text."""
        is_text = bool(self._calls.quotations) and self._end_quotations()
        if self._output.calls > self._calls_before:
            self.spans.append((self._call_start, self._scanner.offset + self._scanner.at))
        if not is_text or self._output.calls > self._calls_before:
            self._follow_call("" if is_text else end)
        self._prose.follows_call = not is_text

    def _show_refused(self, name: str) -> None:
        """Show the text of a call that was one too many."""
        if self._output.calls > self._calls_before:  # The first of them was in the same body.
            self.spans.append((self._call_start, self._scanner.offset + self._scanner.at))
        self._refusals.tell(ONE_TOO_MANY, name, self._scanner.read_since_call(), self._marker)
        self._follow_call("")
        self._prose.show_read()

    def _finish_body(self, body: BodyReader) -> Verdict:
        """Return the body that the text has ended inside it."""
        scanner = self._scanner
        if self._mend_open_string(body):
            return Verdict.DONE
        try:
            verdict = body.finish(scanner, self._calls)
        except NoCallError as exc:
            body.error, verdict = str(exc), Verdict.GIVE_UP
            scanner.at = len(scanner.text)
        if verdict not in _NO_CALLS:
            return verdict
        if self._repair and self._mend(body, ended=True):
            return Verdict.DONE
        if self._calls.started:  # It shows what there was of it: all of the text is its own.
            scanner.at = len(scanner.text)
            return Verdict.GIVE_UP
        return verdict

    def _mend_open_string(self, body: BodyReader) -> bool:
        """Repair a call that the model left inside a string, while none of its end has gone out.

        Half a closing tag is held back; where a body finishes it becomes part of the string.
        """
        if not self._repair or not isinstance(body, Repairable) or body.open_text() is None:
            return False
        scanner = self._scanner
        at, scanner.at = scanner.at, len(scanner.text)
        if self._mend(body, ended=True):
            return True
        scanner.at = at
        return False

    def _mend(self, body: BodyReader, *, ended: bool) -> bool:
        """Make calls of a body after all; *ended* tells that the model stopped inside it."""
        mendable = body.body if isinstance(body, RepairReader) else body
        if not isinstance(mendable, Repairable):
            return False
        inside = self._scanner.read_since_call().removeprefix(self._marker)
        ended = ended and mendable is body
        return repair(mendable, inside, self._calls, ended=ended, rests=self._scanner)

    def _read_within_limit(self, body: BodyReader) -> Verdict:
        """Let the body see no more of the text than a call may have: limits count characters."""
        scanner = self._scanner
        limit = self._call_start + MAX_CALL - scanner.offset
        beyond = scanner.text[limit:]
        if not beyond:
            return self._let_read(body)
        scanner.text = scanner.text[:limit]
        verdict = self._let_read(body)
        scanner.text += beyond
        if verdict is not Verdict.MORE:
            return verdict
        return Verdict.TOO_LONG

    def _let_read(self, body: BodyReader) -> Verdict:
        """Let the body read on; a call that cannot be closed is broken, or text if unclear."""
        try:
            return body.read(self._scanner, self._calls)
        except NoCallError as exc:
            body.error = str(exc)
            return Verdict.GIVE_UP if isinstance(exc, UnclearCallError) else Verdict.BROKEN

    def _follow_call(self, end: str) -> None:
        """Go on after a call, or what is left of one; *end* may still come and belongs to it."""
        self._prose.follows_call = True
        if self._calls.is_first:
            self._lookout.begin_anew()
        else:
            self._lookout.leave_beginning()
        has_called = self._output.calls > self._calls_before
        self._lookout.follow_call(end, has_ended_thought=has_called)

    def _end_quotations(self) -> bool:
        """Report the quoted calls of a body that has ended; show what is left of the last one.

        Tells whether the last call was one: then what follows does not follow a call.
        """
        is_last = self._calls.was_quoted
        self._report_quotations(self._scanner.read_since_call() if is_last else "")
        if is_last:
            self._prose.show_read()
        return is_last

    def _report_quotations(self, rest: str = "") -> None:
        """Report the quoted calls of a body; *rest* is what follows the last: its end marker."""
        quotations, self._calls.quotations = self._calls.quotations, []
        marker = self._marker.strip()
        for why, name, text in quotations[:-1]:
            self._refusals.tell(why, name, text, marker)
        why, name, text = quotations[-1]
        self._refusals.tell(why, name, text + rest, marker)

    def _give_up(self, body: BodyReader, verdict: Verdict) -> None:
        """Handle a body that is not a call: as text, or as a call that is not complete."""
        scanner, calls = self._scanner, self._calls
        if calls.quotations:
            self._report_quotations()
        text, has_started = scanner.read_since_call(), calls.started
        looks_again = verdict not in (Verdict.GIVE_UP, Verdict.TOO_LONG)
        self._refuse(body, verdict, text)
        if looks_again or not has_started:
            scanner.give_back()
        if self._output.calls > self._calls_before + has_started:
            self.spans.append((self._call_start, scanner.offset + scanner.at))
        calls.drop(_open_text_of(body) if has_started else None)
        if has_started or self._output.calls > self._calls_before:
            self._follow_call(body.end)
        if verdict is Verdict.BROKEN and self._refusals.is_open:
            self._lookout.expect_refusal_end(body.end)
        if verdict is Verdict.NOT_A_CALL and self._end_before and not self._lookout.end:
            self._lookout.expect(self._end_before)  # as if the marker had not been there
        self._read_again += verdict is Verdict.BROKEN or len(text) > MAX_PROSE
        if has_started:
            return
        if not looks_again or self._read_again > MAX_READ_AGAIN:
            self._prose.show(scanner.at + len(text))
        elif text.startswith(self._marker):  # It has had its chance; after it may be another.
            self._prose.show(scanner.at + len(self._marker))

    def _refuse(self, body: BodyReader, verdict: Verdict, text: str) -> None:
        """Tell of a body that was meant to be a call; of one that broke when its end has come."""
        name, marker = self._calls.name, self._marker.strip()
        if isinstance(self._calls, KnownToolSink) and name not in self._calls.schemas:
            return  # Any format may be meant, or none.
        if verdict is Verdict.TOO_LONG:
            self._refusals.tell(f"a call of more than {MAX_CALL} characters", name, text, marker)
        elif verdict is Verdict.GIVE_UP:
            self._refusals.tell(body.error, name, text, marker)
        elif verdict is Verdict.BROKEN:
            claimed = "".join(self._scanner.kept or ())
            self._refusals.begin(body.error, name, claimed, marker)

    def _ends_refusal(self, verdict: Verdict) -> bool:
        """Return whether the segment of a broken call ended before the body that was read."""
        if verdict not in _NO_CALLS:
            return True
        if self._output.calls > self._calls_before + self._calls.started:
            return True
        return verdict is not Verdict.NOT_A_CALL and not self._refusals.goes_on_with(
            self._marker.strip()
        )

    def _tell(self, why: str | ParseError) -> None:
        """Tell of a call that stands and yet has something wrong."""
        text = self._scanner.read_since_call()
        self._refusals.tell(why, self._calls.name, text, self._marker.strip())


def _open_text_of(body: BodyReader) -> str | None:
    """Return what has gone out of a string that *body* left open."""
    reader = body.body if isinstance(body, RepairReader) else body
    give: Callable[[], str | None] | None = getattr(reader, "open_text", None)
    return None if give is None else give()


def _say_nothing(why: str | ParseError) -> None:
    del why


def _show_nothing() -> None:
    pass


def _counted() -> Callable[[], str]:
    numbers = iter(range(1, 1 << 62))
    return lambda: f"call_{next(numbers)}"
