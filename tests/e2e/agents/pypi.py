"""Install the agents from PyPI in an environment: once for each list of versions, with retries."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

INSTALL: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
TRIES: Final = 3
SECONDS: Final = 300
"""How long one try may take: 80 packages need 25 seconds on a quiet machine."""

ENVIRONMENT: Final = Path(__file__).parents[3] / ".venv-agents"


def install(where: Path) -> Path:
    """Install what *where*/requirements.txt names; return the folder of its programs.

    Ends the program where it cannot be done.
    """
    wanted = where / "requirements.txt"
    programs, stamp = ENVIRONMENT / "bin", ENVIRONMENT / ".installed"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return programs
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)],
        [str(programs / "python"), *INSTALL, "--requirement", str(wanted)],
    )
    for tried in range(TRIES):
        if all(_is_done(command) for command in commands):
            stamp.write_text(wanted.read_text())
            return programs
        time.sleep(5 * (tried + 1))
    raise SystemExit(f"pip could not install what {wanted} names")


def _is_done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, timeout=SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
