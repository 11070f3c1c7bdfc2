"""`ModelRouter`: from the model name in a request to the upstream that serves it.

`ServedModels` has the list of models of the default upstream, and chooses one for a name that the
upstream does not have.

`UpstreamHealth` writes a log line when an upstream becomes unreachable and when it is back. Clients
get the error of their own request, and the log is read later; an operator should see at once that a
server is down. An unstable server must not fill the log, so there is at most one pair of lines per
upstream in `QUIET_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from logging import getLogger
from math import inf
from typing import Any, Final

from msgspec import Struct, structs

from penstock.apis.fields import short_repr, tool_names
from penstock.apis.history import count_late_system, default_placement
from penstock.config.routes import ModelOptions, find_route, options_for
from penstock.config.settings import Settings, UpstreamSettings
from penstock.errors import PenstockError
from penstock.events import Done, Failed
from penstock.gateway import tool_adapter
from penstock.gateway.advice import advise
from penstock.gateway.conversation import end_loop, find_loop
from penstock.gateway.errors import HTTPError
from penstock.messages import ErrorInfo
from penstock.models.base import Batches, Model, Tap
from penstock.models.http.endpoints import ENDPOINTS, url_for
from penstock.models.tool_choice import parse_demand
from penstock.parsing import OnError
from penstock.redaction import mask_url
from penstock.request import Request

# --- the models of the default upstream ---

# Claude Code requests `claude-…` and other clients `gpt-…`, whatever server they are pointed at. A
# server with one model means that model by any name; a server with several needs to know which.

LIST_LIFETIME: Final = 3_600.0
"""How many seconds the upstream's list of models is used."""

LIST_RETRY_SECONDS: Final = 10.0
"""After how many seconds a list that could not be fetched is requested again."""

CLIENT_LIST_SECONDS: Final = 3.0
"""How many seconds a client that lists the models waits for the upstream."""

_NOT_FOR_CHAT: Final = (
    "embed", "whisper", "tts", "dall-e", "rerank", "moderation", "image", "audio", "babbage",
    "davinci", "transcribe", "sora", "veo", "imagen", "aqa",
)  # fmt: skip


def find_chat_models(names: Sequence[str]) -> list[str]:
    """Return those of *names* that do not look like models for another purpose than chat."""
    return [name for name in names if not any(word in name.lower() for word in _NOT_FOR_CHAT)]


class ServedModels:
    """The models that the server of *model* lists, cached.

    With *fetches*, a list that is not known yet is also fetched for a request: the server may have
    started after the gateway.
    """

    def __init__(
        self,
        model: Model | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        fetches: bool = False,
    ) -> None:
        self._model = model
        self._clock = clock
        self._fetches = fetches
        self._is_known = False
        self._until = clock()
        self.known: list[str] = []
        """The names of the last list."""

    def set_names(self, names: Sequence[str]) -> None:
        """Use *names*, which were just fetched."""
        self.known = list(names)
        self._is_known = True
        self._until = self._clock() + LIST_LIFETIME

    def expire(self) -> None:
        """Fetch the list again when it is needed: the server does not have a model it listed."""
        self._until = min(self._until, self._clock())
        self._is_known = False

    async def names(self) -> list[str]:
        """Return the names; the previous ones if the server does not respond."""
        if self._model is None or self._clock() < self._until:
            return self.known
        # Set before the request, so that concurrent clients get the known names without waiting.
        self._until = self._clock() + LIST_RETRY_SECONDS
        try:
            self.set_names(await self._model.names(CLIENT_LIST_SECONDS))
        except (PenstockError, OSError, TimeoutError):
            return self.known
        return self.known

    async def prepare(self) -> None:
        """Fetch the list for a request if it is not known yet."""
        if self._fetches and not self._is_known:
            await self.names()

    def has(self, name: str) -> bool:
        """Return whether the server lists *name*; Ollama adds ``:latest`` to a bare name."""
        return name in self.known or f"{name}:latest" in self.known

    def choose(self, name: str) -> str:
        """Return the model to request for *name*: the only one of the server if it lacks *name*."""
        chat = find_chat_models(self.known)
        return chat[0] if len(chat) == 1 and not self.has(name) else name


# --- routes ---


DEMO: Final = "demo"
"""The API of an upstream whose model is scripted."""

QUIET_SECONDS: Final = 60.0
"""The minimum number of seconds between two reports that the same upstream is down."""

