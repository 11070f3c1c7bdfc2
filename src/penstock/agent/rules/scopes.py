"""Where a rule looks: the words of its scope, and what they mean.

``text`` and ``thinking`` are what the model says and thinks; ``tool`` (or ``toolcall``) is any
call, ``tool:NAME`` or just ``NAME`` the calls of one tool; ``NAME(glob)`` and ``tool(glob)`` are
calls that name a path which fits. Without a scope a rule looks at text and at any call, not at
thinking.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from penstock.agent.rules.paths import fits

Kind = Literal["text", "thinking", "tool"]
"""What kind of stream a rule looks at."""

DEFAULT_SCOPE: Final = ("text", "tool")
"""Where a rule looks that does not say where: thinking is the model's own."""

_TOKEN: Final = re.compile(r"(?P<prefix>tool:)?(?P<name>[\w.:/-]*\w)(?:\((?P<glob>[^()]+)\))?")
_ANY_TOOL: Final = ("tool", "toolcall")
_PROSE: Final[dict[str, Kind]] = {"text": "text", "thinking": "thinking"}

KINDS: Final = frozenset({*_ANY_TOOL, *_PROSE})
"""Words of a scope that are the name of no tool; they are written in lower case."""


class Scope(Struct, frozen=True):
    """One place where a rule looks; an empty *tool* is any, an empty *glob* any path or none."""

    kind: Kind
    tool: str = ""
    glob: str = ""

    def covers(self, kind: Kind, tool: str = "") -> bool:
        """Tell whether a stream of *kind*, of a call of *tool*, is looked at."""
        return self.kind == kind and self.tool in ("", tool)

    def admits(self, paths: list[str]) -> bool:
        """Tell whether a call that names *paths* is looked at."""
        return not self.glob or any(fits(path, self.glob) for path in paths)


def read_scope(token: str) -> Scope | None:
    """Read one word of a scope; ``None`` is one that means nothing."""
    found = _TOKEN.fullmatch(token.strip())
    if found is None:
        return None
    name, glob = found["name"], found["glob"] or ""
    if found["prefix"]:
        return Scope("tool", name, glob)
    if name in _ANY_TOOL:
        return Scope("tool", "", glob)
    if name in _PROSE:
        return None if glob else Scope(_PROSE[name])
    return Scope("tool", name, glob)
