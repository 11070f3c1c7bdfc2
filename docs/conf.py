"""How the documentation is built: Sphinx, MyST Markdown, furo."""

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
