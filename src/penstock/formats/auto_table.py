"""The table of `auto`: which marker begins a call of which format.

`ALONE` are the formats with markers of their own. `SHARED` are the markers that several formats
have, or that are the prefix of other markers: the text after one of these decides.
`REASONING_STYLES` are the styles of reasoning whose markers do not occur by chance.
"""

# ruff: noqa: RUF001 - DeepSeek writes a wide bar
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.formats.reasoning import STYLES
from penstock.parsing import Channel, Reasoning
from penstock.readers.bare_json import ENVELOPE_KEYS


class AnyReasoning(Reasoning, frozen=True):
    """Reasoning in any of *styles*, where it is the first thing of a response."""

    depends_on_start = True
    styles: tuple[Reasoning, ...] = ()

    @property
    def stray_ends(self) -> tuple[str, ...]:
        """The markers that end reasoning whose beginning was not seen."""
        return tuple(dict.fromkeys(end for style in self.styles for end in style.stray_ends))

    def channel_for(self, start: str) -> Channel:
        """Return the channel that *start* opens."""
        return next(style for style in self.styles if start in style.starts).channel

    def parse_prompt(self, prompt: str) -> tuple[str, Channel] | None:
        """Return the text of *prompt* after its last start marker, and the channel it opens."""
        found = filter(None, (style.parse_prompt(prompt) for style in self.styles))
        return min(found, key=lambda opening: len(opening[0]), default=None)


_STYLES: Final = tuple(
    STYLES[name]
    for name in (
        "qwen3", "hy_v3", "seed_oss", "minimax_m3", "kimi", "mistral", "gemma4",
        "apertus", "cohere_command", "granite", "apriel", "k2_horizon", "plamo3", "solar_open",
    )
)  # fmt: skip

ANY: Final = AnyReasoning(
    "any",
    tuple(dict.fromkeys(start for style in _STYLES for start in style.starts)),
    (),
    leading=True,
    styles=_STYLES,
)
"""Every style whose marker is unambiguous."""


NAME: Final = r"[A-Za-z0-9_.:-]{1,128}"
"""A pattern of tool names."""

_BEGUN: Final = r"[A-Za-z0-9_.:-]{0,128}"
_GAP: Final = r"\s{0,256}"
_NEVER: Final = r"(?!)"
_SUFFIX: Final = r"(?::[^>\s]{1,64})?"
# A section of Hunyuan up to the first name; with ``<tool_sep>`` after it, it is hy_v3.
_HUNYUAN: Final = rf"s{_SUFFIX}>{_GAP}<tool_call{_SUFFIX}>{_GAP}(?P<name>{NAME})\s{{0,16}}"


class FormatChoice(NamedTuple):
    """A format that a marker may belong to: if *when* matches the text after the marker.

    *start* is the format's own marker. A group `name` of *when*, or *tool*, has to be a known tool.
    With *first*, nothing may come before it. With *thinks*, the marker opens reasoning in the style
    of that name instead.
    """

    format: str
    start: str
    when: re.Pattern[str]
    tool: str = ""
    first: bool = False
    thinks: bool = False


class AutoRow(NamedTuple):
    """The formats of a marker, in order; while *undecided* matches all text, more is needed."""

    undecided: re.Pattern[str]
    choices: tuple[FormatChoice, ...]


def _row(undecided: str, *choices: tuple[str, str, str]) -> AutoRow:
    return AutoRow(
        re.compile(undecided),
        tuple(FormatChoice(name, start, re.compile(when)) for name, start, when in choices),
    )


def prefix_pattern(word: str) -> str:
    """Write a pattern of every prefix of *word*, including the empty one."""
    pattern = ""
    for character in reversed(word):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return pattern


