"""What the scripted model writes where nobody says what."""

from __future__ import annotations

import ast
import json

import pytest

from penstock import Tool
from penstock.models.demo.words import arguments_for

WRITE = Tool(
    "write_file",
    "Write a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)
RUN = Tool(
    "run_bash",
    "",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


def content(words: str) -> str:
    return str(arguments_for(WRITE, words)["content"])


def test_a_file_of_python_is_python_and_one_of_json_is_json() -> None:
    ast.parse(content("write a file hello.py"))
    assert json.loads(content("write a file data.json"))["scripted"] is True


@pytest.mark.parametrize("name", ["a.md", "a.sh", "a.js", "a.html", "a.txt", "a.odd"])
def test_every_file_says_that_a_script_wrote_it(name: str) -> None:
    assert "script" in content(f"write a file {name}")
    assert content(f"write a file {name}").endswith("\n")


def test_what_was_said_is_written_instead() -> None:
    assert content('write a file a.py with "pass"') == "pass"


def test_a_command_that_nobody_said_is_harmless() -> None:
    assert arguments_for(RUN, "run something") == {"command": "echo 'Hello, world!'"}


def test_what_the_schema_does_not_accept_is_not_written() -> None:
    other = {"type": "object", "properties": {"command": {"type": "integer"}}}
    tool = Tool("run", "", {**other, "required": ["command"]})
    assert isinstance(arguments_for(tool, "run")["command"], int)
