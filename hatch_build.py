"""Compile the hot modules with mypyc if the environment variable ``PENSTOCK_MYPYC`` is ``1``.

Without it this does nothing, and the wheel is pure Python. A compiled wheel also has the sources of
all modules, so that tracebacks and debuggers show them. `docs/internals/performance.md` has what
compiling saves, `docs/internals/decisions/0021-compiled-wheels-are-optional.md` why it is optional.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "parsing/arguments": (),
    "parsing/call_sink": ("NoCallError",),
    "parsing/engine": ("Engine",),
    "parsing/fast_path": (),
    "parsing/scanner": (),
    "parsing/state": (),
    "parsing/text": (),
    "readers/tagged/strings": (),
}
"""The modules to compile, each with its classes that modules in Python have subclasses of.

mypyc drops the options of a msgspec struct (``frozen=True``), so a module whose structs need them
cannot be compiled, nor one with a class whose `__dict__` is used (`values/incremental_state`).
Version 2.4.1 crashes if all readers are compiled."""

BUILD_DEPENDENCIES: Final = ["msgspec>=0.20", "mypy>=1.14", "setuptools>=65"]

_GROUP: Final = "penstock"  # mypyc puts the code of all modules into `penstock__mypyc`.
_OPEN_CLASS: Final = "@mypyc_attr(allow_interpreted_subclasses=True)\n"
# The compiled module does not import the decorator.
_IMPORT: Final = "\nif TYPE_CHECKING:\n    from mypy_extensions import mypyc_attr\n"
_SETUP: Final = """\
from mypyc.build import mypycify
from setuptools import setup

modules = mypycify({options!r}, opt_level="3", debug_level="0", group_name={group!r})
setup(name="penstock", packages=[], ext_modules=modules)
"""
_MYPY: Final = """\
[mypy]
follow_imports = silent
ignore_missing_imports = True
"""


class CompileHook(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    def dependencies(self) -> list[str]:
        """Return what compiling needs."""
        return BUILD_DEPENDENCIES if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless this is an editable install, whose sources change."""
        if not _is_wanted() or version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp())
        compiled = compile_modules(Path(self.root) / "src" / "penstock", self._folder)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(
            {str(path): str(path.relative_to(self._folder)) for path in compiled}
        )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder in which was compiled."""
        if _is_wanted() and version != "editable":
            shutil.rmtree(self._folder, ignore_errors=True)


def compile_modules(source: Path, folder: Path) -> list[Path]:
    """Compile the modules of the package *source* in *folder*; return the extension modules."""
    package = folder / source.name
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, classes in MODULES.items():
        path = package / f"{module}.py"
        path.write_text(_open_classes(path.read_text(), classes))
    files = [f"{source.name}/{module}.py" for module in MODULES]
    options = [*files, "--config-file", "mypy.ini"]
    (folder / "mypy.ini").write_text(_MYPY)
    (folder / "setup.py").write_text(_SETUP.format(options=options, group=_GROUP))
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603
    shutil.rmtree(folder / "build")
    compiled = [*folder.glob("*__mypyc.*"), *package.rglob("*.so"), *package.rglob("*.pyd")]
    if len(compiled) != len(MODULES) + 1:
        raise RuntimeError(f"mypyc made {len(compiled)} of {len(MODULES) + 1} extension modules")
    return compiled


def _open_classes(text: str, classes: tuple[str, ...]) -> str:
    """Return the source *text* with subclasses in Python allowed for *classes*."""
    for name in classes:
        text, count = re.subn(rf"^class {name}\b", _OPEN_CLASS + r"\g<0>", text, flags=re.MULTILINE)
        if count != 1:
            raise RuntimeError(f"the class {name} is not in its module: update MODULES")
    if not classes:
        return text
    head, marker, rest = text.partition("\nfrom penstock")
    return f"{head}\nfrom typing import TYPE_CHECKING\n{_IMPORT}{marker}{rest}"


def _is_wanted() -> bool:
    return os.environ.get("PENSTOCK_MYPYC") == "1"
