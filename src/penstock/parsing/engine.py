"""The engine of every parser: text in, blocks out.

Outside calls, `text` emits text or reasoning up to the next marker. After a start marker a body
reader takes over and decides where the call ends. A body that turns out not to be a call is handed
back: its start marker is text, and scanning continues after it, so later calls are still found.
Text is handed back a limited number of times per response (`MAX_READ_AGAIN`); after that it is
text. With `repair`, a broken call is first read up to its end. All state is in `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from penstock.errors import UsageError
from penstock.events import Event, ToolCallEnd
from penstock.messages import CallIds
from penstock.parsing.body import (
    BodyReader,
    Reasoning,
    ReasoningOnly,
    StrayReasoning,
    Syntax,
    Verdict,
    Wrapper,
    check_reasoning_options,
)
from penstock.parsing.call_sink import CallSink, NoCallError, UnclearCallError
from penstock.parsing.fast_path import Run, StringRun
from penstock.parsing.frames import (
    drop_begun_header,
    drop_last_marker,
    open_frame,
    open_start,
    open_wrapper,
)
from penstock.parsing.quotations import (
    CALL_IN_CODE,
    CodeSpans,
    FencedCalls,
    Untrusted,
    check_choice,
)
from penstock.parsing.repair import RepairReader, repair_calls
from penstock.parsing.scanner import Scanner
from penstock.parsing.state import (
    EngineState,
    MarkerSets,
    OnError,
    begin_segment,
    close_segment,
    close_text,
    continues_segment,
    discard_output,
    repeat_reasoning,
    report,
    take_events,
)
from penstock.parsing.text import (
    OpenedMarker,
    begin_markers,
    begin_reasoning,
    begin_response,
    drop_stray,
    end_broken,
    enter_channel,
    expect_broken_end,
    expect_call_end,
    follow_call,
    leave_beginning,
    open_text_run,
    read_text,
    restore_beginning,
    show,
    show_read,
)
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_READ_AGAIN: Final = 16
"""How often text that was not a call is read again: this keeps broken responses linear."""

MAX_CALL: Final = 16 * 1024 * 1024
"""How many characters a call may have: enough for any file that a model writes."""

MAX_PROSE: Final = 256
"""How much text may be read after a marker that is not a call, without counting as read again."""

MAX_REREAD: Final = 64 * 1024
"""How long the text may be that is searched for calls in code, to report them."""

Arguments = Literal["whole", "live"]
"""Whether a call is emitted when it is complete, or as it arrives."""

_NO_CALLS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.TOO_LONG, Verdict.NOT_A_CALL)

ONE_TOO_MANY: Final = "the request allows no more calls: this one stays text"


class Schemas(Mapping[str, Schema]):
    """The schemas of *tools* by name, each read when it is first used.

    A parser is made for every response, and most responses call few of the tools. Several parsers
    may share one.
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

    def get(self, name: str, default: Any = None) -> Any:
        """Return the schema of the tool *name*, or *default*."""
        known = self._read.get(name)
        if known is not None:
            return known
        return self[name] if name in self._tools else default

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
    """Reads one response of a model with one syntax of calls.

    With *arguments* `whole`, a call is emitted when it is complete and anything else is text; with
    `live` it is emitted as it arrives and may turn out incomplete. *reasoning* describes how
    the model marks its reasoning, *wrappers* are markers without content, and *prompt_suffix* is
    the end of the prompt. With *trim*, white space that touches a call, or separates reasoning from
    the text after it, is dropped. With *repair*, broken calls are repaired. *on_error* is called
    with text that was meant to be a call; *ids* creates an id for a call without one. After
    *max_calls* calls others are text. A call that occurs in *untrusted* text is text, and so is one
    in code, unless *fenced* is `calls`. `penstock.Parser` explains *reasoning_only* and
    *stray_reasoning*. Engines of the same syntax and wrappers may share *marker_sets*. After
    `finish`, `rest` is text that no event claimed.
    """

    __slots__ = ("_calls", "_finished", "_has_first_body", "_run", "_state", "rest", "spans")

    def __init__(  # noqa: PLR0913 - each is an option of every parser
        self,
        syntax: Syntax,
        tools: Iterable[Tool] | Schemas = (),
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
        reasoning_only: ReasoningOnly | None = None,
        stray_reasoning: StrayReasoning | None = None,
        marker_sets: MarkerSets | None = None,
    ) -> None:
        if arguments not in ("whole", "live"):
            raise UsageError(f'arguments must be "whole" or "live", not {arguments!r}')
        check_choice("fenced", fenced)
        check_reasoning_options(reasoning_only, stray_reasoning)
        self.rest = ""
        self.spans: list[tuple[int, int]] = []
        """Where in the response text was read as calls, markers included."""
        self._finished = False
        self._run: Run | None = None  # the fast path, while it is open
        self._has_first_body = False  # the beginning may need a reader, which the text decides
        live = arguments == "live"
        scanner = Scanner(keeps=live and (repair or on_error is not None))
        make_id = ids or syntax.make_ids() or CallIds()
        schemas = tools if isinstance(tools, Schemas) else Schemas(tools)
        state = EngineState(
            scanner, schemas, make_id, live=live, max_calls=max_calls, marker_sets=marker_sets
        )
        state.on_error = on_error
        state.untrusted = Untrusted.of(untrusted)
        state.only_known = syntax.only_known_tools
        state.trim = trim
        state.repairing = repair
        state.preface = reasoning.preface if reasoning is not None else ""
        if fenced == "calls":
            syntax.allow_calls_in_code()
        elif not syntax.follows_code:
            state.code = CodeSpans()
        splits = repair if stray_reasoning is None else stray_reasoning == "split"
        state.strays = reasoning.stray_ends if splits and reasoning is not None else ()
        state.answers_reasoning = repair if reasoning_only is None else reasoning_only == "text"
        begin_markers(state, syntax, reasoning, wrappers)
        self._state = state
        self._calls = CallSink(state)
        self._read_prompt(prompt_suffix)

    def number_from(self, index: int) -> None:
        """Begin the numbers of the blocks at *index*: they are part of a longer response."""
        self._state.index = index

    def follow_reasoning(self) -> None:
        """Treat the text as following reasoning: with `trim`, white space between is dropped."""
        self._state.follows_call = True

    def feed(self, text: str) -> list[Event]:
        """Read more text; return the events that it makes certain."""
        run = self._run
        if run is not None and text:
            # Nearly all deltas end here, so what a run does to plain text is written out.
            if run.gate(text) is None:
                if (left := run.left - len(text)) > 0:
                    run.left = left
                    run.append(text)
                    delta = run.delta
                    return [] if delta is None else [delta(run.index, text, text)]
            elif (events := run.take(text)) is not None:
                return events
        state = self._state
        if run is not None and text:
            state.scanner.count_fast(run.close())
            text = run.held + text
        elif self._finished:
            raise UsageError("the parser has finished: make a new one for a new response")
        elif not text:
            return []
        self._run = None
        if self._has_first_body:
            self._has_first_body = False
            state.body = state.syntax.first_body(text)
        state.scanner.push(text)
        self._read(final=False)
        if state.trail is not None:
            self._calls.check_held()
        self._run = self._open_run()
        return take_events(state)

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002 - positional in the public interface
        """End the response; return what was held back.

        Without *cut* the model has stopped of its own accord: a call that it left open may be
        repaired.
        """
        if self._finished:
            raise UsageError("the parser has finished already")
        run, state = self._run, self._state
        if run is not None:
            state.scanner.count_fast(run.close())
        state.scanner.push("" if run is None else run.held)
        self._run = None
        self._finished = True
        state.repairing = state.repairing and not cut
        self._read(final=True)
        close_segment(state)
        code, syntax = state.code, state.syntax
        has_calls_in_code = syntax.has_calls_in_code if code is None else code.has_protected
        if has_calls_in_code and state.on_error is not None:
            self._report_calls_in_code()
        if state.answers_reasoning and not cut:
            repeat_reasoning(state)
        close_text(state)
        self.rest = state.scanner.take_raw()
        state.untrusted = None  # Break the cycle: it may refer to the owner of this parser.
        return take_events(state)

    def _report_calls_in_code(self) -> None:
        """Report the calls in the last text that are text because they are in code.

        Without this, a model that fences all of its calls would never make one, for no visible
        reason. Only complete calls are reported: most code that has a marker in it is prose.
        """
        state = self._state
        text, schemas = "".join(state.pieces or ()), state.schemas
        if len(text) > MAX_REREAD or not isinstance(schemas, Schemas):
            return
        again = Engine(state.syntax.copy(), schemas, fenced="calls")
        events = (*again.feed(text), *again.finish())
        calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
        for call, (start, end) in zip(calls, again.spans, strict=False):
            if call.name in schemas:
                report(state, CALL_IN_CODE, call.name, text[start:end], "")

    def _read(self, *, final: bool) -> None:
        state = self._state
        scanner, continues = state.scanner, True
        while continues:
            if state.body is not None:
                continues = self._read_body(state.body, final=final)
                continue
            if scanner.is_at_end:
                return
            step = read_text(state, final=final)
            if isinstance(step, OpenedMarker):
                self._open_body(step)
            continues = step is not False

    def _read_prompt(self, prompt: str) -> None:
        """Read the end of the prompt as if the model had written it; none of it is emitted.

        A syntax with headers may know what every prompt of its models ends with.
        """
        state = self._state
        opened = state.syntax.parse_prompt(prompt)
        is_reasoning = False
        if opened is None and prompt and state.reasoning is not None:
            opened = state.reasoning.parse_prompt(prompt)
            is_reasoning = opened is not None
        if opened is None:
            self._has_first_body = True
            return
        text, channel = opened
        if is_reasoning and channel is not None:
            begin_reasoning(state, channel)
        else:
            enter_channel(state, channel)
        state.scanner.push(text)
        self._read(final=False)
        state.prompt_channel = state.channel
        if state.writer is not None or is_reasoning:
            self._calls.drop()  # A call that begins in the prompt is not read.
            state.body = None
        state.marker = ""
        state.call_start = 0
        begin_response(state)
        discard_output(state)
        state.scanner.drop()

    def _open_run(self) -> Run | None:
        """Return the run that is open, if the next text could be emitted directly."""
        state = self._state
        scanner = state.scanner
        if not scanner.is_at_end:
            return None
        if state.body is None:
            return open_text_run(state)
        if state.writer is not None and state.writer.is_repeating:
            return None  # Text that is not written must not be emitted directly.
        string = state.body.open_string()
        if string is None or state.trail is not None:
            return None
        if state.live and scanner.has_raw and not string.waits:
            return None  # A delta of the run would not claim the text that was read before it.
        scanner.pass_all()
        room = state.call_start + MAX_CALL - scanner.position
        # In `whole` the pieces wait in `deltas`; a broken call is given back from `passed`. A live
        # call cannot be given back, but its text may have to be reported or repaired: `kept`.
        deltas = None if state.live or string.waits else state.deltas
        copies = scanner.kept if state.live and not string.waits else scanner.passed
        return StringRun(string, state.index, room, deltas=deltas, copies=copies)

    # --- bodies ---

    def _open_body(self, opening: OpenedMarker) -> None:
        state, is_wrapper = self._state, opening.is_wrapper
        scanner = state.scanner
        show(state, opening.start)
        scanner.begin_call()
        state.marker = scanner.text[opening.start : opening.end]
        scanner.advance_to(opening.end)
        if is_wrapper:
            open_wrapper(state, opening.marker)
        else:
            open_start(state, opening.marker)
        state.end_before = "" if is_wrapper else state.call_end
        if state.end_before:
            drop_stray(state, state.end_before)  # From here on it would belong to another call.
        state.calls_before = state.started_calls
        state.call_start = scanner.offset + opening.start

    def _read_body(self, body: BodyReader, *, final: bool) -> bool:
        """Continue reading the body; return whether it has come to an end."""
        state = self._state
        verdict = self._read_within_limit(body)
        if verdict is Verdict.MORE:
            if not final:
                return False
            verdict = self._finish_body(body)
        elif verdict is Verdict.BROKEN and state.repairing and body.is_repairable:
            # The rest of the call is not known yet: read up to its end marker, then repair it all.
            self._calls.settle_held()
            starts, syntax = body.next_starts, state.syntax
            folds = syntax.folds if starts is None else body.next_folds
            starts = syntax.starts if starts is None else starts
            state.body = RepairReader(body, state.marker, starts, folds=folds)
            return True
        elif verdict is Verdict.GIVE_UP and state.repairing and self._repair(body, ended=False):
            verdict = Verdict.DONE
        if verdict is Verdict.OPENED or (verdict is Verdict.NOT_A_CALL and self._reframe(body)):
            return True
        state.body = None
        # The report of an earlier broken call waits for its end marker; another call ends it, too.
        if self._ends_segment(verdict):
            end_broken(state)
        refused = self._calls.take_refused()
        if verdict in _NO_CALLS:
            self._give_up(body, verdict)
        elif refused:
            self._show_refused(refused)
        else:
            self._end_calls(body.end if verdict is Verdict.UNTERMINATED else "")
        if verdict is Verdict.DONE and (channel := body.enters) is not None:
            state.follows_call = False
            enter_channel(state, channel)
        return True

    def _reframe(self, body: BodyReader) -> bool:
        """Look for a call after a wrapper that *body* took for a start marker."""
        return not self._calls.started and open_frame(self._state, body)

    def _read_within_limit(self, body: BodyReader) -> Verdict:
        """Continue reading the body, up to the maximum length of a call.

        The limit counts characters, however the text was split into chunks. A call that cannot be
        closed is broken, or text if its meaning is unclear.
        """
        state = self._state
        scanner = state.scanner
        limit = state.call_start + MAX_CALL - scanner.offset
        # The reader never sees the text beyond, or its verdict would depend on how much had come.
        beyond = scanner.cut(limit) if len(scanner.text) > limit else ""
        try:
            verdict = body.read(scanner, self._calls)
        except NoCallError as exc:
            body.error = str(exc)
            verdict = Verdict.GIVE_UP if isinstance(exc, UnclearCallError) else Verdict.BROKEN
        if beyond:
            scanner.restore(beyond)
            if verdict is Verdict.MORE:
                return Verdict.TOO_LONG
        return verdict

    def _finish_body(self, body: BodyReader) -> Verdict:
        """End the body where the text has ended inside it."""
        state = self._state
        scanner = state.scanner
        if state.repairing and self._repair_open_string(body):
            return Verdict.DONE
        if state.repairing and drop_last_marker(state):
            return Verdict.DONE
        try:
            verdict = body.finish(scanner, self._calls)
        except NoCallError as exc:
            body.error, verdict = str(exc), Verdict.GIVE_UP
            scanner.skip_all()
        if verdict not in _NO_CALLS:
            return verdict
        if verdict is Verdict.NOT_A_CALL and drop_begun_header(state):
            return Verdict.DONE
        if state.repairing and self._repair(body, ended=True):
            return Verdict.DONE
        if self._calls.started:  # A call that was emitted in part: all of the text is its own.
            scanner.skip_all()
            return Verdict.GIVE_UP
        return verdict

    def _repair_open_string(self, body: BodyReader) -> bool:
        """Repair a call that the model left inside a string, before any of its end was emitted.

        Half a closing tag is held back; `finish` would make it part of the string.
        """
        if not body.is_repairable or body.open_text() is None:
            return False
        scanner = self._state.scanner
        size = len(scanner.text) - scanner.at
        scanner.skip_all()
        if self._repair(body, ended=True):
            return True
        scanner.rewind(size)
        return False

    def _repair(self, body: BodyReader, *, ended: bool) -> bool:
        """Make calls of a broken body; with *ended* the model stopped inside it."""
        broken = body.body if isinstance(body, RepairReader) else body
        if not broken.is_repairable:
            return False
        scanner = self._state.scanner
        inside = scanner.read_since_call().removeprefix(self._state.marker)
        # A call that broke before the response ended is not only unclosed, so more is at stake.
        ended = ended and broken is body
        return repair_calls(broken, inside, self._calls, ended=ended, scanner=scanner)

    # --- after a body ---

    def _end_calls(self, end: str) -> None:
        """Continue after calls that were read; *end* may still come. Quoted ones are text."""
        state = self._state
        is_text = bool(state.quotations) and state.was_quoted
        if state.quotations:
            self._report_quotations(state.scanner.read_since_call() if is_text else "")
        if is_text:
            show_read(state)  # The rest of the last call; what follows does not follow a call.
        has_called = state.started_calls > state.calls_before
        if has_called:
            self._add_span()
        if not is_text or has_called:
            self._follow_call("" if is_text else end, ends_block=has_called and not is_text)
        state.follows_call = not is_text
        if has_called and not is_text:
            state.has_broken = False

    def _show_refused(self, name: str) -> None:
        """Emit the text of a call beyond `max_calls`."""
        state = self._state
        if state.started_calls > state.calls_before:  # The first of them was in the same body.
            self._add_span()
        report(state, ONE_TOO_MANY, name, state.scanner.read_since_call(), state.marker)
        self._follow_call("")
        show_read(state)

    def _give_up(self, body: BodyReader, verdict: Verdict) -> None:
        """Make a body that is not a call text, or a call that is not complete."""
        state = self._state
        scanner = state.scanner
        if state.quotations:
            self._report_quotations()
        text, has_started = scanner.read_since_call(), self._calls.started
        is_read_again = verdict not in (Verdict.GIVE_UP, Verdict.TOO_LONG)
        self._report_broken(body, verdict, text)
        if is_read_again or not has_started:
            scanner.give_back()
        if state.started_calls > state.calls_before + has_started:
            self._add_span()
        reader = body.body if isinstance(body, RepairReader) else body
        self._calls.drop(reader.open_text() if has_started else None)
        if has_started or state.started_calls > state.calls_before:
            self._follow_call(body.end)
        if verdict is Verdict.BROKEN and state.segment_is_open:
            expect_broken_end(state, body.end)
        if verdict is Verdict.NOT_A_CALL and state.end_before and not state.call_end:
            expect_call_end(state, state.end_before)  # as if the marker had not been there
        # Prose such as `a < b` opens a body in formats without special tokens, many times in one
        # response: only what is long enough to cost anything counts.
        state.read_again += verdict is Verdict.BROKEN or len(text) > MAX_PROSE
        if has_started:
            return  # Its deltas are out (law 3), so its text cannot be anything else any more.
        state.has_broken = state.has_broken or state.marker != ""
        if not is_read_again or state.read_again > MAX_READ_AGAIN:
            show(state, scanner.at + len(text))
        elif text.startswith(state.marker):  # The marker is text; another may follow it.
            show(state, scanner.at + len(state.marker))

    def _follow_call(self, end: str, *, ends_block: bool = False) -> None:
        """Continue after a call, or the rest of one; *end* may still come and belongs to it.

        With *ends_block*, the call was complete and nothing has come after it.
        """
        state = self._state
        state.follows_call = True
        if state.is_first:  # All so far was reasoning, the header of a message, or dropped.
            restore_beginning(state)
        else:
            leave_beginning(state)
        has_called = state.started_calls > state.calls_before
        follow_call(state, end, has_ended_reasoning=has_called, ends_block=ends_block)

    def _add_span(self) -> None:
        self.spans.append((self._state.call_start, self._state.scanner.position))

    # --- reports ---

    def _report_quotations(self, rest: str = "") -> None:
        """Report the quoted calls of a body; *rest* is what follows the last: its end marker."""
        state = self._state
        quotations = self._calls.take_quotations()
        for number, (why, name, text) in enumerate(quotations, 1):
            whole = text + rest if number == len(quotations) else text
            report(state, why, name, whole, state.marker.strip())

    def _report_broken(self, body: BodyReader, verdict: Verdict, text: str) -> None:
        """Report a body that was meant to be a call; a broken one is reported at its end."""
        state = self._state
        name, marker = state.name, state.marker.strip()
        if state.only_known and name not in state.schemas:
            return  # Any format may be meant, or none.
        if verdict is Verdict.TOO_LONG:
            report(state, f"a call of more than {MAX_CALL} characters", name, text, marker)
        elif verdict is Verdict.GIVE_UP:
            report(state, body.error, name, text, marker)
        elif verdict is Verdict.BROKEN:
            begin_segment(state, body.error, name, "".join(state.scanner.kept or ()), marker)

    def _ends_segment(self, verdict: Verdict) -> bool:
        """Return whether the segment of a broken call ended before the body that was read."""
        state = self._state
        if verdict not in _NO_CALLS:
            return True
        if state.started_calls > state.calls_before + self._calls.started:
            return True
        return verdict is not Verdict.NOT_A_CALL and not continues_segment(
            state, state.marker.strip()
        )
