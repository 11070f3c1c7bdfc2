"""Which model answers: the names that clients use, and the upstreams after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct, structs

from penstock.apis.fields import shown, tool_names
from penstock.apis.text_forms import count_later, usual_placement
from penstock.errors import PenstockError
from penstock.gateway import tool_adapter
from penstock.gateway.config.routes import ModelOptions, find_route, options_for
from penstock.gateway.config.settings import Settings
from penstock.gateway.errors import HTTPError
from penstock.models.base import Batches, Model, Tap
from penstock.models.middleware.tool_choice import parse_demand
from penstock.parsing import OnError
from penstock.request import Request

# The models that clients can be told of: those that the settings name, and the upstream's own.
#
# A name that the settings do not know goes to the default upstream as it is, so that upstream
# is asked what it has. Its list is kept for an hour; one that cannot be had is retried
# after a minute, and nobody waits long for it.


KEPT_SECONDS: Final = 3_600.0
"""How long a list is good."""

AGAIN_SECONDS: Final = 60.0
"""After how long a list is retried that could not be had."""

WAIT_SECONDS: Final = 3.0
"""How long a client that lists the models waits for the upstream."""


@runtime_checkable
class ModelListing(Protocol):
    """A model whose server can say what it has."""

    async def names(self, seconds: float) -> list[str]:
        """List the models of the server, within *seconds*."""


class Catalog:
    """Knows what the server of *model* has, as far as it says so."""

    def __init__(self, model: object, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model if isinstance(model, ModelListing) else None
        self._clock = clock
        self._names: list[str] = []
        self._until = clock()

    async def names(self) -> list[str]:
        """Return the names; those of before where the server does not answer."""
        if self._model is None or self._clock() < self._until:
            return self._names
        # Whoever comes meanwhile is told what is known by now.
        self._until = self._clock() + AGAIN_SECONDS
        try:
            self._names = await self._model.names(WAIT_SECONDS)
        except (PenstockError, OSError, TimeoutError):
            return self._names
        self._until = self._clock() + KEPT_SECONDS
        return self._names


_PASSED_ON: Final = ("anthropic-beta", "openai-beta")
"""Headers of a client that mean something to an upstream; no other goes there.

An idempotency key does not: one request may ask an upstream several times, and mean each of them.
"""


class ResolvedRoute(Struct, frozen=True):
    """The way of one request: to *model* after *upstream*, which calls it *asked*."""

    name: str
    upstream: str
    api: str
    asked: str
    model: Model
    options: ModelOptions

    @property
    def wire(self) -> str:
        """The API of the bytes that come; a model in the process may speak one too."""
        return self.model.wire or self.api

    def check(self, request: Request) -> None:
        """Raise `UsageError` for a choice of tools that cannot be made.

        A server that is given tools as they are refuses such a choice itself. Where a model is told
        of them in words, nobody but us would.
        """
        if self.is_told_in_words:
            parse_demand(request)

    def for_request(self, request: Request) -> ResolvedRoute:
        """Return the way as *request* wants it.

        A whole answer has no deltas: its calls are read whole, and a broken one stays text.
        """
        if request.stream or self.options.arguments == "whole":
            return self
        return structs.replace(self, options=structs.replace(self.options, arguments="whole"))

    @property
    def is_told_in_words(self) -> bool:
        """Whether the model is told of tools in words, so that no tool of a provider reaches it."""
        return self.options.tools == "prompt" or self.model.reads_calls

    def omitted(self, request: Request) -> list[str]:
        """Name what of *request* goes no further than here; the upstream's report names the rest.

        A report knows only what it was given: in words there are not tools of a provider any more.
        """
        names = [] if self.options.effort or request.reasoning is None else ["reasoning"]
        names += self.model.left_out(request)  # of a model in the process, which has no report
        if self.is_told_in_words:
            names += [f"tools: {name}" for name in tool_names(request.extra.get("tools"))]
        return names

    def adapted(self, request: Request) -> list[str]:
        """Say what of *request* is written in another place than the client had it."""
        usual = "user" if self.is_told_in_words else usual_placement(self.wire, self.asked)
        placement, later = self.options.system_messages or usual, count_later(request)
        if placement == "keep" or not later:
            return []
        where = "the system prompt" if placement == "first" else "the user's messages"
        return [f"system messages: {later} merged into {where}"]

    def batches(self, request: Request, tap: Tap, on_error: OnError) -> Batches:
        """Ask the upstream, and return what comes with its text read."""
        reasoning = request.reasoning if self.options.effort else None
        asked = structs.replace(
            request,
            model=self.asked,
            reasoning=reasoning,
            system_messages=self.options.system_messages,
        )
        return tool_adapter.stream(self.options, self.model, asked, tap, on_error)


class ModelRouter:
    """Knows every model that clients may ask for: *models* are those after the upstreams."""

    def __init__(self, settings: Settings, models: Mapping[str, Model]) -> None:
        self._settings = settings
        self._models = dict(models)
        self._catalog = Catalog(self._models.get(settings.default_upstream))

    def way(self, name: str, scope: str = "") -> ResolvedRoute:
        """Return the way of a client of *scope* to the model *name*.

        Raises `HTTPError` where there is not one.
        """
        route = find_route(self._settings, name)
        if route is None:
            known = ", ".join(self._named()) or "none"
            raise HTTPError(404, f"there is no model {shown(name)} here; there are: {known}")
        model = self._models[route.upstream].scoped(scope)
        told = name or self._settings.default_model or route.model or model.name
        asked = route.model or model.name
        options = route.options
        if model.reads_calls:  # It was made to read in one way, for all names.
            options = options_for(route.settings)
        return ResolvedRoute(told, route.upstream, route.settings.api, asked, model, options)

    async def listed(self) -> list[dict[str, Any]]:
        """Describe the models that are known by name, those of the default upstream too."""
        names = dict.fromkeys([*self._named(), *await self._catalog.names()])
        return [described(name, self._owner(name)) for name in names]

    def _named(self) -> list[str]:
        """Name the models that the settings know; a pattern is not a name."""
        settings = self._settings
        names = [name for name in settings.models if not name.endswith("*")]
        if settings.default_model:
            names.append(settings.default_model)
        for upstream, model in self._models.items():
            names += [settings.upstreams[upstream].model or model.name]
        return [*filter(None, names)]

    def _owner(self, name: str) -> str:
        route = find_route(self._settings, name)
        return "penstock" if route is None else route.upstream

    async def close(self) -> None:
        """Let go of all upstreams."""
        for model in self._models.values():
            await model.close()


def described(name: str, owner: str) -> dict[str, Any]:
    """Describe a model in the words of all APIs that list them."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": owner,
    }


def headers_for(headers: Mapping[str, bytes]) -> dict[str, str]:
    """Return those of a client's *headers* that continue to an upstream."""
    return {name: headers[name].decode("latin-1") for name in _PASSED_ON if name in headers}
