"""Run the cases of a test in batches (``--merge-cases``).

Twenty thousand parametrised items cost pytest and xdist a minute of processor time. `make test` and
`make quick` therefore run the cases of a test in batches; a failure carries the name of its case.
Without the option every case is an item of its own and can be selected with ``-k``. Tests with
fixtures, marks on cases, examples of hypothesis or coroutines are never merged.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

BATCH = 25
"""Cases of one item: few enough to share the work among processes."""

PLAIN_MARKS = {"parametrize", "virtual_time"}


class Batch(pytest.Item):
    """Some cases of one test."""

    def __init__(self, *, cases: Sequence[pytest.Function], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cases = cases

    def runtest(self) -> None:
        """Run every case; raise the first failure, with the names of all cases that failed."""
        failures: dict[str, Exception] = {}
        skips: list[BaseException] = []
        for case in self.cases:
            try:
                case.obj(**case.callspec.params)
            except pytest.skip.Exception as exc:
                skips.append(exc)
            except Exception as exc:  # noqa: BLE001 - the next cases count too
                failures[case.name] = exc
        if failures:
            first, *others = failures
            failures[first].add_note(f"case: {first}")
            if others:
                failures[first].add_note("\n".join(["these failed too:", *others]))
            raise failures[first]
        if len(skips) == len(self.cases):
            raise skips[0]

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        return excinfo.traceback.cut(path=self.path)  # Show the test, not how it was called.

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the place of the test."""
        path, line, _ = self.cases[0].reportinfo()
        return path, line, self.name


def merge(cases: Sequence[pytest.Function]) -> Iterator[pytest.Item]:
    """Yield *cases* in batches, or as they are if they cannot be merged."""
    if len(cases) < 2 or not all(map(_is_plain, cases)):
        yield from cases
        return
    parent = cases[0].parent
    assert parent is not None
    for start in range(0, len(cases), BATCH):
        some = cases[start : start + BATCH]
        name = f"{cases[0].originalname}[{start + 1}-{start + len(some)}]"
        yield Batch.from_parent(parent, name=name, cases=some)


def _is_plain(case: pytest.Function) -> bool:
    """Return whether *case* is a plain function of its parameters."""
    if not hasattr(case, "callspec") or hasattr(case.obj, "hypothesis"):
        return False
    names = set(case._fixtureinfo.names_closure)
    fixtures = case.session._fixturemanager
    return (
        names <= set(case.callspec.params)
        and not any(fixtures.getfixturedefs(name, case) for name in names)
        and {mark.name for mark in case.iter_markers()} <= PLAIN_MARKS
        and not inspect.iscoroutinefunction(case.obj)
    )
