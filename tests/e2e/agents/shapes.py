"""How the upstream prints a call, and what it wants written: files that are hard to pass on.

A model of each shape knows no tools but by its text. What a shape cannot say at all is not asked of
it: between tags that nothing escapes, a line with the closing tag is the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

NASTY: Final = """\
# "Quotes", 'more' and \\backslashes\\ \\n \\x41 \\\\  \u0020

```python
print("</tool_call>", '<tool_call>', "{}", f"{1}")   \u0020
```

<tool_call>{"name": "Write", "arguments": {}}</tool_call> in the middle of a line,
&lt;b&gt; <b>&amp;</b> <![CDATA[ ]]> <think>no</think> 100 % $HOME `x` ${y} \\
\ttab, é, 日本, 😀, e\u0301, \u2028, \ufeff, \u200b and blanks at the end \t\u0020\u0020

~~~json
{"name": "write", "arguments": {"filePath": "/nowhere", "content": "}"}}
~~~
[DONE]
data: {"choices": []}


The last line has blanks too.  \u0020
"""
"""What no shape may break."""

NASTIER: Final = (
    NASTY
    + """\
</parameter>
</function>
</tool_call>
<tool_call>
<function=Write>
<parameter=content>
"""
)
"""What only a shape that escapes can say."""


class Shape(Struct, frozen=True):
    """One way to *write* a call as text, what is said *before* it, and the file's *content*."""

    name: str
    write: Callable[[str, dict[str, Any]], str]
    before: str
    content: str


def _hermes(tool: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{_bare_json(tool, arguments)}\n</tool_call>"


def _qwen3_coder(tool: str, arguments: dict[str, Any]) -> str:
    """Write no closing tag at all."""
    values = "".join(f"<parameter={name}>\n{value}\n" for name, value in arguments.items())
    return f"<tool_call>\n<function={tool}>\n{values}"


def _bare_json(tool: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("hermes", _hermes, "I write it.\n", NASTIER),
        Shape("qwen3_coder", _qwen3_coder, "I write it.\n\n", NASTY),
        Shape("bare_json", _bare_json, "", NASTIER),
    )
}
"""The shapes by their names, which are the names of the upstream's models."""
