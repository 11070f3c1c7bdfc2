"""Secrets are read from files and variables, and are never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from config.files import problems, read
from penstock.config import SecretURL, describe, find_warnings, hash_key, load, new_key
from penstock.errors import PenstockError

CANARY = "psk_Canary7d21f0c2e5"
URL = "[upstreams.a]\nbase_url = 'https://models.example/v1'\n"


# --- keys of clients ---


def test_a_new_key_is_long_and_random_and_has_a_prefix() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("psk_") and len(key) == 4 + 43 for key in keys)


def test_a_hash_is_sha256() -> None:
    assert hash_key("abc") == (
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert len(hash_key("é\udcff")) == len(hash_key("abc"))


def test_a_key_from_a_variable_is_hashed() -> None:
    key = load(None, {"PENSTOCK_API_KEY": f" {CANARY}\n"}).keys["environment"]
    assert key.hash == hash_key(CANARY)


def test_a_short_key_is_rejected(tmp_path: Path) -> None:
    text = "[keys.ci]\nenv = 'CI_KEY'"
    reason = (
        "keys.ci.env: the key in the environment variable CI_KEY is too short: use at least 16 "
        "characters, or run `penstock key new`"
    )
    assert problems(tmp_path, text, {"CI_KEY": 15 * "k"}) == [reason]
    assert read(tmp_path, text, {"CI_KEY": 16 * "k"}).keys["ci"].hash == hash_key(16 * "k")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            f"[keys.a]\nkey = '{CANARY}'",
            "keys.a.key: keys are not stored here: run `penstock key new` and store the hash it "
            "prints",
            id="the key itself",
        ),
        pytest.param(
            f"[keys.a]\nhash = '{CANARY}'",
            "keys.a.hash: expected 'sha256:' and 64 hexadecimal digits, as printed by "
            "`penstock key new`",
            id="the key in place of its hash",
        ),
        pytest.param(
            f"[keys.a]\nenv = '{CANARY}'",
            "keys.a.env: the variable is not set or empty",
            id="the key in place of its variable",
        ),
        pytest.param(
            f"[keys.a]\nhash = '{hash_key(CANARY)}'\nenv = 'PATH'",
            "keys.a.env: cannot be combined with hash: set only one of them",
            id="two keys for one",
        ),
        pytest.param(
            "[keys.a]",
            "keys.a: missing hash or env: run `penstock key new` to create a key",
            id="no key",
        ),
        pytest.param(
            f"[keys.a]\nhash = '{hash_key(CANARY)}'\n[keys.b]\nhash = '{hash_key(CANARY)}'",
            "keys.b: duplicate key: the same as keys.a",
            id="one key for two",
        ),
        pytest.param(
            f"[keys.a]\nhash = '{hash_key(CANARY)}'\nrate = 0",
            "keys.a.rate: expected a whole number from 1 to 10_000_000, got 0",
            id="a rate of nothing",
        ),
    ],
)
def test_a_problem_with_a_client_key_does_not_show_it(
    text: str, problem: str, tmp_path: Path
) -> None:
    assert problems(tmp_path, text, {"PATH": 16 * "p"}) == [problem]


# --- keys of upstreams ---


@pytest.mark.parametrize("source", ["key", "key_env", "key_file", "variable in the file"])
def test_the_key_of_an_upstream_comes_from_its_source(source: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{CANARY}\n")
    line = {
        "key": f"key = '{CANARY}'",
        "key_env": "key_env = 'A_KEY'",
        "key_file": "key_file = 'secret'",
        "variable in the file": "key = '${A_KEY}'",
    }[source]
    settings = read(tmp_path, URL + line, {"A_KEY": CANARY})
    assert settings.upstreams["a"].key.reveal() == CANARY
    warned = "upstreams.a.key: the key is in the file; prefer key_env or key_file"
    assert find_warnings(settings) == ([warned] if source == "key" else [])


def test_a_variable_has_the_key_of_the_default_upstream(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("other")
    environ = {"PENSTOCK_UPSTREAM_KEY": CANARY}
    for line in ("", "key = 'other'", "key_file = 'secret'", "key_env = 'OTHER'"):
        assert read(tmp_path, URL + line, environ).upstreams["a"].key.reveal() == CANARY
    flagged = load(None, environ | {"MINE": "mine"}, upstream="http://h", key_env="MINE")
    assert flagged.upstreams["default"].key.reveal() == "mine"


def test_a_usual_key_goes_only_to_its_provider() -> None:
    environ = {"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": "http://elsewhere.example"}
    own = load(None, environ, upstream="https://api.openai.com/v1").upstreams["default"]
    assert own.key.reveal() == CANARY
    by_api = load(None, environ, api="openai").upstreams["default"]
    assert by_api.key.reveal() == CANARY
    assert by_api.base_url.reveal() == "https://api.openai.com"
    for url in ("http://localhost:8000/v1", "https://models.example/v1", "http://api.openai.com"):
        assert not load(None, environ, upstream=url).upstreams["default"].key


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("key_env = 'NOT_SET'", "key_env: the environment variable NOT_SET is not set or empty"),
        (f"key_env = '{CANARY}'", "key_env: the variable is not set or empty"),
        (
            f"key_env = '{CANARY}-'",
            "key_env: expected the name of an environment variable",
        ),
        ("key_env = 5", "key_env: expected the name of an environment variable"),
        ("key = 5", "key: expected a string"),
        (
            f'key = "{CANARY}\\n{CANARY}"',
            "key: contains characters that are not allowed in HTTP headers",
        ),
        (
            "key_env = 'BROKEN'",
            "key_env: the API key contains characters that are not allowed in an HTTP header",
        ),
        (
            f"key = '{CANARY}'\nkey_env = 'A_KEY'",
            "key_env: cannot be combined with key: set only one of them",
        ),
        ("key_file = 'empty'", "key_file: the file is empty"),
        ("key_file = 'long'", "key_file: the file is larger than 65,536 bytes"),
        ("key_file = 'binary'", "key_file: cannot read the file in {folder}: it is not UTF-8 text"),
        (
            "key_file = 'none'",
            "key_file: cannot read the file in {folder}: No such file or directory",
        ),
        ("key_file = 'sub'", "key_file: cannot read the file in {folder}: Is a directory"),
    ],
)
def test_a_problem_with_a_secret_does_not_show_it(line: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "long").write_text(CANARY * 5000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe" + CANARY.encode())
    environ = {"A_KEY": CANARY, "BROKEN": f"{CANARY}\x00"}
    assert problems(tmp_path, URL + line, environ) == [
        f"upstreams.a.{problem.format(folder=tmp_path)}"
    ]


def test_a_problem_with_a_usual_key_names_its_variable() -> None:
    with pytest.raises(PenstockError, match=r"^OPENAI_API_KEY: the API key contains characters"):
        load(None, {"OPENAI_API_KEY": "a\nb"}, api="openai")


# --- secrets in text ---


EVERYWHERE = f"""
[store]
url = "postgresql://me:{CANARY}@db/penstock"
[upstreams.a]
base_url = "https://models.example/v1?api_key={CANARY}"
key = "{CANARY}"
proxy = "http://me:{CANARY}@proxy:3128"
headers = {{ authorization = "Bearer {CANARY}" }}
[upstreams.q]
api = "qwen"
key_env = "TOKEN"
[upstreams.q.qwen]
cookie_file = "cookie"
umid_token = "{CANARY}"
[keys.a]
env = "TOKEN"
"""


def test_no_secret_is_in_the_settings_as_text(tmp_path: Path) -> None:
    (tmp_path / "cookie").write_text(f"token={CANARY}; a=b")
    settings = read(tmp_path, EVERYWHERE, {"TOKEN": CANARY})
    qwen = settings.upstreams["q"].qwen
    assert qwen is not None
    assert qwen.cookie.reveal() == f"token={CANARY}; a=b"
    assert settings.upstreams["q"].key.reveal() == qwen.umid_token.reveal() == CANARY
    assert settings.upstreams["a"].revealed_headers() == {"authorization": f"Bearer {CANARY}"}
    told = [repr(settings), str(settings), describe(settings), *find_warnings(settings)]
    assert not any(CANARY in text for text in told)
    assert "***@db/penstock" in describe(settings)


def test_settings_with_a_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(load(None, {}))
    with pytest.raises(TypeError, match="password"):
        pickle.dumps(SecretURL("x"))


@pytest.mark.parametrize(
    "line",
    [
        f"base_url = 'http://me:{CANARY}@h'",
        f"base_url = 'http://me:{CANARY}/@h:99999/'",
        f"base_url = 'me:{CANARY}@h'",
        f"base_url = 'http://h:99999/?token={CANARY}'",
        f"base_url = 'http://h/v1'\nproxy = 'socks5://me:{CANARY}@h'",
        f"base_url = 'http://h/v1'\nkey = ['{CANARY}']",
        f"base_url = 'http://h/v1'\nheaders = {{a = ['{CANARY}']}}",
        f"base_url = 'http://h/v1'\nheaders = '{CANARY}'",
        f"base_url = 'http://h/v1'\nkey_file = '{CANARY}'",
        f"base_url = 'http://h/v1'\napi_key = '{CANARY}'",
        f"base_url = 'http://h/v1'\nqwen = '{CANARY}'",
    ],
)
def test_no_secret_is_in_a_problem(line: str, tmp_path: Path) -> None:
    told = problems(tmp_path, f"[upstreams.a]\n{line}")
    assert told
    assert CANARY not in "\n".join(told)


# --- warnings ---


def test_settings_that_may_not_be_intended_cause_warnings(tmp_path: Path) -> None:
    text = """
    [server]
    host = "0.0.0.0"
    insecure = true
    [store]
    enabled = false
    [upstreams.a]
    base_url = "http://models.example/v1"
    key_env = "A_KEY"
    [upstreams.b]
    api = "anthropic"
    [models.small]
    upstream = "a"
    """
    settings = read(tmp_path, text, {"A_KEY": CANARY})
    assert find_warnings(settings, {"PENSTOCK_PROT": "1", "PENSTOCK_PORT": "2", "PATH": "/"}) == [
        "server.insecure: everyone who can reach this machine can use the upstreams",
        "server.host: without tls_cert, keys and responses are sent unencrypted",
        "store.enabled: without a store, there is no log and no previous_response_id",
        "upstreams.a.base_url: the key is sent unencrypted over http://",
        "upstreams.b: api.anthropic.com requires a key: set ANTHROPIC_API_KEY, key_env or key_file",
        "default_upstream: not set, so only models with an entry can be used",
        "PENSTOCK_PROT: unknown environment variable; did you mean 'PENSTOCK_PORT'?",
    ]


def test_an_upstream_that_is_the_gateway_itself_causes_a_warning() -> None:
    warned = "upstreams.default.base_url: this looks like the address of the gateway itself"
    assert find_warnings(load(None, {}, upstream="http://localhost:8787/v1")) == [warned]
    assert find_warnings(load(None, {}, upstream="http://localhost:8787/v1", port=0)) == []
    assert find_warnings(load(None, {}, upstream="http://localhost:8788/v1")) == []


def test_a_key_for_an_unknown_model_causes_a_warning(tmp_path: Path) -> None:
    text = f"""
    [upstreams.a]
    api = "demo"
    [upstreams.b]
    api = "demo"
    [models.small]
    upstream = "a"
    [keys.k]
    hash = "{hash_key("x")}"
    models = ["smal", "s*", "small"]
    """
    warned = "keys.k.models: unknown model 'smal'; did you mean 'small'?"
    assert find_warnings(read(tmp_path, text))[0] == warned
    assert len(find_warnings(read(tmp_path, text))) == 2
