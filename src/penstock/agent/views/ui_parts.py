"""The parts of a UI message, as a browser sends them back: read once, and refused by name.

What a browser sends is anybody's: every part is read into its shape here, so that those who make
messages of them meet no surprise.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from penstock.agent.views.ui_chunks import NAMESPACE
from penstock.errors import UsageError
from penstock.requests import Image

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[^;,]*)*?)(;base64)?,")
_WEB: Final = ("http://", "https://")

State = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]
"""How far a call is, in the client's eyes."""


class UIMessage(Struct, rename="camel"):
    """One message of a conversation, as `useChat` keeps it."""

    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]
    metadata: Any = None

    @property
    def model(self) -> str:
        """The model that answered, where the stream told it."""
        known = self.metadata.get("model") if isinstance(self.metadata, dict) else None
        return known if isinstance(known, str) else ""


class TextPart(Struct, rename="camel"):
    """Text, or reasoning."""

    text: str
    provider_metadata: dict[str, Any] | None = None


class FilePart(Struct, rename="camel"):
    """A file: its bytes in the URL, or where it is."""

    media_type: str
    url: str


class ReminderPart(Struct):
    """Who reminded the model: the words of neither are the user's."""

    source: Literal["rule", "guard"]


class OpaquePart(Struct):
    """What only its provider understands."""

    provider: str
    data: Any = None


class Approval(Struct):
    """A question whether a call may run, and its answer."""

    approved: bool | None = None
    reason: str | None = None


class CallPart(Struct, rename="camel"):
    """A call, and what came of it."""

    tool_call_id: str
    state: State
    tool_name: str = ""
    input: Any = None
    raw_input: Any = None
    output: Any = None
    error_text: str = ""
    preliminary: bool | None = None
    approval: Approval = field(default_factory=Approval)
    call_provider_metadata: dict[str, Any] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether its input never was whole."""
        return self.input is None and self.raw_input is not None

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input; raises `UsageError` for one that is no object."""
        if self.is_cut:
            return self.raw_input if isinstance(self.raw_input, dict) else {}
        given = {} if self.input is None else self.input
        if not isinstance(given, dict):
            raise UsageError(f"the input of call {self.tool_call_id!r} is no object")
        return given


T = TypeVar("T")


def read(value: object, shape: type[T], where: str) -> T:
    """Read *value* as *shape*; raise a `UsageError` that says what is wrong, and *where*."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{where}: {exc}") from exc


def read_kind(part: dict[str, Any], where: str) -> str:
    """Give the `type` of *part*."""
    kind = part.get("type")
    if not isinstance(kind, str):
        raise UsageError(f"{where}: a part has a `type`")
    return kind


def read_call(part: dict[str, Any], kind: str, where: str) -> CallPart:
    """Read the part of a call: its tool is named by its type, or by a field."""
    call = read(part, CallPart, where)
    if kind != "dynamic-tool":
        call.tool_name = kind.removeprefix("tool-")
    if not call.tool_name:
        raise UsageError(f"{where}: a call without the name of its tool")
    return call


def read_picture(part: dict[str, Any], where: str) -> Image:
    """Read a file as the picture that it is; raise `UsageError` for any other file."""
    file = read(part, FilePart, where)
    if not file.media_type.startswith("image/"):
        raise UsageError(
            f"{where}: a model is shown pictures, no {file.media_type or 'other'} file"
        )
    if file.url.startswith(_WEB):
        return Image(media_type=file.media_type, url=file.url)
    head = _DATA_URL.match(file.url)
    if head is None or not head[3]:
        raise UsageError(f"{where}: a file is an http, https or base64 data URL")
    data = file.url[head.end() :]
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise UsageError(f"{where}: the file is no base64: {exc}") from exc
    return Image(media_type=head[1] or file.media_type, data=data)


def signature_of(metadata: dict[str, Any] | None) -> str:
    """Give the signature that our stream noted on a part."""
    noted = (metadata or {}).get(NAMESPACE)
    signature = noted.get("signature") if isinstance(noted, dict) else None
    return signature if isinstance(signature, str) else ""
