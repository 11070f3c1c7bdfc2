"""What is installed from npm beside a script: once for each version, tried again where it fails.

No package runs a script of its own while it is installed. Where one has to, because its program is
put in place by it, the script is named and run here.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

INSTALL: Final = ("install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
TRIES: Final = 3
SECONDS: Final = 300
"""How long one try may take: the agents have 400 MB of programs."""


def install(npm: str, where: Path, *scripts: list[str]) -> None:
    """Install what *where*/package.json names, and run *scripts* there, each a command.

    Ends the program where it cannot be done.
    """
    wanted = where / "package.json"
    stamp = where / "node_modules" / ".installed"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    commands = [[npm, *INSTALL], *scripts]
    for tried in range(TRIES):
        if all(_is_done(command, where) for command in commands):
            stamp.write_text(wanted.read_text())
            return
        time.sleep(5 * (tried + 1))
    raise SystemExit(f"npm could not install what {wanted} names")


def _is_done(command: list[str], where: Path) -> bool:
    try:
        done = subprocess.run(command, cwd=where, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
