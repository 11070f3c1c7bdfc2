"""What a model is asked: the conversation so far, the tools, and how to answer.

One shape for all providers. What a field is left at (`None`, empty) is left to the provider; what
only one provider knows is kept in `Request.extra` and goes back to that provider alone.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from penstock.messages import AssistantMessage, Block, Opaque, Text, ToolResult
from penstock.tools import Tool


class Image(Block, tag="image"):
    """A picture: *data* is its bytes in base64 with their *media_type*, or *url* says where it is.

    *detail* is how closely a model should look, in OpenAI's words.
    """

    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str = ""


UserContent = Text | Image | Opaque
"""One block of what a user says."""


class SystemMessage(Struct, tag="system", tag_field="role"):
    """Instructions that come later than the system prompt."""

    text: str


class UserMessage(Struct, tag="user", tag_field="role"):
    """What the user says."""

    content: list[UserContent] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text blocks, one a line."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


Message = SystemMessage | UserMessage | AssistantMessage | ToolResult
"""One turn of a conversation; several results in a row answer the calls of one message."""


SystemPlacement = Literal["keep", "first", "user"]
"""Where a system message among the others goes: it stays, or becomes part of the system prompt or
of the user's message beside it."""


class ToolChoice(Struct, frozen=True):
    """Whether tools are called: as the model likes, never, at least one, or the one of *name*."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    name: str = ""


class ResponseFormat(Struct, frozen=True):
    """What the text of the answer has to be: text, any JSON, or JSON that fits *schema*."""

    kind: Literal["text", "json", "schema"] = "text"
    schema: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    strict: bool | None = None


class ReasoningOptions(Struct, frozen=True):
    """How much a model thinks before it answers.

    *effort* is a word (``none``, ``minimal``, ``low``, ``medium``, ``high``, ``xhigh``, ``max``),
    *budget* a number of tokens, *summary* how much of it is shown (``auto``, ``concise``,
    ``detailed``).
    """

    effort: str = ""
    budget: int | None = None
    summary: str = ""


class Request(Struct):
    """One request to a model, whoever asks and whoever answers.

    *session* is the caller's own name for the conversation, *headers* go along over HTTP.
    *system_messages* says where later system messages go; None leaves that to the API's writer.
    *source* names the API that it was read from, *extra* holds that API's fields that have no
    place here, and *raw* is the request as it came.
    """

    model: str = ""
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: list[str] = field(default_factory=list)
    n: int | None = None
    response_format: ResponseFormat | None = None
    reasoning: ReasoningOptions | None = None
    stream: bool = False
    include_usage: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    user: str = ""
    session: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    system_messages: SystemPlacement | None = None
    source: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] | None = None
