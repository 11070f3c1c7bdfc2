"""The values that an `enum` or a `const` allows, and the one that a model most likely meant.

A member is meant when it is the only one that equals the text after trimming and folding: case,
the shape of quotes and those around the text, and runs of inner white space. A member that is not
a string is compared by its JSON text, so ``"2"`` finds 2.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.errors import PenstockError

_QUOTES: Final = str.maketrans(dict.fromkeys("\"'`\u2018\u2019\u201a\u201c\u201d\u201e", "'"))
_EDGES: Final = " '"

NO_MEMBER: Final = object()
"""What `Members.meant_by` answers when no single member is meant."""


class Members:
    """The members of an `enum` (or the one of a `const`), ready for look-up."""

    __slots__ = ("_containers", "_folded", "_scalars", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._scalars = {_key(value) for value in values if not isinstance(value, (dict, list))}
        self._containers = [value for value in values if isinstance(value, (dict, list))]
        self._folded: dict[str, list[Any]] | None = None

    @classmethod
    def common(cls, lists: list[list[Any]]) -> Members:
        """Keep what every one of *lists* holds: an `allOf` may name members more than once."""
        first, *others = map(cls, lists)
        return cls([value for value in first.values if all(value in other for other in others)])

    def __contains__(self, value: object) -> bool:
        if isinstance(value, (dict, list)):
            return any(same(value, member) for member in self._containers)
        return _key(value) in self._scalars

    def meant_by(self, text: str) -> Any:
        """Return the one member that *text* means, or `NO_MEMBER`."""
        if self._folded is None:
            folded: dict[str, list[Any]] = {}
            for value in self.values:
                _fold_in(folded, value)
            self._folded = folded
        found = self._folded.get(_fold(text), [])
        return found[0] if len(found) == 1 else NO_MEMBER


def same(one: object, other: object) -> bool:
    """Tell whether two values are equal as JSON: 1 is 1.0, but True is not 1."""
    waiting = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        a, b = waiting.pop()
        if not isinstance(a, (dict, list)):
            if isinstance(b, (dict, list)) or _key(a) != _key(b):
                return False
        elif (id(a), id(b)) not in seen:
            seen.add((id(a), id(b)))
            if isinstance(a, dict):
                if not isinstance(b, dict) or a.keys() != b.keys():
                    return False
                waiting.extend((a[name], b[name]) for name in a)
            else:
                if not isinstance(b, list) or len(a) != len(b):
                    return False
                waiting.extend(zip(a, b, strict=True))
    return True


def _key(value: object) -> tuple[str, object]:
    if value is None or isinstance(value, bool):
        return "word", value
    if isinstance(value, (int, float)):
        return "number", value
    if isinstance(value, str):
        return "text", value
    return "other", id(value)


def _fold_in(folded: dict[str, list[Any]], value: object) -> None:
    try:
        text = value if isinstance(value, str) else _json.encode(value).decode()
    except PenstockError:  # not a JSON value: no text can mean it
        return
    equal = folded.setdefault(_fold(text), [])
    if not any(same(value, other) for other in equal):
        equal.append(value)


def _fold(text: str) -> str:
    return " ".join(text.translate(_QUOTES).casefold().split()).strip(_EDGES)
