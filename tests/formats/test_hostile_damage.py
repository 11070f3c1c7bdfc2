"""Law 11 over every format with rich values and single wrong characters: `laws.hostile`.

To print what is wrong in more texts of some formats than a test reads:

    PYTHONPATH=src:tests python -m formats.test_hostile_damage 400 hermes glm45
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import pytest

from laws.damage import SETTINGS, Setting
from laws.hostile import (
    TOOLS,
    HostileText,
    changed_texts,
    find_wrong,
    hostile_texts,
    restarted_texts,
)
from penstock import Parser
from penstock.events import ToolCallEnd
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall

TEXTS: Final = 60
"""How many texts are read per format."""

FORMATS: Final = {fmt.name: fmt for fmt in BUILT_IN if fmt.name not in {"auto", "none"}}


def read(fmt: Format, text: str, setting: Setting) -> list[ToolCall]:
    """Return the calls that are read out of *text*; the response ended."""
    live = setting.arguments == "live"
    parser = Parser(
        setting.reader or fmt, TOOLS, arguments=setting.arguments, repair=setting.repair, trim=live
    )
    events = [*parser.feed(text), *parser.finish(cut=False)]
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


TAGGED: Final = {
    name: fmt
    for name, fmt in FORMATS.items()
    if name
    in {
        *("morph_xml", "qwen_web", "tool_tag", "file_tags", "sentinel", "beam", "kimi_k3"),
        *("muse_glimmer", "cohere_command5", "qwen3_coder", "seed_oss", "nemotron_v3", "step3p5"),
        *("mimo", "glm45", "glm47", "ling3", "poolside_v1", "hy_v3", "minimax_m2", "dots", "step3"),
        *("minicpm5", "minimax_m3", "deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35"),
        *("hy_v4", "k2_horizon", "iquest_q1"),
    }
}
"""Formats whose values are raw text between tags."""


def find_all_wrong(
    fmt: Format, number: int, *, changed: bool = False
) -> Iterator[tuple[str, Setting, HostileText]]:
    """Yield what is wrong in *number* damaged texts, each read in the next setting."""
    texts = changed_texts(fmt, number) if changed else hostile_texts(fmt, number)
    # A file of sentinel may hold a start marker: only the end marker ends it.
    if not changed and fmt.name != "sentinel":
        texts += restarted_texts(fmt, number // 2)
    for at, hostile in enumerate(texts):
        setting = SETTINGS[(at + at // len(SETTINGS)) % len(SETTINGS)]
        wrong = find_wrong(read(fmt, hostile.text, setting), hostile)
        if wrong:
            yield wrong, setting, hostile


@pytest.mark.parametrize("name", FORMATS)
def test_no_complete_call_has_an_argument_that_was_not_meant(name: str) -> None:
    lines = [
        f"{setting.name}, {hostile.way}: {wrong}\n    {hostile.text!r}"
        for wrong, setting, hostile in find_all_wrong(FORMATS[name], TEXTS)
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("name", TAGGED)
def test_a_tag_that_is_written_otherwise_is_no_part_of_an_argument(name: str) -> None:
    lines = [
        f"{setting.name}: {wrong}\n    {hostile.text!r}"
        for wrong, setting, hostile in find_all_wrong(TAGGED[name], TEXTS, changed=True)
    ]
    assert not lines, "\n".join(lines)


def _main(number: int, names: list[str]) -> None:
    total = 0
    for name in names or FORMATS:
        for wrong, setting, hostile in find_all_wrong(FORMATS[name], number):
            total += 1
            sys.stdout.write(f"{name} {setting.name} {hostile.way}: {wrong}\n  {hostile.text!r}\n")
    sys.stdout.write(f"{total} wrong\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
