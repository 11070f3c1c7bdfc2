"""The reference names every setting and flag, and the example file is one that works."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import inspect

from gateway.config_files import read
from penstock.gateway.config import FLAGS, Options, Settings, check, flag_reference, load, reference
from penstock.gateway.config.upstreams import ReadingSettings
from penstock.gateway.config.words import bare

DOCS = Path(__file__).parents[2] / "docs"


def fields(kind: inspect.Type) -> Iterator[inspect.Field]:
    plain = bare(kind)[0]
    if isinstance(plain, inspect.DictType):
        yield from fields(plain.value_type)
    if isinstance(plain, inspect.StructType):
        for field in plain.fields:
            yield field
            yield from fields(field.type)


def test_every_setting_says_what_it_means() -> None:
    found = [*fields(inspect.type_info(Settings))]
    assert len(found) > 80
    for field in found:
        assert isinstance(field.type, inspect.Metadata), field.name
        meaning = (field.type.extra_json_schema or {}).get("description", "")
        assert meaning.endswith("."), field.name


def test_the_reference_has_a_row_for_each_setting_with_its_variable() -> None:
    text = reference()
    assert (
        "| `port` | a whole number from 0 to 65535 | `8787` "
        "| The port to listen on; 0 takes a free one. | `PENSTOCK_PORT` |"
    ) in text
    assert '`"auto"`; qwen: `"qwen_web"`' in text
    assert "### `[upstreams.NAME.timeouts]`" in text
    names = {field.name for field in fields(inspect.type_info(Settings))}
    tables = {"server", "limits", "store", "keys", "upstreams", "timeouts", "qwen", "demo", "local"}
    assert {name for name in names if f"| `{name}` |" not in text} == tables


def test_every_flag_stands_in_the_reference_and_leads_to_a_setting() -> None:
    text, settings = flag_reference(), reference()
    for flag in FLAGS:
        assert f"`{flag.variable}`" in text
        assert f"| `{flag.variable}` |" in settings or not flag.place


def test_what_may_be_left_open_is_what_is_settled_in_the_end() -> None:
    assert ReadingSettings.__struct_fields__ == Options.__struct_fields__


def test_the_example_works_without_any_variable() -> None:
    settings = load(DOCS / "penstock.toml", {"ANTHROPIC_API_KEY": "sk-ant-example"})
    assert check(settings) == []
    route = settings.route("claude-opus-4-1")
    assert route is not None
    assert (route.upstream, route.settings.key.reveal()) == ("claude", "sk-ant-example")
    small = settings.route("small")
    assert small is not None
    assert (small.model, small.options.format) == ("qwen2.5:3b", "hermes")
    assert load(DOCS / "penstock.toml", {"PORT": "99"}).server.port == 99


def test_what_is_shown_is_a_file_that_says_the_same(tmp_path: Path) -> None:
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
    shown = settings.describe()
    assert tomllib.loads(shown)["upstreams"]["a"]["headers"] == {"x-team": "***"}
    again = read(tmp_path, shown)
    assert again.describe() == shown
    assert again.upstreams["a"].prompt_suffix == "<think>\n\x7f"
    assert again.models.keys() == settings.models.keys()


@pytest.mark.parametrize("command", ["config check", "config show", "key new"])
def test_the_page_names_the_commands(command: str) -> None:
    assert f"`penstock {command}" in (DOCS / "configuration.md").read_text()
