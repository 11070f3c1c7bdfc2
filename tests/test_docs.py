"""What the documentation shows is what happens, and its tables are what the code says."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_examples_of_a_page_run(page: Path) -> None:
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name(page), name(page), 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path) -> None:
    for command, shown in re.findall(
        r"^\$ (.*)\n((?:(?!```).*\n)*)", page.read_text(), re.MULTILINE
    ):
        here = command.replace("penstock ", f"{sys.executable} -m penstock ")
        done = subprocess.run(  # noqa: S602 - our own pages
            here,
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        assert done.stdout == shown


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_generated_tables_are_up_to_date() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]
    for page, text in pages().items():
        assert page.read_text() == text, "run `python docs/generate.py`"
