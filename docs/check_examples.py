"""Check the types of the Python examples in the documentation: ``python docs/check_examples.py``.

Programs to copy (blocks without a prompt) become one module each, which has to pass ``mypy
--strict``. The interactive examples (``>>>``) of a page become one module, with the laxer rules for
``examples.*`` in ``pyproject.toml``: functions have no annotations at a prompt. A program that
imports a package which is not installed is skipped. mypy uses the cache of the repository, so this
takes two seconds after ``mypy``.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
_FENCE = re.compile(r"^```.*$", re.MULTILINE)


def find_examples(page: Path) -> dict[str, str]:
    """Return the modules that the examples of a page become, by their paths."""
    name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
    text = page.read_text()
    found = {}
    examples = doctest.DocTestParser().get_examples(_FENCE.sub("", text))
    if examples:
        # An example that raises is a mistake on purpose.
        source = "".join(one.source for one in examples if not one.exc_msg)
        found[f"examples/{name}.py"] = source
    programs = [block for block in _BLOCK.findall(text) if ">>>" not in block]
    for number, block in enumerate(programs, 1):
        if all(map(_is_installed, _IMPORT.findall(block))):
            found[f"programs/{name}_{number}.py"] = block
    return found


def _is_installed(package: str) -> bool:
    spec = find_spec(package)
    return spec is not None and spec.origin is not None  # a folder of pages is not a package


def main() -> int:
    """Check the examples of all pages; return the exit code of mypy."""
    with TemporaryDirectory() as folder:
        files = []
        for page in PAGES:
            for path, source in find_examples(page).items():
                file = Path(folder, path)
                file.parent.mkdir(exist_ok=True)
                file.write_text(source)
                files.append(str(file))
        search = os.pathsep.join([folder, str(ROOT / "src")])
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        done = subprocess.run(  # noqa: S603 - our own pages
            [*command, *files], cwd=ROOT, env={**os.environ, "MYPYPATH": search}, check=False
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
