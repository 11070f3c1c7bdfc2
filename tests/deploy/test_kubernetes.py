"""The manifests and the rendered chart are valid, agree, and fit the gateway's own settings."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

import penstock
from deploy.chart import CHART, ROOT, read_manifests, read_values, render, render_text
from penstock.config import ConfigError, Settings, load
from penstock.gateway.routes import ROUTES

VERSIONS = ("1.28", "1.32", "1.37")
"""Old and new versions of Kubernetes."""

SECRET = {
    "PENSTOCK_API_KEY": "a-key-of-your-own",
    "PENSTOCK_STORE": "postgresql://penstock:password@postgres/penstock",
    "PENSTOCK_QUOTAS": "redis://redis:6379/0",
}
"""What the documentation puts into the Secret."""

FULL: dict[str, Any] = {
    "image": {"repository": "registry.example.org/penstock", "tag": "1", "pullSecret": "registry"},
    "config": '[server]\ndrain_seconds = 5\n\n[upstreams.a]\nbase_url = "http://ü:1/v1" # "\\"\n',
    "secretName": "other",
    "replicas": 3,
    "autoscaling": {"enabled": False},
    "service": {"type": "LoadBalancer", "port": 8080},
    "resources": {"limits": {"cpu": "2"}},
    "networkPolicy": {"egressPorts": [443, 11434]},
    "ingress": {"enabled": True, "host": "llm.example.org", "tlsSecret": "tls"},
    "podAnnotations": {"example.org/a": "yes", "b": 'a "quoted"\nline: {x}'},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [
        {"key": "spot", "value": "true", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
}
"""Other values than the default of everything."""


def load_config(kinds: dict[str, dict[str, Any]], folder: Path, **extra: str) -> Settings:
    """Return the settings of the gateway in the container."""
    (container,) = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]
    file = folder / "penstock.toml"
    file.write_text(kinds["ConfigMap"]["data"]["penstock.toml"])
    environ = {one["name"]: one["value"] for one in container["env"]}
    return load(file, SECRET | environ | extra)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [*read_manifests()])
def test_a_manifest_is_valid(kind: str, version: str) -> None:
    kubernetes_validate.validate(read_manifests()[kind], version, strict=True)


def test_an_invalid_manifest_is_found() -> None:
    wrong = copy.deepcopy(read_manifests()["Deployment"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("changes", [{}, FULL], ids=["default", "full"])
def test_the_rendered_chart_is_valid(changes: dict[str, Any], tmp_path: Path) -> None:
    kinds = render(tmp_path, changes)
    assert ("Ingress" in kinds, "HorizontalPodAutoscaler" in kinds) == (bool(changes), not changes)
    for document in kinds.values():
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


def without_chart(node: Any) -> Any:
    """Return *node* without what only a chart adds."""
    added = ("app.kubernetes.io/managed-by", "helm.sh/chart", "penstock/config")
    if isinstance(node, dict):
        rest = {name: without_chart(value) for name, value in node.items() if name not in added}
        return {name: value for name, value in rest.items() if (name, value) != ("annotations", {})}
    return [without_chart(one) for one in node] if isinstance(node, list) else node


def test_the_manifests_are_the_chart_with_its_default_values(tmp_path: Path) -> None:
    assert without_chart(render(tmp_path)) == read_manifests()


def test_values_reach_the_resources_unchanged(tmp_path: Path) -> None:
    kinds = render(tmp_path, FULL, release="second")
    assert {one["metadata"]["name"] for one in kinds.values()} == {"second"}
    assert kinds["ConfigMap"]["data"]["penstock.toml"] == FULL["config"]
    template = kinds["Deployment"]["spec"]["template"]
    annotations = template["metadata"]["annotations"]
    assert annotations == {"penstock/config": FULL["config"], **FULL["podAnnotations"]}
    pod = template["spec"]
    assert pod["nodeSelector"] == FULL["nodeSelector"]
    assert pod["tolerations"] == [
        {"operator": "Equal", **FULL["tolerations"][0]},
        {"operator": "Exists"},
    ]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.org/penstock:1"
    assert container["envFrom"] == [{"secretRef": {"name": "other"}}]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "512Mi"}
    assert kinds["Deployment"]["spec"]["replicas"] == 3
    ports = [one["port"] for one in kinds["NetworkPolicy"]["spec"]["egress"][0]["ports"]]
    assert ports == [53, 53, 443, 11434]


@pytest.mark.parametrize(
    "changes",
    [
        {"replica": 3},
        {"image": {"tag": 1}},
        {"service": {"port": "80"}},
        {"ingress": {"enabled": True}},
        {"resources": {"limits": {"memory": "much"}}},
        {"podAnnotations": {"a": True}},
        {"config": ""},
    ],
    ids=str,
)
def test_wrong_values_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        read_values(changes)


def test_the_notes_name_the_secret_and_the_service(tmp_path: Path) -> None:
    notes = render_text(tmp_path, "NOTES.txt", {}, "second")
    assert "http://second.models:80/v1" in notes
    assert all(name in notes for name in SECRET)


def test_selectors_find_the_pods_and_no_label_that_changes_is_among_them() -> None:
    kinds = read_manifests()
    labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        kinds["Deployment"]["spec"]["selector"]["matchLabels"],
        kinds["Service"]["spec"]["selector"],
        kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert "app.kubernetes.io/version" not in selector


def test_the_configuration_loads_with_the_variables_of_the_container(tmp_path: Path) -> None:
    settings = load_config(read_manifests(), tmp_path)
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 8787)  # noqa: S104
    assert settings.store.url.reveal() == SECRET["PENSTOCK_STORE"]
    assert settings.quotas.url.reveal() == SECRET["PENSTOCK_QUOTAS"]


def test_a_pod_has_time_to_finish_its_responses(tmp_path: Path) -> None:
    kinds = read_manifests()
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (_, before) = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    drain = load_config(kinds, tmp_path).server.drain_seconds
    assert pod["terminationGracePeriodSeconds"] >= int(before) + drain + 5


def test_the_variables_of_a_service_do_not_reach_the_gateway(tmp_path: Path) -> None:
    """Kubernetes would set PENSTOCK_PORT for a service with the name penstock."""
    kinds = read_manifests()
    assert kinds["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False
    with pytest.raises(ConfigError, match="PENSTOCK_PORT"):
        load_config(kinds, tmp_path, PENSTOCK_PORT="tcp://10.0.0.1:80")


def test_the_probes_are_paths_of_the_gateway() -> None:
    (container,) = read_manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert "GET" in ROUTES[container[probe]["httpGet"]["path"]]


def test_the_container_is_not_root_and_cannot_write() -> None:
    pod = read_manifests()["Deployment"]["spec"]["template"]["spec"]
    user = pod["securityContext"]["runAsUser"]
    assert pod["securityContext"]["runAsNonRoot"]
    image = (ROOT / "Dockerfile").read_text()
    assert f"useradd --uid {user} " in image
    assert f"USER {user}:{user}" in image
    security = pod["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == penstock.__version__
