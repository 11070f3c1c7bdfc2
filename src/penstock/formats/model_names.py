"""`for_model`: find the format that a model writes by the model's name.

Names come in many spellings: a Hugging Face id, an Ollama tag, a GGUF file, a provider's own path
(``accounts/fireworks/models/llama-v3p1-8b``). A pattern of the table is a name as people write it.
It is searched in the last part of the path, then in the whole path, without regard to case and to
the separators between words and numbers. It matches whole words and numbers: ``ling`` is not in
``linguist``, ``qwen3.5`` is neither in ``qwen3.50`` nor in ``qwen3-5b``. A ``+`` after the last
number matches that number and any higher one below 100, so that a new minor version is read like
the newest known one.

The first matching row counts, so specific names precede general ones: a fine-tune before its base
model, a version before its family. The last column is how the model's chat template ends the prompt
by default, or what a model that always reasons writes first: a start marker that the model repeats
is dropped. A server that switches thinking on or off ends the prompt differently; `from_template`
reads that from the template.
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
"""The format of a model without a row: it is detected from the text."""

MAX_NAME: Final = 512
"""How many characters at the end of a model's name are searched."""


class ModelFormat(Struct, frozen=True):
    """The format and the reasoning style of a model.

    *format*, *reasoning* and *prompt_suffix* are options of `Parser`; a *reasoning* of None means
    the format's own style. *prompt_suffix* is the end of the prompt, as far as it decides how the
    response begins. *pattern* is the pattern found in the model's name; empty if there is none.
    """

    format: str | Format
    reasoning: str | Reasoning | None = None
    prompt_suffix: str = ""
    pattern: str = ""

    @property
    def opens_in_reasoning(self) -> bool:
        """Whether a response begins inside reasoning that the prompt has opened."""
        if not self.prompt_suffix:
            return False
        return any(isinstance(event, ThinkingStart) for event in self.parser().feed("x"))

    def parser(self, tools: object = (), **options: Unpack[ParserOptions]) -> Parser:
        """Return a new parser for one response; the options are those of `Parser`."""
        options.setdefault("prompt_suffix", self.prompt_suffix)
        return Parser(self.format, tools, reasoning=self.reasoning, **options)


class _Row(Struct, frozen=True):
    """Models with the same format: *names* are patterns in which ``*`` matches anything."""

    names: str
    format: str
    reasoning: str | None = None
    prompt_suffix: str = ""


_THINK: Final = "<think>\n"

