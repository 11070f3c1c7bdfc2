"""Every problem of a configuration is reported, with its path and what was expected."""

from __future__ import annotations

import copy
import pickle
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.files import problems, read
from penstock.config import ConfigError, Settings, describe, find_route, load
from penstock.config.errors import quote_value, render_key
from penstock.errors import suggest

LOCAL = "[upstreams.local]\nbase_url = 'http://127.0.0.1:8000'\n"
HASH = "sha256:" + 64 * "0"

CASES = [
    # types
    ("[server]\nport = 'abc'", "server.port: expected a whole number from 0 to 65535, got 'abc'"),
    ("[server]\nport = 65536", "server.port: expected a whole number from 0 to 65535, got 65536"),
    ("[server]\nport = true", "server.port: expected a whole number from 0 to 65535, got true"),
    ("[server]\nport = 80.0", "server.port: expected a whole number from 0 to 65535, got 80.0"),
    (
        "[server]\nport = 1979-05-27",
        "server.port: expected a whole number from 0 to 65535, got 1979-05-27",
    ),
    ("server = 3", "server: expected a table, got 3"),
    ("upstreams = []", "upstreams: expected a table, got a list"),
    ("[upstreams]\nlocal = 'x'", "upstreams.local: expected a table, got a string"),
    ("[store]\nbodies = 'no'", "store.bodies: expected true or false, got 'no'"),
    ("[store]\nkeep_days = nan", "store.keep_days: expected a number above 0, or inf, got nan"),
    (
        "[server]\ndrain_seconds = inf",
        "server.drain_seconds: expected a number from 0 to 3600, got inf",
    ),
    (
        "[server]\nbody_seconds = 0",
        "server.body_seconds: expected a number above 0, up to 3600, got 0",
    ),
    (
        LOCAL + "timeouts.idle = -1",
        "upstreams.local.timeouts.idle: expected a number above 0, or inf, got -1",
    ),
    (LOCAL + "format = 5", "upstreams.local.format: expected the name of a format, got 5"),
    (
        f"[keys.a]\nhash = '{HASH}'\nmodels = 'm'",
        "keys.a.models: expected a list of strings, got 'm'",
    ),
    (
        f"[keys.a]\nhash = '{HASH}'\nmodels = ['a*b']",
        "keys.a.models.0: invalid pattern: '*' is allowed only at the end of a name",
    ),
    (
        "[server]\nlog_level = 'inof'",
        (
            'server.log_level: expected one of "critical", "error", "warning", "info", "debug", '
            "got 'inof'; did you mean 'info'?"
        ),
    ),
    # names of settings
    ("[server]\nhots = 'x'", "server.hots: unknown setting; did you mean 'host'?"),
    ("[servr]", "servr: unknown setting; did you mean 'server'?"),
    ("port = 1", "port: unknown setting; did you mean 'server.port'?"),
    (
        LOCAL + "url = 'x'",
        "upstreams.local.url: unknown setting; did you mean 'base_url'?",
    ),
    (
        LOCAL + "api-key = 'x'",
        "upstreams.local.api-key: unknown setting; did you mean 'key_env'?",
    ),
    (
        LOCAL + "[models.'gpt-4.1']\nformt = 'auto'",
        "models.\"gpt-4.1\".formt: unknown setting; did you mean 'format'?",
    ),
    (
        LOCAL + "[upstreams.local.demo]\nzzz = 1",
        "upstreams.local.demo.zzz: unknown setting; known settings: format, pace",
    ),
    (
        LOCAL + "tools = 'none'",
        (
            'upstreams.local.tools: "none" is not a value: '
            "to pass calls on as text, set `parse = false` (--no-parse)"
        ),
    ),
    (
        LOCAL + "tools = 'prompt'\nparse = false",
        (
            'upstreams.local.parse: cannot be false with tools = "prompt": '
            "calls are parsed from text"
        ),
    ),
    # unknown names
    (
        LOCAL + "format = 'hermez'",
        "upstreams.local.format: unknown format 'hermez'; did you mean 'hermes'?",
    ),
    (
        LOCAL + "format = '§'",
        "upstreams.local.format: unknown format '§'; run `penstock formats` to list them",
    ),
    (
        LOCAL + "api = 'antropic'",
        "upstreams.local.api: unknown API 'antropic'; did you mean 'anthropic'?",
    ),
    (
        LOCAL + "reasoning = 'qwen33'",
        "upstreams.local.reasoning: unknown reasoning style 'qwen33'; did you mean 'qwen3'?",
    ),
    (
        "default_upstream = 'lokal'\n" + LOCAL,
        "default_upstream: unknown upstream 'lokal'; did you mean 'local'?",
    ),
    (
        LOCAL + "[models.m]\nupstream = 'zzz'",
        "models.m.upstream: unknown upstream 'zzz'; known: local",
    ),
    (
        "[upstreams.a]\napi='demo'\n[upstreams.b]\napi='demo'\n[models.m]",
        "models.m: missing upstream: set it here, or set default_upstream",
    ),
    (
        (
            "default_model = 'smal'\n[upstreams.a]\napi='demo'\n[upstreams.b]\napi='demo'\n"
            "[models.small]\nupstream = 'a'"
        ),
        "default_model: unknown model 'smal'; did you mean 'small'?",
    ),
    (
        "[upstreams.'a b']\napi = 'demo'",
        (
            "upstreams.\"a b\": expected a name of at most 64 letters, digits, '.', '_' and '-', "
            "got 'a b'"
        ),
    ),
    (
        LOCAL + "[models.'a*b']",
        "models.\"a*b\": invalid pattern: '*' is allowed only at the end of a name",
    ),
    (
        LOCAL + '[models."a\\nb"]',
        'models."a\nb": invalid name: use at most 256 printable characters',
    ),
    # URLs and hosts
    (
        "[upstreams.a]\nbase_url = 'ftp://h'",
        "upstreams.a.base_url: expected an http:// or https:// URL with a host, got 'ftp://h'",
    ),
    (
        "[upstreams.a]\nbase_url = 'http://[h'",
        ("upstreams.a.base_url: expected an http:// or https:// URL with a host, got 'http://[h'"),
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h:99999'",
        (
            "upstreams.a.base_url: expected an http:// or https:// URL with a host, "
            "got 'http://h:99999'"
        ),
    ),
    ("[upstreams.a]", "upstreams.a: missing base_url or api"),
    (
        "[upstreams.a]\napi = 'demo'\nbase_url = 'http://h'",
        "upstreams.a.base_url: the API 'demo' has no server: remove base_url",
    ),
    (
        LOCAL + "qwen = {}",
        (
            "upstreams.local.qwen: only for the API 'qwen', "
            "but the API of this upstream is 'openai-chat'"
        ),
    ),
    ("[server]\nhost = 'a b'", "server.host: expected an IP address or a host name, got 'a b'"),
    (
        "[server]\nhost = '256.1.1.1'",
        "server.host: expected an IP address or a host name, got '256.1.1.1'",
    ),
    (
        "[server]\nhost = '0.0.0.0'",
        (
            "server.host: 0.0.0.0 is reachable from other machines and no key is configured: add "
            "one (`penstock key new`, or PENSTOCK_API_KEY), or start with `--insecure`"
        ),
    ),
    (
        "[store]\nurl = 'mysql://h'",
        "store.url: unsupported database 'mysql://h'; supported: sqlite, postgresql",
    ),
    (
        "[store]\nurl = 'postgres://h'",
        "store.url: unsupported database 'postgres://h'; did you mean 'postgresql'?",
    ),
    (
        "[store]\nurl = 'off'",
        "store.url: to disable the store, set `enabled = false` or use --no-store",
    ),
    ("[store]\nurl = ''", "store.url: expected the URL of a database or the path of a SQLite file"),
    # headers
    (
        LOCAL + "headers = {'a b' = 'x'}",
        "upstreams.local.headers.\"a b\": expected a valid header name, got 'a b'",
    ),
    (
        LOCAL + "headers = {Content-Length = '1'}",
        (
            "upstreams.local.headers.Content-Length: this header is set by penstock and "
            "cannot be configured"
        ),
    ),
    (
        LOCAL + 'headers = {x = "a\\r\\nb: c"}',
        "upstreams.local.headers.x: contains characters that are not allowed in HTTP headers",
    ),
    (
        LOCAL + "headers = {X-A = '1', x-a = '2'}",
        "upstreams.local.headers.x-a: duplicate name: case is ignored",
    ),
    (LOCAL + "headers = {x = 5}", "upstreams.local.headers.x: expected a string"),
    # files
    ("[server]\ntls_cert = '/not/there.pem'", "server.tls_cert: file not found: /not/there.pem"),
    (LOCAL + "ca = ''", "upstreams.local.ca: expected the path of a file"),
    # variables
    (
        "[server]\nhost = '${NOPE}'",
        ("server.host: the environment variable NOPE is not set; ${NAME:-default} gives a default"),
    ),
    (
        "[server]\nhost = '${NOPE'",
        "server.host: invalid reference: write ${NAME} or ${NAME:-default}, and $${ for ${ itself",
    ),
    (
        "[server]\nhost = '${a b}'",
        "server.host: invalid reference: write ${NAME} or ${NAME:-default}, and $${ for ${ itself",
    ),
    (
        "[server]\nport = '${WORD}'",
        "server.port: expected a whole number from 0 to 65535, got 'word'",
    ),
]


