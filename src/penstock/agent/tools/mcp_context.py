"""What MCP servers have besides tools: resources, prompts, and requests to their client.

A *resource* is text or an image with an address, and a *prompt* is a template of messages; both are
for the application, which decides what the model sees. A server may also ask its client: to let a
model respond (*sampling*), and to let the user fill in a form or open a page (*elicitation*). Both
are refused unless the application passes a model or a function for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock.agent.tools.results import cut_middle, read_encoded_image
from penstock.agent.tools.validate import find_faults
from penstock.errors import PenstockError, UsageError
from penstock.messages import AssistantMessage, Text, Usage, sum_usage
from penstock.models.base import Model
from penstock.request import Image, Message, Request, UserMessage
from penstock.values import Schema

if TYPE_CHECKING:
    from mcp.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        Prompt,
        PromptMessage,
        Resource,
        ResourceTemplate,
        SamplingMessage,
    )

MAX_SAMPLES: Final = 100
"""How many responses of a model one connection may request: each costs tokens."""

MAX_SAMPLE_TOKENS: Final = 4_096
"""How long such a response may be, whatever the server asks for."""

MAX_REASON: Final = 500
"""How many characters of an error the server is sent."""

_REFUSED: Final = -32_603  # an internal error of JSON-RPC
_INVALID: Final = -32_602  # invalid parameters

_STOP_REASONS: Final = {"stop": "endTurn", "length": "maxTokens"}


# --- resources and prompts ---


class MCPResource(Struct, frozen=True):
    """A resource of a server: read it by its *uri*.

    A *template* has names in braces in its *uri*, which have to be replaced.
    """

    name: str
    uri: str
    description: str = ""
    media_type: str = ""
    template: bool = False


class MCPArgument(Struct, frozen=True):
    """An argument of a prompt; all values are text."""

    name: str
    description: str = ""
    required: bool = False


class MCPPrompt(Struct, frozen=True):
    """A prompt of a server: a template of messages."""

    name: str
    description: str = ""
    arguments: list[MCPArgument] = field(default_factory=list)


def read_resource_entry(listed: Resource) -> MCPResource:
    """Read an entry of a list of resources."""
    about, kind = listed.description or listed.title or "", listed.mime_type or ""
    return MCPResource(listed.name, str(listed.uri), about, kind)


def read_template_entry(listed: ResourceTemplate) -> MCPResource:
    """Read an entry of a list of templates."""
    about, kind = listed.description or listed.title or "", listed.mime_type or ""
    return MCPResource(listed.name, listed.uri_template, about, kind, template=True)


def read_prompt_entry(listed: Prompt) -> MCPPrompt:
    """Read an entry of a list of prompts."""
    arguments = [
        MCPArgument(one.name, one.description or "", bool(one.required))
        for one in listed.arguments or ()
    ]
    return MCPPrompt(listed.name, listed.description or listed.title or "", arguments)


def read_contents(contents: list[Any]) -> list[Text | Image]:
    """Read the contents of a resource; bytes that are not an image are named."""
    blocks: list[Text | Image] = []
    for one in contents:
        text = getattr(one, "text", None)
        if text is not None:
            blocks.append(Text(text))
        else:
            kind = f"{one.uri}, {one.mime_type or 'bytes'}"
            blocks.append(read_encoded_image(one.blob, kind))
    return blocks


def read_messages(
    messages: list[PromptMessage], read_block: Callable[[Any], Text | Image]
) -> list[Message]:
    """Read the messages of a prompt."""
    return [_read_message(one.role, one.content, read_block) for one in messages]


def _read_message(role: str, content: Any, read_block: Callable[[Any], Text | Image]) -> Message:
    parts = content if isinstance(content, list) else [content]
    blocks = [read_block(part) for part in parts]
    if role == "user":
        return UserMessage(blocks)
    # Responses cannot contain images; servers hardly ever send one.
    texts = [one if isinstance(one, Text) else Text("(an image)") for one in blocks]
    return AssistantMessage("", "", [*texts], "stop")


# --- sampling ---


class Sampler:
    """Lets *model* respond to the requests of a server, within the limits."""

    def __init__(self, model: Model, read_block: Callable[[Any], Text | Image]) -> None:
        self._model = model
        self._read_block = read_block
        self._count = 0
        self.usage = Usage()
        """The tokens that were spent."""

    async def __call__(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Respond to a request; an error if the model failed or the limit is reached."""
        from mcp.types import CreateMessageResult, ErrorData, TextContent  # noqa: PLC0415 - an extra

        del context
        self._count += 1
        if self._count > MAX_SAMPLES:
            return ErrorData(code=_REFUSED, message=f"more than {MAX_SAMPLES} requests")
        if params.tools:
            return ErrorData(code=_INVALID, message="tools in sampling are not supported")
        try:
            message = await self._model.complete(self._make_request(params))
        except PenstockError as exc:
            return ErrorData(code=_INVALID, message=cut_middle(str(exc), MAX_REASON))
        self.usage = sum_usage((self.usage, message.usage))
        if message.error is not None:
            return ErrorData(code=_REFUSED, message=cut_middle(message.error.message, MAX_REASON))
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=message.text),
            model=message.model or self._model.name,
            stop_reason=_STOP_REASONS.get(message.stop_reason or "", "endTurn"),
        )

    def _make_request(self, params: CreateMessageRequestParams) -> Request:
        return Request(
            system=params.system_prompt or "",
            messages=[self._read_message(one) for one in params.messages],
            max_tokens=min(params.max_tokens, MAX_SAMPLE_TOKENS),
            temperature=params.temperature,
            stop=params.stop_sequences or [],
        )

    def _read_message(self, message: SamplingMessage) -> Message:
        parts = message.content if isinstance(message.content, list) else [message.content]
        if any(part.type in ("tool_use", "tool_result") for part in parts):
            raise UsageError("calls of tools in sampling are not supported")
        return _read_message(message.role, message.content, self._read_block)


