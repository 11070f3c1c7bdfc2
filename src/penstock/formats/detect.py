"""Detection of the format: `detect` reads it from a response, `from_template` from a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, runtime_checkable

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.formats.auto import AUTO, FORMATS, AutoSyntax
from penstock.formats.base import Format
from penstock.formats.model_names import UNKNOWN, ModelFormat, find_by_name
from penstock.formats.registry import get
from penstock.formats.response_template import from_response_template
from penstock.parsing import Engine
from penstock.tools import Tool, read_tools

__all__ = ["from_template"]


@runtime_checkable
class ModelPath(Protocol):
    """A path, such as one of `pathlib`: the core imports no module that reads files."""

    def __fspath__(self) -> str:
        """Return the path as text."""


def for_model(model: str | ModelPath | Mapping[str, Any]) -> ModelFormat:
    """Return the format of *model*; ``auto`` for an unknown one.

    *model* is a name (a Hugging Face id, an Ollama tag, the name of a GGUF file), the path of a
    model's folder or of its ``tokenizer_config.json``, or what that file holds. Of a configuration
    `response_template` counts first, then the chat template, then the model's name.

    Raises `UsageError` for a file that cannot be read.
    """
    if isinstance(model, Mapping):
        return _for_config(model)
    if isinstance(model, str) and not model.endswith(_CONFIG):
        return find_by_name(model)
    path = model.__fspath__() if isinstance(model, ModelPath) else model
    if not isinstance(path, str):
        raise UsageError(f"a model must be a name, a path or a mapping, not {type(model).__name__}")
    folder = path.removesuffix(_CONFIG)
    try:
        config = _json.decode(_read_file(folder, _CONFIG))
    except (OSError, JSONParseError) as exc:
        raise UsageError(f"cannot read {_CONFIG} of {path!r}: {exc}") from exc
    if not isinstance(config, dict):
        raise UsageError(f"{_CONFIG} of {path!r} is not a JSON object")
    if not config.get("chat_template"):
        with suppress(OSError, UnicodeError):
            config["chat_template"] = _read_file(folder, "chat_template.jinja").decode()
    return _for_config(config)


def find_enforceable(name: str, model: str) -> Format | None:
    """Return the format *name*, or that of *model* for ``auto``, if its calls can be enforced.

    Plugins of servers demand a call with its structural tag. None means that the format is unknown,
    or has no grammar for any tool: `file_tags` has tools of its own.
    """
    found = get(for_model(model).format if name == AUTO.name else name)
    if not isinstance(found, Format):
        return None
    try:
        found.structural_tag([Tool("probe")], at_least_one=True, stop_after_first=True)
    except UsageError:
        return None
    return found


_CONFIG: Final = "tokenizer_config.json"


def _read_file(folder: str, name: str) -> bytes:
    # The one place of the formats that reads a file, because its caller named one.
    with open(f"{folder.rstrip('/')}/{name}" if folder else name, "rb") as file:  # noqa: PTH123 - the core imports no pathlib
        return file.read()


def _for_config(config: Mapping[str, Any]) -> ModelFormat:
    chat = _find_chat_template(config)
    bos, eos = _read_token(config.get("bos_token")), _read_token(config.get("eos_token"))
    template = config.get("response_template")
    if template is not None:
        suffix = from_template(chat, bos_token=bos, eos_token=eos).prompt_suffix if chat else ""
        return ModelFormat(from_response_template(template), prompt_suffix=suffix)
    if chat:
        found = from_template(chat, bos_token=bos, eos_token=eos)
        if found.format != UNKNOWN:
            return found
    name = config.get("name_or_path") or config.get("_name_or_path")
    return find_by_name(name) if isinstance(name, str) else ModelFormat(UNKNOWN)


def _find_chat_template(config: Mapping[str, Any]) -> str:
    """Return the chat template for tools: older configurations have a list of named ones."""
    given = config.get("chat_template")
    if isinstance(given, list):
        named = {one.get("name"): one.get("template") for one in given if isinstance(one, dict)}
        given = named.get("tool_use") or named.get("default")
    return given if isinstance(given, str) else ""


def _read_token(value: Any) -> str:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else ""


def from_template(
    template: str,
    *,
    bos_token: str = "",
    eos_token: str = "",
    thinking: bool | None = None,
) -> ModelFormat:
    """Return the format of the model whose Jinja chat template is *template*.

    A small conversation is rendered in several ways, and the calls and the reasoning in it are
    parsed with every known format. For JSON calls between unknown markers a new format is made. If
    nothing matches, or the template fails, the format is ``auto``.

    *bos_token* and *eos_token* are variables of the template. *thinking* switches thinking on or
    off if the template has a switch, and so decides how the prompt ends; None keeps the default.
    The template runs in a sandbox with limits on its steps and its output.

    Raises `UsageError` if Jinja is not installed; the extra ``template`` installs it.
    """
    if not isinstance(template, str):
        raise UsageError(f"a chat template must be a string, not {type(template).__name__}")
    try:
        from penstock.formats.chat_template import recognise  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UsageError("chat templates need jinja2: install penstock[template]") from exc
    return recognise(template, bos_token=bos_token, eos_token=eos_token, thinking=thinking)


# Formats that share a reader with the one that `auto` names, and how their calls begin.
_TWINS: Final = {
    "harmony": (("beam", re.compile(r"[^{]*<\|constrain\|>\s*xml\s*<\|message\|>")),),
    "mistral_args": (
        ("mistral_array", re.compile(r"\[TOOL_CALLS\]\s*[\[{]")),
        ("mistral_v11", re.compile(r"\[TOOL_CALLS\][^\[{]*\{")),
    ),
    "deepseek_v31": (
        ("deepseek_v3", re.compile(r"(?:<｜[^>]*>\s*)*function<｜tool▁sep｜>")),  # noqa: RUF001
    ),
}


def detect(text: str, tools: object = ()) -> Format | None:
    """Return the format of the first call of one of *tools* in *text*; None if there is no call.

    Formats whose calls look the same are not distinguished: JSON between ``<tool_call>`` and
    ``</tool_call>`` is always `hermes`.
    """
    known = read_tools(tools)
    syntax = AUTO.calls.syntax(known)
    assert isinstance(syntax, AutoSyntax)  # noqa: S101 - it is its own
    engine = Engine(syntax, known, reasoning=AUTO.reasoning, wrappers=AUTO.wrappers)
    engine.feed(text)
    engine.finish(cut=False)
    found = syntax.detection.format
    if found is None or not engine.spans:
        return found
    start, end = engine.spans[0]
    segment = text[start:end].lstrip()
    for name, pattern in _TWINS.get(found.name, ()):
        if pattern.match(segment):
            return FORMATS[name]
    return found
