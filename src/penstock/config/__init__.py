"""The configuration of the gateway: ``penstock.toml``, environment variables and flags.

`settings` defines the settings and `types` their value types. `load` reads the file, applies
`flags`, converts the values (`convert`), adds the secrets and checks the result (`checks`); it
raises all problems in one `ConfigError` (`errors`). `routes` finds the upstream for a model, and
`reference` documents all settings.

A flag wins over its variable, a variable over the file, and the file over the default.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from penstock.config.checks import check_consistency, find_warnings
from penstock.config.convert import Converter
from penstock.config.errors import ConfigError, KeyPath, ProblemList, render_key
from penstock.config.flags import CONFIG, FLAGS, Flag, apply_flags, names_upstream
from penstock.config.reference import describe, flag_reference, reference
from penstock.config.routes import ModelOptions, find_route
from penstock.config.settings import (
    NO_KEY,
    KeySettings,
    QwenSettings,
    Settings,
    StoreSettings,
    UpstreamSettings,
)
from penstock.config.types import VARIABLE_NAME, EnvText, SecretURL, guess_api, key_names_for
from penstock.errors import UsageError
from penstock.models.http.endpoints import ENDPOINTS, base_url_for
from penstock.redaction import Secret

__all__ = [
    "FLAGS",
    "ConfigError",
    "Flag",
    "ModelOptions",
    "SecretURL",
    "Settings",
    "UpstreamSettings",
    "describe",
    "find_file",
    "find_route",
    "find_warnings",
    "flag_reference",
    "has_upstream",
    "hash_key",
    "load",
    "make_state_folder",
    "needs_restart",
    "new_key",
    "reference",
    "state_folder",
]


FILE_NAME: Final = "penstock.toml"
STORE: Final = "penstock.db"
"""The file of the database in `state_folder`."""

MAX_FILE: Final = 1_048_576
"""The largest configuration file, in bytes: enough for some thousand upstreams."""

MAX_DEPTH: Final = 16
"""The deepest nesting of a configuration file: the settings themselves need five levels."""

# The syntax of Docker Compose, with its default after ":-".
_REFERENCE: Final = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<inside>[^{}]*)(?P<closed>\}?)")


def find_file(environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the file that ``PENSTOCK_CONFIG`` names, else ``penstock.toml`` in *folder* if any."""
    if named := environ.get(CONFIG.variable, "").strip():
        return Path(named)
    usual = folder / FILE_NAME
    return usual if usual.is_file() else None


def load(path: Path | None, environ: Mapping[str, str], **flags: object) -> Settings:
    """Return the settings of the file at *path*, overridden by *environ* and *flags*.

    Without *path*, the file is the one in ``--config`` or ``PENSTOCK_CONFIG``, if any; no folder
    is searched. *flags* are the parameters of `FLAGS`; None means not given.

    Raises `ConfigError` with all problems, and another `UsageError` for an unknown flag.
    """
    problems = ProblemList()
    named = flags.get(CONFIG.parameter) or environ.get(CONFIG.variable, "").strip()
    if path is None and named:
        path = Path(str(named))
    tree = _interpolate(_read_file(path) if path else {}, environ, problems, ())
    apply_flags(tree, environ, flags, problems)
    converter = Converter(problems, path.parent if path else Path())
    settings: Settings = converter.convert(Settings, tree, ())
    resolver = SecretResolver(environ, problems)
    store = settings.store
    if not store.url:
        store = structs.replace(store, url=SecretURL(f"sqlite:///{state_folder(environ) / STORE}"))
    settings = structs.replace(
        settings,
        store=store,
        upstreams={
            name: resolver.resolve_upstream(_complete(one, environ), ("upstreams", name))
            for name, one in settings.upstreams.items()
        },
        keys={
            name: resolver.resolve_client_key(one, ("keys", name))
            for name, one in settings.keys.items()
        },
    )
    check_consistency(settings, problems)
    problems.raise_any()
    return settings


