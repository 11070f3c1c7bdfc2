"""Which format a model writes, by its name.

A name comes in many spellings: a Hugging Face id, an Ollama tag, a GGUF file, a provider's own path
(``accounts/fireworks/models/llama-v3p1-8b``). A pattern of the table is a name as people write it;
it is found anywhere in the last part of the path, then anywhere in all of it, without regard to
case and to what is between its words and numbers. Its ends are ends of words and numbers:
``ling`` is not in ``linguist``, ``qwen3.5`` is neither in ``qwen3.50`` nor in ``qwen3-5b``.

The first row that fits counts, so the most specific names stand first: a fine-tune before the model
that it was made from, a version before its family. What the last column says is what the model's
chat template leaves at the end of the prompt where nobody asks for anything else, or what a model
that always thinks writes first: a marker that comes once more is dropped. A server that switches
thinking on or off leaves something else, and `from_template` reads it from the template.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, Unpack

from msgspec import Struct

from penstock.errors import UsageError
from penstock.events import ThinkingStart
from penstock.formats.base import Format, ParserOptions
from penstock.formats.parser import Parser
from penstock.formats.registry import get
from penstock.parsing import Reasoning

UNKNOWN: Final = "auto"
"""The format of a model that nobody knows: the text itself tells."""

MAX_NAME: Final = 512
"""How much of a model's name is looked at: from its end, where a path says the most."""


class ModelFormat(Struct, frozen=True):
    """What a model writes: a *format*, and a way to mark its reasoning.

    *format* and *reasoning* are what `Parser` takes; a *reasoning* of None is the format's own.
    *prompt_suffix* is what the model's template leaves at the end of the prompt, as far as it says
    how the answer begins. *pattern* is what was found in the model's name, empty where nothing was.
    """

    format: str | Format
    reasoning: str | Reasoning | None = None
    prompt_suffix: str = ""
    pattern: str = ""

    @property
    def opens_in_reasoning(self) -> bool:
        """Return whether an answer begins inside a thought that the prompt has opened."""
        if not self.prompt_suffix:
            return False
        return any(isinstance(event, ThinkingStart) for event in self.parser().feed("x"))

    def parser(self, tools: object = (), **options: Unpack[ParserOptions]) -> Parser:
        """Return a fresh parser for one answer of the model; the options are those of `Parser`."""
        options.setdefault("prompt_suffix", self.prompt_suffix)
        return Parser(self.format, tools, reasoning=self.reasoning, **options)


class _Row(Struct, frozen=True):
    """Models that write alike: *names* are patterns, where ``*`` is anything."""

    names: str
    format: str
    reasoning: str | None = None
    prompt_suffix: str = ""


_THINK: Final = "<think>\n"

