"""Compare the parser names of installed engines with ours: `python bench/registries.py [FOLDER]`.

Lists the names of tool parsers and reasoning parsers that penstock does not resolve, and those that
`tests/vectors/peer_names.json` lacks. With FOLDER, engines are looked for there. Install them with
`pip install --no-deps --target FOLDER vllm sglang smg ai-dynamo-runtime`: the engines in
Python are read as source and those in Rust are imported, so no dependency is needed.
Without any engine the names of the file are checked. The exit status is 1 if a name is unknown.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from penstock import formats
from penstock.errors import UsageError
from penstock.formats.reasoning import STYLES, find_reasoning

KNOWN: Final = Path(__file__).parents[1] / "tests" / "vectors" / "peer_names.json"

Names = dict[str, set[str]]
"""The names of a peer's tool parsers (`formats`) and reasoning parsers (`reasoning`)."""


def find_package(name: str) -> Path | None:
    """Return the folder of the package *name*, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def read_keys(file: Path, *tables: str) -> set[str]:
    """Return the keys of the dicts in *file* that are assigned to names that end with *tables*."""
    if not file.is_file():
        return set()
    return {
        key.value
        for name, value in _assigned(ast.parse(file.read_text("utf-8")))
        if name.endswith(tables) and isinstance(value, ast.Dict)
        for key in value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that are assigned anywhere in *tree*, with their values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            yield from (
                (each.id, node.value) for each in node.targets if isinstance(each, ast.Name)
            )


def read_vllm() -> Names:
    """Return the names that vLLM registers."""
    package = find_package("vllm")
    if package is None:
        return {}
    old = package / "entrypoints" / "openai" / "tool_parsers" / "__init__.py"
    tools = read_keys(package / "tool_parsers" / "__init__.py", "_TO_REGISTER")
    return {
        "formats": tools or read_keys(old, "_TO_REGISTER"),
        "reasoning": read_keys(package / "reasoning" / "__init__.py", "_TO_REGISTER"),
    }


def read_sglang() -> Names:
    """Return the names that SGLang knows."""
    package = find_package("sglang")
    if package is None:
        return {}
    calls = package / "srt" / "function_call" / "function_call_parser.py"
    return {
        "formats": read_keys(calls, "ToolCallParserEnum"),
        "reasoning": read_keys(package / "srt" / "parser" / "reasoning_parser.py", "DetectorMap"),
    }


def _call(module: str, function: str) -> set[str]:
    """Return what *function* of the compiled *module* lists; nothing if it is not installed."""
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return set()
    return set(vars(found)[function]())


def read_smg() -> Names:
    """Return the names that smg knows."""
    tools = _call("smg.smg_rs", "get_available_tool_call_parsers")
    reasoning = _call("smg.smg_rs", "get_available_reasoning_parsers")
    return {"formats": tools, "reasoning": reasoning} if tools else {}


def read_dynamo() -> Names:
    """Return the names that dynamo knows."""
    tools = _call("dynamo._core", "get_tool_parser_names")
    reasoning = _call("dynamo._core", "get_reasoning_parser_names")
    return {"formats": tools, "reasoning": reasoning} if tools else {}


READERS: Final[dict[str, Callable[[], Names]]] = {
    "vllm": read_vllm,
    "sglang": read_sglang,
    "smg": read_smg,
    "dynamo": read_dynamo,
}


def read_known() -> dict[str, Names]:
    """Return the names of every peer that the repository knows."""
    known = json.loads(KNOWN.read_text("utf-8"))
    peers = {**known["formats"], **known["reasoning"]}
    return {
        peer: {kind: set(known[kind].get(peer, ())) for kind in ("formats", "reasoning")}
        for peer in peers
    }


RESOLVERS: Final[dict[str, Callable[[str], object]]] = {
    "formats": formats.get,
    "reasoning": lambda name: find_reasoning(STYLES["think"], name),
}


def find_unknown(names: Names) -> list[str]:
    """Return the names that penstock does not resolve."""
    unknown = []
    for kind, resolve in RESOLVERS.items():
        for name in sorted(names.get(kind, ())):
            try:
                resolve(name)
            except UsageError:
                unknown.append(f"{kind}: {name}")
    return unknown


def compare(names: Names, known: Names) -> list[str]:
    """Return how *names* differ from those that are *known* of the same peer."""
    lines = []
    for kind in RESOLVERS:
        new, gone = names[kind] - known.get(kind, set()), known.get(kind, set()) - names[kind]
        lines += [f"new, {kind}: {name}" for name in sorted(new)]
        lines += [f"no longer there, {kind}: {name}" for name in sorted(gone)]
    return lines


def main(*arguments: str) -> int:
    """Print the unknown names of each peer, and how the peers have changed."""
    sys.path[:0] = arguments
    known = read_known()
    installed = {peer: names for peer, read in READERS.items() if (names := read())}
    total = 0
    for peer, names in (installed or known).items():
        unknown = find_unknown(names)
        total += len(unknown)
        count = sum(map(len, names.values()))
        sys.stdout.write(f"{peer}: {count} names, {len(unknown)} unknown\n")
        sys.stdout.writelines(f"    unknown, {name}\n" for name in unknown)
        if installed:
            sys.stdout.writelines(f"    {line}\n" for line in compare(names, known.get(peer, {})))
    for peer in READERS.keys() - installed.keys() if installed else ():
        sys.stdout.write(f"{peer}: not installed\n")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
