"""Checks that combine several settings: errors that `load` raises, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from penstock.config.errors import KeyPath, ProblemList, describe_unknown, render_key
from penstock.config.flags import VARIABLES
from penstock.config.routes import find_route, matches
from penstock.config.settings import OptionSettings, ServerSettings, Settings, UpstreamSettings
from penstock.config.types import SERVERLESS_APIS, key_names_for, parse_host
from penstock.errors import suggest
from penstock.models.http.endpoints import is_loopback

Found = Iterator[tuple[KeyPath, str]]

# --- errors ---


def check_consistency(settings: Settings, problems: ProblemList) -> None:
    """Add to *problems* the settings that contradict each other or name something unknown.

    Settings that already have a problem are skipped.
    """
    for check in (_check_server, _check_keys, _check_upstreams, _check_names):
        for path, message in check(settings, problems):
            problems.add(path, message)


def _check_server(settings: Settings, problems: ProblemList) -> Found:
    server = settings.server
    is_open = not (settings.keys or server.is_local or server.insecure)
    if is_open and not problems.affects(("keys",)) and not problems.affects(("server",)):
        message = (
            f"{server.host} is reachable from other machines and no key is configured: add one "
            "(`penstock key new`, or PENSTOCK_API_KEY), or start with `--insecure`"
        )
        yield ("server", "host"), message
    if server.tls_key is not None and server.tls_cert is None:
        yield ("server", "tls_key"), "missing certificate: set tls_cert too"
    yield from _check_file(server.tls_cert, ("server", "tls_cert"))
    yield from _check_file(server.tls_key, ("server", "tls_key"))


def _check_keys(settings: Settings, problems: ProblemList) -> Found:
    owners: dict[str, str] = {}
    for name, key in settings.keys.items():
        if problems.affects(("keys", name)):
            continue
        if not key.hash:
            yield ("keys", name), "missing hash or env: run `penstock key new` to create a key"
        elif key.hash in owners:
            yield ("keys", name), f"duplicate key: the same as {owners[key.hash]}"
        owners.setdefault(key.hash, render_key("keys", name))


def _check_upstreams(settings: Settings, problems: ProblemList) -> Found:
    for name, upstream in settings.upstreams.items():
        path, api = ("upstreams", name), upstream.api
        if problems.affects(path):
            continue
        if not api:
            yield path, "missing base_url or api"
        if api in SERVERLESS_APIS and upstream.base_url:
            yield (*path, "base_url"), f"the API {api!r} has no server: remove base_url"
        tables = {"qwen": upstream.qwen, "demo": upstream.demo, "local": upstream.local}
        for other in (each for each, table in tables.items() if table is not None and each != api):
            message = f"only for the API {other!r}, but the API of this upstream is {api!r}"
            yield (*path, other), message
        yield from _check_file(upstream.ca, (*path, "ca"))
        yield from _check_options(upstream, path)


def _check_names(settings: Settings, problems: ProblemList) -> Found:
    known, default = settings.upstreams, settings.default_upstream
    used = {("models", name, "upstream"): model.upstream for name, model in settings.models.items()}
    for path, name in ({("default_upstream",): default} | used).items():
        if name and name not in known and not problems.affects(("upstreams", name)):
            yield path, describe_unknown("upstream", name, known)
    for name, model in settings.models.items():
        yield from _check_options(model, ("models", name))
        if not (model.upstream or default or problems.affects(("default_upstream",))):
            yield ("models", name), "missing upstream: set it here, or set default_upstream"
    name = settings.default_model
    is_settled = not any(problems.affects((key,)) for key in ("default_upstream", "upstreams"))
    if name and is_settled and find_route(settings, name) is None:
        yield ("default_model",), describe_unknown("model", name, settings.models)


def _check_options(options: OptionSettings, path: KeyPath) -> Found:
    if options.parse is False and options.tools == "prompt":
        yield (*path, "parse"), 'cannot be false with tools = "prompt": calls are parsed from text'


def _check_file(file: Path | None, path: KeyPath) -> Found:
    if file is not None and not file.is_file():
        yield path, f"file not found: {file}"


# --- warnings ---


def find_warnings(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each valid setting that may not be intended, with its path.

    With *environ*, also for each variable that looks like one of penstock's and is not.
    """
    return [
        *_warn_of_settings(settings),
        *(
            f"{name}: unknown environment variable{suggest(name, VARIABLES)}"
            for name in sorted(environ or {})
            if name.startswith("PENSTOCK_") and name not in VARIABLES
        ),
    ]


def _warn_of_settings(settings: Settings) -> Iterator[str]:
    server, models = settings.server, settings.models
    if not server.is_local and not settings.keys:
        yield "server.insecure: everyone who can reach this machine can use the upstreams"
    if not server.is_local and server.tls_cert is None:
        yield "server.host: without tls_cert, keys and responses are sent unencrypted"
    if not settings.store.enabled:
        yield "store.enabled: without a store, there is no log and no previous_response_id"
    for name, key in settings.keys.items():
        for model in () if settings.default_upstream else key.models:
            if not any(matches(model, one) or matches(one, model) for one in models):
                path = render_key("keys", name, "models")
                yield f"{path}: unknown model {model!r}{suggest(model, models)}"
    for name, upstream in settings.upstreams.items():
        for warning in _warn_of_upstream(upstream, server):
            yield render_key("upstreams", name) + warning
    if not settings.default_upstream:
        yield "default_upstream: not set, so only models with an entry can be used"


def _warn_of_upstream(upstream: UpstreamSettings, server: ServerSettings) -> Iterator[str]:
    """Yield warnings, each with the end of its path."""
    url = upstream.base_url.reveal()
    host, names = parse_host(url), key_names_for(url)
    if upstream.key and not (upstream.key_env or upstream.key_file):
        yield ".key: the key is in the file; prefer key_env or key_file"
    if names and not upstream.key:
        yield f": {host} requires a key: set {' or '.join(names)}, key_env or key_file"
    if url.lower().startswith("http://") and not is_loopback(host):
        if upstream.key or upstream.headers:
            yield ".base_url: the key is sent unencrypted over http://"
    elif is_loopback(host) and server.port and urlsplit(url).port == server.port:
        # It would send requests to itself until it has no sockets left.
        yield ".base_url: this looks like the address of the gateway itself"
