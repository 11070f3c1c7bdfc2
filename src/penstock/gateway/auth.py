"""Authentication and quotas: which clients may send requests, and how many.

Only the hash of a key is known. A presented key is hashed and compared with every known hash in
constant time, so neither the response time nor a copy of the configuration discloses a key. Without
any keys everyone is accepted, which the configuration allows on this machine only.

A web page from elsewhere can send requests from a browser on this machine. So without keys the
request must name this machine: such a page sends its own address as ``Origin``, and a page whose
host name was pointed at this machine (DNS rebinding) sends that name as ``Host``.

Without a shared database (`quotas`), workers share no state, so each grants its share of a quota:
together they keep to the quota, except where a share is rounded up. The cost: a client that uses
one connection is served by one worker and gets only that worker's share.
"""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from msgspec import Struct

from penstock.config.routes import matches
from penstock.gateway.errors import RETRY_SOON, HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.models.http.endpoints import is_loopback
from penstock.redaction import Redactor

_MINUTE: Final = 60.0
_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_GEMINI_ACTIONS: Final = (":generateContent", ":streamGenerateContent", ":countTokens")
_AUTHORITY: Final = re.compile(r"\[([^\[\]]+)\](?::\d*)?|([^\s:/?#@\[\]]+)(?::\d*)?")


class Quota(Struct, frozen=True):
    """What one key allows: models, concurrent responses, and requests per minute.

    An empty *models* allows all, and 0 means no limit. *hash* is the SHA-256 of the key.
    """

    hash: bytes = b""
    models: tuple[str, ...] = ()
    concurrency: int = 0
    rate: float = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether requests have to be counted."""
        return bool(self.concurrency or self.rate)


class Client:
    """A client with the key *name*, and its use of the quota in one of *workers* processes."""

    def __init__(self, name: str, quota: Quota, now: float, workers: int = 1) -> None:
        self.name = name
        self.quota = quota
        self._workers = workers
        self._open = 0  # responses in progress
        self._tokens = self._bucket_size
        self._at = now

    def may_use(self, model: str) -> bool:
        """Return whether the key allows *model*."""
        models = self.quota.models
        return not models or any(matches(name, model) for name in models)

    def take(self, now: float) -> ConcurrencySlot:
        """Count one request until `release`; raise `HTTPError` if the quota is exceeded.

        A request that exceeds the concurrency does not count against the rate.
        """
        self._check_concurrency(1, 0)
        self._take_token(now)
        return self.open_slot()

    def open_slot(self) -> ConcurrencySlot:
        """Count one request that was granted elsewhere, until `release`."""
        self._open += 1
        return ConcurrencySlot(self)

    def release(self, slot: ConcurrencySlot) -> None:
        """Count the request of *slot* as ended."""
        self._open -= slot.responses

    @contextmanager
    def acquire(self, now: float) -> Iterator[ConcurrencySlot]:
        """Count one request while the context is open, as `take` does."""
        slot = self.take(now)
        try:
            yield slot
        finally:
            self.release(slot)

    def widen(self, slot: ConcurrencySlot, responses: int) -> None:
        """Count *slot* as *responses*; raise `HTTPError` if they exceed the quota."""
        self._check_concurrency(responses, slot.responses)
        self.count(slot, responses)

    def count(self, slot: ConcurrencySlot, responses: int) -> None:
        """Count *slot* as *responses*."""
        self._open += responses - slot.responses
        slot.responses = responses

    def renew(self, quota: Quota, now: float) -> None:
        """Apply another quota from now on; open responses continue and still count."""
        is_new = quota.rate != self.quota.rate
        self.quota = quota
        if is_new:
            self._tokens, self._at = self._bucket_size, now

    def _check_concurrency(self, responses: int, counted: int) -> None:
        """Raise `HTTPError` if *responses*, of which *counted* are already open, are too many.

        A client without other open responses may use the whole quota, whatever its share is.
        """
        limit = self.quota.concurrency
        if not limit:
            return
        if responses > limit:
            message = f"this key allows {limit} responses at a time, and `n` is {responses}"
            raise HTTPError(400, message)
        others, share = self._open - counted, math.ceil(limit / self._workers)
        if others and others + responses > share:
            per_worker = f", {share} of them per worker" if share < limit else ""
            message = f"this key allows {limit} responses at a time{per_worker}"
            raise HTTPError(429, message, retry_after=RETRY_SOON)

    @property
    def _bucket_size(self) -> float:
        """The size of the token bucket: at least one, however many workers share the rate."""
        return max(1.0, self.quota.rate / self._workers)

    def _take_token(self, now: float) -> None:
        """Take one of this minute's requests; the bucket refills evenly."""
        share = self.quota.rate / self._workers
        if not share:
            return
        # A token bucket: a client that was idle may send a minute's requests at once, and one that
        # is not is served at the rate.
        self._tokens = min(self._bucket_size, self._tokens + (now - self._at) * share / _MINUTE)
        self._at = now
        if self._tokens < 1:
            wait = (1 - self._tokens) * _MINUTE / share
            message = f"this key allows {self.quota.rate:g} requests per minute"
            raise HTTPError(429, message, retry_after=wait)
        self._tokens -= 1


