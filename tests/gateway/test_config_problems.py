"""What is wrong with a configuration is said in words, with its place, all at once."""

from __future__ import annotations

import copy
import pickle
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config_files import problems, read
from penstock.gateway.config import ConfigError, Settings, load
from penstock.gateway.config.problems import Place, shown, suggestion

LOCAL = "[upstreams.local]\nbase_url = 'http://127.0.0.1:8000'\n"
HASH = "sha256:" + 64 * "0"

CASES = [
    # kinds
    ("[server]\nport = 'abc'", "server.port: a whole number from 0 to 65535, not 'abc'"),
    ("[server]\nport = 65536", "server.port: a whole number from 0 to 65535, not 65536"),
    ("[server]\nport = true", "server.port: a whole number from 0 to 65535, not true"),
    ("[server]\nport = 80.0", "server.port: a whole number from 0 to 65535, not 80.0"),
    ("[server]\nport = 1979-05-27", "server.port: a whole number from 0 to 65535, not 1979-05-27"),
    ("server = 3", "server: a table, not 3"),
    ("upstreams = []", "upstreams: a table, not a list"),
    ("[upstreams]\nlocal = 'x'", "upstreams.local: a table, not a text"),
    ("[store]\nbodies = 'no'", "store.bodies: true or false, not 'no'"),
    ("[store]\nkeep_days = nan", "store.keep_days: a number above 0, or inf, not nan"),
    ("[server]\ndrain_seconds = inf", "server.drain_seconds: a number from 0 to 3600, not inf"),
    ("[server]\nbody_seconds = 0", "server.body_seconds: a number above 0, up to 3600, not 0"),
    (
        LOCAL + "timeouts.idle = -1",
        "upstreams.local.timeouts.idle: a number above 0, or inf, not -1",
    ),
    (LOCAL + "format = 5", "upstreams.local.format: the name of a format, not 5"),
    (f"[keys.a]\nhash = '{HASH}'\nmodels = 'm'", "keys.a.models: a list of texts, not 'm'"),
    (
        f"[keys.a]\nhash = '{HASH}'\nmodels = ['a*b']",
        "keys.a.models.0: a '*' stands at the end of a name: it is for all that begin so",
    ),
    (
        "[server]\nlog_level = 'inof'",
        (
            'server.log_level: one of "critical", "debug", "error", "info", "warning", not '
            "'inof'; did you mean 'info'?"
        ),
    ),
    # names of settings
    ("[server]\nhots = 'x'", "server.hots: there is no such setting; did you mean 'host'?"),
    ("[servr]", "servr: there is no such setting; did you mean 'server'?"),
    ("port = 1", "port: there is no such setting; did you mean 'server.port'?"),
    (
        LOCAL + "url = 'x'",
        "upstreams.local.url: there is no such setting; did you mean 'base_url'?",
    ),
    (
        LOCAL + "api-key = 'x'",
        "upstreams.local.api-key: there is no such setting; did you mean 'key_env'?",
    ),
    (
        LOCAL + "[models.'gpt-4.1']\nformt = 'auto'",
        "models.\"gpt-4.1\".formt: there is no such setting; did you mean 'format'?",
    ),
    (
        LOCAL + "[upstreams.local.demo]\nzzz = 1",
        "upstreams.local.demo.zzz: there is no such setting; there are format, pace",
    ),
    # names of things
    (
        LOCAL + "format = 'hermez'",
        "upstreams.local.format: there is no format 'hermez'; did you mean 'hermes'?",
    ),
    (
        LOCAL + "format = '§'",
        "upstreams.local.format: there is no format '§'; `penstock formats` lists them",
    ),
    (
        LOCAL + "api = 'antropic'",
        "upstreams.local.api: there is no API 'antropic'; did you mean 'anthropic'?",
    ),
    (
        LOCAL + "reasoning = 'qwen33'",
        "upstreams.local.reasoning: there is no reasoning style 'qwen33'; did you mean 'qwen3'?",
    ),
    (
        "default_upstream = 'lokal'\n" + LOCAL,
        "default_upstream: there is no upstream 'lokal'; did you mean 'local'?",
    ),
    (
        LOCAL + "[models.m]\nupstream = 'zzz'",
        "models.m.upstream: there is no upstream 'zzz'; there are local",
    ),
    (
        "[upstreams.a]\napi='demo'\n[upstreams.b]\napi='demo'\n[models.m]",
        "models.m: it needs an upstream, since there is no default_upstream",
    ),
    (
        (
            "default_model = 'smal'\n[upstreams.a]\napi='demo'\n[upstreams.b]\napi='demo'\n"
            "[models.small]\nupstream = 'a'"
        ),
        "default_model: there is no model 'smal'; did you mean 'small'?",
    ),
    (
        "[upstreams.'a b']\napi = 'demo'",
        "upstreams.\"a b\": a name has letters, digits, '.', '_' and '-', at most 64",
    ),
    (
        LOCAL + "[models.'a*b']",
        "models.\"a*b\": a '*' stands at the end of a name: it is for all that begin so",
    ),
    (
        LOCAL + '[models."a\\nb"]',
        'models."a\nb": a model\'s name is printable and has at most 256 characters',
    ),
    # addresses
    (
        "[upstreams.a]\nbase_url = 'ftp://h'",
        "upstreams.a.base_url: a URL begins with http:// or https:// and names a host, not 'ftp://h'",
    ),
    (
        "[upstreams.a]\nbase_url = 'http://[h'",
        (
            "upstreams.a.base_url: a URL begins with http:// or https:// and names a host, "
            "not 'http://[h'"
        ),
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h:99999'",
        (
            "upstreams.a.base_url: a URL begins with http:// or https:// and names a host, "
            "not 'http://h:99999'"
        ),
    ),
    ("[upstreams.a]", "upstreams.a: it needs a base_url, or an api"),
    (
        "[upstreams.a]\napi = 'demo'\nbase_url = 'http://h'",
        "upstreams.a.base_url: the API 'demo' has no server",
    ),
    (
        LOCAL + "qwen = {}",
        "upstreams.local.qwen: this is for the API 'qwen', and the upstream speaks 'openai-chat'",
    ),
    ("[server]\nhost = 'a b'", "server.host: an IP address or a host name, not 'a b'"),
    ("[server]\nhost = '256.1.1.1'", "server.host: an IP address or a host name, not '256.1.1.1'"),
    (
        "[server]\nhost = '0.0.0.0'",
        (
            "server.host: 0.0.0.0 can be reached from other machines, and no key is set: add one "
            "(`penstock key new`, or PENSTOCK_API_KEY), or say `insecure = true`"
        ),
    ),
    (
        "[store]\nurl = 'mysql://h'",
        "store.url: there is no store at 'mysql://h'; there are sqlite and postgresql",
    ),
    (
        "[store]\nurl = 'postgres://h'",
        "store.url: there is no store at 'postgres://h'; did you mean 'postgresql'?",
    ),
    (
        "[store]\nurl = 'off'",
        "store.url: the store is switched off by `enabled = false`, or --no-store",
    ),
    ("[store]\nurl = ''", "store.url: the URL of a database, or the path of a file"),
    # headers
    (
        LOCAL + "headers = {'a b' = 'x'}",
        'upstreams.local.headers."a b": no header can have this name',
    ),
    (
        LOCAL + "headers = {Content-Length = '1'}",
        (
            "upstreams.local.headers.Content-Length: this header says how bytes travel: "
            "penstock sets it itself"
        ),
    ),
    (
        LOCAL + 'headers = {x = "a\\r\\nb: c"}',
        "upstreams.local.headers.x: it holds characters that no header may have",
    ),
    (LOCAL + "headers = {X-A = '1', x-a = '2'}", "upstreams.local.headers.x-a: it is given twice"),
    (LOCAL + "headers = {x = 5}", "upstreams.local.headers.x: a text"),
    # files
    ("[server]\ntls_cert = '/not/there.pem'", "server.tls_cert: there is no file /not/there.pem"),
    (LOCAL + "ca = ''", "upstreams.local.ca: the path of a file"),
    # variables
    (
        "[server]\nhost = '${NOPE}'",
        (
            "server.host: the environment variable NOPE is not set; "
            "${NAME:-default} gives a value for that case"
        ),
    ),
    (
        "[server]\nhost = '${NOPE'",
        "server.host: write ${NAME} or ${NAME:-default}, and $${ where ${ is meant",
    ),
    (
        "[server]\nhost = '${a b}'",
        "server.host: write ${NAME} or ${NAME:-default}, and $${ where ${ is meant",
    ),
    ("[server]\nport = '${WORD}'", "server.port: a whole number from 0 to 65535, not 'word'"),
]


