"""What a tool gave back, made into what a model can be shown.

Text stays text, blocks stay blocks, and everything with a JSON form is that. What has none is
shown as Python prints it. A result that would fill the conversation is cut in the middle, where it
is missed least, with a note that says how much is gone.
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
"""How long the text of a result may be: some 25,000 tokens, more than models read with care."""

MAX_PICTURE_BYTES: Final = 3_500_000
"""How large a picture may be: in base64 it has to stay below what providers take, 5 MB."""

_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_WEBP: Final = slice(8, 12)


def content_of(value: object, limit: int = MAX_RESULT_CHARS) -> Any:
    """Make what a tool returned the content of a `ToolResult`: text, blocks or a JSON value.

    None is no text at all. Bytes are text if they are UTF-8, a picture if they begin as one, and
    else only counted. Of a `ToolOutput` it is the content.
    """
    if isinstance(value, ToolOutput):
        value = value.content
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        value = _from_bytes(bytes(value))
    if isinstance(value, str):
        return cut_middle(str(value), limit)
    blocks = _as_blocks(value)
    return _cut_blocks(blocks, limit) if blocks else _as_json(value, limit)


def cut_middle(text: str, limit: int = MAX_RESULT_CHARS) -> str:
    """Shorten *text* to about *limit* characters: its beginning, a note, and its end."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    head = limit - tail
    note = f"\n[… {len(text) - limit:,} characters are left out here …]\n"
    return text[:head] + note + text[len(text) - tail :]


def read_picture(data: bytes) -> Image | None:
    """Make a block of *data* if it is a picture of a kind that models see.

    Raises `ToolError` for one that is too large.
    """
    found = next((kind for magic, kind in _PICTURES.items() if data.startswith(magic)), "")
    if data.startswith(b"RIFF") and data[_WEBP] == b"WEBP":
        found = "image/webp"
    if found and len(data) > MAX_PICTURE_BYTES:
        raise ToolError(f"a picture of {len(data):,} bytes is too large to look at")
    return Image(media_type=found, data=b64encode(data).decode()) if found else None


def read_encoded_picture(encoded: str, kind: str) -> Image | Text:
    """Make a block of a picture in base64 that is said to be of *kind*; if it is none, name it."""
    if len(encoded) > MAX_PICTURE_BYTES * 4 // 3 + 4:  # decoding takes room as well
        return Text(f"({kind}, {len(encoded):,} characters, too large to be shown)")
    try:
        picture = read_picture(b64decode(encoded, validate=True))
    except (ValueError, ToolError):
        picture = None
    return picture or Text(f"({kind}, that cannot be shown)")


def _from_bytes(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        with suppress(ToolError):
            if (picture := read_picture(data)) is not None:
                return picture
        return f"({len(data):,} bytes that are not text)"


def _as_blocks(value: object) -> list[Text | Image | Opaque]:
    """Read *value* as blocks if it is one, or a sequence of blocks and texts; else give nothing."""
    items = value if isinstance(value, (list, tuple)) else [value]
    if not any(isinstance(item, (Text, Image, Opaque)) for item in items):
        return []
    blocks: list[Text | Image | Opaque] = []
    for item in items:
        block = Text(item) if isinstance(item, str) else item
        if not isinstance(block, (Text, Image, Opaque)):
            return []
        blocks.append(block)
    return blocks


def _cut_blocks(blocks: Sequence[Text | Image | Opaque], limit: int) -> list[Text | Image | Opaque]:
    total = sum(len(block.text) for block in blocks if isinstance(block, Text))
    if total <= limit:
        return list(blocks)
    return [
        Text(cut_middle(block.text, limit * len(block.text) // total), block.signature)
        if isinstance(block, Text)
        else block
        for block in blocks
    ]


def _as_json(value: object, limit: int) -> Any:
    try:
        built = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
        written = _json.encode(built)
        built = _json.decode(written)  # a tuple is a list there
    except (TypeError, ValueError, RecursionError, PenstockError):
        return cut_middle(_printed(value), limit)
    if isinstance(built, str):
        return cut_middle(built, limit)
    # An empty list would be taken for no blocks at all.
    too_long = len(written) > limit
    return cut_middle(written.decode(), limit) if too_long or built == [] else built


def _encode_other(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic's word for it
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    return _printed(value)


def _printed(value: object) -> str:
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001 - it is the tool's own class, and its `__str__` may fail
        return f"({type(value).__name__} that cannot be printed: {type(exc).__name__})"
