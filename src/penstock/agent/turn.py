"""The response of a turn, requested until there is one or no further try makes sense.

A response is requested again if it failed with a transient error, if a guard stopped it, once per
prompt if the conversation was too long for its model, and if its server does not support the way in
which a typed output was requested. What was emitted of a failed response ends with its
`message_end`, and is not part of the conversation. Once a tool has run for a response, that
response is final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from msgspec import Struct, field, structs

from penstock.agent.cancellation import CancelToken, RunCancelledError, is_cancelled
from penstock.agent.compaction import Compactor
from penstock.agent.conversation import Conversation
from penstock.agent.events import (
    FallbackStarted,
    FindingMade,
    MessageStarted,
    MessageUpdated,
    RetryEnded,
    RetryStarted,
)
from penstock.agent.failures import (
    is_avoidable,
    is_empty_response,
    is_overflow_response,
    is_usage_limit,
    make_empty_error,
)
from penstock.agent.hooks import Finding, Guard, GuardSet
from penstock.agent.output.task import OutputTask
from penstock.agent.settings import MAX_INTERRUPTIONS, AgentSettings
from penstock.agent.tool_calls import ToolCallBatch, ToolPolicy
from penstock.apis.errors import error_from_exception, truncated_error
from penstock.events import ENDS, Event, MessageStart, ToolCallEnd, ToolCallStart
from penstock.messages import AssistantMessage, ErrorInfo, ToolResult, UniqueIds
from penstock.models.base import Batches
from penstock.models.telemetry import ResponseSpan
from penstock.request import Request, UserMessage
from penstock.streams.pump import Record

RESPONSE_ABORTED: Final = "Request was aborted"

_HIDDEN: Final = (MessageStart, *ENDS)  # `message_start` and `message_end` replace them

Remedy = Callable[[], Awaitable[bool]]
"""Prepares another try; returns whether to make it."""


class ModelResponse(Struct):
    """A final message, the finding that stopped it, and findings that did not."""

    message: AssistantMessage
    finding: Finding | None = None
    reminders: list[Finding] = field(default_factory=list)


class Turn:
    """Requests the responses of one run, and runs the calls in them."""

    def __init__(
        self,
        settings: AgentSettings,
        conversation: Conversation,
        cancel: CancelToken,
        policy: ToolPolicy,
        guards: GuardSet,
        output: OutputTask | None = None,
    ) -> None:
        self.system = settings.system
        self.reminders: list[Finding] = []
        """Findings that stopped nothing; they are sent to the model after the turn."""
        self.calls = ToolCallBatch(policy)
        """The calls of the last response."""
        self.compactor = Compactor(settings, conversation, cancel)
        self._settings = settings
        self._conversation = conversation
        self._cancel = cancel
        self._policy = policy
        self._guards = guards
        self._output = output
        # Retries below the agent would multiply the attempts, and do not know that a tool has run.
        self._model = settings.model.without_retries()
        self._fallback = list(settings.fallback)
        self._interruptions = 0
        self._failures = self._retries = 0  # of the current response
        self._has_response = False  # the run has one that was kept
        self._is_open = False  # the last response is kept, and its calls are not settled

    async def respond(self) -> AssistantMessage:
        """Return the response of a turn, final and recorded; it may have failed."""
        self._failures = self._retries = 0
        while True:
            response = await self._request_response()
            message = response.message
            if response.finding is not None:
                await self._apply_finding(response.finding, message)
                if not self._cancel.fired:
                    continue
            elif await self._finish_or_retry(response):
                continue
            if self._retries:
                is_aborted = message.stop_reason == "aborted"
                error = message.error if is_aborted else _find_error(message)
                self._conversation.emit(RetryEnded(error is None, self._retries, error))
            return message

    # --- one try ---

    async def _request_response(self) -> ModelResponse:
        self.calls = ToolCallBatch(self._policy)
        try:
            async with self._cancel.guard():
                request = await self._make_request()
        except RunCancelledError:
            request = self._settings.request  # it is not sent: the guard below raises
        self._guards.call(lambda guard: guard.response_started())
        reader = _ResponseReader(self._guards, self._cancel, self._conversation, self._output)
        # A model that runs into the same rule again and again would never finish a response.
        reader.may_stop = self._interruptions < MAX_INTERRUPTIONS
        with self._settings.telemetry.start_response(request, self._model) as span:
            headers = {**span.trace_headers(), **request.headers}
            request = structs.replace(request, headers=headers)
            finding = await self._read_response(reader, request, span)
            span.finish(reader.record.message)
        return ModelResponse(reader.record.message, finding, reader.reminders)

    async def _read_response(
        self, reader: _ResponseReader, request: Request, span: ResponseSpan
    ) -> Finding | None:
        """Read the response to its end; return the finding that stopped it."""
        finding = None
        try:
            async with self._cancel.guard():
                calls = self.calls if self._settings.eager else None
                finding = await reader.read(span.watch(self._model.batches(request)), calls)
        except RunCancelledError:
            pass
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            reader.fail(ErrorInfo("a task that the model awaited was cancelled", "transport"))
        except Exception as exc:  # noqa: BLE001 - a user's model may raise anything
            reader.fail(error_from_exception(exc))
        if finding is not None:
            names = ", ".join(finding.names)
            reader.fail(ErrorInfo(f"stopped by {names}", "aborted", finding.source))
        elif self._cancel.fired:
            reader.fail(ErrorInfo(RESPONSE_ABORTED, "aborted"))
        else:
            reader.fail(truncated_error())
        return finding

    async def _make_request(self) -> Request:
        hooks, report = self._settings.hooks, self._conversation.report_error
        messages = list(self._conversation.messages)
        shown = await hooks.run("context", list(messages), report)
        if isinstance(shown, Sequence) and not isinstance(shown, str):
            messages = list(shown)
        template = self._settings.request
        request = structs.replace(
            template,
            model=template.model or self._model.name,
            system=self.system,
            messages=messages,
            tools=[tool.tool for tool in self._settings.tools],
            # A call is required once: otherwise the run could never end.
            tool_choice=None if self._has_response else template.tool_choice,
            # `Compactor` needs the provider's count of the prompt.
            stream=True,
            include_usage=True,
            # Every turn repeats the turns before it.
            prompt_cache=template.prompt_cache is not False,
        )
        if self._output is not None:
            request = self._output.prepare(request)
        changed = await hooks.run("before_provider_request", request, report)
        return changed if isinstance(changed, Request) else request

    async def _apply_finding(self, finding: Finding, message: AssistantMessage) -> None:
        """Drop or keep the stopped response, and send the finding to the model."""
        conversation = self._conversation
        self._is_open = finding.keep or self.calls.started  # what tools did cannot be undone
        await conversation.finish(message, kept=self._is_open)
        await self.settle(message, f"Stopped by {', '.join(finding.names)}.")
        conversation.emit(FindingMade(finding.source, finding.names, finding.text, True))
        await conversation.record_finding(finding)
        await conversation.add(UserMessage(finding.text, finding.source))
        self._interruptions += 1

    # --- calls ---

    async def settle(self, message: AssistantMessage, reason: str) -> list[ToolResult]:
        """End every call of *message* that has not run with *reason*; add all results.

        A response that was dropped or settled before has none.
        """
        if not self._is_open:
            return []
        return await self._add_results(await self.calls.settle(message, reason))

    async def collect(self, message: AssistantMessage) -> list[ToolResult]:
        """Wait for the calls of *message*; add their results, in the order of the calls."""
        return await self._add_results(await self.calls.results(message))

    async def _add_results(self, results: list[ToolResult]) -> list[ToolResult]:
        self._is_open = False
        for result in results:
            await self._conversation.add(result)
            self._guards.call(partial(_report_result, result))
        return results

    # --- failures ---

    async def _finish_or_retry(self, response: ModelResponse) -> bool:
        """Finish the response; return whether to request another one, after its remedy."""
        message = response.message
        remedy = self._find_remedy(message)
        self._is_open = remedy is None
        await self._conversation.finish(message, kept=self._is_open)
        if remedy is None:
            self._has_response = True
            self.reminders += response.reminders
            return False
        if await remedy():
            return True
        self._conversation.new.append(message)  # not kept, but the result of the run
        return False

    def _find_remedy(self, message: AssistantMessage) -> Remedy | None:
        """Return what makes another try worthwhile; None if the response is final."""
        error = _find_error(message)
        # Once a tool has started (`eager`), the response is final: effects cannot be undone.
        if error is None or self._cancel.fired or self.calls.started:
            return None
        # Retrying does not help, and neither does another model with the same window.
        if is_overflow_response(message):
            remedy = self.compactor.take_remedy()
            if remedy is None and self._fallback and not message.content:
                return partial(self._fall_back, error)
            return remedy
        if self._output is not None and self._output.take_fallback(error):
            return _retry_now
        # Content that was emitted is not replaced by that of another model.
        can_fall_back = bool(self._fallback) and not message.content and is_avoidable(error)
        if can_fall_back and is_usage_limit(error):
            return partial(self._fall_back, error)
        self._failures += 1
        delay = self._settings.retry.delay(self._failures, error, self._settings.chance())
        if delay is None:
            return partial(self._fall_back, error) if can_fall_back else None
        return partial(self._wait, delay, error)

    async def _fall_back(self, error: ErrorInfo) -> bool:
        """Use the next model up to the end of the run."""
        model = self._fallback.pop(0)
        self._model = model.without_retries()
        self._failures = 0
        if self._output is not None:
            self._output.use_model(model)
        self._conversation.emit(FallbackStarted(model.name, error))
        return True

    async def _wait(self, delay: float, error: ErrorInfo) -> bool:
        self._retries += 1
        attempts = self._settings.retry.attempts
        self._conversation.emit(RetryStarted(self._retries, attempts, delay, error))
        try:
            async with self._cancel.guard():
                await asyncio.sleep(delay)
        except RunCancelledError:
            return False
        return True


class _ResponseReader:
    """Reads one response: each event is checked by the guards, folded into a message and emitted.

    Whatever ends the response, its message is valid: `fail` closes the open blocks, and a call that
    was cut off is incomplete.
    """

    def __init__(
        self,
        guards: GuardSet,
        cancel: CancelToken,
        conversation: Conversation,
        output: OutputTask | None = None,
    ) -> None:
        self.record = Record()
        self.reminders: list[Finding] = []
        self.may_stop = True
        """Whether a finding stops the response; otherwise it is a reminder."""
        self._guards = guards
        self._cancel = cancel
        self._conversation = conversation
        self._output = output
        self._is_started = False
        self._unique_ids = UniqueIds()
        self._call_ids: dict[int, str] = {}  # by the index of the block

    async def read(self, batches: Batches, eager_calls: ToolCallBatch | None) -> Finding | None:
        """Read to the end, or up to the finding that is returned.

        Complete calls are started in *eager_calls* at once.
        """
        async with aclosing(batches):
            async for batch in batches:
                for sent in batch:
                    self._cancel.check()
                    event = self._claim_id(sent)
                    finding = self._check(event)
                    self._emit(self.record.add(event))
                    if finding is not None:
                        return finding
                    if eager_calls and isinstance(event, ToolCallEnd) and event.call.complete:
                        eager_calls.start(event.call)
        return None

    def _claim_id(self, event: Event) -> Event:
        """Return *event* with an id that no other call of the response has.

        Results belong to ids: of two calls with one id, the second would not be run.
        """
        if isinstance(event, ToolCallStart):
            id_ = self._call_ids[event.index] = self._unique_ids.claim(event.id)
            return event if id_ == event.id else structs.replace(event, id=id_)
        if isinstance(event, ToolCallEnd):
            id_ = self._call_ids.get(event.index, event.call.id)
            if id_ != event.call.id:
                return structs.replace(event, call=structs.replace(event.call, id=id_))
        return event

    def fail(self, error: ErrorInfo) -> None:
        """End the response with *error*, unless it has ended."""
        if not self.record.ended:
            self._emit(self.record.fail(error))

    def _check(self, event: Event) -> Finding | None:
        """Return the finding that stops the response at *event*."""
        can_stop = self.may_stop and not isinstance(event, ENDS)
        for finding in self._guards.check(event):
            if finding.interrupts and can_stop:
                return finding
            self.reminders.append(finding)
        return None

    def _emit(self, events: list[Event]) -> None:
        """Emit *events*; the caller that finishes the message emits its end."""
        for event in events:
            if not self._is_started:
                self._is_started = True
                self._conversation.emit(MessageStarted(self.record.message))
            if not isinstance(event, _HIDDEN):
                self._conversation.emit(MessageUpdated(event, self.record))
                if self._output is not None and (update := self._output.add(event)) is not None:
                    self._conversation.emit(update)


async def _retry_now() -> bool:
    return True


def _find_error(message: AssistantMessage) -> ErrorInfo | None:
    """Return why *message* failed; an abort is not a failure."""
    if message.stop_reason == "error":
        return message.error or ErrorInfo("the response failed without a reason")
    return make_empty_error() if is_empty_response(message) else None


def _report_result(result: ToolResult, guard: Guard) -> None:
    guard.tool_ended(result)
