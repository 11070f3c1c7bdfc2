"""Calls in JSON as each provider's models were taught to write them, anywhere in an answer.

A `Profile` is data: the signatures that tell a call from other JSON, and the shape it has then. A
call opens as soon as it names a known tool; the name is matched as it is, then in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from penstock.parsing.bodies.envelope import Envelope, NotMeantError, Shape
from penstock.parsing.bodies.json_signatures import NO_CALL, Signature
from penstock.parsing.bodies.json_signed import SignedJSONReader
from penstock.parsing.calls import Calls
from penstock.values.schema import Schema


class Profile(Struct, frozen=True):
    """What calls look like for one group of *providers*."""

    name: str
    providers: frozenset[str]
    signatures: tuple[str, ...]
    shape: Shape

    @property
    def starts(self) -> tuple[str, ...]:
        """The brackets that may open a call."""
        return ("{", "[")

    @property
    def folds(self) -> bool:
        """Brackets have no case."""
        return False

    @property
    def unless(self) -> str:
        """What may not follow a bracket that opens a call."""
        return NO_CALL

    def body(self, marker: str) -> ShapedCallReader:
        """Give a fresh reader for what follows *marker*."""
        return ShapedCallReader(marker, self)


OPENAI: Final = Profile(
    name="openai",
    providers=frozenset({"openai", "mistral", "deepseek", "grok"}),
    signatures=(
        '{"tool":',
        '{"tool_calls":',
        '{"tools":',
        '{"function":',
        '[{"tool":',
        '[{"function":',
    ),
    shape=Shape(
        names=frozenset({"function", "name"}),
        wrappers=frozenset({"tool"}),
        holders=frozenset({"function"}),
        lists=frozenset({"tool_calls", "tools"}),
    ),
)

GEMINI: Final = Profile(
    name="gemini",
    providers=frozenset({"gemini"}),
    signatures=('{"name":', '[{"name":'),
    shape=Shape(names=frozenset({"name"})),
)

DEFAULT: Final = Profile(
    name="default",
    providers=frozenset(),
    signatures=('{"tool":', '{"function":'),
    shape=Shape(
        names=frozenset({"function"}),
        wrappers=frozenset({"tool"}),
        holders=frozenset({"function"}),
    ),
)


def profile_of(provider: str | None) -> Profile:
    """Give the profile of *provider*, in any case; the default one for all that have none."""
    name = (provider or "").casefold()
    return next((known for known in (OPENAI, GEMINI) if name in known.providers), DEFAULT)


class ShapedCallReader(SignedJSONReader):
    """Reads the calls of one value as *profile* has them."""

    def __init__(self, bracket: str, profile: Profile) -> None:
        super().__init__(bracket, profile.shape, _signature(profile.signatures))

    def _new_envelope(self, calls: Calls) -> Envelope:
        return _ToolEnvelope(calls, self._base, self._shape)


class _ToolEnvelope(Envelope):
    """An envelope that opens with its name, if that is a known tool's."""

    def _take_name(self, name: str) -> None:
        known = find_tool(name, self._calls.schemas)
        if known is None:
            raise NotMeantError(f"no tool is called {name!r}")
        self.name = known
        self._open()


def find_tool(name: str, schemas: Mapping[str, Schema]) -> str | None:
    """Give the known tool that *name* stands for: its own name, or the same in another case."""
    if name in schemas:
        return name
    folded = name.casefold()
    return next((known for known in schemas if known.casefold() == folded), None)


@lru_cache(maxsize=64)
def _signature(beginnings: tuple[str, ...]) -> Signature:
    return Signature(beginnings)
