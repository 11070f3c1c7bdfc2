"""Which upstream serves a model, and with which options.

A model name is looked up in ``models``: first as it is, then among the names that end in ``*``, of
which the longest match wins. Other names go to the default upstream. An option comes from the
model, else from its upstream, else from the defaults of the API.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock.config.settings import ModelSettings, OptionSettings, Settings, UpstreamSettings


class ModelOptions(Struct, frozen=True, kw_only=True):
    """The options of a model with all defaults filled in; `OptionSettings` describes them."""

    format: str = "auto"
    reasoning: str | None = None
    tools: Literal["native", "prompt"] = "native"
    parse: bool = True
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
    reasoning_only: Literal["reasoning", "text"] = "text"
    stray_reasoning: Literal["text", "split"] = "split"
    heal: bool = True
    loop_limit: int = 5
    end_loops: bool = False

    @property
    def mode(self) -> Literal["native", "prompt", "none"]:
        """The ``mode`` of a request in the log: *tools*, or ``none`` if text is not parsed."""
        return self.tools if self.parse else "none"

    def parser_options(self) -> dict[str, Any]:
        """Return these options as options of `Parser`, without the format."""
        return {
            "arguments": self.arguments,
            "reasoning": self.reasoning or None,
            "repair": self.repair,
            "trim": self.trim,
            "prompt_suffix": self.prompt_suffix,
            "fenced": self.fenced,
            "reasoning_only": self.reasoning_only,
            "stray_reasoning": self.stray_reasoning,
        }

    def quote_options(self) -> dict[str, Any]:
        """Return the options of `ToolMiddleware` about quoted calls."""
        return {"quoted": self.quoted, "quoted_tools": self.quoted_tools}


DEFAULTS: Final = ModelOptions()

DEFAULTS_BY_API: Final = {
    # chat.qwen.ai has no tools; its calls have a format of their own that is never repaired.
    "qwen": ModelOptions(format="qwen_web", tools="prompt", arguments="whole", repair=False)
}


class Route(Struct, frozen=True):
    """The *upstream* for a model, its *settings*, the *model* to request there, and *options*."""

    upstream: str
    settings: UpstreamSettings
    model: str
    options: ModelOptions


def find_route(settings: Settings, name: str) -> Route | None:
    """Return the route for the model *name*, or for the default model if it is empty."""
    name = name or settings.default_model
    patterns = (one for one in settings.models if matches(one, name))
    # The longest pattern is the most specific one: all of them end in the same "*".
    best = name if name in settings.models else max(patterns, key=len, default="")
    model = settings.models.get(best, _ANY_MODEL)
    upstream_name = model.upstream or settings.default_upstream
    upstream = settings.upstreams.get(upstream_name)
    if upstream is None:
        return None
    requested = model.model or upstream.model or name
    return Route(upstream_name, upstream, requested, options_for(upstream, model))


def matches(pattern: str, name: str) -> bool:
    """Return whether *name* is *pattern*, or starts with it if it ends in ``*``."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


_ANY_MODEL: Final = ModelSettings()


def options_for(upstream: UpstreamSettings, model: ModelSettings = _ANY_MODEL) -> ModelOptions:
    """Return the options of *model* at *upstream*.

    ``parse = false`` and ``tools = "prompt"`` exclude each other: the model's setting overrides its
    upstream's.
    """
    chosen = {**_set_options(upstream), **_set_options(model)}
    if chosen.get("parse") is False:
        is_prompted = model.tools == "prompt" and model.parse is None
        chosen |= {"parse": True} if is_prompted else {"tools": "native"}
    return structs.replace(DEFAULTS_BY_API.get(upstream.api, DEFAULTS), **chosen)


def _set_options(settings: OptionSettings) -> dict[str, object]:
    options = {name: getattr(settings, name) for name in OptionSettings.__struct_fields__}
    return {name: value for name, value in options.items() if value is not None}
