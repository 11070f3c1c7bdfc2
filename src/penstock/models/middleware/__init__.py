"""Tool calls for models without native tools: shown in the prompt, parsed from the text.

Start with `model.ToolMiddleware`. `prompting` renders the request, `tool_choice` enforces what the
request demands, `attempts` reads the response and repeats it where it must be repeated.
"""

from penstock.models.middleware.model import ToolMiddleware
from penstock.models.middleware.presets import gemma_tools, hermes_tools, qwen_tools, xml_tools
from penstock.models.middleware.tool_choice import Constraint

__all__ = [
    "Constraint",
    "ToolMiddleware",
    "gemma_tools",
    "hermes_tools",
    "qwen_tools",
    "xml_tools",
]
