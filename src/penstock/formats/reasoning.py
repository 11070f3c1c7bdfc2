"""Reasoning styles: how models mark their reasoning.

Most write ``<think>`` … ``</think>`` and differ in details: whether a call ends the reasoning,
whether newlines next to its end are content, which tags enclose the answer. The names
are those of vLLM and SGLang.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import UsageError, fold_name, suggest
from penstock.parsing import Channel, Reasoning
from penstock.parsing.body import Wrapper

THINK: Final = Reasoning("think", ("<think>",), ("</think>",), leading=True)
"""The default for models without a known style: one block at the start of the output."""


class SuffixedReasoning(Reasoning, frozen=True):
    """Reasoning whose tags carry the tokenizer's suffix, as in ``<think:opensource>``.

    A prompt may open it with any suffix; *starts* and *ends* are those that models write without.
    """

    def parse_prompt(self, prompt: str) -> tuple[str, Channel] | None:
        """Return the text of *prompt* after its last start marker, and the channel it opens."""
        found = list(_SUFFIXED.finditer(prompt))
        if not found:
            return None
        last = found[-1]
        ends = dict.fromkeys((*self.ends, f"</think{last[1]}>"))
        return prompt[last.end() :], self._channel(tuple(ends))


_SUFFIXED: Final = re.compile(r"<think((?::[^<>\s]{1,64})?)>")


def _tags(name: str, *, interrupted: bool = False, newlines: int = 0) -> Reasoning:
    """Return a style with the usual tags."""
    return Reasoning(name, ("<think>",), ("</think>",), interrupted=interrupted, newlines=newlines)


# With these a call inside of reasoning stays reasoning; with those of `_INTERRUPTED` the marker of
# a call ends it. The latter are the models that were seen to call tools without closing <think>,
# and that vLLM or SGLang read so.
_USUAL: Final = (
    *("deepseek_r1", "deepseek_v3", "step3", "olmo3", "holo2"),
    *("mimo", "dots", "interns1", "poolside_v1", "iquest_q1", "gigachat35"),
)
_INTERRUPTED: Final = (
    *("qwen3", "nemotron_v3", "glm45", "glm47", "ling3", "kimi_k2"),
    *("minimax_m2", "deepseek_v4", "deepseek_v41", "trinity"),
)
# The reasoning tags of K2-Horizon for high, medium and low effort.
_K2_HORIZON: Final = ("think", "think_fast", "think_faster")

# Suffixes of the tags in released checkpoints of Hunyuan.
_HUNYUAN: Final = ("opensource", "6124c78e")

STYLES: Final = {
    style.name: style
    for style in (
        THINK,
        *(_tags(name) for name in _USUAL),
        *(_tags(name, interrupted=True) for name in _INTERRUPTED),
        _tags("step3p5", newlines=1),
        # The markers of Kimi-VL-Thinking; U+25C1 and U+25B7 are in no other model's.
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
        # The prompt opens <think> and clients want the tags in the content: vLLM and SGLang prepend
        # the tag and separate nothing.
        Reasoning("minimax_append_think", (), (), preface="<think>"),
        SuffixedReasoning(
            "hy_v3",
            ("<think>", *(f"<think:{suffix}>" for suffix in _HUNYUAN)),
            ("</think>", *(f"</think:{suffix}>" for suffix in _HUNYUAN)),
            interrupted=True,
        ),
        SuffixedReasoning(
            "hy_v4",
            ("<think>", *(f"<think:{suffix}>" for suffix in _HUNYUAN)),
            ("</think>", *(f"</think:{suffix}>" for suffix in _HUNYUAN)),
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
            # Plain sentences, so they count only at the start of the response, in either spelling.
            "granite",
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
            leading=True,
        ),
        # Apriel 1.5 writes the first line itself, the prompt of 1.6 ends with it. The answer ends
        # with a marker in 1.5 and without one in 1.6; calls follow it.
        Reasoning(
            "apriel",
            ("Here are my reasoning steps:",),
            ("[BEGIN FINAL RESPONSE]",),
            leading=True,
            newlines=1,
            wrappers=(
                Wrapper("\n[END FINAL RESPONSE]"),
                Wrapper("[END FINAL RESPONSE]"),
                Wrapper("<|end|>"),
            ),
        ),
        # Granite 4.2 drops all newlines after the end; longer runs do not occur.
        _tags("granite_thinking", interrupted=True, newlines=8),
        Reasoning(
            # The tokenizer has reserved tokens that must never be shown.
            "minicpmv",
            ("<think>",),
            ("</think>",),
            wrappers=tuple(
                Wrapper(token)
                for number in range(12, 16)
                for token in (f"<reserved_{number}>", f"<|reserved_{number}|>")
            ),
        ),
        Reasoning(
            "k2_horizon",
            tuple(f"<ifm|{word}>" for word in _K2_HORIZON),
            tuple(f"</ifm|{word}>" for word in _K2_HORIZON),
            interrupted=True,
        ),
        # vLLM drops a stray end marker of PLaMo 3 in content too.
        Reasoning(
            "plamo3",
            ("<|plamo:begin_think:plamo|>",),
            ("<|plamo:end_think:plamo|>",),
            interrupted=True,
            wrappers=(
                Wrapper("<|plamo:begin_think:plamo|>"),  # once more inside of reasoning
                Wrapper("<|plamo:end_think:plamo|>"),
                Wrapper("<|plamo:tag|>"),
            ),
        ),
        # Each message of Solar Open has a kind: <|think|>, <|content|> or <|tool_calls|>.
        Reasoning(
            "solar_open",
            ("<|think|>",),
            ("<|end|>",),
            recurs=True,
            wrappers=(Wrapper("<|begin|>assistant"), Wrapper("<|content|>"), Wrapper("<|end|>")),
        ),
        # Magistral thinks again after a call. [TOOL_CALLS] inside of reasoning is reasoning.
        Reasoning("mistral", ("[THINK]",), ("[/THINK]",), recurs=True),
        Reasoning(
            "gemma4",
            ("<|channel>thought\n",),
            ("<channel|>",),
            # Channels that are empty, without their line break or without their name.
            wrappers=tuple(
                Wrapper(f"<|channel>{name}<channel|>") for name in ("thought", "final", "\n", "")
            ),
        ),
        Reasoning("apertus", ("<|inner_prefix|>",), ("<|inner_suffix|>",)),
        Reasoning(
            # The prompt opens the reasoning; a TEXT, RESPONSE or ACTION block follows.
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
"""Every style by name."""

NONE: Final = "none"
"""The name that disables reasoning: the whole response is text."""

OWN: Final = ("harmony", "inkling", "kimi_k3", "muse_glimmer", "beam")
"""Formats that read reasoning themselves: as a style, their name means the format's own."""

