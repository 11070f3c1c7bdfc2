"""``penstock serve``: the gateway, until it is told to end.

The other commands stand on typer and rich. This one runs for months, and what only draws help pages
would take 10 MB all the while, so its command line is made by the standard library.
"""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from shlex import quote
from typing import Any, Final

from penstock.errors import UsageError
from penstock.gateway.config.errors import ConfigError
from penstock.gateway.config.flags import CONFIG, FLAGS
from penstock.gateway.config.load import find_file, load
from penstock.gateway.config.settings import Settings
from penstock.gateway.server import signals

USAGE: Final = 2
"""The exit code of a command that was asked for something that it cannot do."""

_HERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
"""The addresses that stand for all of a machine, and by which it reaches itself."""

_CALL: Final = (
    '{"model":"MODEL","stream":true,"messages":[{"role":"user","content":"What is the weather in '
    'Oslo?"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":'
    '{"type":"object","properties":{"city":{"type":"string"}}}}}]}'
)


def command(given: list[str]) -> None:
    """Serve models to clients of OpenAI Chat, OpenAI Responses and Anthropic Messages."""
    flags = vars(_parser().parse_args(given))
    try:
        _serve(flags)
    except UsageError as exc:
        problems = exc.problems if isinstance(exc, ConfigError) else [str(exc)]
        sys.stderr.writelines(f"penstock: {problem}\n" for problem in problems)
        sys.exit(USAGE)


def _serve(flags: dict[str, Any]) -> None:
    settings = settings_of(flags)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("penstock").setLevel(settings.server.log_level.upper())
    signals.hold()
    try:
        from penstock.gateway.server.run import run  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as exc:
        sys.exit(f"penstock: {exc.name} is missing; install penstock[server]")
    if path := _file_of(flags):  # It counts from now on, here and in workers: gone, it is missed.
        os.environ[CONFIG.variable] = str(path)
    run(settings, lambda: settings_of(flags), lambda port: _announce(settings, port))


def settings_of(flags: dict[str, Any]) -> Settings:
    """Read the settings: the file that is named or lies here, the environment, the flags."""
    return load(_file_of(flags), os.environ, **flags)


def _file_of(flags: dict[str, Any]) -> Path | None:
    named = flags.get("config")
    return Path(named) if named else find_file(os.environ, Path.cwd())


def _announce(settings: Settings, port: int) -> None:
    """Say where the gateway is and how to try it."""
    url = _url_of(settings, port)
    upstreams = ", ".join(f"{name} ({one.api})" for name, one in settings.upstreams.items())
    log = str(settings.store.url) if settings.store.enabled else "off"
    key = "$PENSTOCK_API_KEY" if settings.keys else "none"
    shown = f' -H "authorization: Bearer {key}"' if settings.keys else ""
    model = _model_of(settings)
    call = _CALL.replace("MODEL", model)
    claude = f"ANTHROPIC_API_KEY={key} ANTHROPIC_MODEL={quote(model)} claude"
    lines = (
        f"penstock serves {url} (upstreams: {upstreams}; log: {log})",
        f"  a streamed tool call   curl -N {url}/v1/chat/completions{shown} -d '{call}'",
        f"  Claude Code            ANTHROPIC_BASE_URL={url} {claude}",
        f"  OpenAI SDK             OpenAI(base_url='{url}/v1', api_key='{key}')",
        f"  opencode               a provider @ai-sdk/openai-compatible with baseURL {url}/v1",
    )
    sys.stderr.write("\n".join(lines) + "\n")


def _url_of(settings: Settings, port: int) -> str:
    """Return the URL to try: who listens on all addresses is also found on that of this machine."""
    host = _HERE.get(settings.server.host, settings.server.host)
    scheme = "https" if settings.server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _model_of(settings: Settings) -> str:
    """Name a model that can be asked for; the user knows which, where nobody here does."""
    upstream = settings.upstreams.get(settings.default_upstream)
    if upstream is not None and upstream.api == "demo":
        return "demo"
    named = [settings.default_model, *settings.models, upstream.model if upstream else ""]
    return next((name for name in named if name and not name.endswith("*")), "MODEL")


def _parser() -> ArgumentParser:
    """Make the command line out of the table of flags."""
    parser = ArgumentParser(
        "penstock serve",
        description=command.__doc__,
        epilog="Every flag has a variable: --port is PENSTOCK_PORT. "
        "PENSTOCK_API_KEY is the key of clients, PENSTOCK_UPSTREAM_KEY that of the upstream.",
    )
    for flag in FLAGS:
        if flag.is_switch:
            parser.add_argument(flag.name, action="store_true", help=flag.description)
        else:
            parser.add_argument(flag.name, metavar=flag.metavar, help=flag.description)
    return parser
