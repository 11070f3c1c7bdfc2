"""From settings to what serves them: the models after the upstreams, the door, the store."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from penstock.errors import UsageError
from penstock.gateway.app import Gateway, Limits
from penstock.gateway.auth import Authenticator, Quota
from penstock.gateway.config.routes import options_for
from penstock.gateway.config.settings import (
    DemoSettings,
    KeySettings,
    LocalSettings,
    QwenSettings,
    Settings,
    UpstreamSettings,
)
from penstock.gateway.model_router import ModelRouter
from penstock.gateway.qwen_sessions import StoredSessions
from penstock.gateway.redaction import secrets_of
from penstock.models.base import Model
from penstock.store import Retention, Store

_HASH: Final = "sha256:"
_MINUTE: Final = 60.0


def build(settings: Settings) -> Gateway:
    """Make the gateway that *settings* describe; its store and its upstreams are not begun yet."""
    store = store_of(settings)
    return Gateway(
        directory_of(settings, store),
        Authenticator(
            allowances(settings.keys),
            host=settings.server.host,
            insecure=settings.server.insecure,
            workers=settings.server.workers,
        ),
        store,
        limits=limits_of(settings),
        secrets=secrets_of(settings),
        bodies=settings.store.bodies,
    )


def renew(gateway: Gateway, settings: Settings) -> None:
    """Let *gateway* serve *settings*; where it listens and logs to stays until the next start."""
    directory = directory_of(settings, gateway.store)
    keys, limits = allowances(settings.keys), limits_of(settings)
    gateway.renew(directory, keys, limits, secrets_of(settings))


def limits_of(settings: Settings) -> Limits:
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


def directory_of(settings: Settings, store: Store | None) -> ModelRouter:
    """Make the models of all upstreams."""
    models = {name: model_of(name, one, store) for name, one in settings.upstreams.items()}
    return ModelRouter(settings, models)


def model_of(name: str, settings: UpstreamSettings, store: Store | None) -> Model:
    """Make the model after the upstream *name*."""
    if settings.api == "qwen":
        return _qwen(settings, None if store is None else StoredSessions(store, name))
    if settings.api == "demo":
        return _demo(settings.demo or DemoSettings())
    if settings.api == "local":
        return _local(settings.local or LocalSettings())
    from penstock.models import HTTPModel  # noqa: PLC0415 - the demo does without a client

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
        arguments=options.arguments,
        trim=options.trim,
        repair=options.repair,
        quoted=options.quoted,
        quoted_tools=options.quoted_tools,
        fenced=options.fenced,
    )


def _demo(settings: DemoSettings) -> Model:
    from penstock.models import DemoModel  # noqa: PLC0415 - others do without the script

    return DemoModel(settings.format, pace=settings.pace)


def _local(settings: LocalSettings) -> Model:
    try:
        from penstock.models import LocalModel  # noqa: PLC0415 - it needs an extra
    except ImportError as exc:
        raise UsageError("the API `local` needs penstock[local]") from exc
    return LocalModel(path=settings.path, context=settings.context, threads=settings.threads)


def store_of(settings: Settings) -> Store | None:
    """Make the store, where one is wanted."""
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


def allowances(keys: Mapping[str, KeySettings]) -> dict[str, Quota]:
    """Return what each key may have."""
    return {
        name: Quota(
            bytes.fromhex(key.hash.removeprefix(_HASH)),
            key.models,
            key.concurrency or 0,
            float(key.rate or 0),
        )
        for name, key in keys.items()
    }
