"""Every provider's API, both ways: streams, requests and whole answers.

An API is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from penstock.apis.base import Api
from penstock.errors import UsageError

__all__ = ["Api", "check", "get", "names"]

_MODULES: Final = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
    "qwen": "qwen",
}
_ALIASES: Final = {
    "openai": "openai-chat",
    "chat": "openai-chat",
    "responses": "openai-responses",
    "anthropic-messages": "anthropic",
    "messages": "anthropic",
    "google": "gemini",
    "qwen-web": "qwen",
    "claude": "anthropic",
    "vertex": "gemini",
}


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


_KEYS: Final = {
    **{_key(name): module for name, module in _MODULES.items()},
    **{_key(alias): _MODULES[name] for alias, name in _ALIASES.items()},
}


def names() -> list[str]:
    """Return the names of all APIs."""
    return [*_MODULES]


def get(name: str) -> Api:
    """Return the API called *name*, without regard to case, ``-``, ``_`` or spaces."""
    module = _KEYS.get(_key(name))
    if module is None:
        raise UsageError(f"no API is called {name!r}; there are {', '.join(_MODULES)}")
    api: Api = import_module(f"penstock.apis.{module}").API
    return api


def check(name: str, data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar of the API called *name*."""
    return get(name).check(data)
