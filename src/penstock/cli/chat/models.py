"""The model of a chat: chosen by the flags of the command, ``/model`` and ``/format``.

With ``auto`` the tools are sent in the API's own field, and calls in the text are parsed too. With
``native`` text stays text. Every other format describes the tools in the prompt. Without a server
the scripted model responds; it writes its calls as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from typing import Final

from msgspec import Struct, structs

from penstock import formats
from penstock.errors import PenstockError, UsageError
from penstock.gateway import tool_adapter
from penstock.gateway.config.flags import UPSTREAM_KEY
from penstock.gateway.config.load import load
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.config.settings import DemoSettings, UpstreamSettings
from penstock.models import DemoModel
from penstock.models.base import Batches, Model, Tap, ensure_end, iter_events
from penstock.models.demo import NAME
from penstock.request import Request
from penstock.streams import EventStream

AUTO: Final = "auto"
NATIVE: Final = "native"
DEMO_FORMAT: Final = "hermes"
"""The format in which the scripted model writes its calls by default."""

LIST_SECONDS: Final = 10.0
"""The time that a server has to list its models."""


class ModelChoice(Struct, frozen=True):
    """The flags of the command that select a model."""

    upstream: str = ""
    api: str = ""
    model: str = ""
    key_env: str = ""
    format: str = AUTO
    pace: float | None = None

    def load_settings(self, environ: Mapping[str, str]) -> UpstreamSettings:
        """Return the settings of the upstream, read as ``penstock serve`` reads them.

        Raises `UsageError` for an invalid flag. Of the variables ``PENSTOCK_*`` only the one with
        the key is used: the others configure a gateway.
        """
        known = {
            name: value
            for name, value in environ.items()
            if not name.startswith("PENSTOCK_") or name == UPSTREAM_KEY
        }
        found = load(
            None,
            known,
            upstream=self.upstream or None,
            api=self.api or None,
            model=self.model or None,
            key_env=self.key_env or None,
        )
        return found.upstreams[found.default_upstream]


class ToolAdapterModel(Model):
    """*inner*, with its tools offered and its calls parsed as *options* say."""

    def __init__(self, inner: Model, options: ModelOptions) -> None:
        self.inner = inner
        self._options = options

    @property
    def name(self) -> str:
        """The name of the inner model."""
        return self.inner.name

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Return the events of the response as they arrive."""
        return ensure_end(
            tool_adapter.stream(self._options, self.inner, request, tap or Tap(), lambda *_: None)
        )

    def stream(self, request: Request) -> EventStream:
        """Send *request*; never raises, failures are events of the stream."""
        return EventStream(iter_events(self.batches(request)), interval=0)

    async def names(self, seconds: float = LIST_SECONDS) -> list[str]:
        """Return the names of the server's models; waits at most *seconds*."""
        return await self.inner.names(seconds)

    def without_retries(self) -> ToolAdapterModel:
        """Return a copy that sends each request once."""
        twin = copy(self)
        twin.inner = self.inner.without_retries()
        return twin

    async def close(self) -> None:
        """Close the inner model."""
        await self.inner.close()


def make_model(choice: ModelChoice, environ: Mapping[str, str]) -> Model:
    """Return the model; raise `UsageError` for an invalid flag or an unknown format."""
    settings = choice.load_settings(environ)
    if choice.format not in (AUTO, NATIVE):
        formats.get(choice.format)
    if settings.api == "demo":
        written = DEMO_FORMAT if choice.format == AUTO else choice.format
        pace = DemoSettings().pace if choice.pace is None else choice.pace
        demo = DemoModel(written, pace=pace, name=settings.model or NAME)
        return ToolAdapterModel(demo, _make_options(written))
    return ToolAdapterModel(_make_upstream_model(settings), _make_options(choice.format))


async def choose_name(choice: ModelChoice, model: Model) -> ModelChoice:
    """Return *choice* with a model's name: by default the first that the server lists."""
    if choice.model or model.name:
        return choice
    names = await list_names(model)
    return structs.replace(choice, model=names[0]) if names else choice


async def list_names(model: Model) -> list[str]:
    """Return the names of the models that the server lists; none if it lists none."""
    with suppress(PenstockError):
        return await model.names(LIST_SECONDS) or [name for name in (model.name,) if name]
    return []


def _make_options(name: str) -> ModelOptions:
    if name == AUTO:
        return ModelOptions()
    return (
        ModelOptions(parse=False) if name == NATIVE else ModelOptions(tools="prompt", format=name)
    )


def _make_upstream_model(settings: UpstreamSettings) -> Model:
    if settings.api in ("qwen", "local"):
        try:
            from penstock.gateway.factory import model_of  # noqa: PLC0415 - it needs the extra
        except ModuleNotFoundError as exc:
            message = f"The API {settings.api} is not installed: pip install 'penstock[server]'"
            raise UsageError(message) from exc
        return model_of("chat", settings, None)
    from penstock.models import HTTPModel  # noqa: PLC0415 - the scripted model needs no client

    return HTTPModel(
        settings.api,
        settings.base_url.reveal(),
        settings.model,
        settings.key.reveal(),
        headers=settings.revealed_headers(),
        timeouts=settings.timeouts.as_timeouts(),
        retry=settings.as_retry(),
        interval=0.0,
    )
