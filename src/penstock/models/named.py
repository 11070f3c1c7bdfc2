"""`open_model`: a model from a name such as ``ollama:qwen3:8b``.

The part before the first colon is the provider, the rest is its name of the model. A URL followed
by ``#`` and a name is any other server with OpenAI's Chat API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError, suggest
from penstock.formats import FormatLike, get, make_event_parser
from penstock.models.base import (
    Batches,
    Model,
    OutputMode,
    Tap,
    ensure_end,
    ids_for,
    iter_events,
    join_deltas,
)
from penstock.models.demo import DemoModel
from penstock.models.http import HTTPModel
from penstock.models.http.endpoints import ENDPOINTS
from penstock.models.middleware import without_calls
from penstock.models.untrusted import untrusted_in
from penstock.request import Request, make_request
from penstock.streams import EventStream


class _Provider(Struct, frozen=True):
    """Where the models of a provider are: its *api* and its address, if it is not the API's own."""

    api: str
    base_url: str = ""


# The ports are the servers' defaults. Not "localhost": some systems resolve it to ::1 first, where
# such a server may not listen.
PROVIDERS: Final[Mapping[str, _Provider]] = {
    # OpenAI sends reasoning through this API only.
    "openai": _Provider("openai-responses"),
    "openai-chat": _Provider("openai-chat"),
    "anthropic": _Provider("anthropic"),
    "gemini": _Provider("gemini"),
    "google": _Provider("gemini"),
    "ollama": _Provider("ollama"),
    "lmstudio": _Provider("openai-chat", "http://127.0.0.1:1234/v1"),
    "llamacpp": _Provider("openai-chat", "http://127.0.0.1:8080/v1"),
    "vllm": _Provider("openai-chat", "http://127.0.0.1:8000/v1"),
    "sglang": _Provider("openai-chat", "http://127.0.0.1:30000/v1"),
}
"""The providers that a name may begin with, besides ``penstock`` and ``demo``."""

DEMO: Final = "demo"
GATEWAY: Final = "penstock"


def open_model(name: str, **options: Any) -> Model:
    """Return the model that *name* describes.

    * ``openai:gpt-5.4``, ``anthropic:claude-sonnet-4-5``, ``gemini:…``: the provider's own service.
      The key is read from the environment.
    * ``ollama:qwen3:8b``, ``lmstudio:…``, ``llamacpp:…``, ``vllm:…``, ``sglang:…``: a server on
      this machine, at its usual port.
    * ``penstock:http://gateway:8787/v1#qwen3``: a model of a gateway.
    * ``https://example.com/v1#model``: any server with OpenAI's Chat API.
    * ``demo:``: the scripted model, for trying things out; ``demo:hermes`` prints its calls.

    Calls that a model prints as text are read, except those of a gateway, which reads them itself.
    *options* are those of `HTTPModel`. Raises `UsageError` for a name that describes no model.
    """
    provider, colon, rest = name.partition(":")
    if provider in ("http", "https"):
        return ParsedModel(_open_url(name, options))
    if not colon:
        known = ", ".join([*PROVIDERS, GATEWAY, DEMO])
        raise UsageError(f"model {name!r} has no provider: write PROVIDER:{name}, one of {known}")
    if provider == DEMO:
        return ParsedModel(DemoModel(rest or "hermes"))
    if provider == GATEWAY:
        return _open_url(rest, options)
    if provider not in PROVIDERS:
        known_names = [*PROVIDERS, GATEWAY, DEMO]
        hint = suggest(provider, known_names) or f"; expected one of {', '.join(known_names)}"
        raise UsageError(f"unknown provider {provider!r} in the model {name!r}{hint}")
    if not rest:
        raise UsageError(f"the model {name!r} has no name after the colon")
    found = PROVIDERS[provider]
    settings = {"base_url": found.base_url, **options}
    _check_key(name, found, settings)
    return ParsedModel(HTTPModel(found.api, model=rest, **settings))


def _check_key(name: str, provider: _Provider, settings: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the provider's own service would refuse the model without a key."""
    endpoint = ENDPOINTS[provider.api]
    environ = os.environ if settings.get("environ") is None else settings["environ"]
    has_key = settings.get("api_key") or any(environ.get(key) for key in endpoint.key_names)
    is_local = settings["base_url"] or any(environ.get(url) for url in endpoint.url_names)
    if has_key or is_local or provider.api == "ollama" or settings.get("headers"):
        return
    names = " or ".join(endpoint.key_names)
    raise UsageError(f"missing API key for the model {name!r}: set {names}, or pass `api_key`")


def _open_url(text: str, options: dict[str, Any]) -> Model:
    # Names of models contain ":" and "/", but no "#".
    url, _, model = text.partition("#")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"expected a URL such as http://127.0.0.1:8787/v1, got {url!r}")
    return HTTPModel("openai-chat", base_url=url, model=model, **options)


class ParsedModel(Model):
    """Reads calls and reasoning in the text of *model*; its own calls pass, repaired if damaged.

    It is for models whose server accepts tools and leaves some calls in the text, as most do.
    `ToolMiddleware` is for those whose server has no tools. *format* is the format of the calls;
    the *options* are those of `penstock.Parser`.
    """

    reads_calls = True

    def __init__(self, model: Model, format: FormatLike = "auto", **options: Any) -> None:  # noqa: A002
        self._model = model
        self._format = get(format)
        self._options = {"arguments": "live", "repair": True, "trim": True, **options}

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    @property
    def api_name(self) -> str:
        """The name of the upstream's API."""
        return self._model.api_name

    @property
    def interval(self) -> float:
        """The minimum number of seconds between two deltas of a stream: the model's."""
        return self._model.interval

    def stream(self, request: Request) -> EventStream:
        """Start the response to *request*; every failure is reported in the stream."""
        return EventStream(iter_events(self._respond(make_request(request), None)))

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive; *tap* observes the exchange."""
        return ensure_end(self._respond(make_request(request), tap))

    def without_retries(self) -> ParsedModel:
        """Return a copy whose model tries once; close the original only."""
        return ParsedModel(self._model.without_retries(), self._format, **self._options)

    @property
    def format_name(self) -> str:
        """The name of the format in which calls in the text are read."""
        return self._format.name

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return how the model can be made to write JSON, best first."""
        return self._model.output_modes(has_tools=has_tools)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def names(self, seconds: float = 10.0) -> list[str]:
        """Return the models that the server lists."""
        return await self._model.names(seconds)

    async def _respond(self, request: Request, tap: Tap | None) -> Batches:
        is_forbidden = request.tool_choice is not None and request.tool_choice.mode == "none"
        tools = [] if is_forbidden else request.tools
        format_, options = self._format, dict(self._options)
        if not tools:
            format_, options["reasoning"] = without_calls(format_, options.get("reasoning"))
        parser = make_event_parser(
            format_,
            tools,
            ids=ids_for(request),
            max_calls=1 if request.parallel_tool_calls is False else None,
            untrusted=untrusted_in(request) if tools else None,
            heal=bool(tools),
            max_tokens=request.max_tokens,
            **options,
        )
        batches = self._model.batches(request, tap)
        try:
            async for batch in batches:
                yield [out for event in batch for out in join_deltas(parser.add(event))]
        finally:
            await batches.aclose()