ALONE: Final = (
    *("longcat", "internlm", "phi4_mini_json", "granite_20b_fc", "gigachat3", "nemotron_toolcall"),
    *("apertus", "cohere_command", "cohere_command5", "command_r_plus", "granite"),
    *("deepseek_v31", "kimi_k2", "plamo3", "solar_open", "functionary_v3_1", "functionary_v3_2"),
    *("harmony", "inkling", "kimi_k3", "muse_glimmer"),
    *("llama4_pythonic", "olmo3", "lfm2"),
    *("seed_oss", "minimax_m2", "dots"),
    *("gigachat35", "iquest_q1", "k2_horizon"),
    *("step3", "minicpm5", "gemma4", "functiongemma"),
    "morph_xml",
)
"""The formats that have markers of their own; of two with the same marker the first has it."""

NOT_MARKERS: Final = ("to=", "{", "[", "</co", "<tool_call>")
"""Markers that are too common to count outside of their own format."""

_ROLE: Final = "function call<|role_sep|>\n"

_TOOL_CALL: Final = "tool_call\n"
_TOOL_CODE: Final = "tool_code\n"

LEADING: Final = ("functools[", _ROLE)
"""Markers that count only at the beginning: as words, they may occur anywhere in a text."""

SHARED: Final[dict[str, AutoRow]] = {
    "<tool_call": _row(
        rf"s?(?::[^>\s]{{0,64}})?\s{{0,16}}(?:>{_GAP}(?:{_BEGUN}[<\\]?"
        rf"|<\s{{0,8}}{prefix_pattern('function')}\s{{0,8}}|{prefix_pattern('<tool_name>')}|{prefix_pattern('<name>')})?)?"
        rf"|>(?:[\w.-]{{1,64}}/)?{_BEGUN}(?:>{_GAP})?"
        rf"|{_SUFFIX}>{_GAP}{_BEGUN}(?:\s{{0,8}}|{prefix_pattern('<tool_')})"
        rf"|s{_SUFFIX}>{_GAP}(?:{prefix_pattern('<tool_call')}"
        rf"|<tool_call(?::[^>\s]{{0,64}})?(?:>{_GAP}(?:{_BEGUN}\s{{0,16}}<?)?)?)",
        ("jamba", "<tool_calls>", rf"s>{_GAP}[\[{{]"),
        ("hy_v3", "<tool_call", rf"{_HUNYUAN}<t"),
        ("hy_v4", "<tool_call", rf"{_HUNYUAN}<[a/]"),
        ("hy_v3", "<tool_call", rf"{_SUFFIX}>{_GAP}(?P<name>{NAME})<tool_s"),
        ("hy_v4", "<tool_call", rf":[^>\s]{{1,64}}>{_GAP}(?P<name>{NAME})(?:\s|<)"),
        ("hermes", "<tool_call>", rf">{_GAP}[\[{{]"),
        ("qwen3_coder", "<tool_call", rf"\s{{0,16}}>{_GAP}<\s{{0,8}}function\s{{0,8}}[=n]"),
        ("hermes", "<tool_call>", rf">{_GAP}(?P<name>[\w.-]{{1,128}}):\s{{0,8}}\{{"),
        ("hermes", "<tool_call>", rf">{_GAP}(?P<name>{NAME})\s{{0,8}}[({{]"),
        ("hermes", "<tool_call>", rf">{_GAP}(?:name:\s|<(?:tool_)?name>)"),
        ("glm45", "<tool_call>", rf">{_GAP}(?P<name>{NAME})(?:\s|\\n|</|<a|<tool_c)"),
        ("glm47", "<tool_call>", rf">(?:[\w.-]{{1,64}}/)?(?P<name>{NAME})>{_GAP}\{{"),
    ),
    "<function=": _row(
        rf"\s{{0,8}}[\"']?{_BEGUN}[\"']?\s{{0,8}}(?:/|>{_GAP})?",
        ("functionary_v3_1", "<function=", rf"(?P<name>{NAME})>{_GAP}\{{"),
        (
            "qwen3_coder",
            "<function=",
            rf"\s{{0,8}}(?P<quote>[\"']?)(?P<name>{NAME})(?P=quote)\s{{0,8}}/?>",
        ),
    ),
    "<function_calls>": _row(
        rf"{_GAP}(?:{prefix_pattern('<invoke')}|{_BEGUN}\s{{0,8}})",
        ("minimax_m2", "<function_calls>", rf"{_GAP}<invoke"),
        ("olmo3", "<function_calls>", rf"{_GAP}(?:\[|{NAME}\s{{0,8}}\()"),
    ),
    "<function_call>": _row(_GAP, ("granite_20b_fc", "<function_call>", rf"{_GAP}[^<\s]")),
    "<tool_code>": _row(
        rf"{_GAP}(?:{_BEGUN}\s{{0,8}})?",
        ("gemma", "<tool_code>", rf"{_GAP}(?:[\[{{]|{NAME}\s{{0,8}}[(=])"),
    ),
    "<|python_tag|>": AutoRow(
        re.compile(_GAP),
        (
            FormatChoice("llama3_json", "<|python_tag|>", re.compile(rf"{_GAP}[\[{{]")),
            FormatChoice("functionary_v3_1", "<|python_tag|>", re.compile(""), tool="python"),
        ),
    ),
    "<|tool_calls|>": _row(
        rf"{_GAP}{prefix_pattern('<|tool_call:begin|>')}",
        ("solar_open", "<|tool_calls|>", rf"{_GAP}<\|tool_call:begin\|>"),
        ("sarashina", "<|tool_calls|>", rf"{_GAP}[\[{{]"),
    ),
    "<|start|>": _row(
        r"[^<]{0,240}(?:<\|?)?",
        ("muse_glimmer", "<|start|>", r"[^<]{0,240}to=(?!functions\.)[^<]{1,160}<\|m"),
        ("harmony", "<|start|>", r"[^<]{0,240}<\|[cms]"),
    ),
    **{
        f"<{bars}DSML": _row(
            rf"[｜|]{{0,2}}(?:{prefix_pattern('tool_c')}|{prefix_pattern('calls')})",
            ("deepseek_v41", f"<{bars}DSML", r"[｜|]{1,2}(?: |calls)"),
            ("deepseek_v4", f"<{bars}DSML", r"[｜|]{1,2}tool_c"),
            ("deepseek_v32", f"<{bars}DSML", r"[｜|]{1,2}[fi]"),
        )
        for bars in ("｜", "｜｜", "|", "||")
    },
    "]<]minimax": _row(
        rf"{prefix_pattern('[>[')}"
        rf"|\[>\[\s?(?:{prefix_pattern('<tool_call>')}|{prefix_pattern('<invoke name=')})",
        ("minimax_m3", "]<]minimax[>[<tool_call>", r"\[>\[<tool_call>"),
        ("minimax_m3", "]<]minimax[>[<invoke name=", r"\[>\[<invoke name="),
        ("minimax_m3", "]<]minimax[>[ <tool_call>", r"\[>\[ <tool_call>"),
        ("minimax_m3", "]<]minimax[>[ <invoke name=", r"\[>\[ <invoke name="),
        ("minimax_m3", "]<]minimax[>[\n<tool_call>", r"\[>\[\n<tool_call>"),
        ("minimax_m3", "]<]minimax[>[\n<invoke name=", r"\[>\[\n<invoke name="),
    ),
    **{
        f"<|message_sep|>{gap}{_ROLE}": _row(_NEVER, ("gigachat3", _ROLE, ""))
        for gap in ("\n\n", "\n", "")
    },
    "<tool ": _row(_NEVER, ("tool_tag", "<tool", "")),
    "<TOOL ": _row(_NEVER, ("tool_tag", "<tool", "")),
    "<tool\n": _row(_NEVER, ("tool_tag", "<tool", "")),
    "```": _row(
        f"{prefix_pattern(_TOOL_CALL)}|{prefix_pattern(_TOOL_CODE)}",
        ("gemma", "```tool_call\n", r"tool_call\n"),
        ("gemma", "```tool_code\n", r"tool_code\n"),
        ("bare_json", "```", ""),
    ),
    "{": _row(
        rf"\s{{0,99}}(?:[\"']{prefix_pattern('tool_call')})?",
        ("generic_json", "{", r"\s{0,99}[\"']tool_call[\"']"),
        ("bare_json", "{", ""),
    ),
    "[": AutoRow(
        re.compile(
            rf"\s{{0,99}}|{prefix_pattern('TOOL_CALLS]')}|{prefix_pattern('THINK]')}|(?i:{prefix_pattern('[SEG_START')})"
        ),
        (
            FormatChoice("mistral_args", "[TOOL_CALLS]", re.compile(r"TOOL_CALLS\]")),
            FormatChoice("sentinel", "[[SEG_START", re.compile(r"(?i:\[SEG_START)")),
            FormatChoice("mistral", "[THINK]", re.compile(r"THINK\]"), thinks=True),
            FormatChoice("pythonic", "[", re.compile(r"\s{0,99}[A-Za-z_]")),
            FormatChoice("bare_json", "[", re.compile(r"\s{0,99}\{")),
        ),
    ),
}
"""Markers of several formats: the text after them decides."""


