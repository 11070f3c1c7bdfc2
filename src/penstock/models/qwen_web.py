"""`QwenWebModel`: the models of chat.qwen.ai.

The server keeps every conversation, takes one message at a time and has no tools. Clients send the
whole conversation each time, with tools. The tool middleware translates tools and calls to text and
back, a `ChatTurn` sends the request to the right chat, and the position after a response is stored
as soon as the response is complete, before its terminal event is passed on.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from typing import Any, Final, Self, get_args

from msgspec.structs import replace

from penstock.apis import Api
from penstock.apis.fields import unportable_names
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed, MessageStart
from penstock.messages import AssistantMessage
from penstock.models.base import Batches, Model, Tap, ensure_end, iter_events
from penstock.models.http import HTTPModel, HTTPStream, Report, RetryPolicy, Timeouts, Transport
from penstock.models.middleware import qwen_tools
from penstock.models.qwen_sessions import (
    LIFETIME,
    ConversationDigest,
    MemorySessions,
    ParentField,
    QwenSessions,
    SessionTracker,
    make_update,
)
from penstock.models.qwen_turn import ChatTurn, drop_deltas
from penstock.models.tool_choice import parse_demand
from penstock.redaction import HIDDEN, Secret, find_secret
from penstock.request import Request, RequestLike, make_request
from penstock.streams import INTERVAL

BROWSER: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36"
)
"""The default user agent: other clients than browsers get an HTML page instead of a response."""

_FORBIDDEN: Final = 403
_BAD_GATEWAY: Final = 502


class QwenCredentials:
    """The token of an account, the cookies of its browser, and the token of the bot protection.

    Guests have no *token*. Each value is the one that the browser sends; *user_agent* should be the
    browser's too. No value is shown in a repr, a log or an error, and none can be pickled.

    Raises `UsageError` for characters that an HTTP header cannot hold.
    """

    def __init__(
        self,
        token: str = "",
        cookie: str = "",
        umid_token: str = "",
        *,
        user_agent: str = BROWSER,
    ) -> None:
        # Users copy the whole value of the header from their browser's tools.
        self._token = Secret(token.strip().removeprefix("Bearer "))
        self._cookie = Secret(cookie)
        self._umid_token = Secret(umid_token)
        self._user_agent = Secret(user_agent)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read `QWEN_TOKEN` (or `QWEN_API_KEY`), `QWEN_COOKIE` and `QWEN_UMID_TOKEN`."""
        names = (("QWEN_TOKEN", "QWEN_API_KEY"), ("QWEN_COOKIE",), ("QWEN_UMID_TOKEN",))
        return cls(*(find_secret(None, each, environ).reveal() for each in names))

    @property
    def is_guest(self) -> bool:
        """Whether there is no account."""
        return not self._token

    def __repr__(self) -> str:
        held = {"token": self._token, "cookie": self._cookie, "umid_token": self._umid_token}
        shown = ", ".join(f"{name}={HIDDEN}" for name, secret in held.items() if secret)
        return f"QwenCredentials({shown})"

    def token(self) -> str:
        """Return the token."""
        return self._token.reveal()

    def headers(self) -> dict[str, str]:
        """Return the headers of every call, except for the token's."""
        held = {
            "cookie": self._cookie,
            "bx-umidtoken": self._umid_token,
            "user-agent": self._user_agent,
        }
        return {name: secret.reveal() for name, secret in held.items() if secret}


