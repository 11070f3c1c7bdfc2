"""Render the Helm chart with the templates of Go, without Helm.

The chart uses what Go's templates have built in and none of Helm's own functions. So the engine
alone, which the package `go_template` brings as a library, renders it as Helm does. It runs in a
process of its own: an error in a template ends the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "penstock"
MANIFESTS = DEPLOY / "kubernetes"

_RENDER = "import sys, go_template; go_template.render_template(*sys.argv[1:])"


def merge(defaults: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return *defaults* with *changes*, table by table, as Helm merges values."""
    merged = dict(defaults)
    for name, value in changes.items():
        old = merged.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[name] = merge(old, value)
        else:
            merged[name] = value
    return merged


def read_values(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart's values with *changes*; raise `ValidationError` if they are invalid."""
    values = merge(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(values, schema, cls=jsonschema.Draft7Validator)
    return values


def render_text(folder: Path, template: str, changes: Mapping[str, Any], release: str) -> str:
    """Return what the file *template* of the chart becomes."""
    if find_spec("go_template") is None:
        pytest.skip("go_template exists for Linux on x86-64 only")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    context = {
        "Release": {"Name": release, "Namespace": "models", "Service": "Helm"},
        "Chart": {name[0].upper() + name[1:]: value for name, value in chart.items()},
        "Values": read_values(changes),
    }
    source, values, output = (folder / name for name in ("template", "values.yaml", "output"))
    templates = CHART / "templates"
    source.write_text((templates / "_helpers.tpl").read_text() + (templates / template).read_text())
    values.write_text(json.dumps(context))
    output.write_text("")
    command = [sys.executable, "-c", _RENDER, str(source), str(values), str(output)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, f"{template}: {done.stdout}{done.stderr}"
    text = output.read_text()
    assert "<no value>" not in text, f"{template} uses a value that does not exist:\n{text}"
    assert text, f"{template}: {done.stdout}{done.stderr}"
    return text


def render(
    folder: Path, changes: Mapping[str, Any] | None = None, release: str = "penstock"
) -> dict[str, dict[str, Any]]:
    """Return the resources that the chart makes of its values with *changes*, by their kind."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((CHART / "templates").glob("*.yaml")):
        document = yaml.safe_load(render_text(folder, path.name, changes or {}, release))
        if document is not None:
            assert document["kind"] not in found
            found[document["kind"]] = document
    return found


def read_manifests() -> dict[str, dict[str, Any]]:
    """Return the plain manifests, by their kind."""
    documents = [yaml.safe_load(path.read_text()) for path in sorted(MANIFESTS.glob("*.yaml"))]
    return {document["kind"]: document for document in documents}
