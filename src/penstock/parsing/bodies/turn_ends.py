"""Tokens that end a turn, where they appear inside or after a call."""

from __future__ import annotations

from typing import Any, Final

TURN_ENDS: Final = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001 - the token is spelled so
    "<|end_of_text|>",
    "<|observation|>",
    "<|user|>",
)
"""Tokens that end a turn: what follows is as good as nothing."""

LAST_TURN_END: Final = "</s>"
"""Another one, but only where it is the last thing of all: elsewhere it is HTML."""


def without_turn_end(text: str) -> str:
    """Return *text* without the tokens that end the turn, if it ends with any."""
    bare = text.rstrip()
    while (token := next(filter(bare.endswith, (*TURN_ENDS, LAST_TURN_END)), "")) != "":
        text = bare.removesuffix(token)
        bare = text.rstrip()
    return text


def without_turn_end_in(value: Any) -> Any:
    """Return *value* without the token that ends the turn in the string that ends it."""
    if isinstance(value, str):
        return without_turn_end(value)
    if isinstance(value, list) and value:
        return [*value[:-1], without_turn_end_in(value[-1])]
    if isinstance(value, dict) and value:
        key = list(value)[-1]
        return {**value, key: without_turn_end_in(value[key])}
    return value
