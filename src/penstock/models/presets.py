"""Presets of `ToolMiddleware` for well-known model families."""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.apis.history import content_text, result_text
from penstock.apis.qwen import NO_OUTPUT
from penstock.messages import ToolResult
from penstock.models.base import Model
from penstock.models.middleware import ToolMiddleware
from penstock.tools import Tool, read_tools
from penstock.values.schema import Schema


def gemma_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls in code blocks labelled ``tool_call``."""
    return ToolMiddleware(model, "gemma", **options)


def hermes_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls with JSON between ``<tool_call>`` tags."""
    return ToolMiddleware(model, "hermes", **options)


def xml_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls with an XML element named after the tool."""
    return ToolMiddleware(model, "morph_xml", **options)


def qwen_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools as for chat.qwen.ai: a plain list at the end of the prompt."""
    own: dict[str, Any] = {
        "template": qwen_prompt,
        "placement": "last",
        "results": qwen_result,
        **options,
    }
    return ToolMiddleware(model, "qwen_web", **own)


# --- the prompt for chat.qwen.ai ---

_QWEN: Final = """\
====

TOOL USE

You have tools. To use one, write an element whose tag is the name of the tool, with one element \
inside for each parameter, as its usage shows. Use exactly one tool per message: its result comes \
in the next message. A list has one <item> for each of its elements. Write values as they are and \
close every tag.

<tools>
{tools}
</tools>"""

_EXAMPLES: Final = {
    "string": "example_value",
    "integer": "100",
    "number": "100",
    "boolean": "true",
    "array": "[]",
    "object": "{}",
}


def qwen_prompt(shown: str) -> str:
    """Return the tools, given as a JSON list, as a plain list with an example call for each."""
    tools = read_tools(_json.decode(shown))
    return _QWEN.replace("{tools}", "\n\n".join(_describe(tool) for tool in tools))


def qwen_result(result: ToolResult) -> str:
    """Return the text of a tool result for chat.qwen.ai."""
    name = f" from {result.name}" if result.name else ""
    return f"Tool Result{name}:\n{result_text(result).strip() or NO_OUTPUT}"


def _describe(tool: Tool) -> str:
    schema = Schema(tool.parameters)
    names = list(schema.properties)
    listed = ["Parameters:", *(_describe_parameter(name, schema) for name in names)]
    usage = [
        f"<{tool.name}>",
        *(_describe_usage(name, schema) for name in names),
        f"</{tool.name}>",
    ]
    return "\n".join(
        [
            f"## {tool.name}",
            f"Description: {tool.description}",
            *(listed if names else ["Parameters: None"]),
            "",
            "Usage:",
            *usage,
        ]
    )


def _describe_parameter(name: str, schema: Schema) -> str:
    inner = schema.property(name)
    needed = "required" if name in schema.required else "optional"
    kind = (inner.wants if inner is not None else None) or "string"
    description = inner.raw.get("description") if inner and isinstance(inner.raw, dict) else ""
    return f"- {name}: ({needed}) {kind}" + (f" - {description}" if description else "")


def _describe_usage(name: str, schema: Schema) -> str:
    inner = schema.property(name)
    raw = inner.raw if inner is not None and isinstance(inner.raw, dict) else {}
    if raw.get("default") is not None:
        value = content_text(raw["default"])
    else:
        value = _EXAMPLES.get((inner.wants if inner is not None else None) or "", "value")
    return f"<{name}>{value}</{name}>"
