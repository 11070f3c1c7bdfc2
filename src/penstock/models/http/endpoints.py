"""Where each API is found, and what its servers want to be told besides the request itself.

A base URL may be the server alone, end in the API's version (any: ``/v1``, ``/api/v3``,
``/v1beta/openai``), or be the whole path; what it has already is not said twice. Its query, where
it has one, goes along.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from penstock.errors import UsageError

_VERSION: Final = re.compile(r"v[0-9]+(?:alpha|beta)?[0-9]*")
_SSE: Final = "text/event-stream"


class Endpoint(Struct, frozen=True):
    """One API over HTTP: *key_names* and *url_names* are those of the environment."""

    path: str
    base_url: str
    key_names: tuple[str, ...] = ()
    url_names: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: dict[str, str] = field(default_factory=dict)
    stream_type: str = _SSE
    session_field: str = ""  # where the body names the conversation
    has_idempotency: bool = False  # whether servers know a request again by its key


_OPENAI_KEYS: Final = ("OPENAI_API_KEY",)
_OPENAI_URLS: Final = ("OPENAI_BASE_URL",)

ENDPOINTS: Final[dict[str, Endpoint]] = {
    "openai-chat": Endpoint(
        "/v1/chat/completions",
        "https://api.openai.com",
        _OPENAI_KEYS,
        _OPENAI_URLS,
        has_idempotency=True,
    ),
    "openai-responses": Endpoint(
        "/v1/responses",
        "https://api.openai.com",
        _OPENAI_KEYS,
        _OPENAI_URLS,
        session_field="prompt_cache_key",
        has_idempotency=True,
    ),
    "anthropic": Endpoint(
        "/v1/messages",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
        has_idempotency=True,
    ),
    "gemini": Endpoint(
        "/v1beta",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GOOGLE_GEMINI_BASE_URL",),
        key_header="x-goog-api-key",
        key_prefix="",
    ),
    "ollama": Endpoint(
        "/api/chat",
        "http://127.0.0.1:11434",
        ("OLLAMA_API_KEY",),
        ("OLLAMA_HOST",),
        stream_type="application/x-ndjson",
    ),
    "qwen": Endpoint("/api/v2/chat/completions", "https://chat.qwen.ai", ("QWEN_API_KEY",)),
}

QWEN_NEW_CHAT: Final = "/api/v2/chats/new"
"""Where chat.qwen.ai begins a conversation."""


def base_url_for(api: str, given: str, environ: Mapping[str, str]) -> str:
    """Give the base URL: the one *given*, else that of the environment, else the provider's own.

    Raises `UsageError` for what is no URL, and for one that holds a password.
    """
    endpoint = ENDPOINTS[api]
    named = next((environ[name] for name in endpoint.url_names if environ.get(name)), "")
    url = (given or named or endpoint.base_url).strip()
    if api == "ollama" and not given:
        url = _ollama_host(url)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("a base URL begins with http:// or https:// and names a host")
    if parts.username is not None:
        raise UsageError("a base URL holds no password: pass `api_key` or `headers`")
    return url


def join(base_url: str, path: str, query: Mapping[str, str] | None = None) -> str:
    """Give the URL of *path* at *base_url*, which may have the beginning of it, or all."""
    parts = urlsplit(base_url)
    base = [part for part in parts.path.split("/") if part]
    wanted = path.strip("/").split("/")
    if base[-len(wanted) + 1 :] == wanted[1:] and len(wanted) > 1:
        wanted = []  # the whole path, whatever its version
    elif _is_version(wanted[0]) and any(map(_is_version, base)):
        wanted = wanted[1:]
    overlap = next((n for n in range(len(wanted), 0, -1) if base[-n:] == wanted[:n]), 0)
    joined = "/" + "/".join([*base, *wanted[overlap:]])
    asked = "&".join(part for part in (parts.query, urlencode(query or {})) if part)
    return urlunsplit((parts.scheme, parts.netloc, joined, asked, ""))


def url_for(api: str, base_url: str, model: str, *, stream: bool) -> str:
    """Give the URL to which a request for *model* goes.

    Raises `UsageError` for a model that cannot be part of it.
    """
    if api != "gemini":
        return join(base_url, ENDPOINTS[api].path)
    named = model if "/" in model else f"models/{model}"
    if set(named.split("/")) & {"", ".", ".."}:  # which would lead to another path
        raise UsageError("a model of this API is a name, or a path of names")
    verb = "streamGenerateContent" if stream else "generateContent"
    path = f"{ENDPOINTS[api].path}/{quote(named)}:{verb}"
    return join(base_url, path, {"alt": "sse"} if stream else None)


def is_loopback(host: str) -> bool:
    """Tell whether *host* is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_version(part: str) -> bool:
    return _VERSION.fullmatch(part) is not None


def _ollama_host(text: str) -> str:
    """Read what Ollama's own variable may be: a URL, or a host, or a port, with the rest left out.

    A server that listens everywhere (``0.0.0.0``) is asked on this machine.
    """
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - nobody listens here
    host = f"[{host}]" if ":" in host else host
    port = parts.port or (11434 if "://" not in text else None)
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