USUAL: Final = "usual"
"""What a name means that asks for the usual style of the format."""

ALIASES: Final = {
    "base": "deepseek_r1",
    "basic": "deepseek_r1",
    "deepseek": "deepseek_r1",  # as llama.cpp's --reasoning-format
    "deepseek_legacy": "deepseek_r1",
    "step5": "deepseek_r1",
    "deepseek_v31": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "qwen3_thinking": "qwen3",
    "qwen3_coder": "qwen3",
    "qwen3_tagged": "qwen3",
    "qwen3_tagged_direct": "qwen3",
    "nanbeige": "qwen3",
    "nemotron3": "nemotron_v3",
    "nemotron_nano": "nemotron_v3",
    "nemotron_deci": "nemotron_v3",
    "nano_v3": "nemotron_v3",
    "glm": "glm45",
    "glm4": "glm45",
    "ling": "ling3",
    "kimi_k25": "kimi_k2",
    "kimi_thinking": "kimi_k2",
    "minimax": "minimax_m2",
    "minimax_m2_append_think": "minimax_append_think",
    "hunyuan": "hy_v3",
    "hy4": "hy_v4",
    "iquest": "iquest_q1",
    "dots3": "dots",
    "granite_thinking_parser": "granite_thinking",
    "mistral_v13": "mistral",
    "apertus2509": "apertus",
    "cohere_cmd": "cohere_command",
    "cohere_command3": "cohere_command",
    "cohere_command4": "cohere_command",
    "cohere_command5": "cohere_command",
    "gpt_oss": "harmony",
    "openai_gptoss": "harmony",
    "muse": "muse_glimmer",
    "musespark1x": "muse_glimmer",
    **dict.fromkeys(("hf", "response_template", "auto"), USUAL),
    "lfm2.5": "think",
    "minicpm5": "think",
    "llama_nemotron": "think",
    **dict.fromkeys(("passthrough", "plain", "json", "xlam", "qwen2.5", "function_gemma"), NONE),
}
"""Names of the same styles in vLLM, SGLang, smg, dynamo and llama.cpp."""


_FOLDED: Final = {
    **{fold_name(alias): name for alias, name in ALIASES.items()},
    **{fold_name(name): name for name in (NONE, *OWN, *STYLES)},
}


def own_format(wanted: str | Reasoning | None) -> str | None:
    """Return the format that the style *wanted* is a part of; None for any other style."""
    name = _FOLDED.get(fold_name(wanted)) if isinstance(wanted, str) else None
    return name if name in OWN else None


def find_reasoning(usual: Reasoning | None, wanted: str | Reasoning | None) -> Reasoning | None:
    """Return the *wanted* style, given by name or as an object; None means the *usual* one.

    Raises `UsageError` for an unknown name.
    """
    if wanted is None:
        return usual
    if isinstance(wanted, Reasoning):
        return wanted
    name = _FOLDED.get(fold_name(wanted))
    if name is None:
        known = sorted([NONE, *OWN, *STYLES])
        hint = suggest(wanted, known) or f"; expected one of {', '.join(known)}"
        raise UsageError(f"unknown reasoning style {wanted!r}{hint}")
    if name in OWN or name == USUAL:
        return usual
    return None if name == NONE else STYLES[name]
