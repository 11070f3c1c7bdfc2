"""Which model answers, and how its calls are read: what the flags, ``/model`` and ``/format`` say.

``auto`` gives a server its tools in the server's own field, and looks for calls in the text all the
same. ``native`` leaves text alone. Any other format tells the model of its tools in words. The
scripted model, which answers where no server is named, writes its calls as text by itself.
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
from penstock.gateway.config.loading import load
from penstock.gateway.config.routes import Options
from penstock.gateway.config.upstreams import DemoSettings, UpstreamSettings
from penstock.models import DemoModel
from penstock.models.base import Batches, Model, Tap, ensure_end, iter_events
from penstock.models.demo import NAME
from penstock.request import Request
from penstock.streams import EventStream

AUTO: Final = "auto"
NATIVE: Final = "native"
DEMO_FORMAT: Final = "hermes"
"""How the scripted model writes its calls where nobody says."""


class Choice(Struct, frozen=True):
    """The server to ask and how: the flags of the command, as far as they are about that."""

    upstream: str = ""
    api: str = ""
    model: str = ""
    key_env: str = ""
    format: str = AUTO
    pace: float | None = None

    def settings(self, environ: Mapping[str, str]) -> UpstreamSettings:
        """Read the flags as ``penstock serve`` does; raise `UsageError` for a wrong one.

        Of penstock's own variables only the one with the key counts: the rest is about a gateway.
        """
        known = {
            name: value
            for name, value in environ.items()
            if not name.startswith("PENSTOCK_") or name == UPSTREAM_KEY
        }
        names = ("upstream", "api", "model", "key_env")
        found = load(None, known, **{name: getattr(self, name) or None for name in names})
        return found.upstreams[found.default_upstream]


def model_for(choice: Choice, environ: Mapping[str, str]) -> Model:
    """Make the model; raise `UsageError` for a server or a format that nobody knows."""
    settings = choice.settings(environ)
    if choice.format not in (AUTO, NATIVE):
        formats.get(choice.format)
    if settings.api == "demo":
        return ReadModel(_demo(choice, settings), _demo_options(choice.format))
    return ReadModel(_asked(settings), _options(choice.format))


async def named(choice: Choice, model: Model) -> Choice:
    """Give *choice* with the name of a model: the first that the server lists, if none is said."""
    if choice.model or model.name:
        return choice
    names = await listed(model)
    return structs.replace(choice, model=names[0]) if names else choice


async def listed(model: Model) -> list[str]:
    """Give the names of the models that the server has; none if it does not say."""
    with suppress(PenstockError):
        return await model.names() or [name for name in (model.name,) if name]
    return []


class ReadModel(Model):
    """*inner*, with the calls in its text read as *options* say."""

    def __init__(self, inner: Model, options: Options) -> None:
        self.inner = inner
        self._options = options

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self.inner.name

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they arrive."""
        return ensure_end(
            tool_adapter.stream(self._options, self.inner, request, tap or Tap(), lambda *_: None)
        )

    def stream(self, request: Request) -> EventStream:
        """Begin to answer *request*; never raises, every failure is in the stream."""
        return EventStream(iter_events(self.batches(request)), interval=0)

    async def names(self, seconds: float = 10.0) -> list[str]:
        """List the models that the server has, within *seconds*."""
        return await self.inner.names(seconds)

    def without_retries(self) -> ReadModel:
        """Give a twin that tries once."""
        twin = copy(self)
        twin.inner = self.inner.without_retries()
        return twin

    async def close(self) -> None:
        """Let go of what the model holds."""
        await self.inner.close()


def _options(name: str) -> Options:
    if name == AUTO:
        return Options()
    return Options(tools="none") if name == NATIVE else Options(tools="prompt", format=name)


def _demo_options(name: str) -> Options:
    return _options(DEMO_FORMAT if name == AUTO else name)


def _demo(choice: Choice, settings: UpstreamSettings) -> Model:
    written = DEMO_FORMAT if choice.format == AUTO else choice.format
    pace = DemoSettings().pace if choice.pace is None else choice.pace
    return DemoModel(written, pace=pace, name=settings.model or NAME)


def _asked(settings: UpstreamSettings) -> Model:
    if settings.api in ("qwen", "local"):
        try:
            from penstock.gateway.factory import model_of  # noqa: PLC0415 - it needs the extra
        except ModuleNotFoundError as exc:
            raise UsageError(f"the API {settings.api} needs penstock[server]") from exc
        return model_of("chat", settings, None)
    from penstock.models import HTTPModel  # noqa: PLC0415 - the demo does without a client

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
