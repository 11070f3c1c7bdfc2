"""Paths into a JSON value, such as ``$.a.b[0]``: read, and followed."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from penstock.apis.reading import clean

MAX_DEPTH: Final = 100
"""How many steps a path may have: no schema nests deeper."""

MAX_GAP: Final = 16
"""How many elements of a list a path may pass over: each is written, and empty ones are rare."""

Key = str | int
"""One step: the name of a member, or the index of an element."""

Path = tuple[Key, ...]

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<at>\d{1,9})\]|\[(?P<quoted>'[^']*'|"[^"]*")\]"""
)


def read_path(text: object) -> Path:
    """Read a path that begins at an object; what is none, or is too deep, is the empty path."""
    if not isinstance(text, str):
        return ()
    text = clean(text)
    at = len("$") if text.startswith("$") else 0
    steps: list[Key] = []
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or len(steps) == MAX_DEPTH:
            return ()
        number, quoted = step["at"], step["quoted"]
        steps.append(int(number) if number else quoted[1:-1] if quoted else step["name"])
        at = step.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else ()


def value_at(node: Any, key: Key) -> Any:
    """Give the value one step below *node*, and nothing where there is none."""
    if isinstance(node, dict):
        return node.get(key)
    is_there = isinstance(node, list) and isinstance(key, int) and key < len(node)
    return node[key] if is_there else None


def container_of(root: dict[str, Any], path: Path) -> Any:
    """Give the object or list that holds the leaf at *path*; what is missing is made.

    Where *path* asks for both an object and a list in one place, nothing is given.
    """
    node: Any = root
    for key, following in pairwise(path):
        child = value_at(node, key)
        made: Any = [] if isinstance(following, int) else {}
        is_taken = isinstance(child, dict | list) and child
        if not is_taken and not isinstance(child, type(made)):
            child = made
            if not put(node, key, child):
                return None
        node = child
    return node


def put(node: Any, key: Key, value: Any) -> bool:
    """Put *value* one step below *node*; tell whether there is such a place."""
    if isinstance(node, dict) and isinstance(key, str):
        node[key] = value
        return True
    if not isinstance(node, list) or not isinstance(key, int) or key > len(node) + MAX_GAP:
        return False
    node += [None] * (key + 1 - len(node))
    node[key] = value
    return True
