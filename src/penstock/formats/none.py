"""No calls at all: what a model writes is text and thinking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import Body
from penstock.tools import Tool


class NoCalls(Struct, frozen=True):
    """The syntax of answers without calls."""

    starts: tuple[str, ...] = ()
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> NoCalls:
        """Give itself: no tool can be called."""
        del tools
        return self

    def body(self, marker: str) -> Body:
        """Never give a reader: nothing opens a call."""
        raise UsageError(f"nothing opens a call here, {marker!r} neither")

    def render_call(self, call: ToolCall) -> NoReturn:
        """Refuse: there is no way to write a call."""
        raise UsageError(f"the format `none` has no calls: {call.name!r} cannot be written")

    def render_result(self, result: ToolResult) -> NoReturn:
        """Refuse: where nothing is called nothing comes back."""
        raise UsageError(f"the format `none` has no calls: nothing came back from {result.name!r}")


NONE: Final[Format] = Format(name="none", calls=NoCalls())
