"""What must not be written down: the keys of upstreams, and the key that a client came with.

Requests are logged as they were sent, and people do put keys into prompts. What is known to be a
key is hidden before anything is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.gateway.config.settings import Settings, UpstreamSettings
from penstock.messages import ErrorInfo
from penstock.models.http.redaction import Redactor

LEAST: Final = 12
"""How long a secret is at least; a key like ``none`` is not one, and a word of the language too."""

_QUOTED: Final = 6  # how much longer a character may get in a URL, or in JSON


class LogRedactor:
    """Hides what it knows in bytes and text."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = sorted({secret for secret in known if len(secret) >= LEAST})
        self._mask = Redactor(self._known)
        self.overlap = max((len(secret) * _QUOTED for secret in self._known), default=0)
        """How many bytes two neighbouring pieces must share for no secret to hide between them."""

    def __repr__(self) -> str:
        return f"Secrets({len(self._known)})"

    def with_keys(self, keys: Iterable[bytes]) -> LogRedactor:
        """Return the same with the keys that a client came with."""
        texts = {key.decode("utf-8", "replace") for key in keys}
        fresh = {text for text in texts if len(text) >= LEAST} - set(self._known)
        return LogRedactor([*self._known, *fresh]) if fresh else self

    def body(self, data: bytes) -> bytes:
        """Return *data* with every secret hidden."""
        return self._mask.body(data) if self._known else data

    def hide_in(self, error: ErrorInfo) -> None:
        """Hide every secret in what *error* says."""
        error.message, error.type = self.text(error.message), self.text(error.type)

    def text(self, text: str) -> str:
        """Return *text* with every secret hidden."""
        return self._mask.text(text) if self._known else text


def secrets_of(settings: Settings) -> LogRedactor:
    """Return the secrets that *settings* hold."""
    return LogRedactor(
        secret for one in settings.upstreams.values() for secret in _of_upstream(one)
    )


def _of_upstream(upstream: UpstreamSettings) -> Iterator[str]:
    yield upstream.key.reveal()
    yield from upstream.revealed_headers().values()
    if upstream.qwen is not None:
        yield upstream.qwen.cookie.reveal()
        yield upstream.qwen.umid_token.reveal()
