"""Tools for models that have none: told in words on the way in, read out of words on the way out.

`model` holds the two ways together; `prompting` and `retelling` make the request, `choice` says
what it demands, `gate` makes one answer of all attempts, `chosen` reads an answer that is one call.
"""

from penstock.models.middleware.choice import Constraint
from penstock.models.middleware.model import ToolMiddleware
from penstock.models.middleware.presets import gemma_tools, hermes_tools, qwen_tools, xml_tools

__all__ = [
    "Constraint",
    "ToolMiddleware",
    "gemma_tools",
    "hermes_tools",
    "qwen_tools",
    "xml_tools",
]
