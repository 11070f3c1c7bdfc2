"""What ``import penstock`` brings, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own words
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_penstock_loads_no_asyncio_and_no_extra() -> None:
    loaded = modules_after("import penstock")
    assert not loaded & {"asyncio", "socketserver", "http.client", "typer", "rich", "aiohttp"}


def test_every_public_name_is_there() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    assert set(penstock.__all__) <= set(dir(penstock))


def test_a_floor_above_loads_on_first_use() -> None:
    assert "penstock.framing.sse" not in modules_after("import penstock")
    assert "penstock.framing.sse" in modules_after("import penstock; penstock.sse")


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in (penstock, penstock.values):
        with pytest.raises(
            AttributeError, match=f"'{module.__name__}' has no attribute 'nonsense'"
        ):
            module.nonsense  # noqa: B018
