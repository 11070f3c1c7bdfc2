"""A real browser, and what it reports: errors, dialogs, long tasks, findings of axe-core.

The browser is the machine's own Chromium, driven by Playwright; none is downloaded. The page's
policy forbids to evaluate strings, so what is looked up in a page is looked up by the driver.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from playwright.sync_api import Browser, Dialog, Page, Playwright, expect, sync_playwright

from e2e.inspector.corpus import FLAG

HOW_TO_GET_ONE: Final = (
    "inspector: there is no Chromium here. Debian has one (`apt-get install chromium`); any other "
    "can be named in CHROMIUM=/path/to/it. THE INSPECTOR WAS NOT TRIED."
)
NOT_YET: Final = "/inspector/api/streams/"
"""What the page requests until it exists: the log has a stream a moment after its end."""

PATIENCE: Final = 60_000
"""How many milliseconds anything may take before it fails: the machine may be busy."""

TO_INSTALL: Final = 300
"""How many seconds one attempt to install a browser may take."""

SIZE: Final = {"width": 1280, "height": 800}
MAX_TASK: Final = 200.0
"""How many milliseconds one task of the page may take."""

AXE: Final = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
GRAVE: Final = ("serious", "critical")

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAIN: Final = "CrRendererMain"
_TASK: Final = "ThreadControllerImpl::RunTask"
_CATEGORIES: Final = ["toplevel", "__metadata"]

Theme = Literal["light", "dark"]
T = TypeVar("T")


def find_browser() -> str | None:
    """Return the path of the browser, installed if possible; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or _installed() or _install()


def _installed() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def _install() -> str | None:
    """Install the browser of Debian, if this process is allowed to."""
    program = shutil.which("apt-get")
    if program is None or os.geteuid() != 0:
        return None
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("-y", "--no-install-recommends", "install", "chromium", "fonts-dejavu-core")
    for _ in range(3):
        for what in (("update",), install):
            with suppress(subprocess.TimeoutExpired):
                asked = [program, "-qq", *what]
                subprocess.run(asked, check=False, env=quiet, timeout=TO_INSTALL)
        if found := _installed():
            return found
    return None


class Timing:
    """How long the longest tasks of the pages' main threads were, in milliseconds.

    *clock* includes the time for which the thread waited for a processor; *processor* does not.
    """

    def __init__(self) -> None:
        self.clock = 0.0
        self.processor = 0.0


def longest_task(trace: bytes) -> tuple[float, float]:
    """Return the longest task of *trace*, in milliseconds by the clock and of the processor."""
    events = json.loads(trace)["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == _MAIN
    }
    tasks = [one for one in events if one["name"] == _TASK and (one["pid"], one["tid"]) in mains]
    assert tasks, "the browser traced no task"
    clock, processor = (max(one.get(name, 0) for one in tasks) / 1000 for name in ("dur", "tdur"))
    return clock, processor


class Watched:
    """A page of the inspector at *address*, and what went wrong in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.wrong: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", lambda said: self._hear(said.type, said.text, said.location["url"]))
        page.on("dialog", self._dismiss)

    def go(self, place: str) -> None:
        """Show the view at *place*, such as ``streams``, in a new document."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#/{place}")

    def until(self, look: Callable[[], T], is_it: Callable[[T], object]) -> T:
        """Look again until *is_it* true of what is seen, and return that."""
        end = time.monotonic() + PATIENCE / 1000
        while not is_it(seen := look()):
            assert time.monotonic() < end, f"still: {seen!r}"[:500]
            self.page.wait_for_timeout(50)
        return seen

    @contextmanager
    def timing(self) -> Iterator[Timing]:
        """Trace the tasks of the page within the block."""
        browser = self.page.context.browser
        assert browser is not None
        timing = Timing()
        browser.start_tracing(page=self.page, categories=_CATEGORIES)
        try:
            yield timing
            self.page.wait_for_timeout(300)  # for tasks that were scheduled late
        finally:
            timing.clock, timing.processor = longest_task(browser.stop_tracing())

    def check_nothing_ran(self) -> None:
        """Check that no script but the page's own ran, and that there are no errors."""
        assert not self.page.evaluate(f"'{FLAG}' in window"), "what the model wrote was run"
        strange = "script:not([src^='/inspector/']), iframe, base, main style, main img, main link"
        assert self.page.locator(strange).count() == 0, "what the model wrote is markup in the page"
        self.check_quiet()

    def check_quiet(self) -> None:
        """Check that there are no errors so far."""
        assert not self.wrong, f"the page said: {self.wrong[:3]}"

    def check_accessible(self) -> None:
        """Check that axe-core finds nothing serious."""
        self.page.evaluate(AXE.read_text("utf-8"))
        answer: dict[str, Any] = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']})"
        )
        grave = [
            f"{one['id']}: {one['nodes'][0]['html'][:120]}"
            for one in answer["violations"]
            if one["impact"] in GRAVE
        ]
        assert not grave, f"axe-core finds {grave}"

    def _hear(self, kind: str, text: str, url: str) -> None:
        if kind == "error" and not ("404" in text and NOT_YET in url):
            self.wrong.append(f"console: {text} ({url})")

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """Run the browser within a block."""
    expect.set_options(timeout=PATIENCE)
    playwright: Playwright
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watching(browser: Browser, address: str, theme: Theme = "light") -> Iterator[Watched]:
    """Open a page in a new context, without stored data."""
    context = browser.new_context(
        viewport=SIZE, color_scheme=theme, accept_downloads=True, reduced_motion="reduce"
    )
    try:
        yield Watched(context.new_page(), address)
    finally:
        context.close()
