"""Text and thinking of a provider that marks no blocks: one passage at a time.

What comes is more of the open passage if it is of the same kind; else that one ends and another
begins.
"""

from __future__ import annotations

from penstock.apis.passages import Passage
from penstock.apis.transcript import Transcript


class Speech:
    """The passage that is open, if one is."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._passage: Passage | None = None

    def say(self, text: object) -> None:
        """Add *text* to the answer; what is no text, or empty, says nothing."""
        if isinstance(text, str) and text:
            self._open(is_text=True).add(text)

    def think(self, text: object) -> None:
        """Add *text* to the thoughts; what is no text, or empty, says nothing."""
        if isinstance(text, str) and text:
            self._open(is_text=False).add(text)

    def sign(self, signature: object, *, is_text: bool) -> None:
        """Sign the open passage, if it is of this kind; the last signature counts."""
        passage = self._passage
        if isinstance(signature, str) and signature and passage and passage.is_text == is_text:
            passage.signature = signature

    def close(self) -> None:
        """End the open passage."""
        if self._passage is not None:
            self._passage.close()
            self._passage = None

    @property
    def is_open(self) -> bool:
        """Whether a passage is open."""
        return self._passage is not None

    def _open(self, *, is_text: bool) -> Passage:
        passage = self._passage
        if passage is None or passage.is_text != is_text:
            self.close()
            make = self._transcript.text if is_text else self._transcript.thinking
            passage = self._passage = make()
        return passage
