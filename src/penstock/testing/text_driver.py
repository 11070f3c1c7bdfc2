"""What the drivers of other projects share: names of parsers, pieces of calls, and tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

from penstock import formats
from penstock.conformance.suite import Case, Reading
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.reasoning import find_reasoning
from penstock.tools import Tool


class TextDriver:
    """What the drivers of other projects share: they read texts, and no streams of providers."""

    _unreachable: tuple[str, ...] = ()
    """Formats whose registered parsers read no text."""

    _means: Mapping[str, str] = {}
    """Formats of their parsers' names, where these mean another one to them."""

    def __init__(self, package: str) -> None:
        self.name = f"{package} {version(package)}"
        self._names: dict[tuple[str, str], str] = {}

    def supports(self, case: Case) -> bool:
        """Return whether the project has a parser of this format; a case with a prompt has none."""
        # Their parsers read the end of a prompt as token ids of a model's own template.
        return (case.suite, case.format) in self._names and not case.prompt

    def decode(self, case: Case, chunks: Sequence[bytes]) -> Reading:
        """Refuse: these projects decode no streams of providers."""
        raise UsageError(f"{self.name} decodes no streams: {case.id} has {len(chunks)} chunks")

    def _register(self, tools: Iterable[str], reasoning: Iterable[str]) -> None:
        """Register the names of their parsers by our names of the formats."""
        for name in tools:
            with suppress(UsageError):
                ours = formats.get(self._means.get(name, name)).name
                if ours in ("auto", "none", *self._unreachable):
                    continue
                self._names.setdefault(("calls", ours), name)
                self._names.setdefault(("wild", ours), name)
        for name in reasoning:
            with suppress(UsageError):
                style = find_reasoning(None, name)
                if style is not None:
                    self._names.setdefault(("reasoning", style.name), name)
        # A parser with our own name of the format is preferred to an alias.
        for suite, names in (("calls", tools), ("wild", tools), ("reasoning", reasoning)):
            for name in names:
                if (suite, name) in self._names:
                    self._names[suite, name] = name


class ReadingPieces:
    """Calls in numbered pieces."""

    def __init__(self) -> None:
        self.content = ""
        self.reasoning = ""
        self._calls: dict[int, tuple[str, str]] = {}

    def add(self, index: int, name: str | None, arguments: str | None) -> None:
        """Add a piece of call *index*."""
        before = self._calls.get(index, ("", ""))
        self._calls[index] = (before[0] + (name or ""), before[1] + (arguments or ""))

    def make_reading(self) -> Reading:
        """Return the reading: calls whose arguments are an object are complete."""
        calls = []
        for _, (name, arguments) in sorted(self._calls.items()):
            with suppress(ValueError):
                value = json.loads(arguments or "{}")
                if isinstance(value, dict):
                    calls.append((name, value))
        return Reading(self.content, self.reasoning, tuple(calls))


# Special tokens as models write them: in bars (those of DeepSeek are full-width), or in brackets as
# Mistral's `[TOOL_CALLS]`.
SPECIAL: Final = re.compile(r"<[|｜][^\s<>]{1,40}[|｜]>|\[[A-Z_]{4,20}\]")  # noqa: RUF001


# Parsers refuse to start if their markers are not in the vocabulary of the model.
class Vocabulary(dict[str, int]):
    """A vocabulary that has every token which a parser asks for."""

    FIRST: Final = 1_200_000  # above every code point

    def __missing__(self, token: str) -> int:
        self[token] = self.FIRST + len(self)
        return self[token]

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self[token] > 0

    def get(self, token: str, default: Any = None) -> Any:
        """Return the id of *token*, which is made if it is new."""
        del default
        return self[token]


class MarkerTokenizer:
    """One token for each character, and one for each marker.

    Markers are those that a parser has asked for, and all in bars: ``<|tools_prefix|>``.
    """

    name_or_path = "conformance"
    all_special_tokens: tuple[str, ...] = ()
    eos_token_id = 0

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()

    def get_vocab(self) -> Vocabulary:
        """Return the vocabulary."""
        return self.vocabulary

    def convert_tokens_to_ids(self, token: str) -> int:
        """Return the id of *token*."""
        return self.vocabulary[token]

    def convert_ids_to_tokens(self, ids: Sequence[int], **options: Any) -> list[str]:
        """Return the tokens of *ids*."""
        del options
        return self.split(self.decode(ids))

    def split(self, text: str) -> list[str]:
        """Return *text* as tokens."""
        markers = sorted({*self.vocabulary, *SPECIAL.findall(text)}, key=len, reverse=True)
        tokens, at = [], 0
        while at < len(text):
            marker = next((one for one in markers if one and text.startswith(one, at)), text[at])
            tokens.append(marker)
            at += len(marker)
        return tokens

    def encode(self, text: str, *positional: Any, **options: Any) -> list[int]:
        """Return the ids of *text*."""
        del positional, options
        known = self.vocabulary
        return [known[one] if len(one) > 1 else ord(one) for one in self.split(text)]

    def decode(self, ids: Sequence[int], *positional: Any, **options: Any) -> str:
        """Return the text of *ids*."""
        del positional, options
        names = {number: token for token, number in self.vocabulary.items()}
        return "".join(names.get(one) or chr(one) for one in ids)


def group_tokens(tokens: Sequence[str], chunks: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tokens of each chunk; a token that begins in a chunk belongs to it as a whole."""
    at = end = 0
    waiting = list(reversed(tokens))
    for chunk in chunks:
        end += len(chunk)
        group = []
        while waiting and at < end:
            group.append(waiting.pop())
            at += len(group[-1])
        if group:
            yield group


def own_names(names: Iterable[str]) -> list[str]:
    """Return *names* without those of penstock's own plugin, and without a choice by the server."""
    return [name for name in names if name != "auto" and not name.startswith("penstock")]


def style_for(case: Case) -> str:
    """Return the name of the reasoning that is usual for the format of *case*, if it has any.

    Some parsers of reasoning take all text until an end marker for reasoning: a server uses them
    only where the model was asked to reason.
    """
    if case.suite == "reasoning" or not case.expected.reasoning:
        return ""
    found = formats.get(case.format)
    style = found.usual_reasoning if isinstance(found, Format) else None
    return style.name if style is not None else ""


def write_tool(tool: Tool) -> dict[str, Any]:
    """Return *tool* as a request for chat completions has it."""
    function = {
        "name": tool.name, "description": tool.description, "parameters": tool.parameters
    }  # fmt: skip
    return {"type": "function", "function": function}
