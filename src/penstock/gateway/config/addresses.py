"""Addresses: URLs that show no password, the API that one speaks, the provider that one is of."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.models.http.endpoints import ENDPOINTS
from penstock.models.http.redaction import HIDDEN

_BEFORE_HOST: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)
_TELLING: Final = re.compile(
    r"([?&;][^=&;]*(?:auth|key|token|secret|cookie|pass|pwd|sig)[^=&;]*=)[^&;#]*", re.IGNORECASE
)


class Address:
    """A URL that shows itself without its password; `reveal` gives all of it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the URL with its password."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return masked(self._text)

    def __repr__(self) -> str:
        return f"Address({masked(self._text)!r})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("an address may hold a password: it is not written anywhere")


def masked(url: str) -> str:
    """Give *url* without what only its server should know.

    A password may hold any character, also one that ends the host for others: so all that stands
    before the last ``@`` is hidden, rather too much than too little.
    """
    without_user = _BEFORE_HOST.sub(lambda found: f"{found[1] or ''}{HIDDEN}@", url, count=1)
    return _TELLING.sub(rf"\1{HIDDEN}", without_user)


def host_of(url: str) -> str:
    """Give the host of *url*, empty where there is none."""
    return urlsplit(url).hostname or ""


class Provider(Struct, frozen=True):
    """Who is found at a host: the API spoken there, and the variables that hold its keys."""

    api: str
    key_names: tuple[str, ...]


PROVIDERS: Final[dict[str, Provider]] = {
    **{
        host_of(endpoint.base_url): Provider(api, endpoint.key_names)
        for api, endpoint in ENDPOINTS.items()
        if api not in ("openai-responses", "ollama")  # the same host as chat; this machine
    },
    "ollama.com": Provider("ollama", ENDPOINTS["ollama"].key_names),
    "api.deepseek.com": Provider("openai-chat", ("DEEPSEEK_API_KEY",)),
    "api.groq.com": Provider("openai-chat", ("GROQ_API_KEY",)),
    "api.mistral.ai": Provider("openai-chat", ("MISTRAL_API_KEY",)),
    "api.together.xyz": Provider("openai-chat", ("TOGETHER_API_KEY",)),
    "api.x.ai": Provider("openai-chat", ("XAI_API_KEY",)),
    "openrouter.ai": Provider("openai-chat", ("OPENROUTER_API_KEY",)),
}
"""Those whose keys are looked for by themselves: a key goes to its own provider, nowhere else."""

_PATHS: Final = (
    ("/chat/completions", "openai-chat"),
    ("/openai", "openai-chat"),  # what other providers call their copy of that API
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
    ("/api/chat", "ollama"),
    ("/api/generate", "ollama"),
)


def api_of(url: str) -> str:
    """Guess the API that is spoken at *url*: by the end of its path, else by its host."""
    path = urlsplit(url).path.rstrip("/")
    host = host_of(url)
    if host == "chat.qwen.ai":  # whose paths look like those of others
        return "qwen"
    found = next((api for ending, api in _PATHS if path.endswith(ending)), "")
    return found or (PROVIDERS[host].api if host in PROVIDERS else "openai-chat")


def usual_key_names(url: str) -> tuple[str, ...]:
    """Give the variables that usually hold the key for *url*: none unless a provider is there.

    Over plain HTTP nobody can know who is there.
    """
    provider = PROVIDERS.get(host_of(url))
    return provider.key_names if provider and url.lower().startswith("https://") else ()