_FILE_KEYS: Final = ("path", "content", "patch", "command")
# Characters between a key of YAML and its colon: a damaged key is not the text of a file.
_AFTER_KEY: Final = r"[^\w\n]{0,3}"


def file_row(start: str) -> AutoRow:
    """Return the formats of the tag *start* of a file, a patch or a command.

    It contains elements, or the text itself.
    """
    return _row(
        rf"(?:>\s{{0,99}}(?:<|(?:{'|'.join(map(prefix_pattern, _FILE_KEYS))}){_AFTER_KEY})|/)?",
        ("morph_xml", f"{start}>", r">\s{0,99}<[A-Za-z_]"),
        ("morph_xml", f"{start}/>", "/>"),
        ("yaml_xml", f"{start}>", rf">\s{{0,99}}(?:{'|'.join(_FILE_KEYS)}){_AFTER_KEY}[:=]"),
        ("file_tags", start, r"\s|>"),
    )


def element_row(start: str) -> AutoRow:
    """Return the formats of *start*, the tag of a tool: YAML inside, or elements."""
    return _row(
        r"\s{0,99}(?:[A-Za-z_][\w.-]{0,63}:?)?",
        ("morph_xml", start, r"(?!\s{0,99}[A-Za-z_][\w.-]{0,63}:\s)"),
        ("yaml_xml", start, ""),
    )


