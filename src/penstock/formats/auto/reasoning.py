"""Thoughts in any style: the marker that opens one says how it ends."""

from __future__ import annotations

from typing import Final

from penstock.formats.thinking import STYLES
from penstock.parsing import Channel, Reasoning


class AnyReasoning(Reasoning, frozen=True):
    """Reasoning in any of *styles*, where it is the first thing of an answer."""

    styles: tuple[Reasoning, ...] = ()

    def opened_by(self, start: str) -> Channel:
        """Give the channel that *start* opens."""
        return next(style for style in self.styles if start in style.starts).channel

    def opened_in(self, prompt: str) -> tuple[str, Channel] | None:
        """Give what *prompt* says behind the last marker that opens a thought, and its channel."""
        at, style = max(
            ((prompt.rfind(start), style) for style in self.styles for start in style.starts),
            key=lambda found: found[0],
        )
        return None if at == -1 else style.opened_in(prompt[at:])


_STYLES: Final = tuple(
    STYLES[name]
    for name in (
        "qwen3", "hy_v3", "seed_oss", "minimax_m3", "kimi",
        "mistral", "gemma4", "apertus", "cohere_command", "granite",
    )
)  # fmt: skip

ANY: Final = AnyReasoning(
    "any",
    tuple(dict.fromkeys(start for style in _STYLES for start in style.starts)),
    (),
    leading=True,
    styles=_STYLES,
)
"""Every style whose marker says which one it is."""
