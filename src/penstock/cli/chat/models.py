"""The model of a chat: chosen by the flags of the command, ``/model`` and ``/format``.

With ``auto`` the tools are sent in the API's own field, and calls in the text are parsed too. With
``native`` text stays text. Every other format describes the tools in the prompt. Without a server
the scripted model responds; it writes its calls as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from importlib.util import find_spec
from typing import Final

from msgspec import Struct, structs

from penstock import formats
from penstock.cli import describe_install
from penstock.cli.admin import load_upstream
from penstock.config.routes import ModelOptions
from penstock.config.settings import DemoSettings, UpstreamSettings
from penstock.errors import PenstockError, UsageError
from penstock.gateway import tool_adapter
from penstock.gateway.advice import advise, ask_whether_it_runs
from penstock.messages import ErrorInfo
from penstock.models import DemoModel
from penstock.models.base import Batches, Model, Tap, ensure_end, iter_events
from penstock.models.demo import NAME
from penstock.models.http.list_models import LIST_SECONDS
from penstock.models.http.transport import ConnectError
from penstock.request import ReasoningOptions, Request
from penstock.streams import EventStream

AUTO: Final = "auto"
NATIVE: Final = "native"
# The levels of all providers together: OpenAI's, Anthropic's and those of open models.
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model reasons; which of them it knows depends on the model."""

DEMO_FORMAT: Final = "hermes"
"""The format in which the scripted model writes its calls by default."""


class ModelChoice(Struct, frozen=True):
    """The flags of the command that select a model."""

    upstream: str = ""
    api: str = ""
    model: str = ""
    key_env: str = ""
    format: str = AUTO
    pace: float | None = None
    effort: str = ""


class ToolAdapterModel(Model):
    """*inner*, with its tools offered and its calls parsed as *options* say.

    *effort* is how much it reasons, if it is not empty. *settings* are those of its server.
    """

    def __init__(
        self,
        inner: Model,
        options: ModelOptions,
        effort: str = "",
        settings: UpstreamSettings | None = None,
    ) -> None:
        self.inner = inner
        self._settings = settings
        self._options = options
        self._effort = effort

    @property
    def name(self) -> str:
        """The name of the inner model."""
        return self.inner.name

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Return the events of the response as they arrive."""
        if self._effort:
            request = structs.replace(request, reasoning=ReasoningOptions(self._effort))
        return ensure_end(
            tool_adapter.stream(self._options, self.inner, request, tap or Tap(), lambda *_: None)
        )

    def stream(self, request: Request) -> EventStream:
        """Send *request*; never raises, failures are events of the stream."""
        return EventStream(iter_events(self.batches(request)), interval=0)

    def advise(self, error: ErrorInfo) -> str:
        """Return what to do about an *error* of its server, or an empty string."""
        return "" if self._settings is None else advise(error, self._settings, self.name)

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
    settings = _load_settings(choice, environ)
    if choice.effort and choice.effort not in EFFORTS:
        raise UsageError(f"the effort is {choice.effort!r}; expected one of {', '.join(EFFORTS)}")
    # An unknown format is an error before the chat starts, not at the first response.
    if choice.format not in (AUTO, NATIVE):
        formats.get(choice.format)
    # The scripted model writes calls as text, so they are parsed like those of any other model.
    if settings.api == "demo":
        written = DEMO_FORMAT if choice.format == AUTO else choice.format
        pace = DemoSettings().pace if choice.pace is None else choice.pace
        demo = DemoModel(written, pace=pace, name=settings.model or NAME)
        return ToolAdapterModel(demo, _make_options(written), choice.effort)
    options = _make_options(choice.format)
    return ToolAdapterModel(_make_upstream_model(settings), options, choice.effort, settings)


def advise_on(model: Model, error: ErrorInfo) -> str:
    """Return what to do about an *error* of *model*, or an empty string."""
    return model.advise(error) if isinstance(model, ToolAdapterModel) else ""


def is_scripted(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Return whether *choice* is the scripted model."""
    return _load_settings(choice, environ).api == "demo"


def _load_settings(choice: ModelChoice, environ: Mapping[str, str]) -> UpstreamSettings:
    flags = {"upstream": choice.upstream, "api": choice.api, "model": choice.model}
    return load_upstream({**flags, "key_env": choice.key_env}, environ)


# OpenAI's models from GPT-4.1 on were trained on this form of patches, as its prompting guide says.
def writes_patches(name: str) -> bool:
    """Return whether the model *name* was trained to write patches for `apply_patch`."""
    return re.search(r"\b(?:gpt-(?:4\.1|5)|codex|o[34])\b", name.lower()) is not None


async def choose_name(choice: ModelChoice, model: Model) -> ModelChoice:
    """Return *choice* with a model's name: by default the first that the server lists.

    Raises `UsageError` if there is no server: a chat would only retry for a while.
    """
    if choice.model or model.name:
        return choice
    names = []
    try:
        names = await model.names(LIST_SECONDS)
    except ConnectError as exc:
        await model.close()
        raise UsageError(f"{exc}. {ask_whether_it_runs(choice.upstream)}") from exc
    except PenstockError:
        pass  # It lists no models; the first request says whether it needs a name.
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
            from penstock.gateway.factory import make_model  # noqa: PLC0415 - it needs the extra
        except ModuleNotFoundError as exc:
            message = f"The API {settings.api} is not installed: {describe_install('server')}"
            raise UsageError(message) from exc
        return make_model("chat", settings, None)
    if find_spec("aiohttp") is None:
        raise UsageError(
            "`penstock chat` needs aiohttp for a model server, which is not installed: "
            + describe_install("cli,client")
        )
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
