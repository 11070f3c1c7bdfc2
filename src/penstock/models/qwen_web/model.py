"""`QwenWebModel`: the models of chat.qwen.ai, as any other model.

Their server keeps every conversation, takes one message at a time and knows no tools. A client
brings the whole conversation each time, with tools. Between the two stand the tool middleware,
which makes words of tools and calls of words, a `Turn`, which asks in the right chat, and the
sessions, in which the place behind an answer is written down as soon as the answer is complete,
and before anybody hears that it is.

A session that is in use is asked by nobody else: a second request at the same moment is told whole
in a chat of its own. To wait for the first would not help, since the chat has moved on then.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from typing import Any, Final, get_args

from msgspec.structs import replace

from penstock.apis import Api
from penstock.apis.fields import names_of_own
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed, MessageStart
from penstock.messages import AssistantMessage
from penstock.models.base import Batches, Closing, Tap, one_by_one, unfailing
from penstock.models.http import HTTPModel, HTTPStream, Report, Retry, Timeouts, Transport
from penstock.models.middleware import qwen_tools
from penstock.models.middleware.choice import demand_of
from penstock.models.qwen_web.briefing import Briefing, brief
from penstock.models.qwen_web.calls import in_one_piece
from penstock.models.qwen_web.conversation import Conversation
from penstock.models.qwen_web.credentials import QwenCredentials
from penstock.models.qwen_web.keeping import Claim, Keeping
from penstock.models.qwen_web.sessions import LIFETIME, MemorySessions, Sessions
from penstock.models.qwen_web.turn import Parent, Turn
from penstock.request import Request, RequestLike, make_request
from penstock.streams import INTERVAL

_REFUSED: Final = 403
_BAD_GATEWAY: Final = 502
_SERVER_FAULTS: Final = ("provider", "malformed")


class QwenWebModel(Closing):
    """*model* at chat.qwen.ai, or at the *base_url* of a server that speaks as it does.

    *credentials* are those of the environment where none are given (see `QwenCredentials`).
    *sessions* keep the places in conversations, each for *lifetime* seconds after its last
    answer; *scope* is whose they are, and nobody finds those of another (see `scoped`). *parent*
    says which id of an answer the next message names. *chat_mode* is ``normal`` with a token and
    ``guest`` without, unless given.

    *options* are those of `ToolMiddleware`, such as *arguments*, *trim* or *retries*; *repair* is
    off, so that a call that is not written as it should be is text. The others are those of
    `HTTPModel`. *clock* tells the seconds since 1970.

    Raises `UsageError` for a URL, a credential or an option that cannot be one.
    """

    reads_calls = True
    """Calls are read out of the text already: nobody needs to look again."""

    def __init__(  # noqa: PLR0913 - each is an option of every model, or of this one
        self,
        base_url: str = "",
        model: str = "",
        *,
        credentials: QwenCredentials | None = None,
        sessions: Sessions | None = None,
        scope: str = "",
        lifetime: float = LIFETIME,
        parent: Parent = "response_id",
        chat_mode: str = "",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: Retry | None = None,
        proxy: str | None = None,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        transport: Transport | None = None,
        interval: float = INTERVAL,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        on_report: Callable[[Report], object] | None = None,
        **options: Any,
    ) -> None:
        if parent not in get_args(Parent):
            raise UsageError(f"the next message names response_id or parent_id, not {parent!r}")
        if not lifetime > 0:
            raise UsageError(f"a session lasts more than zero seconds, not {lifetime}")
        environ = os.environ if environ is None else environ
        who = credentials or QwenCredentials.from_environ(environ)
        self._http = HTTPModel(
            "qwen",
            base_url,
            model,
            who.token(),
            headers={**(headers or {}), **who.headers()},
            timeouts=timeouts,
            retry=retry,
            proxy=proxy,
            ca=ca,
            transport=transport,
            interval=interval,
            environ=environ,
        )
        options = {"repair": False, **options}
        qwen_tools(self._http, **options)  # so that a wrong option is refused here
        self._where = base_url.partition("?")[0]
        kept = MemorySessions(clock=clock) if sessions is None else sessions
        self._keeping = Keeping(kept, lifetime, parent, clock)
        self._parent: Parent = parent
        self._chat_mode = chat_mode or ("guest" if who.is_guest else "normal")
        self._on_report = on_report
        self._options = options
        self._is_whole = options.get("arguments", "whole") == "whole"
        self._scope = scope

    @property
    def name(self) -> str:
        """The name of the model, as its server knows it."""
        return self._http.name

    @property
    def api(self) -> Api:
        """The API that the server speaks."""
        return self._http.api

    @property
    def interval(self) -> float:
        """The pace of the streams: how many seconds lie between two deltas."""
        return self._http.interval

    def __repr__(self) -> str:
        return f"QwenWebModel({self._where!r}, {self.name!r})"

    def scoped(self, scope: str) -> QwenWebModel:
        """Give this model for the sessions of *scope* alone, such as the caller's key.

        Connections and sessions are shared; close the model itself.
        """
        view = copy(self)
        view._scope = scope  # noqa: SLF001 - a copy of our own
        return view

    def without_retries(self) -> QwenWebModel:
        """Give this model as one that tries once, over the same connections: close the model.

        A chat that the server has lost is still begun anew: that asks for something else.
        """
        twin = copy(self)
        twin._http = self._http.without_retries()  # noqa: SLF001 - a copy of our own
        twin._options = {**self._options, "retries": 0}  # noqa: SLF001 - a copy of our own
        return twin

    def stream(self, request: RequestLike) -> HTTPStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request. `report` of the stream says what it took, and
        in `session` where in which chat it was.
        """
        request = make_request(request)
        report = self._new_report(request)
        batches = self._answer(_kept(request), report, None)
        return HTTPStream(one_by_one(unfailing(batches)), report, interval=self.interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they arrive, with no stream in between.

        *tap* sees what passes on the wire, and one report for all of it.
        """
        request = make_request(request)
        report = self._new_report(request)
        if tap is not None:
            tap.reported(report)
        return unfailing(self._answer(_kept(request), report, tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    async def close(self) -> None:
        """Close the connections, unless they are those of a transport that was passed in."""
        await self._http.close()

    # --- one answer ---

    async def _answer(self, request: Request, report: Report, tap: Tap | None) -> Batches:
        talk = Conversation(request, report.model, self._scope)
        demand = demand_of(request)
        claim = await self._keeping.claim(talk, request.session)
        held: list[Event] = []  # the beginning, until it is known what it begins
        try:
            briefing = brief(request, demand, claim.session)
            turn = self._turn(claim, briefing, report)
            asking = qwen_tools(turn, **self._options).batches(request, tap)
            async with aclosing(asking):
                async for batch in asking:
                    held += batch
                    end = held[-1] if held else None
                    if isinstance(end, Done):
                        await self._keeping.commit(claim, talk, turn, briefing, end.message)
                        report.session = claim.told or report.session
                    elif isinstance(end, Failed):
                        claim.release()
                        _explain(end, report)
                    if held and not isinstance(end, MessageStart):
                        yield in_one_piece(held) if self._is_whole else held
                        held = []
        finally:
            claim.release()
            if self._on_report is not None:
                with suppress(Exception):  # a handler that fails must not end the answer
                    self._on_report(report)

    def _turn(self, claim: Claim, briefing: Briefing, report: Report) -> Turn:
        return Turn(
            self._http,
            claim.place,
            self._parent,
            report,
            chat_mode=self._chat_mode,
            news=briefing.news,
            rule=briefing.rule,
        )

    def _new_report(self, request: Request) -> Report:
        """Begin the account; what a client says in fields of its own API has no word here."""
        return Report(self.api.name, self.name or request.model, names_of_own(request))


def _explain(failed: Failed, report: Report) -> None:
    """Say as a status what a server meant that said 200, or hid behind another page."""
    for error in (failed.error, failed.message.error):
        if error is None:
            continue
        if error.type == "challenge":  # whatever status it came with, a browser is wanted
            error.status, error.retryable = _REFUSED, False
        elif error.status is None and report.attempts and error.kind in _SERVER_FAULTS:
            error.status = _BAD_GATEWAY


def _kept(request: Request) -> Request:
    """Read the request now, so that later changes to it mean nothing."""
    return replace(request, messages=[*request.messages], tools=[*request.tools])
