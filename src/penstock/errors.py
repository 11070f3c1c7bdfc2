"""All exceptions of penstock, and how names that people write are compared and suggested.

A stream parser never raises on model text. These are for mistakes of the caller, for the readers in
`values` when they are called directly, and for upstreams. Exceptions of libraries are translated
where the library is called, with ``from exc``. Messages quote values with `shorten`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

MAX_COMPARED = 80
"""How many characters of a word are compared with the known ones."""


MAX_DESCRIBED = 10_000
"""How many characters of an exception are shown: some hold the whole output of a program."""

MAX_GROUPED = 5
"""How many exceptions of a group are described."""


def shorten(text: str, limit: int) -> str:
    """Return *text* for a message: its first *limit* characters and ``…`` if it is longer."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def describe_exception(exc: BaseException) -> str:
    """Return the type and the message of *exc*, and of the exceptions that it groups."""
    name = type(exc).__name__
    try:
        message = str(exc)
    except Exception as failure:  # noqa: BLE001 - `__str__` of a class that is not ours
        message = f"it cannot be printed: {type(failure).__name__}"
    text = shorten(f"{name}: {message}", MAX_DESCRIBED)
    if not isinstance(exc, BaseExceptionGroup):
        return text
    inner = [describe_exception(each) for each in exc.exceptions[:MAX_GROUPED]]
    return shorten(f"{text}: {'; '.join(inner)}", MAX_DESCRIBED)


class PenstockError(Exception):
    """The base of all exceptions of penstock."""


class UsageError(PenstockError):
    """The caller misused the interface, such as `feed` after `finish`."""


class LimitError(PenstockError):
    """Input exceeded a limit; `limit` is its name and `value` its value."""

    def __init__(self, message: str, *, limit: str, value: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[object, ...]]:
        # By default an exception is pickled and copied with its message alone.
        return partial(type(self), limit=self.limit, value=self.value), self.args


class ParseError(PenstockError):
    """Text that a reader in `values` cannot parse, and where.

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
    """Text that is not JSON, or not what `rjson` accepts as JSON."""


class XMLParseError(ParseError):
    """Text that `rxml` cannot parse as elements."""


class DuplicateStringTagError(XMLParseError):
    """A string field has more than one tag, so neither can be trusted."""


class CoercionError(ParseError):
    """Text that was parsed but cannot be coerced to its schema."""


class ProviderError(PenstockError):
    """An upstream refused or failed: its status, its error type, and when to retry."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 - the provider's field
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.retry_after = retry_after


class ToolError(PenstockError):
    """A tool failed, and the model should receive the message."""


# --- names that people write ---


def fold_name(name: str) -> str:
    """Return *name* as names of formats, styles and APIs are compared.

    Case, spaces, ``-``, ``_`` and ``.`` do not count. Servers spell the same names differently:
    ``qwen3_coder``, ``qwen3-coder``, ``Qwen3 Coder``.
    """
    return name.casefold().translate(_SEPARATORS)


_SEPARATORS = str.maketrans("", "", "-_. ")


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the one of *known* that *word* most resembles, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    by_plain = {_normalize(name): name for name in known}
    near = get_close_matches(_normalize(word), by_plain, n=1, cutoff=0.6)
    return by_plain[near[0]] if near else ""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the nearest of *known*, if one is near."""
    near = find_nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def _normalize(name: str) -> str:
    return name[:MAX_COMPARED].casefold().replace("-", "_")
