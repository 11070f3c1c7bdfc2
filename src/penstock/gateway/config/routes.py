"""Which upstream answers for a model, and with which options: the model's, else the upstream's.

A name is looked for as it is, then among the names that end in ``*`` (the longest that fits wins),
and what nobody has goes to the default upstream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, Protocol

from msgspec import Struct, structs

from penstock.gateway.config.upstreams import ModelSettings, ReadingSettings, UpstreamSettings


class Options(Struct, frozen=True, kw_only=True):
    """How a model is asked, and its answers are read: `ReadingSettings` with nothing left open."""

    format: str = "auto"
    reasoning: str | None = None
    tools: Literal["native", "prompt", "none"] = "native"
    arguments: Literal["live", "whole"] = "live"
    repair: bool = True
    trim: bool = True
    constrain: Literal["json_schema", "grammar", "structural_tag"] | None = None
    send_back: bool = False
    prompt_suffix: str = ""
    effort: bool = True
    system_messages: Literal["keep", "first", "user"] | None = None
    quoted: Literal["text", "calls"] = "text"
    quoted_tools: dict[str, Literal["text", "calls"]] = {}
    fenced: Literal["text", "calls"] = "text"


USUAL: Final = Options()
"""What holds where nothing is said."""

USUAL_BY_API: Final = {
    "qwen": Options(format="qwen_web", tools="prompt", arguments="whole", repair=False)
}
"""What holds instead for an API that needs something else."""


class Route(Struct, frozen=True):
    """Who answers for a model: the *upstream* and its *settings*, and the *model* to ask for."""

    upstream: str
    settings: UpstreamSettings
    model: str
    options: Options


class Routes(Protocol):
    """What a route is found in."""

    @property
    def upstreams(self) -> Mapping[str, UpstreamSettings]:
        """The upstreams by name."""

    @property
    def models(self) -> Mapping[str, ModelSettings]:
        """The models by the names that clients use."""

    @property
    def default_upstream(self) -> str:
        """Who answers for any other model."""


def is_match(pattern: str, name: str) -> bool:
    """Tell whether *name* is *pattern*, or begins as one that ends in ``*`` does."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def find(routes: Routes, name: str) -> Route | None:
    """Give the route for *name*; None where nobody answers for it."""
    model = routes.models.get(_best(routes.models, name), _ANY)
    upstream_name = model.upstream or routes.default_upstream
    upstream = routes.upstreams.get(upstream_name)
    if upstream is None:
        return None
    asked = model.model or upstream.model or name
    return Route(upstream_name, upstream, asked, options_of(upstream, model))


_ANY: Final = ModelSettings()


def _best(patterns: Collection[str], name: str) -> str:
    """Give the pattern that fits *name* best: itself, else the longest."""
    if name in patterns:
        return name
    return max((one for one in patterns if is_match(one, name)), key=len, default="")


def options_of(upstream: UpstreamSettings, model: ModelSettings = _ANY) -> Options:
    """Give the options of *model* behind *upstream*, with nothing left open."""
    said = {**_said(upstream), **_said(model)}
    return structs.replace(USUAL_BY_API.get(upstream.api, USUAL), **said)


def _said(settings: ReadingSettings) -> dict[str, object]:
    options = {name: getattr(settings, name) for name in Options.__struct_fields__}
    return {name: value for name, value in options.items() if value is not None}
