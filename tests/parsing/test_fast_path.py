"""The fast path emits the same as the slow path, whatever a streaming string contains."""

from __future__ import annotations

import pytest

from laws.cutting import cut_at
from laws.merging import merged
from penstock import Parser, formats
from penstock.events import Event, ToolCallDelta
from penstock.messages import ToolCall
from penstock.parsing import Arguments
from penstock.tools import Tool

STRING = {"type": "string"}
WRITE = Tool("write", "", {"type": "object", "properties": {"path": STRING, "tags": STRING}})
HALVES = {"QQ": "\udfff\ud800", "Q": "\ud800"}
"""Letters that stand for halves of surrogate pairs until a call is rendered."""

FORMATS = [name for name in formats.names() if name not in ("auto", "none", "file_tags")]
"""Those that have words for a call of any tool."""


def read(format_: str, pieces: list[str], arguments: Arguments = "live") -> list[Event]:
    parser = Parser(format_, [WRITE], arguments=arguments)
    return merged([*(event for one in pieces for event in parser.feed(one)), *parser.finish()])


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_surrogate_pair_is_an_escape_however_the_text_is_cut(name: str) -> None:
    call = ToolCall("c", "write", {"path": "abQQcd", "tags": "xQy"})
    text = formats.get(name).render_call(call)
    for letter, half in HALVES.items():
        text = text.replace(letter, half)
    whole = read(name, [text])
    told = "".join(event.arguments for event in whole if isinstance(event, ToolCallDelta))
    assert "\\udfff\\ud800" in told
    told.encode()  # It can be sent.
    assert read(name, list(text)) == whole


@pytest.mark.parametrize("arguments", ["live", "whole"])
@pytest.mark.parametrize("tags", [STRING, {"type": "array", "items": STRING}, {}])
def test_half_a_surrogate_pair_in_morph_xml_is_told_alike_at_every_cut(
    tags: dict[str, object], arguments: Arguments
) -> None:
    tool = Tool("write", "", {"type": "object", "properties": {"path": STRING, "tags": tags}})
    text = "<write><tags>\ud800</tags><path>\udfff</path></write>"

    def parsed(*pieces: str) -> list[Event]:
        parser = Parser("morph_xml", [tool], arguments=arguments)
        return merged([*(event for one in pieces for event in parser.feed(one)), *parser.finish()])

    whole = parsed(text)
    assert parsed(*text) == whole
    for at in range(len(text)):
        assert parsed(*cut_at(text, [at])) == whole
