"""The whole of ``penstock.toml``, as one value: every field with its meaning and its default.

The meaning of a field is written here and nowhere else: the reference page, the command line and
the messages of the reader are made from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from penstock.gateway.config import describing, routes, rules
from penstock.gateway.config.addresses import Address
from penstock.gateway.config.upstreams import ModelSettings, UpstreamSettings, Variable
from penstock.models.http.endpoints import is_loopback

EntryName = Annotated[str, Meta(extra={"rule": rules.entry_name})]
Host = Annotated[str, Meta(extra={"rule": rules.host, "words": "an IP address or a host name"})]
KeyHash = Annotated[str, Meta(extra={"rule": rules.key_hash, "words": "a hash", "secret": True})]
ModelName = Annotated[str, Meta(extra={"rule": rules.model_name})]
StoreURL = Annotated[Address, Meta(extra={"rule": rules.store_url})]

LogLevel = Literal["critical", "error", "warning", "info", "debug"]


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the gateway listens, and how long it waits for its clients."""

    host: Annotated[
        Host, Meta(description="The address to listen on; beyond this machine a key is needed.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    ] = 8787
    workers: Annotated[int, Meta(ge=1, le=256, description="How many processes serve.")] = 1
    insecure: Annotated[
        bool, Meta(description="Serve everybody, without any key, beyond this machine too.")
    ] = False
    tls_cert: Annotated[
        Path | None, Meta(description="The certificate (PEM), with its chain: turns TLS on.")
    ] = None
    tls_key: Annotated[
        Path | None, Meta(description="The private key (PEM), unless the certificate has it.")
    ] = None
    log_level: Annotated[LogLevel, Meta(description="How much is told on stderr.")] = "info"
    drain_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="How long open streams may go on after SIGTERM.")
    ] = 30.0
    keepalive_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="How long a connection without a request stays.")
    ] = 75.0
    header_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="How long the head of a request may take.")
    ] = 10.0
    body_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="How long the body of a request may take.")
    ] = 30.0

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the gateway."""
        return is_loopback(self.host)


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How much a client may send and ask for."""

    header_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 20, description="The head of a request; above it: 431.")
    ] = 32_768
    body_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 30, description="The body of a request; above it: 413.")
    ] = 10_000_000
    depth: Annotated[
        int, Meta(ge=8, le=500, description="How deep the JSON of a request may nest.")
    ] = 200
    tools: Annotated[int, Meta(ge=0, le=65_536, description="How many tools it may bring.")] = 1024
    streams: Annotated[
        int, Meta(ge=1, le=1_000_000, description="How many answers one process has open at once.")
    ] = 2000
    n: Annotated[int, Meta(ge=1, le=128, description="How many choices a request may ask for.")] = 8


class StoreSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The database for the log, sessions and stored responses."""

    enabled: Annotated[bool, Meta(description="Whether anything is stored.")] = True
    url: Annotated[
        StoreURL,
        Meta(description="`sqlite:///FILE`, `postgresql://…`, or the path of a SQLite file."),
    ] = Address("sqlite:///penstock.db")
    bodies: Annotated[
        bool, Meta(description="Whether requests, streams and answers are kept in full.")
    ] = True
    create: Annotated[
        bool, Meta(description="Make and upgrade the tables at start; else `penstock db upgrade`.")
    ] = True
    keep_days: Annotated[float, Meta(gt=0, description="How old a record may grow.")] = 30.0
    keep_bytes: Annotated[
        int, Meta(ge=1_000_000, le=1 << 50, description="How much the bodies may take together.")
    ] = 2_000_000_000
    queue: Annotated[
        int, Meta(ge=1, le=10_000_000, description="How many records wait for a slow database.")
    ] = 10_000
    queue_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 40, description="How many bytes they may have together.")
    ] = 67_108_864


class KeySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that a client may come with, under a name of its own. After loading *hash* is set."""

    hash: Annotated[
        KeyHash, Meta(description="What is kept of the key: `penstock key new` prints it.")
    ] = ""
    env: Annotated[
        Variable, Meta(description="The variable that holds the key, 16 characters or more.")
    ] = ""
    models: Annotated[
        tuple[ModelName, ...],
        Meta(description="The models that it may ask for; a `*` may end a name. Empty: all."),
    ] = ()
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="How many answers it may have open at once; workers share it."),
    ] = None
    rate: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(description="How many requests it may make a minute; workers share it."),
    ] = None


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of the gateway; `load` gives them with every reference followed."""

    server: Annotated[
        ServerSettings, Meta(description="Where it listens, and how long it waits for clients.")
    ] = field(default_factory=ServerSettings)
    limits: Annotated[
        LimitSettings, Meta(description="How much a client may send and ask for.")
    ] = field(default_factory=LimitSettings)
    store: Annotated[StoreSettings, Meta(description="The database for the log and sessions.")] = (
        field(default_factory=StoreSettings)
    )
    keys: Annotated[
        dict[EntryName, KeySettings],
        Meta(description="The keys of clients, by name. With any, every request needs one."),
    ] = field(default_factory=dict)
    upstreams: Annotated[
        dict[EntryName, UpstreamSettings],
        Meta(description="The servers that answer, by name. Without any: the scripted model."),
    ] = field(default_factory=dict)
    models: Annotated[
        dict[ModelName, ModelSettings],
        Meta(description="The models, by the names that clients use; a `*` may end a name."),
    ] = field(default_factory=dict)
    default_upstream: Annotated[
        str,
        Meta(
            description="Who answers for a model that `models` has not, under the name that "
            "the client says; left out, the only upstream, and with several nobody."
        ),
    ] = ""
    default_model: Annotated[str, Meta(description="The model of a request that names none.")] = ""

    def route(self, model: str) -> routes.Route | None:
        """Give who answers for *model* and how its answers are read; None where nobody does."""
        return routes.find(self, model or self.default_model)

    def describe(self) -> str:
        """Show the settings as a ``penstock.toml`` in which every secret is hidden."""
        return describing.describe(self)
