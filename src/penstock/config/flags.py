"""The flags of ``penstock serve`` and their environment variables, and how they override the file.

Secrets have variables but no flags: any process on the machine can read a command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.config.convert import SWITCH_WORDS
from penstock.config.errors import KeyPath, ProblemList
from penstock.config.types import EnvText
from penstock.errors import UsageError, suggest

UPSTREAM: Final = "upstream"
"""First part of the path of a flag for the default upstream."""

MODELS: Final = "models"
"""First part of the path of a flag for other names of models."""

DEFAULT_UPSTREAM: Final = "default"
"""Name of the upstream that ``--upstream`` adds."""

DEMO: Final = "demo"
"""Name of the upstream that is used if no other is configured."""


class Flag(Struct, frozen=True):
    """A flag for the setting at *path*. A switch takes no value: it *sets* one.

    *default* describes the default in words. A flag that *repeats* may be given several times.
    """

    name: str
    path: KeyPath
    metavar: str
    description: str
    default: str = ""
    sets: bool | None = None
    repeats: bool = False

    @property
    def parameter(self) -> str:
        """The keyword argument of `load`."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"PENSTOCK_{self.parameter.upper()}"

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.sets is not None


CONFIG: Final = Flag("--config", (), "FILE", "Configuration file.", "penstock.toml, if it exists")

UPSTREAM_URL: Final = Flag(
    "--upstream",
    (UPSTREAM, "base_url"),
    "URL",
    "Server to send requests to.",
    "the server that is found on this machine, else the scripted demo model",
)

FLAGS: Final[tuple[Flag, ...]] = (
    CONFIG,
    UPSTREAM_URL,
    Flag("--api", (UPSTREAM, "api"), "NAME", "API of the upstream.", "guessed from the URL"),
    Flag("--model", (UPSTREAM, "model"), "NAME", "Model to request, whatever the client names.",
         "the client's"),
    Flag("--map", (MODELS,), "PATTERN=MODEL", "Serve other names: --map 'claude-*=qwen3:8b'. "
         "May be given several times.", "none", repeats=True),
    Flag("--no-discover", ("server", "discover"), "", "Do not look for a server on this machine.",
         sets=False),
    Flag("--key-env", (UPSTREAM, "key_env"), "VARIABLE", "Variable with the upstream's key.",
         "the provider's usual one"),
    Flag("--format", (UPSTREAM, "format"), "NAME", "Format of calls in the model's text.", "auto"),
    Flag("--reasoning", (UPSTREAM, "reasoning"), "NAME", "How the model marks its reasoning.",
         "by the format"),
    Flag("--tools", (UPSTREAM, "tools"), "MODE", "Pass tools as native or prompt.", "native"),
    Flag("--no-parse", (UPSTREAM, "parse"), "", "Pass text through unparsed.", sets=False),
    Flag("--arguments", (UPSTREAM, "arguments"), "MODE", "Send calls live or whole.", "live"),
    Flag("--proxy", (UPSTREAM, "proxy"), "URL", "Proxy for the upstream.", "by HTTP_PROXY etc."),
    Flag("--ca", (UPSTREAM, "ca"), "FILE", "CA bundle to verify the upstream.", "the system's"),
    Flag("--host", ("server", "host"), "ADDRESS", "Address to listen on.", "127.0.0.1"),
    Flag("--port", ("server", "port"), "NUMBER", "Port to listen on; 0 is a free one.", "8787"),
    Flag("--store", ("store", "url"), "URL", "Database, or the path of a SQLite file.",
         "$XDG_STATE_HOME/penstock/penstock.db"),
    Flag("--no-store", ("store", "enabled"), "", "Store nothing.", sets=False),
    Flag("--no-bodies", ("store", "bodies"), "", "Store no requests and responses.", sets=False),
    Flag("--quotas", ("quotas", "url"), "URL", "Database in which gateways share limits of keys.",
         "none: each gateway applies them alone"),
    Flag("--workers", ("server", "workers"), "NUMBER", "Number of processes.", "1"),
    Flag("--tls-cert", ("server", "tls_cert"), "FILE", "Certificate chain (PEM); enables TLS."),
    Flag("--tls-key", ("server", "tls_key"), "FILE", "Private key (PEM) of the certificate.",
         "in the certificate's file"),
    Flag("--insecure", ("server", "insecure"), "", "Accept requests without a key.", sets=True),
    Flag("--drain-seconds", ("server", "drain_seconds"), "SECONDS",
         "Time for open streams to finish after a signal.", "30"),
    Flag("--quiet", ("server", "log_requests"), "", "Print no banner; log only failed requests.",
         sets=False),
    Flag("--log-format", ("server", "log_format"), "FORMAT", "Log as text or json.", "text"),
    Flag("--log-level", ("server", "log_level"), "LEVEL", "Lowest level of log messages.", "info"),
)  # fmt: skip
"""All flags, in the order of ``--help``."""

_UPSTREAM_PATHS: Final = ((UPSTREAM, "base_url"), (UPSTREAM, "api"))
_MODEL_PATHS: Final[frozenset[KeyPath]] = frozenset({(UPSTREAM, "model"), (MODELS,)})
_NO_SERVER: Final = (
    "there is no server to request it from: pass --upstream URL, or --api demo for the scripted "
    "demo model"
)

CLIENT_KEY: Final = "PENSTOCK_API_KEY"
UPSTREAM_KEY: Final = "PENSTOCK_UPSTREAM_KEY"
SECRETS: Final = {
    CLIENT_KEY: "A key that clients must send, at least 16 characters.",
    UPSTREAM_KEY: "The key of the default upstream.",
}
"""The variables without a flag."""

