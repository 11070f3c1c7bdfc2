"""What Tab completes: slash commands and their arguments, and files after ``@``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from penstock.cli.chat.render import escape_text

MAX_SUGGESTIONS: Final = 50
"""The suggestions of one list."""

MAX_VISITED: Final = 20_000
"""The files and folders that a search by name visits."""

SKIPPED: Final = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules", "target"})
"""Folders that a search by name does not enter."""


class Suggestion(Struct, frozen=True):
    """A text that may replace the last *length* characters before the cursor."""

    text: str
    length: int
    about: str = ""


class InputCompleter:
    """Completes *commands*, which are names with their help texts, and files of *folder*.

    *arguments* returns the values of a command's argument, by the name of the command.
    """

    def __init__(
        self,
        folder: Path,
        commands: Mapping[str, str],
        arguments: Mapping[str, Callable[[], Awaitable[Sequence[str]]]],
    ) -> None:
        self._folder = folder
        self._commands = commands
        self._arguments = arguments

    def is_possible(self, typed: str) -> bool:
        """Return whether *typed*, the text before the cursor, ends in something to complete."""
        return typed.startswith("/") or _last_word(typed).startswith("@")

    async def complete(self, typed: str) -> list[Suggestion]:
        """Return what *typed* can become."""
        word = _last_word(typed)
        if word.startswith("@"):
            return await asyncio.to_thread(self._complete_path, word)
        command, space, argument = typed.removeprefix("/").partition(" ")
        if not typed.startswith("/"):
            return []
        if not space:
            return [
                Suggestion(f"/{name}", len(typed), about)
                for name, about in self._commands.items()
                if name.startswith(command)
            ]
        if command not in self._arguments:
            return []
        values = await self._arguments[command]()
        fitting = [value for value in values if value.startswith(argument)]
        # Names of models are long: a part from the middle is enough.
        fitting = fitting or [value for value in values if argument.lower() in value.lower()]
        return [Suggestion(value, len(argument)) for value in fitting[:MAX_SUGGESTIONS]]

    def _complete_path(self, word: str) -> list[Suggestion]:
        quoted = word.startswith('@"')
        typed = word[2:] if quoted else word[1:]
        names = list(_list_entries(self._folder, typed)) or list(_search(self._folder, typed))
        return [
            Suggestion(_quote(name, quoted=quoted), len(word))
            for name in sorted(names, key=lambda name: (name.count("/"), name))[:MAX_SUGGESTIONS]
            if escape_text(name) == name
        ]


def _last_word(typed: str) -> str:
    """Return the word before the cursor; after ``@"`` it may have spaces."""
    at = typed.rfind('@"')
    if at >= 0 and '"' not in typed[at + 2 :] and "\n" not in typed[at:]:
        return typed[at:]
    return typed[max(typed.rfind(blank) for blank in " \n\t") + 1 :]


def _quote(name: str, *, quoted: bool) -> str:
    if not quoted and " " not in name:
        return f"@{name}"
    return f'@"{name}' if name.endswith("/") else f'@"{name}"'


def _list_entries(folder: Path, typed: str) -> Iterator[str]:
    """Yield the entries of the folder in *typed* whose names begin as its last part does."""
    head, slash, start = typed.rpartition("/")
    try:
        below = Path(folder, Path(head + slash).expanduser()) if slash else folder
        with os.scandir(below) as entries:
            for entry in entries:
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if entry.name.startswith(start) and not hidden:
                    yield head + slash + entry.name + "/" * entry.is_dir()
    except (OSError, RuntimeError, ValueError):
        return


def _search(folder: Path, typed: str) -> Iterator[str]:
    """Yield the files below *folder* whose paths contain *typed*, in any case."""
    wanted = typed.lower()
    visited = found = 0
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - SKIPPED)
        visited += len(folders) + len(files)
        for name in files:
            path = os.path.relpath(Path(at, name), folder)
            if wanted in path.lower():
                yield path
                found += 1
        if visited > MAX_VISITED or found >= MAX_SUGGESTIONS:
            return
