"""Make the content of a tool result from what a tool returned.

Text stays text, blocks stay blocks, and a value with a JSON form becomes JSON. Any other value is
shown as Python prints it. A result that would fill the conversation loses its middle, with a note
that says how much is missing.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from penstock import _json
from penstock.agent.tools.base import ToolOutput
from penstock.errors import PenstockError, ToolError, UsageError
from penstock.messages import Opaque, Text
from penstock.request import OPENAI, Image

MAX_RESULT_CHARS: Final = 100_000
"""How long the text of a result may be: about 25,000 tokens, more than models read with care."""

MAX_IMAGE_BYTES: Final = 3_500_000
"""How large an image may be: in base64 it has to stay below the 5 MB that providers accept."""

_IMAGES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_WEBP: Final = slice(8, 12)

MAX_FILE_BYTES: Final = 20_000_000
"""How large a document may be: Gemini accepts 20 MB in a request, others more."""

ResultBlock = Text | Image | Opaque
"""A block of a result."""


class ResultFile:
    """A file as the result of a tool, or a part of one: its *path*, or *data* with a *name*.

    The model sees text as text, an image as an image, and a PDF as a document. Raises `ToolError`
    if the file cannot be read or is too large, and `UsageError` without a path and data.
    """

    def __init__(
        self, path: str | PathLike[str] = "", *, data: bytes | None = None, name: str = ""
    ) -> None:
        if not path and data is None:
            raise UsageError("a file needs a path or its data")
        self.name = name or PurePath(path).name
        if data is None:
            try:
                data = Path(path).read_bytes()
            except OSError as exc:
                raise ToolError(f"cannot read {path}: {exc.strerror or exc}") from exc
        self.data = data

    def to_block(self) -> ResultBlock:
        """Return the block that the model sees."""
        if (image := read_image(self.data)) is not None:
            return image
        if self.data.startswith(b"%PDF-"):
            if len(self.data) > MAX_FILE_BYTES:
                size = f"{len(self.data):,} bytes, limit {MAX_FILE_BYTES:,}"
                raise ToolError(f"the file {self.name} is too large: {size}")
            encoded = b64encode(self.data).decode()
            url = f"data:application/pdf;base64,{encoded}"
            # In the shape of OpenAI; the other APIs get it in theirs.
            named = {"filename": self.name or "document.pdf", "file_data": url}
            return Opaque(OPENAI, {"type": "file", "file": named})
        try:
            return Text(self.data.decode())
        except UnicodeDecodeError:
            return Text(f"({self.name}: {len(self.data):,} bytes that are not text)")


def make_content(value: object, limit: int = MAX_RESULT_CHARS) -> Any:
    """Make the content of a `ToolResult` from *value*: text, blocks or a JSON value.

    None becomes the empty text. Bytes become text if they are UTF-8, an image if they begin like
    one, and otherwise a note of their number. For a `ToolOutput` it is the content that counts.
    """
    if isinstance(value, ToolOutput):
        value = value.content
    if value is None:
        return ""
    if isinstance(value, ResultFile):
        value = value.to_block()
    if isinstance(value, (bytes, bytearray)):
        value = _decode_bytes(bytes(value))
    value = _read_drawing(value)
    if isinstance(value, str):
        return cut_middle(str(value), limit)
    blocks = _read_blocks(value)
    return _cut_blocks(blocks, limit) if blocks else _make_json(value, limit)


def cut_middle(text: str, limit: int = MAX_RESULT_CHARS, *, head: float = 0.5) -> str:
    """Shorten *text* to *limit* characters, and a note where its middle was.

    *head* is the share of the beginning; the rest is the end.
    """
    if len(text) <= limit:
        return text
    tail = limit - math.ceil(limit * head)
    return text[: limit - tail] + omission_note(len(text) - limit) + text[len(text) - tail :]


def omission_note(count: int) -> str:
    """Return the line that replaces *count* characters of a text."""
    return f"\n[… {count:,} characters omitted …]\n"


def read_image(data: bytes) -> Image | None:
    """Make an image block from *data*; return None if it is not an image that models accept.

    Raises `ToolError` for one that is too large.
    """
    found = next((kind for magic, kind in _IMAGES.items() if data.startswith(magic)), "")
    # The four types that all providers accept; the bytes decide, since labels are often wrong.
    if data.startswith(b"RIFF") and data[_WEBP] == b"WEBP":
        found = "image/webp"
    if found and len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"the image is too large: {len(data):,} bytes, limit {MAX_IMAGE_BYTES:,}")
    return Image(media_type=found, data=b64encode(data).decode()) if found else None


def read_encoded_image(encoded: str, kind: str) -> Image | Text:
    """Make an image block from base64 that is labelled *kind*; name it if that is impossible."""
    if len(encoded) > MAX_IMAGE_BYTES * 4 // 3 + 4:  # decoding needs memory as well
        return Text(f"({kind}, {len(encoded):,} characters, too large to be shown)")
    try:
        image = read_image(b64decode(encoded, validate=True))
    except (ValueError, ToolError):
        image = None
    return image or Text(f"({kind}, cannot be shown)")


def _decode_bytes(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        with suppress(ToolError):
            if (image := read_image(data)) is not None:
                return image
        return f"({len(data):,} bytes that are not text)"


def _read_drawing(value: object) -> object:
    """Return *value* as an image if it can draw itself, as those of Pillow and Matplotlib can."""
    # The convention of Jupyter, so that no such library is imported here.
    draw = getattr(value, "_repr_png_", None)
    if isinstance(value, type) or not callable(draw):
        return value
    with suppress(Exception):  # whatever it raises, it is shown as any other value
        data = draw()
        if isinstance(data, bytes) and (image := read_image(data)) is not None:
            return image
    return value


def _read_blocks(value: object) -> list[ResultBlock]:
    """Return *value* as blocks if it is one, or a sequence of blocks and texts; else nothing."""
    given = value if isinstance(value, (list, tuple)) else [value]
    items = [_read_drawing(one.to_block() if isinstance(one, ResultFile) else one) for one in given]
    if not any(isinstance(item, ResultBlock) for item in items):
        return []
    blocks: list[ResultBlock] = []
    for item in items:
        block = Text(item) if isinstance(item, str) else item
        if not isinstance(block, ResultBlock):
            return []
        blocks.append(block)
    return blocks


def _cut_blocks(blocks: Sequence[ResultBlock], limit: int) -> list[ResultBlock]:
    total = sum(len(block.text) for block in blocks if isinstance(block, Text))
    if total <= limit:
        return list(blocks)
    return [
        Text(cut_middle(block.text, limit * len(block.text) // total), block.signature)
        if isinstance(block, Text)
        else block
        for block in blocks
    ]


def _make_json(value: object, limit: int) -> Any:
    try:
        built = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_unknown)
        encoded = _json.encode(built)
        built = _json.decode(encoded)  # tuples become lists
    except (TypeError, ValueError, RecursionError, PenstockError):
        return cut_middle(_print(value), limit)
    if isinstance(built, str):
        return cut_middle(built, limit)
    # An empty list would be read as a list of no blocks.
    if len(encoded) > limit or built == []:
        return cut_middle(encoded.decode(), limit)
    return built


def _encode_unknown(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # a pydantic model
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    return _print(value)


def _print(value: object) -> str:
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001 - `__str__` of the tool's own class may raise anything
        return f"({type(value).__name__}, cannot be printed: {type(exc).__name__})"
