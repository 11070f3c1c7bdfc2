"""Every provider's API, in both directions: streams, requests, responses and errors.

An API is imported when `get` is first called with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Protocol

from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import StreamEncoder
from penstock.errors import UsageError, fold_name
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.request import Request

__all__ = ["Api", "check", "get", "names"]


class Api(Protocol):
    """One provider's API.

    Readers accept what servers and clients send in practice: unknown fields are omitted, or kept to
    be written for the same API, and only a value that cannot be a request raises `UsageError`.
    """

    @property
    def name(self) -> str:
        """The name that `apis.get` finds it by."""

    def decoder(self, *, ids: Callable[[], str] | None = None) -> StreamDecoder:
        """Return a decoder for the stream of one response.

        *ids* makes the ids of calls that have none.
        """

    def encoder(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> StreamEncoder:
        """Return an encoder for the stream of one response.

        *model* and *id* replace those of the response; *created* is the time in seconds since
        1970; *usage* is whether the client asked for token counts, if the API lets it choose.
        """

    def read_request(self, data: Mapping[str, Any]) -> Request:
        """Read the body that a client sent; raise `UsageError` if it is not a request."""

    def write_request(self, request: Request) -> dict[str, Any]:
        """Write *request* for this API; fields that the API cannot express are omitted."""

    def omitted_fields(self, request: Request) -> list[str]:
        """Return the names of the fields of *request* that `write_request` omits."""

    def read_response(self, data: Mapping[str, Any]) -> AssistantMessage:
        """Read a whole response; if it is an error, `error` is set."""

    def write_response(self, message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
        """Write a whole response; raise `UsageError` for a failed one (see `write_error`)."""

    def read_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
    ) -> ErrorInfo:
        """Read an error response.

        *now* is the time in seconds since 1970; without it, headers that name a point in time to
        wait for are ignored.
        """

    def write_error(self, error: ErrorInfo) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response that reports *error*."""

    def check(self, data: bytes) -> list[str]:
        """List every way in which the stream *data* violates the grammar of the API."""


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


_KEYS: Final = {
    **{fold_name(name): module for name, module in _MODULES.items()},
    **{fold_name(alias): _MODULES[name] for alias, name in _ALIASES.items()},
}


def names() -> list[str]:
    """Return the names of all APIs."""
    return [*_MODULES]


def get(name: str) -> Api:
    """Return the API called *name*; case, ``-``, ``_`` and spaces are ignored."""
    module = _KEYS.get(fold_name(name))
    if module is None:
        raise UsageError(f"unknown API {name!r}; known APIs: {', '.join(_MODULES)}")
    api: Api = import_module(f"penstock.apis.{module}").API
    return api


def check(name: str, data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar of the API called *name*."""
    return get(name).check(data)
