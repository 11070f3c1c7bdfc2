"""The configuration of Sphinx: MyST Markdown and the theme furo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "penstock"
author = "The penstock authors"
copyright = "the penstock authors"  # noqa: A001 - Sphinx wants this name

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "penstock"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
smartquotes = False  # `--flag` in a sentence keeps its dashes

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def quote_code(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Turn single backticks in a docstring into code, as in Markdown."""
    lines[:] = _CODE.sub(r"\ ``\1``\ ", "\n".join(lines)).split("\n")


def setup(app: Sphinx) -> None:
    """Register the hook with Sphinx."""
    app.connect("autodoc-process-docstring", quote_code)
