"""Law 11 against hostile damage: rich values, and one wrong character in the markup.

`laws.damage` has plain words for values, so that any markup in one is a corruption. Here values are
code, JSON, Markdown and paths with quotes, brackets and tags, next to a second call; the markup
around them is damaged by one character, one tag, a sentence, or a token that ends the turn of any
family of models. A complete call has to be one of those that were meant, or a part of it: some of
its arguments, or, where the turn ended inside a value, the beginning of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from penstock.errors import UsageError
from penstock.formats import Format
from penstock.messages import ToolCall
from penstock.tools import Tool

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_CLAUSE: Final = {"type": "object", "properties": {"eq": _TEXT, "n": {"type": "number"}}}
TOOLS: Final = [
    Tool(
        "write_file",
        "Write a file",
        {
            "type": "object",
            "properties": {
                "path": _TEXT,
                "content": _TEXT,
                "tags": {"type": "array", "items": _TEXT},
                "mode": {"type": "integer"},
                "force": {"type": "boolean"},
            },
            "required": ["path", "content"],
        },
    ),
    Tool(
        "query",
        "Search",
        {
            "type": "object",
            "properties": {
                "filter": {
                    "type": "object",
                    "properties": {"field": _TEXT, "any": {"type": "array", "items": _CLAUSE}},
                },
                "limit": {"type": "integer"},
                "note": _TEXT,
            },
            "required": ["filter"],
        },
    ),
    Tool(
        "run_bash",
        "Run a command",
        {
            "type": "object",
            "properties": {"command": _TEXT, "timeout": {"type": "integer"}},
            "required": ["command"],
        },
    ),
    Tool("ping", "Check that the service answers", {"type": "object", "properties": {}}),
]

_CODE: Final = 'def area(r):\n    """Return it."""\n    return {"r": [r, 3.14]}\n\nprint(area(2))'
_JSX: Final = 'export const A = () => (\n  <div className="card">\n    <p>{x.y}</p>\n  </div>\n);'
_JSON: Final = '{"name": "app", "list": [1, {"k": "v"}]}'
_SHELL: Final = "for f in *.py; do echo \"$f\" | grep -c 'x' > out; done"
_MARKDOWN: Final = '# Title\n\n```python\nx = 1\n```\n\n- item: "a", b=2\n'
_MARKERS: Final = "text [TOOL_CALLS] and <think> or </s> here"
_PATH: Final = 'C:\\new\\table "x\\"'
_FILTER: Final = {"field": "name", "any": [{"eq": "a b", "n": 1.5}, {"eq": "c"}]}

RESPONSES: Final = (
    (ToolCall("c1", "write_file", {"path": "src/a.py", "content": _CODE}),),
    (ToolCall("c1", "write_file", {"path": "a.jsx", "content": _JSX, "mode": 7}),),
    (
        ToolCall(
            "c1",
            "write_file",
            {"path": "c.json", "content": _JSON, "tags": ["one", "two words"], "force": True},
        ),
    ),
    (ToolCall("c1", "run_bash", {"command": _SHELL, "timeout": 30}),),
    (ToolCall("c1", "write_file", {"path": "R.md", "content": _MARKDOWN, "tags": ["x"]}),),
    (ToolCall("c1", "query", {"filter": _FILTER, "limit": 5, "note": 'find "it"'}),),
    (
        ToolCall("c1", "run_bash", {"command": "ls -la"}),
        ToolCall("c2", "write_file", {"path": "b.txt", "content": "hello there, world", "mode": 4}),
    ),
    (ToolCall("c1", "write_file", {"path": "t.txt", "content": _MARKERS, "tags": []}),),
    (ToolCall("c1", "write_file", {"path": _PATH, "content": "ok go"}),),
    (
        ToolCall("c1", "run_bash", {"command": 'path: "b", content="c", mode=3', "timeout": 3}),
        ToolCall("c2", "ping", {}),
    ),
)

TOKENS: Final = (
    *("<|im_end|>", "<|eot_id|>", "</s>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "<turn|>"),
    *("<|return|>", "[/INST]", "<|user|>", "<|im_end|>\n<|im_start|>user\nthanks", "<eos>"),
    *("<|END_OF_TURN_TOKEN|>", "<|eom|>", "<seed:eos>", "<|call|>", "[e~[", "<|observation|>"),
    "<|start_header_id|>user<|end_header_id|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
_PROSE: Final = ("I should wait here.", "Now the next one:", "{", "}", "]", '"', ",")
_TAG: Final = re.compile(
    r"(?:\]<\]minimax\[>\[)?</?[^<>\n]{1,60}>|\[[A-Z_]{3,}\]|\[\[SEG_\w+|```\w*"
    r'|"\s*:\s*"?|[\[\]{}(),:"\'=]'
)


class HostileText(NamedTuple):
    """A damaged text, the calls that were meant, and whether the turn ended early in it."""

    text: str
    calls: tuple[ToolCall, ...]
    way: str
    is_cut: bool


def hostile_texts(fmt: Format, number: int, seed: int = 1) -> list[HostileText]:
    """Return about *number* damaged texts of *fmt*, the same ones each time."""
    random = Random(f"{fmt.name} {seed}")
    found: list[HostileText] = []
    each = -(-number // len(RESPONSES))
    for calls in RESPONSES:
        try:
            text = fmt.render_calls(calls)
        except UsageError:  # The format cannot express the call, or not several at once.
            continue
        for way, damaged in _damages(text, calls, random, each):
            if damaged != text:
                is_cut = way in ("ended", "cut")
                found.append(HostileText(damaged, calls, way, is_cut))
    return found


def restarted_texts(fmt: Format, number: int, seed: int = 1) -> list[HostileText]:
    """Return about *number* texts of *fmt* in which the model stops anywhere and begins again.

    What it wrote first may be complete up to there, so each call may come twice.
    """
    random = Random(f"restarted {fmt.name} {seed}")
    found: list[HostileText] = []
    for calls in RESPONSES:
        try:
            text = fmt.render_calls(calls)
        except UsageError:
            continue
        for _ in range(-(-number // len(RESPONSES))):
            begun = text[: random.randrange(1, len(text))]
            between = random.choice(_BETWEEN)
            is_cut = "<|" in between  # The turn ended: a value may be its beginning.
            found.append(HostileText(begun + between + text, calls * 2, "restarted", is_cut))
    return found


_BETWEEN: Final = ("", "\n", "...\n\n", "\nSorry, let me try again.\n", "<|im_end|>\n")


def _damages(  # noqa: C901 - one case per way of damage
    text: str, calls: Sequence[ToolCall], random: Random, number: int
) -> Iterator[tuple[str, str]]:
    is_markup = find_markup(text, calls)
    places = [at for at, is_free in enumerate(is_markup) if is_free and not _is_ambiguous(text, at)]
    tags = [tag for tag in _TAG.finditer(text) if all(is_markup[tag.start() : tag.end()])]
    gaps = [tag for tag in tags if _is_between(text, is_markup, tag.end())]
    if not tags:
        return
    ends = [at for at in range(1, len(text)) if is_markup[at] != is_markup[at - 1]]
    for _ in range(number):
        at, tag, gap = random.choice(places), random.choice(tags), random.choice(gaps or tags)
        match random.randrange(8 if gaps else 6):
            case 0:
                yield "missing", text[:at] + text[at + 1 :]
            case 1:
                yield "doubled", text[:at] + text[at:][:1] + text[at:]
            case 2 if at + 1 < len(text) and is_markup[at + 1]:
                yield "swapped", text[:at] + text[at + 1] + text[at] + text[at + 2 :]
            case 3:
                yield "tag missing", text[: tag.start()] + text[tag.end() :]
            case 4:
                yield "ended", text[: random.choice([at, *ends])] + random.choice(TOKENS)
            case 5:
                yield "cut", text[: tag.end()]
            case 6:
                word = random.choice(("\n", " ")).join(("", random.choice(_PROSE), ""))
                yield "words", text[: gap.end()] + word + text[gap.end() :]
            case 7:
                yield "token", text[: gap.end()] + random.choice(TOKENS) + text[gap.end() :]


_OTHER_TAGS: Final = (
    *("</parameter>", "</function>", "</invoke>", "</arg_value>", "</arg>", "</item>", "```"),
    *("<tool_call>", "</tool_call>", "<parameter=other>", "<thinking>", "<br>"),
    "</\uff5cDSML\uff5cparameter>",
)
_WHOLE_TAG: Final = re.compile(
    r"(?:\]<\]minimax\[>\[)?</?[^<>\n]{1,80}>|\[\[SEG_START|\[\[SEG_END\]\]"
)


def changed_texts(fmt: Format, number: int, seed: int = 1) -> list[HostileText]:
    """Return about *number* texts of *fmt* in which one tag is written otherwise.

    It is in capitals, has a blank or entities in it or a wrong letter, is cut or half of it comes
    twice, or it is a tag of another family of models.
    """
    random = Random(f"changed {fmt.name} {seed}")
    found: list[HostileText] = []
    for calls in RESPONSES:
        try:
            text = fmt.render_calls(calls)
        except UsageError:  # The format cannot express the call, or not several at once.
            continue
        is_markup = find_markup(text, calls)
        spans = [tag.span() for tag in _WHOLE_TAG.finditer(text)]
        spans = [(at, end) for at, end in spans if all(is_markup[at:end])]
        for _ in range(-(-number // len(RESPONSES)) if spans else 0):
            at, end = random.choice(spans)
            changed = text[:at] + _change_tag(text[at:end], random) + text[end:]
            found.append(HostileText(changed, calls, "changed", is_cut=False))
    return [each for each in found if each.text != fmt.render_calls(each.calls)]


MIN_HALF: Final = 5
"""How much of a closing tag may come twice; values end with ``</`` or ``</a``, too."""


def _change_tag(tag: str, random: Random) -> str:
    match random.randrange(8):
        case 0:
            return tag.upper()
        case 1:
            return tag.replace("<", "< ", 1)
        case 2:
            return tag[:-1] + " " + tag[-1]
        case 3:
            return tag.replace("<", "&lt;").replace(">", "&gt;")
        case 6:
            return tag[: random.randrange(2, len(tag))]
        case 7 if tag.startswith("</") and len(tag) > MIN_HALF:
            return tag[: random.randrange(MIN_HALF, len(tag))] + tag
        case 4 if letters := [at for at, char in enumerate(tag) if char.isalpha()]:
            at = random.choice(letters)
            return tag[:at] + "z" + tag[at + 1 :]
        case _:
            return random.choice(_OTHER_TAGS)


def _is_ambiguous(text: str, at: int) -> bool:
    """Return whether the character at *at*, doubled, may as well be the first one of a value."""
    return text[at] in "><\"' \n"


def find_markup(text: str, calls: Sequence[ToolCall]) -> list[bool]:
    """Return for each character of *text* whether it is part of no value."""
    is_markup = [True] * len(text)
    for value in (leaf for call in calls for leaf in _leaves(call.arguments)):
        for form in _written_forms(value):
            for found in re.finditer(re.escape(form), text):
                for at in range(*found.span()):
                    is_markup[at] = False
    return is_markup


def _written_forms(value: object) -> set[str]:
    if not isinstance(value, str):
        return {json.dumps(value), str(value)}
    quoted = json.dumps(value)[1:-1]
    marked = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    forms = {value, quoted, repr(value)[1:-1], marked, marked.replace('"', "&quot;")}
    forms.add(marked.replace('"', "&quot;").replace("'", "&apos;"))
    forms.add(value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n"))
    if "\n" in value:  # a literal block of YAML
        forms.add(re.sub(r"\n(?=[^\n])", "\n  ", value.rstrip("\n")))
    return {form for form in forms if form}


def _is_between(text: str, is_markup: list[bool], at: int) -> bool:
    """Return whether *at* is between two tags: not in quotes, and not next to a value."""
    after = at + len(text[at:]) - len(text[at:].lstrip())
    before = len(text[:at].rstrip())
    if not (is_markup[before - 1] and (after == len(text) or is_markup[after])):
        return False
    marks = [char for char, is_free in zip(text[:at], is_markup, strict=False) if is_free]
    if marks.count('"') % 2 or marks.count("'") % 2 or marks.count("<") != marks.count(">"):
        return False
    # Between the tags of an empty value, or of a key, it would be one.
    return re.search(r"<[^/<][^<]*\Z", text[:at]) is None


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


# --- the judgement ------------------------------------------------------------------------------


def find_wrong(calls: Sequence[ToolCall], hostile: HostileText) -> str:
    """Return what is wrong with the complete ones of *calls*; an empty string if nothing is."""
    complete = [call for call in calls if call.complete]
    if len(complete) > len(hostile.calls):
        return "more calls than were meant"
    for call in complete:
        meant = [each for each in hostile.calls if each.name == call.name]
        if not meant and call.name in {tool.name for tool in TOOLS}:
            return f"a call of {call.name}"
        wrong = [_compare(call.arguments, each.arguments, hostile.is_cut) for each in meant]
        if wrong and all(wrong):
            return wrong[0]
    return ""


def _compare(found: Any, meant: Any, is_cut: bool) -> str:  # noqa: FBT001 - passed on
    if isinstance(meant, dict) and isinstance(found, dict):
        for key, value in found.items():
            # A damaged name is the model's own; its value still has to be one that was meant.
            those = [meant[key]] if key in meant else list(meant.values())
            wrong = [_compare(value, each, is_cut) for each in those]
            if all(wrong) and not (key not in meant and _is_written(value, those)):
                return f"{key}: {wrong[0] if wrong else value!r}"
        return ""
    if isinstance(meant, list) and isinstance(found, list):
        pairs = zip(found, meant, strict=False)
        wrong = [each for pair in pairs if (each := _compare(*pair, is_cut))]
        return wrong[0] if wrong else f"{found!r}" if len(found) > len(meant) else ""
    if found == meant and type(found) is type(meant):
        return ""
    if isinstance(meant, str) and isinstance(found, str) and found.strip() == meant.strip():
        return ""
    if is_cut and str(meant).startswith(str(found)) and found != "":
        return ""
    return f"{found!r} for {meant!r}"


def _is_written(value: object, those: list[Any]) -> bool:
    """Return whether *value*, of a name that the tool does not have, is one of *those* as text."""
    return any(value in (str(each), json.dumps(each)) for each in those)
