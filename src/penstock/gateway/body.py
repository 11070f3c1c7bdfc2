"""A request's body: JSON within limits, before anybody looks at what it means."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from penstock import _json
from penstock.apis.numbers import BYTES_A_TOKEN
from penstock.errors import JSONParseError
from penstock.gateway.refusals import Refusal

_BOM: Final = b"\xef\xbb\xbf"


def tokens_in(data: bytes) -> int:
    """Guess how many tokens the request *data* costs; before any upstream has counted them."""
    return max(1, len(data) // BYTES_A_TOKEN)


def read_object(data: bytes, max_depth: int) -> dict[str, Any]:
    """Read the JSON object that *data* is.

    Raises `Refusal` for anything else, and for one that nests deeper than *max_depth*.
    """
    with _without_collection():
        value = _read(data.removeprefix(_BOM), max_depth)  # Some clients send files as they are.
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object")
    return value


def _read(data: bytes, max_depth: int) -> Any:
    try:
        value = _json.decode(data)
    except JSONParseError as exc:
        if exc.__cause__ is None or isinstance(exc.__cause__, RecursionError):  # not its grammar
            raise _too_deep(max_depth) from None
        raise Refusal(400, f"the body is no JSON: {exc}") from None
    may_be_deep = data.count(b"[") + data.count(b"{") > max_depth
    if may_be_deep and _json.is_deeper(value, max_depth):
        raise _too_deep(max_depth)
    return value


def _too_deep(max_depth: int) -> Refusal:
    return Refusal(400, f"the body nests deeper than {max_depth} levels")


@contextmanager
def _without_collection() -> Iterator[None]:
    """Make many objects without a search for garbage among them at every step.

    Three million empty lists fit into a body; the searches take longer than the lists.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
