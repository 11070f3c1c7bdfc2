"""Tools that the Messages API defines by type and the client runs: bash, text editor, memory, ….

A client sends ``{"type": "bash_20250124", "name": "bash"}`` without a schema, because Claude was
trained on it. Any other model needs the schema, so this module has the inputs that the
documentation of each tool lists. For other upstreams the tool is an ordinary function, and the
client receives a call with the inputs that it expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.apis.fields import text_at
from penstock.tools import Tool

_TYPE: Final = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")
_NEW_INSERT: Final = 20_250_728
"""The first version of the editor whose `insert` takes `insert_text` instead of `new_str`."""

_LAST_UNDO: Final = 20_250_124
"""The last version of the editor with `undo_edit`."""

_ZOOM: Final = 20_251_124
"""The first version of the computer tool with `zoom`."""


def read_client_tool(data: object) -> Tool | None:
    """Return the function for the typed tool *data*; None for any other tool."""
    if not isinstance(data, Mapping):
        return None
    found = _TYPE.fullmatch(text_at(data, "type"))
    name = text_at(data, "name")
    if found is None or not name:
        return None
    description, properties, required = _KINDS[found[1]](int(found[2]), data)
    needed = {"required": required} if required else {}
    return Tool(name, description, {"type": "object", "properties": properties, **needed})


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _bash(_version: int, _data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    properties = {
        "command": _string("The command to run. Required unless `restart` is true."),
        "restart": {"type": "boolean", "description": "Restart the session instead."},
    }
    description = "Run a command in a bash session that keeps its state from one call to the next."
    return description, properties, []


def _editing(*, insert: str) -> dict[str, Any]:
    """Return the parameters that the editor and the memory tool share.

    *insert* is the name of the parameter for inserted text.
    """
    line = {"type": "integer", "minimum": 0}
    properties = {
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "`view` of a file: its first and last line, from 1; -1 is the end.",
        },
        "file_text": _string("`create`: the content of the new file."),
        "old_str": _string("`str_replace`: the text to replace, exactly as it is in the file."),
        "new_str": _string("`str_replace`: the text to put in its place."),
        "insert_line": {**line, "description": "`insert`: the line after which; 0 is the start."},
    }
    if insert == "new_str":
        properties["new_str"] = _string("`str_replace` and `insert`: the new text.")
    else:
        properties[insert] = _string("`insert`: the text to insert.")
    return properties


def _text_editor(version: int, data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    commands = ["view", "create", "str_replace", "insert"]
    if version <= _LAST_UNDO:
        commands.append("undo_edit")
    properties = {
        "command": _string("What to do.", enum=commands),
        "path": _string("The path of the file, or of the directory to view."),
        **_editing(insert="insert_text" if version >= _NEW_INSERT else "new_str"),
    }
    description = "View, create and edit text files."
    most = data.get("max_characters")
    if isinstance(most, int):
        description += f" A view shows at most {most} characters."
    return description, properties, ["command", "path"]


def _memory(_version: int, _data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": _string("What to do.", enum=commands),
        "path": _string("The file or directory below /memories; not for `rename`."),
        **_editing(insert="insert_text"),
        "old_path": _string("`rename`: the present path."),
        "new_path": _string("`rename`: the new path."),
    }
    description = (
        "Keep notes in files below /memories that last from one conversation to the next. "
        "View the directory before you begin, and write down what you will need later."
    )
    return description, properties, ["command"]


def _computer(version: int, data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    actions = [
        "screenshot", "left_click", "right_click", "middle_click", "double_click", "triple_click",
        "left_click_drag", "left_mouse_down", "left_mouse_up", "mouse_move", "cursor_position",
        "scroll", "key", "hold_key", "type", "wait",
    ]  # fmt: skip
    point = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    properties: dict[str, Any] = {
        "coordinate": {**point, "description": "Where, as [x, y] in pixels."},
        "start_coordinate": {**point, "description": "`left_click_drag`: where it begins."},
        "text": _string("`type`: the text. `key`, `hold_key`: the keys, such as `ctrl+s`."),
        "duration": {"type": "number", "description": "`hold_key`, `wait`: how many seconds."},
        "scroll_direction": _string("`scroll`.", enum=["up", "down", "left", "right"]),
        "scroll_amount": {"type": "integer", "description": "`scroll`: how many clicks."},
    }
    if version >= _ZOOM:
        actions.append("zoom")
        area = {**point, "minItems": 4, "maxItems": 4}
        properties["region"] = {**area, "description": "`zoom`: [x1, y1, x2, y2]."}
    size = f"{data.get('display_width_px', '?')}x{data.get('display_height_px', '?')}"
    description = (
        f"Use the mouse, the keyboard and screenshots of a computer. The screen is {size} px."
    )
    return description, {"action": _string("What to do.", enum=actions), **properties}, ["action"]


_KINDS: Final[
    dict[str, Callable[[int, Mapping[str, Any]], tuple[str, dict[str, Any], list[str]]]]
] = {"bash": _bash, "text_editor": _text_editor, "memory": _memory, "computer": _computer}
"""The description, the properties and the required ones of each tool, by version and options."""
