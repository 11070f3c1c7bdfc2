"""Searches files for a pattern, in a process of its own; see `grep`.

Python's patterns can take exponential time, and a thread cannot be stopped. So the search runs in a
process that is killed when it takes too long. This file imports nothing but the standard library:
it starts in a few milliseconds.

The arguments are read from stdin as JSON. The working folder is the one to search. Each match is
one line of JSON on stdout.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_DEPTH = 100
"""How deep folders are searched."""

MAX_FILE_BYTES = 5_000_000
"""How large a file is searched."""

MAX_IGNORE_BYTES = 100_000
"""How much of a .gitignore file is read."""

MAX_LINE = 300
"""How many characters of a line are returned."""

BINARY_BYTES = 8_192
"""How many bytes are looked at to tell whether a file is text, as git does."""

SKIPPED = frozenset({".git", ".hg", ".svn"})


class IgnoreRule(NamedTuple):
    """A line of a .gitignore file: *matches* paths below *folder*."""

    folder: str
    matches: re.Pattern[str]
    negated: bool
    only_folders: bool


def read_rules(folder: str, text: str) -> list[IgnoreRule]:
    """Read the .gitignore file of *folder*, which is empty or ends in a slash."""
    rules = []
    for raw in text.splitlines():
        # gitignore(5): trailing spaces count only after a backslash.
        line = raw if raw.endswith("\\ ") else raw.rstrip()
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        line = line[1:] if negated else line.removeprefix("\\")
        only_folders = line.endswith("/")
        line = line.rstrip("/")
        # Without a slash in it, a pattern matches at any depth.
        anchored = "/" in line
        try:
            pattern = _compile(line.removeprefix("/"), anchored=anchored)
        except re.error:
            continue
        rules.append(IgnoreRule(folder, pattern, negated, only_folders))
    return rules


def _compile(line: str, *, anchored: bool) -> re.Pattern[str]:
    start = "" if anchored else "(?:.*/)?"
    return re.compile(start + translate_path(line), re.DOTALL)


def translate_path(pattern: str) -> str:
    """Return the regular expression of a path: ``**`` matches any number of folders."""
    pieces = []
    parts = pattern.split("/")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            pieces.append(".*" if last else "(?:[^/]+/)*")
        else:
            pieces.append(_translate_name(part) + ("" if last else "/"))
    return "".join(pieces)


def _translate_name(pattern: str) -> str:
    """Return the regular expression of one name: no wildcard matches a slash."""
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        one = pattern[at]
        at += 1
        if one == "*":
            if pieces[-1:] != ["[^/]*"]:
                pieces.append("[^/]*")
        elif one == "?":
            pieces.append("[^/]")
        elif one == "\\" and at < len(pattern):
            pieces.append(re.escape(pattern[at]))
            at += 1
        elif one == "[" and (end := pattern.find("]", at + 1 + (pattern[at : at + 1] in "!^"))) > 0:
            inside = pattern[at:end]
            negated = inside[:1] in ("!", "^")
            inside = inside[negated:].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
            pieces.append(f"(?!/)[{'^' * negated}{inside}]")
            at = end + 1
        else:
            pieces.append(re.escape(one))
    return "".join(pieces)


def is_ignored(path: str, rules: list[IgnoreRule], *, is_folder: bool) -> bool:
    """Return whether *path* is ignored; the last rule that matches decides."""
    # gitignore(5): the last pattern that matches decides, and rules of deeper folders come later.
    for rule in reversed(rules):
        if rule.only_folders and not is_folder:
            continue
        below = path.removeprefix(rule.folder)
        if path.startswith(rule.folder) and rule.matches.fullmatch(below):
            return not rule.negated
    return False


def walk(start: str, include: re.Pattern[str] | None, *, use_ignore: bool) -> Iterator[str]:
    """Yield the files below the folder *start* that are not ignored, in order."""
    rules = parent_rules(start) if use_ignore else []
    stack = [("" if start == "." else f"{start}/", rules, 0)]
    while stack:
        folder, above, depth = stack.pop()
        try:
            with os.scandir(folder or ".") as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        rules = above
        if use_ignore and any(entry.name == ".gitignore" for entry in found):
            rules = [*above, *read_ignore_file(folder)]
        below = []
        for entry in found:
            path = folder + entry.name
            # Links to folders are not followed: they may lead out of the folder, or in a circle.
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in SKIPPED or is_ignored(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                below.append((f"{path}/", rules, depth + 1))
            elif entry.is_file(follow_symlinks=False) and (include is None or include.match(path)):
                yield path
        if depth < MAX_DEPTH:
            stack += reversed(below)


def parent_rules(start: str) -> list[IgnoreRule]:
    """Return the rules of the folders above *start*."""
    if start == ".":
        return []
    rules: list[IgnoreRule] = []
    folder = ""
    for part in start.split("/"):
        rules += read_ignore_file(folder)
        folder += f"{part}/"
    return rules


def read_ignore_file(folder: str) -> list[IgnoreRule]:
    """Read the .gitignore file of *folder*, if it has one."""
    try:
        with open(f"{folder}.gitignore", "rb") as file:  # noqa: PTH123 - pathlib is slow to load
            text = file.read(MAX_IGNORE_BYTES)
    except OSError:
        return []
    return read_rules(folder, text.decode("utf-8", "replace"))


def search_file(path: str, pattern: re.Pattern[str], around: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file that match, with the lines *around* each."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # as the tools, this needs POSIX
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return
    if len(data) > MAX_FILE_BYTES:
        yield {"large": path}
        return
    if b"\0" in data[:BINARY_BYTES]:
        return
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    shown = 0  # the number of the last line that was returned
    for number, line in enumerate(lines, 1):
        if pattern.search(line):
            for near in range(
                max(shown + 1, number - around), min(len(lines), number + around) + 1
            ):
                hit = near == number or bool(pattern.search(lines[near - 1]))
                text = lines[near - 1]
                yield {"path": path, "line": near, "text": text[:MAX_LINE], "match": hit,
                       "cut": len(text) > MAX_LINE}  # fmt: skip
                shown = near
            shown = max(shown, number)


def main() -> None:
    """Search, and print what is found."""
    given = json.load(sys.stdin.buffer)  # UTF-8, whatever the locale is
    pattern = re.compile(given["pattern"], re.IGNORECASE if given["ignore_case"] else 0)
    include = re.compile(given["include"]) if given["include"] else None
    start = given["path"]
    paths = [start] if os.path.isfile(start) else walk(  # noqa: PTH113 - pathlib is slow to load
        start, include, use_ignore=given["use_ignore"]
    )  # fmt: skip
    left = given["limit"]
    for path in paths:
        for found in search_file(path, pattern, given["around"]):
            left -= found.get("match", False)
            if left < 0:
                sys.stdout.write('{"more": true}\n')
                return
            sys.stdout.write(json.dumps(found) + "\n")
        # The reader may stop this process at any time, and keeps what it has received.
        sys.stdout.flush()


if __name__ == "__main__":
    main()
