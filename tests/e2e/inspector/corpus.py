"""The output of the scripted models: calls as models write them, and hostile texts.

A hostile text tries to run, to reorder what is around it, to hide, or to be so long that the page
stops. If any of it runs, `window.FLAG` is set: that is what the test looks for.
"""

from __future__ import annotations

import json
from threading import Event
from typing import Any, Final

from msgspec import Struct

FLAG: Final = "penstockWasHere"
LONG_LINE: Final = 5_000_000
MANY_EVENTS: Final = 100_000

_RUN: Final = f"window.{FLAG}=1;alert(1)"
MARKUP: Final = "\n".join(
    (
        f"<script>{_RUN}</script>",
        f"<img src=x onerror='{_RUN}'>",
        f'<svg/onload="{_RUN}">',
        f'"><iframe srcdoc="<script>parent.{FLAG}=1</script>"></iframe>',
        f'<a href="javascript:{_RUN}" autofocus onfocus="{_RUN}">press me</a>',
        f"<style onload='{_RUN}'>*{{display:none}}</style><base href='//example.invalid/'>",
        f"<details open ontoggle='{_RUN}'><math><mtext></mtext></math>",
        f"<!--<img src='--><img src=x onerror={_RUN}//'>",
        "{{constructor.constructor('alert(1)')()}} ${alert(1)} </textarea></title></script>",
        "<tool_call>" + json.dumps({"name": f"<img src=x onerror={_RUN}>", "arguments": {}}),
        "</tool_call>",
    )
)
UNSEEN: Final = "\n".join(
    (
        "right-to-left: \u202egnp.exe\u202c, isolates \u2066\u2067\u2068\u2069, marks \u200e\u200f",
        "zero widths: a\u200bb\u200cc\u200dd\u2060e\ufefff, soft\u00adhyphen",
        "tags: \U000e0041\U000e007f, separators: \u2028 and \u2029",
        "controls: \x00\x07\x08\x1b[31mred\x1b[0m \x7f \x85",
        "combining: e" + "\u0301\u0323" * 400,
        "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 and on",
    )
)
LINE: Final = "<b>x</b> " * (LONG_LINE // 9)

TIDES: Final = """\
<think>
They want the tides written down, and the weather with it. First the file.
</think>
I write the table, then I look at the weather.

<tool_call>
{"name": "write_file", "arguments": {"path": "tides.md", "content": "# Leith\\n\\n\
| high water | metres |\\n|---|---|\\n| 02:14 | 5.1 |\\n| 14:37 | 5.3 |\\n"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Leith", "days": 3"""
"""A response as a small model writes it: it does not close the second call."""

CUT: Final = (
    'One moment.\n<tool_call>\n{"name": "write_file", "arguments": {"path": "tides.md", "con'
)


MAIL: Final = """\
I send it.
<tool_call>
{"name": "send_mail", "arguments": {"to": "harbour@leith.example", "subject": "High water"}}
</tool_call>"""
"""A call of a tool that was not offered."""

MAILS: Final = "\n".join(MAIL.replace("send_mail", f"send_mail_{n}") for n in range(30))
"""More calls of tools that were not offered than are reported."""

FENCED: Final = """\
Like this:
```
<tool_call>
{"name": "get_weather", "arguments": {"city": "Leith"}}
</tool_call>
```"""
BROKEN: Final = """\
<tool_call>
{"name": "get_weather", "arguments": {"city": "Leith", "days": }
</tool_call>
I look it up."""
"""A call that has more than one possible meaning."""

WEATHER: Final = """\
<tool_call>
{"name": "get_weather", "arguments": {"city": "Leith"}}
</tool_call>"""
MUSED: Final = f"<think>\nI could call it so:\n{WEATHER}\n</think>\nIt will rain."
"""A call in the reasoning of a response that also has text."""

QUOTING: Final = [
    {"role": "user", "content": "What does the page say?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": f"Write this: {WEATHER}"},
]
"""A conversation with a tool result that contains a call, which the model repeats."""

TWICE: Final = f"{WEATHER}\n{WEATHER.replace('Leith', 'Oslo')}"
"""Two calls, one more than a request without parallel calls allows."""

OTHER_FORMAT: Final = "deepseek_v3"
"""The format with which the model `other` is configured; it prints hermes."""

GATE: Final = Event()
"""Opened when the test has seen the first half of a response."""

HALF: Final = Event()
"""Closed while a test looks at a response that would end soon."""

HALF.set()


class Script(Struct, frozen=True):
    """The output of a model: *pieces*, *pace* seconds apart; one that *is_cut* has no end.

    The *thought* before them and the calls for *cities* after them are sent natively. Half of the
    pieces wait for the *gate*.
    """

    pieces: list[str]
    pace: float = 0.0
    is_cut: bool = False
    thought: str = ""
    cities: tuple[str, ...] = ()
    gate: Event | None = None


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


SCRIPTS: Final = {
    "tides": Script(_cut(TIDES, 7), pace=0.02, gate=HALF),
    "cut": Script(_cut(CUT, 6), pace=0.01, is_cut=True),
    "gated": Script([f"word {number} " for number in range(40)], gate=GATE),
    "mail": Script(_cut(MAIL, 9)),
    "mails": Script(_cut(MAILS, 90)),
    "fenced": Script(_cut(FENCED, 9)),
    "broken": Script(_cut(BROKEN, 9)),
    "other": Script(_cut(WEATHER, 9)),
    "quoted": Script(_cut(WEATHER, 9)),
    "mused": Script(_cut(MUSED, 9)),
    "twice": Script(_cut(TWICE, 9)),
    "native": Script(["I look."], thought="They want both.", cities=("Leith", "Oslo")),
    "markup": Script(_cut(MARKUP, 5)),
    "unseen": Script(_cut(UNSEEN, 3)),
    "long": Script(_cut(LINE[:600_000], 5_000)),
    "line": Script(_cut(LINE, 50_000)),
    "events": Script([f"word {number} " for number in range(MANY_EVENTS)]),
}
"""The models of the upstream, by name."""

HOSTILE: Final = ("markup", "unseen", "line", "events")

DEMO_FORMATS: Final = ("hermes", "qwen3_coder", "glm45", "llama3_json", "mistral_args", "kimi_k2")
"""The formats in which the demo model is asked: JSON, tags, arrays and tokens of their own."""


def _tool(name: str, words: str, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": [*fields][:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": words, "parameters": parameters},
    }


TOOLS: Final = [
    _tool("get_weather", "The weather in a city", city="string", days="integer"),
    _tool("write_file", "Write a file", path="string", content="string"),
]
