"""What works but may not be meant: warnings about settings that have no error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from penstock.gateway.config.addresses import host_of, usual_key_names
from penstock.gateway.config.flags import VARIABLES
from penstock.gateway.config.problems import Place, suggestion
from penstock.gateway.config.routes import is_match
from penstock.gateway.config.settings import ServerSettings, Settings
from penstock.gateway.config.upstreams import UpstreamSettings
from penstock.models.http.endpoints import is_loopback


def check(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """Give a warning for each thing in *settings* that may not be meant, with its place.

    With *environ* also for each of its variables that looks like penstock's and is not.
    """
    return [
        *_of_server(settings),
        *_of_store(settings),
        *_of_keys(settings),
        *(
            f"{Place(('upstreams', name))}{warning}"
            for name, upstream in settings.upstreams.items()
            for warning in (*_of_upstream(upstream), *_of_itself(upstream, settings.server))
        ),
        *_of_names(settings),
        *_of_environ(environ or {}),
    ]


def _of_server(settings: Settings) -> Iterator[str]:
    server = settings.server
    if server.is_local:
        return
    if not settings.keys:
        yield "server.insecure: everybody who reaches this machine can use the upstreams"
    if server.tls_cert is None:
        yield "server.host: without tls_cert, keys and answers travel in the clear"


def _of_store(settings: Settings) -> Iterator[str]:
    if not settings.store.enabled:
        yield "store.enabled: without a store there is no log, and no previous_response_id"


def _of_keys(settings: Settings) -> Iterator[str]:
    if settings.default_upstream:  # which answers for any name
        return
    for name, key in settings.keys.items():
        for model in key.models:
            if not any(is_match(model, one) or is_match(one, model) for one in settings.models):
                near = suggestion(model, settings.models)
                yield f"{Place(('keys', name, 'models'))}: there is no model {model!r}{near}"


def _of_upstream(upstream: UpstreamSettings) -> Iterator[str]:
    """Give warnings, each with the end of its place."""
    url = upstream.base_url.reveal()
    names = usual_key_names(url)
    if upstream.key and not (upstream.key_env or upstream.key_file):
        yield ".key: the key is written in the file; key_env or key_file keep it out"
    if names and not upstream.key:
        yield f": {host_of(url)} wants a key: set {' or '.join(names)}, or key_env or key_file"
    is_plain = url.lower().startswith("http://") and not is_loopback(host_of(url))
    if is_plain and (upstream.key or upstream.headers):
        yield ".base_url: over http:// the key travels in the clear"


def _of_itself(upstream: UpstreamSettings, server: ServerSettings) -> Iterator[str]:
    """Warn of an upstream that is the gateway, which would ask itself until it has no sockets."""
    url = urlsplit(upstream.base_url.reveal())
    is_here = is_loopback(url.hostname or "") and server.port and url.port == server.port
    if is_here:
        yield ".base_url: this looks like the gateway's own address"


def _of_names(settings: Settings) -> Iterator[str]:
    if not settings.default_upstream:
        yield "default_upstream: there is none, so models without an entry are refused"


def _of_environ(environ: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(environ):
        if name.startswith("PENSTOCK_") and name not in VARIABLES:
            yield f"{name}: penstock reads no such variable{suggestion(name, VARIABLES)}"
