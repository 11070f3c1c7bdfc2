"""Prepare a conversation for an API.

Every call has its result, later instructions are where the model accepts them, signatures go back
only to the model that created them, and images, files and documents of one API are written for
another.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from penstock import _json
from penstock.apis.encoder import is_mistral
from penstock.apis.fields import clean, object_at, text_at
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    mark_failed,
)
from penstock.request import (
    Image,
    Message,
    Request,
    SystemMessage,
    SystemPlacement,
    UserContent,
    UserMessage,
)

OURS: Final = "penstock"
"""The provider of blocks that are sent to no API; they are notes for readers of the response."""

MISSING: str = "No result provided"
"""The result of a call whose result is missing."""

# The types of blocks that no other API could use.
_NOTES: Final = frozenset({"annotations", "redacted_thinking"})


NOTHING: Final = "(empty)"
"""The text of a first user message without content: Anthropic and Gemini require a text."""

# --- calls and results ---


def pair_results(messages: Iterable[Message], *, remembers: bool = False) -> list[Message]:
    """Return *messages* with a result after every call, in the order of the calls.

    An incomplete call stays, with the arguments as they were parsed, if it has a result, and is
    omitted otherwise. A result without a name gets that of its call. A result without a call
    becomes a user message, unless the server *remembers* calls that are not in *messages*.
    """
    given = list(messages)
    used: set[int] = set()  # the positions of results that follow their call already
    paired: list[Message] = []
    for at, message in enumerate(given):
        if isinstance(message, AssistantMessage):
            results = [_take_result(call, given, at + 1, used) for call in message.tool_calls]
            paired.append(_with_paired_calls(message, results))
            paired += [result for result in results if result is not None]
        elif at in used:
            continue
        elif isinstance(message, ToolResult) and not remembers:  # No API accepts it as a result.
            name = f" of {message.name}" if message.name else ""
            text = Text(f"The result{name}:\n{result_text(message)}")
            paired.append(UserMessage([text, *non_text_blocks(message)]))
        else:
            paired.append(message)
    return paired


def _take_result(
    call: ToolCall, messages: list[Message], start: int, used: set[int]
) -> ToolResult | None:
    """Find the result of *call* from *start*, up to the next message that uses its id again."""
    for at in range(start, len(messages)):
        found = messages[at]
        if isinstance(found, ToolResult):
            if found.id == call.id and at not in used:
                used.add(at)
                if found.name:  # The same object: writers find the original data by it.
                    return found
                return ToolResult(found.id, call.name, found.content, found.is_error)
        elif isinstance(found, AssistantMessage) and any(c.id == call.id for c in found.tool_calls):
            break
    return ToolResult(call.id, call.name, MISSING, is_error=True) if call.complete else None


def _with_paired_calls(
    message: AssistantMessage, results: list[ToolResult | None]
) -> AssistantMessage:
    """Return *message* with only those of its calls that have a result."""
    kept: list[Content] = []
    in_order = iter(results)
    for block in message.content:
        if not isinstance(block, ToolCall):
            kept.append(block)
        elif next(in_order) is not None:
            kept.append(block if block.complete else structs.replace(block, complete=True))
    return AssistantMessage(message.id, message.model, kept, message.stop_reason)


def non_text_blocks(result: ToolResult) -> list[Image | Opaque]:
    """Return the blocks of *result* that are not text; many APIs accept them only from a user."""
    content = result.content if isinstance(result.content, list) else []
    return [block for block in content if isinstance(block, Image | Opaque)]


def content_text(content: object) -> str:
    """Return the content of a result as text: blocks one per line, other values as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(b, Text | Image | Opaque) for b in content):
        return "\n".join(block.text for block in content if isinstance(block, Text))
    return _json.encode_wire(content).decode()


def result_text(result: ToolResult) -> str:
    """Return *result* as text that also shows whether the call failed."""
    text = content_text(result.content)
    return str(mark_failed(text)) if result.is_error and text != MISSING else text


# --- blocks of other models and providers ---


def is_from(message: AssistantMessage, model: str) -> bool:
    """Return whether *message* may be from *model*: its signatures go back only to that model."""
    return not message.model or message.model == model


