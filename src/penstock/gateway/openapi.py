"""What the gateway serves, for machines (``/openapi.json``) and for people (``/docs``).

Both are made from the table of paths: what each does is the docstring of its handler. The bodies of
the models' endpoints are the APIs' own, of which only what every client sends is described.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.http_exchange import HTTPExchange

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

_TEXT: Final = {"type": "string"}
_LIST: Final = {"type": "array", "items": {}}
_ASKED: Final[dict[str, dict[str, Any]]] = {
    "/v1/chat/completions": {"messages": _LIST},
    "/v1/responses": {"input": {"oneOf": [_TEXT, _LIST]}},
    "/v1/responses/input_tokens": {"input": {"oneOf": [_TEXT, _LIST]}},
    "/v1/messages": {"messages": _LIST},
    "/v1/messages/count_tokens": {"messages": _LIST},
    "/v1/completions": {"prompt": _TEXT},
}
"""What the bodies of requests have in them, beside the model; all else is the API's own."""

_OPEN: Final = (
    *("/health/live", "/health/ready", "/", "/docs", "/openapi.json"),
    "/inspector/{id}",
)
"""What needs no key."""

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}}
code{{background:#8882;padding:.1em .3em;border-radius:.2em}}td{{padding:.3rem .8rem .3rem 0;
vertical-align:top}}:root{{color-scheme:light dark}}</style></head>
<body><h1>penstock</h1>
<p>Tool calls from any model, streamed correctly, to any client. The same for machines:
<a href="/openapi.json">openapi.json</a>.</p>
<table>{rows}</table></body></html>
"""


async def document(gateway: Gateway, caller: HTTPExchange) -> None:
    """Describe every path, as OpenAPI."""
    del gateway
    await caller.answer(200, described())


async def page(gateway: Gateway, caller: HTTPExchange) -> None:
    """Describe every path, for people."""
    del gateway
    rows = "".join(
        f"<tr><td><code>{method} {escape(path)}</code></td><td>{escape(what)}</td></tr>"
        for path, method, what in _listed()
    )
    body = _PAGE.format(rows=rows).encode()
    policy = b"default-src 'none'; style-src 'unsafe-inline'"
    await caller.answer(
        200,
        body,
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy),
        is_json=False,
    )


@cache
def described() -> dict[str, Any]:
    """Write the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method, what in _listed():
        paths.setdefault(path, {})[method.lower()] = _operation(path, what)
    return {
        "openapi": "3.1.0",
        "info": {"title": "penstock", "version": own_version()},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
        },
    }


def _operation(path: str, what: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": what,
        "responses": {
            "200": {"description": "The answer."},
            "default": {"description": "Why not."},
        },
    }
    if "{id}" in path:
        id_ = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
        operation["parameters"] = [id_]
    if path in _ASKED:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _body(_ASKED[path])}},
        }
    if path not in _OPEN:
        operation["security"] = [{"bearer": []}, {"header": []}, {}]
    return operation


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    properties = {"model": _TEXT, "stream": {"type": "boolean"}, "tools": _LIST, **fields}
    return {"type": "object", "properties": properties, "required": [*fields]}


def _listed() -> list[tuple[str, str, str]]:
    """List every path with its version, its methods, and what they do."""
    from penstock.gateway.routes import BELOW, PATHS  # noqa: PLC0415 - routes imports this module

    below = {f"{prefix}{{id}}": methods for prefix, methods in BELOW.items()}
    unversioned = {path.removeprefix("/v1") for path in PATHS if path.startswith("/v1/")}
    shown = {path: methods for path, methods in PATHS.items() if path not in unversioned}
    return [
        (path, method, (handler.__doc__ or "").strip().splitlines()[0])
        for path, methods in sorted({**shown, **below}.items())
        for method, handler in methods.items()
        if method != "HEAD"
    ]


def own_version() -> str:
    """Return the version of penstock; 0 where it runs without having been installed."""
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "0"