@pytest.mark.parametrize(("text", "problem"), CASES, ids=[case[1][:60] for case in CASES])
def test_a_problem_is_reported_with_its_path(text: str, problem: str, tmp_path: Path) -> None:
    found = problems(tmp_path, text, {"WORD": "word"})
    assert problem in found
    if "NOPE" not in text and "${a" not in text:  # an empty host is another problem
        assert found == [problem]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    [server]
    port = "abc"
    hots = "x"
    [upstreams.local]
    base_url = "http://127.0.0.1"
    format = "hermez"
    [models.m]
    upstream = "lokal"
    """
    found = problems(tmp_path, text, {"PENSTOCK_WORKERS": "many"}, log_level="loud")
    assert [problem.partition(":")[0] for problem in found] == [
        *("server.port", "server.hots", "PENSTOCK_WORKERS", "--log-level"),
        *("upstreams.local.format", "models.m.upstream"),
    ]


def test_a_problem_with_a_flag_or_a_variable_names_it() -> None:
    with pytest.raises(
        ConfigError, match=r"^--port: expected a whole number from 0 to 65535, got 'x'$"
    ):
        load(None, {}, port="x")
    with pytest.raises(ConfigError, match=r"^PENSTOCK_FORMAT: unknown format 'hermez'"):
        load(None, {"PENSTOCK_FORMAT": "hermez"})


def test_a_wrong_value_causes_no_second_problem(tmp_path: Path) -> None:
    text = """
    server.host = "0.0.0.0"
    keys.a.hash = "x"
    upstreams.a = 1
    models.m.upstream = "a"
    """
    places = [problem.partition(":")[0] for problem in problems(tmp_path, text)]
    assert places == ["keys.a.hash", "upstreams.a"]


def test_a_private_key_needs_its_certificate(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("")
    assert problems(tmp_path, "server.tls_key = 'key.pem'") == [
        "server.tls_key: missing certificate: set tls_cert too"
    ]


def test_an_address_that_others_reach_needs_insecure_or_a_key() -> None:
    assert load(None, {}, host="192.0.2.1", insecure=True).server.insecure
    assert load(None, {"PENSTOCK_API_KEY": 16 * "k"}, host="::").keys["environment"].hash


def test_an_error_is_copied_with_its_problems() -> None:
    error = ConfigError(["a: b", "c: d"])
    assert str(error) == "a: b\nc: d"
    assert pickle.loads(pickle.dumps(error)).problems == copy.copy(error).problems  # noqa: S301


def test_a_long_value_is_cut() -> None:
    assert len(quote_value("x" * 1000)) == 41
    assert suggest("x" * 100_000, ["host"]) == ""


def test_a_path_is_a_toml_key() -> None:
    assert render_key("models", 'a".b', "x") == 'models."a\\".b".x'


SCRAPS = st.one_of(
    st.none().map(lambda _: "inf"),
    st.sampled_from(["true", "[]", "{}", "[[{a = 1}]]", "nan", "-0.0", "1e999", "1979-05-27"]),
    st.integers(-(2**70), 2**70).map(str),
    st.text(string.printable + "${}@é\u202e", max_size=20)
    .map(repr)
    .map(lambda t: t.replace("\\'", "")),
)
KEYS = st.sampled_from(
    [
        *("server", "server.port", "server.host", "server.tls_cert", "limits.n", "store.url"),
        *("store.keep_days", "keys", "keys.a.hash", "keys.a.env", "keys.a.models", "upstreams"),
        *("upstreams.a.api", "upstreams.a.base_url", "upstreams.a.key", "upstreams.a.key_env"),
        *("upstreams.a.key_file", "upstreams.a.headers", "upstreams.a.headers.b", "models.m"),
        *("upstreams.a.proxy", "upstreams.a.qwen", "upstreams.a.timeouts.idle", "nothing"),
        *("models.m.upstream", "models.'é'.format", "default_upstream", "default_model"),
    ]
)


@given(st.dictionaries(KEYS, SCRAPS, max_size=8), st.sampled_from(["", "http://h", "x", "\udcff"]))
def test_any_file_gives_settings_or_problems(values: dict[str, str], flag: str) -> None:
    text = "\n".join(f"{key} = {value}" for key, value in values.items())
    with TemporaryDirectory() as folder:
        try:
            settings = read(
                Path(folder), text, {"PENSTOCK_UPSTREAM": flag, "PENSTOCK_FORMAT": flag}
            )
        except ConfigError as exc:
            assert all(": " in problem for problem in exc.problems)  # noqa: PT017 - either will do
        else:
            assert isinstance(settings, Settings)
            assert describe(settings)
            find_route(settings, "m")
