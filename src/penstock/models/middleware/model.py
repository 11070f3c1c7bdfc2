"""`ToolMiddleware`: tools for a model that has none of its own.

On the way in the tools become words, and so do the calls and results of the conversation; on the
way out the words of the model become calls. A middleware is a model itself, so whoever asks it sees
one that calls tools: the library's users, the agent and the gateway alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from copy import copy
from typing import Any, Final

from msgspec.structs import replace

from penstock.debug import DebugSettings, Summary
from penstock.errors import UsageError
from penstock.formats import FormatLike, Placement, Template, get
from penstock.messages import AssistantMessage, ToolResult
from penstock.models.base import Batches, Model, Tap, batches, message_of, one_by_one, unfailing
from penstock.models.ids import Ids
from penstock.models.middleware.attempts import Attempts, Habits
from penstock.models.middleware.choice import Constraint
from penstock.models.middleware.chosen import chosen_events
from penstock.models.middleware.plan import Planner
from penstock.models.middleware.retelling import Thoughts
from penstock.models.retrying import without_retries
from penstock.models.tracing import Trace, Write
from penstock.models.untrusted import untrusted_in
from penstock.parsing import Arguments, FencedCalls, OnError, QuotedCalls, Reasoning
from penstock.parsing.quotations import check_choice
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream

RETRIES: Final = 1
"""How often an answer that will not do is asked for again."""


class ToolMiddleware:
    """Stands for *model* and lets it call tools in text of *format*.

    With ``auto`` the name of the model says how it is told to call, and its text how it does.

    * The way in: *template* takes the place of the format's words and *placement* says where they
      stand in the system prompt; *results* writes a result in words of your own; *thoughts* says
      which earlier thoughts the model sees; *stops* are the strings that end an answer, in place
      of the format's own.
    * The way out: *arguments*, *repair*, *trim*, *reasoning*, *prompt_suffix* and *fenced* are the
      options of `penstock.Parser`; *repair* and *trim* are on.
    * *quoted* says what a call is that occurs word for word in a tool result, a document or an
      earlier user message of the conversation: ``text``, which *on_error* is told, or ``calls``.
      *quoted_tools* says it for single tools, by name or pattern: ``{"read_*": "calls"}``.
    * *constrain* says how the upstream can be held to a form: then a call that the request demands
      is forced. Where it cannot, an answer without one is asked for again, *retries* times at most.
      With *send_back* so is a call of an unknown tool, or with arguments that its schema refuses.
    * *on_error* is told of what was meant to be a call and is none. *debug* is a mode of
      `penstock.debug`, None leaves that to the environment; its lines go to *write* or else to
      stderr, and its summary to *on_summary* where that is given.

    Raises `UsageError` for a format that nobody has, and for a number of retries below zero.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and has a default
        self,
        model: Model,
        format: FormatLike = "auto",  # noqa: A002 - the word of the whole interface
        *,
        arguments: Arguments = "whole",
        repair: bool = True,
        trim: bool = True,
        reasoning: str | Reasoning | None = None,
        prompt_suffix: str = "",
        quoted: QuotedCalls = "text",
        quoted_tools: Mapping[str, QuotedCalls] | None = None,
        fenced: FencedCalls = "text",
        placement: Placement = "first",
        template: Template | None = None,
        results: Callable[[ToolResult], str] | None = None,
        thoughts: Thoughts | None = None,
        stops: Iterable[str] | None = None,
        constrain: Constraint | None = None,
        retries: int = RETRIES,
        send_back: bool = False,
        on_error: OnError | None = None,
        debug: str | DebugSettings | None = None,
        write: Write | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        if retries < 0:
            raise UsageError(f"an answer is asked for again zero or more times, not {retries}")
        self._model = model
        telling = {
            "template": template,
            "placement": placement,
            "result": results,
            "thoughts": thoughts,
            "stops": None if stops is None else tuple(stops),
            "on_error": on_error,
        }
        reading: dict[str, Any] = {
            "arguments": arguments,
            "repair": repair,
            "trim": trim,
        }
        if prompt_suffix:
            reading["prompt_suffix"] = prompt_suffix
        for value in (quoted, fenced, *(quoted_tools or {}).values()):
            check_choice("each of quoted, quoted_tools and fenced", value)
        if fenced != "text":
            reading["fenced"] = fenced
        trace = Trace(debug, write, on_summary)
        self._planner = Planner(get(format), telling, reasoning, constrain)
        self._habits = Habits(reading, retries, send_back, on_error, trace)
        self._quoted = quoted, quoted_tools

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self._model.name

    @property
    def api(self) -> object:
        """What the upstream speaks, where it says so."""
        return getattr(self._model, "api", None)

    @property
    def interval(self) -> float:
        """The pace of the streams: that of the upstream's, where it has one."""
        pace: float = getattr(self._model, "interval", 0.0)
        return pace

    def stream(self, request: RequestLike) -> EventStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request, as do the other two.
        """
        answer = self._answer(make_request(request), None)
        return EventStream(one_by_one(answer), interval=self.interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they arrive, with no stream in between.

        *tap* sees what passes on the wire of the upstream, every attempt of it.
        """
        return unfailing(self._answer(make_request(request), tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    def without_retries(self) -> ToolMiddleware:
        """Give this middleware as one that asks once, and so does its upstream."""
        twin = copy(self)
        twin._model = without_retries(self._model)  # noqa: SLF001 - a copy of our own
        twin._habits = replace(self._habits, retries=0)  # noqa: SLF001 - a copy of our own
        return twin

    async def close(self) -> None:
        """Let go of what the upstream holds."""
        await self._model.close()

    async def _answer(self, request: Request, tap: Tap | None) -> Batches:
        plan = self._planner.plan(request, self._model.name, self.api)
        ids = Ids(request)
        if plan.whole:
            message = await message_of(batches(self._model, plan.asked, tap))
            yield chosen_events(message, plan.demand, ids(), self._habits.on_error)
            return
        untrusted = untrusted_in(request, *self._quoted)
        attempts = Attempts(self._model, plan, self._habits, ids, tap, untrusted)
        async with aclosing(attempts.batches()) as answer:
            async for batch in answer:
                yield batch
