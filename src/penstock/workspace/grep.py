"""The tool that searches the text of files.

The search runs in a process of its own (`grep_worker`), which is killed after a few seconds: a
pattern of a model may take exponential time. What was found until then is returned.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from penstock import _json
from penstock.errors import JSONParseError, ToolError
from penstock.workspace.grep_worker import translate_path
from penstock.workspace.sandbox import Folder

SECONDS: Final = 10.0
"""How long a search may take: enough for a large project."""

MAX_MATCHES: Final = 200
"""How many matching lines are returned: with more, a narrower pattern is better."""

MAX_PATTERN: Final = 1_000
"""How long a pattern may be."""

MAX_AROUND: Final = 5
"""How many lines around a match are returned."""

MAX_OUTPUT: Final = 2_000_000
"""How many bytes the search may print."""

SearchEnd = Literal["whole", "late", "long", "failed"]
"""How a search ended: at its end, after its time, after too much output, or with an error."""

_WORKER: Final = Path(__file__).with_name("grep_worker.py")


class Grep:
    """The tool that searches the files of *folder*, for at most *seconds*."""

    def __init__(self, folder: Folder, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._seconds = seconds

    async def grep(
        self,
        pattern: Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN)],
        path: str = ".",
        include: str = "",
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - the model passes it by name
        around: Annotated[int, Meta(ge=0, le=MAX_AROUND)] = 0,
        ignored_too: bool = False,  # noqa: FBT001, FBT002 - the model passes it by name
    ) -> str:
        """Search the text of files for a regular expression.

        :param pattern: A regular expression of Python, matched within single lines.
        :param path: The file or folder to search, relative to the working folder.
        :param include: Search only files that match this, such as *.py or src/**/*.ts.
        :param ignore_case: Whether upper and lower case are the same.
        :param around: How many lines before and after each match to show.
        :param ignored_too: Also search files that .gitignore excludes.
        """
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as exc:
            raise ToolError(f"The pattern is not a valid regular expression: {exc}.") from exc
        real = self._folder.locate(path)
        if not (self._folder.root / real).exists():
            raise ToolError(f"{path}: there is no such file.")
        output, end = await self._search(
            {
                "pattern": pattern,
                "path": real.as_posix(),
                "include": _compile_include(include) if include else "",
                "ignore_case": ignore_case,
                "around": around,
                "use_ignore": not ignored_too,
                "limit": MAX_MATCHES,
            }
        )
        lines = list(_render(output))
        if end == "late":
            lines.append(f"(The search was stopped after {self._seconds:g} s: use a simpler one.)")
        elif end == "long":
            lines.append("(The result was cut, because it is too long: use a narrower pattern.)")
        elif end == "failed":
            raise ToolError("The search failed: use a simpler pattern, or search fewer files.")
        return "\n".join(lines) or "(No matches.)"

    async def _search(self, given: dict[str, Any]) -> tuple[bytes, SearchEnd]:
        """Run the search; return its output, and how it ended."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", str(_WORKER)),
            cwd=self._folder.root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        pieces: list[bytes] = []
        try:
            assert process.stdin is not None  # noqa: S101 - for the type checker
            assert process.stdout is not None  # noqa: S101
            async with asyncio.timeout(self._seconds):
                process.stdin.write(_json.encode(given))
                process.stdin.close()
                size = 0
                while piece := await process.stdout.read(1 << 16):
                    pieces.append(piece)
                    size += len(piece)
                    if size > MAX_OUTPUT:
                        return b"".join(pieces), "long"
                status = await process.wait()
        except TimeoutError:
            return b"".join(pieces), "late"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return b"".join(pieces), "failed" if status else "whole"


def _compile_include(include: str) -> str:
    """Return the pattern of paths that *include* matches: by name, or with slashes by path."""
    start = "" if "/" in include else "(?:.*/)?"
    pattern = rf"(?s:{start}{translate_path(include.removeprefix('./'))})\Z"
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ToolError(f"`include` is not a valid pattern: {exc}.") from exc
    return pattern


def _render(output: bytes) -> Iterator[str]:
    """Yield the lines of the result: ``path:line:text``, and ``path-line-text`` around matches."""
    last: tuple[str, int] | None = None
    large: list[str] = []
    for raw in output.split(b"\n"):
        try:
            found = _json.decode(raw) if raw else {}
        except JSONParseError:  # cut when the search was stopped
            continue
        if "large" in found:
            large.append(found["large"])
        elif "more" in found:
            yield f"(More than {MAX_MATCHES} matches: use a narrower pattern.)"
        elif found:
            path, line = found["path"], found["line"]
            if last is not None and last[0] == path and line > last[1] + 1 and not found["match"]:
                yield "--"
            last = (path, line)
            sign = ":" if found["match"] else "-"
            yield f"{path}{sign}{line}{sign}{found['text']}{'…' * found['cut']}"
    if large:
        yield f"(Not searched, because of its size: {', '.join(large[:5])})"
