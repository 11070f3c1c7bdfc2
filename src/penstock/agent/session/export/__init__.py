"""A session to read: as Markdown, or as one page of HTML that needs nothing else.

`story` says what is told and in which order, `markdown` and `html` how it looks. Whatever a model,
a user or a tool has said stays text in both: `visible` shows what could hide, and each page quotes
the rest by its own rules.
"""

from penstock.agent.session.export.html import to_html
from penstock.agent.session.export.markdown import to_markdown

__all__ = ["to_html", "to_markdown"]
