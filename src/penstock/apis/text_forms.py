"""Content that only one API has a block for, written for the others.

A document, a search result and the like say something to any model. A file goes in the block that
the other API has for it. Where it has none, text is written between tags that name what it was, so
that the model can tell it from the words of the user. A block without any text in it (a PDF, a
recording) has no such form: the model is told that it is missing, and so is the client, by
`history.lost_content`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from penstock.apis.encoder import is_mistral
from penstock.apis.fields import clean, object_at, text_at
from penstock.apis.media import File, file_of, image_at
from penstock.messages import Opaque, Text, ToolResult
from penstock.request import (
    Image,
    Message,
    Request,
    SystemMessage,
    SystemPlacement,
    UserContent,
    UserMessage,
)

# Where instructions go that come later than the system prompt.
#
# Claude Code sends system messages among the others, and chat clients may. Many chat templates
# refuse one that is not the first message (Qwen3.5: "System message must be at the beginning"),
# some drop it without a word (gpt-oss), some want user and assistant to take turns (Mistral,
# Gemma). So for a chat server such a message becomes part of another one, in one of two ways:
#
# * ``user``: it goes into the user's message beside it, between tags. It stays where it was
# said, so a reminder keeps its moment and a server's cache of the conversation stays valid. *
# ``first``: it is added to the system prompt. Every template takes that, but each new
# instruction changes the prompt from its beginning.


_OPENAI: Final = re.compile(r"(?i)(?:openai/)?(?:gpt-(?!oss)|chatgpt|codex|o[134](?![0-9a-z]))")
"""OpenAI's own models, which take a system message anywhere."""

_CHAT: Final = frozenset({"openai-chat", "ollama"})
"""The APIs after which a chat template decides what a conversation may look like."""


def usual_placement(api: str, model: str) -> SystemPlacement:
    """Return where later system messages go for *model* after *api* unless a request says.

    Mistral's servers refuse a user's message after the result of a tool, so theirs go first. APIs
    that are not chat have writers that know what their server takes.
    """
    if api not in _CHAT or _OPENAI.match(model):
        return "keep"
    return "first" if is_mistral(model) else "user"


def count_later(request: Request) -> int:
    """Return how many system messages come later than the system prompt."""
    return sum(isinstance(message, SystemMessage) for message in request.messages)


def place_system(request: Request, usual: SystemPlacement) -> Request:
    """Return *request* with its later system messages where it says, or else where is *usual*."""
    placement = request.system_messages or usual
    if placement == "keep" or not count_later(request):
        return request
    if placement == "first":
        later = [m.text for m in request.messages if isinstance(m, SystemMessage)]
        system = "\n\n".join(text for text in [request.system, *later] if text.strip())
        messages = [m for m in request.messages if not isinstance(m, SystemMessage)]
        return structs.replace(request, system=system, messages=messages)
    return structs.replace(request, messages=_among_users(request.messages))


def _among_users(messages: list[Message]) -> list[Message]:
    """Put each run of instructions into the user's message after it, or else before it.

    Where neither neighbour is the user's, it is a user's message of its own.
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
                waiting.append(Text(_marked(message.text)))
        elif isinstance(message, UserMessage) and waiting:
            placed.append(UserMessage([*waiting, *message.content]))
            waiting.clear()
        else:
            settle()
            placed.append(message)
    settle()
    return placed


def _marked(text: str) -> str:
    """Mark *text* as the system's, unless it does so itself as Claude Code's reminders do."""
    if text.lstrip().startswith("<system"):
        return text
    return f"<system>\n{text}\n</system>"


_TEXTUAL: Final = re.compile(
    r"text/|application/(?:json|xml|yaml|toml|sql|x-yaml|x-sh|javascript|typescript|x-ndjson|"
    r"[a-z0-9.-]+\+(?:json|xml))"
)
"""The media types whose bytes are text."""

MAX_TITLE: Final = 256
"""How many characters of a title are written; the rest says nothing to a model."""


def with_fit_content(
    messages: Iterable[Message],
    provider: str,
    write: Callable[[File], Any] = lambda _: None,
    *,
    images: bool = True,
) -> list[Message]:
    """Return *messages* with the content of other APIs in the words of *provider*.

    *write* returns the block of a file, or nothing for one that the API does not take. What has no
    form at all stays, for `lost_content` to name, and words after it tell the model. Without
    *images* the API takes none.
    """
    fitting = _Fitting(provider, write, images)
    return [fitting.message(message) for message in messages]


class _Fitting(Struct, frozen=True):
    """Writes content for one API; what needs no change stays the same object."""

    provider: str
    write: Callable[[File], Any]
    images: bool

    def message(self, message: Message) -> Message:
        if not isinstance(message, UserMessage | ToolResult):
            return message
        if not isinstance(message.content, list) or all(map(self._is_fit, message.content)):
            return message
        content = [each for block in message.content for each in self._fit(block)]
        return structs.replace(message, content=content)

    def _is_fit(self, block: object) -> bool:
        if isinstance(block, Image):
            return self.images
        return not isinstance(block, Opaque) or block.provider == self.provider

    def _fit(self, block: Any) -> list[Any]:
        if self._is_fit(block):
            return [block]
        if isinstance(block, Image):
            return [block, omitted(block)]
        file = file_of(block)
        written = self.write(file) if file is not None else None
        if written is not None:
            return [Opaque(self.provider, written)]
        said = text_form(block)
        return [block, omitted(block)] if said is None else said


def text_form(block: Opaque) -> list[UserContent] | None:
    """Return *block* as text and images; None for one that has no text in it."""
    data = block.data if isinstance(block.data, Mapping) else {}
    write = _WRITERS.get(str(data.get("type")))
    written = None if write is None else write(data)
    if written is not None:
        return written
    file = file_of(block)
    return None if file is None else _file(file)


def omitted(block: Opaque | Image) -> Text:
    """Return the words that tell a model of a block which it does not get."""
    if isinstance(block, Image):
        return Text("[image omitted]")
    file = file_of(block)
    name = f" {_quoted(file.name)}" if file is not None and file.name else ""
    return Text(f"[{kind_of(block.data)}{name} omitted]")


def kind_of(data: object) -> str:
    """Return what a block is, in its provider's word: its type, or its only field."""
    fields = data if isinstance(data, Mapping) else {}
    kind = fields.get("type") or next(iter(fields), "")
    return kind if isinstance(kind, str) and kind else "unknown"


