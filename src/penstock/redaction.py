"""Secrets: where they come from, and how they are kept out of errors, logs, traces and reprs.

An API key is held in a `Secret`, which never shows itself by accident. Text from a server, such as
an error body that echoes the request, passes through a `Redactor` before it becomes an error.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import ErrorInfo

HIDDEN: Final = "***"
"""Replaces a secret."""

# How many characters identify a secret, so that one cut off at the end of a page is found.
_HEAD: Final = 8

MIN_LENGTH: Final = 4
"""The shortest secret that is redacted; replacing every ``x`` in an error would help no reader."""

MIN_LENGTH_IN_LOGS: Final = 12
"""The shortest secret that is redacted in logs: whole conversations are logged, and some servers
accept a word such as ``none`` as a key."""

# Authorization schemes, which precede a key and are not secret.
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "token"})

# Parts of header and query names whose values are secret.
_SECRET_NAMES: Final = ("auth", "key", "token", "secret", "cookie", "cred", "pass", "pwd", "sig")

_USER_INFO: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)
_SECRET_PARAMETER: Final = re.compile(
    rf"([?&;][^=&;]*(?:{'|'.join(_SECRET_NAMES)})[^=&;]*=)[^&;#]*", re.IGNORECASE
)


class Secret:
    """An API key that is not shown by repr, logs or errors and cannot be pickled.

    Raises `UsageError` for characters that an HTTP header cannot hold.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        text = text.strip()  # Keys that were read from a file end with a newline.
        if not text.isprintable() or not text.isascii():
            raise UsageError(
                "the API key contains characters that are not allowed in an HTTP header"
            )
        self._text = text

    def reveal(self) -> str:
        """Return the key."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN if self._text else ''})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret cannot be pickled")


def find_secret(given: str | None, names: Iterable[str], environ: Mapping[str, str]) -> Secret:
    """Return *given* as a secret, or else the first value that *environ* has for *names*.

    An empty *given* means no key: the environment is not read then.
    """
    if given is not None:
        return Secret(given)
    return Secret(next((environ[name] for name in names if environ.get(name)), ""))


class Redactor:
    """Replaces *secrets* of at least *min_length* characters in text, also where one is cut off."""

    def __init__(self, secrets: Iterable[str] = (), *, min_length: int = MIN_LENGTH) -> None:
        self._min_length = min_length
        whole = (secret.encode("utf-8", "replace").decode() for secret in secrets)
        known = {secret for secret in whole if len(secret) >= min_length}
        # Also in the URL-encoded and the JSON-encoded form: bodies are redacted before parsing.
        known |= {quote(secret, safe="") for secret in known}
        known |= {_json.encode(secret).decode()[1:-1] for secret in known}
        # The longest first: one secret may be a part of another.
        self._secrets = sorted(known, key=len, reverse=True)
        self._heads = [secret[:_HEAD].encode() for secret in self._secrets]
        self.overlap = max((len(secret.encode()) for secret in self._secrets), default=0)
        """How many bytes two consecutive parts of a body must share for any secret to be found."""

    def with_secrets(self, secrets: Iterable[str]) -> Redactor:
        """Return a redactor that replaces *secrets* too."""
        more = [secret for secret in secrets if len(secret) >= self._min_length]
        if all(secret in self._secrets for secret in more):
            return self
        return Redactor([*self._secrets, *more], min_length=self._min_length)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def text(self, text: str) -> str:
        """Return *text* with the secrets replaced."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for secret in self._secrets:
            text = _replace_beginnings(text, secret)
        return text

    def body(self, body: bytes) -> bytes:
        """Return *body* with the secrets replaced; call it before the body is truncated."""
        # Bodies are large and rarely contain a secret, so most are not decoded.
        if not any(head in body for head in self._heads):
            return body
        text = body.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def redact_error(self, error: ErrorInfo) -> None:
        """Replace the secrets in *error*: servers echo keys in their messages."""
        error.message, error.type = self.text(error.message), self.text(error.type)

    def find_beginning(self, text: str) -> int:
        """Return where a secret may begin at the end of *text*, or the length of *text*."""
        longest = max(map(len, self._secrets), default=1) - 1
        for at in range(max(0, len(text) - longest), len(text)):
            if any(secret.startswith(text[at:]) for secret in self._secrets):
                return at
        return len(text)


class StreamRedactor:
    """Applies *redactor* to text in chunks; a possible beginning of a secret is held back."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """Add *text* and return what is safe to show."""
        text = self._held + text
        at = self._redactor.find_beginning(text)
        self._held = text[at:]
        return self._redactor.text(text[:at])

    def finish(self) -> str:
        """Return the text that was held back."""
        held, self._held = self._held, ""
        return self._redactor.text(held)


def _replace_beginnings(text: str, secret: str) -> str:
    """Replace every prefix of *secret* in *text* that is at least `_HEAD` characters long."""
    head = secret[:_HEAD]
    at = text.find(head)
    parts: list[str] = []
    start = 0
    while at != -1:
        parts += [text[start:at], HIDDEN]
        pairs = zip(secret, text[at : at + len(secret)], strict=False)
        start = at + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        at = text.find(head, start)
    return "".join([*parts, text[start:]]) if parts else text


def find_header_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the secrets in *headers*: whole values, their words and the values of cookies.

    Cookie values shorter than `_HEAD` are settings rather than secrets.
    """
    secret = [str(value) for name, value in headers.items() if is_secret_name(str(name))]
    # Servers echo the key without its scheme, and one cookie of many.
    words = [word for value in secret for word in value.replace(";", " ").split()]
    held = [word.partition("=")[2] for word in words]
    parts = [*words, *(value for value in held if len(value) >= _HEAD)]
    return [*secret, *(part for part in parts if part.lower() not in _SCHEMES)]


def find_url_secrets(url: str) -> list[str]:
    """Return the password of *url* in every form it may be echoed in, and keys in its query."""
    parts = urlsplit(url)
    found = [value for name, value in parse_qsl(parts.query) if is_secret_name(name)]
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        # The last form is that of the header for basic authentication.
        found += [parts.password, password, b64encode(f"{user}:{password}".encode()).decode()]
    return found


def mask_url(url: str) -> str:
    """Return *url* with its credentials and secret query parameters hidden.

    A password may contain any character, also ``/`` and ``?``, which end the host for URL parsers.
    So everything before the last ``@`` is hidden: too much is better than too little.
    """
    masked = _USER_INFO.sub(lambda found: f"{found[1] or ''}{HIDDEN}@", url, count=1)
    return _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", masked)


def is_secret_name(name: str) -> bool:
    """Return whether a header or a query parameter called *name* holds a secret."""
    return any(word in name.lower() for word in _SECRET_NAMES)
