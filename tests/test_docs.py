"""The examples of the documentation run, its links and names exist, its tables are up to date."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import record_terminal
from check_links import check_html, check_markdown
from generate import pages
from reference_tables import INTERNAL, PUBLIC, homes, public_names

import penstock
from doc_pages import Page, matches
from penstock.config import load

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_what_a_page_shows_happens(path: Path, tmp_path: Path) -> None:
    page = Page(path.read_text(), tmp_path)
    with page.prepare():
        for command in page.commands():
            printed, code = page.run(command)
            assert matches(command.shown, printed), f"{command.line}\n{printed}"
            assert code == command.code, f"{command.line} ended with {code}"
        page.check_screen()
        text = re.sub(r"^```.*$", "", page.localize(page.text), flags=re.MULTILINE)
        test = doctest.DocTestParser().get_doctest(text, {}, name(path), name(path), 0)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert result.failed == 0


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_the_settings_of_a_page_are_valid(path: Path, tmp_path: Path) -> None:
    """Files that commands of the page read are left to the commands: some of them are wrong."""
    file = tmp_path / "penstock.toml"
    for block in re.findall(
        r"(?<!-->\n)^```toml\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL
    ):
        text = block.replace("sha256:…", f"sha256:{0:064}")
        settings = tomllib.loads(text)
        if not {"upstreams", "models", "keys", "store", "server"} & {*settings}:
            continue  # another program's
        # A fragment may name an upstream that the page has shown before.
        shown = {*settings.get("upstreams", {})}
        models = settings.get("models", {}).values()
        named = {model["upstream"] for model in models if "upstream" in model}
        for upstream in named - shown if named or shown else {"default"}:
            text += f'\n[upstreams.{upstream}]\nbase_url = "http://127.0.0.1:1/v1"\n'
        file.write_text(text)
        load(file, dict.fromkeys(re.findall(r"\$\{(\w+)", text), "1"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert [*check_markdown(page)] == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<h1 id='top'>Home</h1> <a href='#top'>up</a> <a href='other.html#there'>there</a>"
        "<a href='other.html#gone'>gone</a> <a href='missing.html'>no page</a>"
        "<a href='https://example.org/#any'>elsewhere</a>"
    )
    (tmp_path / "other.html").write_text("<p id='there'>Here.</p>")
    assert [*check_html(tmp_path)] == [
        "index.html: other.html#gone leads to no anchor",
        "index.html: missing.html leads to no file",
    ]
    page = tmp_path / "page.md"
    page.write_text("# A *fine* `page`\n[up](#a-fine-page), [gone](#gone), [none](none.md)\n")
    assert [*check_markdown(page)] == [
        "page.md: #gone leads to no anchor",
        "page.md: none.md leads to no file",
    ]


def test_the_generated_tables_are_up_to_date() -> None:
    for page, text in pages().items():
        assert page.read_text() == text, "run `python docs/generate.py`"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_name_of_penstock_in_a_page_exists(page: Path) -> None:
    for found in re.findall(r"`(penstock(?:\.\w+)+)`", page.read_text()):
        if not found.startswith(SKIPPED):
            pkgutil.resolve_name(found)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_name_that_a_page_imports_is_in_the_reference(page: Path) -> None:
    described = {module for modules in PUBLIC.values() for module in modules}
    imports = re.findall(r"from penstock\.([\w.]+) import ([\w, ]+)", page.read_text())
    for module, names in imports:
        if f"penstock.{module}" in SKIPPED:
            continue
        for each in names.split(", "):
            below = f"{module}.{each}" in described  # `from penstock.views import segments`
            assert below or (module in described and each in public_names(module)), (module, each)


SKIPPED = (
    *("penstock.db", "penstock.toml"),
    *("penstock.integrations.litellm", "penstock.integrations.vllm"),
    *("penstock.integrations.langchain", "penstock.integrations.openai_agents"),
    "penstock.integrations.pydantic_ai",
)
"""Files that look like names of Python, and modules whose extras are not installed here."""


def test_every_public_package_is_in_the_reference() -> None:
    packages = {
        module.name.removeprefix("penstock.")
        for module in pkgutil.walk_packages(penstock.__path__, "penstock.")
        if module.ispkg and hasattr(pkgutil.resolve_name(module.name), "__all__")
    }
    described = {module for modules in PUBLIC.values() for module in modules}
    assert packages - described - INTERNAL - {"views"} == set()


def test_the_architecture_page_lists_every_layer_in_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(one for one in contracts["contracts"] if one["containers"] == ["penstock"])
    table = (
        (ROOT / "docs" / "internals" / "architecture.md").read_text().partition("## Packages")[2]
    )
    listed = re.findall(r"^\| `(\w+)` \|", table.partition("\n## ")[0], re.MULTILINE)
    expected = [name.split(" | ") for name in layers["layers"] if name != "__main__"]
    assert {*listed} == {name for names in expected for name in names}
    place = {name: number for number, names in enumerate(expected) for name in names}
    assert listed == sorted(listed, key=lambda name: place[name])


def test_every_public_name_is_in_the_reference() -> None:
    folder = ROOT / "docs" / "reference" / "python"
    for page, modules in PUBLIC.items():
        text = (folder / f"{page}.md").read_text()
        for module in modules:
            section = text.partition(f"## `penstock.{module}`\n")[2].partition("\n## ")[0]
            found = {*re.findall(r"[.`](\w+)\b", section)}
            assert {*public_names(module)} - found == set(), module
    assert {*homes()} == {
        name
        for name in penstock.__all__
        if not inspect.ismodule(pkgutil.resolve_name(f"penstock.{name}"))
    }


def test_the_recorded_terminal_is_up_to_date() -> None:
    recorded = record_terminal.render(record_terminal.record())
    assert recorded == record_terminal.FILE.read_text(), "run `python docs/record_terminal.py`"
