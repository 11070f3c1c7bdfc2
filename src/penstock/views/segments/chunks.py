"""What a provider's stream brings at a time: text, reasoning, and pieces of native calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import Usage


class CallPiece(Struct, frozen=True):
    """A piece of a native call: *index* tells whose, *arguments* is a piece of JSON text."""

    index: int = 0
    id: str = ""
    name: str = ""
    arguments: str = ""

    @classmethod
    def read(cls, data: CallPiece | Mapping[str, Any]) -> CallPiece:
        """Read a piece as providers write it, flat or with a ``function`` inside.

        The id may be called ``call_id`` and the arguments ``arguments_delta``; arguments that come
        whole, as an object, become text. Raises `UsageError` for what is no JSON object.
        """
        if isinstance(data, CallPiece):
            return data
        if not isinstance(data, Mapping):
            raise UsageError(f"a piece of a call is a JSON object, not {type(data).__name__}")
        inner = data.get("function")
        fields = {**data, **inner} if isinstance(inner, Mapping) else data
        arguments = _first(fields, "arguments", "arguments_delta")
        if not isinstance(arguments, str):
            arguments = _json.encode_strict(arguments).decode()
        id_, name = str(_first(fields, "id", "call_id")), str(_first(fields, "name"))
        return cls(int(fields.get("index") or 0), id_, name, arguments)


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), "")


class Chunk(Struct, frozen=True):
    """One chunk of a provider's stream; every field may be empty.

    *complete* says that the answer ended here by itself.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: Sequence[CallPiece | Mapping[str, Any]] = ()
    usage: Usage | Mapping[str, Any] | None = None
    complete: bool = False
