"""Hugging Face `response_template`: its fields, and how they read a complete text.

A template is the inverse of a chat template: it cuts the text of an assistant turn into regions,
each with an opener, a closer and a way to read its body. `load_template` checks one as transformers
does. `ResponseTemplate.read` is the reference reading, on a whole text: `response_template.py`
compares formats with it, and the reader of last resort (`readers/template_region.py`) reads bodies
with it. Template and patterns come from a model's repository: patterns that could take exponential
time are never run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from re import _constants as sre  # type: ignore[attr-defined] # Python's own parser of patterns
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import JSONParseError, UsageError

MAX_PATTERN: Final = 4_096
"""How long a pattern may be: TRL's longest has 400 characters."""

REASONING_FIELDS: Final = ("thinking", "reasoning_content")
"""The names of the reasoning field: Hugging Face's server accepts either."""

CONTENTS: Final = ("text", "int", "float", "bool", "json", "xml-inline", "kv-lines")

# transformers refuses unknown keys, so a template with a newer one is refused here, too, instead of
# being read in part.
_TOP_KEYS: Final = {"version", "start_anchor", "start_anchor_pattern", "defaults", "fields"}
_FIELD_KEYS: Final = {
    *("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats"),
    *("join", "optional", "transform", "transform_each"),
}
_PLACEHOLDER: Final = re.compile(r"\{(\w+(?:\.\w+)*)\}")
_BARE_KEY: Final = re.compile(r"(?<=[{,])(\w+):")


class TemplateBodyError(ValueError):
    """The body of a region is not what its field describes."""


class TemplateMarker(Struct, frozen=True):
    """What opens or closes a region: *literals*, or a *pattern*."""

    literals: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def source(self) -> str:
        """The regular expression; of several literals the longest is tried first."""
        if self.pattern:
            return self.pattern
        # An alternation takes its first branch that matches, so a literal must precede its own
        # prefixes.
        return "|".join(re.escape(text) for text in sorted(self.literals, key=len, reverse=True))

    def search(self, text: str, at: int) -> re.Match[str] | None:
        """Find the marker in *text* from *at* on."""
        return re.compile(self.source, re.DOTALL).search(text, at)


class TemplateField(Struct, frozen=True):
    """One field: the region between *open* and *close*, and how its body is read."""

    name: str
    open: TemplateMarker | None = None
    close: TemplateMarker | None = None
    content: str = "text"
    content_args: dict[str, Any] = {}
    repeats: bool = False
    transform: Any = None
    transform_each: bool = False

    @property
    def patterns(self) -> list[str]:
        """All regular expressions of the field."""
        markers = [marker.pattern for marker in (self.open, self.close) if marker is not None]
        return [one for one in (*markers, *_tag_patterns(self.content_args)) if one]

    def read_calls(self, body: str, groups: Mapping[str, str | None]) -> list[dict[str, Any]]:
        """Return the calls of one region, as ``{"name": …, "arguments": …}`` each.

        Raises `TemplateBodyError`.
        """
        value = read_body(self.content, self.content_args, body)
        taken = {name: group for name, group in groups.items() if group is not None}
        if self.transform_each:
            if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
                raise TemplateBodyError("the body is not a list of objects")
            shaped = [_fill(self.transform, {**taken, **one}) for one in value]
        elif self.transform is None:
            shaped = value if isinstance(value, list) else [value]
        else:
            shaped = [_fill(self.transform, {**taken, "content": value})]
        return [_read_function(one) for one in shaped]


class TemplateRegion(Struct, frozen=True):
    """A stretch of text that a field claims; *groups* are those of its opener."""

    field: str
    body: str
    groups: dict[str, str | None] = {}
    is_closed: bool = True


