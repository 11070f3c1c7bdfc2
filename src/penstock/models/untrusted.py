"""Find the untrusted text of a conversation: text from which a model may quote a call.

Tool results, documents and search results are untrusted wherever they occur, and so are earlier
user messages, because people paste pages and mails. The system prompt, later system messages and
the current user message are instructions: a user who writes "run <tool_call>…" is obeyed.

The model's own text is neither. A call that the model made before may be made again, because
harnesses echo the calls they ran in tool results. A call that the model only wrote as text does not
count: otherwise a quoted call would run the second time it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.apis.history import content_text
from penstock.messages import AssistantMessage, Opaque, ToolCall, ToolResult
from penstock.parsing import QuotedCalls, Untrusted
from penstock.request import Message, Request, SystemMessage, UserMessage

RESULT = "a tool result"
DOCUMENT = "a document"
EARLIER = "an earlier user message"


def untrusted_in(
    request: Request,
    quoted: QuotedCalls = "text",
    tools: Mapping[str, QuotedCalls] | None = None,
) -> Untrusted | None:
    """Return the texts that a response to *request* may quote calls from, or None if unneeded.

    *quoted* decides how a quoted call is treated, *tools* overrides it for single tools. No message
    is read before a call has been found.
    """
    if quoted == "calls" and "text" not in (tools or {}).values():
        return None
    messages = request.messages
    return Untrusted(
        lambda: _sources(messages),
        trusted=lambda: _instructions(request),
        own=lambda: _calls(messages),
        quoted=quoted,
        tools=tools,
    )


def _sources(messages: list[Message]) -> Iterator[tuple[str, str]]:
    turn = _find_turn(messages)
    for at, message in enumerate(messages):
        if isinstance(message, ToolResult):
            yield from _in_result(message)
        elif isinstance(message, UserMessage):
            if at < turn:
                yield EARLIER, message.text
            yield from _in_blocks(message.content)
        elif isinstance(message, AssistantMessage):  # results of the provider's own tools
            yield from _in_blocks(b for b in message.content if _is_result(b))


def _in_result(result: ToolResult) -> Iterator[tuple[str, str]]:
    """Yield the text of a result and of the documents in it."""
    yield RESULT, content_text(result.content)
    if isinstance(result.content, list):
        for _, text in _in_blocks(result.content):
            yield RESULT, text


def _in_blocks(blocks: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield the text of provider-specific blocks: documents, search results."""
    for block in blocks:
        if isinstance(block, Opaque):
            text = "\n".join(_strings(block.data))
            yield (RESULT if _is_result(block) else DOCUMENT), text


def _strings(data: object) -> Iterator[str]:
    """Yield the strings in *data*, except base64-encoded images and files."""
    ahead = [data]
    while ahead:
        one = ahead.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            kind = str(one.get("type", ""))
            is_binary = kind in ("base64", "image", "image_url", "input_image", "input_audio")
            ahead += [] if is_binary else one.values()
        elif isinstance(one, list):
            ahead += one


def _is_result(block: object) -> bool:
    """Return whether *block* is the result of a tool that the provider ran."""
    if not isinstance(block, Opaque) or not isinstance(block.data, Mapping):
        return False
    # Anthropic: the results of its own tools are blocks such as `web_search_tool_result`.
    return str(block.data.get("type", "")).endswith("_result") or "output" in block.data


def _instructions(request: Request) -> Iterator[str]:
    messages = request.messages
    yield request.system
    for message in messages:
        if isinstance(message, SystemMessage):
            yield message.text
    for message in messages[_find_turn(messages) :]:
        if isinstance(message, UserMessage):
            yield message.text


def _calls(messages: list[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def _find_turn(messages: list[Message]) -> int:
    """Return the index at which the current user turn starts.

    User text beside tool results comes from the harness and does not start a turn. Consecutive user
    messages are one turn.
    """
    turn, is_beside_results = len(messages), False
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            if turn < len(messages) and not is_beside_results:
                break
            turn, is_beside_results = len(messages), False
        elif isinstance(message, ToolResult):
            is_beside_results = True
        elif isinstance(message, UserMessage):
            turn = at
    return 0 if is_beside_results or turn == len(messages) else turn