_TABLE: Final = (
    # Fine-tunes, whose names contain the name of their base model.
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
    _Row("deepseek*v4.1+", "deepseek_v41", None, "<think>"),
    _Row("deepseek*v4", "deepseek_v4"),
    _Row("deepseek*v3.2-exp", "deepseek_v31"),
    _Row("deepseek*v3.2-speciale", "deepseek_v32", None, "<think>"),
    _Row("deepseek*v3.2+", "deepseek_v32"),
    _Row("deepseek*v3.1", "deepseek_v31"),
    _Row("deepseek*v3 deepseek*v2.5", "deepseek_v3"),
    _Row("deepseek-chat deepseek-reasoner", "deepseek_v32"),
    # Qwen, and models with its templates
    _Row("qwen3-coder qwen3-next-coder", "qwen3_coder"),
    _Row("qwen3.5+ nanbeige", "qwen3_coder", None, _THINK),
    _Row("qwen3*thinking", "qwen25", "qwen3", _THINK),
    _Row("qwen3", "qwen25", "qwen3"),
    _Row("qwq", "qwen25", "deepseek_r1", _THINK),
    _Row("qwen2.5 qwen2 smollm3 mimo-7b mimo-vl bielik reka-edge", "qwen25"),
    _Row("berrylm kolibri-1 k-exaone-2 ui-tars", "qwen3_coder"),
    _Row("minicpm-v", "qwen3_coder", "minicpmv"),
    _Row("exaone-4 k-exaone cogito", "hermes"),
    # Llama
    _Row("llama-4", "llama4_pythonic"),
    _Row("llama-3.1+", "llama3_json"),
    # Mistral
    _Row("magistral*2506", "magistral", "think"),
    _Row("magistral", "magistral"),
    _Row("mistral-small-3.2+ mistral-small*2506 mistral-small-4 mistral-large-3", "mistral_args"),
    _Row("ministral-3 devstral", "mistral_args"),
    _Row("mistral-medium-3", "mistral_v11"),
    _Row("mistral mixtral ministral pixtral codestral", "mistral_array"),
    # Google
    _Row("functiongemma", "functiongemma"),
    _Row("gemma-4", "gemma4"),
    _Row("gemma-3n gemma-3 gemma-2", "gemma"),
    # IBM
    _Row("granite-20b-functioncalling", "granite_20b_fc"),
    _Row("granite-4.2+", "nemotron_v3", "granite_thinking", _THINK),
    _Row("granite-4", "granite4"),
    _Row("granite*code", UNKNOWN),
    _Row("granite-3.3", "granite", "ernie45"),  # reasoning and answers between the same tags
    _Row("granite-3 granite", "granite"),
    # Cohere
    _Row("command-5 cmd-5", "cohere_command5", None, "<|START_THINKING|>"),
    _Row("command-r7b", "command_r7b"),
    _Row("command-r", "command_r_plus"),
    _Row("command-a-reasoning command-a-plus", "cohere_command", None, "<|START_THINKING|>"),
    _Row("command-a", "cohere_command"),
    # Moonshot
    _Row("kimi-k3", "kimi_k3", None, "<|open|>think<|sep|>"),
    _Row("kimi-k2-thinking kimi-k2.5+", "kimi_k2", None, "<think>"),
    _Row("kimi-k2 kimi-linear", "kimi_k2"),
    # Z.ai, Ant and others with GLM's form
    _Row("glm-4.7+ glm-5", "glm47", None, "<think>"),
    _Row("glm-4.5 glm-4.6 glm-4.5v", "glm45"),
    _Row("spark-2.5+", "glm45"),
    _Row("iquest-q1", "iquest_q1", None, "<think>"),
    _Row("ling-3 ring-3", "ling3", None, "<think>"),
    _Row("ling ring", "qwen25"),
    _Row("laguna poolside", "poolside_v1"),
    # MiniMax
    _Row("minimax-m3", "minimax_m3"),
    _Row("minimax-m2", "minimax_m2", None, _THINK),
    _Row("minimax-m1", "minimax_m1"),
    # Tencent
    _Row("hunyuan-4+ hunyuan-v4+ hy4+ hy-v4+", "hy_v4"),
    _Row("hunyuan-3 hunyuan-v3 hy3 hy-v3", "hy_v3"),
    _Row("hunyuan", "hunyuan_a13b"),
    _Row("apriel-1.6+", "hunyuan_a13b", "apriel", "Here are my reasoning steps:\n"),
    _Row("apriel", "hunyuan_a13b", "apriel"),
    # StepFun
    _Row("step-5", "qwen3_coder", "deepseek_r1", _THINK),
    _Row("step-3.5+ stepfun-3.5+", "step3p5", None, _THINK),
    _Row("step-3", "step3", None, _THINK),
    # Others
    _Row("gpt-oss", "harmony"),
    _Row("k2-horizon k2-v3", "k2_horizon", None, "<ifm|think>"),
    _Row("plamo-3", "plamo3", None, "<|plamo:begin_think:plamo|>"),
    _Row("solar-open", "solar_open", None, "<|begin|>assistant"),
    _Row("sarashina", "sarashina"),
    _Row("inkling", "inkling"),
    _Row("muse-glimmer muse", "muse_glimmer"),
    _Row("phi-4-mini", "phi4_mini_json"),
    _Row("olmo-3*think", "olmo3", None, "<think>"),
    _Row("olmo-3", "olmo3"),
    _Row("ernie-4.5*thinking", "ernie45", None, _THINK),
    _Row("ernie-4.5", "ernie45"),
    _Row("internlm intern-s1", "internlm"),
    _Row("gigachat-3.5+", "gigachat35", None, _THINK),
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


def find_by_name(name: str) -> ModelFormat:
    """Return the format of the model *name*; ``auto`` for an unknown model."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a model must be a string, not {type(name).__name__}")
    return _find(name[-MAX_NAME:].casefold())


@lru_cache(maxsize=256)
def _find(name: str) -> ModelFormat:
    spelled = _FRACTION.sub(".", name)
    for text in (spelled.rstrip("/").rpartition("/")[2], spelled):
        for pattern, regex, row in _patterns():
            if regex.search(text):
                return ModelFormat(row.format, _reasoning_name(row), row.prompt_suffix, pattern)
    return ModelFormat(UNKNOWN)


def table() -> list[tuple[str, ModelFormat]]:
    """Return the rows in order: the patterns as one text, and the format."""
    return [
        (
            row.names.replace(" ", ", "),
            ModelFormat(row.format, _reasoning_name(row), row.prompt_suffix),
        )
        for row in _TABLE
    ]


def _reasoning_name(row: _Row) -> str | None:
    """Return the name of the row's reasoning style; None if the format reads reasoning itself."""
    if row.reasoning is not None or row.format == UNKNOWN:
        return row.reasoning
    found = get(row.format)
    own = found.usual_reasoning if isinstance(found, Format) else None
    return None if own is None else own.name


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], _Row]]:
    return [(name, _regex(name), row) for row in _TABLE for name in row.names.split()]


def _regex(name: str) -> re.Pattern[str]:
    """Compile *name*: its words and numbers in order, with any separators between them."""
    parts = _PART.findall(name)
    written = parts[0]
    for before, part in pairwise(parts):
        may_count = before.isalpha() and part.rstrip("+").isdigit()
        between = ".*?" if "*" in (before, part) else _BETWEEN
        number = rf"(?:[{part[0]}-9]|[1-9]\d)" if part.endswith("+") else part.strip("*")
        written += between + ("v?" if may_count and before != "v" else "") + number
    ends_in_number = parts[-1].rstrip("+").isdigit()
    return re.compile(f"(?<![a-z]){written}{_NUMBER_END if ends_in_number else '(?![a-z])'}")


_PART: Final = re.compile(r"[a-z]+|\d\+|\d+|\*")
_BETWEEN: Final = "[^a-z0-9]*"
# The end of a number: no more digits, and not a number of parameters (``5b``), of tokens (``32k``)
# or of bits (``4bit``, ``6bpw``).
_NUMBER_END: Final = r"(?!\d|[bk](?![a-z])|bit|bpw)"
# A decimal point as Fireworks spells it: ``v3p1``.
_FRACTION: Final = re.compile(r"(?<=\d)p(?=\d)")
