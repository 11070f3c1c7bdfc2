"""The settings of upstreams, and of the models that clients know by name.

Both may say how a model's calls are read (`ReadingSettings`). What a model says counts before what
its upstream says, and that before what is usual for the API: see `routes`.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from penstock.gateway.config import rules
from penstock.gateway.config.addresses import Address
from penstock.models.http.redaction import Secret
from penstock.models.http.retry import RetryPolicy
from penstock.models.http.timeouts import Timeouts

ApiName = Annotated[str, Meta(extra={"rule": rules.api_name, "words": "the name of an API"})]
FormatName = Annotated[
    str, Meta(extra={"rule": rules.format_name, "words": "the name of a format"})
]
DemoFormat = Annotated[
    str, Meta(extra={"rule": rules.demo_format, "words": "the name of a format"})
]
HeaderName = Annotated[str, Meta(extra={"rule": rules.header_name})]
ReasoningName = Annotated[
    str, Meta(extra={"rule": rules.reasoning_name, "words": "the name of a style"})
]
ToolPattern = Annotated[str, Meta(extra={"rule": rules.tool_pattern})]
Variable = Annotated[
    str,
    Meta(
        extra={
            "rule": rules.variable_name,
            "words": "the name of an environment variable",
            "secret": True,  # since some put the key itself here
        }
    ),
]
Wait = Annotated[float, Meta(gt=0)]
WebURL = Annotated[Address, Meta(extra={"rule": rules.web_url})]
ProxyURL = Annotated[Address, Meta(extra={"rule": rules.proxy_url})]

NO_KEY = Secret("")
"""The key of an upstream that has none."""


class ReadingSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a model is told of tools, and calls and reasoning are read; each may be left open."""

    format: Annotated[
        FormatName | None,
        Meta(description="How the model writes calls as text; `penstock formats` lists them."),
    ] = None
    reasoning: Annotated[
        ReasoningName | None,
        Meta(description="How the model marks its thoughts; `none` leaves them in the text."),
    ] = None
    tools: Annotated[
        Literal["native", "prompt", "none"] | None,
        Meta(
            description="How the model is shown its tools: in the upstream's own field, "
            "in words of the system prompt, or (`none`) native, but text stays text."
        ),
    ] = None
    arguments: Annotated[
        Literal["live", "whole"] | None,
        Meta(description="Whether a call goes out as it comes, or once it is complete and valid."),
    ] = None
    repair: Annotated[bool | None, Meta(description="Mend calls that are broken or left open.")] = (
        None
    )
    trim: Annotated[
        bool | None,
        Meta(description="Drop white space between text and a call, or after reasoning."),
    ] = None
    constrain: Annotated[
        Literal["json_schema", "grammar", "structural_tag"] | None,
        Meta(description="How the upstream can be held to a form where a call is demanded."),
    ] = None
    send_back: Annotated[
        bool | None,
        Meta(description="Ask again where a call is of no known tool, or breaks its schema."),
    ] = None
    prompt_suffix: Annotated[
        str | None,
        Meta(description="What the upstream puts at the end of the prompt, such as `<think>`."),
    ] = None
    effort: Annotated[
        bool | None,
        Meta(
            description="Pass on how much a client wants the model to think "
            "(`reasoning_effort` and its like); some servers refuse the field."
        ),
    ] = None
    system_messages: Annotated[
        Literal["keep", "first", "user"] | None,
        Meta(
            description="Where a system message among the others goes: it stays, or becomes part "
            "of the system prompt (`first`) or of the user's message beside it; by default "
            '`user` for chat servers and `tools = "prompt"`, `first` for Mistral\'s models.'
        ),
    ] = None
    quoted: Annotated[
        Literal["text", "calls"] | None,
        Meta(
            description="What a printed call is that a tool result, a document or an earlier user "
            "message of the conversation has word for word (default: `text`)."
        ),
    ] = None
    quoted_tools: Annotated[
        dict[ToolPattern, Literal["text", "calls"]] | None,
        Meta(
            description="The same for single tools, by name or by a pattern: "
            '`quoted_tools = { "read_*" = "calls" }`.'
        ),
    ] = None
    fenced: Annotated[
        Literal["text", "calls"] | None,
        Meta(
            description="What a printed call is in a code fence, in inline code or in a block "
            "quote (default: `text`); `calls` is for models that always fence their calls."
        ),
    ] = None


class TimeoutSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many seconds each wait for the upstream may last; `inf` is for ever."""

    connect: Annotated[Wait, Meta(description="Until the connection stands.")] = 10.0
    first_byte: Annotated[
        Wait, Meta(description="Until the first byte of the answer; long prompts take minutes.")
    ] = 300.0
    idle: Annotated[Wait, Meta(description="Between two reads of the answer.")] = 120.0
    total: Annotated[Wait, Meta(description="For the whole answer, all tries counted.")] = 3600.0

    def as_timeouts(self) -> Timeouts:
        """Give them as the models take them."""
        waits = (self.connect, self.first_byte, self.idle, self.total)
        return Timeouts(*(None if seconds == inf else seconds for seconds in waits))


class QwenSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What only chat.qwen.ai needs; the token is the upstream's key."""

    cookie: Annotated[Secret, Meta(description="The cookie of the account.")] = NO_KEY
    cookie_env: Annotated[Variable, Meta(description="The variable that holds the cookie.")] = ""
    cookie_file: Annotated[Path | None, Meta(description="The file that holds the cookie.")] = None
    umid_token: Annotated[Secret, Meta(description="The header `bx-umidtoken`.")] = NO_KEY
    umid_token_env: Annotated[
        Variable, Meta(description="The variable that holds the `bx-umidtoken`.")
    ] = ""
    umid_token_file: Annotated[
        Path | None, Meta(description="The file that holds the `bx-umidtoken`.")
    ] = None
    parent: Annotated[
        Literal["response_id", "parent_id"],
        Meta(description="Which id of an answer the next message goes on from."),
    ] = "response_id"
    session_minutes: Annotated[
        float,
        Meta(gt=0, le=525_600, description="How long a chat is gone on with after its last use."),
    ] = 30.0
    chat_mode: Annotated[
        Literal["guest", "normal"], Meta(description="The `chat_mode` of new chats.")
    ] = "guest"


class DemoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What only the scripted model needs."""

    format: Annotated[
        DemoFormat,
        Meta(description="How the scripted model writes its calls; `native`: not as text."),
    ] = "hermes"
    pace: Annotated[
        float, Meta(ge=0, le=60, description="How many seconds pass between two tokens.")
    ] = 0.02


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What only the model in the process needs."""

    path: Annotated[
        Path | None, Meta(description="The file (GGUF) of the model; by itself SmolLM2 135M.")
    ] = None
    context: Annotated[
        int, Meta(ge=256, le=1 << 20, description="How many tokens a conversation may have.")
    ] = 4096
    threads: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(description="How many threads compute; by itself half the processors."),
    ] = None


class UpstreamSettings(ReadingSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server that answers, and all that is needed to ask it."""

    api: Annotated[
        ApiName,
        Meta(
            description="What the server speaks: an API, or `demo` or `local`, which need no "
            "server; left out, the URL tells."
        ),
    ] = ""
    base_url: Annotated[
        WebURL,
        Meta(
            description="Where the server is; left out, the provider's own address, and for "
            "`ollama` the one in `OLLAMA_HOST`."
        ),
    ] = Address("")
    model: Annotated[
        str, Meta(description="The model to ask for there, whatever name the client says.")
    ] = ""
    key_env: Annotated[
        Variable,
        Meta(
            description="The variable that holds the key; left out, the provider's usual one, "
            "for the provider's own host only."
        ),
    ] = ""
    key_file: Annotated[
        Path | None, Meta(description="The file that holds the key, such as a container's secret.")
    ] = None
    key: Annotated[
        Secret, Meta(description="The key itself; better not in a file that others may read.")
    ] = NO_KEY
    headers: Annotated[
        dict[HeaderName, Secret], Meta(description="Headers that go along with every request.")
    ] = field(default_factory=dict)
    streaming: Annotated[
        bool, Meta(description="Whether the server can stream; clients get a stream all the same.")
    ] = True
    retries: Annotated[
        int, Meta(ge=0, le=10, description="How often a request is tried again before any answer.")
    ] = 2
    proxy: Annotated[
        ProxyURL | None,
        Meta(description="The proxy before the server; left out, the environment's; `''`: none."),
    ] = None
    ca: Annotated[
        Path | None, Meta(description="The file of the authorities that the server's name is by.")
    ] = None
    timeouts: Annotated[TimeoutSettings, Meta(description="How long to wait for the server.")] = (
        field(default_factory=TimeoutSettings)
    )
    qwen: Annotated[QwenSettings | None, Meta(description="What only the API `qwen` needs.")] = None
    demo: Annotated[DemoSettings | None, Meta(description="What only the API `demo` needs.")] = None
    local: Annotated[LocalSettings | None, Meta(description="What only the API `local` needs.")] = (
        None
    )

    def revealed_headers(self) -> dict[str, str]:
        """Give the headers as they go out."""
        return {name: value.reveal() for name, value in self.headers.items()}

    def as_retry(self) -> RetryPolicy:
        """Give the retries as the models take them."""
        return RetryPolicy(attempts=self.retries + 1)


class ModelSettings(ReadingSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model, under the name that clients use."""

    upstream: Annotated[
        str, Meta(description="The upstream that answers; left out, the default one.")
    ] = ""
    model: Annotated[
        str, Meta(description="The model's name there; left out, the upstream's, or the same.")
    ] = ""