_KEYS: Final = tuple(sorted({*ENVELOPE_KEYS, "type"}))
_FIRSTS: Final = "".join(sorted({key[0] for key in _KEYS}))
# A pattern of the first one or two characters of a key that no envelope has.
_OTHER_KEY: Final = "|".join(
    [rf"[^{_FIRSTS}]"]
    + [
        rf"{first}[^{''.join(sorted({key[1] for key in _KEYS if key[0] == first}))}]"
        for first in _FIRSTS
    ]
)


def unless(names: Iterable[str]) -> str:
    """Write a pattern of what after a bracket says at once that no call of *names* begins there.

    It needs a character that says so: an end of the text says nothing.
    """
    known = {name[0] for name in names} | {"T"}
    # [tool_call: …], [functions.NAME(…)], [default_api.NAME(…)]
    others = {word[0]: word for word in ("tool", "func", "defa") if word[0] not in known}
    firsts = re.escape("".join(sorted(known | others.keys())))
    no_label = "".join(
        rf"|\s{{0,99}}{word[0]}(?:[^{word[1]}]|{word[1]}[^{word[2]}]|{word[1:3]}[^{word[3]}])"
        for word in others.values()
    )
    in_object = rf"\s{{0,99}}(?:[^\s\"']|[\"'](?:{_OTHER_KEY}))"
    in_list = rf"\s{{0,99}}[^\s{{\[{firsts}]|\s{{1,99}}\[|\[[^Ss]"  # two are of the sentinel
    in_list = rf"{in_list}{no_label}|\s{{0,99}}\{{{in_object}"
    return rf"(?<=\{{){in_object}|(?<=\[)(?:{in_list})"


REASONING_STYLES: Final = ("seed_oss", "minimax_m3", "kimi", "gemma4", "apertus", "cohere_command",
    "k2_horizon", "plamo3", "solar_open")  # fmt: skip
"""Styles of reasoning whose start markers count wherever they stand."""
