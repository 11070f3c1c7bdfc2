"""The reference has every setting and flag, and the example file works."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from config.files import read
from penstock.config import (
    FLAGS,
    ModelOptions,
    describe,
    find_route,
    find_warnings,
    flag_reference,
    load,
    reference,
)
from penstock.config import settings as settings_module
from penstock.config.reference import describe_fields
from penstock.config.settings import OptionSettings

DOCS = Path(__file__).parents[2] / "docs" / "reference"


TABLES: Final = [
    each
    for each in vars(settings_module).values()
    if isinstance(each, type) and issubclass(each, Struct) and each.__name__.endswith("Settings")
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_setting_has_a_description(table: type[Struct]) -> None:
    for name, description in describe_fields(table).items():
        assert description.endswith("."), name


def test_the_reference_has_a_row_for_each_setting_with_its_variable() -> None:
    text = reference()
    assert (
        "| `port` | a whole number from 0 to 65535 | `8787` "
        "| Port to listen on. 0 picks a free port. | `PENSTOCK_PORT` |"
    ) in text
    assert '`"auto"`; qwen: `"qwen_web"`' in text
    assert "### `[upstreams.NAME.timeouts]`" in text
    names = {name for table in TABLES for name in table.__struct_fields__}
    assert len(names) > 70
    tables = {
        "server",
        "limits",
        "store",
        "quotas",
        "keys",
        "upstreams",
        "timeouts",
        "qwen",
        "demo",
        "local",
    }
    assert {name for name in names if f"| `{name}` |" not in text} == tables


def test_every_flag_is_in_the_reference_and_has_a_setting() -> None:
    text, settings = flag_reference(), reference()
    for flag in FLAGS:
        assert f"`{flag.variable}`" in text
        assert f"| `{flag.variable}` |" in settings or not flag.path


def test_options_and_their_settings_have_the_same_fields() -> None:
    assert OptionSettings.__struct_fields__ == ModelOptions.__struct_fields__


def test_the_example_works_without_any_variable() -> None:
    settings = load(DOCS / "penstock.toml", {"ANTHROPIC_API_KEY": "sk-ant-example"})
    assert find_warnings(settings) == []
    route = find_route(settings, "claude-opus-4-1")
    assert route is not None
    assert (route.upstream, route.settings.key.reveal()) == ("claude", "sk-ant-example")
    small = find_route(settings, "small")
    assert small is not None
    assert (small.model, small.options.format) == ("qwen2.5:3b", "hermes")
    assert load(DOCS / "penstock.toml", {"PORT": "99"}).server.port == 99


def test_described_settings_are_a_file_with_the_same_settings(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    text = """
    [upstreams.a]
    base_url = "http://127.0.0.1:1/v1"
    ca = "ca.pem"
    prompt_suffix = "<think>\\n\\u007f"
    timeouts = { idle = inf, total = 0.5 }
    [upstreams.a.headers]
    x-team = "tides"
    [models."gpt-4.1"]
    trim = false
    [models."claude-*"]
    [keys.k]
    hash = "sha256:0f5a7bb0d5e9ab1f3a4b7c7f3a0e2f5f4f0f1d8ad8e7d2f8ed8a4b7d7c1e9b52"
    models = ["a", "b*"]
    """
    settings = read(tmp_path, text)
    shown = describe(settings)
    assert tomllib.loads(shown)["upstreams"]["a"]["headers"] == {"x-team": "***"}
    again = read(tmp_path, shown)
    assert describe(again) == shown
    assert again.upstreams["a"].prompt_suffix == "<think>\n\x7f"
    assert again.models.keys() == settings.models.keys()


@pytest.mark.parametrize("command", ["config check", "config show", "key new"])
def test_the_page_names_the_commands(command: str) -> None:
    assert f"`penstock {command}" in (DOCS / "configuration.md").read_text()
