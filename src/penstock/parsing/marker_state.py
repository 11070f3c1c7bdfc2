"""What to look out for: which markers mean something at this place of an answer, and what.

That depends on the channel that text is in, on whether the model may still think, and on what the
last call left after. A set of markers is compiled once; the lookout says which set it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Literal, Protocol

from penstock.parsing.output import Kind
from penstock.parsing.readers.base import BodyReader
from penstock.parsing.reasoning import Channel, Reasoning, Wrapper
from penstock.parsing.scanner import Markers, markers, scattered

Place = Literal["anywhere", "first", "last"]
"""Where a wrapper says nothing."""


class Syntax(Protocol):
    """How calls look in one format: what opens one, and who reads what follows.

    It may also have `unless`, a pattern that follows no start marker of its own; `opened_in`, which
    says how a prompt leaves the answer, and `first_body`, which gives who reads its beginning;
    `leading`, those of its markers that count only as the first thing of an answer; `knows_tools`,
    where only calls of known tools are calls; and `new_id`, which gives ids to calls that bring
    none. One that looks for code itself has `is_quoted`, which tells of a line whether a marker
    after it is text; `has_protected`, whether it found a marker in code; `let_fenced`, which lets
    calls in code be calls; and `afresh`, which gives another syntax that does so.
    """

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that open a call, or several."""

    @property
    def folds(self) -> bool:
        """Whether the case of a marker does not matter; then `starts` are in lower case."""

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*, which is as the text has it."""


class MarkerRole(Enum):
    """What a marker does where it stands."""

    REFUSAL_END = "ends the segment of a call that broke"
    CALL = "opens a call"
    STRAY = "belongs to what came before"
    WRAPPER = "says nothing"
    CHANNEL_END = "ends the channel"
    CHANNEL_START = "opens the channel that is open already"
    THOUGHT = "opens a thought"


class MarkerState:
    """Knows the channel, and the markers that count in it."""

    __slots__ = ("_beginning", "_may_think", "_refusal_end", "_starts", "_thought_ends", "_unless",
                 "_wrappers", "awaits_thought", "channel", "end", "folds", "has_headers",
                 "is_fresh", "is_quoted", "leading", "markers", "reasoning")  # fmt: skip

    def __init__(
        self, syntax: Syntax, reasoning: Reasoning | None, wrappers: Iterable[Wrapper]
    ) -> None:
        own = reasoning.wrappers if reasoning is not None else ()
        self.channel: Channel | None = None
        self.is_fresh = False  # nothing but white space was shown in the channel
        self.awaits_thought = reasoning is not None  # nothing has come that is not one
        self.reasoning = reasoning
        self.folds = syntax.folds
        self.end = ""  # the end marker that still belongs to the last call
        self.leading: tuple[str, ...] = tuple(getattr(syntax, "leading", ()))
        self.has_headers = hasattr(syntax, "opened_in")  # its markers open messages, too
        self._beginning = (syntax.starts, self.leading)
        self._starts = syntax.starts
        self._unless: str = getattr(syntax, "unless", "")
        self.is_quoted: Callable[[str], bool] | None = getattr(syntax, "is_quoted", None)
        self._wrappers = _places((*wrappers, *own))
        self._may_think = reasoning is not None and not reasoning.leading
        self._thought_ends: tuple[str, ...] = ()  # those of a thought that a call has ended
        self._refusal_end = ""
        self.markers = self._gather()

    @property
    def kind(self) -> Kind:
        """What text is here."""
        return "text" if self.channel is None else self.channel.kind

    @property
    def may_call(self) -> bool:
        """Whether a call may begin here."""
        return self.channel is None or self.channel.interrupted

    @property
    def _openers(self) -> tuple[str, ...]:
        """The markers that open a body here."""
        channel = self.channel
        if channel is None:
            return self._starts
        return (channel.opens or self._starts) if channel.interrupted else ()

    def role_of(self, marker: str) -> MarkerRole:
        """Return what *marker* does here; only those of `markers` do anything."""
        channel = self.channel
        if self._refusal_end and marker == self._refusal_end:
            return MarkerRole.REFUSAL_END
        if marker in self._openers:
            return MarkerRole.CALL
        if marker == self.end or marker in self._thought_ends:
            return MarkerRole.STRAY
        if channel is not None and marker in channel.ends:
            return MarkerRole.CHANNEL_END
        if marker in self._wrappers:
            return MarkerRole.WRAPPER
        return MarkerRole.THOUGHT if channel is None else MarkerRole.CHANNEL_START

    def place_of(self, wrapper: str) -> Place:
        """Return where *wrapper* says nothing."""
        return self._wrappers[wrapper]

    def opened_by(self, start: str) -> Channel:
        """Return the channel of the thought that *start* opens; in some styles it depends."""
        assert self.reasoning is not None  # noqa: S101 - without it no thought begins
        give: Callable[[str], Channel] | None = getattr(self.reasoning, "opened_by", None)
        return self.reasoning.channel if give is None else give(start)

    # --- what changes it ---

    def think(self, channel: Channel) -> None:
        """Begin a thought."""
        self.awaits_thought = False
        self._may_think = self.reasoning is not None and self.reasoning.recurs
        self.enter(channel)

    def enter(self, channel: Channel | None) -> None:
        """Go to a channel, or out of all of them."""
        self.channel = channel
        self.is_fresh = channel is not None
        if channel is not None:
            self._thought_ends = ()
        self.refresh()

    def leave_beginning(self) -> None:
        """Note that something was said: no marker is the first thing any more."""
        if self.leading:
            self._starts = tuple(start for start in self._starts if start not in self.leading)
            self.leading = ()
            self.refresh()

    def begin_anew(self) -> None:
        """Note that what comes next is the first thing after all: a thought ended before it."""
        if self._beginning != (self._starts, self.leading):
            self._starts, self.leading = self._beginning
            self.refresh()

    def begin(self) -> None:
        """Note that the channel is fresh no more."""
        self.is_fresh = False
        self.refresh()

    def follow_call(self, end: str, *, has_ended_thought: bool) -> None:
        """Go on after a call; *end* may still come and belongs to it."""
        if has_ended_thought and self.channel is not None:
            self._thought_ends = self.channel.ends
            self.channel = None
        self.end = end
        self.refresh()

    def expect_refusal_end(self, end: str) -> None:
        """Look out for the end marker of a call that broke; none with an empty *end*."""
        self._refusal_end = end.lower() if self.folds else end
        self.refresh()

    def expect(self, end: str) -> None:
        """Look out for the end marker of the last call, which may still come."""
        self.end = end
        self.refresh()

    def drop(self, stray: str) -> None:
        """Expect a marker no more that has come and belonged to what was before."""
        if stray == self.end:
            self.end = ""
        else:
            self._thought_ends = ()
        self.refresh()

    def refresh(self) -> None:
        """Gather the markers that count now."""
        self.markers = self._gather()

    def _gather(self) -> Markers:
        channel, reasoning = self.channel, self.reasoning
        found = [*self._openers]
        found += [end for end in (self.end, self._refusal_end) if end]
        found += [*self._thought_ends, *self._wrappers]
        if channel is not None:
            found += [*channel.ends, *(channel.starts if self.is_fresh else ())]
        elif reasoning is not None and self._may_think:
            found += reasoning.starts
        guarded = self._openers if self._unless else ()
        if guarded and not self.folds:
            return scattered(*found, unless=self._unless, guarded=guarded)
        return markers(*found, fold=self.folds, unless=self._unless, guarded=guarded)


@lru_cache(maxsize=64)
def _places(wrappers: tuple[Wrapper, ...]) -> Mapping[str, Place]:
    """Return where each of *wrappers* says nothing; the answers of one format share it."""
    return {wrapper.marker: wrapper.where for wrapper in wrappers}