class ResponseTemplate(Struct, frozen=True):
    """A template that `load_template` has checked."""

    anchor: TemplateMarker
    fields: tuple[TemplateField, ...]

    def field(self, *names: str) -> TemplateField | None:
        """Return the first field that has one of *names*."""
        return next((field for field in self.fields if field.name in names), None)

    @property
    def is_safe(self) -> bool:
        """Whether no pattern can take exponential time."""
        patterns = [self.anchor.pattern, *(one for field in self.fields for one in field.patterns)]
        # A template comes from a repository on a hub, so its patterns are untrusted; Python's `re`
        # has no timeout.
        return not any(_may_explode(pattern) for pattern in patterns if pattern)

    def read(self, text: str) -> list[TemplateRegion]:
        """Cut *text*, a whole response, into regions, as transformers does."""
        implicit = next((field for field in self.fields if field.open is None), None)
        current, begin, at = implicit, 0, 0
        groups: dict[str, str | None] = {}
        regions: list[TemplateRegion] = []

        def close(end: int, *, is_closed: bool = True) -> None:
            if current is not None and (current.open is not None or text[begin:end]):
                regions.append(TemplateRegion(current.name, text[begin:end], groups, is_closed))

        while at <= len(text):
            if current is not None and current.open is not None:
                found = current.close.search(text, at) if current.close is not None else None
                if found is None:
                    break
                close(found.start())
                current, groups = implicit, {}
            else:
                opener, found = self._next_opener(text, at)
                # The field without an opener may end, too; what follows it opens it again.
                ending = implicit.close.search(text, at) if implicit and implicit.close else None
                if ending and ending.end() > ending.start():
                    key = (ending.start(), -len(ending[0]))
                    if found is None or key < (found.start(), -len(found[0])):
                        opener, found = None, ending
                if found is None:
                    break
                close(found.start())
                current, groups = (implicit, {}) if opener is None else (opener, found.groupdict())
            begin = at = found.end()
        close(len(text), is_closed=False)
        return regions

    def _next_opener(self, text: str, at: int) -> tuple[TemplateField | None, re.Match[str] | None]:
        """Return the opener that comes first; of two at one place, the longer one."""
        best: tuple[TemplateField | None, re.Match[str] | None] = None, None
        # By name: of two openers that are equal in place and length, transformers takes the first
        # in that order.
        for field in sorted(self.fields, key=lambda one: one.name):
            found = None if field.open is None else field.open.search(text, at)
            if found is None or (found.end() == found.start() and at > 0):
                continue  # A look-ahead opener counts only where the response begins.
            if best[1] is None or (found.start(), -len(found[0])) < (
                best[1].start(),
                -len(best[1][0]),
            ):
                best = field, found
        return best


def load_template(template: object) -> ResponseTemplate:
    """Check *template* as transformers does; raise `UsageError` for one that it would refuse."""
    if not isinstance(template, Mapping):
        raise UsageError("a response_template must be a JSON object")
    if template.get("version", 1) != 1:
        raise UsageError(f"unknown version of a response_template: {template['version']!r}")
    _check_keys("response_template", template, _TOP_KEYS)
    anchor = _load_marker(template, "start_anchor", "response_template")
    if anchor is None:
        raise UsageError("a response_template needs 'start_anchor' or 'start_anchor_pattern'")
    if not isinstance(template.get("defaults", {}), Mapping):
        raise UsageError("'defaults' of a response_template must be an object")
    fields = template.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise UsageError("'fields' of a response_template must be a non-empty object")
    loaded = tuple(_load_field(name, field) for name, field in fields.items())
    if sum(field.open is None for field in loaded) > 1:
        raise UsageError("a response_template may have at most one field without 'open'")
    return ResponseTemplate(anchor, loaded)


