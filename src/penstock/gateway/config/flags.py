"""The flags of ``penstock serve``, as a table: the command line and the reference both read it.

Each flag has a variable of the environment, and stands for one setting. Secrets have no flags,
since every process of the machine may read the command line of another: they have variables alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.gateway.config.problems import Place, Problems, suggestion
from penstock.gateway.config.reading import FALSE, TRUE, Given
from penstock.gateway.config.variables import EnvText

UPSTREAM: Final = "upstream"
"""The first step of a place in the upstream that the flags are about: the default one."""


class Flag(Struct, frozen=True):
    """One flag: the *place* of its setting, what stands for its value in help, what it says.

    A switch has no value: it *sets* one.
    """

    name: str
    place: tuple[str, ...]
    metavar: str
    description: str
    sets: bool | None = None

    @property
    def parameter(self) -> str:
        """What it is called in Python, as a keyword of `load`."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The variable of the environment that says the same."""
        return f"PENSTOCK_{self.parameter.upper()}"

    @property
    def is_switch(self) -> bool:
        """Whether it stands alone, without a value."""
        return self.sets is not None


CONFIG: Final = Flag("--config", (), "FILE", "The file with the settings.")

FLAGS: Final[tuple[Flag, ...]] = (
    CONFIG,
    Flag("--host", ("server", "host"), "ADDRESS", "The address to listen on."),
    Flag("--port", ("server", "port"), "NUMBER", "The port to listen on; 0 takes a free one."),
    Flag("--upstream", (UPSTREAM, "base_url"), "URL", "The server that answers."),
    Flag("--api", (UPSTREAM, "api"), "NAME", "What it speaks; left out, the URL tells."),
    Flag("--model", (UPSTREAM, "model"), "NAME", "The model to ask it for, whatever clients say."),
    Flag("--key-env", (UPSTREAM, "key_env"), "VARIABLE", "The variable that holds its key."),
    Flag("--proxy", (UPSTREAM, "proxy"), "URL", "The proxy before it."),
    Flag("--ca", (UPSTREAM, "ca"), "FILE", "The authorities that its certificate is by."),
    Flag("--format", (UPSTREAM, "format"), "NAME", "How the model writes calls as text."),
    Flag("--reasoning", (UPSTREAM, "reasoning"), "NAME", "How the model marks its thoughts."),
    Flag("--tools", (UPSTREAM, "tools"), "HOW", "How it is shown tools: native, prompt or none."),
    Flag("--arguments", (UPSTREAM, "arguments"), "HOW", "When calls go out: live or whole."),
    Flag("--store", ("store", "url"), "URL", "The database, or the path of a SQLite file."),
    Flag("--no-store", ("store", "enabled"), "", "Store nothing.", sets=False),
    Flag("--no-bodies", ("store", "bodies"), "", "Store no requests and answers.", sets=False),
    Flag("--workers", ("server", "workers"), "NUMBER", "How many processes serve."),
    Flag("--tls-cert", ("server", "tls_cert"), "FILE", "The certificate: turns TLS on."),
    Flag("--tls-key", ("server", "tls_key"), "FILE", "The private key of the certificate."),
    Flag("--insecure", ("server", "insecure"), "", "Serve everybody without a key.", sets=True),
    Flag("--drain-seconds", ("server", "drain_seconds"), "SECONDS", "How long a stop may take."),
    Flag("--log-level", ("server", "log_level"), "LEVEL", "How much is told on stderr."),
)
"""Every flag, in the order in which help shows them."""

CLIENT_KEY: Final = "PENSTOCK_API_KEY"
"""The variable with a key that clients have to come with."""

UPSTREAM_KEY: Final = "PENSTOCK_UPSTREAM_KEY"
"""The variable with the key for the default upstream."""

SECRETS: Final = {
    CLIENT_KEY: "A key that clients have to come with, 16 characters or more.",
    UPSTREAM_KEY: "The key for the upstream.",
}
"""The variables without a flag."""

VARIABLES: Final = frozenset(
    {
        *(flag.variable for flag in FLAGS),
        *SECRETS,
        *("PENSTOCK_DEBUG", "PENSTOCK_DEBUG_STYLE", "PENSTOCK_STREAM_PARSER"),
    }
)
"""All variables that penstock reads, here or elsewhere."""


def given_values(
    environ: Mapping[str, str], flags: Mapping[str, object], problems: Problems
) -> dict[Flag, Given]:
    """Give what flags and variables say; a flag wins over its variable, an empty one is not there.

    Raises `UsageError` for a flag that nobody has.
    """
    by_parameter = {flag.parameter: flag for flag in FLAGS}
    for name in flags:
        if name not in by_parameter:
            raise UsageError(f"there is no flag {name!r}{suggestion(name, by_parameter)}")
    found: dict[Flag, Given] = {}
    for flag in FLAGS:
        value, label = flags.get(flag.parameter), flag.name
        if value is None or value is False:
            value, label = environ.get(flag.variable, "").strip(), flag.variable
        if value != "":
            found |= _given(flag, value, label, problems)
    return found


def as_environ(flags: Mapping[str, object]) -> dict[str, str]:
    """Give *flags* as variables: for a process that is to be configured the same way."""
    by_parameter = {flag.parameter: flag.variable for flag in FLAGS}
    return {
        by_parameter[name]: str(value)
        for name, value in flags.items()
        if value is not None and value is not False
    }


def _given(flag: Flag, value: object, label: str, problems: Problems) -> dict[Flag, Given]:
    if not flag.is_switch:
        return {flag: Given(EnvText(str(value)), label)}
    said = str(value).lower()
    if said not in TRUE | FALSE:
        problems.add(Place(flag.place, label), f"true or false, not {said!r}")
    return {flag: Given(flag.sets, label)} if said in TRUE else {}
