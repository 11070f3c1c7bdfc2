"""Where text is the model's reasoning and where it is its answer.

A `Reasoning` is how a model marks its thoughts; a `Channel` is a stretch of text of one kind that
the parser is in, whether a reasoning marker or the header of a message opened it. The parser has
one channel at a time; outside all of them text is text.
"""

from __future__ import annotations

from msgspec import Struct

from penstock.parsing.output import Kind


class Channel(Struct, frozen=True):
    """Text of one *kind*, up to one of *ends*.

    With *interrupted*, a call may begin inside and ends it; otherwise what looks like a call is
    text. A marker of *starts* is dropped where only white space came before it.
    """

    kind: Kind
    ends: tuple[str, ...]
    interrupted: bool = False
    starts: tuple[str, ...] = ()


class Reasoning(Struct, frozen=True):
    """Reasoning between *starts* and *ends*.

    With *leading* it is reasoning only where the start marker is the first thing of the answer, or
    the prompt ended with it. Unless it *recurs*, markers behind its end are text. With
    *interrupted*, a call ends it.
    """

    name: str
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    leading: bool = False
    recurs: bool = False
    interrupted: bool = False

    @property
    def channel(self) -> Channel:
        """The channel that a start marker opens."""
        return Channel("thinking", self.ends, self.interrupted, self.starts)

    def opened_in(self, prompt: str) -> str:
        """Give the end of *prompt* from its last start marker on; empty where it has none."""
        at = max(prompt.rfind(start) for start in self.starts)
        return prompt[at:] if at != -1 else ""
