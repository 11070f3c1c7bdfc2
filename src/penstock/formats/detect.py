"""Which format an answer is in: that of its first call, as `auto` reads it."""

from __future__ import annotations

import re
from typing import Final

from penstock.formats.auto import AUTO, AutoSyntax
from penstock.formats.auto.syntax import FORMATS
from penstock.formats.base import Format
from penstock.parsing import Machine
from penstock.tools import read_tools

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
    """Give the format of the first call in *text*; None where nothing in it calls one of *tools*.

    Formats that look alike are told apart only where their calls do: JSON between ``<tool_call>``
    and ``</tool_call>`` is `hermes`, whichever model has written it.
    """
    known = read_tools(tools)
    syntax = AUTO.calls.syntax(known)
    assert isinstance(syntax, AutoSyntax)  # noqa: S101 - it is its own
    machine = Machine(syntax, known, reasoning=AUTO.reasoning, wrappers=AUTO.wrappers)
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
