"""Law 11 over every format: no damaged call becomes a complete call with wrong arguments.

`laws.damage` renders calls with plain values and damages each text in every single place. A
sample of them is read once, in one of the settings (named format and `auto`, `whole` and `live`,
repair on and off), so that a format is tried in all of them for the price of one.

`BARS` records per format the share read exactly as meant, which must not fall, and what is still
allowed to be corrupted or altered. After an improvement, print the new lines of a format with

    PYTHONPATH=src:tests python -m formats.test_law_11 hermes glm45
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final, NamedTuple

import pytest

from laws import effort
from laws.damage import (
    SETTINGS,
    Damaged,
    Outcome,
    Setting,
    closed_early,
    damaged_texts,
    outcome,
    read_damaged,
    twice_damaged,
)
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall

TEXTS: Final = 240
"""How many damaged texts are read per format, at most; `bench/damage.py` reads all of them."""

TWICE: Final = 24
"""How many texts with two damages are read per format."""

FORMATS: Final = {fmt.name: fmt for fmt in BUILT_IN if fmt.name not in {"auto", "none"}}


class Bar(NamedTuple):
    """Percentages: *exact* is a minimum, *corrupted* and *altered* are maxima."""

    exact: int
    corrupted: int = 0
    altered: int = 0


class Reading(NamedTuple):
    """A damaged text, how it was read, and what came of it."""

    damaged: Damaged
    setting: Setting
    calls: list[ToolCall]
    outcome: Outcome


BARS: Final[dict[str, Bar]] = {
    "hermes": Bar(30, 0, 1),
    "gemma": Bar(28, 0, 1),
    "morph_xml": Bar(36, 0, 2),
    "qwen_web": Bar(36, 0, 2),
    "yaml_xml": Bar(14),
    "tool_tag": Bar(35, 0, 2),
    "file_tags": Bar(39),
    "sentinel": Bar(29, 0, 1),
    "json_tool": Bar(26, 0, 1),
    "json_tool_openai": Bar(25, 0, 1),
    "json_tool_gemini": Bar(24, 0, 1),
    "bare_json": Bar(24, 0, 1),
    "qwen25": Bar(32, 0, 1),
    "granite4": Bar(32, 0, 1),
    "trinity": Bar(32, 0, 1),
    "ernie45": Bar(33, 0, 1),
    "longcat": Bar(32, 0, 1),
    "internlm": Bar(30),
    "jamba": Bar(36),
    "hunyuan_a13b": Bar(35),
    "minimax_m1": Bar(33, 0, 1),
    "phi4_mini_json": Bar(29, 0, 1),
    "firefunction_v2": Bar(30, 0, 1),
    "granite_20b_fc": Bar(30),
    "gigachat3": Bar(29),
    "nemotron_toolcall": Bar(35),
    "apertus": Bar(36, 0, 1),
    "cohere_command": Bar(31),
    "cohere_command5": Bar(15),
    "command_r7b": Bar(30, 0, 1),
    "command_r_plus": Bar(28, 0, 1),
    "llama3_json": Bar(21),
    "xlam": Bar(23, 0, 1),
    "granite": Bar(23, 0, 1),
    "generic_json": Bar(21, 0, 1),
    "mistral_array": Bar(31, 0, 1),
    "mistral_args": Bar(30, 0, 1),
    "magistral": Bar(30, 0, 1),
    "mistral_v11": Bar(27, 0, 1),
    "deepseek_v3": Bar(42),
    "deepseek_v31": Bar(38),
    "kimi_k2": Bar(38),
    "functionary_v3_1": Bar(34, 0, 1),
    "beam": Bar(37, 0, 2),
    "harmony": Bar(31),
    "inkling": Bar(31, 0, 1),
    "kimi_k3": Bar(42),
    "muse_glimmer": Bar(51, 0, 1),
    "functionary_v3_2": Bar(22, 0, 1),
    "pythonic": Bar(11, 0, 1),
    "llama4_pythonic": Bar(18),
    "olmo3": Bar(20, 0, 2),
    "lfm2": Bar(18),
    "qwen3_coder": Bar(42, 0, 2),
    "seed_oss": Bar(50, 0, 2),
    "nemotron_v3": Bar(46, 0, 2),
    "step3p5": Bar(43, 0, 2),
    "mimo": Bar(43, 0, 2),
    "glm45": Bar(44, 0, 2),
    "glm47": Bar(48, 0, 4),
    "ling3": Bar(45, 0, 3),
    "poolside_v1": Bar(47, 0, 3),
    "hy_v3": Bar(44, 0, 2),
    "minimax_m2": Bar(46, 0, 3),
    "dots": Bar(48, 0, 3),
    "deepseek_v32": Bar(48, 0, 3),
    "deepseek_v4": Bar(49, 0, 3),
    "deepseek_v41": Bar(47, 0, 3),
    "gigachat35": Bar(49, 0, 3),
    "hy_v4": Bar(42, 0, 2),
    "iquest_q1": Bar(48, 0, 3),
    "k2_horizon": Bar(54, 0, 3),
    "plamo3": Bar(35, 0, 1),
    "solar_open": Bar(37, 0, 1),
    "sarashina": Bar(22, 0, 1),
    "step3": Bar(58, 0, 2),
    "minicpm5": Bar(50, 0, 2),
    "minimax_m3": Bar(62, 0, 1),
    "gemma4": Bar(20, 0, 3),
    "functiongemma": Bar(20, 0, 3),
}


def read_all(fmt: Format) -> list[Reading]:
    """Read the damaged texts of *fmt*, an even sample of them, each in the next of the settings."""
    once = damaged_texts(fmt)
    found = []
    for at, damaged in enumerate([*once[:: -(-len(once) // TEXTS)], *twice_damaged(fmt, TWICE)]):
        setting = SETTINGS[(at + at // len(SETTINGS)) % len(SETTINGS)]
        calls = read_damaged(fmt, damaged.text, setting)
        found.append(Reading(damaged, setting, calls, outcome(calls, damaged.calls)))
    return found


def shown(readings: list[Reading], kind: Outcome) -> str:
    """Write the first texts that had the outcome *kind*."""
    lines = [
        f"{each.setting.name}: {each.damaged.text!r}\n    "
        + "\n    ".join(f"{c.name} {c.arguments!r} complete={c.complete}" for c in each.calls)
        for each in readings
        if each.outcome == kind
    ]
    return f"{len(lines)} of {len(readings)} {kind}:\n" + "\n".join(lines[:5])


def test_every_format_has_a_bar() -> None:
    assert BARS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_call_is_what_was_meant_or_no_complete_call(name: str) -> None:
    readings = read_all(FORMATS[name])
    share = {kind: number / len(readings) for kind, number in _count(readings).items()}
    bar = BARS[name]
    assert share.get("corrupted", 0) * 100 <= bar.corrupted, shown(readings, "corrupted")
    assert share.get("altered", 0) * 100 <= bar.altered, shown(readings, "altered")
    assert share.get("exact", 0) * 100 >= bar.exact, shown(readings, "none")


@pytest.mark.parametrize("name", FORMATS)
def test_an_object_that_is_closed_early_is_not_a_complete_call(name: str) -> None:
    fmt = FORMATS[name]
    for at, damaged in enumerate(closed_early(fmt)):
        # The four ways to close at a comma are each read in two settings, at the next in others.
        turn = (at + at // 4) % 4
        for setting in SETTINGS if effort.exhaustive else SETTINGS[turn::4]:
            calls = read_damaged(fmt, damaged.text, setting)
            assert outcome(calls, damaged.calls) not in ("corrupted", "altered"), (
                damaged.text,
                setting.name,
                calls,
            )


def _count(readings: list[Reading]) -> Counter[Outcome]:
    return Counter(each.outcome for each in readings)


def _main(names: list[str]) -> None:
    """Print the lines of `BARS` as they would be now."""
    for name in names or FORMATS:
        readings = read_all(FORMATS[name])
        found = _count(readings)
        exact = found["exact"] * 100 // len(readings)
        wrong = [-(-found[kind] * 100 // len(readings)) for kind in ("corrupted", "altered")]
        bar = ", ".join(map(str, [exact, *wrong] if any(wrong) else [exact]))
        sys.stdout.write(f'    "{name}": Bar({bar}),\n')


if __name__ == "__main__":
    _main(sys.argv[1:])