# --- elicitation ---


class Elicitation(Struct, frozen=True):
    """What a server asks the user: to fill in a form, or to open the page *url*.

    *schema* is the JSON Schema of the form: an object of texts, numbers, yes or no, and choices.
    *server* names the server that asks; show it to the user.
    """

    server: str
    message: str
    schema: dict[str, Any] = field(default_factory=dict)
    url: str = ""


ElicitationAnswer = Mapping[str, Any] | bool | None
"""The form that was filled in, True if the page was opened, None or False if the user declined."""

Elicit = Callable[[Elicitation], ElicitationAnswer | Awaitable[ElicitationAnswer]]
"""Asks the user."""


class Elicitor:
    """Passes the questions of a server to *elicit*, and checks what it returns."""

    def __init__(self, elicit: Elicit, server: str) -> None:
        self._elicit = elicit
        self._server = server

    async def __call__(
        self, context: object, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """Ask the user; an answer that does not fit the form cancels the question."""
        from mcp.types import ElicitResult, ErrorData  # noqa: PLC0415 - an extra

        del context
        if params.mode == "url":
            question = Elicitation(self._server, params.message, url=params.url)
        else:
            question = Elicitation(self._server, params.message, params.requested_schema)
        try:
            answer = self._elicit(question)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as exc:  # noqa: BLE001 - the application's function may raise anything
            return ErrorData(code=_REFUSED, message=cut_middle(str(exc), MAX_REASON))
        if answer is None or answer is False:
            return ElicitResult(action="decline")
        if params.mode == "url":
            return ElicitResult(action="accept")
        content = {} if answer is True else dict(answer)
        faults = find_faults(content, Schema.of(question.schema))
        if (fault := next(faults, None)) is not None:
            return ErrorData(code=_INVALID, message=cut_middle(fault, MAX_REASON))
        return ElicitResult(action="accept", content=content)