class QwenWebModel(Model):
    """*model* at chat.qwen.ai, or at the *base_url* of a compatible server.

    *credentials* are by default those of the environment (see `QwenCredentials`). *sessions* keep
    the positions in conversations, each for *lifetime* seconds after its last response; *scope* is
    their owner, and those of another owner are never found (see `scoped`). *parent* is the id of a
    response that the next message refers to. *chat_mode* is by default ``normal`` with a token and
    ``guest`` without.

    *options* are those of `ToolMiddleware`, such as *arguments*, *trim* or *retries*; *repair* is
    off by default, so that a malformed call stays text. All others are those of `HTTPModel`.
    *clock* returns the seconds since 1970.

    Raises `UsageError` for an invalid URL, credential or option.
    """

    reads_calls = True

    def __init__(  # noqa: PLR0913 - each is an option of every model, or of this one
        self,
        base_url: str = "",
        model: str = "",
        *,
        credentials: QwenCredentials | None = None,
        sessions: QwenSessions | None = None,
        scope: str = "",
        lifetime: float = LIFETIME,
        parent: ParentField = "response_id",
        chat_mode: str = "",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        proxy: str | None = None,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        transport: Transport | None = None,
        interval: float = INTERVAL,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        on_report: Callable[[Report], object] | None = None,
        **options: Any,
    ) -> None:
        if parent not in get_args(ParentField):
            raise UsageError(f"parent must be 'response_id' or 'parent_id', got {parent!r}")
        if not lifetime > 0:
            raise UsageError(f"lifetime must be greater than 0 seconds, got {lifetime}")
        environ = os.environ if environ is None else environ
        credentials = credentials or QwenCredentials.from_environ(environ)
        self._http = HTTPModel(
            "qwen",
            base_url,
            model,
            credentials.token(),
            headers={**(headers or {}), **credentials.headers()},
            timeouts=timeouts,
            retry=retry,
            proxy=proxy,
            ca=ca,
            transport=transport,
            interval=interval,
            environ=environ,
        )
        options = {"repair": False, **options}
        qwen_tools(self._http, **options)  # Invalid options are rejected here.
        self._where = base_url.partition("?")[0]
        kept = MemorySessions(clock=clock) if sessions is None else sessions
        self._tracker = SessionTracker(kept, lifetime, parent, clock)
        self._parent: ParentField = parent
        self._chat_mode = chat_mode or ("guest" if credentials.is_guest else "normal")
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
        """The API of the server."""
        return self._http.api

    @property
    def api_name(self) -> str:
        """The name of the server's API."""
        return self._http.api_name

    @property
    def interval(self) -> float:
        """The minimum number of seconds between two deltas of a stream."""
        return self._http.interval

    def __repr__(self) -> str:
        return f"QwenWebModel({self._where!r}, {self.name!r})"

    def scoped(self, scope: str) -> QwenWebModel:
        """Return a copy for the sessions of *scope* only, such as the id of a client's key.

        Connections and the session store are shared; close the original only.
        """
        view = copy(self)
        view._scope = scope  # noqa: SLF001 - our own copy
        return view

    def without_retries(self) -> QwenWebModel:
        """Return a copy that tries once over the same connections; close the original only.

        A request to a chat that the server has lost is still sent to a new one: that is another
        request.
        """
        twin = copy(self)
        twin._http = self._http.without_retries()  # noqa: SLF001 - our own copy
        twin._options = {**self._options, "retries": 0}  # noqa: SLF001 - our own copy
        return twin

    def stream(self, request: RequestLike) -> HTTPStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request. `report` of the stream has its statistics
        and in `session` the position in the chat.
        """
        request = make_request(request)
        report = self._make_report(request)
        batches = ensure_end(self._respond(_copy(request), report, None))
        return HTTPStream(iter_events(batches), report, interval=self.interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive.

        *tap* observes all bytes, and one report for all requests of the response.
        """
        request = make_request(request)
        report = self._make_report(request)
        if tap is not None:
            tap.reported(report)
        return ensure_end(self._respond(_copy(request), report, tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Return the whole response; a failed one has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    async def close(self) -> None:
        """Close the connections, unless a transport was passed in."""
        await self._http.close()

    async def _respond(self, request: Request, report: Report, tap: Tap | None) -> Batches:
        conversation = ConversationDigest(request, report.model, self._scope)
        demand = parse_demand(request)
        claim = await self._tracker.claim(conversation, request.session)
        held: list[Event] = []  # the start event, until content follows
        try:
            update = make_update(request, demand, claim.session)
            turn = ChatTurn(
                self._http,
                claim.position,
                self._parent,
                report,
                chat_mode=self._chat_mode,
                news=update.news,
                rule=update.rule,
            )
            batches = qwen_tools(turn, **self._options).batches(request, tap)
            async with aclosing(batches):
                async for batch in batches:
                    held += batch
                    end = held[-1] if held else None
                    if isinstance(end, Done):
                        await self._tracker.commit(
                            claim,
                            conversation,
                            turn.position,
                            update,
                            end.message,
                            is_new=turn.is_new,
                        )
                        report.session = claim.stored or report.session
                    elif isinstance(end, Failed):
                        claim.release()
                        _set_status(end, report)
                    if held and not isinstance(end, MessageStart):
                        yield drop_deltas(held) if self._is_whole else held
                        held = []
        finally:
            claim.release()
            if self._on_report is not None:
                with suppress(Exception):  # A failing handler must not end the response.
                    self._on_report(report)

    def _make_report(self, request: Request) -> Report:
        """Return a report that lists the client's API-specific fields as omitted."""
        return Report(self.api.name, self.name or request.model, unportable_names(request))


def _set_status(failed: Failed, report: Report) -> None:
    """Set the status that the server meant: it reports errors with status 200 or as a page."""
    for error in (failed.error, failed.message.error):
        if error is None:
            continue
        if error.type == "challenge":  # The bot protection requires a browser, whatever the status.
            error.status, error.retryable = _FORBIDDEN, False
        elif error.status is None and report.attempts and error.kind in ("provider", "malformed"):
            error.status = _BAD_GATEWAY


def _copy(request: Request) -> Request:
    """Return a copy, so that later changes by the caller have no effect."""
    return replace(request, messages=[*request.messages], tools=[*request.tools])
