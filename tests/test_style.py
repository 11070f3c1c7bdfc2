"""Rules of style that no linter checks.

A budget is what the tree has left of something that it should not have. A budget may only fall:
lower it when you remove some, and the test fails when a change adds one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
MODULES = {path.relative_to(ROOT): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}

NOUNS = {"inkling", "reasoning", "recording", "thinking", "tracing"}
"""Modules that end in -ing and are nouns, or names of models."""

SHARED = {"Decoder", "Encoder"}
"""Class names that several packages use for the same role."""

MAX_LINES = 700
SMALL_FILES = 24
ODD_OPENINGS = 6

FOREIGN = {
    "flags that some systems lack": {
        "agent/session": {"O_BINARY", "O_CLOEXEC"},
        "workspace": {"O_DIRECTORY", "O_NOFOLLOW"},
    },
    "notifications and resources of the MCP package": {
        "agent/tools": {"method", "text"},
    },
    "models, fields and errors of pydantic": {
        "agent/tools": {
            *("default_factory", "documentation", "errors", "examples", "metadata", "pattern"),
            *("model_dump", "model_json_schema", "model_validate_json"),
        },
    },
    "images of Pillow and Matplotlib": {"agent/tools": {"_repr_png_"}},
    "errors and connections of aiohttp": {
        "models/http": {"abort", "certificate_error", "os_error"},
    },
    "tokenizers of vLLM, SGLang and transformers": {
        "integrations": {
            *("chat_template", "eos_token", "eos_token_id", "name_or_path", "response_template"),
        },
    },
    "tensors and arrays": {"integrations": {"tolist"}},
    "errors of database drivers": {"store": {"sqlstate"}},
    "sources and parsers that a caller passes": {
        "formats": {"rest"},
        "streams": {"aclose", "close"},
    },
}
"""Members of objects that are not ours, and the folders that may look for them with `getattr`."""

OPENINGS = {"Give", "Gives", "Tell", "Tells", "Say", "Says", "Let", "Lets", "Hear", "Know", "Show"}
"""First words of docstrings where PEP 257 wants "Return", "Report" or the verb of what happens."""

WORDING = {
    "again": ["anew"],
    "after": ["behind"],
    "by default, alone": ["by itself"],
    "continues, is resumed": ["goes on", "gone on with"],
    "images": ["pictures"],
    "in little memory": ["in little room"],
    "in progress": ["on their way"],
    "is": ["stands"],
    "is not (a)": [
        "(?<!there )is no(?! longer)",
        "(?<!there )are no(?! longer)",
        "(?<!there )is (?-i:none)",  # `None` is a value.
        "(?<!there )are (?-i:none)",
    ],
    "is sent along": ["goes along"],
    "matters": ["has a say"],
    "omitted": ["left out"],
    "reasoning": ["thoughts"],
    "receives": ["hears", "heard"],
    "repair": ["mend", "mends", "mended"],
    "reports, is notified": ["tells", "told"],
    "retried": ["asked for again"],
    "separated": ["parted", "parts from"],
    "the actor, or use the passive": ["nobody", "somebody", "whoever"],
    "valid": ["lawful", "lawfully", "unlawful"],
    "watches": ["looks on"],
}
"""What to write, and the phrases that are not plain technical English."""

PHRASES = {
    better: re.compile(rf"\b(?:{'|'.join(odd)})\b", re.IGNORECASE)
    for better, odd in WORDING.items()
}
ANY_PHRASE = re.compile("|".join(pattern.pattern for pattern in PHRASES.values()), re.IGNORECASE)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(MODULES[path])  # Not at import: every process of a run imports this module.


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, and its strings of more than one word, with their lines."""
    for number, line in enumerate(MODULES[path].splitlines(), 1):
        if comment := re.search(r"(?:^|\s)# .*", line):
            yield number, comment[0]
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


def over(budget: int, found: list[str]) -> str:
    """Describe why a budget is not kept."""
    shown = "\n".join(found[:20])
    if len(found) < budget:
        return f"{len(found)} are left: lower the budget of {budget} in tests/test_style.py"
    return f"{len(found)} found, {budget} allowed; among them:\n{shown}"


def test_the_documentation_is_written_in_plain_technical_english() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        f"{page.relative_to(ROOT)}:{number}: {phrase[0]}"
        for page in pages
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if (phrase := ANY_PHRASE.search(line))
    ]
    assert found == []


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match such patterns wrongly (decision 0005)."""
    possessive = re.compile(r"\)(?:[*+?]|\{+[\d,]+\}+)\+")
    assert [path for path, text in MODULES.items() if possessive.search(text)] == []


def test_a_module_begins_with_a_docstring() -> None:
    openings = {path: text.removeprefix("r") for path, text in MODULES.items()}
    assert [p for p, text in openings.items() if not re.match(r'"""[A-Z`]', text)] == []


def test_no_module_is_named_with_a_gerund() -> None:
    found = [path for path in MODULES if path.stem.endswith("ing") and path.stem not in NOUNS]
    assert found == []


def test_a_public_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert [name for name, found in places.items() if len(found) > 1 and name not in SHARED] == []


def test_files_are_neither_long_nor_tiny() -> None:
    sizes = Counter({path: text.count("\n") for path, text in MODULES.items()})
    assert [path for path, lines in sizes.items() if lines > MAX_LINES] == []
    small = [f"{path}: {lines} lines" for path, lines in sizes.items() if lines < 60]
    assert len(small) <= SMALL_FILES, over(SMALL_FILES, small)


def test_members_are_declared_instead_of_probed_for() -> None:
    """Contracts declare their members; `getattr` with a constant name is for foreign objects."""
    allowed = {
        (folder, name)
        for places in FOREIGN.values()
        for folder, names in places.items()
        for name in names
    }
    found = {
        (path.relative_to(SOURCE.relative_to(ROOT)).parent.as_posix(), str(node.args[1].value))
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr", "setattr", "delattr")
        and isinstance(node.args[1], ast.Constant)
        and not str(node.args[1].value).startswith("__")  # Functions, as Python describes them.
    }
    assert found - allowed == set()
    assert allowed - found == set(), "remove what is probed for no longer"


def test_a_docstring_opens_with_the_verb_of_what_happens() -> None:
    found = [
        f"{path}:{node.lineno}: {docstring.splitlines()[0]}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        and docstring.split()[0] in OPENINGS
    ]
    assert len(found) <= ODD_OPENINGS, over(ODD_OPENINGS, found)


def test_docstrings_comments_and_messages_are_in_plain_english() -> None:
    found = [
        f"{path}:{line}: {seen[0]!r}, write: {better}"
        for path in MODULES
        for line, text in prose(path)
        if ANY_PHRASE.search(text)
        for better, phrase in PHRASES.items()
        for seen in phrase.finditer(text)
    ]
    assert found == []


def test_no_page_and_no_module_names_a_machine_or_a_registry() -> None:
    folders = ("src", "tests", "docs", "bench")
    pages = [
        *ROOT.glob("*.*"),
        *(path for folder in folders for path in (ROOT / folder).rglob("*.*")),
    ]
    kinds = {".py", ".md", ".toml", ".txt", ".yaml", ".json", ".js", ".ts", ".html"}
    host = re.compile(r"(?<![\w.}])/work/\w|files\.pythonhosted|registry\.npmjs|/simple/\w")
    found = [
        f"{path.relative_to(ROOT)}: {seen[0]}"
        for path in pages
        if path.suffix in kinds
        and not {"node_modules", "_build"} & set(path.parts)
        and path != Path(__file__)
        and (seen := host.search(path.read_text()))
    ]
    assert found == []
