"""Every error that penstock raises, on one screen.

A stream parser never raises on model text: these are for the caller's own mistakes, for the
readers in `values` when they are called directly, and for upstreams. Foreign exceptions are
translated once, at the seam, with ``from exc``.
"""

from collections.abc import Callable
from functools import partial
from typing import Self


class PenstockError(Exception):
    """The root of all errors that penstock raises on purpose."""


class UsageError(PenstockError):
    """The caller broke a rule of the interface, such as `feed` after `finish`."""


class LimitError(PenstockError):
    """An input went over a limit that has a name and a default."""

    def __init__(self, message: str, *, limit: str, value: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[object, ...]]:
        # By itself an exception is copied, also to another process, from its message alone.
        return partial(type(self), limit=self.limit, value=self.value), self.args


class ParseError(PenstockError):
    """Text that a reader in `values` cannot read, and where.

    `text` is what was read, `position` the offset of the offending character in it, and `line`
    and `column` the same place counted from one.
    """

    def __init__(self, message: str, *, text: str = "", position: int = 0) -> None:
        self.reason = message
        self.text = text
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)
        where = f" (line {self.line}, column {self.column})" if text else ""
        super().__init__(message + where)


class JSONParseError(ParseError):
    """Text that is not JSON, or not what `rjson` takes for JSON."""


class XMLParseError(ParseError):
    """Text that `rxml` cannot read as elements."""


class DuplicateStringTagError(XMLParseError):
    """A string field was given by more than one tag, so neither can be trusted."""


class CoercionError(ParseError):
    """Text that was read but cannot become what its schema demands."""


class ProviderError(PenstockError):
    """An upstream refused or failed: its status, its own word for it, and when to try again."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 - the provider's word, named as on the wire
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.retry_after = retry_after


class ToolError(PenstockError):
    """A tool failed in a way that the model should be told of."""
