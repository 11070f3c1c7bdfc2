"""Make the content of a tool result from what a tool returned.

Text stays text, blocks stay blocks, and a value with a JSON form becomes JSON. Any other value is
shown as Python prints it. A result that would fill the conversation loses its middle, with a note
that says how much is missing.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from penstock import _json
from penstock.agent.tools.base import ToolOutput
from penstock.errors import PenstockError, ToolError
from penstock.messages import Opaque, Text
from penstock.request import Image

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

ResultBlock = Text | Image | Opaque
"""A block of a result."""


def make_content(value: object, limit: int = MAX_RESULT_CHARS) -> Any:
    """Make the content of a `ToolResult` from *value*: text, blocks or a JSON value.

    None becomes the empty text. Bytes become text if they are UTF-8, an image if they begin like
    one, and otherwise a note of their number. For a `ToolOutput` it is the content that counts.
    """
    if isinstance(value, ToolOutput):
        value = value.content
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        value = _decode_bytes(bytes(value))
    if isinstance(value, str):
        return cut_middle(str(value), limit)
    blocks = _read_blocks(value)
    return _cut_blocks(blocks, limit) if blocks else _make_json(value, limit)


def cut_middle(text: str, limit: int = MAX_RESULT_CHARS) -> str:
    """Shorten *text* to about *limit* characters: its beginning, a note, and its end."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    head = limit - tail
    note = f"\n[… {len(text) - limit:,} characters omitted …]\n"
    return text[:head] + note + text[len(text) - tail :]


def read_image(data: bytes) -> Image | None:
    """Make an image block from *data*; return None if it is not an image that models accept.

    Raises `ToolError` for one that is too large.
    """
    found = next((kind for magic, kind in _IMAGES.items() if data.startswith(magic)), "")
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


def _read_blocks(value: object) -> list[ResultBlock]:
    """Return *value* as blocks if it is one, or a sequence of blocks and texts; else nothing."""
    items = value if isinstance(value, (list, tuple)) else [value]
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
