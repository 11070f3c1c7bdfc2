"""The start of ``penstock serve``: find an upstream, ask for its models, print the banner, run.

This needs the extra ``server``, so `serve` imports it after it has checked for the extra.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from logging import getLogger
from pathlib import Path
from shlex import quote
from typing import Any, Final

from msgspec import Struct

from penstock.config import find_file, has_upstream, load, make_state_folder
from penstock.config.flags import CONFIG, UPSTREAM_URL
from penstock.config.settings import Settings, UpstreamSettings
from penstock.errors import UsageError, suggest
from penstock.gateway import process
from penstock.gateway.advice import LOCAL_SERVERS
from penstock.gateway.discovery import (
    FoundServer,
    UpstreamStatus,
    check_upstream,
    describe_number,
    find_servers,
)
from penstock.gateway.request_lines import configure_log

# The flags that are invalid without an upstream.
_NEED_UPSTREAM: Final = frozenset({"model", "map"})

_LOG: Final = getLogger("penstock.gateway")


def serve(flags: dict[str, Any]) -> None:
    """Serve with *flags* until a signal ends the process.

    Raises `UsageError` for an invalid configuration, and if several servers were found.
    """
    is_worker = process.is_worker()
    found = None if is_worker else discover(flags)
    settings = load_settings(flags)
    make_state_folder(settings, os.environ)
    status = UpstreamStatus() if is_worker else _check(settings)
    configure_log(settings.server, os.environ)
    process.block_signals()
    from penstock.gateway.server import run  # noqa: PLC0415 - slow; signals are blocked by now

    # Workers and reloads use the same file, and fail if it disappears.
    if path := _find_file(flags):
        os.environ[CONFIG.variable] = str(path)
    run(
        settings,
        lambda: load_settings(flags),
        lambda port: announce(Banner(settings, port, status, found)),
        status.models,
    )


def load_settings(flags: dict[str, Any]) -> Settings:
    """Load the settings from the file, the environment and *flags*."""
    return load(_find_file(flags), os.environ, **flags)


def _find_file(flags: dict[str, Any]) -> Path | None:
    named = flags.get("config")
    return Path(named) if named else find_file(os.environ, Path.cwd())


def discover(flags: dict[str, Any]) -> list[FoundServer] | None:
    """Look for servers on this machine if no upstream is configured, and use the only one.

    Return those that were found, or None without a search. Raises `UsageError` if there are
    several.
    """
    path = _find_file(flags)
    if has_upstream(path, os.environ, flags):
        return None
    # These flags need an upstream, which may be found here.
    others = {name: value for name, value in flags.items() if name not in _NEED_UPSTREAM}
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.removeprefix("PENSTOCK_").lower() not in _NEED_UPSTREAM
    }
    if not load(path, environ, **others).server.discover:
        return None
    found = asyncio.run(find_servers())
    if len(found) > 1:
        listed = "\n".join(f"  {one.description}\n    {one.command}" for one in found)
        raise UsageError(
            f"{len(found)} servers run on this machine. Choose one of them:\n{listed}\n"
            "or the scripted demo model:\n    penstock serve --api demo"
        )
    for one in found:
        os.environ[UPSTREAM_URL.variable] = one.url  # for workers and reloads too
    return found


def _check(settings: Settings) -> UpstreamStatus:
    upstream = settings.upstreams.get(settings.default_upstream)
    return UpstreamStatus() if upstream is None else asyncio.run(check_upstream(upstream))


def announce(banner: Banner) -> None:
    """Print the banner; a single line if the log is quiet or JSON."""
    server = banner.settings.server
    if server.log_format == "json":
        _LOG.info("penstock serves %s", banner.url)
    elif not server.log_requests:
        sys.stderr.write(f"penstock serves {banner.url}\n")
    else:
        sys.stderr.write(banner.text())
    sys.stderr.flush()


# --- the banner ---

MAX_SHOWN: Final = 12
"""How many models, or other names of models, are shown."""

UNKNOWN: Final = "MODEL"
"""The placeholder for the name of a model that is not known."""

# Addresses that mean all interfaces, and the loopback address to reach each of them.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here

_SQLITE: Final = "sqlite:///"
_DEMO: Final = "demo"
_WIDTH: Final = 13
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


class Banner(Struct, frozen=True):
    """The banner of a gateway with *settings* that listens on *port*.

    *status* is that of the default upstream. *found* are the servers that run on this machine, if
    they were looked for.
    """

    settings: Settings
    port: int
    status: UpstreamStatus
    found: list[FoundServer] | None = None

    @property
    def url(self) -> str:
        """A URL of the gateway; if it listens on all interfaces, that of this machine."""
        server = self.settings.server
        host = _LOOPBACK.get(server.host, server.host)
        scheme = "https" if server.tls_cert else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def upstream(self) -> UpstreamSettings | None:
        """The default upstream."""
        return self.settings.upstreams.get(self.settings.default_upstream)

    @property
    def model(self) -> str:
        """The name of a model that can be requested; a placeholder if none is known."""
        settings, upstream = self.settings, self.upstream
        if upstream is not None and upstream.api == _DEMO:
            return _DEMO
        own = upstream.model if upstream else ""
        named = [settings.default_model, own, *settings.models, *self.status.chat_models]
        return next((name for name in named if name and not name.endswith("*")), UNKNOWN)

    def text(self) -> str:
        """Return the banner."""
        parts = [
            ("upstream", self._describe_upstreams()),
            ("model", self._describe_model()),
            ("inspector", [f"{self.url}/"]),
            ("storage", [self._describe_storage()]),
        ]
        lines = [f"penstock serves {self.url}"]
        for title, described in parts:
            for number, line in enumerate(described):
                lines.append(f"  {'' if number else title:<{_WIDTH}}{line}")
        replaced = f" (replace {UNKNOWN} by the name of a model)" if self.model == UNKNOWN else ""
        lines += ["", f"Copy a line to try it{replaced}:"]
        lines += [f"  {title:<{_WIDTH}}{line}" for title, line in self.list_clients().items()]
        lines += ["", "Press Ctrl-C to stop."]
        return "\n".join(lines) + "\n"

    # --- what is served ---

    def _describe_upstreams(self) -> list[str]:
        settings, status, default = self.settings, self.status, self.upstream
        lines = [
            f"{name}: {_locate(one)}"
            for name, one in settings.upstreams.items()
            if one is not default
        ]
        if default is None:
            return lines or ["none"]
        where = _locate(default)
        if default.api == _DEMO:
            first = f"{where}, which is not a language model"
        elif status.problem:
            verb = "responds, but" if status.responds else "does not respond:"
            first = f"{where} {verb} {status.problem}"
        elif status.models is None:
            first = f"{where}"
        else:
            first = f"{where} responds: {describe_number(status.models)}"
        shown = [first]
        if status.problem:
            sent = "" if status.responds else "Requests are sent there all the same."
            shown.append(f"{status.advice} {sent}".strip())
        if default.api == _DEMO:
            shown += self._describe_search()
        elif self.found:
            name = self.found[0].program.name
            shown.append(f"Found on the port of {name}; --no-discover switches the search off.")
        return [*shown, *lines]

    def _describe_search(self) -> list[str]:
        use = "Use a server: penstock serve --upstream URL"
        if self.found is None:
            return [use]
        ports = ", ".join(f"{one.name} ({one.port})" for one in LOCAL_SERVERS)
        return [f"No server was found on this machine: {ports}.", use]

    def _describe_model(self) -> list[str]:
        settings, upstream, status = self.settings, self.upstream, self.status
        pairs = [(name, one.model) for name, one in settings.models.items() if one.model]
        maps = [f"{name} → {model}{self._describe_gap(name)}" for name, model in pairs[:MAX_SHOWN]]
        if len(pairs) > MAX_SHOWN:
            maps.append("…")
        if upstream is None:
            return maps or ["those in penstock.toml"]
        chat = status.chat_models
        shown = ", ".join([*chat[:MAX_SHOWN], *(["…"] if len(chat) > MAX_SHOWN else [])])
        if upstream.model:
            served = f"{upstream.model}, whatever name a client requests"
            if status.lacks(upstream.model):
                near = suggest(upstream.model, chat)
                return [f"{served}; the upstream does not list it, it has: {shown}{near}", *maps]
            return [served, *maps]
        if upstream.api == _DEMO:
            return ["the script, whatever name a client requests", *maps]
        if len(chat) == 1:
            return [f"{chat[0]}, also for names that the upstream does not have", *maps]
        if not chat and status.models is not None:
            advice = "pull or load a model there first"
            return [f"none: the upstream lists no models for chat; {advice}", *maps]
        first = "the one that a client requests"
        if not chat:
            return [first, *maps]
        choose = f"for other names: --model {quote(chat[0])}, or --map 'claude-*={chat[0]}'"
        return [f"{first}: {shown}", *(maps or [choose])]

    def _describe_gap(self, name: str) -> str:
        """Return a remark if the default upstream does not have the model that serves *name*."""
        route, default = self.settings.models[name], self.settings.default_upstream
        is_missing = route.upstream in ("", default) and self.status.lacks(route.model)
        if not is_missing:
            return ""
        return f", which the upstream does not list{suggest(route.model, self.status.chat_models)}"

    def _describe_storage(self) -> str:
        store = self.settings.store
        if not store.enabled:
            return "off: there is no log, and the inspector shows live streams only"
        place = str(store.url)
        if place.startswith(_SQLITE):
            place = _abbreviate(place.removeprefix(_SQLITE))
        if not store.bodies:
            return f"{place}: requests without their contents; --no-store switches it off"
        return f"{place}: prompts and responses; --no-store switches it off"

    # --- clients ---

    def list_clients(self) -> dict[str, str]:
        """Return a line to copy for each client: a command, or a line of Python."""
        url, model = self.url, self.model
        has_keys = bool(self.settings.keys)
        key = "$PENSTOCK_API_KEY" if has_keys else "none"
        named = quote(model)
        body = {
            "model": model,
            "stream": True,
            "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
            "tools": [_TOOL],
        }
        header = f' -H "authorization: Bearer {key}"' if has_keys else ""
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "baseURL": f"{url}/v1",
                "apiKey": "{env:PENSTOCK_API_KEY}" if has_keys else key,
            },
            "models": {model: {}},
        }
        opencode = {"model": f"penstock/{model}", "provider": {"penstock": provider}}
        codex = f'name="penstock",base_url="{url}/v1",wire_api="responses"'
        if has_keys:
            codex += ',env_key="PENSTOCK_API_KEY"'
        api_key = 'os.environ["PENSTOCK_API_KEY"]' if has_keys else f'"{key}"'
        imports = f"{'import os; ' if has_keys else ''}from openai import OpenAI"
        return {
            "curl": f"curl -N {url}/v1/chat/completions{header} -d {quote(_compact(body))}",
            "Claude Code": f"ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} "
            f"ANTHROPIC_MODEL={named} ANTHROPIC_DEFAULT_HAIKU_MODEL={named} claude",
            "Codex": f"codex -c model_provider=penstock -c "
            f"{quote(f'model_providers.penstock={{{codex}}}')} -m {named}",
            "opencode": f"OPENCODE_CONFIG_CONTENT={quote(_compact(opencode))} opencode",
            "OpenAI SDK": f'{imports}; client = OpenAI(base_url="{url}/v1", api_key={api_key})',
        }


def _locate(upstream: UpstreamSettings) -> str:
    if upstream.api == _DEMO:
        return "the scripted demo model"
    return f"{upstream.base_url} ({upstream.api})" if upstream.base_url else upstream.api


def _abbreviate(path: str) -> str:
    """Return *path* with ``~`` for the home directory."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return path


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