def replayable_blocks(message: AssistantMessage, model: str, provider: str) -> list[Content]:
    """Return the blocks of *message* that can be sent to *model* at *provider*.

    Another model gets reasoning as plain text, without signatures. An opaque block goes only to its
    provider. Reasoning of a failed response loses its signature.
    """
    blocks: list[Content] = []
    is_own = is_from(message, model)
    has_failed = message.stop_reason in ("error", "aborted")
    for block in message.content:
        if isinstance(block, Opaque):
            if is_own and block.provider == provider:
                blocks.append(block)
        elif isinstance(block, Thinking):
            if is_own:
                blocks.append(Thinking(block.text, "" if has_failed else block.signature))
            elif block.text.strip():
                blocks.append(Text(block.text))
        elif is_own or not block.signature:
            blocks.append(block)
        elif isinstance(block, Text):
            blocks.append(Text(block.text))
        else:
            blocks.append(ToolCall(block.id, block.name, block.arguments, block.complete))
    return blocks


def find_lost_content(request: Request, provider: str, *, images: bool = True) -> list[str]:
    """Return the names of content that *provider* cannot express, such as a document.

    *request* is what `convert_content` returned.
    """
    lost: dict[str, None] = {}
    for message in request.messages:
        blocks: Iterable[object] = ()
        if isinstance(message, AssistantMessage):
            blocks = [block for block in message.content if _is_content(block)]
        elif isinstance(message, ToolResult):
            blocks = non_text_blocks(message)
        elif isinstance(message, UserMessage):
            blocks = message.content
        for block in blocks:
            if isinstance(block, Opaque) and block.provider != provider:
                lost[f"content: {block_kind(block.data)}"] = None
            elif isinstance(block, Image) and not images:
                lost["content: image"] = None
    return [*lost]


def _is_content(block: Content) -> bool:
    """Return whether a provider's block is content, not a note such as citations or annotations."""
    if not isinstance(block, Opaque) or block.provider == OURS or not isinstance(block.data, dict):
        return False
    kind = block.data.get("type")
    return isinstance(kind, str) and kind not in _NOTES


# --- later system messages ---
#
# Claude Code sends system messages among the others, and chat clients may. Many chat templates
# reject one that is not first (Qwen3.5: "System message must be at the beginning"), some drop it
# silently (gpt-oss), and some require user and assistant to alternate (Mistral, Gemma). So for a
# chat server such a message becomes part of another one, in one of two ways:
#
# * ``user``: it goes into the adjacent user message, between tags. It keeps its position, so a
#   reminder stays where it was sent and the server's prompt cache stays valid.
# * ``first``: it is added to the system prompt. Every template accepts that, but each new
#   instruction changes the prompt from its start.

# OpenAI's own models, which accept a system message anywhere.
_OPENAI: Final = re.compile(r"(?i)(?:openai/)?(?:gpt-(?!oss)|chatgpt|codex|o[134](?![0-9a-z]))")

# The APIs whose servers apply a chat template.
_CHAT: Final = frozenset({"openai-chat", "ollama"})


def default_placement(api: str, model: str) -> SystemPlacement:
    """Return where later system messages go for *model* unless the request specifies it.

    Mistral's servers reject a user message after a tool result, so theirs go first. The writers
    of other APIs place them as their servers accept them.
    """
    if api not in _CHAT or _OPENAI.match(model):
        return "keep"
    return "first" if is_mistral(model) else "user"


def count_late_system(request: Request) -> int:
    """Return how many system messages come after the system prompt."""
    return sum(isinstance(message, SystemMessage) for message in request.messages)


def place_system_messages(request: Request, default: SystemPlacement) -> Request:
    """Return *request* with its later system messages placed as it specifies, or by *default*."""
    placement = request.system_messages or default
    if placement == "keep" or not count_late_system(request):
        return request
    if placement == "first":
        later = [m.text for m in request.messages if isinstance(m, SystemMessage)]
        system = "\n\n".join(text for text in [request.system, *later] if text.strip())
        messages = [m for m in request.messages if not isinstance(m, SystemMessage)]
        return structs.replace(request, system=system, messages=messages)
    return structs.replace(request, messages=_place_in_user_messages(request.messages))


def _place_in_user_messages(messages: list[Message]) -> list[Message]:
    """Add each run of instructions to the next user message, or else to the previous one.

    If neither neighbour is a user message, the run becomes one.
    """
    placed: list[Message] = []
    waiting: list[Text] = []

    def settle() -> None:
        if not waiting:
            return
        last = placed[-1] if placed else None
        if isinstance(last, UserMessage):
            placed[-1] = UserMessage([*last.content, *waiting])
        else:
            placed.append(UserMessage([*waiting]))
        waiting.clear()

    for message in messages:
        if isinstance(message, SystemMessage):
            if message.text.strip():
                waiting.append(Text(_with_system_tags(message.text)))
        elif isinstance(message, UserMessage) and waiting:
            placed.append(UserMessage([*waiting, *message.content]))
            waiting.clear()
        else:
            settle()
            placed.append(message)
    settle()
    return placed


