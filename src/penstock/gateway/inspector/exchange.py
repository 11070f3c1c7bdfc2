"""One exchange with the page: who asks, what with, and how the answer is made and sent.

What is heavy is done on threads (`heavy`), for as long as whoever asked is there; bodies have a
limit of their own, below that of the models' endpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from penstock.errors import UsageError
from penstock.gateway import http_exchange
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import ClientDisconnectedError, HTTPExchange
from penstock.gateway.inspector import heavy
from penstock.gateway.inspector.jobs import Job

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

MAX_BODY: Final = 4_000_000
"""How many bytes a page may send: the longest text of the playground, escaped or not, and tools."""

NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")

Asked = TypeVar("Asked")
workshop: Final = heavy.Workshop()
"""Where the work of all pages is done."""


def enter(gateway: Gateway, caller: HTTPExchange) -> str | None:
    """Let *caller* in, and give what it sees; whatever it is told is what it says it is."""
    caller.extra.append(_NO_SNIFFING)
    return gateway.scope_of(caller)


async def body_of(gateway: Gateway, caller: HTTPExchange) -> bytes:
    """Read what *caller* sends."""
    limits = gateway.limits
    return await caller.body(min(limits.body_bytes, MAX_BODY), limits.body_seconds)


def read_as(data: bytes, kind: type[Asked], depth: int) -> Asked:
    """Read a body; raise `HTTPError` for one that is no *kind*."""
    try:
        return msgspec.convert(http_exchange.read_object(data, depth), kind)
    except msgspec.ValidationError as exc:
        raise HTTPError(400, str(exc)) from None
    except UnicodeEncodeError:  # the name of a field, or a word of which there are a few
        raise HTTPError(400, "the body has a lone surrogate where none can be") from None


async def answer(
    gateway: Gateway, caller: HTTPExchange, whose: str | None, work: Callable[[], object]
) -> None:
    """Answer with what *work* gives, which is done and written as JSON on a thread."""
    data = await done(gateway, caller, whose, lambda: heavy.encode(work()))
    kind = (b"content-type", b"application/json")
    await caller.answer(200, data, kind, NO_STORE, is_json=False)


async def done(
    gateway: Gateway, caller: HTTPExchange, whose: str | None, work: Callable[[], Asked]
) -> Asked:
    """Do *work* for as long as *caller* is there and the gateway does not end."""
    job = workshop.take(Job(work, whose, lambda: gateway.is_draining))
    caller.watch(lambda: workshop.give_up(job, ClientDisconnectedError()))
    try:
        result: Asked = await workshop.result(job)
    except UsageError as exc:
        raise HTTPError(400, str(exc)) from None
    finally:
        caller.unwatch()
    return result