class ConcurrencySlot:
    """A request in progress of *client*, and the number of responses that it counts for."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.responses = 1

    def widen(self, responses: int) -> None:
        """Count for *responses*; raise `HTTPError` if they exceed the quota."""
        self.client.widen(self, responses)


class Authenticator:
    """Authenticates clients by their *keys*, in one of *workers* processes.

    Without keys it accepts requests that name this machine or *host*, where the gateway listens,
    but not from web pages of other hosts; with *insecure*, every request.
    """

    def __init__(
        self,
        keys: Mapping[str, Quota],
        clock: Callable[[], float] = time.monotonic,
        *,
        host: str = "localhost",
        insecure: bool = False,
        workers: int = 1,
    ) -> None:
        self._clock = clock
        self._workers = workers
        self._host = host.lower()
        self._is_insecure = insecure
        self._clients = {name: Client(name, one, clock(), workers) for name, one in keys.items()}
        self._anonymous = Client("", Quota(), clock())

    @property
    def is_open(self) -> bool:
        """Whether no key is required."""
        return not self._clients

    def authenticate(self, exchange: HTTPExchange) -> Client:
        """Return the client whose key *exchange* presents; raise `HTTPError` for an invalid key."""
        if not self._clients:
            self._check_local(exchange)
            return self._anonymous
        found = None
        for key in presented_keys(exchange):
            presented = sha256(key).digest()
            for client in self._clients.values():  # All of them, so that the time is constant.
                if hmac.compare_digest(presented, client.quota.hash):
                    found = found or client
        if found is None:
            message = 'missing or invalid API key: send it as "Authorization: Bearer …" or'
            raise HTTPError(401, f'{message} "x-api-key"')
        return found

    def now(self) -> float:
        """Return the time by which rates are limited."""
        return self._clock()

    def renew(self, keys: Mapping[str, Quota]) -> None:
        """Accept other keys from now on; requests in progress continue."""
        now = self._clock()
        clients: dict[str, Client] = {}
        for name, quota in keys.items():
            clients[name] = self._clients.get(name) or Client(name, quota, now, self._workers)
            clients[name].renew(quota, now)
        self._clients = clients

    def _check_local(self, exchange: HTTPExchange) -> None:
        """Raise `HTTPError` unless the request names this machine, also as the origin of a page."""
        if self._is_insecure:
            return
        if not self._is_local(exchange.header("host")):
            raise _not_local("`Host` does not name this machine")
        # Browsers send `Origin` with every cross-origin POST and do not let pages change it.
        origin = exchange.header("origin")
        if origin and not self._is_local(origin.partition("://")[2]):
            raise _not_local("`Origin` does not name this machine")

    def _is_local(self, authority: str) -> bool:
        """Return whether *authority*, with any port, is this machine."""
        found = _AUTHORITY.fullmatch(authority.lower())
        name = (found[1] or found[2]) if found else ""
        return bool(name) and (name == self._host or is_loopback(name))


def _not_local(reason: str) -> HTTPError:
    return HTTPError(
        403,
        f"{reason}, and without a key only this machine is served: set a key (`penstock key new`), "
        "or start with `--insecure`",
    )


def presented_keys(exchange: HTTPExchange) -> list[bytes]:
    """Return the keys that a client presents, from every header that clients use for keys.

    Some clients fill one of the headers with a placeholder. Gemini's API takes a key in the URL
    too: it is accepted for its paths only, because URLs end up in the logs of proxies.
    """
    authorization = exchange.headers.get("authorization", b"").strip()
    # RFC 9110, section 11.1: the scheme is compared without case.
    scheme, _, bearer = authorization.partition(b" ")
    # `x-api-key` is Anthropic's header, `api-key` Azure's, `x-goog-api-key` Gemini's.
    given = [bearer if scheme.lower() == b"bearer" else b""]
    given += [exchange.headers.get(name, b"") for name in _KEY_HEADERS]
    if exchange.path.startswith("/v1beta/") or exchange.path.endswith(_GEMINI_ACTIONS):
        given.append(exchange.query.get("key", "").encode())
    return [key.strip() for key in given if key.strip()]


def with_presented_keys(redactor: Redactor, exchange: HTTPExchange) -> Redactor:
    """Return *redactor* extended by the keys that the client presents."""
    return redactor.with_secrets(key.decode("utf-8", "replace") for key in presented_keys(exchange))
