"""The overview and the filters over HTTP."""

from __future__ import annotations

import pytest

from gateway.inspector.scene import HERMES, page, refused, said
from gateway.serving import Actor, Served, Stage, ask, upstream_table


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    served = stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))
    said(actor, served, f"Look. {HERMES}")
    return served


def test_what_passed_is_summed_up(served: Served) -> None:
    found = page(served, "overview?buckets=30")
    assert len(found["buckets"]) == 30
    assert sum(one["streams"] for one in found["buckets"]) == 1
    assert found["buckets"][-1]["ttft"]["p50"] > 0
    assert found["formats"] == {"hermes": 1}
    assert found["models"] == {"m": 1}
    assert found["buckets"][-1]["formats"] == {"hermes": 1}
    assert found["buckets"][-1]["errors"] == {}
    assert found["failures"] == {}
    assert found["open"] == 0
    assert found["until"] - found["since"] == pytest.approx(3600)
    assert page(served, "overview?since=1&until=2")["states"] == {}


def test_a_range_is_fitted_to_the_requests(served: Served) -> None:
    found = page(served, "overview?fit=1")
    assert 60 <= found["until"] - found["since"] < 3600
    assert sum(one["streams"] for one in found["buckets"]) == 1


@pytest.mark.parametrize(
    "query",
    ["since=nan", "since=x", "until=1e400", "buckets=many", "since=5&until=4", "since=-1e300"],
)
def test_a_stretch_of_time_that_cannot_be_is_refused(served: Served, query: str) -> None:
    assert refused(served, f"overview?{query}").status == 400


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("format=hermes", 1),
        ("format=glm45", 0),
        ("finish=tool_use", 1),
        ("finish=stop", 0),
        ("error=transport", 0),
        ("repairs=0", 1),
        ("repairs=1", 0),
    ],
)
def test_the_list_is_filtered(served: Served, query: str, number: int) -> None:
    assert len(ask(served, f"/v1/requests?{query}").json["data"]) == number


def test_a_filter_that_is_none_is_refused(served: Served) -> None:
    assert ask(served, "/v1/requests?repairs=maybe").status == 400
