"""Formats from Hugging Face's `response_template`, and templates from formats.

A template that is equivalent to a built-in format becomes that format: calls that the format writes
are read with the template, and the format is used if every call is read back. So calls stream, and
all that is known of the format's models applies. If possible, any other template becomes a reader
of JSON, of a name and JSON, or of tagged arguments, between its markers; otherwise it is read
region by region.

`template_export` is the other direction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from msgspec import Struct, structs

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_calls import JSONCalls, as_json
from penstock.formats.named_json import NamedCalls
from penstock.formats.parameter_tags import ParameterCalls
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN, NONE
from penstock.formats.template_fields import (
    REASONING_FIELDS,
    PatternShape,
    ResponseTemplate,
    TagPattern,
    TemplateBodyError,
    TemplateField,
    TemplateMarker,
    is_lookahead,
    load_template,
    read_pattern,
    read_tag_pattern,
)
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import Reasoning, Syntax
from penstock.parsing.body import BodyReader, Wrapper
from penstock.parsing.call_shape import CallShape
from penstock.readers.json_calls import JSONCallReader
from penstock.readers.named_heads import HeadDialect
from penstock.readers.tagged import TagDialect, Trim
from penstock.readers.template_region import TemplateRegionReader
from penstock.tools import Tool, read_tools
from penstock.values import coerce

SAMPLE_TOOLS: Final = read_tools(
    [
        {
            "name": "heave_lead",
            "parameters": {
                "type": "object",
                "properties": {"line": {"type": "string"}, "marks": {"type": "integer"}},
            },
        },
        {
            "name": "light_lamp",
            "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}},
        },
    ]
)
SAMPLE_CALLS: Final = (
    ToolCall("", "heave_lead", {"line": "north moor", "marks": 12}),
    ToolCall("", "light_lamp", {"colour": "green"}),
)

# Formats that no template describes exactly, by an opener that no other format has.
_BY_OPENER: Final = {
    "<|channel|>analysis<|message|>": "harmony",  # Text outside of messages is dropped there.
    "<|tool_call_start|>[": "lfm2",  # Python literals: the template can only approximate them.
}

_NOT_COMPARED: Final = {"auto", "none", "bare_json", "json_tool", "generic_json"}


def from_response_template(template: object, *, name: str = "response_template") -> Format:
    """Return the format that *template*, a `response_template` of Hugging Face, describes.

    Raises `UsageError` for a template that transformers would refuse, and for one whose calls have
    openers without a literal beginning, or patterns that could take exponential time.
    """
    loaded = load_template(template)
    field = loaded.field("tool_calls")
    known = _find_format(loaded, field)
    if field is None:
        base = structs.replace(NONE, name=name)
    elif known is not None:
        base = structs.replace(known, name=name)
    else:
        base = Format(name, _make_calls(loaded, field), prompts.JSON_MIX)
    content = loaded.field("content")
    closers = content.close if content is not None and content.open is None else None
    texts = _literals(closers) if closers is not None else ()
    own = {wrapper.marker for wrapper in base.wrappers}
    added = tuple(Wrapper(text) for text in texts or () if text not in own)
    reasoning = base.reasoning if base.reasoning is None else _make_reasoning(loaded)
    return structs.replace(base, reasoning=reasoning, wrappers=(*base.wrappers, *added))


def _find_format(template: ResponseTemplate, field: TemplateField | None) -> Format | None:
    """Return the built-in format whose calls *template* reads, if there is one."""
    formats = {fmt.name: fmt for fmt in BUILT_IN}
    if field is not None and "<rfl:parameter" in str(field.content_args.get("tag_pattern", "")):
        return formats["beam"]  # It has the messages of harmony.
    for marker in filter(None, (one.open for one in template.fields)):
        shape = read_pattern(marker.pattern) if marker.pattern else None
        for text in marker.literals if shape is None else shape.head:
            if text in _BY_OPENER:
                return formats[_BY_OPENER[text]]
    if field is None or not template.is_safe:
        return None
    found = (fmt for fmt in BUILT_IN if fmt.name not in _NOT_COMPARED)
    return next((fmt for fmt in found if _reads(template, field, fmt)), None)


def _reads(template: ResponseTemplate, field: TemplateField, fmt: Format) -> bool:
    """Return whether *template* reads the calls that *fmt* writes, and nothing else in them."""
    content = template.field("content")
    closers = None if content is None else content.close
    ends = ["", *(_literals(closers) or ())]  # Some closers have the end of the turn in them.
    try:
        written = [(fmt.render_call(call), call) for call in SAMPLE_CALLS]
    except UsageError:
        return False
    return any(
        all(_reads_back(template, field, text + end, call) for text, call in written)
        for end in ends
    )


def _reads_back(
    template: ResponseTemplate, field: TemplateField, text: str, call: ToolCall
) -> bool:
    """Return whether *template* reads *text* as *call* and nothing else."""
    try:
        return read_whole(template, field, text, SAMPLE_TOOLS) == [(call.name, call.arguments)]
    except TemplateBodyError:
        return False


def read_whole(
    template: ResponseTemplate, field: TemplateField, text: str, tools: Iterable[Tool]
) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the calls of *text*, a whole response, or None if it has other content, too."""
    schemas = {tool.name: tool.parameters for tool in tools}
    calls = []
    for region in template.read(text):
        if region.field == field.name:
            for call in field.read_calls(region.body, region.groups):
                arguments = coerce(call["arguments"], schemas.get(call["name"], {}), typed=True)
                calls.append((call["name"], arguments))
        elif region.body.strip():
            return None
    return calls


