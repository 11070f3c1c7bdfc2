"""Where text is the model's reasoning, where it is its answer, and where it is neither.

A `Reasoning` is how a model marks its reasoning; a `Channel` is a stretch of text of one kind that
the parser is in, whether a reasoning marker or the header of a message opened it. The parser has
one channel at a time; outside all of them text is text. A `Wrapper` is a marker that says nothing:
it stands around an answer or after a turn.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from penstock.parsing.output import Kind


class Channel(Struct, frozen=True):
    """Text of one *kind*, up to one of *ends*.

    With *interrupted*, a call may begin inside and ends it; otherwise what looks like a call is
    text. With *opens*, only these markers open a body inside. A marker of *starts* is dropped where
    only white space came before it. Up to *newlines* are dropped after its end.
    """

    kind: Kind
    ends: tuple[str, ...]
    interrupted: bool = False
    starts: tuple[str, ...] = ()
    newlines: int = 0
    opens: tuple[str, ...] = ()


class Wrapper(Struct, frozen=True):
    """A *marker* that is not a content: anywhere, as the first thing said, or as the last."""

    marker: str
    where: Literal["anywhere", "first", "last"] = "anywhere"


class Reasoning(Struct, frozen=True):
    """Reasoning between *starts* and *ends*.

    With *leading* it is reasoning only where the start marker is the first thing of the answer, or
    the prompt ended with it. Unless it *recurs*, markers after its end are text. With
    *interrupted*, a call ends it. Up to *newlines* on either side of its end are nobody's, and so
    are the *wrappers* of the answer. *preface* is text that the answer lacks.
    """

    name: str
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    leading: bool = False
    recurs: bool = False
    interrupted: bool = False
    newlines: int = 0
    wrappers: tuple[Wrapper, ...] = ()
    preface: str = ""

    @property
    def channel(self) -> Channel:
        """The channel that a start marker opens."""
        return self._channel(self.ends)

    def opened_in(self, prompt: str) -> tuple[str, Channel] | None:
        """Return what *prompt* says after the last marker that opens a thought, and its channel.

        Any model may be prompted with ``<think>``, whatever it writes by itself.
        """
        starts = (*self.starts, _USUAL_START)
        at, start = max((prompt.rfind(start), start) for start in starts)
        if at == -1:
            return None
        is_own = start in self.starts
        channel = self.channel if is_own else self._channel((_USUAL_END, *self.ends))
        return prompt[at + len(start) :], channel

    def _channel(self, ends: tuple[str, ...]) -> Channel:
        sizes = range(self.newlines, -1, -1)
        padded = tuple("\n" * size + end for end in ends for size in sizes)
        return Channel("thinking", padded, self.interrupted, self.starts, self.newlines)


_USUAL_START = "<think>"
_USUAL_END = "</think>"