@pytest.mark.parametrize(("text", "problem"), CASES, ids=[case[1][:60] for case in CASES])
def test_a_problem_is_told_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    found = problems(tmp_path, text, {"WORD": "word"})
    assert problem in found
    if "NOPE" not in text and "${a" not in text:  # what is left of it is no host either
        assert found == [problem]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
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


def test_a_value_of_a_flag_or_a_variable_is_known_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^--port: a whole number from 0 to 65535, not 'x'$"):
        load(None, {}, port="x")
    with pytest.raises(ConfigError, match=r"^PENSTOCK_FORMAT: there is no format 'hermez'"):
        load(None, {"PENSTOCK_FORMAT": "hermez"})


def test_what_is_wrong_by_itself_is_not_complained_of_twice(tmp_path: Path) -> None:
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
        "server.tls_key: a private key needs its certificate: tls_cert"
    ]


def test_an_open_door_has_to_be_said_to_be_meant() -> None:
    assert load(None, {}, host="192.0.2.1", insecure=True).server.insecure
    assert load(None, {"PENSTOCK_API_KEY": 16 * "k"}, host="::").keys["environment"].hash


def test_an_error_is_copied_with_its_problems() -> None:
    error = ConfigError(["a: b", "c: d"])
    assert str(error) == "a: b\nc: d"
    assert pickle.loads(pickle.dumps(error)).problems == copy.copy(error).problems  # noqa: S301


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 1000)) == 41
    assert suggestion("x" * 100_000, ["host"]) == ""


def test_a_place_is_written_as_toml_writes_it() -> None:
    assert str(Place(("models", 'a".b', "x"))) == 'models."a\\".b".x'


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
def test_whatever_a_file_says_it_gives_settings_or_problems(
    values: dict[str, str], flag: str
) -> None:
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
            assert settings.describe()
            settings.route("m")
