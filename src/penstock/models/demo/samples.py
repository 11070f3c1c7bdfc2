"""Texts for arguments that nobody said: a small file, a harmless command.

Whoever asks the script to write ``hello.py`` wants to see a file being written, and not the words
of an example.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from penstock.values.schema import Schema

_FILES: Final = {
    ".py": """\
\"\"\"A file that a script wrote.\"\"\"


def greet(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    print(greet("world"))
""",
    ".js": """\
// A file that a script wrote.
export function greet(name) {
  return `Hello, ${name}!`;
}

console.log(greet("world"));
""",
    ".sh": """\
#!/bin/sh
# A file that a script wrote.
echo "Hello, world!"
""",
    ".md": """\
# Hello

This file was written by a *scripted* model:

- it follows simple rules,
- it understands nothing,
- it writes the same file every time.
""",
    ".json": """\
{
  "greeting": "Hello, world!",
  "scripted": true
}
""",
    ".html": """\
<!doctype html>
<title>Hello</title>
<p>Hello, world! A script wrote this page.</p>
""",
    "": """\
Hello, world!
A script wrote this file.
""",
}
"""Files by the ending of their names; any other is plain text."""

_COMMAND: Final = "echo 'Hello, world!'"


def sample_for(name: str, schema: Schema, made: dict[str, Any], example: Any) -> Any:
    """Give a text for the argument *name* beside those that are *made*; else *example*."""
    sample = ""
    if name == "content" and isinstance(made.get("path"), str):
        sample = _FILES.get(PurePosixPath(made["path"]).suffix.lower(), _FILES[""])
    elif name == "command":
        sample = _COMMAND
    return sample if sample and schema.accepts(sample) else example