_TABLE: Final = (
    # Fine-tunes, which carry the name of what they were made from.
    _Row("deephermes hermes nous-hermes", "hermes"),
    _Row("xlam", "xlam"),
    _Row("toolace watt-tool", "pythonic"),
    _Row("firefunction", "firefunction_v2"),
    _Row("functionary*v3.1", "functionary_v3_1"),
    _Row("functionary", "functionary_v3_2"),
    _Row("groq*tool-use", "hermes"),
    _Row("kimi-dev", "qwen25"),
    _Row("qwen3-nemotron", "qwen25", "qwen3"),
    _Row("nemotron-3", "nemotron_v3", None, _THINK),
    _Row("nemotron-nano*v2", "nemotron_toolcall", None, _THINK),
    _Row("nemotron-70b", "llama3_json"),
    _Row("nemotron-mini", UNKNOWN),  # its tags are its own
    _Row("nemotron", "nemotron_toolcall"),
    _Row("holo2", "qwen25", "holo2"),
    _Row("kimi-vl", UNKNOWN, "kimi"),
    # DeepSeek
    _Row("deepseek-r1", "deepseek_v3", "deepseek_r1", _THINK),
    _Row("deepseek*v4", "deepseek_v4"),
    _Row("deepseek*v3.2-exp", "deepseek_v31"),
    _Row("deepseek*v3.2-speciale", "deepseek_v32", None, "<think>"),
    _Row("deepseek*v3.2", "deepseek_v32"),
    _Row("deepseek*v3.1", "deepseek_v31"),
    _Row("deepseek*v3 deepseek*v2.5", "deepseek_v3"),
    _Row("deepseek-chat deepseek-reasoner", "deepseek_v32"),
    # Qwen, and those who write as it does
    _Row("qwen3-coder qwen3-next-coder", "qwen3_coder"),
    _Row("qwen3.5 qwen3.6 qwen3.7", "qwen3_coder", None, _THINK),
    _Row("qwen3*thinking", "qwen25", "qwen3", _THINK),
    _Row("qwen3", "qwen25", "qwen3"),
    _Row("qwq", "qwen25", "deepseek_r1", _THINK),
    _Row("qwen2.5 qwen2 smollm3 mimo-7b mimo-vl bielik reka-edge", "qwen25"),
    _Row("exaone-4 k-exaone cogito", "hermes"),
    # Llama
    _Row("llama-4", "llama4_pythonic"),
    _Row("llama-3.1 llama-3.2 llama-3.3", "llama3_json"),
    # Mistral
    _Row("magistral*2506", "magistral", "think"),
    _Row("magistral", "magistral"),
    _Row("mistral-small-3.2 mistral-small*2506 mistral-small-4 mistral-large-3", "mistral_args"),
    _Row("ministral-3 devstral", "mistral_args"),
    _Row("mistral-medium-3", "mistral_v11"),
    _Row("mistral mixtral ministral pixtral codestral", "mistral_array"),
    # Google
    _Row("functiongemma", "functiongemma"),
    _Row("gemma-4", "gemma4"),
    _Row("gemma-3n gemma-3 gemma-2", "gemma"),
    # IBM
    _Row("granite-20b-functioncalling", "granite_20b_fc"),
    _Row("granite-4", "granite4"),
    _Row("granite*code", UNKNOWN),
    _Row("granite-3.3", "granite", "ernie45"),  # reasoning and answers between the same tags
    _Row("granite-3 granite", "granite"),
    # Cohere
    _Row("command-r7b", "command_r7b"),
    _Row("command-r", "command_r_plus"),
    _Row("command-a-reasoning command-a-plus", "cohere_command", None, "<|START_THINKING|>"),
    _Row("command-a", "cohere_command"),
    # Moonshot
    _Row("kimi-k3", "kimi_k3", None, "<|open|>think<|sep|>"),
    _Row("kimi-k2-thinking kimi-k2.5 kimi-k2.6", "kimi_k2", None, "<think>"),
    _Row("kimi-k2 kimi-linear", "kimi_k2"),
    # Z.ai, Ant and others who write as GLM does
    _Row("glm-4.7 glm-5", "glm47", None, "<think>"),
    _Row("glm-4.5 glm-4.6 glm-4.5v", "glm45"),
    _Row("ling-3 ring-3", "ling3", None, "<think>"),
    _Row("ling ring", "qwen25"),
    _Row("laguna poolside", "poolside_v1"),
    # MiniMax
    _Row("minimax-m3", "minimax_m3"),
    _Row("minimax-m2", "minimax_m2", None, _THINK),
    _Row("minimax-m1", "minimax_m1"),
    # Tencent
    _Row("hunyuan-3 hunyuan-v3 hy3 hy-v3", "hy_v3"),
    _Row("hunyuan", "hunyuan_a13b"),
    _Row("apriel", "hunyuan_a13b", "think"),
    # StepFun
    _Row("step-3.5 step-3.7 stepfun-3.5 stepfun-3.7", "step3p5", None, _THINK),
    _Row("step-3", "step3", None, _THINK),
    # Everybody else
    _Row("gpt-oss", "harmony"),
    _Row("inkling", "inkling"),
    _Row("muse-glimmer muse", "muse_glimmer"),
    _Row("phi-4-mini", "phi4_mini_json"),
    _Row("olmo-3*think", "olmo3", None, "<think>"),
    _Row("olmo-3", "olmo3"),
    _Row("ernie-4.5*thinking", "ernie45", None, _THINK),
    _Row("ernie-4.5", "ernie45"),
    _Row("internlm intern-s1", "internlm"),
    _Row("gigachat", "gigachat3"),
    _Row("mimo", "mimo"),
    _Row("minicpm5", "minicpm5"),
    _Row("seed-oss", "seed_oss", None, "<seed:think>"),
    _Row("apertus", "apertus"),
    _Row("longcat", "longcat"),
    _Row("trinity", "trinity"),
    _Row("jamba", "jamba"),
    _Row("lfm2", "lfm2"),
    _Row("dots.ocr", UNKNOWN),
    _Row("dots", "dots"),
)


def for_model(name: str) -> ModelFormat:
    """Return what the model called *name* writes; one that nobody knows is left to ``auto``."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a model is text, not {type(name).__name__}")
    return _find(name[-MAX_NAME:].casefold())


@lru_cache(maxsize=256)
def _find(name: str) -> ModelFormat:
    spelled = _FRACTION.sub(".", name)
    for text in (spelled.rstrip("/").rpartition("/")[2], spelled):
        for pattern, regex, row in _patterns():
            if regex.search(text):
                return ModelFormat(row.format, _style_of(row), row.prompt_suffix, pattern)
    return ModelFormat(UNKNOWN)


def table() -> list[tuple[str, ModelFormat]]:
    """Return the rows in their order: the names of the models as one text, and what they write."""
    return [
        (row.names.replace(" ", ", "), ModelFormat(row.format, _style_of(row), row.prompt_suffix))
        for row in _TABLE
    ]


def _style_of(row: _Row) -> str | None:
    """Name the way to mark reasoning; None where the format's own has no name to give."""
    if row.reasoning is not None or row.format == UNKNOWN:
        return row.reasoning
    found = get(row.format)
    own = found.usual_reasoning if isinstance(found, Format) else None
    return None if own is None else own.name


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], _Row]]:
    return [(name, _regex(name), row) for row in _TABLE for name in row.names.split()]


def _regex(name: str) -> re.Pattern[str]:
    """Make a pattern of *name*: its words and numbers in their order, whatever is between them."""
    parts = _PART.findall(name)
    written = parts[0]
    for before, part in pairwise(parts):
        may_count = before.isalpha() and part.isdigit()
        between = ".*?" if "*" in (before, part) else _BETWEEN
        written += between + ("v?" if may_count and before != "v" else "") + part.strip("*")
    return re.compile(f"(?<![a-z]){written}{_NUMBER_END if parts[-1].isdigit() else '(?![a-z])'}")


_PART: Final = re.compile(r"[a-z]+|\d+|\*")
_BETWEEN: Final = "[^a-z0-9]*"
_NUMBER_END: Final = r"(?!\d|b(?![a-z]))"
"""What ends a number: no more digits, and it is not a count of parameters (``5b``)."""
_FRACTION: Final = re.compile(r"(?<=\d)p(?=\d)")
"""A point as some providers spell it: ``v3p1``."""