VARIABLES: Final = frozenset(
    {
        *(flag.variable for flag in FLAGS),
        *SECRETS,
        *("PENSTOCK_DEBUG", "PENSTOCK_DEBUG_STYLE", "PENSTOCK_STREAM_PARSER"),
    }
)
"""All variables of penstock, including those that other packages read."""


def apply_flags(
    tree: dict[str, Any],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    problems: ProblemList,
) -> None:
    """Override *tree*, the content of the file, by environment variables and *flags*.

    A flag wins over its variable; an empty variable counts as not set. Raises `UsageError` for an
    unknown flag.
    """
    given = _read_flags(environ, flags, problems)
    upstreams = _subtable(tree, "upstreams")
    if not upstreams and not names_upstream(environ, flags):
        # The scripted model would respond under any name, as if it were the wanted one.
        for needed in _MODEL_PATHS & given.keys():
            problems.add(needed, _NO_SERVER, given[needed][1])
    name = _choose_upstream(tree, upstreams, given)
    if (MODELS,) in given:
        _add_models(tree, *given.pop((MODELS,)), problems)
    for path, (value, label) in given.items():
        section, key = path
        if section != UPSTREAM:
            problems.labels[path] = label
            _subtable(tree, section)[key] = value
        elif name in upstreams:
            problems.labels["upstreams", name, key] = label
            _subtable(upstreams, name)[key] = value
        elif not name:
            message = "ambiguous with several upstreams: set default_upstream in the file"
            problems.add(path, message, label)
    if environ.get(CLIENT_KEY):
        problems.labels["keys", "environment", "env"] = CLIENT_KEY
        _subtable(tree, "keys")["environment"] = {"env": CLIENT_KEY}


def names_upstream(environ: Mapping[str, str], flags: Mapping[str, object]) -> bool:
    """Return whether *environ* or *flags* name the URL or the API of an upstream."""
    named = (flag for flag in FLAGS if flag.path in _UPSTREAM_PATHS)
    return any(flags.get(one.parameter) or environ.get(one.variable, "").strip() for one in named)


def _add_models(tree: dict[str, Any], value: object, label: str, problems: ProblemList) -> None:
    """Add an entry to ``models`` for each ``PATTERN=MODEL``."""
    pairs = value if isinstance(value, list) else str(value).split(",")
    models = _subtable(tree, MODELS)
    for pair in pairs:
        name, has_model, model = (part.strip() for part in str(pair).partition("="))
        if not (name and has_model and model):
            message = f"expected PATTERN=MODEL, such as 'claude-*=qwen3:8b', got {pair!r}"
            problems.add((MODELS,), message, label)
            continue
        problems.labels[MODELS, name] = problems.labels[MODELS, name, "model"] = label
        models[name] = {"model": model}


def _read_flags(
    environ: Mapping[str, str], flags: Mapping[str, object], problems: ProblemList
) -> dict[KeyPath, tuple[object, str]]:
    """Return the value for each path, with the flag or the variable that it comes from."""
    _check_names(flags)
    given: dict[KeyPath, tuple[object, str]] = {}
    for flag in FLAGS[1:]:
        value, label = flags.get(flag.parameter), flag.name
        # argparse and typer give these for a flag that was not passed.
        if value is None or value is False or value == []:
            value, label = environ.get(flag.variable, "").strip(), flag.variable
        if value == "":
            continue
        if flag.repeats:
            given[flag.path] = value, label
        elif not flag.is_switch:
            given[flag.path] = EnvText(str(value)), label
        elif (is_on := SWITCH_WORDS.get(str(value).lower())) is None:
            problems.add(flag.path, f"expected true or false, got {value!r}", label)
        elif is_on:
            given[flag.path] = flag.sets, label
    if environ.get(UPSTREAM_KEY):
        # The name of the variable is stored, not its value: a dump of the settings shows no key.
        given.setdefault((UPSTREAM, "key_env"), (UPSTREAM_KEY, UPSTREAM_KEY))
    return given


def _check_names(flags: Mapping[str, object]) -> None:
    parameters = {flag.parameter for flag in FLAGS}
    for name in flags:
        if name not in parameters:
            raise UsageError(f"unknown flag {name!r}{suggest(name, parameters)}")


def _choose_upstream(
    tree: dict[str, Any], upstreams: dict[str, Any], given: dict[KeyPath, tuple[object, str]]
) -> str:
    """Return the upstream that flags are for, or an empty string if that is ambiguous.

    A URL on the command line adds a new upstream, which takes nothing from the file: no key may be
    sent to a server that it was not meant for.
    """
    if (UPSTREAM, "base_url") in given or ((UPSTREAM, "api") in given and not upstreams):
        upstreams[DEFAULT_UPSTREAM] = {}
        tree["default_upstream"] = DEFAULT_UPSTREAM
    elif not upstreams:
        upstreams[DEMO] = {"api": DEMO}
        given.pop((UPSTREAM, "key_env"), None)  # the scripted model needs no key
        tree.setdefault("default_upstream", DEMO)
        return DEMO
    tree.setdefault("default_upstream", next(iter(upstreams)) if len(upstreams) == 1 else "")
    name = str(tree["default_upstream"])  # the converter reports any other type
    if (UPSTREAM, "key_env") in given and isinstance(upstreams.get(name), dict):
        for key in ("key", "key_file"):  # the variable replaces them
            upstreams[name].pop(key, None)
    return name


def _subtable(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table *name* of *tree*; a new one if the file has another value there."""
    table = tree.setdefault(name, {})
    return table if isinstance(table, dict) else {}
