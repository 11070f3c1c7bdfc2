"""The registry of formats, built-in and custom, by name.

Names are compared without regard to case, ``-``, ``_`` and ``.``. A custom format is a `Format`,
any object with the members of `AnyFormat`, or a function without parameters that makes either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

from msgspec import Struct

from penstock.errors import UsageError, fold_name, suggest
from penstock.formats.auto import AUTO
from penstock.formats.base import Format, TextParser
from penstock.formats.channels import FORMATS as CHANNELS
from penstock.formats.cohere import COHERE_COMMAND5
from penstock.formats.gemma4 import FORMATS as DELIMITED
from penstock.formats.json_calls import BARE_JSON, GEMMA, HERMES, JSON_TOOL, json_tool
from penstock.formats.json_models import FORMATS as JSON_MODELS
from penstock.formats.json_models import LEADING_FORMATS as JSON_LEADING
from penstock.formats.morph_xml import MORPH_XML, QWEN_WEB, YAML_XML
from penstock.formats.named_json import FORMATS as NAMED_JSON
from penstock.formats.parameter_models import FORMATS as PARAMETER_MODELS
from penstock.formats.parameter_tags import FORMATS as PARAMETER_TAGS
from penstock.formats.pythonic import FORMATS as PYTHONIC
from penstock.formats.pythonic import SARASHINA
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import FILE_TAGS, TOOL_TAG
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.parsing.body import Syntax
from penstock.tools import Tool


class NoCalls(Syntax, Struct, frozen=True):
    """The syntax of the format ``none``: responses are text and reasoning, without calls."""

    starts: tuple[str, ...] = ()
    folds: bool = False

    def body(self, marker: str) -> BodyReader:
        """Raise `UsageError`: the format has no start marker."""
        raise UsageError(f"the format 'none' has no start markers, got {marker!r}")

    def render_call(self, call: ToolCall) -> NoReturn:
        """Raise `UsageError`: the format has no calls."""
        raise UsageError(f"the format 'none' has no calls: cannot render a call of {call.name!r}")

    def render_result(self, result: ToolResult) -> NoReturn:
        """Raise `UsageError`: the format has no calls."""
        raise UsageError(
            f"the format 'none' has no calls: cannot render a result of {result.name!r}"
        )


NONE: Final[Format] = Format(name="none", calls=NoCalls())


BUILT_IN: Final[tuple[Format, ...]] = (
    HERMES,
    GEMMA,
    MORPH_XML,
    QWEN_WEB,
    YAML_XML,
    TOOL_TAG,
    FILE_TAGS,
    SENTINEL,
    JSON_TOOL,
    json_tool("openai"),
    json_tool("gemini"),
    BARE_JSON,
    *JSON_MODELS,
    *JSON_LEADING,
    *NAMED_JSON,
    *CHANNELS,
    *PYTHONIC,
    SARASHINA,
    COHERE_COMMAND5,
    *PARAMETER_TAGS,
    *PARAMETER_MODELS,
    *DELIMITED,
    AUTO,
    NONE,
)
"""The built-in formats, in the order in which `names` lists them."""

ALIASES: Final = {
    "json_mix": "hermes",
    "default": "hermes",
    "qwen": "qwen25",
    "qwen3": "qwen25",
    "qwen3_json": "qwen25",
    "qwen3_xml": "qwen3_coder",
    "qwen_xml": "qwen3_coder",
    "qwen_coder": "qwen3_coder",
    "qwen3_tagged": "qwen3_coder",
    "qwen3_tagged_direct": "qwen3_coder",
    "nanbeige": "qwen3_coder",
    "ui_tars": "qwen3_coder",
    "step5": "qwen3_coder",
    "nemotron": "nemotron_v3",
    "nemotron_nano": "nemotron_v3",
    "nemotron_deci": "nemotron_toolcall",
    "llama_nemotron": "nemotron_toolcall",
    "llama": "llama3_json",
    "llama3": "llama3_json",
    "llama4_json": "llama3_json",
    "mistral": "mistral_args",  # which reads the older forms too
    "mistral_v13": "mistral_args",
    "deepseek": "deepseek_v3",
    "deepseek31": "deepseek_v31",
    "deepseek32": "deepseek_v32",
    "glm": "glm45",
    "glm4": "glm45",
    "glm45_moe": "glm45",
    "glm47_moe": "glm47",
    "glm53": "glm47",
    "glm53_flash": "glm47",
    "spark25": "glm45",  # the same form without white space between key and value
    "ling": "ling3",
    "hunyuan": "hy_v3",
    "hy4": "hy_v4",
    "iquest": "iquest_q1",
    "apriel": "hunyuan_a13b",
    "kimi_k25": "kimi_k2",
    "minimax": "minimax_m1",
    "minimax_m3_nom": "minimax_m3",
    "gpt_oss": "harmony",
    "openai": "harmony",
    "openai_gptoss": "harmony",
    "muse": "muse_glimmer",
    "musespark1x": "muse_glimmer",
    "dots3": "dots",
    "interns1": "internlm",
    "apertus2509": "apertus",
    "cohere": "cohere_command",
    "cohere_command3": "cohere_command",
    "cmd3": "cohere_command",
    "cmd4": "cohere_command",
    "cmd5": "cohere_command5",
    "command5": "cohere_command5",
    "cohere_command4": "cohere_command",
    "lfm2.5": "lfm2",
    "phi4": "phi4_mini_json",
    "json": "bare_json",
    "passthrough": "none",
    "plain": "none",
    "hf": "auto",  # a template of the model's repository, which a name alone does not have
    "response_template": "auto",
}
"""Names of the same formats in vLLM, SGLang, smg, dynamo and the AI SDK middleware."""


@runtime_checkable
class AnyFormat(Protocol):
    """A format, built-in or custom: a name and five methods; `call_segments` is optional.

    `parse` and the parsers never raise on model text: text that is not a call is text.
    """

    @property
    def name(self) -> str:
        """The name to look the format up by."""

    def render_tools(self, tools: list[Tool], /) -> str:
        """Write the system prompt that lists *tools*."""

    def render_call(self, call: ToolCall, /) -> str:
        """Write *call* as a model writes it."""

    def render_result(self, result: ToolResult, /) -> str:
        """Write the result of a call."""

    def parse(self, text: str, tools: list[Tool], /) -> AssistantMessage:
        """Parse a whole response."""

    @property
    def parser(self) -> Callable[..., TextParser]:
        """The method that returns a new parser for one response.

        It takes the tools and any of the options of `penstock.Parser`.
        """


FormatLike = str | AnyFormat | Callable[[], AnyFormat]
"""A format, its name, or a function that makes it."""

_formats: dict[str, AnyFormat] = {}


def get(format: FormatLike) -> AnyFormat:  # noqa: A002 - the word of the whole interface
    """Return the format that *format* names, is, or makes.

    Raises `UsageError` for an unknown name and for an object that is not a format.
    """
    if isinstance(format, Format):  # `isinstance` with a protocol is slow.
        return format
    if not isinstance(format, str):
        return _make(format)
    key = fold_name(format)
    try:
        return _formats[_ALIASES.get(key, key)]
    except KeyError:
        hint = suggest(format, names()) or f"; expected one of {', '.join(names())}"
        raise UsageError(f"unknown format {format!r}{hint}") from None


def names() -> list[str]:
    """Return the names of all formats: built-in ones first, then those that were registered."""
    return [found.name for found in _formats.values()]


def register(format: AnyFormat | Callable[[], AnyFormat]) -> None:  # noqa: A002
    """Register a custom format under its name.

    Raises `UsageError` for an object that is not a format, and for the name of a built-in format.
    """
    made = _make(format)
    if not made.name:
        raise UsageError("a format needs a non-empty name")
    if _is_built_in(made.name):
        raise UsageError(f"{made.name!r} is a built-in format: choose another name")
    _formats[fold_name(made.name)] = made


def unregister(name: str) -> None:
    """Remove a custom format; built-in and unknown names are ignored."""
    if not _is_built_in(name):
        _formats.pop(fold_name(name), None)


def _is_built_in(name: str) -> bool:
    return fold_name(name) in _ALIASES or any(
        fold_name(name) == fold_name(own.name) for own in BUILT_IN
    )


def _make(format: Any) -> AnyFormat:  # noqa: A002
    made = (
        format()
        if isinstance(format, type) or (not isinstance(format, AnyFormat) and callable(format))
        else format
    )
    if not isinstance(made, AnyFormat):
        raise UsageError(f"expected a format (a name and five methods), got {type(made).__name__}")
    return made


_ALIASES: Final = {fold_name(alias): fold_name(name) for alias, name in ALIASES.items()}
_formats.update({fold_name(own.name): own for own in BUILT_IN})
