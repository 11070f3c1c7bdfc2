"""The value types of settings: URLs that hide passwords, and rules for strings.

A `StringRule` in an ``Annotated`` type checks a string and returns its canonical form. Its errors
complete the line "KEY: …" and never quote a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from penstock import apis, formats
from penstock.config.errors import describe_unknown, quote_value
from penstock.errors import UsageError, suggest
from penstock.formats import reasoning
from penstock.models.http.endpoints import ENDPOINTS
from penstock.models.http.transport import TRANSPORT_HEADERS
from penstock.redaction import Secret, mask_url

SERVERLESS_APIS: Final = ("demo", "local")
"""APIs without a server: the scripted model, and a small model in the process."""

VARIABLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
"""Pattern of valid names of environment variables."""

MAX_NAME: Final = 256
"""The longest name of a model or a tool, in characters: model names may be file paths."""

# --- URLs ---


class SecretURL:
    """A URL whose `str` and `repr` hide the password; `reveal` returns it in full."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the URL with its password."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretURL) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return mask_url(self._text)

    def __repr__(self) -> str:
        return f"SecretURL({mask_url(self._text)!r})"

    # A pickle would be a copy of the password in plain text.
    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a SecretURL may contain a password and cannot be pickled")


def parse_host(url: str) -> str:
    """Return the host of *url*, or an empty string."""
    return urlsplit(url).hostname or ""


class Provider(Struct, frozen=True):
    """The API at a provider's host, and the environment variables that usually hold its key."""

    api: str
    key_names: tuple[str, ...]


PROVIDERS: Final[dict[str, Provider]] = {
    **{
        parse_host(endpoint.base_url): Provider(api, endpoint.key_names)
        for api, endpoint in ENDPOINTS.items()
        if api not in ("openai-responses", "ollama")  # the same host as chat; the local machine
    },
    "ollama.com": Provider("ollama", ENDPOINTS["ollama"].key_names),
    "api.deepseek.com": Provider("openai-chat", ("DEEPSEEK_API_KEY",)),
    "api.groq.com": Provider("openai-chat", ("GROQ_API_KEY",)),
    "api.mistral.ai": Provider("openai-chat", ("MISTRAL_API_KEY",)),
    "api.together.xyz": Provider("openai-chat", ("TOGETHER_API_KEY",)),
    "api.x.ai": Provider("openai-chat", ("XAI_API_KEY",)),
    "openrouter.ai": Provider("openai-chat", ("OPENROUTER_API_KEY",)),
}
"""Providers by host. The usual key of a provider is sent to this host only."""

_API_PATHS: Final = (
    ("/chat/completions", "openai-chat"),
    ("/openai", "openai-chat"),  # other providers' copy of that API, such as Gemini's
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
    ("/api/chat", "ollama"),
    ("/api/generate", "ollama"),
)


def guess_api(url: str) -> str:
    """Return the API that the path or else the host of *url* suggests."""
    path, host = urlsplit(url).path.rstrip("/"), parse_host(url)
    if host == "chat.qwen.ai":  # its path ends in /chat/completions, but it is another API
        return "qwen"
    found = next((api for ending, api in _API_PATHS if path.endswith(ending)), "")
    return found or (PROVIDERS[host].api if host in PROVIDERS else "openai-chat")


def key_names_for(url: str) -> tuple[str, ...]:
    """Return the variables that usually hold the key of the provider at *url*.

    The result is empty for plain HTTP, which does not prove who the server is.
    """
    provider = PROVIDERS.get(parse_host(url))
    return provider.key_names if provider and url.lower().startswith("https://") else ()


# --- strings ---


class EnvText(str):
    """A string from the environment or a flag: it may stand for a number, a switch or a list.

    *variable* is set where the string is the value of exactly one environment variable.
    """

    __slots__ = ("variable",)
    variable: str

    def __new__(cls, text: str, variable: str = "") -> Self:
        """Mark *text*."""
        made = super().__new__(cls, text)
        made.variable = variable
        return made


_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_DATABASES: Final = ("sqlite", "postgresql", "postgresql+psycopg")


class StringRule(Struct, frozen=True):
    """Checks a string, and returns its canonical form.

    *expected* names the type in messages and in the reference. A *secret* is never quoted.
    """

    expected: str
    convert: Callable[[str], str] = str
    pattern: str = ""
    secret: bool = False

    def parse(self, text: str) -> str:
        """Return *text* in its canonical form, or raise `ValueError`."""
        if self.pattern and not re.fullmatch(self.pattern, text):
            got = "" if self.secret else f", got {quote_value(text)}"
            raise ValueError(f"expected {self.expected}{got}")
        return self.convert(text)


def _parse_name(name: str) -> str:
    if not name.isprintable() or not name.strip() or len(name) > MAX_NAME:
        raise ValueError(f"invalid name: use at most {MAX_NAME} printable characters")
    return name


def _parse_model_name(name: str) -> str:
    if "*" in _parse_name(name)[:-1]:
        raise ValueError("invalid pattern: '*' is allowed only at the end of a name")
    return name


def _parse_listen_host(name: str) -> str:
    try:
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        if _HOST_NAME.fullmatch(name) and not name.replace(".", "").isdigit():
            return name
    raise ValueError(f"expected an IP address or a host name, got {quote_value(name)}")


