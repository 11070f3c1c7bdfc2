"""What an MCP server answers to a call, as the output of a tool.

Text and pictures are blocks; a picture is what begins as one, whatever the server calls it. A
resource is its text, or the picture that it is; what a model cannot be shown (sound, drawings, what
is too large, other files) is named. Structured content repeats what the blocks say, so it goes to
`details`, unless there are no blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.agent.tools.base import ToolOutput
from penstock.agent.tools.contents import read_encoded_picture
from penstock.messages import Text
from penstock.request import Image

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


def read_output(result: CallToolResult) -> ToolOutput:
    """Read the result of a call; one that failed on the server's side is an error."""
    blocks = [_read_block(block) for block in result.content]
    structured = result.structured_content
    content: Any = blocks
    if not blocks:
        content = "" if structured is None else structured
    elif all(isinstance(block, Text) for block in blocks):
        content = "\n".join(block.text for block in blocks if isinstance(block, Text))
    return ToolOutput(content, is_error=bool(result.is_error), details=structured)


def _read_block(block: ContentBlock) -> Text | Image:
    match block.type:
        case "text":
            return Text(block.text)
        case "image":
            return read_encoded_picture(block.data, block.mime_type)
        case "audio":
            return Text(f"(sound, {block.mime_type}, that cannot be shown)")
        case "resource":
            return _read_resource(block.resource)
        case "resource_link":
            named = f"{block.name}: {block.uri}"
            return Text(f"{named} ({block.description})" if block.description else named)


def _read_resource(resource: Any) -> Text | Image:
    text = getattr(resource, "text", None)
    if text is not None:
        return Text(text)
    kind = resource.mime_type or "bytes"
    if kind.startswith("image/"):
        return read_encoded_picture(resource.blob, f"{resource.uri}, {kind}")
    return Text(f"({resource.uri}, {kind}, that cannot be shown)")