_LOG: Final = getLogger("penstock.gateway")
_FORWARDED: Final = ("anthropic-beta", "openai-beta", "traceparent", "tracestate")
"""The client headers that are sent to an upstream; the last two name the trace of the client.

Not ``idempotency-key``: one request may cause several upstream requests, all of them intended."""


class ResolvedRoute(Struct, frozen=True):
    """The route of one request: *model* at *upstream*, which calls it *upstream_model*."""

    name: str
    upstream: str
    api: str
    upstream_model: str
    model: Model
    options: ModelOptions
    settings: UpstreamSettings
    served_models: ServedModels | None = None

    @property
    def wire(self) -> str:
        """The API of the received bytes; a model in this process may use one too."""
        return self.model.wire or self.api

    @property
    def has_tools_in_prompt(self) -> bool:
        """Whether tools are described in the prompt, so that hosted tools reach no provider."""
        return self.options.tools == "prompt" or self.model.reads_calls

    @property
    def target(self) -> str:
        """The method and the URL of the upstream, without secrets; empty without a server."""
        url = self.settings.base_url.reveal()
        if not url or self.api not in ENDPOINTS:
            return ""
        return f"POST {mask_url(url_for(self.api, url, self.upstream_model, stream=True))}"

    def advise(self, error: ErrorInfo) -> str:
        """Return what to do about an upstream's *error*, or an empty string."""
        served = [] if self.served_models is None else find_chat_models(self.served_models.known)
        return advise(error, self.settings, self.upstream_model, served, self.name)

    def check(self, request: Request) -> None:
        """Raise `UsageError` for a tool choice that cannot be satisfied.

        A server that gets tools natively rejects such a choice itself.
        """
        if self.has_tools_in_prompt:
            parse_demand(request)

    def for_request(self, request: Request) -> ResolvedRoute:
        """Return the route with the options for *request*.

        A response that is not streamed has no deltas: its calls are read as a whole, and a broken
        one stays text.
        """
        if request.stream or self.options.arguments == "whole":
            return self
        return structs.replace(self, options=structs.replace(self.options, arguments="whole"))

    def find_omitted(self, request: Request) -> list[str]:
        """Return the parts of *request* that the gateway drops; the model's report has the rest.

        With tools in the prompt, the model is not given hosted tools and cannot report them.
        """
        # `effort = false` is for servers that reject requests with a reasoning effort.
        names = [] if self.options.effort or request.reasoning is None else ["reasoning"]
        names += self.model.omitted_fields(request)  # Models in this process have no report.
        if self.has_tools_in_prompt:
            names += [f"tools: {name}" for name in tool_names(request.extra.get("tools"))]
        return names

    def describe_changes(self, request: Request) -> list[str]:
        """Return what is unusual about *request*: parts that are sent in another place, a loop."""
        loop = find_loop(request, self.options.loop_limit)
        found = [] if loop is None else [str(loop)]
        if self.has_tools_in_prompt:
            default = "user"
        else:
            default = default_placement(self.wire, self.upstream_model)
        placement, later = self.options.system_messages or default, count_late_system(request)
        # Chat templates such as Qwen3.5's fail with "System message must be at the beginning", and
        # Claude Code sends a system message after the first user message.
        if placement == "keep" or not later:
            return found
        target = "the system prompt" if placement == "first" else "the user's messages"
        return [f"system messages: {later} merged into {target}", *found]

    def batches(
        self, request: Request, tap: Tap, on_error: OnError, on_repair: tool_adapter.OnRepair
    ) -> Batches:
        """Send *request* to the upstream and return its events, with the calls in text parsed."""
        loop = find_loop(request, self.options.loop_limit) if self.options.end_loops else None
        if loop is not None:
            return end_loop(loop, self.name)
        upstream_request = structs.replace(
            request,
            model=self.upstream_model,
            reasoning=request.reasoning if self.options.effort else None,
            system_messages=self.options.system_messages,
        )
        return tool_adapter.stream(
            self.options, self.model, upstream_request, tap, on_error, on_repair
        )

    def can_fall_back(self, request: Request) -> bool:
        """Return whether a request that fails with native tools is sent again without them."""
        return tool_adapter.can_fall_back(self.options, self.model, request)


