"""The tables of the reference: defaults, commands, HTTP routes and fields, public names.

`generate` puts them into the pages. They are made from signatures, docstrings and tables of the
code, so they cannot disagree with it.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import indent
from typing import Any, Final

from msgspec import structs

import penstock
from penstock import agent, apis, models, streams
from penstock.agent.rules import RuleSettings
from penstock.cli.app import COMMANDS, load_command
from penstock.config.routes import DEFAULTS
from penstock.gateway.openapi import make_document
from penstock.models import http
from penstock.request import ReasoningOptions, Request, ResponseFormat

_CODE: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")

MISSING: Final = "—"
"""Shown where a caller does not have an option, or an API not a field."""

# --- defaults ---

OPTIONS: Final = {
    "format": "the format of calls; `auto` detects it",
    "arguments": "`whole`: emit a call when it is complete; `live`: as it arrives",
    "reasoning": "the style of reasoning; None: that of the format",
    "prompt_suffix": "the end of the prompt, if it opens the reasoning",
    "trim": "drop white space next to a call from the text",
    "repair": "repair damaged calls",
    "fenced": "what a call in a code fence is: `text` or `calls`",
    "reasoning_only": "what a response is that is only reasoning which the prompt had opened: "
    "`reasoning`, or `text` as well; None: `text` with `repair`",
    "stray_reasoning": "what an end marker of reasoning without a beginning is: `text`, or `split` "
    "to drop it; None: `split` with `repair`",
    "untrusted": "texts whose calls are text if the model repeats them",
    "quoted": "what a call is that occurs in the conversation: `text` or `calls`",
    "quoted_tools": "the same for single tools",
    "max_calls": "how many calls a response may have; None: any number",
    "on_error": "called for text that looks like a call and is not one",
    "ids": "a function that creates the ids of calls; None: `call_1`, `call_2`, …",
    "heal": "repair native calls that the upstream's server damaged",
    "constrain": "the kind of constrained output that the upstream supports",
    "send_back": "return calls with invalid arguments to the model once",
    "retries": "how often a response without a required call is requested again",
}
"""The options of parsers and what each is for; the gateway reads the same names."""

DOCUMENTED: Final = (
    (streams.EventStream, "../library/streams.md"),
    (models.HTTPModel, "../library/http_models.md"),
    (http.Timeouts, "../library/http_models.md#errors-and-retries"),
    (http.RetryPolicy, "../library/http_models.md#errors-and-retries"),
    (models.LocalModel, "../library/local_model.md"),
    (agent.Agent, "../agents/index.md"),
    (agent.AgentRetry, "../agents/recovery.md#retries"),
    (agent.Compaction, "../agents/recovery.md#compaction"),
    (RuleSettings, "../agents/rules.md#how-often-rules-fire"),
)
"""Other classes with defaults, and the pages that explain them."""


def option_table() -> str:
    """List the options of parsers with their defaults, by caller."""
    library = _defaults(penstock.Parser) | _defaults(penstock.parse_events)
    middleware, gateway = _defaults(models.ToolMiddleware), structs.asdict(DEFAULTS)
    rows = [
        "| option | meaning | library | `ToolMiddleware` | gateway |",
        "|---|---|---|---|---|",
    ]
    unknown = {*_defaults(penstock.Parser)} - {*OPTIONS, "tools"}
    if unknown:
        raise LookupError(f"describe these options in `OPTIONS`: {', '.join(sorted(unknown))}")
    for name, meaning in OPTIONS.items():
        cells = [_default(found, name) for found in (library, middleware, gateway)]
        rows.append(f"| `{name}` | {meaning} | {' | '.join(cells)} |")
    return "\n".join(rows)


def default_table() -> str:
    """List the defaults of the other classes."""
    rows = ["| class | defaults |", "|---|---|"]
    for kind, page in DOCUMENTED:
        found = _defaults(kind).items()
        shown = [f"`{name}={value!r}`" for name, value in found if _is_plain(value)]
        rows.append(f"| [`{kind.__name__}`]({page}) | {', '.join(shown)} |")
    return "\n".join(rows)


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


def _default(found: dict[str, Any], name: str) -> str:
    if name not in found:
        return MISSING
    return f"`{found[name]!r}`" if found[name] not in ({}, ()) else "none"


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


# --- the command line ---


def command_list() -> str:
    """Describe every command: how it is called, its arguments and its options."""
    parts: list[str] = []
    for name, entry in COMMANDS.items():
        parts += _describe_command(f"penstock {name}", load_command(name), entry.summary)
    return "\n\n".join(parts)


def _describe_command(usage: str, command: Any, summary: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner:
        yield f"### `{usage}`"
        yield summary
        for name, each in inner.items():
            yield from _describe_command(f"{usage} {name}", each, _first_line(each.help))
        return
    arguments = [_usage_of(one) for one in command.params if one.param_type_name == "argument"]
    yield f"### `{' '.join([usage, *arguments])}`"
    yield summary
    rows = ["| option | meaning | default |", "|---|---|---|"]
    for one in command.params:
        if one.name == "help" or one.hidden or not one.help:
            continue
        meaning = _cell(one.help)
        rows.append(f"| {_names_of(one)} | {meaning} | {_cell(_option_default(one))} |")
    if len(rows) > 2:  # noqa: PLR2004 - the two lines of the head
        yield "\n".join(rows)


def _usage_of(argument: Any) -> str:
    shown = argument.name.strip("_").upper() + ("…" if argument.nargs != 1 else "")
    return shown if argument.required else f"[{shown}]"


def _names_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.strip('_').upper()}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {_metavar(parameter)}"
    return _cell(", ".join(f"`{name}{value}`" for name in names))


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    return _METAVARS.get(kind, "TEXT")


_METAVARS: Final = {Path: "FILE", int: "N", float: "SECONDS"}


def _option_default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    is_shown = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return f"`{value}`" if is_shown and value != "" else ""


# --- HTTP ---


def route_table() -> str:
    """List the endpoints of the gateway: path, method, whether a key is needed, purpose."""
    rows = ["| endpoint | key | purpose |", "|---|---|---|"]
    for path, methods in make_document()["paths"].items():
        for method, operation in methods.items():
            key = "yes" if operation.get("security") else "no"
            rows.append(f"| `{method.upper()} {path}` | {key} | {operation['summary']} |")
    return "\n".join(rows)


_TOOLS: Final = [{"name": "t", "parameters": {"type": "object"}}]
_FIELDS: Final[dict[str, Any]] = {
    "system": "s",
    "tools": _TOOLS,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "seed": 1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "stop": ["x"],
    "n": 2,
    "response_format": ResponseFormat("schema", {"type": "object"}, "n"),
    "reasoning": ReasoningOptions("high"),
    "metadata": {"key": "value"},
    "user": "u",
}
"""A value for each field of a request, to find out where an API puts it."""

_NESTED: Final = ("generationConfig", "options")
"""Objects whose inner names are shown."""


def field_table() -> str:
    """List the fields of a request by their names in each API."""
    names = [name for name in apis.names() if name != "qwen"]
    rows = [f"| `Request` | {' | '.join(f'`{name}`' for name in names)} |"]
    rows.append("|---" * (len(names) + 1) + "|")
    for field, value in _FIELDS.items():
        cells = [_written_as(apis.get(name), field, value) for name in names]
        rows.append(f"| `{field}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _written_as(api: apis.Api, field: str, value: Any) -> str:
    fields: dict[str, Any] = {"model": "m", "messages": ["hi"]}
    if field in ("tool_choice", "parallel_tool_calls"):
        fields["tools"] = _TOOLS
    with_field = Request(**fields, **{field: value})
    if field in api.omitted_fields(with_field):
        return MISSING
    before, after = (_flatten(api.write_request(one)) for one in (Request(**fields), with_field))
    changed = [name for name, inner in after.items() if before.get(name) != inner]
    return ", ".join(f"`{name}`" for name in changed) or MISSING


def _flatten(data: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if name in _NESTED:
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = value
    return flat


# --- public names ---

PUBLIC: Final = {
    "parsing": ("formats", "parsing", "grammar", "debug"),
    "events": ("events", "messages", "builder", "request", "tools", "errors"),
    "values": ("values", "values.rjson", "values.rxml"),
    "apis": (
        "apis",
        "conformance",
        "conformance.suite",
        "framing.sse",
        "framing.ndjson",
        "framing.json_array",
    ),
    "models": (
        *(
            "streams",
            "models",
            "models.base",
            "models.catalog",
            "models.telemetry",
            "models.http",
            "models.http.aiohttp_transport",
        ),
        *("models.local", "models.qwen_web", "models.qwen_sessions"),
    ),
    "agents": (
        *("agent", "agent.output", "agent.tools", "agent.session", "agent.rules", "agent.events"),
        *("agent.failures", "agent.tokens", "agent.compaction", "agent.summarize"),
        *("workspace", "workspace.edit_guard", "workspace.instructions", "testing"),
        *("agent.sub_agents",),
    ),
    "views": (
        *("views.ai_sdk", "views.segments"),
        *("agent.ai_sdk_stream", "agent.ai_sdk_messages", "agent.ai_sdk_history"),
        *("agent.ag_ui", "agent.segments", "integrations.starlette"),
        *("integrations", "integrations.httpx"),
        *("integrations.tokens", "integrations.transformers"),
    ),
    "batch": ("batch", "batch.engines"),
    "gateway": ("config", "store"),
}
"""The pages of the Python reference, and the modules on each."""

INTERNAL: Final = {
    "apis.anthropic",
    "apis.gemini",
    "apis.openai_chat",
    "apis.openai_responses",
    "cli.chat",
}
"""Packages with an ``__all__`` that have no names for users: `apis.get` returns what they have."""


def public_names(module: str) -> list[str]:
    """Return the public names of a module: its ``__all__``, or what it defines."""
    found = import_module(f"penstock.{module}")
    listed = getattr(found, "__all__", None)
    if listed is not None:
        return sorted(listed, key=_alphabetical)
    own = [name for name, value in vars(found).items() if _is_defined_in(value, found)]
    own += _data_docs(Path(found.__file__ or ""))
    return sorted({name for name in own if not name.startswith("_")}, key=_alphabetical)


def _alphabetical(name: str) -> tuple[str, str]:
    return name.lower(), name


def _is_defined_in(value: object, module: types.ModuleType) -> bool:
    kinds = (type, types.FunctionType)
    return isinstance(value, kinds) and value.__module__ == module.__name__


def homes() -> dict[str, tuple[str, str]]:
    """Return for each name of `penstock` the page and the module that describe it."""
    found = {}
    for name in penstock.__all__:
        value = getattr(penstock, name)
        if isinstance(value, types.ModuleType):
            continue
        for page, module, _ in _entries():
            if name in public_names(module) and getattr(_load(module), name) is value:
                found[name] = (page, module)
                break
        else:
            raise LookupError(f"no page of the reference describes penstock.{name}")
    return found


def _entries() -> Iterator[tuple[str, str, list[str]]]:
    for page, modules in PUBLIC.items():
        for module in modules:
            yield page, module, public_names(module)


def _load(module: str) -> types.ModuleType:
    return import_module(f"penstock.{module}")


def name_table() -> str:
    """List the names of `penstock` itself: where each is described, and its summary."""
    rows = ["| name | described in | summary |", "|---|---|---|"]
    for name, (page, module) in sorted(homes().items(), key=lambda item: item[0].lower()):
        link = f"[`penstock.{module}`]({page}.md#{_anchor(module)})"
        rows.append(f"| `{name}` | {link} | {_summary(module, name)} |")
    return "\n".join(rows)


def _anchor(module: str) -> str:
    return f"penstock{module.replace('.', '')}"


def module_list(page: str) -> str:
    """Describe every public name of the modules on *page*."""
    parts = []
    for module in PUBLIC[page]:
        heading = f"## `penstock.{module}`"
        parts += [heading, _as_markdown(_paragraph(_load(module).__doc__ or ""))]
        described = _first_described(page, module)
        directives = [_directive(module, name) for name in described]
        again = [name for name in public_names(module) if name not in described]
        if directives:
            parts.append("```{eval-rst}\n" + "\n\n".join(directives) + "\n```")
        if again:
            parts.append(f"Also here: {', '.join(f'`{name}`' for name in again)}.")
    return "\n\n".join(part for part in parts if part)


@cache
def _first_described(page: str, module: str) -> list[str]:
    """Return the names of a module that no earlier module of the reference describes."""
    seen: set[str] = set()
    for each_page, each_module, names in _entries():
        values = {name: getattr(_load(each_module), name) for name in names}
        if (each_page, each_module) == (page, module):
            return [
                name
                for name, value in values.items()
                if not isinstance(value, types.ModuleType) and _origin(value) not in seen
            ]
        seen |= {_origin(value) for value in values.values()} - {""}
    raise LookupError(f"{module} is not on the page {page}")


def _origin(value: object) -> str:
    """Return where a class or a function is defined; empty for anything else."""
    if not isinstance(value, (type, types.FunctionType)):
        return ""
    return f"{value.__module__}.{value.__qualname__}"


def _directive(module: str, name: str) -> str:
    path, value = f"penstock.{module}.{name}", getattr(_load(module), name)
    if isinstance(value, type):
        return f".. autoclass:: {path}\n   :members:"
    if isinstance(value, types.FunctionType):
        return f".. autofunction:: {path}"
    text = "\n\n".join(("", _CODE.sub(r"``\1``", _data_doc(module, name))))
    return f".. py:data:: {path}{indent(text, '   ')}".rstrip()


def _summary(module: str, name: str) -> str:
    value = getattr(_load(module), name)
    described = isinstance(value, (type, types.FunctionType))
    text = value.__doc__ if described else _data_doc(module, name)
    return _cell(_as_markdown(_first_line(text or "")))


def _data_doc(module: str, name: str) -> str:
    """Return the docstring below a constant or a type alias, wherever it is defined."""
    file = Path(_load(module).__file__ or "")
    described = _data_docs(file)
    if name in described:
        return described[name]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            return _data_doc((node.module or "").removeprefix("penstock."), name)
    return ""


@cache
def _data_docs(file: Path) -> dict[str, str]:
    """Return the docstrings of the constants and type aliases of a file."""
    found: dict[str, str] = {}
    for statement, after in pairwise(ast.parse(file.read_text()).body):
        match statement, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def _paragraph(text: str) -> str:
    return inspect.cleandoc(text).split("\n\n")[0]


def _first_line(text: str) -> str:
    return " ".join(_paragraph(text).split())


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


TABLES: Final = {
    "options": option_table,
    "defaults": default_table,
    "commands": command_list,
    "routes": route_table,
    "fields": field_table,
    "names": name_table,
}
