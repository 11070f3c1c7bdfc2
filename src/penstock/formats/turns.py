"""Tokens that end a model's turn: some servers leave them in the text, and nobody means them.

They are never content. ``</s>`` is also a tag of HTML, so it counts only as the last thing.
"""

from __future__ import annotations

from typing import Final

from penstock.parsing.reasoning import Wrapper

TURN_ENDS: Final = (
    *map(
        Wrapper,
        (
            "<|im_end|>",
            "<|eot_id|>",
            "<|eom_id|>",
            "<|end_of_text|>",
            "<|observation|>",
            "<|user|>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
        ),
    ),
    Wrapper("</s>", "last"),
)
"""What ends a turn, whatever the model."""
