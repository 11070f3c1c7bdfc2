"""Calls with a tag for each argument, from the patterns of a `response_template`.

A template whose openers, closers and `tag_pattern` consist of texts is a dialect of tagged calls,
so its arguments can stream. Whether the dialect means the same is checked: the template has to read
back calls that were written in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.errors import UsageError
from penstock.formats.parameter_tags import ParameterCalls
from penstock.formats.template_fields import (
    PatternShape,
    TagPattern,
    TemplateField,
    read_tag_pattern,
)
from penstock.messages import ToolCall
from penstock.readers.tagged import TagDialect, Trim

_PLACES: Final = re.compile("NAME|KEY|VALUE|PARAMETERS|CONTENT|IS_TEXT|\u2026")
"""Words that stand for something else in the templates of tags."""

_SAMPLES: Final = (
    ToolCall("", "heave_lead", {"line": "north moor", "marks": 12}),
    ToolCall("", "heave_lead", {"line": "a < b\n  if x: <b>y</b>", "marks": 0}),
    ToolCall("", "light_lamp", {"colour": ""}),
    ToolCall("", "light_lamp", {}),
)
_EDGES: Final = ToolCall("", "light_lamp", {"colour": "\n two \n\n"})
"""A value whose white space shows how values are trimmed; not every dialect can write it."""

ReadsBack = Callable[[str, ToolCall], bool]
"""Returns whether the template reads a text as one call."""


def make_tagged_calls(
    field: TemplateField, opener: PatternShape, ends: tuple[str, ...], reads_back: ReadsBack
) -> ParameterCalls | None:
    """Return the calls of *field*, which *opener* begins and one of *ends* ends.

    None if they are not made of tags, or if the template does not read what is written.
    """
    pattern = field.content_args.get("tag_pattern")
    shape = read_tag_pattern(pattern) if isinstance(pattern, str) else None
    parser = field.content_args.get("value_parser")
    is_text = parser is None or parser.get("name", "text") == "text"
    if shape is None or not is_text or field.content_args.get("merge_duplicates") or not ends:
        return None
    head, tail = opener.head[0], (opener.tail or ("",))[0].rstrip()
    texts = (head, tail, shape.before, shape.between, shape.after, *ends)
    if any(map(_PLACES.search, texts)) or len(opener.head) > 1 or len(opener.tail) > 1:
        return None
    if not all(_is_tag(text) for text in (head, shape.before, shape.after.lstrip(), *ends)):
        return None
    args = parser.get("args") if parser is not None else None
    strips = shape.strips or (parser is not None and bool((args or {}).get("strip", True)))
    calls = _make_calls(head, tail, shape, ends, strips=strips)
    return calls if _is_equal(calls, reads_back) else None


def _is_tag(text: str) -> bool:
    """Return whether *text* begins a tag, and has no other tag in it."""
    return text.startswith("<") and text.count("<") == 1


def _make_calls(
    head: str, tail: str, shape: TagPattern, ends: tuple[str, ...], *, strips: bool
) -> ParameterCalls:
    before, between, after = shape.before, shape.between, shape.after
    is_on_lines = between.endswith("\n") and after.startswith("\n")
    trims: Trim = "blanks" if strips else "any newlines" if is_on_lines else "exact"
    tag = between.removesuffix("\n") if is_on_lines else between
    at = tag.rfind("<")
    key_end, value = (tag, "") if at == -1 else (tag[:at].rstrip(), tag[at:])
    dialect = TagDialect(
        starts=(head.rstrip("\"' "),),
        call=f"{head}NAME{tail}",
        call_end=ends[0],
        other_ends=ends[1:],
        parameter=f"{before}KEY{key_end}",
        value=value,
        parameter_end=after.strip(),
        trims=trims,
    )
    parameter = f"{before}KEY{between}VALUE{after}"
    return ParameterCalls(dialect, f"{head}NAME{tail}PARAMETERS{ends[0]}", parameter)


def _is_equal(calls: ParameterCalls, reads_back: ReadsBack) -> bool:
    """Return whether the template reads the samples that *calls* writes, and trims alike."""
    try:
        if not all(reads_back(calls.render_call(call), call) for call in _SAMPLES):
            return False
    except UsageError:
        return False
    try:
        written = calls.render_call(_EDGES)
    except UsageError:
        return True
    return reads_back(written, _EDGES)
