"""One response from one or more attempts: request, read, and request again if necessary.

Text is passed on as it arrives. If a demanded call is missing, or a call has to be sent back, the
response is requested again. An `Opaque` part of penstock's own separates two attempts, and the
usage of all attempts is added up.

`AttemptMerger` merges the blocks of all attempts into one message with consecutive indexes. A call
passes unless the request does not allow it (another tool than the chosen one, or a second call
where one is allowed) or it is sent back. A call that does not pass is reported, and its text is
added to `raw` of the next event, so that nothing is lost.

Where calls are checked, events are held from the start of a call to its end. After a refused call
they are held until the end of the attempt, where it is decided whether there is another one. Calls
that the upstream made natively pass unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from inspect import Parameter, signature
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock import _json
from penstock.errors import ParseError, shorten
from penstock.events import (
    DELTAS,
    ENDS,
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import AnyFormat, EventParser, Format
from penstock.formats.base import stop_reason_for
from penstock.messages import (
    CallIds,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    sum_usage,
)
from penstock.models.base import Model, Tap, join_deltas
from penstock.models.prompts import PromptRenderer, add_feedback
from penstock.models.tool_choice import ToolDemand, report_broken
from penstock.models.tracing import Tracer, make_reader
from penstock.parsing import OnError, Reasoning, Schemas, Untrusted
from penstock.parsing.state import BrokenCall
from penstock.request import Request
from penstock.values.schema import Schema

PROVIDER: Final = "penstock"
"""The provider of the part that reports a retry; no API sends it on."""

MAX_SHOWN_JSON: Final = 300
"""How many characters of a value or a schema are quoted to the model: enough to recognise it."""

# Tuples: a union in `isinstance` is built again on every call.
_STARTS: Final = (TextStart, ThinkingStart, ToolCallStart, Part)

CheckCall = Callable[[ToolCall], str]
"""Returns what is wrong with a call; empty if it may be run."""


class ReadOptions(Struct, frozen=True):
    """How responses are read: *parser* are options of `Parser`, the rest of `ToolMiddleware`."""

    parser: dict[str, Any]
    retries: int
    send_back: bool
    on_error: OnError | None
    tracer: Tracer


class RequestPlan(Struct, frozen=True):
    """The upstream *request*, and the format and reasoning style that its response is read in.

    With *whole*, the response is one JSON object that is one call.
    """

    demand: ToolDemand
    renderer: PromptRenderer
    request: Request
    format: AnyFormat
    reasoning: str | Reasoning | None
    whole: bool = False


class AttemptRunner:
    """Gets one response from *model* as *plan* describes it."""

    def __init__(
        self,
        model: Model,
        plan: RequestPlan,
        options: ReadOptions,
        ids: CallIds,
        tap: Tap | None = None,
        untrusted: Untrusted | None = None,
    ) -> None:
        self._model = model
        self._tap = tap
        self._plan = plan
        self._options = options
        self._ids = ids
        self._untrusted = untrusted
        self._merger = AttemptMerger(plan.demand, options.on_error)

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """Yield the events of the whole response in lists."""
        merger, request = self._merger, self._plan.request
        for left in range(self._options.retries, -1, -1):
            merger.begin(self._make_check() if left else None)
            async with aclosing(self._run(request)) as attempt:
                async for batch in attempt:
                    yield batch
            reason = self._find_retry_reason() if left else ""
            yield merger.end_attempt(again=bool(reason))
            if not reason:
                break
            request = add_feedback(request, merger.attempt.text, self._write_feedback())
            yield [merger.make_retry_part(reason)]
        self._report_missing_call()
        end = merger.finish()
        yield [] if end is None else [end]

    async def _run(self, request: Request) -> AsyncGenerator[list[Event], None]:
        """Yield the events of one attempt."""
        plan, merger, options = self._plan, self._merger, self._options
        read = make_reader(
            self._make_parser, options.tracer, plan.format, plan.demand.tools, options.on_error
        )
        async with aclosing(self._model.batches(request, self._tap)) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, ToolCallStart):
                        merger.native.add(event.id)
                        self._ids.taken.add(event.id)
                parsed = [out for event in batch for out in join_deltas(read(event))]
                yield [passed for event in parsed for passed in merger.add(event)]

    def _make_parser(self, on_error: OnError | None) -> EventParser:
        """Return the parser of an attempt; a user's own format gets only options that it takes."""
        plan = self._plan
        options = {**self._options.parser, "ids": self._ids, "on_error": on_error}
        if self._untrusted is not None:
            options["untrusted"] = self._untrusted
        if plan.demand.single:
            options["max_calls"] = 1
        if not isinstance(plan.format, Format):
            known = signature(plan.format.parser).parameters.values()
            if all(each.kind is not Parameter.VAR_KEYWORD for each in known):
                names = {each.name for each in known}
                options = {name: value for name, value in options.items() if name in names}
        return EventParser(plan.format, plan.demand.tools, reasoning=plan.reasoning, **options)

    # --- retries ---

    def _make_check(self) -> CheckCall | None:
        """Return the check of calls for an attempt that may be repeated; None if none is needed."""
        demand, send_back = self._plan.demand, self._options.send_back
        if not send_back and not demand.forced:
            return None
        schemas = Schemas(demand.tools)

        def check(call: ToolCall) -> str:
            if not call.complete:
                return "the call was not finished" if demand.forced else ""
            return find_problem(call, schemas) if send_back else ""

        return check

    def _find_retry_reason(self) -> str:
        """Return why the attempt has to be repeated; empty if it is fine or a retry cannot help."""
        attempt = self._merger.attempt
        if not isinstance(attempt.end, Done) or attempt.end.reason == "length":
            return ""  # A failed or truncated response would fail the same way again.
        if attempt.refused:
            return "; ".join(each.why for each in attempt.refused.values())
        is_missing = self._plan.demand.forced and not attempt.calls
        return "the demanded call is missing" if is_missing else ""

    def _write_feedback(self) -> str:
        """Return the message to the model about what was wrong with its response."""
        attempt = self._merger.attempt
        if not attempt.refused:
            rule = self._plan.demand.rule
            return f"You did not call a tool, although it is required. {rule} Call it now."
        parts = []
        for each in attempt.refused.values():
            result = ToolResult(each.call.id, each.call.name, each.why, is_error=True)
            blocks = self._plan.renderer.history.render_result(result)
            parts += [block.text for block in blocks if isinstance(block, Text)]
        which = "This call was" if len(attempt.refused) == 1 else "These calls were"
        request = f"{which} not run. Call again, with what was wrong put right."
        # The accepted calls were sent on already: repeated, they would run twice.
        if attempt.calls:
            request += " Your other calls were accepted: do not repeat them."
        return "\n".join([*parts, request])

    def _report_missing_call(self) -> None:
        attempt = self._merger.attempt
        if self._plan.demand.forced and not attempt.calls:
            why = "the response has no call, although one was demanded"
            segment = BrokenCall(attempt.text, "", ParseError(why))
            report_broken(self._options.on_error, why, segment)


