"""How models mark their reasoning, by name.

Most write ``<think>`` … ``</think>`` and differ in small things: whether a call ends the thought,
whether newlines next to its end count, what stands around the answer.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import UsageError
from penstock.parsing import Channel, Reasoning
from penstock.parsing.reasoning import Wrapper

# Tokens that end a model's turn: some servers leave them in the text, and nobody means them.
#
# They are never content. ``</s>`` is also a tag of HTML, so it counts only as the last thing.


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


THINK: Final = Reasoning("think", ("<think>",), ("</think>",), leading=True)
"""What a model writes that is known for no other way: once, and first of all."""


class SuffixedReasoning(Reasoning, frozen=True):
    """Reasoning whose tags share a suffix that the tokenizer chooses, as in ``<think:name>``.

    A prompt may open it with any; *starts* and *ends* are those that models write by themselves.
    """

    def opened_in(self, prompt: str) -> tuple[str, Channel] | None:
        """Return what *prompt* says after the last marker that opens a thought, and its channel."""
        found = list(_SUFFIXED.finditer(prompt))
        if not found:
            return None
        last = found[-1]
        ends = dict.fromkeys((*self.ends, f"</think{last[1]}>"))
        return prompt[last.end() :], self._channel(tuple(ends))


_SUFFIXED: Final = re.compile(r"<think((?::[^<>\s]{1,64})?)>")


def _tags(name: str, *, interrupted: bool = False, newlines: int = 0) -> Reasoning:
    """Return the usual tags under the *name* of a model."""
    return Reasoning(name, ("<think>",), ("</think>",), interrupted=interrupted, newlines=newlines)


_USUAL: Final = (
    *("deepseek_r1", "deepseek_v3", "step3", "olmo3", "holo2"),
    *("mimo", "dots", "interns1", "poolside_v1"),
)
_INTERRUPTED: Final = (
    *("qwen3", "nemotron_v3", "glm45", "glm47", "ling3", "kimi_k2"),
    *("minimax_m2", "deepseek_v4", "trinity"),
)

STYLES: Final = {
    style.name: style
    for style in (
        THINK,
        *(_tags(name) for name in _USUAL),
        *(_tags(name, interrupted=True) for name in _INTERRUPTED),
        _tags("step3p5", newlines=1),
        Reasoning("kimi", ("◁think▷",), ("◁/think▷",)),
        Reasoning("seed_oss", ("<seed:think>",), ("</seed:think>",), interrupted=True),
        Reasoning(
            "ernie45",
            ("<think>",),
            ("</think>",),
            newlines=2,
            wrappers=(
                Wrapper("<response>", "first"),
                Wrapper("\n</response>", "last"),
                Wrapper("</response>", "last"),
            ),
        ),
        Reasoning(
            "minimax_m3",
            ("<mm:think>",),
            ("</mm:think>",),
            wrappers=(Wrapper("</mm:think>", "first"),),
        ),
        Reasoning("minimax_append_think", (), (), preface="<think>"),
        SuffixedReasoning(
            "hy_v3",
            ("<think>", "<think:opensource>"),
            ("</think>", "</think:opensource>"),
            interrupted=True,
        ),
        Reasoning(
            "hunyuan_a13b",
            ("<think>",),
            ("</think>",),
            newlines=2,
            wrappers=(
                Wrapper("<answer>", "first"),
                Wrapper("\n</answer>", "last"),
                Wrapper("</answer>", "last"),
            ),
        ),
        Reasoning(
            "granite",
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
            leading=True,
        ),
        Reasoning("mistral", ("[THINK]",), ("[/THINK]",), recurs=True),
        Reasoning("gemma4", ("<|channel>thought\n",), ("<channel|>",)),
        Reasoning("apertus", ("<|inner_prefix|>",), ("<|inner_suffix|>",)),
        Reasoning(
            "cohere_command",
            ("<|START_THINKING|>",),
            ("<|END_THINKING|>",),
            wrappers=(
                Wrapper("<|START_TEXT|>"),
                Wrapper("<|END_TEXT|>"),
                Wrapper("<|START_RESPONSE|>"),
                Wrapper("<|END_RESPONSE|>"),
            ),
        ),
    )
}
"""Every style by its name."""

NONE: Final = "none"
"""The name that switches reasoning off: all of the answer is text."""


def reasoning_of(usual: Reasoning | None, wanted: str | Reasoning | None) -> Reasoning | None:
    """Return the style that is *wanted*, by name or as it is; None asks for the *usual* one.

    Raises `UsageError` for a name that nobody has.
    """
    if wanted is None:
        return usual
    if isinstance(wanted, Reasoning):
        return wanted
    if wanted == NONE:
        return None
    try:
        return STYLES[wanted]
    except KeyError:
        known = ", ".join(sorted([NONE, *STYLES]))
        raise UsageError(f"no reasoning style is called {wanted!r}; there are {known}") from None
