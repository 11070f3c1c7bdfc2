"""Who may ask: keys, and how much of everything each key may have.

Of a key only the hash is known. What a client presents is hashed and compared with every known hash
in constant time, so neither the time it takes nor a copy of the configuration tells a key. Without
any key everybody may ask, which the configuration allows on this machine only.

A web page is not on this machine, though the browser that runs it is. So while there is not a key,
who asks must have meant this machine by name: a page elsewhere sends its own name as ``Origin``,
and one whose name was made to point here (DNS rebinding) sends that as ``Host``.

Several workers know nothing of each other, so each of them gives out its share of what a key may
have: together they keep to what is set, but for a share that is not a whole number. What that
costs: a client that keeps to one connection keeps to one worker, and has its share alone.
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

from penstock.gateway.config.routes import matches
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.models.http.endpoints import is_loopback

_MINUTE: Final = 60.0
_AUTHORITY: Final = re.compile(r"\[([^\[\]]+)\](?::\d*)?|([^\s:/?#@\[\]]+)(?::\d*)?")
BUSY: Final = 1.0
"""After how many seconds a client may come back that had too much at once."""


class Quota(Struct, frozen=True):
    """What one key may have: these models, so many answers at a time, so many requests a minute.

    No models are all models, and 0 is not a limit. *hash* is the SHA-256 of the key.
    """

    hash: bytes = b""
    models: tuple[str, ...] = ()
    concurrency: int = 0
    rate: float = 0.0


class Client:
    """A client that may ask, by the *name* of its key: for its share, where there are *workers*."""

    def __init__(self, name: str, allowance: Quota, now: float, workers: int = 1) -> None:
        self.name = name
        self.allowance = allowance
        self._workers = workers
        self._open = 0
        self._left = self._turns
        self._at = now

    def may_use(self, model: str) -> bool:
        """Return whether the key is good for *model*."""
        models = self.allowance.models
        return not models or any(matches(name, model) for name in models)

    @contextmanager
    def asking(self, now: float) -> Iterator[ConcurrencySlot]:
        """Count one request in, and out again; raise `HTTPError` for one too many.

        One that comes while too many are open takes none of the turns of its minute.
        """
        self._check_room(1, 0)
        self._take_turn(now)
        stay = ConcurrencySlot(self)
        self._open += 1
        try:
            yield stay
        finally:
            self._open -= stay.answers

    def widen(self, stay: ConcurrencySlot, answers: int) -> None:
        """Count all *answers* of a request in, once it is known how many it wants.

        Raises `HTTPError` where there is not a room for them.
        """
        self._check_room(answers, stay.answers)
        self._open += answers - stay.answers
        stay.answers = answers

    def _check_room(self, answers: int, counted: int) -> None:
        """See that a request may have *answers*, of which some are *counted* already.

        Who has nothing else open may have as many as the key allows, whatever the share.
        """
        limit = self.allowance.concurrency
        if not limit:
            return
        if answers > limit:
            raise HTTPError(
                400, f"this key may have {limit} answers at a time, not {answers} (`n`)"
            )
        others, share = self._open - counted, math.ceil(limit / self._workers)
        if others and others + answers > share:
            shared = f", {share} of one worker" if share < limit else ""
            message = f"this key may have {limit} answers at a time{shared}"
            raise HTTPError(429, message, retry_after=BUSY)

    def renew(self, allowance: Quota, now: float) -> None:
        """Allow something else from now on; what is open stays open, and counts."""
        is_new = allowance.rate != self.allowance.rate
        self.allowance = allowance
        if is_new:
            self._left, self._at = self._turns, now

    @property
    def _turns(self) -> float:
        """How many turns there can be at once: one at least, however many workers share them."""
        return max(1.0, self.allowance.rate / self._workers)

    def _take_turn(self, now: float) -> None:
        """Take one of the requests of this minute; they come back evenly."""
        share = self.allowance.rate / self._workers
        if not share:
            return
        self._left = min(self._turns, self._left + (now - self._at) * share / _MINUTE)
        self._at = now
        if self._left < 1:
            wait = (1 - self._left) * _MINUTE / share
            message = f"this key may ask {self.allowance.rate:g} times a minute"
            raise HTTPError(429, message, retry_after=wait)
        self._left -= 1


class ConcurrencySlot:
    """A request that is inside: its *guest*, and how many answers it counts for."""

    def __init__(self, guest: Client) -> None:
        self._guest = guest
        self.answers = 1

    def widen(self, answers: int) -> None:
        """Count for so many *answers*; raise `HTTPError` where there is not a room for them."""
        self._guest.widen(self, answers)


class Authenticator:
    """Lets clients in by their keys.

    Without any key it lets in whoever asks for this machine, or for the *host* that the gateway
    listens on, and no web page from elsewhere; with *insecure*, everybody. It is one of as many
    doors as there are *workers*.
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
        self._guests = {name: Client(name, one, clock(), workers) for name, one in keys.items()}
        self._everybody = Client("", Quota(), clock())

    @property
    def is_open(self) -> bool:
        """Whether everybody may ask."""
        return not self._guests

    def admit(self, caller: HTTPExchange) -> Client:
        """Return whose key *caller* presents; raise `HTTPError` for one that nobody has."""
        if not self._guests:
            self._check_names(caller)
            return self._everybody
        found = None
        for key in presented_keys(caller):
            presented = sha256(key).digest()
            for guest in self._guests.values():  # All of them: how long it takes tells nothing.
                if hmac.compare_digest(presented, guest.allowance.hash):
                    found = found or guest
        if found is None:
            raise HTTPError(401, "the key is missing, or nobody has it here")
        return found

    def _check_names(self, caller: HTTPExchange) -> None:
        """Raise `HTTPError` where *caller* asks for another machine, or is a page of one."""
        if self._is_insecure:
            return
        if not self._is_here(caller.header("host")):
            raise _foreign("`Host` names another machine")
        origin = caller.header("origin")
        if origin and not self._is_here(origin.partition("://")[2]):
            raise _foreign("`Origin` is a page from elsewhere")

    def _is_here(self, authority: str) -> bool:
        """Return whether *authority*, with whatever port, is this machine."""
        found = _AUTHORITY.fullmatch(authority.lower())
        name = (found[1] or found[2]) if found else ""
        return bool(name) and (name == self._host or is_loopback(name))

    def now(self) -> float:
        """Return the time by which turns are counted."""
        return self._clock()

    def renew(self, keys: Mapping[str, Quota]) -> None:
        """Take other keys from now on; who is inside stays."""
        now = self._clock()
        guests: dict[str, Client] = {}
        for name, one in keys.items():
            guests[name] = self._guests.get(name) or Client(name, one, now, self._workers)
            guests[name].renew(one, now)
        self._guests = guests


def _foreign(what: str) -> HTTPError:
    return HTTPError(
        403,
        f"{what}, and without a key only this machine is served: set one (`penstock key new`), "
        "or start with `--insecure`",
    )


def presented_keys(caller: HTTPExchange) -> list[bytes]:
    """Return the keys that *caller* presents, in all of the headers in which clients do.

    Some clients fill one of the headers with a word that is not a key.
    """
    authorization = caller.headers.get("authorization", b"").strip()
    scheme, _, bearer = authorization.partition(b" ")
    given = [bearer if scheme.lower() == b"bearer" else b""]
    given += [caller.headers.get(name, b"") for name in ("x-api-key", "api-key")]
    return [key.strip() for key in given if key.strip()]
