"""Write the cases of the public conformance suite: `python tests/conformance/pack.py`.

The cases are those of `tests/vectors`, without what only penstock needs. `test_suite.py` fails if
the file of the package is not what this script writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.conformance.suite import Case, Expected

VECTORS: Final = Path(__file__).parents[1] / "vectors"
TARGET: Final = Path(__file__).parents[2] / "src" / "penstock" / "conformance" / "cases.jsonl"
FORMATS: Final = {"json-mix": "hermes", "gemma-fence": "gemma", "morph-xml": "morph_xml"}
"""Our names of formats that the vectors name otherwise."""

MATCHES: Final = {"exact": "exact", "strip": "words", "ignore": "ignore"}


def read_vectors(name: str) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines())


def read_expected(expect: dict[str, Any], *, reasoning: bool) -> Expected:
    calls = tuple((call["name"], call["arguments"]) for call in expect["calls"])
    return Expected(
        expect["content"] or "", calls, (expect["reasoning"] or "") if reasoning else None
    )


def make_case(vector: dict[str, Any], suite: Any, **more: Any) -> Case:
    options = vector.get("options") or {}
    prompt = options.get("prompt_suffix", "<think>" if options.get("start_in_reasoning") else "")
    return Case(
        id=vector["id"],
        suite=suite,
        format=FORMATS.get(vector["format"], vector["format"]),
        text=vector["text"],
        tools=vector["tools"] or "",
        prompt=prompt,
        match=MATCHES[vector["content_mode"]],  # type: ignore[arg-type]
        expected=read_expected(vector["expect"], reasoning=suite != "wild"),
        **more,
    )


def make_cases() -> Iterator[Case]:
    for name in ("formats", "formats_2026", "json-mix", "morph-xml"):
        yield from (make_case(vector, "calls") for vector in read_vectors(name))
    for name in ("reasoning", "reasoning_2026"):
        yield from (make_case(vector, "reasoning") for vector in read_vectors(name))
    for vector in read_vectors("wild"):
        also = [read_expected(one, reasoning=False) for one in vector.get("also", ())]
        yield make_case(vector, "wild", ended=not vector["cut"], also=also)
    for vector in read_vectors("wild_classes"):
        for format_ in vector["formats"]:
            content = vector.get("content", vector["text"])
            yield Case(
                id=vector["id"],
                suite="wild",
                format=format_,
                text=vector["text"],
                tools="bakery",
                ended=True,
                match="words" if "content" in vector else "exact",
                expected=Expected(content, tuple(map(tuple, vector.get("calls", ())))),
            )
    for vector in read_vectors("providers"):
        expect = vector["expect"]
        calls = tuple((call["name"], call["arguments"]) for call in expect["calls"])
        yield Case(
            id=vector["id"],
            suite="streams",
            format=vector["provider"],
            text=vector["sse"],
            match="exact",
            expected=Expected(expect["text"], calls, expect["thinking"]),
        )


def pack() -> bytes:
    """Return the file: a line with the sets of tools, and one line for each case."""
    toolsets = json.loads((VECTORS / "toolsets.json").read_text("utf-8"))
    lines = [msgspec.json.encode({"toolsets": toolsets}), *map(msgspec.json.encode, make_cases())]
    return b"\n".join(lines) + b"\n"


if __name__ == "__main__":
    TARGET.write_bytes(pack())