def _parse_format(name: str) -> str:
    try:
        return formats.get(name).name
    except UsageError:
        hint = "run `penstock formats` to list them"
        raise ValueError(describe_unknown("format", name, formats.names(), hint)) from None


def parse_reasoning(name: str) -> str:
    """Check the name of a reasoning style."""
    known = (reasoning.NONE, *reasoning.STYLES)
    if name not in known:
        raise ValueError(describe_unknown("reasoning style", name, known))
    return name


def _parse_api(name: str) -> str:
    try:
        return name if name in SERVERLESS_APIS else apis.get(name).name
    except UsageError:
        known = (*apis.names(), *SERVERLESS_APIS)
        raise ValueError(describe_unknown("API", name, known)) from None


def parse_tool_mode(name: str) -> str:
    """Reject ``none`` with a hint; the other values are checked by their type."""
    if name == "none":
        raise ValueError(
            '"none" is not a value: to pass calls on as text, set `parse = false` (--no-parse)'
        )
    return name


def _parse_web_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unbalanced brackets, or an invalid port
        is_web = False
    if not is_web or not url.isprintable() or " " in url or "\\" in url:
        shown = quote_value(mask_url(url))
        hint = "" if "://" in url else "; is http:// missing?"
        raise ValueError(f"expected an http:// or https:// URL with a host, got {shown}{hint}")
    return url


def _parse_base_url(url: str) -> str:
    if "@" in urlsplit(_parse_web_url(url)).netloc:
        raise ValueError(
            f"passwords are not allowed in this URL ({mask_url(url)}): "
            "use key_env, key_file or headers"
        )
    return url


def parse_store_url(url: str) -> str:
    """Check the URL of a database; the path of a file means SQLite."""
    scheme, has_scheme, _ = url.partition("://")
    if has_scheme and scheme not in _DATABASES:
        hint = suggest(scheme, _DATABASES) or "; supported: sqlite, postgresql"
        raise ValueError(f"unsupported database {quote_value(mask_url(url))}{hint}")
    if url.lower() in ("off", "none", "no", "false"):
        raise ValueError("to disable the store, set `enabled = false` or use --no-store")
    if not url or not url.isprintable():
        raise ValueError("expected the URL of a database or the path of a SQLite file")
    return url if has_scheme else f"sqlite:///{url}"


def _parse_quota_url(url: str) -> str:
    schemes = ("redis", "rediss", "unix", "postgresql", "postgresql+psycopg")
    scheme, has_scheme, _ = url.partition("://")
    if url and (not has_scheme or scheme not in schemes or not url.isprintable()):
        raise ValueError("expected a URL that begins with redis://, rediss:// or postgresql://")
    return url


def _parse_header_name(name: str) -> str:
    if name.lower() in (*TRANSPORT_HEADERS, "content-type"):
        raise ValueError("this header is set by penstock and cannot be configured")
    return name.lower()


def _parse_path(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("expected the path of a file")
    return text


ENTRY_NAME: Final = StringRule(
    "a name of at most 64 letters, digits, '.', '_' and '-'",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",  # it appears in headers, metrics and the log
)
"""The rule for names of upstreams and keys."""

ApiName = Annotated[str, StringRule("the name of an API", _parse_api)]
DemoFormat = Annotated[
    str,  # "native" is `models.demo.NATIVE`, not imported: few processes load the demo model
    StringRule(
        "the name of a format", lambda name: name if name == "native" else _parse_format(name)
    ),
]
EntryName = Annotated[str, ENTRY_NAME]
FormatName = Annotated[str, StringRule("the name of a format", _parse_format)]
HeaderName = Annotated[
    str, StringRule("a valid header name", _parse_header_name, r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
]
Host = Annotated[str, StringRule("an IP address or a host name", _parse_listen_host)]
ModelName = Annotated[str, StringRule("a string", _parse_model_name)]
ReasoningName = Annotated[str, StringRule("the name of a reasoning style", parse_reasoning)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
ToolMode = Annotated[Literal["native", "prompt"], StringRule("", parse_tool_mode)]
ToolPattern = Annotated[str, StringRule("a string", _parse_name)]
Wait = Annotated[float, Meta(gt=0)]

# Secrets, and values in whose place users put a key or a password by mistake:
BaseURL = Annotated[SecretURL, StringRule("a URL", _parse_base_url, secret=True)]
FilePath = Annotated[Path, StringRule("the path of a file", _parse_path, secret=True)]
KeyHash = Annotated[
    str,
    StringRule(
        "'sha256:' and 64 hexadecimal digits, as printed by `penstock key new`",
        pattern="sha256:[0-9a-f]{64}",
        secret=True,
    ),
]
ProxyURL = Annotated[  # may contain a password; an empty one means no proxy
    SecretURL, StringRule("a URL", lambda url: url and _parse_web_url(url), secret=True)
]
SecretText = Annotated[Secret, StringRule("a string", secret=True)]
StoreURL = Annotated[SecretURL, StringRule("a URL", parse_store_url, secret=True)]
QuotaURL = Annotated[SecretURL, StringRule("a URL", _parse_quota_url, secret=True)]
Variable = Annotated[
    str,
    StringRule("the name of an environment variable", pattern=VARIABLE_NAME, secret=True),
]