def _with_system_tags(text: str) -> str:
    """Return *text* between tags, unless it has its own, as Claude Code's reminders do."""
    if text.lstrip().startswith("<system"):
        return text
    return f"<system>\n{text}\n</system>"


# --- content of other APIs ---

# A file goes into the block that the other API has for it. If it has none, text is written between
# tags that name its type, so that the model can distinguish it from the user's own text. A block
# without text (a PDF, a recording) cannot be written: a note in its place says so to the model, and
# `find_lost_content` reports it to the client.

PDF: Final = "application/pdf"

MAX_TITLE: Final = 256
"""How many characters of a title are written; more would not help a model."""

# The first characters of images in base64.
_IMAGE_PREFIXES: Final = {"/9j/": "jpeg", "iVBOR": "png", "R0lG": "gif", "UklGR": "webp"}

_EXTENSIONS: Final = re.compile(
    r"\.(png|jpe?g|webp|gif|heic|heif|avif|bmp)(?:[?#]|$)", re.IGNORECASE
)
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)
# The media types whose bytes are text.
_TEXTUAL: Final = re.compile(
    r"text/|application/(?:json|xml|yaml|toml|sql|x-yaml|x-sh|javascript|typescript|x-ndjson|"
    r"[a-z0-9.-]+\+(?:json|xml))"
)


# --- images and files ---


def media_type_for(image: Image) -> str:
    """Return the media type of *image*, guessed from its data or its URL if it is not known."""
    if image.media_type:
        return image.media_type
    for prefix, kind in _IMAGE_PREFIXES.items():
        if image.data.startswith(prefix):
            return f"image/{kind}"
    extension = _EXTENSIONS.search(image.url)
    return f"image/{extension[1].lower().replace('jpg', 'jpeg')}" if extension else "image/png"


class File(Struct, frozen=True):
    """A file: *data* is its bytes in base64, or *url* is its address."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str = ""

    @property
    def data_url(self) -> str:
        """The file as a ``data:`` URL."""
        return f"data:{self.media_type};base64,{self.data}"


def find_file(block: Opaque) -> File | None:
    """Return the file in *block*, a block of any API, or None."""
    data = block.data if isinstance(block.data, Mapping) else {}
    found = _FILE_READERS.get(str(data.get("type")), _read_part)(data)
    return found if found is not None and (found.data or found.url) else None


def _read_document(data: Mapping[str, Any]) -> File | None:
    """Read a document of the Messages API."""
    source, name = object_at(data, "source"), text_at(data, "title")
    match source.get("type"):
        case "base64":
            return File(text_at(source, "media_type"), text_at(source, "data"), name=name)
        case "text":
            text = text_at(source, "data").encode()
            return File("text/plain", b64encode(text).decode(), name=name)
        case "url":
            return File(PDF, url=text_at(source, "url"), name=name)
    return None


def _read_input_file(data: Mapping[str, Any]) -> File | None:
    """Read a file of OpenAI's APIs; the chat API nests it in ``file``."""
    fields = object_at(data, "file") or data
    name, whole = text_at(fields, "filename"), _DATA_URL.fullmatch(text_at(fields, "file_data"))
    if whole is not None:
        return File(whole[1] or PDF, whole[2], name=name)
    return File(PDF, url=text_at(fields, "file_url"), name=name)


def _read_audio(data: Mapping[str, Any]) -> File | None:
    """Read a recording of OpenAI's chat API."""
    fields = object_at(data, "input_audio")
    return File(f"audio/{text_at(fields, 'format') or 'wav'}", text_at(fields, "data"))


def _read_part(data: Mapping[str, Any]) -> File | None:
    """Read a part of Gemini's."""
    inline, file = object_at(data, "inlineData"), object_at(data, "fileData")
    kind, name = text_at(inline or file, "mimeType"), text_at(inline or file, "displayName")
    return File(kind, text_at(inline, "data"), text_at(file, "fileUri"), name)


# How the file of a block is read, by the block's type; Gemini's parts have no type.
_FILE_READERS: Final[dict[str, Callable[[Mapping[str, Any]], File | None]]] = {
    "document": _read_document,
    "file": _read_input_file,
    "input_file": _read_input_file,
    "input_audio": _read_audio,
}


# --- for another API ---