def _load_field(name: str, field: object) -> TemplateField:
    place = f"field {name!r} of a response_template"
    if not isinstance(field, Mapping):
        raise UsageError(f"{place} must be an object")
    _check_keys(place, field, _FIELD_KEYS)
    content = field.get("content", "text")
    if content not in CONTENTS:
        raise UsageError(f"{place}: unknown content {content!r}, expected {', '.join(CONTENTS)}")
    args = field.get("content_args", {})
    if not isinstance(args, Mapping):
        raise UsageError(f"{place}: 'content_args' must be an object")
    transform, each = field.get("transform"), field.get("transform_each", False)
    if not isinstance(each, bool) or (each and transform is None):
        raise UsageError(f"{place}: 'transform_each' must be a boolean and needs 'transform'")
    if "join" in field and not (field.get("repeats") and isinstance(field["join"], str)):
        raise UsageError(f"{place}: 'join' must be a string and needs 'repeats'")
    opening, closing = _load_marker(field, "open", place), _load_marker(field, "close", place)
    for marker in (opening, closing):
        if marker and marker.pattern and transform is None and "(?P<" in marker.pattern:
            raise UsageError(f"{place}: named groups need 'transform'")
    for pattern in _tag_patterns(args):
        _compile(pattern, place)
    _check_placeholders(transform, place)
    repeats = bool(field.get("repeats", False))
    return TemplateField(name, opening, closing, content, dict(args), repeats, transform, each)


