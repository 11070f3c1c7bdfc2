"""Pictures and files in progress from one API to another.

The type of a picture that comes without one is guessed by how its data or its address look. A file
(a document, a recording) is a block that only its own API understands; `text_forms` writes it for
the others.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.apis.fields import clean, object_at, text_at
from penstock.messages import Opaque
from penstock.request import Image

PDF: Final = "application/pdf"

_BEGINNINGS: Final = {"/9j/": "jpeg", "iVBOR": "png", "R0lG": "gif", "UklGR": "webp"}
"""How images begin in base64."""

_ENDINGS: Final = re.compile(r"\.(png|jpe?g|webp|gif|heic|heif|avif|bmp)(?:[?#]|$)", re.IGNORECASE)
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)


def media_type_of(picture: Image) -> str:
    """Return the media type of *picture*; one that is not known is guessed."""
    if picture.media_type:
        return picture.media_type
    for beginning, kind in _BEGINNINGS.items():
        if picture.data.startswith(beginning):
            return f"image/{kind}"
    ending = _ENDINGS.search(picture.url)
    return f"image/{ending[1].lower().replace('jpg', 'jpeg')}" if ending else "image/png"


class File(Struct, frozen=True):
    """A file: *data* is its bytes in base64, or *url* says where it is."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str = ""

    @property
    def data_url(self) -> str:
        """Its bytes as an address."""
        return f"data:{self.media_type};base64,{self.data}"


def file_of(block: Opaque) -> File | None:
    """Return the file that *block* is, in the form of whichever API it is of."""
    data = block.data if isinstance(block.data, Mapping) else {}
    found = _READERS.get(str(data.get("type")), _read_part)(data)
    return found if found is not None and (found.data or found.url) else None


def _read_document(data: Mapping[str, Any]) -> File | None:
    """Read a document of the messages API."""
    source, name = object_at(data, "source"), text_at(data, "title")
    match source.get("type"):
        case "base64":
            return File(text_at(source, "media_type"), text_at(source, "data"), name=name)
        case "text":
            text = clean(text_at(source, "data")).encode()
            return File("text/plain", b64encode(text).decode(), name=name)
        case "url":
            return File(PDF, url=text_at(source, "url"), name=name)
    return None


def _read_input_file(data: Mapping[str, Any]) -> File | None:
    """Read a file of OpenAI's APIs; one of them puts it a level deeper."""
    fields = object_at(data, "file") or data
    name, whole = text_at(fields, "filename"), _DATA_URL.fullmatch(text_at(fields, "file_data"))
    if whole is not None:
        return File(whole[1] or PDF, whole[2], name=name)
    return File(PDF, url=text_at(fields, "file_url"), name=name)


def _read_audio(data: Mapping[str, Any]) -> File | None:
    """Read a recording of OpenAI's chat."""
    fields = object_at(data, "input_audio")
    return File(f"audio/{text_at(fields, 'format') or 'wav'}", text_at(fields, "data"))


def _read_part(data: Mapping[str, Any]) -> File | None:
    """Read a part of Gemini's."""
    inline, file = object_at(data, "inlineData"), object_at(data, "fileData")
    kind, name = text_at(inline or file, "mimeType"), text_at(inline or file, "displayName")
    return File(kind, text_at(inline, "data"), text_at(file, "fileUri"), name)


_READERS: Final[dict[str, Callable[[Mapping[str, Any]], File | None]]] = {
    "document": _read_document,
    "file": _read_input_file,
    "input_file": _read_input_file,
    "input_audio": _read_audio,
}
"""How a file is read by the type of its block; the blocks of Gemini have none."""


def image_at(url: str, detail: str = "") -> Image:
    """Read the picture at *url*, which may hold it."""
    return Image.at(url, detail)
