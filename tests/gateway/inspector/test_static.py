"""The files of the page: what is served, to whom, and with which headers."""

from __future__ import annotations

import pytest

from gateway.serving import Answer, Served, Stage, ask
from penstock.gateway.inspector.static import FOLDER, read_files

KEY = "a-key-that-nobody-guesses"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A gateway that asks for a key, and has no log."""
    text = '[keys.me]\nenv = "ME"\n[store]\nenabled = false\n[upstreams.demo]\napi = "demo"\n'
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text, {"ME": KEY}, store=None)


def check_safe(answer: Answer) -> None:
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_browser_gets_the_page_and_others_get_the_welcome(served: Served) -> None:
    page = ask(served, "/", accept=BROWSER)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    check_safe(page)
    welcome = ask(served, "/", accept="*/*")
    assert welcome.headers["content-type"] == "text/plain"
    assert page.headers["vary"] == welcome.headers["vary"] == "accept"
    head = ask(served, "/", method="HEAD", accept=BROWSER)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == page.headers["content-length"]


def test_every_file_of_the_page_is_served_without_a_key(served: Served) -> None:
    assert {"index.html", "app.js"} <= set(read_files())
    for name, file in read_files().items():
        answer = ask(served, f"/inspector/{name}")
        assert (answer.status, answer.body) == (200, file.data)
        check_safe(answer)
        again = ask(served, f"/inspector/{name}", if_none_match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_the_page_is_small_and_asks_nobody_else() -> None:
    assert sum(len(file.data) for file in read_files().values()) <= 220_000
    for file in read_files().values():
        for elsewhere in (b'src="http', b'href="http', b"@import", b'from "http', b"eval("):
            assert elsewhere not in file.data
    assert b"innerHTML" not in b"".join(file.data for file in read_files().values())


@pytest.mark.parametrize(
    "name",
    [
        "../static.py",
        "..%2fstatic.py",
        "%2e%2e/static.py",
        "....//static.py",
        "/etc/passwd",
        "%00",
        "index.html/",
        "INDEX.HTML",
        "index.html%00.js",
        "",
        "api",
        "api/nothing",
        "page/index.html",
    ],
)
def test_no_other_name_leads_to_a_file(served: Served, name: str) -> None:
    answer = ask(served, f"/inspector/{name}")
    assert answer.status in (404, 400) or answer.body == read_files()["index.html"].data
    assert (FOLDER.parent / "static.py").read_bytes() not in answer.body


def test_nothing_is_posted_to_a_file(served: Served) -> None:
    assert ask(served, "/inspector/app.js", {}).status == 405


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("about", None),
        ("overview", None),
        ("live", None),
        ("streams/x", None),
        ("streams/x/vector", None),
        ("streams/x/replay", {}),
        ("parse", {"text": ""}),
        ("formats", {"text": ""}),
    ],
)
def test_whoever_has_no_key_is_told_nothing(
    served: Served, path: str, body: dict[str, str] | None
) -> None:
    for wrong in ({}, {"authorization": "Bearer wrong"}):
        answer = ask(served, f"/inspector/api/{path}", body, **wrong)
        assert answer.status == 401
        assert "penstock-demo" not in answer.body.decode()


def test_a_log_that_is_off_is_said_to_be_off(served: Served) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    about = ask(served, "/inspector/api/about", **key)
    assert about.json["log"] is False
    assert about.json["needs_key"] is True
    assert KEY not in about.body.decode()
    for path in ("live", "overview", "streams/x"):
        answer = ask(served, f"/inspector/api/{path}", **key)
        assert answer.status == 404
        assert "disabled" in answer.json["error"]["message"]
    assert ask(served, "/inspector/api/parse", {"text": "Hi."}, **key).status == 200


def test_what_there_is_is_told(served: Served) -> None:
    about = ask(served, "/inspector/api/about", authorization=f"Bearer {KEY}").json
    assert {"version", "formats", "reasoning", "apis", "models", "bodies"} <= set(about)
    named = {one["name"]: one for one in about["formats"]}
    assert "<tool_call>" in named["hermes"]["sample"]
    assert "qwen3-coder" in " ".join(named["qwen3_coder"]["models"]).lower()
    assert about["models"]