# --- by type ---


def _document(data: Mapping[str, Any]) -> list[UserContent] | None:
    """Write a document of the Messages API whose source is text or a list of blocks."""
    source = object_at(data, "source")
    attributes = {"title": text_at(data, "title"), "context": text_at(data, "context")}
    if source.get("type") == "text":
        return [_tagged("document", text_at(source, "data"), attributes)]
    if source.get("type") == "content":
        return _enclosed("document", _blocks(source.get("content")), attributes)
    return None


def _search_result(data: Mapping[str, Any]) -> list[UserContent]:
    attributes = {"title": text_at(data, "title"), "source": text_at(data, "source")}
    return _enclosed("search_result", _blocks(data.get("content")), attributes)


def _tool_reference(data: Mapping[str, Any]) -> list[UserContent]:
    """Write what a search for tools found; every tool of the request is loaded already."""
    name = text_at(data, "tool_name") or text_at(data, "name")
    return [Text(f"The tool {_quoted(name)} is available.")]


_WRITERS: Final[dict[str, Callable[[Mapping[str, Any]], list[UserContent] | None]]] = {
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
}
"""How a block is written by its type."""


def _file(file: File) -> list[UserContent] | None:
    """Write a file whose bytes are text."""
    if not _TEXTUAL.match(file.media_type) or not file.data:
        return None
    try:
        text = b64decode(file.data).decode("utf-8-sig")
    except ValueError:
        return None
    return [_tagged("document", text, {"title": file.name})]


# --- words ---


def _blocks(content: object) -> list[UserContent]:
    """Read text and images of the Messages API; a block of another type is named."""
    if isinstance(content, str):
        return [Text(clean(content))]
    read: list[UserContent] = []
    for block in content if isinstance(content, list) else ():
        fields = block if isinstance(block, Mapping) else {}
        source = object_at(fields, "source")
        if fields.get("type") == "text":
            read.append(Text(text_at(fields, "text")))
        elif fields.get("type") == "image" and source.get("type") == "base64":
            read.append(Image(text_at(source, "media_type"), text_at(source, "data")))
        elif fields.get("type") == "image" and source.get("type") == "url":
            read.append(image_at(text_at(source, "url")))
        else:
            read.append(omitted(Opaque("", block)))
    return read


def _enclosed(tag: str, blocks: list[UserContent], attributes: dict[str, str]) -> list[UserContent]:
    texts = [block.text for block in blocks if isinstance(block, Text)]
    images = [block for block in blocks if isinstance(block, Image)]
    return [_tagged(tag, "\n".join(texts), attributes), *images]


def _tagged(tag: str, text: str, attributes: Mapping[str, str]) -> Text:
    named = "".join(f" {name}={_quoted(value)}" for name, value in attributes.items() if value)
    return Text(f"<{tag}{named}>\n{text}\n</{tag}>")


def _quoted(text: str) -> str:
    line = " ".join(clean(text).split()).replace('"', "'")
    return f'"{line[:MAX_TITLE]}"'
