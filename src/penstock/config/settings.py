"""The settings in ``penstock.toml``: one struct for each table, with types and defaults.

The string below a field is its description. The reference page is generated from it, as are the
type, the range and the default.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from penstock.config.types import (
    ApiName,
    BaseURL,
    DemoFormat,
    EntryName,
    FilePath,
    FormatName,
    HeaderName,
    Host,
    KeyHash,
    ModelName,
    ProxyURL,
    QuotaURL,
    ReasoningName,
    Seconds,
    SecretText,
    SecretURL,
    StoreURL,
    ToolMode,
    ToolPattern,
    Variable,
    Wait,
)
from penstock.models.http.endpoints import is_loopback
from penstock.models.http.policy import RetryPolicy, Timeouts
from penstock.redaction import Secret

NO_KEY = Secret("")
"""The key of an upstream without one."""


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the gateway listens, and how long it waits for clients."""

    host: Host = "127.0.0.1"
    """Address to listen on. Other addresses than this machine's require a key."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8787
    """Port to listen on. 0 picks a free port."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Number of worker processes."""
    insecure: bool = False
    """Accept requests without a key, also from other machines."""
    tls_cert: FilePath | None = None
    """Certificate chain (PEM). Enables TLS."""
    tls_key: FilePath | None = None
    """Private key (PEM), unless it is in the certificate's file."""
    log_level: Literal["critical", "error", "warning", "info", "debug"] = "info"
    """Lowest level of the messages on stderr."""
    log_format: Literal["text", "json"] = "text"
    """Format of the messages on stderr: lines for people, or one JSON object per line."""
    log_requests: bool = True
    """Whether each request is logged. Requests that fail always are."""
    discover: bool = True
    """Without an upstream, look for a server on this machine at startup."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """Time for open streams to finish after SIGTERM."""
    keepalive_seconds: Seconds = 75.0
    """Time until an idle connection is closed."""
    header_seconds: Seconds = 10.0
    """Time limit for receiving the headers of a request."""
    body_seconds: Seconds = 30.0
    """Time limit for receiving the body of a request."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the gateway."""
        return is_loopback(self.host)


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for requests."""

    header_bytes: Annotated[int, Meta(ge=1024, le=1 << 20)] = 32_768
    """Size of the headers of a request. Larger ones get a 431."""
    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10_000_000
    """Size of the body of a request. Larger ones get a 413."""
    depth: Annotated[int, Meta(ge=8, le=500)] = 200
    """Nesting depth of the JSON in a request."""
    tools: Annotated[int, Meta(ge=0, le=65_536)] = 1024
    """Number of tools in a request."""
    streams: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """Number of responses in progress, for each process."""
    n: Annotated[int, Meta(ge=1, le=128)] = 8
    """Number of choices that a request may ask for."""


class StoreSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The database for the request log, sessions and stored responses."""

    enabled: bool = True
    """Whether anything is stored."""
    url: StoreURL = SecretURL("")
    """`sqlite:///FILE`, `postgresql://…`, or the path of a SQLite file. Default: `penstock.db` in
    `$XDG_STATE_HOME/penstock`, where `XDG_STATE_HOME` is `~/.local/state` by default."""
    bodies: bool = True
    """Whether requests, streams and responses are stored in full."""
    create: bool = True
    """Create and upgrade the tables at startup. If false, run `penstock db upgrade` yourself."""
    keep_days: Annotated[float, Meta(gt=0)] = 30.0
    """Days until a record is deleted."""
    keep_bytes: Annotated[int, Meta(ge=1_000_000, le=1 << 50)] = 2_000_000_000
    """Total size of the stored bodies. The oldest are deleted first."""
    queue: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    """Number of records that wait for a slow database."""
    queue_bytes: Annotated[int, Meta(ge=1024, le=1 << 40)] = 67_108_864
    """Total size of the records that wait for a slow database."""


class QuotaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where gateways share the quotas of keys."""

    url: QuotaURL = SecretURL("")
    """`redis://…` or `postgresql://…`: all gateways with this URL share the rates and concurrency
    of their keys. Empty: each gateway applies its limits alone, divided among its workers."""


class KeySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A client's key, under a name of your choice. *hash* is always set after loading."""

    hash: KeyHash = ""
    """Hash of the key, as printed by `penstock key new`."""
    env: Variable = ""
    """Environment variable with the key (at least 16 characters), instead of `hash`."""
    models: tuple[ModelName, ...] = ()
    """Models that the key may use. A name may end in `*`. Empty: all models."""
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Number of responses in progress; without shared quotas, divided among the workers."""
    rate: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Requests per minute; without shared quotas, divided among the workers."""


class OptionSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of a model. An upstream sets defaults for its models; None means not set."""

    format: FormatName | None = None
    """Format of tool calls in the model's text. `penstock formats` lists the formats."""
    reasoning: ReasoningName | None = None
    """How the model marks its reasoning. `none` keeps reasoning in the text."""
    tools: ToolMode | None = None
    """How the model receives its tools: `native`, in the upstream's own field, or `prompt`,
    described in the system prompt."""
    parse: bool | None = None
    """Whether tool calls and reasoning are parsed from the model's text. With `false`, text passes
    through unchanged."""
    arguments: Literal["live", "whole"] | None = None
    """Whether a call is sent while it arrives, or after it is complete and valid."""
    repair: bool | None = None
    """Repair calls that are malformed, or that the model left open at its end."""
    trim: bool | None = None
    """Drop white space between text and a call, and after reasoning."""
    constrain: Literal["json_schema", "grammar", "structural_tag"] | None = None
    """Constraint that the upstream supports, used where a request requires a call."""
    send_back: bool | None = None
    """Request the response again if a call names an unknown tool or does not match its schema."""
    prompt_suffix: str | None = None
    """Text that the upstream appends to the prompt, such as `<think>`."""
    effort: bool | None = None
    """Forward the reasoning effort of a request (`reasoning_effort` and similar fields). Some
    servers reject the field."""
    system_messages: Literal["keep", "first", "user"] | None = None
    """Where later system messages go: they stay (`keep`), or are merged into the system prompt
    (`first`) or into the next user message (`user`). Default: `user` for chat servers and with
    `tools = "prompt"`, `first` for Mistral's models."""
    quoted: Literal["text", "calls"] | None = None
    """Whether a call in the model's text that repeats a tool result, a document or an earlier user
    message word for word is text or a call."""
    quoted_tools: dict[ToolPattern, Literal["text", "calls"]] | None = None
    """The same for single tools, by name or pattern: `quoted_tools = { "read_*" = "calls" }`."""
    fenced: Literal["text", "calls"] | None = None
    """Whether a call in a code fence, in inline code or in a block quote is text or a call. `calls`
    is for models that always fence their calls."""
    reasoning_only: Literal["reasoning", "text"] | None = None
    """What a response is that ended inside reasoning which the prompt had opened: `reasoning`, or
    `text` as well, so that the client does not get an empty answer."""
    stray_reasoning: Literal["text", "split"] | None = None
    """What an end marker of reasoning without a beginning is: `text`, or `split`, which drops it
    and begins the answer after it."""
    heal: bool | None = None
    """Repair native calls that the upstream damaged: values sent as strings, two calls glued into
    one, names with leftovers of their format, a call left in the reasoning. If the upstream cannot
    parse its model's output, request it once more with the tools in the prompt."""
    loop_limit: Annotated[int, Meta(ge=0, le=1000)] | None = None
    """How often in a row a model may make the same call with the same arguments before the log, the
    inspector and the header `x-penstock` report it; 0 disables this."""
    end_loops: bool | None = None
    """End a conversation that is in such a loop: the client gets a text in place of the next
    call."""


class TimeoutSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Time limits for the upstream in seconds; `inf` disables a limit."""

    connect: Wait = 10.0
    """For the connection."""
    first_byte: Wait = 300.0
    """Until the first byte of the response. Long prompts take minutes."""
    idle: Wait = 120.0
    """Between two reads of the response."""
    total: Wait = 3600.0
    """For the whole response, including retries."""

    def as_timeouts(self) -> Timeouts:
        """Return the limits as models take them."""
        waits = (self.connect, self.first_byte, self.idle, self.total)
        return Timeouts(*(None if seconds == inf else seconds for seconds in waits))


class QwenSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for the API `qwen` (chat.qwen.ai). The account's token is the upstream's key."""

    cookie: SecretText = NO_KEY
    """Cookie of the account."""
    cookie_env: Variable = ""
    """Environment variable with the cookie."""
    cookie_file: FilePath | None = None
    """File with the cookie."""
    umid_token: SecretText = NO_KEY
    """Value of the header `bx-umidtoken`."""
    umid_token_env: Variable = ""
    """Environment variable with the value of `bx-umidtoken`."""
    umid_token_file: FilePath | None = None
    """File with the value of `bx-umidtoken`."""
    parent: Literal["response_id", "parent_id"] = "response_id"
    """Id of a response that the next message refers to."""
    session_minutes: Annotated[float, Meta(gt=0, le=525_600)] = 30.0
    """Minutes after the last use during which a chat is continued."""
    chat_mode: Literal["guest", "normal"] = "guest"
    """The `chat_mode` of new chats."""


class DemoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for the API `demo`, the scripted model."""

    format: DemoFormat = "hermes"
    """Format of its calls. `native`: native calls instead of text."""
    pace: Annotated[float, Meta(ge=0, le=60)] = 0.02
    """Seconds between two tokens."""


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for the API `local`, the model in the process."""

    path: FilePath | None = None
    """Model file (GGUF). Default: SmolLM2 135M."""
    context: Annotated[int, Meta(ge=256, le=1 << 20)] = 4096
    """Size of the context in tokens."""
    threads: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Number of threads. Default: half of the processors."""


class UpstreamSettings(OptionSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server, and how to reach it."""

    api: ApiName = ""
    """API of the server, or `demo` or `local`, which need no server. Default: guessed from the
    URL."""
    base_url: BaseURL = SecretURL("")
    """URL of the server. Default: the provider's address, for `ollama` the one in `OLLAMA_HOST`."""
    model: str = ""
    """Model to request, whatever model the client names."""
    key_env: Variable = ""
    """Environment variable with the key. Default: the provider's usual one, used for the provider's
    own host only."""
    key_file: FilePath | None = None
    """File with the key, such as a container secret."""
    key: SecretText = NO_KEY
    """The key itself. Prefer `key_env` or `key_file`."""
    headers: dict[HeaderName, SecretText] = field(default_factory=dict)
    """Headers to send with every request."""
    streaming: bool = True
    """Whether the server can stream. If not, clients still get a stream."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """Number of retries for a request that failed before the response began."""
    proxy: ProxyURL | None = None
    """Proxy for the upstream. Default: the one in the environment. `''`: none."""
    ca: FilePath | None = None
    """CA bundle to verify the upstream."""
    timeouts: TimeoutSettings = field(default_factory=TimeoutSettings)
    """Time limits for the upstream."""
    qwen: QwenSettings | None = None
    """Settings for the API `qwen`."""
    demo: DemoSettings | None = None
    """Settings for the API `demo`."""
    local: LocalSettings | None = None
    """Settings for the API `local`."""

    def revealed_headers(self) -> dict[str, str]:
        """Return the headers with their values in plain text."""
        return {name: value.reveal() for name, value in self.headers.items()}

    def as_retry(self) -> RetryPolicy:
        """Return the retries as models take them."""
        return RetryPolicy(attempts=self.retries + 1)


class ModelSettings(OptionSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model, under the name that clients use."""

    upstream: str = ""
    """Upstream that serves the model. Default: `default_upstream`."""
    model: str = ""
    """Name of the model at the upstream. Default: the upstream's `model`, or else the same name."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of the gateway. `load` returns them with secrets and defaults filled in."""

    server: ServerSettings = field(default_factory=ServerSettings)
    """Where the gateway listens, and how long it waits for clients."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """Limits for requests."""
    store: StoreSettings = field(default_factory=StoreSettings)
    """The database for the request log, sessions and stored responses."""
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    """Where gateways share the quotas of keys."""
    keys: dict[EntryName, KeySettings] = field(default_factory=dict)
    """Keys of clients, by name. If there are any, every request needs one."""
    upstreams: dict[EntryName, UpstreamSettings] = field(default_factory=dict)
    """Servers, by name. Without any, the server that is found on this machine is used, or else the
    scripted model."""
    models: dict[ModelName, ModelSettings] = field(default_factory=dict)
    """Models, by the names that clients use. A name may end in `*`."""
    default_upstream: str = ""
    """Upstream for models that are not in `models`; it receives the client's model name. Default:
    the only upstream; with several upstreams, such models are rejected."""
    default_model: str = ""
    """Model of a request that names none."""
