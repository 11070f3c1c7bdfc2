"""Formats by name, penstock's own and the user's.

A name is looked up without regard to case, ``-`` and ``_``. A user's own format is a `Format`, any
object with a name and the five methods of one, or a function without parameters that makes either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.auto import AUTO
from penstock.formats.base import Format, TextParser
from penstock.formats.channels import FORMATS as CHANNELS
from penstock.formats.file_tags import FILE_TAGS
from penstock.formats.gemma4 import FORMATS as DELIMITED
from penstock.formats.json_calls import BARE_JSON, GEMMA, HERMES, JSON_TOOL, json_tool
from penstock.formats.json_models import FORMATS as JSON_MODELS
from penstock.formats.json_models import LEADING_FORMATS as JSON_LEADING
from penstock.formats.morph_xml import MORPH_XML, QWEN_WEB
from penstock.formats.named_json import FORMATS as NAMED_JSON
from penstock.formats.parameter_tags import FORMATS as PARAMETER_TAGS
from penstock.formats.pythonic import FORMATS as PYTHONIC
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.tools import Tool

# No calls at all: what a model writes is text and thinking.


class NoCalls(Struct, frozen=True):
    """The syntax of answers without calls."""

    starts: tuple[str, ...] = ()
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> NoCalls:
        """Return itself: no tool can be called."""
        del tools
        return self

    def body(self, marker: str) -> BodyReader:
        """Never give a reader: nothing opens a call."""
        raise UsageError(f"nothing opens a call here, {marker!r} neither")

    def render_call(self, call: ToolCall) -> NoReturn:
        """Refuse: there is no way to write a call."""
        raise UsageError(f"the format `none` has no calls: {call.name!r} cannot be written")

    def render_result(self, result: ToolResult) -> NoReturn:
        """Refuse: where nothing is called nothing comes back."""
        raise UsageError(f"the format `none` has no calls: nothing came back from {result.name!r}")


NONE: Final[Format] = Format(name="none", calls=NoCalls())


BUILT_IN: Final[tuple[Format, ...]] = (
    HERMES,
    GEMMA,
    MORPH_XML,
    QWEN_WEB,
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
    *PARAMETER_TAGS,
    *DELIMITED,
    AUTO,
    NONE,
)
"""The formats that penstock brings, in the order in which they are listed."""

ALIASES: Final = {
    "json_mix": "hermes",
    "gpt_oss": "harmony",
    "openai": "harmony",
    "qwen": "qwen25",
    "llama3": "llama3_json",
    "llama4_json": "llama3_json",
    "mistral": "mistral_args",  # which reads the older forms too
    "interns1": "internlm",
    "apertus2509": "apertus",
    "cohere_command3": "cohere_command",
    "cohere_command4": "cohere_command",
    "minimax": "minimax_m1",
    "qwen3_xml": "qwen3_coder",
    "glm": "glm45",
    "hunyuan": "hy_v3",
    "muse": "muse_glimmer",
}
"""Names that formats have elsewhere."""


@runtime_checkable
class AnyFormat(Protocol):
    """A format, whoever made it: a name and five methods; `call_segments` may be there too.

    Its `parse` and its `parser` never raise on model text: what is not a call is text.
    """

    @property
    def name(self) -> str:
        """The name that it is found by."""

    def render_tools(self, tools: list[Tool], /) -> str:
        """Write the system prompt that shows *tools*."""

    def render_call(self, call: ToolCall, /) -> str:
        """Write *call* as a model writes it."""

    def render_result(self, result: ToolResult, /) -> str:
        """Write what a call gave back."""

    def parse(self, text: str, tools: list[Tool], /) -> AssistantMessage:
        """Read a whole answer."""

    @property
    def parser(self) -> Callable[..., TextParser]:
        """The method that gives a fresh parser for one answer.

        It takes the tools, and those options of `penstock.Parser` that it knows.
        """


FormatLike = str | AnyFormat | Callable[[], AnyFormat]
"""Whatever stands for a format: its name, itself, or a function that makes it."""

_formats: dict[str, AnyFormat] = {}


def get(format: FormatLike) -> AnyFormat:  # noqa: A002 - the word of the whole interface
    """Return the format that *format* stands for.

    Raises `UsageError` for a name that nobody has, and for what is not a format.
    """
    if isinstance(format, Format):  # What any format has is slow to ask for.
        return format
    if not isinstance(format, str):
        return _made(format)
    key = _key(format)
    try:
        return _formats[_ALIASES.get(key, key)]
    except KeyError:
        raise UsageError(
            f"no format is called {format!r}; there are {', '.join(names())}"
        ) from None


def names() -> list[str]:
    """List the names of all formats: penstock's own first, then those that were registered."""
    return [found.name for found in _formats.values()]


def register(format: AnyFormat | Callable[[], AnyFormat]) -> None:  # noqa: A002
    """Add a format of one's own; from now on it is found by its name.

    Raises `UsageError` for what is not a format, and for a name that penstock itself uses.
    """
    made = _made(format)
    if not made.name:
        raise UsageError("a format needs a name")
    if _is_ours(made.name):
        raise UsageError(f"{made.name!r} is a format of penstock's own: choose another name")
    _formats[_key(made.name)] = made


def unregister(name: str) -> None:
    """Take a format of one's own out again; nothing happens if there is not one."""
    if not _is_ours(name):
        _formats.pop(_key(name), None)


def _is_ours(name: str) -> bool:
    return _key(name) in _ALIASES or any(_key(name) == _key(own.name) for own in BUILT_IN)


def _made(format: Any) -> AnyFormat:  # noqa: A002
    made = (
        format()
        if isinstance(format, type) or (not isinstance(format, AnyFormat) and callable(format))
        else format
    )
    if not isinstance(made, AnyFormat):
        raise UsageError(f"a format has a name and five methods, {type(made).__name__} has not")
    return made


def _key(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


_ALIASES: Final = {_key(alias): _key(name) for alias, name in ALIASES.items()}
_formats.update({_key(own.name): own for own in BUILT_IN})