def convert_content(
    request: Request,
    provider: str,
    write: Callable[[File], Any] = lambda _: None,
    *,
    images: bool = True,
) -> Request:
    """Return *request* with the content of other APIs as blocks of *provider*.

    *write* returns the block of a file, or None if the API does not accept it. A block that cannot
    be converted stays, so that `find_lost_content` reports it, and is followed by a note for the
    model. *images* is whether the API accepts images.
    """

    def fits(block: object) -> bool:
        if isinstance(block, Image):
            return images
        return not isinstance(block, Opaque) or block.provider == provider

    def convert(block: Any) -> list[Any]:
        if fits(block):
            return [block]
        if isinstance(block, Image):
            return [block, omission_note(block)]
        file = find_file(block)
        written = write(file) if file is not None else None
        if written is not None:
            return [Opaque(provider, written)]
        return as_text(block) or [block, omission_note(block)]

    def convert_message(message: Message) -> Message:
        if not isinstance(message, UserMessage | ToolResult):
            return message
        content = message.content
        if not isinstance(content, list) or all(map(fits, content)):
            return message  # The same object: writers find the original data by it.
        converted = [each for block in content for each in convert(block)]
        return structs.replace(message, content=converted)

    return structs.replace(request, messages=[*map(convert_message, request.messages)])


def as_text(block: Opaque) -> list[UserContent] | None:
    """Return *block* as text and images, or None if it contains no text."""
    data = block.data if isinstance(block.data, Mapping) else {}
    source = object_at(data, "source")
    title = {"title": text_at(data, "title")}
    match data.get("type"), source.get("type"):
        case "document", "text":
            attributes = {**title, "context": text_at(data, "context")}
            return [_tagged("document", text_at(source, "data"), attributes)]
        case "document", "content":
            attributes = {**title, "context": text_at(data, "context")}
            return _enclosed("document", source.get("content"), attributes)
        case "search_result", _:
            attributes = {**title, "source": text_at(data, "source")}
            return _enclosed("search_result", data.get("content"), attributes)
        case "tool_reference", _:  # The result of a tool search; all tools are loaded already.
            name = text_at(data, "tool_name") or text_at(data, "name")
            return [Text(f"The tool {_quoted(name)} is available.")]
    file = find_file(block)
    if file is None or not file.data or not _TEXTUAL.match(file.media_type):
        return None
    try:
        text = b64decode(file.data).decode("utf-8-sig")
    except ValueError:
        return None
    return [_tagged("document", text, {"title": file.name})]


def omission_note(block: Opaque | Image) -> Text:
    """Return the note for the model about a block that it does not receive."""
    if isinstance(block, Image):
        return Text("[image omitted]")
    file = find_file(block)
    name = f" {_quoted(file.name)}" if file is not None and file.name else ""
    return Text(f"[{block_kind(block.data)}{name} omitted]")


def block_kind(data: object) -> str:
    """Return the type of a provider's block, or the name of its only field."""
    fields = data if isinstance(data, Mapping) else {}
    kind = fields.get("type") or next(iter(fields), "")
    return kind if isinstance(kind, str) and kind else "unknown"


def _read_blocks(content: object) -> list[UserContent]:
    """Read text and images of the Messages API; for another block there is a note."""
    read: list[UserContent] = []
    for block in content if isinstance(content, list) else [content]:
        fields = block if isinstance(block, Mapping) else {"text": block}
        source = object_at(fields, "source")
        match fields.get("type", "text"), source.get("type"):
            case "text", _ if isinstance(fields.get("text"), str | None):
                read.append(Text(text_at(fields, "text")))
            case "image", "base64":
                read.append(Image(text_at(source, "media_type"), text_at(source, "data")))
            case "image", "url":
                read.append(Image.at(text_at(source, "url")))
            case _:
                read.append(omission_note(Opaque("", block)))
    return read


def _enclosed(tag: str, content: object, attributes: dict[str, str]) -> list[UserContent]:
    blocks = _read_blocks(content)
    texts = [block.text for block in blocks if isinstance(block, Text)]
    images = [block for block in blocks if isinstance(block, Image)]
    return [_tagged(tag, "\n".join(texts), attributes), *images]


def _tagged(tag: str, text: str, attributes: Mapping[str, str]) -> Text:
    named = "".join(f" {name}={_quoted(value)}" for name, value in attributes.items() if value)
    return Text(f"<{tag}{named}>\n{text}\n</{tag}>")


def _quoted(text: str) -> str:
    line = " ".join(clean(text).split()).replace('"', "'")
    return f'"{line[:MAX_TITLE]}"'
