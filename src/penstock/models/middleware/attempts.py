"""One answer in one or more attempts: asked, read, and asked again where it will not do.

Whatever text there is goes out as it comes. An answer that lacks a call that was demanded, or has
one that is to be sent back, is asked for again; a part of penstock's own stands between two
attempts, and the usage of both is added up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from inspect import Parameter, signature
from typing import Any

from msgspec import Struct

from penstock.errors import ParseError
from penstock.events import Done, Event, ToolCallStart
from penstock.formats import EventParser, Format
from penstock.messages import Text, ToolCall, ToolResult
from penstock.models.base import Model, Tap, batches
from penstock.models.ids import Ids
from penstock.models.middleware.complaints import complaint_of, reminder, request_to_repeat
from penstock.models.middleware.gate import Complaint, Gate
from penstock.models.middleware.plan import Plan
from penstock.models.middleware.prompting import asked_again
from penstock.models.middleware.tracing import reader
from penstock.models.tracing import Trace
from penstock.parsing import OnError, Untrusted
from penstock.parsing.errors import BrokenCall
from penstock.request import Request
from penstock.values.schema import Schema


class Habits(Struct, frozen=True):
    """How answers are read: *reading* are options of `Parser`, *retries* and *send_back* ours."""

    reading: dict[str, Any]
    retries: int
    send_back: bool
    on_error: OnError | None
    trace: Trace


class Attempts:
    """Answers one request as *plan* has it."""

    def __init__(
        self,
        model: Model,
        plan: Plan,
        habits: Habits,
        ids: Ids,
        tap: Tap | None = None,
        untrusted: Untrusted | None = None,
    ) -> None:
        self._model = model
        self._tap = tap
        self._plan = plan
        self._habits = habits
        self._ids = ids
        self._untrusted = untrusted
        self._gate = Gate(plan.demand, habits.on_error)

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """Give the events of the whole answer, as many at a time as there are."""
        gate, asked = self._gate, self._plan.asked
        for left in range(self._habits.retries, -1, -1):
            gate.begin(self._complaint() if left else None)
            async with aclosing(self._attempt(asked)) as attempt:
                async for batch in attempt:
                    yield batch
            reason = self._reason_to_retry() if left else ""
            yield gate.settle(again=bool(reason))
            if not reason:
                break
            asked = asked_again(asked, gate.attempt.text, self._words())
            yield [gate.retried(reason)]
        self._tell_of_missing_call()
        end = gate.finish()
        yield [] if end is None else [end]

    async def _attempt(self, asked: Request) -> AsyncGenerator[list[Event], None]:
        """Ask once, and read what comes."""
        plan, gate = self._plan, self._gate
        tools = plan.demand.tools
        habits = self._habits
        read = reader(self._make_parser, habits.trace, plan.reads, tools, habits.on_error)
        async with aclosing(batches(self._model, asked, self._tap)) as asking:
            async for batch in asking:
                for event in batch:
                    if isinstance(event, ToolCallStart):
                        gate.native.add(event.id)
                        self._ids.taken.add(event.id)
                outs = [out for event in batch for out in read(event)]
                yield [passed for out in outs for passed in gate.add(out)]

    def _make_parser(self, on_error: OnError | None) -> EventParser:
        plan = self._plan
        options = self._options(on_error)
        return EventParser(plan.reads, plan.demand.tools, reasoning=plan.reasoning, **options)

    def _options(self, on_error: OnError | None) -> dict[str, Any]:
        """Give the options of the parser; a format of the user's own is told those it knows."""
        options = {**self._habits.reading, "ids": self._ids, "on_error": on_error}
        if self._untrusted is not None:
            options["untrusted"] = self._untrusted
        if self._plan.demand.single:
            options["max_calls"] = 1
        reads = self._plan.reads
        if isinstance(reads, Format):
            return options
        known = signature(reads.parser).parameters.values()
        if any(each.kind is Parameter.VAR_KEYWORD for each in known):
            return options
        names = {each.name for each in known}
        return {name: value for name, value in options.items() if name in names}

    # --- what will not do ---

    def _complaint(self) -> Complaint | None:
        """Give who judges calls while there is a retry left; None where nobody needs to."""
        demand, send_back = self._plan.demand, self._habits.send_back
        if not send_back and not demand.forced:
            return None
        schemas = {tool.name: Schema(tool.parameters) for tool in demand.tools}

        def complain(call: ToolCall) -> str:
            if not call.complete:
                return "the call was not finished" if demand.forced else ""
            return complaint_of(call, schemas) if send_back else ""

        return complain

    def _reason_to_retry(self) -> str:
        """Say why the attempt will not do; nothing where it will, or where another cannot help."""
        attempt = self._gate.attempt
        if not isinstance(attempt.end, Done) or attempt.end.reason == "length":
            return ""
        if attempt.refused:
            return "; ".join(each.why for each in attempt.refused.values())
        return "no call came" if self._plan.demand.forced and not attempt.calls else ""

    def _words(self) -> str:
        """Tell the model what was wrong with its answer."""
        attempt = self._gate.attempt
        if not attempt.refused:
            return reminder(self._plan.demand)
        parts = []
        for each in attempt.refused.values():
            result = ToolResult(each.call.id, each.call.name, each.why, is_error=True)
            blocks = self._plan.prompting.retelling.result_blocks(result)
            parts += [block.text for block in blocks if isinstance(block, Text)]
        return "\n".join([*parts, request_to_repeat(len(attempt.refused), attempt.calls)])

    def _tell_of_missing_call(self) -> None:
        attempt, on_error = self._gate.attempt, self._habits.on_error
        if self._plan.demand.forced and not attempt.calls and on_error is not None:
            why = "a call was demanded, and none came"
            with suppress(Exception):  # a handler that fails must not end the stream
                on_error(why, BrokenCall(attempt.text, "", ParseError(why)))