def _check_keys(place: str, given: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(map(str, set(given) - known))
    if unknown:
        raise UsageError(f"unknown key in {place}: {unknown[0]!r}")


def _load_marker(holder: Mapping[str, Any], key: str, place: str) -> TemplateMarker | None:
    literal, pattern = holder.get(key), holder.get(f"{key}_pattern")
    if literal is not None and pattern is not None:
        raise UsageError(f"{place}: has both '{key}' and '{key}_pattern'")
    if pattern is not None:
        _compile(pattern, place)
        return TemplateMarker(pattern=pattern)
    if literal is None:
        return None
    literals = [literal] if isinstance(literal, str) else literal
    if not isinstance(literals, list) or not literals:
        raise UsageError(f"{place}: '{key}' must be a string or a list of strings")
    if not all(isinstance(one, str) and one for one in literals):
        raise UsageError(f"{place}: '{key}' must have only non-empty strings")
    return TemplateMarker(tuple(literals))


def _compile(pattern: object, place: str) -> None:
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        raise UsageError(f"{place}: a pattern must be a string of at most {MAX_PATTERN} characters")
    try:
        re.compile(pattern, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as exc:
        raise UsageError(f"{place}: cannot compile the pattern {pattern!r}: {exc}") from exc


def _tag_patterns(args: Mapping[str, Any]) -> list[str]:
    """Return the tag patterns of *args*, those of nested value parsers too."""
    found = [args["tag_pattern"]] if "tag_pattern" in args else []
    parser = args.get("value_parser")
    inner = parser.get("args") if isinstance(parser, Mapping) else None
    return found + (_tag_patterns(inner) if isinstance(inner, Mapping) else [])


def _check_placeholders(shape: Any, place: str) -> None:
    if isinstance(shape, Mapping):
        for value in shape.values():
            _check_placeholders(value, place)
    elif isinstance(shape, list):
        for value in shape:
            _check_placeholders(value, place)
    elif (
        isinstance(shape, str) and _PLACEHOLDER.search(shape) and not _PLACEHOLDER.fullmatch(shape)
    ):
        raise UsageError(f"{place}: {shape!r} mixes a placeholder with other text")


# --- bodies ---


def read_body(content: str, args: Mapping[str, Any], body: str) -> Any:
    """Return the value of *body*; raise `TemplateBodyError` for one that cannot be read."""
    text = body.strip() if args.get("strip", True) else body
    match content:
        case "text":
            return text
        case "bool":
            # Anything else is false, as in transformers.
            return text.lower() in ("true", "1")
        case "int" | "float":
            try:
                return int(text) if content == "int" else float(text)
            except ValueError as exc:
                raise TemplateBodyError(f"not a number: {text[:80]!r}") from exc
        case "json":
            return _read_json(args, body)
        case "xml-inline":
            return _read_tags(args, body)
        case _:
            return _read_lines(args, body)


def _read_json(args: Mapping[str, Any], body: str) -> Any:
    text = body
    # Gemma 4 writes `<|"|>text<|"|>` for a string, and keys without quotes.
    for opening, closing in args.get("string_delims", ()):
        pattern = re.escape(opening) + "(.*?)" + re.escape(closing)
        text = re.sub(pattern, lambda found: _json.encode(found[1]).decode(), text, flags=re.DOTALL)
    if args.get("unquoted_keys"):
        text = _BARE_KEY.sub(r'"\1":', text)
    try:
        return _json.decode(text)
    except JSONParseError as exc:
        if args.get("allow_non_json"):
            return body.strip()
        raise TemplateBodyError(f"not JSON: {exc}") from exc


def _read_tags(args: Mapping[str, Any], body: str) -> dict[str, Any]:
    pattern = args.get("tag_pattern")
    if not isinstance(pattern, str):
        raise TemplateBodyError("'xml-inline' needs 'tag_pattern'")
    values: dict[str, Any] = {}
    for found in re.finditer(pattern, body, re.DOTALL):
        groups = found.groupdict()
        if groups.get("key") is None or groups.get("value") is None:
            raise TemplateBodyError("'tag_pattern' needs the groups 'key' and 'value'")
        value = _read_value(args, groups["value"])
        key = groups["key"]
        if args.get("merge_duplicates") and key in values:
            known = values[key]
            value = [*known, value] if isinstance(known, list) else [known, value]
        values[key] = value
    return values


def _read_lines(args: Mapping[str, Any], body: str) -> dict[str, Any]:
    separator, values = args.get("kv_sep", ":"), {}
    for line in body.split(args.get("line_sep", "\n")):
        key, found, value = line.partition(separator)
        if found:
            strips = args.get("strip", True)
            values[key.strip() if strips else key] = _read_value(
                args, value.strip() if strips else value
            )
    return values


def _read_value(args: Mapping[str, Any], text: str) -> Any:
    parser = args.get("value_parser")
    if not isinstance(parser, Mapping):
        return text
    return read_body(str(parser.get("name", "text")), parser.get("args") or {}, text)


def _fill(shape: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(shape, Mapping):
        return {key: _fill(value, values) for key, value in shape.items()}
    if isinstance(shape, list):
        return [_fill(value, values) for value in shape]
    found = _PLACEHOLDER.fullmatch(shape) if isinstance(shape, str) else None
    if found is None:
        return shape
    value: Any = values
    for step in found[1].split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise TemplateBodyError(f"no value for the placeholder {found[1]!r}")
        value = value[step]
    return value


def _read_function(value: Any) -> dict[str, Any]:
    """Return the function of a call that is written as chat completions write it."""
    function = value.get("function", value) if isinstance(value, Mapping) else value
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TemplateBodyError("the call has no name")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = _json.decode(arguments)
        except JSONParseError as exc:
            raise TemplateBodyError(f"the arguments are not JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise TemplateBodyError("the arguments are not a JSON object")
    return {"name": function["name"], "arguments": arguments}


# --- patterns as markers ---


class PatternShape(Struct, frozen=True):
    """A pattern that is a sequence of simple parts.

    *head* are the literals that it may begin with. After one of them comes the name of the tool
    (*is_named*), then one of *tail*. White space around it does not matter.
    """

    head: tuple[str, ...]
    is_named: bool = False
    tail: tuple[str, ...] = ()


def read_pattern(pattern: str) -> PatternShape | None:
    """Return the shape of *pattern*, or None for one that is not simple.

    Simple are literals, alternatives of literals, one group ``name``, and white space, which is
    dropped; an alternative ``$`` means the end of the response, which ends any region.
    """
    parts: list[list[str]] = [[""]]
    named = False
    # Python's own parser of patterns, so that this agrees with `re` about every pattern that
    # compiles.
    for step, value in sre_parser.parse(pattern, re.DOTALL):
        if step is sre.LITERAL:
            parts[-1] = [text + chr(value) for text in parts[-1]]
        elif step in (sre.MAX_REPEAT, sre.MIN_REPEAT) and _is_space(value[2]):
            continue
        elif step is sre.SUBPATTERN and value[0] is not None and not named:
            named = True
            parts.append([""])
        elif step is sre.BRANCH or (step is sre.SUBPATTERN and value[0] is None):
            texts = _literals([(step, value)])
            if texts is None:
                return None
            parts[-1] = [before + text for before in parts[-1] for text in texts or [""]]
        else:
            return None
    head = tuple(filter(None, parts[0]))
    tail = tuple(filter(None, parts[1])) if named else ()
    return PatternShape(head, named, tail) if head else None


class TagPattern(Struct, frozen=True):
    """A pattern of one argument: the texts *before* its key, *between* key and value, and *after*.

    *strips*: white space next to the value is not part of it.
    """

    before: str
    between: str
    after: str
    strips: bool = False


def read_tag_pattern(pattern: str) -> TagPattern | None:
    """Return the texts of *pattern*, a `tag_pattern`; None for one that has more than texts.

    White space that may be missing is dropped: readers of tags accept it anyway.
    """
    parsed = sre_parser.parse(pattern, re.DOTALL)
    groups = {number: name for name, number in parsed.state.groupdict.items()}
    texts, order = [""], []
    strips = False
    steps = list(parsed)
    for at, (step, value) in enumerate(steps):
        if step is sre.LITERAL:
            texts[-1] += chr(value)
        elif step in (sre.MAX_REPEAT, sre.MIN_REPEAT) and _is_space(value[2]):
            neighbours = (*steps[max(0, at - 1) : at], *steps[at + 1 : at + 2])
            strips = strips or any(
                kind is sre.SUBPATTERN and groups.get(inner[0]) == "value"
                for kind, inner in neighbours
            )
        elif step is sre.SUBPATTERN and groups.get(value[0]) in ("key", "value"):
            order.append(groups[value[0]])
            texts.append("")
        else:
            return None
    if order != ["key", "value"]:
        return None
    before, between, after = texts
    return TagPattern(before, between, after, strips)


def _literals(steps: Any) -> list[str] | None:
    """Return the texts that *steps* match, if they are literals, alternatives of them, or ``$``."""
    texts = [""]
    for step, value in steps:
        if step is sre.LITERAL:
            texts = [text + chr(value) for text in texts]
        elif step is sre.BRANCH:
            branches = [_literals(branch) for branch in value[1]]
            if None in branches:
                return None
            found = [one for branch in branches for one in branch or ()]
            texts = [text + one for text in texts for one in found]
        elif step is sre.SUBPATTERN and value[0] is None:
            inner = _literals(value[3])
            if inner is None:
                return None
            texts = [text + one for text in texts for one in inner]
        elif step is sre.IN and all(kind is sre.LITERAL for kind, _ in value):
            texts = [text + chr(code) for text in texts for _, code in value]
        elif step in (sre.MAX_REPEAT, sre.MIN_REPEAT) and _is_space(value[2]):
            continue
        elif step is sre.AT:
            return []
        else:
            return None
    return texts


def _is_space(steps: Any) -> bool:
    return all(
        (step is sre.IN and value == [(sre.CATEGORY, sre.CATEGORY_SPACE)])
        or (step is sre.LITERAL and chr(value).isspace())
        for step, value in steps
    )


def is_lookahead(pattern: str) -> bool:
    """Return whether *pattern* is a look-ahead and nothing else: the prompt opened the region."""
    steps = list(sre_parser.parse(pattern, re.DOTALL))
    return len(steps) == 1 and steps[0][0] is sre.ASSERT


def _may_explode(pattern: str) -> bool:
    """Return whether a repetition without end is inside another one: time may be exponential."""
    return _nested(sre_parser.parse(pattern, re.DOTALL), inside=False)


def _nested(steps: Any, *, inside: bool) -> bool:
    for step, value in steps:
        endless = step in _REPEATS and value[1] is sre.MAXREPEAT
        if endless and inside:
            return True
        if any(_nested(one, inside=inside or endless) for one in _inner_steps(step, value)):
            return True
    return False


_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def _inner_steps(step: Any, value: Any) -> list[Any]:
    """Return the sequences inside one step of a pattern."""
    if step in _REPEATS:
        return [value[2]]
    if step is sre.SUBPATTERN:
        return [value[3]]
    if step is sre.BRANCH:
        return list(value[1])
    if step in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    return [value] if step is sre.ATOMIC_GROUP else []
