"""Tools whose one long argument is piped: a file, a patch, a command, and what is said about it.

They differ in a few words, so each is a value of one struct. A tool without a content argument is
any other tool: its arguments are read by their schema.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class PipedTool(Struct, frozen=True):
    """A tool whose argument *content* is passed on exactly as it stands, while it comes.

    Between *start_marker* and *end_marker*, where a model writes them, even a closing tag is
    content. The arguments *metadata* say something about it; they may stand on the tag, too.
    """

    content: str = ""
    start_marker: str = ""
    end_marker: str = ""
    metadata: tuple[str, ...] = ()

    def metadata_name(self, name: str) -> str | None:
        """Give the metadata that *name* is, by itself or as an alias."""
        name = _ALIASES.get(name.lower(), name)
        return name if name in self.metadata else None

    def read_attributes(self, attributes: dict[str, str]) -> dict[str, str | bool | int]:
        """Read the metadata that stands on a tag; what cannot be read is left out."""
        found: dict[str, str | bool | int] = {}
        for name, text in attributes.items():
            known = self.metadata_name(name)
            value = None if known is None else read_metadata(known, text)
            if known is not None and value is not None:
                found.setdefault(known, value)
        return found


GENERIC: Final = PipedTool()
"""Any tool: no argument of it is special."""

WRITE_FILE: Final = PipedTool("content", "__START_CONTENT__", "__END_CONTENT__", ("path",))
EDIT_FILE: Final = PipedTool("patch", "__START_PATCH__", "__END_PATCH__", ("path",))
RUN_BASH: Final = PipedTool("command", metadata=("background", "timeout_seconds"))

_ALIASES: Final = {"timeoutseconds": "timeout_seconds"}
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_COUNT: Final = re.compile(r"\+?([0-9]{1,18})(?![0-9])")


def read_metadata(name: str, text: str) -> str | bool | int | None:
    """Read the metadata *name*, which is a flag, a count or text; None for what says nothing."""
    text = text.strip()
    match name:
        case "background":
            return _FLAGS.get(text.lower())
        case "timeout_seconds":
            found = _COUNT.match(text)
            return (int(found[1]) or None) if found else None
        case _:
            return text or None
