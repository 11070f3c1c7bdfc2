"""The Compose file and the systemd unit are valid and fit the gateway's own settings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.chart import DEPLOY, ROOT
from penstock.config import FLAGS, Settings, load

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
UNIT = DEPLOY / "systemd" / "penstock.service"
ANALYZE = shutil.which("systemd-analyze")


def validate_compose(document: object) -> None:
    schemas = files("check_jsonschema") / "builtin_schemas" / "vendor"
    jsonschema.validate(document, json.loads((schemas / "compose-spec.json").read_text()))


def read_compose_settings() -> Settings:
    """Return the settings of the gateway in its container, with a value for each `${NAME…}`."""
    environ = COMPOSE["services"]["penstock"]["environment"]
    filled = {
        name: re.sub(r"\$\{\w+:(-?)\??([^}]*)\}", lambda m: m[2] if m[1] else "x" * 20, value)
        for name, value in environ.items()
    }
    return load(None, filled | {"PENSTOCK_HOST": "0.0.0.0"})  # noqa: S104 - as in the Dockerfile


def test_the_compose_file_follows_the_specification() -> None:
    validate_compose(COMPOSE)
    with pytest.raises(jsonschema.ValidationError):
        validate_compose({"services": {"a": {"image": "b", "port": 1}}})


def test_the_gateway_of_the_compose_file_uses_both_databases() -> None:
    settings = read_compose_settings()
    assert "@database/" in settings.store.url.reveal()
    assert settings.quotas.url.reveal() == "redis://redis:6379/0"
    assert {"database", "redis"} <= COMPOSE["services"].keys()
    needed = COMPOSE["services"]["penstock"]["depends_on"]
    for name in needed:
        assert "healthcheck" in COMPOSE["services"][name]


def test_the_image_installs_extras_that_exist() -> None:
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", (ROOT / "Dockerfile").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}


def test_files_that_are_mounted_exist() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (
                (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
            )


def test_ports_are_open_to_this_machine_only() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_responses_have_time_to_finish() -> None:
    drain = load(None, {}).server.drain_seconds
    grace = COMPOSE["services"]["penstock"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > drain
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) > drain


def test_the_unit_starts_the_gateway_with_flags_that_exist() -> None:
    command = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert command is not None
    program, verb, *arguments = command[1].split()
    assert (Path(program).name, verb) == ("penstock", "serve")
    assert {one for one in arguments if one.startswith("-")} <= {flag.name for flag in FLAGS}


def test_the_database_of_the_unit_is_in_its_state_folder() -> None:
    text = UNIT.read_text()
    assert "StateDirectory=penstock\n" in text
    assert "Environment=XDG_STATE_HOME=%S\n" in text
    store = load(None, {"XDG_STATE_HOME": "/var/lib"}).store.url.reveal()
    assert store == "sqlite:////var/lib/penstock/penstock.db"


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    assert ANALYZE is not None
    unit = tmp_path / UNIT.name
    program = shutil.which("true")  # The unit names a program that is not installed here.
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", str(program)))
    command = [ANALYZE, "verify", str(unit)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
