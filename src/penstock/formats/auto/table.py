"""What `auto` knows: which marker begins a call of which format.

`ALONE` are the formats whose markers are their own. `SHARED` are the markers that several formats
have, or that begin other markers: after one of these the text is looked at until it tells.
`THOUGHTS` are the styles of reasoning whose markers nobody writes by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.formats.reasoning import STYLES
from penstock.parsing import Channel, Reasoning
from penstock.parsing.readers.bare_json import ENVELOPE_KEYS

# Thoughts in any style: the marker that opens one says how it ends.


class AnyReasoning(Reasoning, frozen=True):
    """Reasoning in any of *styles*, where it is the first thing of an answer."""

    styles: tuple[Reasoning, ...] = ()

    def opened_by(self, start: str) -> Channel:
        """Return the channel that *start* opens."""
        return next(style for style in self.styles if start in style.starts).channel

    def opened_in(self, prompt: str) -> tuple[str, Channel] | None:
        """Return what *prompt* says after the last marker that opens a thought, and its channel."""
        at, style = max(
            ((prompt.rfind(start), style) for style in self.styles for start in style.starts),
            key=lambda found: found[0],
        )
        return None if at == -1 else style.opened_in(prompt[at:])


_STYLES: Final = tuple(
    STYLES[name]
    for name in (
        "qwen3", "hy_v3", "seed_oss", "minimax_m3", "kimi",
        "mistral", "gemma4", "apertus", "cohere_command", "granite",
    )
)  # fmt: skip

ANY: Final = AnyReasoning(
    "any",
    tuple(dict.fromkeys(start for style in _STYLES for start in style.starts)),
    (),
    leading=True,
    styles=_STYLES,
)
"""Every style whose marker says which one it is."""


NAME: Final = r"[A-Za-z0-9_.:-]{1,128}"
"""What a tool may be called."""

_BEGUN: Final = r"[A-Za-z0-9_.:-]{0,128}"
_GAP: Final = r"\s{0,256}"
_NEVER: Final = r"(?!)"


class FormatChoice(NamedTuple):
    """A format that a marker may stand for: where *when* matches what follows the marker.

    *start* is the format's own marker. A group `name` of *when*, or *tool*, has to be a known tool.
    With *first*, nothing may have been said before. With *thinks*, the marker opens a thought in
    the style of that name instead.
    """

    format: str
    start: str
    when: re.Pattern[str]
    tool: str = ""
    first: bool = False
    thinks: bool = False


class AutoRow(NamedTuple):
    """What a marker may stand for, in order; text that is all *undecided* does not tell yet."""

    undecided: re.Pattern[str]
    choices: tuple[FormatChoice, ...]


def _row(undecided: str, *choices: tuple[str, str, str]) -> AutoRow:
    return AutoRow(
        re.compile(undecided),
        tuple(FormatChoice(name, start, re.compile(when)) for name, start, when in choices),
    )


def beginning_of(word: str) -> str:
    """Write a pattern of every beginning of *word*, the empty one too."""
    pattern = ""
    for character in reversed(word):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return pattern


ALONE: Final = (
    *("longcat", "internlm", "phi4_mini_json", "granite_20b_fc", "gigachat3", "nemotron_toolcall"),
    *("apertus", "cohere_command", "command_r_plus", "granite"),
    *("deepseek_v31", "kimi_k2", "functionary_v3_1", "functionary_v3_2"),
    *("harmony", "inkling", "kimi_k3", "muse_glimmer"),
    *("llama4_pythonic", "olmo3", "lfm2"),
    *("seed_oss", "minimax_m2", "dots", "deepseek_v32", "deepseek_v4"),
    *("step3", "minicpm5", "gemma4", "functiongemma"),
    "morph_xml",
)
"""The formats that have markers of their own; of two with the same marker the first has it."""

NOT_MARKERS: Final = ("to=", "{", "[", "</co", "<tool_call>")
"""Markers that mean nothing by themselves outside of their own format."""

_ROLE: Final = "function call<|role_sep|>\n"

LEADING: Final = ("functools[", _ROLE)
"""Markers that count only first of all: a word would wake the parser all through a text."""

SHARED: Final[dict[str, AutoRow]] = {
    "<tool_call": _row(
        rf"s?(?::[^>\s]{{0,64}})?\s{{0,16}}(?:>{_GAP}(?:{_BEGUN}[<\\]?)?)?",
        ("jamba", "<tool_calls>", rf"s>{_GAP}[\[{{]"),
        ("hy_v3", "<tool_call", rf"s(?::[^>\s]{{1,64}})?>{_GAP}<"),
        ("hy_v3", "<tool_call", rf"(?::[^>\s]{{1,64}})?>{_GAP}(?P<name>{NAME})<t"),
        ("hermes", "<tool_call>", rf">{_GAP}[\[{{]"),
        ("qwen3_coder", "<tool_call", rf"\s{{0,16}}>{_GAP}<"),
        ("glm45", "<tool_call>", rf">{_GAP}(?P<name>{NAME})(?:\s|\\n|</|<a)"),
    ),
    "<function=": _row(
        rf"\s{{0,8}}{_BEGUN}\s{{0,8}}(?:/|>{_GAP})?",
        ("functionary_v3_1", "<function=", rf"(?P<name>{NAME})>{_GAP}\{{"),
        ("qwen3_coder", "<function=", rf"\s{{0,8}}(?P<name>{NAME})\s{{0,8}}/?>"),
    ),
    "<|python_tag|>": AutoRow(
        re.compile(_GAP),
        (
            FormatChoice("llama3_json", "<|python_tag|>", re.compile(rf"{_GAP}[\[{{]")),
            FormatChoice("functionary_v3_1", "<|python_tag|>", re.compile(""), tool="python"),
        ),
    ),
    "<|start|>": _row(
        r"[^<]{0,240}(?:<\|?)?",
        ("muse_glimmer", "<|start|>", r"[^<]{0,240}to=(?!functions\.)[^<]{1,160}<\|m"),
        ("harmony", "<|start|>", r"[^<]{0,240}<\|[cms]"),
    ),
    "]<]minimax": _row(
        rf"{beginning_of('[>[')}"
        rf"|\[>\[\s?(?:{beginning_of('<tool_call>')}|{beginning_of('<invoke name=')})",
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
        beginning_of("tool_call\n"),
        ("gemma", "```tool_call\n", r"tool_call\n"),
        ("bare_json", "```", ""),
    ),
    "{": _row(
        rf"\s{{0,99}}(?:[\"']{beginning_of('tool_call')})?",
        ("generic_json", "{", r"\s{0,99}[\"']tool_call[\"']"),
        ("bare_json", "{", ""),
    ),
    "[": AutoRow(
        re.compile(
            rf"\s{{0,99}}|{beginning_of('TOOL_CALLS]')}|{beginning_of('THINK]')}|(?i:{beginning_of('[SEG_START')})"
        ),
        (
            FormatChoice("mistral_args", "[TOOL_CALLS]", re.compile(r"TOOL_CALLS\]")),
            FormatChoice("sentinel", "[[SEG_START", re.compile(r"(?i:\[SEG_START)")),
            FormatChoice("mistral", "[THINK]", re.compile(r"THINK\]"), thinks=True),
            FormatChoice("pythonic", "[", re.compile(r"\s{0,99}[A-Za-z_]"), first=True),
            FormatChoice("bare_json", "[", re.compile(r"\s{0,99}\{")),
        ),
    ),
}
"""Markers that do not tell by themselves."""


def file_row(start: str) -> AutoRow:
    """Return what the tag of a file, a patch or a command may stand for, of which *start* is left.

    Elements are in it, or the text itself.
    """
    return _row(
        r"(?:>\s{0,99}<?|/)?",
        ("morph_xml", f"{start}>", r">\s{0,99}<[A-Za-z_]"),
        ("morph_xml", f"{start}/>", "/>"),
        ("file_tags", start, r"\s|>"),
    )


_KEYS: Final = "".join(sorted({key[0] for key in (*ENVELOPE_KEYS, "type")}))


def unless(names: Iterable[str]) -> str:
    """Write a pattern of what after a bracket says at once that no call of *names* begins there.

    It needs a character that says so: an end of the text says nothing.
    """
    firsts = re.escape("".join(sorted({name[0] for name in names} | {"T"})))
    in_object = rf"\s{{0,99}}(?:[^\s\"']|[\"'][^{_KEYS}])"
    in_list = rf"\s{{0,99}}[^\s{{\[{firsts}]|\s{{1,99}}\[|\[[^Ss]"  # two are of the sentinel
    in_list = rf"{in_list}|\s{{0,99}}\{{{in_object}"
    return rf"(?<=\{{){in_object}|(?<=\[)(?:{in_list})"


THOUGHTS: Final = ("seed_oss", "minimax_m3", "kimi", "gemma4", "apertus", "cohere_command")
"""Styles of reasoning whose start markers count wherever they stand."""
