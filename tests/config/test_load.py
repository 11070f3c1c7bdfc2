"""File, environment variables and flags become settings, in this order of precedence."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from config.files import read
from penstock.config import (
    FLAGS,
    ConfigError,
    Flag,
    SecretURL,
    describe,
    find_file,
    find_route,
    find_warnings,
    hash_key,
    load,
    needs_restart,
)
from penstock.config.types import guess_api, key_names_for
from penstock.errors import UsageError
from penstock.models import DemoModel
from penstock.models.demo import NATIVE
from penstock.models.http import Timeouts
from penstock.redaction import mask_url

TWO = """
[upstreams.one]
base_url = "http://127.0.0.1:8000"
[upstreams.two]
base_url = "http://127.0.0.1:8001"
"""

# --- defaults ---


def test_without_any_configuration_the_scripted_model_serves_every_name() -> None:
    settings = load(None, {})
    route = find_route(settings, "gpt-4o")
    assert route is not None
    assert (route.upstream, route.settings.api, route.model) == ("demo", "demo", "gpt-4o")
    assert settings.store.url.reveal().endswith("/.local/state/penstock/penstock.db")
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8787)
    assert find_warnings(settings) == []


def test_an_empty_file_equals_no_file(tmp_path: Path) -> None:
    assert describe(read(tmp_path, "")) == describe(load(None, {}))


def test_the_default_options_depend_on_the_api(tmp_path: Path) -> None:
    route = find_route(read(tmp_path, "[upstreams.q]\napi = 'qwen-web'"), "qwen3")
    plain = find_route(load(None, {}), "m")
    assert plain is not None
    assert route is not None
    assert (plain.options.format, plain.options.arguments) == ("auto", "live")
    assert (plain.options.tools, plain.options.repair, plain.options.trim) == ("native", True, True)
    assert (route.options.format, route.options.arguments) == ("qwen_web", "whole")
    assert route.options.tools == "prompt"


# --- layers ---


def test_a_flag_wins_over_its_variable_and_that_over_the_file(tmp_path: Path) -> None:
    text = "[server]\nport = 1\nworkers = 2\nlog_level = 'error'"
    environ = {"PENSTOCK_PORT": "2", "PENSTOCK_WORKERS": "3"}
    server = read(tmp_path, text, environ, port=3).server
    assert (server.port, server.workers, server.log_level) == (3, 3, "error")


def test_the_databases_can_come_from_variables_such_as_those_of_a_container_secret() -> None:
    store, quotas = "postgresql://penstock:pw@10.0.0.4/penstock", "redis://:pw@10.0.0.5:6379/0"
    settings = load(None, {"PENSTOCK_STORE": store, "PENSTOCK_QUOTAS": quotas})
    assert (settings.store.url.reveal(), settings.quotas.url.reveal()) == (store, quotas)


def test_quotas_take_the_url_of_the_store() -> None:
    url = "postgresql+psycopg://penstock:pw@10.0.0.4/penstock"
    settings = load(None, {"PENSTOCK_STORE": url, "PENSTOCK_QUOTAS": url})
    assert settings.store.url.reveal() == settings.quotas.url.reveal() == url


def test_an_empty_variable_is_not_set() -> None:
    assert load(None, {"PENSTOCK_PORT": "", "PENSTOCK_NO_STORE": " "}).server.port == 8787


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    settings = load(None, {"PENSTOCK_PORT": "9"}, port=None, no_store=False, no_bodies=None)
    assert settings.server.port == 9
    assert settings.store.enabled
    assert settings.store.bodies


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_a_switch_is_on_with_any_word_for_it(word: str) -> None:
    store = load(None, {"PENSTOCK_NO_STORE": word, "PENSTOCK_NO_BODIES": "0"}).store
    assert not store.enabled
    assert store.bodies


def test_another_word_for_a_switch_is_a_problem() -> None:
    with pytest.raises(
        ConfigError, match=r"^PENSTOCK_NO_STORE: expected true or false, got 'maybe'$"
    ):
        load(None, {"PENSTOCK_NO_STORE": "maybe"})


def test_a_wrong_switch_does_not_hide_a_problem_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "[store]\nenabled = 'x'", {"PENSTOCK_NO_STORE": "maybe"})
    assert caught.value.problems == (
        "PENSTOCK_NO_STORE: expected true or false, got 'maybe'",
        "store.enabled: expected true or false, got 'x'",
    )


def test_an_unknown_flag_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="unknown flag 'prot'; did you mean 'port'"):
        load(None, {}, prot=3)


VALUES = {
    "host": "localhost",
    "upstream": "http://127.0.0.1:9/v1",
    "api": "ollama",
    "key_env": "SOME_KEY",
    "proxy": "http://127.0.0.1:1",
    "quotas": "redis://127.0.0.1:6379/0",
    "format": "hermes",
    "reasoning": "qwen3",
    "tools": "prompt",
    "arguments": "whole",
    "log_level": "debug",
    "log_format": "json",
    "map": "claude-*=qwen3:8b,gpt-5 = qwen3:30b",
}


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_and_its_variable_do_the_same(flag: Flag, tmp_path: Path) -> None:
    existing = tmp_path / "file"
    existing.write_text("[server]\nport = 5" if flag.name == "--config" else "")
    value = VALUES.get(flag.parameter, str(existing) if flag.metavar == "FILE" else "7")
    said: object = True if flag.is_switch else value
    environ = {"SOME_KEY": "k" * 20}
    if flag.name == "--tls-key":
        environ["PENSTOCK_TLS_CERT"] = str(existing)
    if flag.name in ("--model", "--map"):
        environ["PENSTOCK_API"] = "ollama"
    by_flag = describe(load(None, environ, **{flag.parameter: said}))
    by_variable = describe(load(None, environ | {flag.variable: str(said)}))
    assert by_flag == by_variable
    assert by_flag != describe(load(None, environ)) or flag.name == "--key-env"


def test_the_database_is_in_the_state_folder() -> None:
    state = load(None, {"XDG_STATE_HOME": "/var/state", "HOME": "/home/ann"}).store.url
    assert state.reveal() == "sqlite:////var/state/penstock/penstock.db"
    for ignored in ("", "relative"):
        home = load(None, {"XDG_STATE_HOME": ignored, "HOME": "/home/ann"}).store.url
        assert home.reveal() == "sqlite:////home/ann/.local/state/penstock/penstock.db"


@pytest.mark.parametrize("flag", ["--model", "--map"])
def test_a_model_without_a_server_is_rejected(flag: str) -> None:
    value = "claude-*=qwen3" if flag == "--map" else "qwen3"
    problem = "there is no server to request it from: pass --upstream URL, or --api demo"
    with pytest.raises(ConfigError, match=f"^{flag}: {problem}"):
        load(None, {}, **{flag.removeprefix("--"): value})
    with pytest.raises(ConfigError, match=f"^PENSTOCK_{flag[2:].upper()}: {problem}"):
        load(None, {f"PENSTOCK_{flag[2:].upper()}": value})
    chosen = load(None, {}, api="demo", **{flag.removeprefix("--"): value})
    assert chosen.upstreams["default"].api == "demo"


def test_names_are_mapped_to_models_of_the_upstream(tmp_path: Path) -> None:
    pairs = ["claude-*=small", "claude-opus-* = large=q4"]
    settings = load(None, {}, upstream="http://127.0.0.1:1/v1", map=pairs)
    found = {name: find_route(settings, name) for name in ("claude-haiku", "claude-opus-5", "x")}
    assert [route and route.model for route in found.values()] == ["small", "large=q4", "x"]
    text = "[models.'claude-*']\nmodel = 'a'\n[upstreams.one]\nbase_url = 'http://127.0.0.1:1'"
    in_file = read(tmp_path, text, map=["claude-*=b"])
    assert in_file.models["claude-*"].model == "b"
    for wrong in ("claude", "=b", "a="):
        with pytest.raises(ConfigError, match="--map: expected PATTERN=MODEL"):
            load(None, {}, upstream="http://127.0.0.1:1/v1", map=[wrong])
    with pytest.raises(ConfigError, match=r"^--map: invalid pattern: '\*' is allowed only at"):
        load(None, {}, upstream="http://127.0.0.1:1/v1", map=["*-x=b"])


def test_every_flag_is_a_python_keyword_argument() -> None:
    assert all(flag.parameter.isidentifier() for flag in FLAGS)
    assert len({flag.variable for flag in FLAGS}) == len(FLAGS)


# --- the file ---


def test_the_file_is_found_by_variable_or_in_the_folder(tmp_path: Path) -> None:
    assert find_file({}, tmp_path) is None
    (tmp_path / "penstock.toml").write_text("")
    assert find_file({}, tmp_path) == tmp_path / "penstock.toml"
    assert find_file({"PENSTOCK_CONFIG": "/x.toml"}, tmp_path) == Path("/x.toml")


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[server]\nport = 5")
    assert load(None, {"PENSTOCK_CONFIG": str(file)}).server.port == 5
    assert load(None, {"PENSTOCK_CONFIG": "not-there"}, config=str(file)).server.port == 5


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"[server\n", "line 1, column 8", id="no TOML"),
        pytest.param(b"a = '\xff'", "byte 5 is not valid UTF-8", id="no UTF-8"),
        pytest.param(b"a = " + b"[" * 5000, "nested too deeply", id="lists without end"),
        pytest.param(
            b".".join([b"a"] * 500) + b" = 1", "nested too deeply", id="tables without end"
        ),
        pytest.param(b"a = " + b"9" * 5000, "too many digits", id="a number without end"),
        pytest.param(b"#" * 1_100_000, "larger than 1,048,576 bytes", id="a file without end"),
    ],
)
def test_a_problem_with_a_file_says_where(data: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        load(file, {})


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load(path, {})


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff[server]\nport = 5").server.port == 5


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("")
    server = read(tmp_path, "[server]\ntls_cert = 'cert.pem'").server
    assert server.tls_cert == tmp_path / "cert.pem"


def test_the_scripted_model_has_any_format_or_native_calls(tmp_path: Path) -> None:
    for name in (NATIVE, "gemma"):
        demo = read(tmp_path, f"[upstreams.a]\napi = 'demo'\ndemo.format = '{name}'").upstreams["a"]
        assert demo.demo is not None
        assert DemoModel(demo.demo.format).name == "penstock-demo"


def test_a_timeout_may_be_infinite(tmp_path: Path) -> None:
    text = "[upstreams.a]\napi = 'ollama'\nretries = 0\ntimeouts = {idle = inf, total = 5}"
    upstream = read(tmp_path, text).upstreams["a"]
    assert upstream.timeouts.idle == inf
    assert upstream.timeouts.as_timeouts() == Timeouts(10.0, 300.0, None, 5.0)
    assert upstream.as_retry().attempts == 1


# --- variables in the file ---


def test_variables_are_replaced_in_any_string(tmp_path: Path) -> None:
    text = """
    [server]
    port = "${PORT}"
    drain_seconds = "${DRAIN:-1.5}"
    [store]
    enabled = "${LOG:-off}"
    url = "postgresql://me:${PASSWORD}@db/${NAME:-penstock}"
    [upstreams.a]
    api = "ollama"
    model = "$${PORT} $PORT ${EMPTY:-full}"
    """
    environ = {"PORT": "99", "PASSWORD": "${PORT}", "EMPTY": ""}
    settings = read(tmp_path, text, environ)
    assert (settings.server.port, settings.server.drain_seconds) == (99, 1.5)
    assert not settings.store.enabled
    # Values of variables are not interpolated again.
    assert settings.store.url.reveal() == "postgresql://me:${PORT}@db/penstock"
    assert settings.upstreams["a"].model == "${PORT} $PORT full"


def test_a_list_may_come_from_a_variable(tmp_path: Path) -> None:
    text = f"[keys.a]\nhash = '{hash_key('x')}'\nmodels = '${{MODELS}}'"
    assert read(tmp_path, text, {"MODELS": "a, b*,"}).keys["a"].models == ("a", "b*")


# --- one upstream, by flags ---


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("http://localhost:11434/v1", "openai-chat"),
        ("http://localhost:11434", "openai-chat"),
        ("http://localhost:11434/api/chat", "ollama"),
        ("http://localhost:8080/v1/messages", "anthropic"),
        ("http://localhost:8080/v1/messages/", "anthropic"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.openai.com/v1/responses", "openai-responses"),
        ("https://api.openai.com/v1", "openai-chat"),
        ("https://generativelanguage.googleapis.com", "gemini"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "openai-chat"),
        ("https://chat.qwen.ai/api/v2/chat/completions", "qwen"),
        ("https://api.anthropic.com.example.org", "openai-chat"),
    ],
)
def test_the_api_is_guessed_from_the_url(url: str, api: str) -> None:
    assert load(None, {}, upstream=url).upstreams["default"].api == api == guess_api(url)


def test_a_given_api_overrides_the_guess() -> None:
    upstream = load(None, {}, upstream="http://h/v1/messages", api="chat").upstreams["default"]
    assert upstream.api == "openai-chat"


def test_an_api_without_a_url_has_its_providers_address() -> None:
    upstream = load(None, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787"}, api="claude").upstreams
    assert upstream["default"].base_url.reveal() == "https://api.anthropic.com"


def test_ollama_has_the_address_in_its_variable() -> None:
    upstream = load(None, {"OLLAMA_HOST": "0.0.0.0:99"}, api="ollama").upstreams["default"]
    assert upstream.base_url.reveal() == "http://127.0.0.1:99"


def test_flags_about_the_upstream_change_the_default_one(tmp_path: Path) -> None:
    text = "default_upstream = 'two'" + TWO
    settings = read(tmp_path, text, {}, format="hermes", model="m")
    assert settings.upstreams["one"].format is None
    assert (settings.upstreams["two"].format, settings.upstreams["two"].model) == ("hermes", "m")
    assert settings.upstreams["two"].base_url.reveal() == "http://127.0.0.1:8001"


def test_a_flag_about_the_scripted_model_keeps_it() -> None:
    settings = load(None, {"PENSTOCK_UPSTREAM_KEY": "k" * 20}, format="gemma")
    assert settings.upstreams["demo"].api == "demo"
    assert settings.upstreams["demo"].format == "gemma"
    assert not settings.upstreams["demo"].key


def test_a_url_on_the_command_line_takes_no_key_from_the_file(tmp_path: Path) -> None:
    text = "[upstreams.default]\nbase_url = 'https://a.example'\nkey = 'canary-of-a'"
    settings = read(tmp_path, text, {}, upstream="https://b.example")
    assert settings.default_upstream == "default"
    assert not settings.upstreams["default"].key
    assert settings.upstreams["default"].base_url.reveal() == "https://b.example"


def test_a_flag_for_one_of_several_upstreams_is_ambiguous(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--format: ambiguous with several upstreams"):
        read(tmp_path, TWO, {}, format="hermes")


# --- routes ---


def test_a_name_matches_itself_then_the_longest_pattern_then_the_default(tmp_path: Path) -> None:
    text = (
        "default_upstream = 'one'\ndefault_model = 'small'"
        + TWO
        + """
        [models.small]
        model = "tiny"
        [models."claude-*"]
        upstream = "two"
        [models."claude-haiku-*"]
        upstream = "two"
        model = "tiny"
        """
    )
    settings = read(tmp_path, text)

    def asked(name: str) -> tuple[str, str]:
        route = find_route(settings, name)
        assert route is not None
        return route.upstream, route.model

    assert asked("small") == ("one", "tiny")
    assert asked("") == ("one", "tiny")
    assert asked("claude-opus") == ("two", "claude-opus")
    assert asked("claude-haiku-4") == ("two", "tiny")
    assert asked("other") == ("one", "other")


def test_a_model_overrides_its_upstream(tmp_path: Path) -> None:
    text = """
    [upstreams.a]
    base_url = "http://127.0.0.1:1"
    format = "hermes"
    trim = false
    model = "served"
    [models.m]
    format = "Qwen3-Coder"
    [models.n]
    trim = true
    """
    settings = read(tmp_path, text)
    m, n = find_route(settings, "m"), find_route(settings, "n")
    assert m is not None
    assert n is not None
    assert (m.options.format, m.options.trim, m.model) == ("qwen3_coder", False, "served")
    assert (n.options.format, n.options.trim) == ("hermes", True)


def test_parse_false_passes_text_through_and_excludes_prompted_tools(tmp_path: Path) -> None:
    text = """
    [upstreams.raw]
    base_url = "http://127.0.0.1:1"
    parse = false
    [upstreams.prompted]
    base_url = "http://127.0.0.1:2"
    tools = "prompt"
    [models.raw]
    upstream = "raw"
    [models.told]
    upstream = "raw"
    tools = "prompt"
    [models.prompted]
    upstream = "prompted"
    [models.plain]
    upstream = "prompted"
    parse = false
    """
    settings = read(tmp_path, text)
    found = {name: find_route(settings, name) for name in settings.models}
    modes = {name: route.options.mode for name, route in found.items() if route is not None}
    assert modes == {"raw": "none", "told": "prompt", "prompted": "prompt", "plain": "none"}
    plain = found["plain"]
    assert plain is not None
    assert (plain.options.tools, plain.options.parse) == ("native", False)


def test_with_several_upstreams_and_no_default_an_unknown_name_has_no_route(tmp_path: Path) -> None:
    settings = read(tmp_path, TWO + "[models.m]\nupstream = 'two'")
    assert find_route(settings, "x") is None
    assert find_route(settings, "") is None
    assert find_route(settings, "m") is not None
    assert find_warnings(settings) == [
        "default_upstream: not set, so only models with an entry can be used"
    ]


# --- the rest ---


def test_a_change_of_sockets_or_database_needs_a_restart(tmp_path: Path) -> None:
    old = load(None, {})
    assert needs_restart(old, load(None, {}, format="hermes", drain_seconds="9")) == []
    new = read(tmp_path, "[server]\nport = 1\n[store]\nurl = 'a.db'\n[limits]\ndepth = 9")
    assert needs_restart(old, new) == ["server.port", "store.url"]


def test_a_path_is_a_sqlite_file() -> None:
    assert load(None, {}, store="/var/log/p.db").store.url.reveal() == "sqlite:////var/log/p.db"


@pytest.mark.parametrize(
    ("given", "host"),
    [("[::1]", "::1"), ("::1", "::1"), ("localhost", "localhost"), ("127.0.0.2", "127.0.0.2")],
)
def test_a_loopback_address_has_many_names(given: str, host: str) -> None:
    server = load(None, {}, host=given).server
    assert server.host == host
    assert server.is_local


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@db/x", "postgresql://***@db/x"),
        ("postgresql://me:p/w?#@db/x", "postgresql://***@db/x"),
        ("postgresql://me:p@w@db/x", "postgresql://***@db/x"),
        ("me:pw@db", "***@db"),
        ("https://h/v1?api-version=2&api-key=pw", "https://h/v1?api-version=2&api-key=***"),
        ("https://h/v1", "https://h/v1"),
    ],
)
def test_a_masked_url_has_no_password(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_urls_are_equal_with_their_passwords() -> None:
    assert (
        len({SecretURL("http://a:b@h"), SecretURL("http://a:b@h"), SecretURL("http://a:c@h")}) == 2
    )


def test_a_usual_key_is_for_its_provider_over_https_only() -> None:
    assert key_names_for("https://api.openai.com/v1") == ("OPENAI_API_KEY",)
    assert key_names_for("http://api.openai.com/v1") == ()
    assert key_names_for("https://api.openai.com.evil.example/v1") == ()
    assert key_names_for("https://api.openai.com@evil.example/v1") == ()
