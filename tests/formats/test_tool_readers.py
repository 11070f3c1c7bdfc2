"""Readers of single tools: registered by name, found in any case, taken out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from penstock.errors import UsageError
from penstock.formats.tool_tag import TOOL_TAG, register_tool, registered_tool, unregister_tool
from penstock.parsing import BodyReader, CallSink, Scanner, Verdict
from penstock.readers.tagged.piped_tools import EDIT_FILE, GENERIC, RUN_BASH, WRITE_FILE
from penstock.tools import Tool

TOOLS = [Tool("my_tool"), Tool("write_file")]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    unregister_tool("my_tool")
    unregister_tool("write_file")


def calls_in(text: str) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, call.arguments) for call in TOOL_TAG.parse(text, TOOLS).tool_calls]


def test_files_patches_and_commands_have_readers_of_their_own() -> None:
    found = {name: registered_tool(name) for name in ("write_file", "EDIT_FILE", "run_bash")}
    assert [tool.reader for tool in found.values()] == [WRITE_FILE, EDIT_FILE, RUN_BASH]
    assert [tool.segment_type for tool in found.values()] == ["write_file", "edit_file", "run_bash"]
    assert [tool.content for tool in found.values()] == ["content", "patch", "command"]
    assert found["run_bash"].metadata == ("background", "timeout_seconds")


def test_a_tool_that_nobody_registered_is_read_as_any_is() -> None:
    tool = registered_tool("whatever")
    assert (tool.reader, tool.segment_type) == (GENERIC, "tool_call")
    assert (tool.content, tool.metadata) == ("", ())


def test_a_reader_is_found_in_any_case() -> None:
    reader = replace(EDIT_FILE, content="diff", start_marker="<<<", end_marker=">>>")
    register_tool("My_Tool", reader, segment_type="edit_file")
    assert registered_tool("MY_TOOL").segment_type == "edit_file"
    diff = '<arg name="diff"><<<\n a\n</arg> b>>></arg>'
    text = f'<tool name="MY_TOOL">{diff}<arg name="path"> p</arg></tool>'
    assert calls_in(text) == [("my_tool", {"diff": " a\n</arg> b", "path": "p"})]


def test_a_registered_tool_can_be_taken_out_again() -> None:
    register_tool("my_tool", WRITE_FILE)
    unregister_tool("MY_TOOL")
    unregister_tool("never_there")
    assert registered_tool("my_tool").reader == GENERIC


def test_penstocks_own_reader_comes_back() -> None:
    register_tool("write_file", GENERIC)
    assert registered_tool("write_file").reader == GENERIC
    unregister_tool("write_file")
    assert registered_tool("write_file").reader == WRITE_FILE


class Shout(BodyReader):
    """Reads all text up to `</tool>` as one argument in upper case."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.end = "</tool>"
        self._name = name
        self._key = attributes.get("key", "text")

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        end = scanner.text.find(self.end, scanner.at)
        if end == -1:
            return Verdict.MORE
        text = scanner.text[scanner.at : end]
        scanner.advance_to(end + len(self.end))
        calls.open(self._name).put(self._key, text.upper())
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        del scanner, calls
        self.error = "cut"
        return Verdict.GIVE_UP


def test_a_reader_may_be_a_body_of_ones_own() -> None:
    def make(name: str, attributes: Mapping[str, str]) -> BodyReader:
        return Shout(name, attributes)

    register_tool("my_tool", make)
    assert registered_tool("my_tool").content == ""
    assert calls_in('<tool name="my_tool" key="say">hi</tool>') == [("my_tool", {"say": "HI"})]
    assert calls_in('<tool name="my_tool"/>') == [("my_tool", {})]
    assert TOOL_TAG.parse('<tool name="my_tool">hi', TOOLS).text == '<tool name="my_tool">hi'


def test_what_is_no_reader_or_has_no_name_is_refused() -> None:
    with pytest.raises(UsageError):
        register_tool("my_tool", 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        register_tool(" ", GENERIC)
