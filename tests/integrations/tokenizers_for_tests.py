"""Tokenizers of the three kinds that models have, small and real."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

SPECIAL = ["<|im_start|>", "<|im_end|>", "<pad>", "<think>", "</think>", "<tool_call>"]
END, PAD = 1, 2
_PARTS = re.compile("(" + "|".join(re.escape(one) for one in SPECIAL) + ")")


class ByteTokenizer:
    """One token a byte, and one for each special token: characters are split over tokens."""

    eos_token_id: int | None = END

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        del add_special_tokens
        ids: list[int] = []
        for part in _PARTS.split(text):
            if part in SPECIAL:
                ids.append(SPECIAL.index(part))
            else:
                ids += [len(SPECIAL) + one for one in part.encode()]
        return ids

    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str:
        data = b""
        for one in ids:
            if one >= len(SPECIAL):
                data += bytes([one - len(SPECIAL)])
            elif not skip_special_tokens:
                data += SPECIAL[one].encode()
        return data.decode(errors="replace")


class WordTokenizer(ByteTokenizer):
    """One token a word with the space before it, which the first word of a text does not show."""

    def __init__(self) -> None:
        self.words = list(SPECIAL)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        del add_special_tokens
        ids = []
        for part in _PARTS.split(text):
            pieces = [part] if part in SPECIAL else re.findall(r" ?[^ ]+| ", part)
            for piece in pieces:
                if piece not in self.words:
                    self.words.append(piece)
                ids.append(self.words.index(piece))
        return ids

    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str:
        kept = [one for one in ids if not skip_special_tokens or one >= len(SPECIAL)]
        return "".join(self.words[one] for one in kept).removeprefix(" ")


def make_trained_tokenizer() -> Any:
    """Return a byte-level BPE of the package tokenizers, trained on a little text."""
    from tokenizers import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sample = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call> <function='
    made.train_from_iterator([sample, "The weather in the city of Oslo is fine. " * 3], trainer)
    return made