def find_problem(call: ToolCall, schemas: Mapping[str, Schema]) -> str:
    """Return what is wrong with *call*, as feedback for the model; empty if it may be run."""
    schema = schemas.get(call.name)
    if schema is None:
        known = ", ".join(schemas) or "none"
        return f"there is no tool called {call.name!r}; the tools are: {known}"
    if schema.accepts(call.arguments):
        return ""
    problems = [f"`{name}` is missing" for name in schema.required if name not in call.arguments]
    for name, value in call.arguments.items():
        expected = schema.property(name)
        if expected is None:
            if schema.closed:
                problems.append(f"there is no argument `{name}`")
        elif not expected.accepts(value):
            wanted = _quote(expected.raw)
            problems.append(f"`{name}` is {_quote(value)}, which does not satisfy {wanted}")
    return "; ".join(problems) or "the arguments do not satisfy the schema of the tool"


def _quote(value: Any) -> str:
    return shorten(_json.encode(value).decode(), MAX_SHOWN_JSON)


# --- merging ---


class RefusedCall(Struct, frozen=True):
    """A call that may be sent back, and why."""

    call: ToolCall
    why: str


class AttemptState(Struct):
    """The state of the current attempt."""

    indexes: dict[int, int] = field(default_factory=dict)  # from its indexes to the merged ones
    dropped: dict[int, list[str]] = field(default_factory=dict)  # the text of forbidden calls
    checked: set[int] = field(default_factory=set)  # calls whose end has not arrived
    held: list[Any] = field(default_factory=list)  # events of blocks
    refused: dict[int, RefusedCall] = field(default_factory=dict)
    raws: list[str] = field(default_factory=list)
    calls: int = 0  # complete calls that were not refused
    end: Done | Failed | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether events must be held: a call is being checked or was refused."""
        return bool(self.checked or self.refused)

    @property
    def is_special(self) -> bool:
        """Whether anything is held or dropped, so that deltas cannot simply pass."""
        return bool(self.held or self.dropped or self.checked or self.refused)

    @property
    def text(self) -> str:
        """The text of the attempt, if it was kept."""
        return "".join(self.raws)


class AttemptMerger:
    """Merges the events of attempts into one response that satisfies *demand*."""

    def __init__(self, demand: ToolDemand, on_error: OnError | None) -> None:
        self.attempt = AttemptState()
        self.native: set[str] = set()
        """The ids of calls that the upstream made natively."""
        self._demand = demand
        self._on_error = on_error
        self._check: CheckCall | None = None
        self._keeps_text = demand.forced
        self._content: dict[int, Content] = {}
        self._admitted = 0  # calls, in all attempts
        self._next = 0
        self._raw = ""  # of events that did not pass
        self._started: MessageStart | None = None
        self._usages: list[Usage] = []

    def begin(self, check: CheckCall | None) -> None:
        """Begin an attempt whose calls are checked by *check*; with None they pass directly."""
        self.attempt = AttemptState()
        self._check = check
        self._keeps_text = self._demand.forced or check is not None

    def add(self, event: Event) -> list[Event]:
        """Add an event of the attempt and return the events that pass.

        The terminal event is kept in `attempt`.
        """
        attempt = self.attempt
        if self._keeps_text and event.raw:
            attempt.raws.append(event.raw)
        if isinstance(event, DELTAS) and not attempt.is_special:
            return [self._renumber(event)]
        if isinstance(event, ENDS):
            attempt.end = event
            self._usages.append(event.message.usage)
            return []
        if isinstance(event, MessageStart):
            if self._started is not None:
                return []
            self._started = event
            return [event]
        if isinstance(event, ToolCallStart) and event.id not in self.native:
            self._admit(event)
        if event.index in attempt.dropped:
            texts = attempt.dropped[event.index]
            texts.append(event.raw)
            if isinstance(event, ToolCallEnd):
                name = event.call.name
                self._report(f"the request does not allow a call of {name!r}", name, "".join(texts))
        elif isinstance(event, ToolCallEnd):
            self._check_end(event)
        attempt.held.append(event)
        return [] if attempt.is_waiting else self._release()

    def end_attempt(self, *, again: bool) -> list[Event]:
        """End the attempt and return the events it held.

        If there is another attempt, refused calls do not pass. The terminal event is returned by
        `finish` after the last attempt.
        """
        if not again:
            return self._release()
        passed = self._release(without=self.attempt.refused)
        if self.attempt.end is not None:
            self._raw += self.attempt.end.raw
        return passed

    def make_retry_part(self, reason: str) -> Event:
        """Return the event that shows that another attempt follows."""
        data: dict[str, Any] = {"type": "retry", "reason": reason}
        refused = [
            {"name": each.call.name, "arguments": each.call.arguments, "error": each.why}
            for each in self.attempt.refused.values()
        ]
        if refused:
            data["calls"] = refused
        return self._pass(Part(self._next, Opaque(PROVIDER, data)))

    def finish(self) -> Done | Failed | None:
        """Return the terminal event of the response; None if the last attempt had none."""
        end = self.attempt.end
        if end is None:
            return None
        usage = self._usages[0]
        if len(self._usages) > 1:
            raws = [each.raw for each in self._usages]
            # The client pays for every attempt.
            usage = structs.replace(sum_usage(self._usages), raw={"attempts": raws})
        content = [self._content[index] for index in sorted(self._content)]
        message = structs.replace(end.message, content=content, usage=usage)
        if self._started is not None:  # The response has the id of its first attempt.
            message.id, message.model = self._started.id, self._started.model
        raw, self._raw = self._raw + end.raw, ""
        if isinstance(end, Failed):
            return structs.replace(end, message=message, raw=raw)
        message.stop_reason = reason = stop_reason_for(message, end.reason)
        return Done(reason, message, raw)

    def _release(self, without: Collection[int] = ()) -> list[Event]:
        """Return the held events that pass; the text of the others goes to the next event."""
        attempt = self.attempt
        held, attempt.held = attempt.held, []
        passed: list[Event] = []
        for event in held:
            if event.index in attempt.dropped or event.index in without:
                self._raw += event.raw
            else:
                passed.append(self._pass(event))
        return passed

    def _pass(self, event: Any) -> Event:
        """Return *event* with its merged index, and keep the content of a finished block."""
        if isinstance(event, _STARTS):
            self.attempt.indexes[event.index] = self._next
            self._next += 1
        passed = self._renumber(event)
        match passed:
            case TextEnd():
                self._content[passed.index] = Text(passed.text, passed.signature)
            case ThinkingEnd():
                self._content[passed.index] = Thinking(passed.text, passed.signature)
            case ToolCallEnd():
                self._content[passed.index] = passed.call
            case Part():
                self._content[passed.index] = passed.part
            case _:
                pass
        return passed

    def _renumber(self, event: Any) -> Event:
        """Return *event* with its merged index and the raw text of dropped events."""
        renumbered: Event = event
        index = self.attempt.indexes[event.index]
        if index != event.index or self._raw:
            renumbered = structs.replace(event, index=index, raw=self._raw + event.raw)
            self._raw = ""
        return renumbered

    def _admit(self, start: ToolCallStart) -> None:
        """Mark a new call to be dropped if it is not allowed, or to be checked."""
        if not self._demand.allows(start.name) or (self._demand.single and self._admitted):
            self.attempt.dropped[start.index] = []
            return
        self._admitted += 1
        if self._check is not None:
            self.attempt.checked.add(start.index)

    def _check_end(self, end: ToolCallEnd) -> None:
        attempt, call = self.attempt, end.call
        is_checked = end.index in attempt.checked
        attempt.checked.discard(end.index)
        why = self._check(call) if is_checked and self._check is not None else ""
        if not why:
            attempt.calls += call.complete
            return
        self._admitted -= 1
        attempt.refused[end.index] = RefusedCall(call, why)
        self._report(why, call.name, "")

    def _report(self, why: str, name: str, text: str) -> None:
        report_broken(self._on_error, why, BrokenCall(text, name, ParseError(why)))
