"""File, variables and flags become settings, each layer over the one below."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from gateway.config_files import read
from penstock.errors import UsageError
from penstock.gateway.config import (
    FLAGS,
    Address,
    ConfigError,
    Flag,
    as_environ,
    check,
    find_file,
    hash_key,
    load,
    needs_restart,
)
from penstock.gateway.config.addresses import api_of, masked, usual_key_names
from penstock.models import DemoModel
from penstock.models.demo import NATIVE
from penstock.models.http import Timeouts

TWO = """
[upstreams.one]
base_url = "http://127.0.0.1:8000"
[upstreams.two]
base_url = "http://127.0.0.1:8001"
"""

# --- defaults ---


def test_without_anything_the_scripted_model_answers_for_every_name() -> None:
    settings = load(None, {})
    route = settings.route("gpt-4o")
    assert route is not None
    assert (route.upstream, route.settings.api, route.model) == ("demo", "demo", "gpt-4o")
    assert settings.store.url.reveal() == "sqlite:///penstock.db"
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8787)
    assert check(settings) == []


def test_an_empty_file_says_the_same_as_none(tmp_path: Path) -> None:
    assert read(tmp_path, "").describe() == load(None, {}).describe()


def test_answers_are_read_live_and_in_any_format_unless_it_is_said(tmp_path: Path) -> None:
    route = read(tmp_path, "[upstreams.q]\napi = 'qwen-web'").route("qwen3")
    plain = load(None, {}).route("m")
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


def test_an_empty_variable_is_not_set() -> None:
    assert load(None, {"PENSTOCK_PORT": "", "PENSTOCK_NO_STORE": " "}).server.port == 8787


def test_a_flag_that_was_not_given_says_nothing() -> None:
    settings = load(None, {"PENSTOCK_PORT": "9"}, port=None, no_store=False, no_bodies=None)
    assert settings.server.port == 9
    assert settings.store.enabled
    assert settings.store.bodies


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_a_switch_is_on_with_any_word_for_it(word: str) -> None:
    store = load(None, {"PENSTOCK_NO_STORE": word, "PENSTOCK_NO_BODIES": "0"}).store
    assert not store.enabled
    assert store.bodies


def test_a_switch_that_says_neither_is_a_problem() -> None:
    with pytest.raises(ConfigError, match=r"^PENSTOCK_NO_STORE: true or false, not 'maybe'$"):
        load(None, {"PENSTOCK_NO_STORE": "maybe"})


def test_a_flag_that_nobody_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no flag 'prot'; did you mean 'port'"):
        load(None, {}, prot=3)


VALUES = {
    "host": "localhost",
    "upstream": "http://127.0.0.1:9/v1",
    "api": "ollama",
    "key_env": "SOME_KEY",
    "proxy": "http://127.0.0.1:1",
    "format": "hermes",
    "reasoning": "qwen3",
    "tools": "prompt",
    "arguments": "whole",
    "log_level": "debug",
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
    by_flag = load(None, environ, **{flag.parameter: said}).describe()
    by_variable = load(None, environ | as_environ({flag.parameter: said})).describe()
    assert by_flag == by_variable
    assert by_flag != load(None, environ).describe() or flag.name == "--key-env"


def test_flags_of_the_table_are_all_keywords_that_python_allows() -> None:
    assert all(flag.parameter.isidentifier() for flag in FLAGS)
    assert len({flag.variable for flag in FLAGS}) == len(FLAGS)


def test_a_process_of_ones_own_is_configured_by_variables() -> None:
    flags = {"port": 5, "no_store": True, "insecure": False, "model": None}
    assert as_environ(flags) == {"PENSTOCK_PORT": "5", "PENSTOCK_NO_STORE": "True"}


# --- the file ---


def test_the_file_is_found_by_variable_or_where_one_is(tmp_path: Path) -> None:
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
        pytest.param(b"a = '\xff'", "byte 5 is no UTF-8", id="no UTF-8"),
        pytest.param(b"a = " + b"[" * 5000, "nested too deep", id="lists without end"),
        pytest.param(b".".join([b"a"] * 500) + b" = 1", "nested too deep", id="tables without end"),
        pytest.param(b"a = " + b"9" * 5000, "too long", id="a number without end"),
        pytest.param(b"#" * 1_100_000, "at most 1,048,576 bytes", id="a file without end"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(data: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        load(file, {})


def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load(path, {})


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff[server]\nport = 5").server.port == 5


def test_paths_are_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("")
    server = read(tmp_path, "[server]\ntls_cert = 'cert.pem'").server
    assert server.tls_cert == tmp_path / "cert.pem"


def test_the_scripted_model_writes_in_any_format_or_none(tmp_path: Path) -> None:
    for name in (NATIVE, "gemma"):
        demo = read(tmp_path, f"[upstreams.a]\napi = 'demo'\ndemo.format = '{name}'").upstreams["a"]
        assert demo.demo is not None
        assert DemoModel(demo.demo.format).name == "penstock-demo"


def test_a_wait_may_be_for_ever(tmp_path: Path) -> None:
    text = "[upstreams.a]\napi = 'ollama'\nretries = 0\ntimeouts = {idle = inf, total = 5}"
    upstream = read(tmp_path, text).upstreams["a"]
    assert upstream.timeouts.idle == inf
    assert upstream.timeouts.as_timeouts() == Timeouts(10.0, 300.0, None, 5.0)
    assert upstream.as_retry().attempts == 1


# --- variables in the file ---


def test_variables_stand_in_any_string(tmp_path: Path) -> None:
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
    # What a variable holds is taken as it is.
    assert settings.store.url.reveal() == "postgresql://me:${PORT}@db/penstock"
    assert settings.upstreams["a"].model == "${PORT} $PORT full"


def test_a_list_may_come_from_a_variable(tmp_path: Path) -> None:
    text = f"[keys.a]\nhash = '{hash_key('x')}'\nmodels = '${{MODELS}}'"
    assert read(tmp_path, text, {"MODELS": "a, b*,"}).keys["a"].models == ("a", "b*")


# --- one upstream by flags ---


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
def test_the_url_tells_the_api(url: str, api: str) -> None:
    assert load(None, {}, upstream=url).upstreams["default"].api == api == api_of(url)


def test_an_api_that_is_said_counts_before_what_the_url_tells() -> None:
    upstream = load(None, {}, upstream="http://h/v1/messages", api="chat").upstreams["default"]
    assert upstream.api == "openai-chat"


def test_an_api_without_a_url_is_asked_at_its_own_address() -> None:
    upstream = load(None, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787"}, api="claude").upstreams
    assert upstream["default"].base_url.reveal() == "https://api.anthropic.com"


def test_ollama_is_asked_where_its_own_variable_says() -> None:
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


def test_without_a_default_it_is_not_known_which_upstream_a_flag_means(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--format: there are several upstreams"):
        read(tmp_path, TWO, {}, format="hermes")


# --- routes ---


def test_a_name_is_itself_then_the_longest_pattern_then_the_default(tmp_path: Path) -> None:
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
        route = settings.route(name)
        assert route is not None
        return route.upstream, route.model

    assert asked("small") == ("one", "tiny")
    assert asked("") == ("one", "tiny")
    assert asked("claude-opus") == ("two", "claude-opus")
    assert asked("claude-haiku-4") == ("two", "tiny")
    assert asked("other") == ("one", "other")


def test_a_model_counts_before_its_upstream(tmp_path: Path) -> None:
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
    m, n = settings.route("m"), settings.route("n")
    assert m is not None
    assert n is not None
    assert (m.options.format, m.options.trim, m.model) == ("qwen3_coder", False, "served")
    assert (n.options.format, n.options.trim) == ("hermes", True)


def test_with_several_upstreams_and_no_default_a_name_is_refused(tmp_path: Path) -> None:
    settings = read(tmp_path, TWO + "[models.m]\nupstream = 'two'")
    assert settings.route("x") is None
    assert settings.route("") is None
    assert settings.route("m") is not None
    assert check(settings) == [
        "default_upstream: there is none, so models without an entry are refused"
    ]


# --- the rest ---


def test_a_change_of_sockets_or_database_needs_a_new_start(tmp_path: Path) -> None:
    old = load(None, {})
    assert needs_restart(old, load(None, {}, format="hermes", drain_seconds="9")) == []
    new = read(tmp_path, "[server]\nport = 1\n[store]\nurl = 'a.db'\n[limits]\ndepth = 9")
    assert needs_restart(old, new) == ["server.port", "store.url"]


def test_what_is_only_a_path_is_a_sqlite_file() -> None:
    assert load(None, {}, store="/var/log/p.db").store.url.reveal() == "sqlite:////var/log/p.db"


@pytest.mark.parametrize(
    ("given", "host"),
    [("[::1]", "::1"), ("::1", "::1"), ("localhost", "localhost"), ("127.0.0.2", "127.0.0.2")],
)
def test_this_machine_has_many_names(given: str, host: str) -> None:
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
def test_an_address_shows_no_password(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_addresses_are_the_same_where_all_of_them_is() -> None:
    assert len({Address("http://a:b@h"), Address("http://a:b@h"), Address("http://a:c@h")}) == 2


def test_a_usual_key_is_for_its_provider_over_https_alone() -> None:
    assert usual_key_names("https://api.openai.com/v1") == ("OPENAI_API_KEY",)
    assert usual_key_names("http://api.openai.com/v1") == ()
    assert usual_key_names("https://api.openai.com.evil.example/v1") == ()
    assert usual_key_names("https://api.openai.com@evil.example/v1") == ()
