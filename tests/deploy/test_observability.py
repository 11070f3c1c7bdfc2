"""The alert rules and the dashboard use metrics that exist, and the rules fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from deploy.chart import DEPLOY, ROOT, read_manifests
from penstock.config import load
from penstock.gateway.metrics import Metrics
from penstock.gateway.routes import ROUTES

ALERTS = DEPLOY / "prometheus" / "alerts.yml"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")

FROM_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus or a histogram adds."""


def list_metrics() -> dict[str, set[str]]:
    """Return the names in the gateway's metrics, with their labels."""
    collectors = Metrics()._registry._names_to_collectors
    return {
        name: set(one._labelnames)
        for name, one in collectors.items()
        if isinstance(one, MetricWrapperBase)
    }


def dashboard_expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["label"], variable["definition"]


EXPRESSIONS = [*((rule["alert"], rule["expr"]) for rule in RULES), *dashboard_expressions()]


def check(*arguments: str | Path) -> str:
    """Run promtool, which must succeed; return what it prints."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=lambda text: text[:40])
def test_an_expression_uses_metrics_and_labels_that_exist(title: str, expression: str) -> None:
    metrics = list_metrics()
    used = set(re.findall(r"\bpenstock_\w+", expression))
    assert used or "up{" in expression, title
    assert used <= metrics.keys()
    known = FROM_PROMETHEUS.union(*(metrics[name] for name in used))
    labels = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
    for group in re.findall(r"by \(([^)]*)\)", expression):
        labels |= {label.strip() for label in group.split(",")}
    assert labels <= known


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(expression for _, expression in dashboard_expressions())
    families = {one.name for one in Metrics()._registry.collect()}
    assert {name for name in families if name not in shown} == set()


def test_the_labels_in_texts_are_left_by_the_expression() -> None:
    for rule in RULES:
        texts = " ".join(rule["annotations"].values())
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        for label in re.findall(r"\$labels\.(\w+)", texts):
            kept = [label in [one.strip() for one in group.split(",")] for group in grouped]
            assert all(kept), f"{rule['alert']}: {label}"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not covered & cells, panel["title"]
        cells |= covered


def test_the_thresholds_fit_the_limits_of_the_manifests(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(read_manifests()["ConfigMap"]["data"]["penstock.toml"])
    settings = load(file, {})
    rules = {rule["alert"]: rule["expr"] for rule in RULES}
    assert rules["PenstockNearlyFull"].endswith(f"> {int(settings.limits.streams * 0.8)}")
    assert rules["PenstockLogQueue"].endswith(f"> {settings.store.queue // 2}")


def test_prometheus_scrapes_the_service_of_the_compose_file() -> None:
    (job,) = yaml.safe_load(PROMETHEUS.read_text())["scrape_configs"]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert job["dns_sd_configs"][0]["names"][0] in compose["services"]
    assert "GET" in ROUTES[job.get("metrics_path", "/metrics")]
    secret = Path(job["authorization"]["credentials_file"])
    assert secret.parent == Path("/run/secrets")
    assert secret.name in compose["services"]["prometheus"]["secrets"]
    assert compose["secrets"][secret.name] == {"environment": "PENSTOCK_API_KEY"}


@needs_promtool
def test_promtool_accepts_rules_and_configuration() -> None:
    assert f"{len(RULES)} rules found" in check("check", "rules", ALERTS)
    check("check", "config", "--syntax-only", PROMETHEUS)


@needs_promtool
def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, (_, expression) in enumerate(dashboard_expressions())
        if not expression.startswith("label_values")
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    check("check", "rules", file)


@needs_promtool
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    cases = (Path(__file__).parent / "alert_cases.yml").read_text()
    tested = set(re.findall(r'alertname="(\w+)"', cases))
    assert tested == {rule["alert"] for rule in RULES}
    shutil.copy(ALERTS, tmp_path)
    (tmp_path / "cases.yml").write_text(cases)
    check("test", "rules", tmp_path / "cases.yml")
