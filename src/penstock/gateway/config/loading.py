"""From a file, variables and flags to settings that can be used.

A flag counts before its variable, that before the file, and the file before the default. All
problems are told at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from penstock.gateway.config.addresses import Address, api_of
from penstock.gateway.config.agreement import check_agreement
from penstock.gateway.config.credentials import Credentials
from penstock.gateway.config.flags import CONFIG, given_values
from penstock.gateway.config.overlay import overlay
from penstock.gateway.config.problems import ConfigError, Place, Problems
from penstock.gateway.config.reading import Reader
from penstock.gateway.config.settings import Settings
from penstock.gateway.config.upstreams import UpstreamSettings
from penstock.gateway.config.variables import filled
from penstock.gateway.config.words import kind_of
from penstock.models.http.endpoints import ENDPOINTS, base_url_for

FILE_NAME: Final = "penstock.toml"
"""What the file is usually called."""

MAX_FILE: Final = 1_048_576
"""How many bytes a file of settings may have: some thousand upstreams."""


def find_file(environ: Mapping[str, str], folder: Path) -> Path | None:
    """Give the file that the environment names, else ``penstock.toml`` in *folder* if it is there.

    `load` itself looks in no folder: it is for a command to say which file it found.
    """
    if named := environ.get(CONFIG.variable, "").strip():
        return Path(named)
    usual = folder / FILE_NAME
    return usual if usual.is_file() else None


def load(path: Path | None, environ: Mapping[str, str], **flags: object) -> Settings:
    """Give the settings: those of the file at *path*, under variables, under *flags*.

    Without *path* the file is the one that ``--config`` or ``PENSTOCK_CONFIG`` names, and without
    any of them there is none. *flags* are those of `flags.FLAGS`, by their parameter; None is one
    that was not given.

    Raises `ConfigError` with every problem; a flag that nobody has is another `UsageError`.
    """
    problems = Problems()
    given = given_values(environ, flags, problems)
    if path is None and CONFIG in given:
        path = Path(str(given[CONFIG].value))
    tree = filled(_read_file(path) if path else {}, environ, problems, Place())
    overlay(tree, given, environ, problems)
    reader = Reader(problems, path.parent if path else Path())
    settings = reader.read(kind_of(Settings), tree, Place())
    settings = _settled(settings, environ, problems)
    check_agreement(settings, problems)
    problems.raise_any()
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ConfigError([f"{path}: a file of settings has at most {MAX_FILE:,} bytes"])
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as exc:
        raise ConfigError([f"{path}: {exc.strerror}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: byte {exc.start} is no UTF-8"]) from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError([f"{path}: {exc}"]) from exc
    except ValueError as exc:  # from `int`, which refuses thousands of digits
        raise ConfigError([f"{path}: a number in it is too long"]) from exc
    except RecursionError as exc:
        raise ConfigError([f"{path}: nested too deep"]) from exc


def _settled(settings: Settings, environ: Mapping[str, str], problems: Problems) -> Settings:
    """Fill in what stands elsewhere: the APIs that URLs tell, the URLs of APIs, all secrets."""
    credentials = Credentials(environ, problems)
    upstreams = {
        name: credentials.of_upstream(_found(upstream, environ), Place(("upstreams", name)))
        for name, upstream in settings.upstreams.items()
    }
    keys = {
        name: credentials.of_client(key, Place(("keys", name)))
        for name, key in settings.keys.items()
    }
    return structs.replace(settings, upstreams=upstreams, keys=keys)


def _found(upstream: UpstreamSettings, environ: Mapping[str, str]) -> UpstreamSettings:
    """Give *upstream* with both of its API and its URL, where one of them tells the other.

    The variables that other programs take a URL from count for nothing here: those who start Claude
    Code set ``ANTHROPIC_BASE_URL`` to this very gateway, which would then ask itself. Only that of
    Ollama says where the server is.
    """
    url = upstream.base_url.reveal()
    if url and not upstream.api:
        return structs.replace(upstream, api=api_of(url))
    if url or upstream.api not in ENDPOINTS:
        return upstream
    heard = environ if upstream.api == "ollama" else {}
    return structs.replace(upstream, base_url=Address(base_url_for(upstream.api, "", heard)))