class ModelRouter:
    """Finds the upstream for a model name; *models* are the upstreams' models, by upstream.

    A name that the settings do not know is sent to the default upstream, so the models that it
    lists can be used too. With *fetches*, its list is fetched before the first request.
    """

    def __init__(
        self, settings: Settings, models: Mapping[str, Model], *, fetches: bool = False
    ) -> None:
        self._settings = settings
        self._models = dict(models)
        self.fetches = fetches
        self.served_models = ServedModels(
            self._models.get(settings.default_upstream), fetches=fetches
        )

    async def prepare(self, name: str) -> None:
        """Fetch what `resolve` needs to know about the model *name*."""
        route = find_route(self._settings, name)
        if route is not None and route.model == (name or self._settings.default_model):
            await self.served_models.prepare()

    def resolve(self, name: str, scope: str = "") -> ResolvedRoute:
        """Return the route to the model *name* for a client of *scope*.

        Raises `HTTPError` for an unknown model.
        """
        route = find_route(self._settings, name)
        if route is None:
            known = ", ".join(self._known_names()) or "none"
            raise HTTPError(404, f"unknown model {short_repr(name)}; known models: {known}")
        model = self._models[route.upstream].scoped(scope)
        requested = name or self._settings.default_model
        served_models = (
            self.served_models if route.upstream == self._settings.default_upstream else None
        )
        served = route.model
        if served_models is not None and served == requested:  # no setting names another
            served = served_models.choose(requested)
        return ResolvedRoute(
            name=requested or served or model.name,
            upstream=route.upstream,
            api=route.settings.api,
            upstream_model=served or model.name,
            model=model,
            # A model that parses its own text does so with one set of options for all names.
            options=options_for(route.settings) if model.reads_calls else route.options,
            settings=route.settings,
            served_models=served_models,
        )

    async def list_models(self) -> list[dict[str, Any]]:
        """Return the descriptions of all models that are known by name."""
        names = dict.fromkeys([*self._known_names(), *await self.served_models.names()])
        found = {name: find_route(self._settings, name) for name in names}
        return [
            describe_model(name, "penstock" if route is None else route.upstream)
            for name, route in found.items()
        ]

    def demo_models(self) -> list[str]:
        """Return the names of the scripted models that are served."""
        routes = ((name, find_route(self._settings, name)) for name in self._known_names())
        return [name for name, route in routes if route and route.settings.api == DEMO]

    def _known_names(self) -> list[str]:
        """Return the model names in the settings, without patterns."""
        settings = self._settings
        names = [name for name in settings.models if not name.endswith("*")]
        if settings.default_model:
            names.append(settings.default_model)
        for upstream, model in self._models.items():
            names.append(settings.upstreams[upstream].model or model.name)
        return [*filter(None, names)]

    async def close(self) -> None:
        """Close all upstreams."""
        for model in self._models.values():
            await model.close()


def describe_model(name: str, owner: str) -> dict[str, Any]:
    """Return the description of a model with the fields of all APIs that list models."""
    return {
        "id": name,
        # `object`, `created` and `owned_by` are OpenAI's; `type`, `display_name` and `created_at`
        # are Anthropic's.
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": owner,
    }


def forwarded_headers(headers: Mapping[str, bytes]) -> dict[str, str]:
    """Return the client *headers* that are sent to an upstream."""
    return {name: headers[name].decode("latin-1") for name in _FORWARDED if name in headers}


# --- health ---


class UpstreamHealth:
    """Tracks which upstreams are down, by the ends of their responses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._down: set[str] = set()  # those that were reported
        self._reported: dict[str, float] = {}  # when each was last reported as down

    def note(
        self,
        upstream: str,
        end: Done | Failed,
        *,
        has_data: bool,
        redact: Callable[[str], str] = str,
    ) -> None:
        """Record the end of a response of *upstream*, and whether the server sent any data.

        Any data shows that the server is up, an error too. A client that gave up shows nothing.
        """
        if has_data or isinstance(end, Done):
            if upstream in self._down:
                self._down.discard(upstream)
                _LOG.warning("upstream %s is reachable again", upstream)
        elif end.error.kind == "transport":
            now = self._clock()
            last = self._reported.get(upstream, -inf)
            if upstream in self._down or now - last < QUIET_SECONDS:
                return
            self._down.add(upstream)
            self._reported[upstream] = now
            reason = " ".join(redact(end.error.message).split())
            _LOG.warning("upstream %s is not reachable: %s", upstream, reason)
