"""Load settings from the text of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.config import ConfigError, Settings, load


def read(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, **flags: object
) -> Settings:
    """Return the settings of a file with *text*."""
    file = folder / "penstock.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, environ or {}, **flags)


def problems(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, **flags: object
) -> list[str]:
    """Return the problems of a file with *text*."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, environ, **flags)
    return [*caught.value.problems]
