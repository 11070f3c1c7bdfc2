"""How calls are looked for in text: by the name of a strategy, or by a list of detectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.file_tags import FILE_TAGS
from penstock.formats.json_tool import json_tool
from penstock.formats.mixed import mixed
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.parsing.bodies.json_shapes import profile_of
from penstock.parsing.bodies.json_signatures import Signature

NATIVE: Final = "api_tool_call"
"""The strategy that reads no text: calls come beside it."""

_DETECTORS: Final = {"xml": "xml_tag", "json": "json_tool", "sentinel": "sentinel"}
"""The detector of each strategy that reads text."""

STRATEGIES: Final = tuple(sorted([NATIVE, *_DETECTORS]))
"""The names of all strategies."""

VARIABLES: Final = ("PENSTOCK_STREAM_PARSER", "AUTOBYTEUS_STREAM_PARSER")
"""What the environment may name a strategy with; the first one that says anything counts."""


def find_strategy(environ: Mapping[str, str]) -> str:
    """Give the strategy that *environ* asks for: native calls, unless it names another."""
    said = (environ.get(variable, "").strip().lower() for variable in VARIABLES)
    wanted = next(filter(None, said), NATIVE)
    return wanted if wanted in STRATEGIES else NATIVE


def detectors_of(strategy: str) -> tuple[str, ...]:
    """Give the detectors of a strategy; raise `UsageError` for a name that none has."""
    name = strategy.strip().lower()
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise UsageError(f"no strategy is called {strategy!r}; there are {known}")
    return (_DETECTORS[name],) if name in _DETECTORS else ()


def signature_of(detectors: Iterable[str], provider: str | None) -> Signature | None:
    """Give what JSON begins with that is meant to be a call; None where JSON is not read."""
    return Signature(profile_of(provider).signatures) if "json_tool" in detectors else None


def format_of(detectors: Iterable[str], provider: str | None) -> Format | None:
    """Give the format that reads with *detectors*, in their order; None where there are none.

    Names that no detector has are ignored.
    """
    formats: list[Format] = []
    for name in dict.fromkeys(detectors):
        match name:
            case "xml_tag":
                formats += [TOOL_TAG, FILE_TAGS]
            case "json_tool":
                formats.append(json_tool(provider))
            case "sentinel":
                formats.append(SENTINEL)
            case _:
                pass
    return mixed("segments", *formats) if formats else None
