"""URLs are read without being quoted."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from penstock.errors import UsageError
from penstock.store import Store
from penstock.store.engine import Describer, parse_url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "canary",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:canary?uri=true",
        "mysql://me:canary@host/db",
        "postgresql+asyncpg://me:canary@host/db",
        "postgresql://me:canary@host:notaport/db",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UsageError) as failure:
        Store(url)
    assert "canary" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgres_may_be_named_as_people_name_it(scheme: str) -> None:
    assert parse_url(f"{scheme}://host/db").drivername == "postgresql+psycopg"


def test_a_file_stays_the_same_whatever_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_url("sqlite:///log.db").database == str(tmp_path / "log.db")


def test_no_secret_of_a_url_is_told() -> None:
    url = make_url("postgresql://me:c%40n%2Fary@host/db?sslpassword=s3cret&options=plain")
    message = f"bad: {url.render_as_string(hide_password=False)} c@n/ary c%40n%2Fary s3cret plain"
    told = Describer(url)(ValueError(message))
    for secret in ("c@n/ary", "c%40n%2Fary", "s3cret"):
        assert secret not in told
    assert "plain" in told


def test_a_long_message_is_cut_to_its_first_line() -> None:
    describe = Describer(make_url("postgresql://host/db"))
    assert describe(ValueError("first\nsecond")) == "ValueError: first"
    assert len(describe(ValueError("x" * 5000))) < 300
    assert describe(FileNotFoundError(2, "No such file", "/a/path")) == (
        "FileNotFoundError: No such file"
    )
