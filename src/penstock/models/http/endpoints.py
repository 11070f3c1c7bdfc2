"""URLs, headers, key names and proxies of each API.

A base URL may be the server alone, end with a version of the API (any: ``/v1``, ``/api/v3``,
``/v1beta/openai``), or be the whole path; parts that it already has are not repeated. Its query is
kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from penstock.errors import UsageError

_VERSION: Final = re.compile(r"v[0-9]+(?:alpha|beta)?[0-9]*")
_SSE: Final = "text/event-stream"


class Endpoint(Struct, frozen=True):
    """One API over HTTP; *key_names* and *url_names* are environment variables."""

    path: str
    base_url: str
    key_names: tuple[str, ...] = ()
    url_names: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: dict[str, str] = field(default_factory=dict)
    stream_type: str = _SSE
    session_field: str = ""  # the body field for `Request.session`
    has_idempotency: bool = False  # whether servers accept an idempotency key


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
        # OpenAI routes requests with the same key to the same cache.
        session_field="prompt_cache_key",
        has_idempotency=True,
    ),
    "anthropic": Endpoint(
        "/v1/messages",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        # Anthropic accepts `Authorization: Bearer` only for OAuth tokens.
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},  # required by the API
        has_idempotency=True,
    ),
    "gemini": Endpoint(
        "/v1beta",
        "https://generativelanguage.googleapis.com",
        # Google's SDK reads both; a key in the query (`?key=`) would be in the logs of proxies.
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
        stream_type="application/x-ndjson",  # one JSON object per line
    ),
    # Not a documented API: what the web page of chat.qwen.ai calls.
    "qwen": Endpoint("/api/v2/chat/completions", "https://chat.qwen.ai", ("QWEN_API_KEY",)),
}

MAX_CACHED: Final = 64
"""How many URLs of requests are cached: those of all upstreams of most gateways."""

QWEN_NEW_CHAT: Final = "/api/v2/chats/new"
"""The path at which chat.qwen.ai starts a conversation."""


def base_url_for(api: str, given: str, environ: Mapping[str, str]) -> str:
    """Return *given*, or else the base URL of the environment, or else the provider's own.

    Raises `UsageError` if it is not an HTTP URL or contains a password.
    """
    endpoint = ENDPOINTS[api]
    named = next((environ[name] for name in endpoint.url_names if environ.get(name)), "")
    url = (given or named or endpoint.base_url).strip()
    if api == "ollama" and not given:
        url = _ollama_host(url)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "" if "://" in url else ": is http:// missing?"
        raise UsageError(f"the base URL must start with http:// or https:// and have a host{hint}")
    if parts.username is not None:
        raise UsageError("the base URL must not contain a password: pass `api_key` or `headers`")
    return url


def join(base_url: str, path: str, query: Mapping[str, str] | None = None) -> str:
    """Return the URL of *path* at *base_url*, which may already contain a part of it or all."""
    parts = urlsplit(base_url)
    base = [part for part in parts.path.split("/") if part]
    wanted = path.strip("/").split("/")
    if base[-len(wanted) + 1 :] == wanted[1:] and len(wanted) > 1:
        wanted = []  # The base URL has the whole path, whatever its version.
    # Base URLs are written with and without the version (`/v1`), and some hosts have another one,
    # such as `/api/v3` (Volcengine) or `/v1beta/openai` (Gemini).
    elif _is_version(wanted[0]) and any(map(_is_version, base)):
        wanted = wanted[1:]
    overlap = next((n for n in range(len(wanted), 0, -1) if base[-n:] == wanted[:n]), 0)
    joined = "/" + "/".join([*base, *wanted[overlap:]])
    joined_query = "&".join(part for part in (parts.query, urlencode(query or {})) if part)
    return urlunsplit((parts.scheme, parts.netloc, joined, joined_query, ""))


@lru_cache(maxsize=MAX_CACHED)
def url_for(api: str, base_url: str, model: str, *, stream: bool) -> str:
    """Return the URL for a request to *model*.

    Raises `UsageError` for a model name that cannot be a part of it.
    """
    if api != "gemini":
        return join(base_url, ENDPOINTS[api].path)
    named = model if "/" in model else f"models/{model}"
    if set(named.split("/")) & {"", ".", ".."}:  # which would change the path
        raise UsageError("invalid model name: expected a name, or names separated by '/'")
    verb = "streamGenerateContent" if stream else "generateContent"
    path = f"{ENDPOINTS[api].path}/{quote(named)}:{verb}"
    # Without `alt=sse` Gemini streams one JSON array instead of server-sent events.
    return join(base_url, path, {"alt": "sse"} if stream else None)


@lru_cache(maxsize=MAX_CACHED)
def is_loopback(host: str) -> bool:
    """Return whether *host* is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_version(part: str) -> bool:
    return _VERSION.fullmatch(part) is not None


def _ollama_host(text: str) -> str:
    """Return the URL for ``OLLAMA_HOST``, which may be a URL, a host, or ``:port``.

    A server that listens on all interfaces (``0.0.0.0``) is reached on this machine.
    """
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    # `OLLAMA_HOST` configures both the server (where to listen) and its clients.
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - not a bind
    host = f"[{host}]" if ":" in host else host
    port = parts.port or (11434 if "://" not in text else None)
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


# --- proxies ---


def check_proxy(proxy: str | None) -> str | None:
    """Return *proxy*; raise `UsageError`, without showing it, unless it is an HTTP URL."""
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise UsageError("the proxy must be a URL that starts with http:// or https://")
    return proxy


def proxy_for(url: str, given: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for *url*: *given* (empty means none), or else the one of *environ*.

    A proxy of the environment is not used for this machine or for hosts in ``NO_PROXY``.
    """
    if given is not None:
        return given or None
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_exempt(host, parts.port, _find_variable(environ, "no_proxy")):
        return None
    found = _find_variable(environ, f"{parts.scheme}_proxy")
    found = found or _find_variable(environ, "all_proxy")
    if not found:
        return None
    return check_proxy(found if "://" in found else f"http://{found}")


def _find_variable(environ: Mapping[str, str], name: str) -> str:
    # curl ignores `HTTP_PROXY` in capitals, because CGI programs get the client's `Proxy` header in
    # it; `requests`, httpx and aiohttp read both spellings, and so does this.
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Return whether an entry of ``NO_PROXY`` fits: ``*``, ``host``, ``.domain``, ``host:port``."""
    for entry in no_proxy.lower().split(","):
        name, _, number = entry.strip().removeprefix("*").removeprefix(".").partition(":")
        if entry.strip() == "*":
            return True
        is_named = bool(name) and (host == name or host.endswith(f".{name}"))
        if is_named and number in ("", str(port)):
            return True
    return False
