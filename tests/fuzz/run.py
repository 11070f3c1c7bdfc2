"""Coverage-guided fuzzing of every target in turn: ``make fuzz`` (needs atheris).

``python tests/fuzz/run.py NAME SECONDS`` runs one; without a name all run, each in a process of
its own. A crash leaves its input in a file that the fuzzer names.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with (
    contextlib.redirect_stderr(io.StringIO()),  # it names each of our modules
    atheris.instrument_imports(include=["penstock"]),
):
    from fuzz.targets import TARGETS

SECONDS = "60"


def run_all(seconds: str) -> int:
    failed = []
    for name in TARGETS:
        print(f"== {name}: {seconds} s", flush=True)
        done = subprocess.run([sys.executable, __file__, name, seconds], check=False)
        if done.returncode:
            failed.append(name)
    print("failed: " + ", ".join(failed) if failed else "no target failed")
    return len(failed)


def run_one(name: str, seconds: str) -> None:
    def test_one(data: bytes) -> None:
        TARGETS[name](data.decode("utf-8", "replace"))

    options = [f"-max_total_time={seconds}", "-timeout=5", "-max_len=512", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_one(sys.argv[1], sys.argv[2])
    else:
        sys.exit(run_all(sys.argv[1] if len(sys.argv) > 1 else SECONDS))
