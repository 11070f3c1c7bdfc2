"""Which format an answer is in: that of its first call, as `auto` reads it."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import UsageError
from penstock.formats.auto import AUTO, AutoSyntax
from penstock.formats.auto.syntax import FORMATS
from penstock.formats.base import Format
from penstock.formats.model_names import ModelFormat
from penstock.parsing import Engine
from penstock.tools import read_tools

__all__ = ["from_template"]


# What a model writes, read off its chat template.


def from_template(
    template: str,
    *,
    bos_token: str = "",
    eos_token: str = "",
    thinking: bool | None = None,
) -> ModelFormat:
    """Return what the model writes whose chat template, in Jinja, is *template*.

    A small conversation is written with it in several ways, and what a call and a thought look like
    is read with the formats that there are. Calls in JSON between markers that no format has become
    a format of their own; of anything else, and of a template that does not work, nothing is known:
    the format is ``auto``.

    *bos_token* and *eos_token* are what the template may ask for. *thinking* switches thinking on
    or off, where the template has a switch, and so decides how the prompt ends; None leaves it
    alone. The template runs in a sandbox, with limits on its steps and on all that it makes.

    Raises `UsageError` where Jinja is missing: it comes with the extra ``template``.
    """
    if not isinstance(template, str):
        raise UsageError(f"a chat template is text, not {type(template).__name__}")
    try:
        from penstock.formats.chat_template import recognise  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UsageError("a chat template is read with jinja2: install penstock[template]") from exc
    return recognise(template, bos_token=bos_token, eos_token=eos_token, thinking=thinking)


_TWINS: Final = {
    "mistral_args": (
        ("mistral_array", re.compile(r"\[TOOL_CALLS\]\s*[\[{]")),
        ("mistral_v11", re.compile(r"\[TOOL_CALLS\][^\[{]*\{")),
    ),
    "deepseek_v31": (
        ("deepseek_v3", re.compile(r"(?:<｜[^>]*>\s*)*function<｜tool▁sep｜>")),  # noqa: RUF001
    ),
}
"""Formats that one reader reads, and how a call looks in those that are not named after it."""


def detect(text: str, tools: object = ()) -> Format | None:
    """Return the format of the first call in *text*; None where nothing in it calls one of *tools*.

    Formats that look alike are told apart only where their calls do: JSON between ``<tool_call>``
    and ``</tool_call>`` is `hermes`, whichever model has written it.
    """
    known = read_tools(tools)
    syntax = AUTO.calls.syntax(known)
    assert isinstance(syntax, AutoSyntax)  # noqa: S101 - it is its own
    machine = Engine(syntax, known, reasoning=AUTO.reasoning, wrappers=AUTO.wrappers)
    machine.feed(text)
    machine.finish(cut=False)
    found = syntax.answer.format
    if found is None or not machine.spans:
        return found
    start, end = machine.spans[0]
    segment = text[start:end].lstrip()
    for name, pattern in _TWINS.get(found.name, ()):
        if pattern.match(segment):
            return FORMATS[name]
    return found
