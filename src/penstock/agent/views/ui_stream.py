"""An agent's run as a UI message stream of the AI SDK, as `useChat` reads it.

::

    start ( step | note )* [message-metadata] ( [error] finish | abort )
    step := start-step ( text | reasoning | call | note )* finish-step

A run is one message. A step is an answer with the calls in it, so a turn is one step; an answer
that is asked for again gets a step of its own. The protocol cannot take back what was shown: the
step of an answer that was dropped holds a ``data-dropped`` part, for a front end to hide it by.

The protocol's own question whether a call may run is answered with the next request. So it is asked
at the end of a run, about the calls that were deferred; where somebody is asked meanwhile, that is
a note. A run of `Agent.proceed` goes on with the message that the client has: it tells the outputs
of calls that stand there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec

from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    AgentStarted,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    MessageEnded,
    MessageStarted,
    MessageUpdated,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
)
from penstock.agent.running import AgentRun
from penstock.agent.views.ui_chunks import (
    DONE,
    DROPPED,
    REMINDER,
    SAID,
    Chunk,
    ErrorText,
    encode,
    error_shown,
    usage_shown,
)
from penstock.agent.views.ui_notes import note_of
from penstock.agent.views.ui_steps import Step
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ErrorInfo, Usage, summed
from penstock.requests import UserMessage

_FINISH_REASONS: Final = {"stop": "stop", "length": "length", "tool_use": "tool-calls"}


def _message(error: ErrorInfo) -> str:
    return error.message


class UIStream:
    """Shows one run: events in by `feed`, chunks out, `finish` behind the last one.

    *message_id* names the message, where the server keeps names for them; *id_prefix* stands before
    the ids of texts; *metadata* goes along with ``start``. *error_text* says what people are told
    of a failure: the error's own words, unless they are not for everybody.
    """

    def __init__(
        self,
        *,
        message_id: str = "",
        id_prefix: str = "",
        metadata: Mapping[str, Any] | None = None,
        error_text: ErrorText = _message,
    ) -> None:
        self.ended = False
        """Whether the last chunk was given."""
        self._message_id = message_id
        self._prefix = id_prefix
        self._metadata = metadata
        self._error_text = error_text
        self._has_begun = False
        self._answers = 0
        self._turn = 0
        self._step = Step("")  # of the message that the client has; not open
        self._is_open = False
        self._last: AssistantMessage | None = None
        self._usage = Usage()
        self._denied: set[str] = set()

    def feed(self, event: AgentEvent) -> list[Chunk]:
        """Give the chunks of *event*: none, one or several.

        Raises `UsageError` for an event behind the last of a run.
        """
        if self.ended:
            raise UsageError(f"the run has ended: `{event.type}` is no part of it")
        start = self._begin()
        return [*start, *self._told(event)]

    def finish(self) -> list[Chunk]:
        """End a stream whose run was not told to its end; after its end there is nothing left."""
        if self.ended:
            return []
        return [*self._begin(), *self._close_step(), *self._abort("the run was left")]

    def _told(self, event: AgentEvent) -> list[Chunk]:
        match event:
            case MessageUpdated():
                return self._step.show(event.event)
            case MessageStarted(AssistantMessage()):
                return self._open_step()
            case MessageEnded():
                return self._end_message(event)
            case ToolStarted() | ToolUpdated() | ToolEnded():
                return self._follow(event)
            case ApprovalRequested() | CallApproved() | CallDenied():
                return self._approval(event)
            case TurnStarted():
                self._turn = event.turn
                return self._close_step()
            case AgentEnded():
                return self._end(event)
            case AgentStarted() | TurnEnded() | MessageStarted():
                return []
            case _:
                return [note_of(event, self._error_text)]

    # --- the message and its steps ---

    def _begin(self) -> list[Chunk]:
        if self._has_begun:
            return []
        self._has_begun = True
        start: Chunk = {"type": "start"}
        if self._message_id:
            start["messageId"] = self._message_id
        if self._metadata is not None:
            start["messageMetadata"] = dict(self._metadata)
        return [start]

    def _open_step(self) -> list[Chunk]:
        closing = self._close_step()
        self._answers += 1
        self._is_open = True
        self._step = Step(f"{self._prefix}{self._answers}-")
        return [*closing, {"type": "start-step"}]

    def _close_step(self) -> list[Chunk]:
        if not self._is_open:
            return []
        self._is_open = False
        return [*self._step.close(), {"type": "finish-step"}]

    def _end_message(self, event: MessageEnded) -> list[Chunk]:
        message = event.message
        if isinstance(message, UserMessage):
            return self._said(message)
        if not isinstance(message, AssistantMessage):
            return []
        self._last = message
        self._usage = summed((self._usage, message.usage))
        if event.kept:
            return []
        error = error_shown(message.error, self._error_text)
        return [{"type": DROPPED, "data": {"error": error}}]

    def _said(self, message: UserMessage) -> list[Chunk]:
        """Tell what is said between answers; what is said before the first the client has sent."""
        if self._turn <= 1 and not self._answers and not message.source:
            return []
        content = msgspec.to_builtins(message.content)
        if message.source:
            return [{"type": REMINDER, "data": {"source": message.source, "content": content}}]
        return [{"type": SAID, "data": {"content": content}}]

    # --- calls ---

    def _follow(self, event: ToolStarted | ToolUpdated | ToolEnded) -> list[Chunk]:
        if isinstance(event, ToolStarted):
            return self._step.run(event)
        if isinstance(event, ToolUpdated):
            return self._step.update(event)
        if event.id in self._denied:
            self._denied.remove(event.id)
            return [{"type": "tool-output-denied", "toolCallId": event.id}]
        return self._step.end(event)

    def _approval(self, event: ApprovalRequested | CallApproved | CallDenied) -> list[Chunk]:
        """Tell what is decided while the run goes on.

        A call of an earlier run was denied by the client's own answer, and its part says so: only
        then has the protocol a word for it. Any other that is denied has failed.
        """
        if isinstance(event, CallDenied) and not self._step.has(event.id):
            self._denied.add(event.id)
        return [note_of(event, self._error_text)]

    # --- the end ---

    def _end(self, event: AgentEnded) -> list[Chunk]:
        asking = [self._step.ask(call) for call in event.deferred]
        closing = [*asking, *self._close_step()]
        error = event.error
        if error is not None and error.kind == "aborted" and error.type != "turns":
            return [*closing, *self._abort(error.message)]
        self.ended = True
        closing += self._spent()
        if error is not None and error.kind not in ("refusal", "filter"):
            closing.append({"type": "error", "errorText": self._error_text(error)})
        return [*closing, {"type": "finish", "finishReason": self._reason(event)}]

    def _abort(self, reason: str) -> list[Chunk]:
        self.ended = True
        return [*self._spent(), {"type": "abort", "reason": reason}]

    def _spent(self) -> list[Chunk]:
        """Tell who answered, and what it took; before an error, for clients stop to read there."""
        if self._last is None:
            return []
        spent = {"model": self._last.model, "usage": usage_shown(self._usage)}
        return [{"type": "message-metadata", "messageMetadata": spent}]

    def _reason(self, event: AgentEnded) -> str:
        if event.error is not None:
            kind = event.error.kind
            failed = "other" if kind == "aborted" else "error"
            return "content-filter" if kind in ("refusal", "filter") else failed
        if event.deferred:
            return "tool-calls"
        last = self._last.stop_reason if self._last is not None else None
        return _FINISH_REASONS.get(last or "stop", "other")


async def ui_stream(run: AgentRun, view: UIStream | None = None) -> AsyncGenerator[bytes, None]:
    """Give *run* as the body of a response that has `UI_HEADERS`.

    Whoever stops to read before the end, as a client that hangs up does, aborts the run.
    """
    view = view or UIStream()
    async with run:
        async for event in run:
            if chunks := view.feed(event):
                yield b"".join(map(encode, chunks))
    yield b"".join(map(encode, view.finish())) + DONE
