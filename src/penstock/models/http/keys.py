"""Keys: where they come from, and how they stay out of everything that people read.

A key is held in a `Key`, which shows itself to nobody by accident. What others say, such as the
body of a refusal that echoes the request, goes through a `Mask` before it becomes an error.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock import _json
from penstock.errors import UsageError

HIDDEN: Final = "***"
"""What stands in place of a secret."""

_HEAD: Final = 8
"""How many characters of a secret tell it: a page may be cut within it."""

_LEAST: Final = 4
"""How long a secret is at least; hiding every ``x`` in an error would help nobody."""

_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "token"})
"""Words before a key that are no secret themselves."""

_TELLING: Final = ("auth", "key", "token", "secret", "cookie", "password", "sig")


class Key:
    """A key that no repr, no log and no error shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        text = text.strip()  # Keys that were read from a file end in a newline.
        if not text.isprintable() or not text.isascii():
            raise UsageError("the key holds characters that no header may have")
        self._text = text

    def reveal(self) -> str:
        """Give the key itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Key({HIDDEN if self._text else ''})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a key is not written anywhere")


def find_key(given: str | None, names: Iterable[str], environ: Mapping[str, str]) -> Key:
    """Give the key that was *given*, else the first that *environ* has under one of *names*.

    An empty one that was given is none: then the environment is not asked.
    """
    if given is not None:
        return Key(given)
    return Key(next((environ[name] for name in names if environ.get(name)), ""))


class Mask:
    """Hides *secrets* in text, also where the text was cut within one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        whole = (secret.encode("utf-8", "replace").decode() for secret in secrets)
        known = {secret for secret in whole if len(secret) >= _LEAST}
        # As a URL has it, and as JSON has it: bodies are hidden before anyone reads them.
        known |= {quote(secret, safe="") for secret in known}
        known |= {_json.encode(secret).decode()[1:-1] for secret in known}
        self._secrets = sorted(known, key=len, reverse=True)
        self._heads = [secret[:_HEAD].encode() for secret in self._secrets]

    def with_secrets(self, secrets: Iterable[str]) -> Mask:
        """Give a mask that hides *secrets* too."""
        more = list(secrets)
        return Mask([*self._secrets, *more]) if more else self

    def __repr__(self) -> str:
        return f"Mask({len(self._secrets)} secrets)"

    def text(self, text: str) -> str:
        """Give *text* without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for secret in self._secrets:
            text = _hide_beginnings(text, secret)
        return text

    def body(self, body: bytes) -> bytes:
        """Give *body* without the secrets, before anyone cuts it to a length."""
        if not any(head in body for head in self._heads):
            return body
        text = body.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def find_beginning(self, text: str) -> int:
        """Find where a secret may begin at the end of *text*; its length where none does."""
        longest = max(map(len, self._secrets), default=1) - 1
        for at in range(max(0, len(text) - longest), len(text)):
            if any(secret.startswith(text[at:]) for secret in self._secrets):
                return at
        return len(text)


class Veil:
    """Hides what *mask* hides in text that comes in pieces: what may begin a secret waits."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = ""

    def add(self, text: str) -> str:
        """Take more text; give what can be shown by now."""
        text = self._held + text
        at = self._mask.find_beginning(text)
        self._held = text[at:]
        return self._mask.text(text[:at])

    def finish(self) -> str:
        """Give what waited."""
        held, self._held = self._held, ""
        return self._mask.text(held)


def _hide_beginnings(text: str, secret: str) -> str:
    head = secret[:_HEAD]
    at = text.find(head)
    parts: list[str] = []
    start = 0
    while at != -1:
        parts += [text[start:at], HIDDEN]
        start = at + _agreement(secret, text[at : at + len(secret)])
        at = text.find(head, start)
    return "".join([*parts, text[start:]]) if parts else text


def _agreement(one: str, other: str) -> int:
    """Count the characters that both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def secrets_in_headers(headers: Mapping[str, str]) -> list[str]:
    """Give what *headers* should tell nobody but the server: all of it, and its parts.

    A part is a word, or what a cookie holds, unless that is as short as a setting is.
    """
    telling = [str(value) for name, value in headers.items() if _is_telling(str(name))]
    words = [word for value in telling for word in value.replace(";", " ").split()]
    held = [word.partition("=")[2] for word in words]
    parts = [*words, *(value for value in held if len(value) >= _HEAD)]
    return [*telling, *(part for part in parts if part.lower() not in _SCHEMES)]


def secrets_in_url(url: str) -> list[str]:
    """Give the passwords in *url*, and the keys in its query."""
    parts = urlsplit(url)
    found = [value for name, value in parse_qsl(parts.query) if _is_telling(name)]
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        found += [parts.password, password, b64encode(f"{user}:{password}".encode()).decode()]
    return found


def _is_telling(name: str) -> bool:
    return any(word in name.lower() for word in _TELLING)
