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

from penstock.apis.media import File, file_of, image_at
from penstock.apis.reading import clean, object_at, text_at
from penstock.messages import Opaque, Text, ToolResult
from penstock.requests import Image, Message, UserContent, UserMessage

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
