"""Special tokens of models: they end a turn or begin the next one, and are never content.

A server that does not skip special tokens leaves them in the text, also those of another family of
models. A call that the turn ended inside of must not have them in an argument.
"""

from __future__ import annotations

import re
from typing import Final

TURN_ENDS: Final = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|observation|>",
    "<|user|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""Tokens that are never content. ``<|user|>`` and ``<|observation|>`` begin the next turn."""

LAST_TURN_END: Final = "</s>"
"""Another one, but only as the last thing of the response: elsewhere it is HTML."""

LAST_TURN_ENDS: Final = (
    *(LAST_TURN_END, "<s>", "<eos>", "<pad>", "<EOT>", "<|EOT|>", "<|eod|>", "<|eos|>", "<|eom|>"),
    *("<|endoftext|>", "<|eot|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>"),
    *("<turn|>", "<|endofturn|>", "<|end_of_turn|>", "<|turn_end|>", "<|END_OF_TURN_TOKEN|>"),
    *("<|endofmessage|>", "<|end_of_message|>", "<|end_of_sentence|>", "<|message_sep|>"),
    *("<|end_of_role|>", "<|assistant_end|>", "<|role_end|>", "<|content_end|>", "<seed:eos>"),
    *("<|END_RESPONSE|>", "<[EOS]>", "<|ifm|im_end|>", "<|iquest_user|>", "<longcat_user>"),
    *("<|plamo:tag|>", "<\uff5cUser\uff5c>", "<\uff5chy_EOS\uff5c>", "<|hy_eos|>", "<|sep|>"),
    *("<|separator|>", "<|eos_token|>", "<|tool_response>", "<start_function_response>"),
    *("<channel|>", "<|tr|>", "<|channel>", "<|im_start|>", "<|calls|>", "<|end_message|>"),
    *("<|flush|>", "<|endofresponse|>", "<|im_assistant|>", "<|stop|>", "</longcat_s>"),
    *("<end_of_sentence>", "<|eod_id|>", "<|end_of_solution|>", "<_end>"),
    *("<|end_of_msg|>", "<eod>", "<|endofprompt|>", "<|fim_pad|>"),
    "<|content_model_end_sampling|>",
)
"""Tokens that are not content as the last thing of the response: texts about models mention them.

All begin with ``<``: a second first character makes the search in plain text 15 times slower.
"""

_WORDS: Final = (
    r"end_of_turn|start_of_turn|turn\||channel\||eos|EOT|\[EOS\]|seed:[eb]os|longcat_user"
)

CONTROL_TOKEN: Final = (
    rf"<(?:\|[\w:|\-]{{1,40}}+(?<=\|)|\uff5c[\w\u2581\-]{{1,40}}+\uff5c|{_WORDS})>"
)
"""A special token of a model, such as the one that ends its turn; it is never part of JSON."""

_LAST: Final = re.compile(
    rf"\s*+(?:{CONTROL_TOKEN}|{'|'.join(map(re.escape, LAST_TURN_ENDS))}|\[/INST\]|\[e~\[)\Z"
)
_ANY: Final = re.compile(
    rf"{CONTROL_TOKEN}|<\|[\w\-]{{1,40}}+>|<start_function_response>|\[/INST\]|\[e~\["
)
MAX_TOKEN: Final = 64
"""The maximum length of a token, with the white space before it."""


def without_turn_end(text: str, *own: str) -> str:
    """Return *text* without the tokens that end the turn, if it ends with any.

    White space after them is removed, too. Tokens that are part of one of *own*, the markers of a
    format, are kept.
    """
    while True:
        bare = text.rstrip()
        found = _LAST.search(bare, max(0, len(bare) - MAX_TOKEN))
        token = found[0].strip() if found else ""
        if not token or any(token in marker for marker in own):
            return text
        if token == LAST_TURN_END and "<s>" in bare:
            return text  # It closes an element.
        text = bare.removesuffix(token)


def has_control_token(text: str) -> bool:
    """Return whether *text* has a special token of a model."""
    return _ANY.search(text) is not None
