"""The OpenAPI document: its paths exist, its references resolve, and its examples work."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from gateway.serving import Served, Stage, ask, asking, until
from penstock.gateway.openapi import make_document

DOCUMENT: Final = make_document()
OPERATIONS: Final = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
EXAMPLES: Final = [
    (path, body["content"]["application/json"]["example"])
    for _, path, operation in OPERATIONS
    if (body := operation.get("requestBody")) is not None
]
CONFIG: Final = """\
[upstreams.demo]
api = "demo"
[models.demo]
upstream = "demo"
model = "penstock-demo"
"""


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), CONFIG)


def name(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def test_every_reference_resolves() -> None:
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert used <= set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=name)
def test_every_operation_describes_itself(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    assert operation["responses"]["200"]["content"], f"{method} {path} has no response"
    assert ("requestBody" in operation) == (method == "POST")
    assert all(one["description"] for one in operation.get("parameters", []))
    assert "``" not in operation["summary"]
    listed = [one["name"] for one in operation.get("parameters", []) if one["in"] == "path"]
    assert listed == re.findall(r"\{(\w+)\}", path)


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=name)
def test_every_example_has_the_required_fields(path: str, example: dict[str, Any]) -> None:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    schema = DOCUMENT["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[-1]]
    assert set(schema.get("required", [])) <= set(example) <= set(schema["properties"])


def test_every_operation_of_a_request_works_with_its_example(served: Served) -> None:
    chat = dict(EXAMPLES)["/v1/chat/completions"]
    logged = ask(served, "/v1/chat/completions", chat).headers["x-request-id"]
    response = dict(EXAMPLES)["/v1/responses"]
    stored = ask(served, "/v1/responses", response).json["id"]
    until(lambda: ask(served, f"/v1/requests/{logged}").json.get("state") == "done")
    conversation = ask(served, f"/v1/requests/{logged}").json["conversation"]
    ids = {"/v1/models/": "demo", "/v1/responses/": stored, "conversations/": conversation}
    ids |= {"/inspector/{id}": "app.js", "/v1beta/models/": "demo"}
    tried = 0
    for method, path, operation in sorted(OPERATIONS, key=lambda one: one[0] == "DELETE"):
        if path.startswith("/v1/sessions/") or path == "/inspector/api/live":
            continue  # No upstream stores a conversation, and the feed has no end.
        id_ = next((one for part, one in ids.items() if part in path), logged)
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        with asking(served, path.replace("{id}", id_), body.get("example"), method) as answer:
            assert answer.status == 200, f"{method} {path}: {answer.read()[:300]!r}"
            kind = (answer.getheader("content-type") or "").split(";")[0]
        kinds = operation["responses"]["200"]["content"]
        assert kind in kinds or path in ("/", "/inspector/{id}"), f"{method} {path}: {kind}"
        tried += 1
    assert tried > 30