# --- reasoning and markers ---


def _make_reasoning(template: ResponseTemplate) -> Reasoning | None:
    field = template.field(*REASONING_FIELDS)
    if field is None:
        return None
    ends = _literals(field.close) if field.close is not None else ()
    starts: tuple[str, ...] | None = ()
    if field.open is not None and not (field.open.pattern and is_lookahead(field.open.pattern)):
        starts = _literals(field.open)
    if not ends or starts is None:
        raise UsageError(f"the markers of the field {field.name!r} are not literal texts")
    # A look-ahead means that the prompt has opened the reasoning, see `prompt_suffix`.
    for style in STYLES.values():
        if (style.starts, style.ends) == (starts, ends) and style.interrupted:
            return style
    return Reasoning("response_template", starts, ends, recurs=field.repeats)


def _literals(marker: TemplateMarker | None) -> tuple[str, ...] | None:
    """Return the texts that *marker* matches, without white space; None for another pattern."""
    if marker is None:
        return ()
    if not marker.pattern:
        return marker.literals
    shape = read_pattern(marker.pattern)
    return None if shape is None or shape.is_named else shape.head


# --- calls that no built-in format has ---


class TemplateJSON(JSONCalls, frozen=True):
    """Calls of *shape* in JSON between the markers of a template."""

    shape: CallShape = CallShape()
    listed: bool = False

    def body(self, marker: str) -> JSONCallReader:
        """Return a new reader for the text after *marker*."""
        del marker
        return JSONCallReader(self.end, self.shape)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as the template has it."""
        value: Any = self.shape.write(call.name, call.arguments)
        return self.start + as_json([value] if self.listed else value) + self.end


class TemplateCalls(Syntax, Struct, frozen=True):
    """Calls in regions of *field*, each read as a whole, for any other template."""

    field: TemplateField
    starts: tuple[str, ...]

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        field = self.field
        assert field.open is not None  # noqa: S101 - it has `starts`
        closer = None if field.close is None else re.compile(field.close.source, re.DOTALL)
        opener = re.compile(field.open.source, re.DOTALL)
        is_json = field.content == "json"
        return TemplateRegionReader(marker, opener, closer, field.read_calls, json=is_json)

    def render_call(self, call: ToolCall) -> NoReturn:
        """Raise `UsageError`: the template describes only how calls are read."""
        raise UsageError(f"cannot render a call of {call.name!r}: its template only reads calls")

    def render_result(self, result: ToolResult) -> NoReturn:
        """Raise `UsageError`: the template does not describe results."""
        raise UsageError(
            f"cannot render a result of {result.name!r}: its template only reads calls"
        )


def _make_calls(
    template: ResponseTemplate, field: TemplateField
) -> JSONCalls | NamedCalls | ParameterCalls | TemplateCalls:
    if field.open is None:
        raise UsageError("the field 'tool_calls' of a response_template needs an opener")
    ends = _literals(field.close) or ()
    opener = read_pattern(field.open.source) if field.open.pattern else None
    starts = field.open.literals if opener is None else opener.head
    is_plain = field.content == "json" and not field.content_args and len(ends) == 1
    if is_plain and len(starts) == 1 and (opener is None or not opener.is_named):
        shape = _find_shape(field)
        if shape is not None:
            listed = field.transform_each
            return TemplateJSON(starts[0], ends[0], shape=shape, listed=listed)
    if is_plain and opener is not None and opener.is_named and len(opener.head) == 1:
        paths = _find_paths(field.transform)
        if paths == ("name", "content"):
            tails = tuple(text.strip() for text in opener.tail if text.strip())
            head = starts[0].rstrip()
            dialect = HeadDialect(call=head, arguments=tails or ("{",), call_end=ends[0])
            written = f"{starts[0]}NAME{''.join(opener.tail[:1])}ARGUMENTS{ends[0]}"
            return NamedCalls(dialect, call=written)
    tagged = None
    if field.content == "xml-inline" and template.is_safe and opener is not None:
        tagged = _make_tagged(template, field, opener, ends)
    if tagged is not None:
        return tagged
    if not starts:
        raise UsageError("the opener of 'tool_calls' does not begin with a literal text")
    if not template.is_safe:
        raise UsageError("a pattern of the response_template could take exponential time")
    return TemplateCalls(field, starts)


def _make_tagged(
    template: ResponseTemplate, field: TemplateField, opener: PatternShape, ends: tuple[str, ...]
) -> ParameterCalls | None:
    """Return the calls as a dialect of tags, if they are one."""
    if not opener.is_named or _find_paths(field.transform) != ("name", "content"):
        return None
    return make_tagged_calls(field, opener, ends, partial(_reads_back, template, field))


def _find_paths(transform: Any) -> tuple[str, str] | None:
    """Return the placeholders of the name and the arguments in *transform*."""
    function = transform.get("function") if isinstance(transform, Mapping) else None
    if not isinstance(function, Mapping):
        return None
    paths = function.get("name"), function.get("arguments")
    if not all(isinstance(path, str) and path[:1] == "{" for path in paths):
        return None
    return str(paths[0])[1:-1], str(paths[1])[1:-1]


def _find_shape(field: TemplateField) -> CallShape | None:
    """Return the keys of the call in the JSON of *field*, if they are side by side."""
    transform = field.transform
    if isinstance(transform, Mapping) and transform.get("function") == "{content}":
        return CallShape()
    paths = _find_paths(transform)
    if paths is None:
        return None
    prefix = "" if field.transform_each else "content."
    keys = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    if len(keys) != 2 or any("." in key for key in keys):  # noqa: PLR2004 - name and arguments
        return None
    return CallShape(names=(keys[0],), arguments=(keys[1],))


# --- a tag for each argument ---
#
# A template whose openers, closers and `tag_pattern` consist of texts is a dialect of tagged calls,
# so its arguments can stream. Whether the dialect means the same is checked: the template has to
# read back calls that were written in it.

# Words that stand for something else in the templates of tags.
_PLACES: Final = re.compile("NAME|KEY|VALUE|PARAMETERS|CONTENT|IS_TEXT|\u2026")

_SAMPLES: Final = (
    ToolCall("", "heave_lead", {"line": "north moor", "marks": 12}),
    ToolCall("", "heave_lead", {"line": "a < b\n  if x: <b>y</b>", "marks": 0}),
    ToolCall("", "light_lamp", {"colour": ""}),
    ToolCall("", "light_lamp", {}),
)
# A value whose white space shows how values are trimmed; not every dialect can write it.
_EDGES: Final = ToolCall("", "light_lamp", {"colour": "\n two \n\n"})

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
    calls = _make_dialect(head, tail, shape, ends, strips=strips)
    return calls if _is_equal(calls, reads_back) else None


def _is_tag(text: str) -> bool:
    """Return whether *text* begins a tag, and has no other tag in it."""
    return text.startswith("<") and text.count("<") == 1


def _make_dialect(
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
