"""Build the gateway from settings: the models of the upstreams, authentication and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from penstock.config.routes import options_for
from penstock.config.settings import (
    DemoSettings,
    KeySettings,
    LocalSettings,
    QwenSettings,
    Settings,
    UpstreamSettings,
)
from penstock.errors import UsageError
from penstock.gateway.app import Gateway, Limits
from penstock.gateway.auth import Authenticator, Quota
from penstock.gateway.model_router import ModelRouter
from penstock.gateway.quotas import Quotas, open_database
from penstock.gateway.qwen_sessions import StoredSessions
from penstock.gateway.request_lines import RequestLines
from penstock.models.base import Model
from penstock.redaction import MIN_LENGTH_IN_LOGS, Redactor
from penstock.store import Retention, Store

_HASH: Final = "sha256:"
_MINUTE: Final = 60.0


def build(
    settings: Settings, *, fetches: bool = False, served: Sequence[str] | None = None
) -> Gateway:
    """Return the gateway that *settings* describe; nothing is opened or connected yet.

    *served* are the models of the default upstream, if they are known. With *fetches*, they are
    requested when a client names a model.
    """
    store = make_store(settings)
    router = make_router(settings, store, fetches=fetches)
    if served is not None:
        router.served_models.set_names(served)
    gateway = Gateway(
        router,
        Authenticator(
            make_quotas(settings.keys),
            host=settings.server.host,
            insecure=settings.server.insecure,
            workers=settings.server.workers,
        ),
        store,
        limits=make_limits(settings),
        redactor=make_redactor(settings),
        bodies=settings.store.bodies,
        quotas=Quotas(open_database(settings.quotas.url.reveal())),
    )
    gateway.request_lines = RequestLines(has_all=settings.server.log_requests)
    return gateway


def renew(gateway: Gateway, settings: Settings) -> None:
    """Apply *settings* to *gateway*; addresses and the store change only at the next start."""
    router = make_router(settings, gateway.store, fetches=gateway.router.fetches)
    keys, limits = make_quotas(settings.keys), make_limits(settings)
    gateway.renew(router, keys, limits, make_redactor(settings))


def make_limits(settings: Settings) -> Limits:
    """Return the limits of requests."""
    limits = settings.limits
    return Limits(
        body_bytes=limits.body_bytes,
        body_seconds=settings.server.body_seconds,
        depth=limits.depth,
        tools=limits.tools,
        choices=limits.n,
        streams=limits.streams,
    )


def make_router(settings: Settings, store: Store | None, *, fetches: bool = False) -> ModelRouter:
    """Return the router to the models of all upstreams."""
    models = {name: make_model(name, one, store) for name, one in settings.upstreams.items()}
    return ModelRouter(settings, models, fetches=fetches)


def make_model(name: str, settings: UpstreamSettings, store: Store | None) -> Model:
    """Return the model of the upstream *name*."""
    if settings.api == "qwen":
        return _qwen(settings, None if store is None else StoredSessions(store, name))
    if settings.api == "demo":
        return _demo(settings.demo or DemoSettings())
    if settings.api == "local":
        return _local(settings.local or LocalSettings())
    from penstock.models import HTTPModel  # noqa: PLC0415 - the demo needs no HTTP client

    return HTTPModel(
        settings.api,
        settings.base_url.reveal(),
        api_key=settings.key.reveal(),
        headers=settings.revealed_headers(),
        timeouts=settings.timeouts.as_timeouts(),
        retry=settings.as_retry(),
        streaming=settings.streaming,
        proxy=None if settings.proxy is None else settings.proxy.reveal(),
        ca=settings.ca,
        interval=0.0,
    )


def _qwen(settings: UpstreamSettings, sessions: StoredSessions | None) -> Model:
    # Imported here because few deployments use Qwen's web interface.
    from penstock.models.qwen_web import QwenCredentials, QwenWebModel  # noqa: PLC0415

    own, options = settings.qwen or QwenSettings(), options_for(settings)
    return QwenWebModel(
        settings.base_url.reveal(),
        credentials=QwenCredentials(
            settings.key.reveal(), own.cookie.reveal(), own.umid_token.reveal()
        ),
        sessions=sessions,
        lifetime=own.session_minutes * _MINUTE,
        parent=own.parent,
        chat_mode=own.chat_mode,
        headers=settings.revealed_headers(),
        timeouts=settings.timeouts.as_timeouts(),
        retry=settings.as_retry(),
        proxy=None if settings.proxy is None else settings.proxy.reveal(),
        ca=settings.ca,
        interval=0.0,
        **options.parser_options(),
        **options.quote_options(),
    )


def _demo(settings: DemoSettings) -> Model:
    from penstock.models import DemoModel  # noqa: PLC0415 - few deployments use it

    return DemoModel(settings.format, pace=settings.pace)


def _local(settings: LocalSettings) -> Model:
    try:
        from penstock.models import LocalModel  # noqa: PLC0415 - it needs an extra
    except ImportError as exc:
        raise UsageError("the API `local` needs an extra: pip install 'penstock[local]'") from exc
    return LocalModel(path=settings.path, context=settings.context, threads=settings.threads)


def make_store(settings: Settings) -> Store | None:
    """Return the store; None if it is disabled."""
    store = settings.store
    if not store.enabled:
        return None
    return Store(
        store.url.reveal(),
        queue=store.queue,
        queue_bytes=store.queue_bytes,
        retention=Retention(None if store.keep_days == inf else store.keep_days, store.keep_bytes),
        bodies=store.bodies,
        create=store.create,
    )


def make_quotas(keys: Mapping[str, KeySettings]) -> dict[str, Quota]:
    """Return the quota of each key."""
    return {
        name: Quota(
            bytes.fromhex(key.hash.removeprefix(_HASH)),
            key.models,
            key.concurrency or 0,
            float(key.rate or 0),
        )
        for name, key in keys.items()
    }


def make_redactor(settings: Settings) -> Redactor:
    """Return the redactor of everything that is logged: people paste keys into prompts."""
    secrets = (secret for one in settings.upstreams.values() for secret in _find_secrets(one))
    return Redactor(secrets, min_length=MIN_LENGTH_IN_LOGS)


def _find_secrets(upstream: UpstreamSettings) -> Iterator[str]:
    yield upstream.key.reveal()
    yield from upstream.revealed_headers().values()
    if upstream.qwen is not None:
        yield upstream.qwen.cookie.reveal()
        yield upstream.qwen.umid_token.reveal()