def has_upstream(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> bool:
    """Return whether the file at *path*, *environ* or *flags* configure an upstream.

    Raises `ConfigError` if the file cannot be read.
    """
    if names_upstream(environ, flags):
        return True
    tree = _read_file(path) if path else {}
    return bool(tree.get("upstreams"))


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for the database and for sessions: ``penstock`` in ``$XDG_STATE_HOME``.

    The XDG base directory specification requires relative paths to be ignored, and has
    ``~/.local/state`` as the default. Without a home directory it is the working directory.
    """
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "penstock"
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError:
        return Path.cwd()
    return home / ".local" / "state" / "penstock"


def make_state_folder(settings: Settings, environ: Mapping[str, str]) -> None:
    """Create the folder of the default database, if that is used; other folders must exist.

    Raises `ConfigError` if it cannot be created.
    """
    folder = state_folder(environ)
    # A folder that the user named and that is missing is a typing error more often than a wish.
    if not settings.store.enabled or settings.store.url.reveal() != f"sqlite:///{folder / STORE}":
        return
    try:
        # The database has requests and responses of all clients: only the user may read it.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        problem = f"{folder}: {exc.strerror}; choose another database with --store, or --no-store"
        raise ConfigError([problem]) from exc


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ConfigError([f"{path}: the file is larger than {MAX_FILE:,} bytes"])
        # Windows editors put a byte order mark at the start, which TOML does not allow.
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as exc:
        raise ConfigError([f"{path}: {exc.strerror}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: byte {exc.start} is not valid UTF-8"]) from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError([f"{path}: {exc}"]) from exc
    except ValueError as exc:  # from `int`, which rejects thousands of digits
        raise ConfigError([f"{path}: a number has too many digits"]) from exc
    except RecursionError as exc:
        raise ConfigError([f"{path}: nested too deeply"]) from exc


def _interpolate(
    tree: Any, environ: Mapping[str, str], problems: ProblemList, path: KeyPath
) -> Any:
    """Return *tree* with ``${NAME}`` and ``${NAME:-default}`` in its strings replaced.

    ``$${`` is a literal ``${``. Values of variables are not interpolated again.
    """
    if len(path) > MAX_DEPTH:
        problems.add(path[:3], "nested too deeply")
        return {}
    if isinstance(tree, dict):
        return {
            key: _interpolate(one, environ, problems, (*path, key)) for key, one in tree.items()
        }
    if isinstance(tree, list):
        return [_interpolate(one, environ, problems, (*path, str(i))) for i, one in enumerate(tree)]
    if not isinstance(tree, str) or "${" not in tree:
        return tree

    def replace(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        name, has_default, default = found["inside"].partition(":-")
        if not found["closed"] or not re.fullmatch(VARIABLE_NAME, name):
            message = "invalid reference: write ${NAME} or ${NAME:-default}, and $${ for ${ itself"
            problems.add(path, message)
        elif has_default:
            # As in a shell, ":-" also replaces an empty value.
            return environ.get(name) or default
        elif name not in environ:
            message = f"{describe_variable(name)} is not set; ${{NAME:-default}} gives a default"
            problems.add(path, message)
        return environ.get(name, "")

    whole = _REFERENCE.fullmatch(tree)
    variable = (whole["inside"] or "").partition(":-")[0] if whole else ""
    return EnvText(_REFERENCE.sub(replace, tree), variable)


def _complete(upstream: UpstreamSettings, environ: Mapping[str, str]) -> UpstreamSettings:
    """Return *upstream* with its API guessed from the URL, or with the usual URL of its API.

    ``OLLAMA_HOST`` counts, since it says where the server is. Other programs' variables do not:
    users of Claude Code set ``ANTHROPIC_BASE_URL`` to this gateway, which would call itself.
    """
    url = upstream.base_url.reveal()
    if url and not upstream.api:
        return structs.replace(upstream, api=guess_api(url))
    if url or upstream.api not in ENDPOINTS:
        return upstream
    url = base_url_for(upstream.api, "", environ if upstream.api == "ollama" else {})
    return structs.replace(upstream, base_url=SecretURL(url))


# --- reload ---

# Settings of sockets, processes and the database, which a reload does not replace.
#
# `insecure` is one of them, so that a reload never opens the gateway to other machines.
_NEED_RESTART: Final = {
    "server": (
        *("host", "port", "workers", "insecure", "tls_cert", "tls_key"),
        *("keepalive_seconds", "header_seconds", "log_format", "log_requests"),
    ),
    "limits": ("header_bytes",),
    "store": StoreSettings.__struct_fields__,
}


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """Return the settings that differ and take effect only after a restart."""
    return [
        render_key(section, name)
        for section, names in _NEED_RESTART.items()
        for name in names
        if getattr(getattr(old, section), name) != getattr(getattr(new, section), name)
    ]


def check_exposure(running: Settings, new: Settings) -> None:
    """Raise `ConfigError` if *new* would let other machines use the gateway without a key.

    The address in *running* counts, since the process still listens there, whatever address the
    file names now. `insecure` must have been set at startup too.
    """
    is_allowed = running.server.insecure and new.server.insecure
    if not (new.keys or running.server.is_local or is_allowed):
        problem = (
            f"keys: this process listens on {running.server.host}, which is reachable from other "
            "machines, and no key is left: keep one, or restart (also for `insecure = true`)"
        )
        raise ConfigError([problem])


# --- secrets ---
#
# The file contains the SHA-256 of a client's key, never the key. A fast hash without salt is
# enough: a key has 32 random bytes, so it cannot be found by trying.

MAX_SECRET: Final = 65_536
"""The largest file with a secret, in bytes: the cookies of an account have some thousands."""

_PREFIX: Final = "psk_"  # people and secret scanners recognise keys by it
_KEY_BYTES: Final = 32
_LEAST_LENGTH: Final = 16  # for keys that people choose: shorter ones can be found by trying
_USUAL_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


def new_key() -> str:
    """Return a new random key for a client."""
    return _PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str) -> str:
    """Return the hash of *key* for the file: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def describe_variable(name: str) -> str:
    """Return a variable's name for a message, unless it looks like a misplaced key."""
    return f"the environment variable {name}" if _USUAL_NAME.fullmatch(name) else "the variable"


class SecretResolver:
    """Reads secrets from *environ* and from files; missing ones are added to *problems*."""

    def __init__(self, environ: Mapping[str, str], problems: ProblemList) -> None:
        self._environ = environ
        self._problems = problems

    def resolve_upstream(self, upstream: UpstreamSettings, path: KeyPath) -> UpstreamSettings:
        """Return *upstream* with its secrets, or with its provider's usual key if it names none."""
        changes: dict[str, Any] = {"key": self._resolve(upstream, "key", path)}
        if upstream.qwen is not None:
            names = ("cookie", "umid_token")
            found = {name: self._resolve(upstream.qwen, name, (*path, "qwen")) for name in names}
            changes["qwen"] = structs.replace(upstream.qwen, **found)
        if not (upstream.key_env or upstream.key_file or upstream.key):
            for name in key_names_for(upstream.base_url.reveal()):
                if text := self._environ.get(name, "").strip():
                    key = self._make_key(text, (*path, "key"), label=name)
                    changes |= {"key": key, "key_env": name}
                    break
        return structs.replace(upstream, **changes)

    def resolve_client_key(self, key: KeySettings, path: KeyPath) -> KeySettings:
        """Return *key* with its hash."""
        if not key.env:
            return key
        text = self._read_variable(key.env, (*path, "env"))
        if text and len(text) < _LEAST_LENGTH:
            self._problems.add(
                (*path, "env"),
                f"the key in {describe_variable(key.env)} is too short: use at least "
                f"{_LEAST_LENGTH} characters, or run `penstock key new`",
            )
        return structs.replace(key, hash=hash_key(text))

    def _resolve(self, table: UpstreamSettings | QwenSettings, name: str, path: KeyPath) -> Secret:
        """Return the secret *name* of *table* from the table, a variable or a file."""
        given: Secret = getattr(table, name)
        variable: str = getattr(table, f"{name}_env")
        file: Path | None = getattr(table, f"{name}_file")
        if given or self._problems.affects((*path, name)):
            return given
        if variable:
            path = (*path, f"{name}_env")
            return self._make_key(self._read_variable(variable, path), path)
        if file is not None:
            path = (*path, f"{name}_file")
            return self._make_key(self._read_file(file, path), path)
        return given

    def _make_key(self, text: str, path: KeyPath, label: str = "") -> Secret:
        try:
            return Secret(text)
        except UsageError as exc:
            self._problems.add(path, str(exc), label)
            return NO_KEY

    def _read_variable(self, name: str, path: KeyPath) -> str:
        text = self._environ.get(name, "").strip()
        if not text:
            self._problems.add(path, f"{describe_variable(name)} is not set or empty")
        return text

    def _read_file(self, file: Path, path: KeyPath) -> str:
        # Messages omit the name of the file: users put the key itself there.
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_SECRET + 1)
            # Files with a secret usually end with a newline, which is not part of it.
            text = data.decode().strip()
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
            self._problems.add(path, f"cannot read the file in {file.parent}: {why}")
            return ""
        if len(data) > MAX_SECRET:
            self._problems.add(path, f"the file is larger than {MAX_SECRET:,} bytes")
            return ""
        if not text:
            self._problems.add(path, "the file is empty")
        return text
