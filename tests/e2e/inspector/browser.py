"""A real browser, and what it noticed: errors, dialogs, long tasks, findings of axe-core.

The browser is the machine's own Chromium, driven by Playwright; none is downloaded. The page's
policy forbids to evaluate strings, so what is looked up in a page is looked up by the driver.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Browser, Dialog, Page, Playwright, expect, sync_playwright

from e2e.inspector.corpus import FLAG

HOW_TO_GET_ONE: Final = (
    "inspector: there is no Chromium here. Debian has one (`apt-get install chromium`); any other "
    "can be named in CHROMIUM=/path/to/it. THE INSPECTOR WAS NOT TRIED."
)
PATIENCE: Final = 60_000
"""How many milliseconds anything may take before it is given up: the machine may be busy."""

TO_INSTALL: Final = 300
"""How many seconds the installation of a browser may take, each time that it is tried."""

SIZE: Final = {"width": 1280, "height": 800}
MAX_TASK: Final = 200
"""How many milliseconds of the processor one task of the page may take."""

AXE: Final = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
GRAVE: Final = ("serious", "critical")

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAIN: Final = "CrRendererMain"
_TASK: Final = "ThreadControllerImpl::RunTask"

Theme = Literal["light", "dark"]


def find_browser() -> str | None:
    """Give the program of the browser, if there is one, or if one can be had."""
    named = os.environ.get("CHROMIUM")
    return named or _installed() or _install()


def _installed() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def _install() -> str | None:
    """Install the browser of Debian, where that is allowed."""
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
    """How long the longest tasks of the pages' main threads were, in milliseconds."""

    def __init__(self) -> None:
        self.clock = 0
        self.processor = 0

    def read(self, trace: bytes) -> None:
        """Read what the browser traced."""
        events = json.loads(trace)["traceEvents"]
        mains = {
            (one["pid"], one["tid"])
            for one in events
            if one["name"] == "thread_name" and one["args"]["name"] == _MAIN
        }
        tasks = [
            one for one in events if one["name"] == _TASK and (one["pid"], one["tid"]) in mains
        ]
        assert tasks, "the browser traced no task"
        self.clock = round(max(one.get("dur", 0) for one in tasks) / 1000)
        self.processor = round(max(one.get("tdur", 0) for one in tasks) / 1000)


class Watched:
    """A page of the inspector at *address*, and what went wrong in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.wrong: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("dialog", self._dismiss)

    def go(self, place: str) -> None:
        """Show the view at *place*, such as ``streams``, in a page that is new."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#/{place}")

    @contextmanager
    def timing(self) -> Iterator[Timing]:
        """Trace what is done meanwhile: the times are known at the end."""
        browser = self.page.context.browser
        assert browser is not None
        timing = Timing()
        browser.start_tracing(page=self.page, categories=["toplevel", "__metadata"])
        try:
            yield timing
            self.page.wait_for_timeout(300)  # for what goes on a little longer
        finally:
            timing.read(browser.stop_tracing())

    def check_nothing_ran(self) -> None:
        """See that no script but the page's own ran, and that nothing went wrong."""
        assert not self.page.evaluate(f"'{FLAG}' in window"), "what the model wrote was run"
        strange = "script:not([src^='/inspector/']), iframe, base, main style, main img, main link"
        assert self.page.locator(strange).count() == 0, "what the model wrote is markup in the page"
        self.check_quiet()

    def check_quiet(self) -> None:
        """See that nothing went wrong so far."""
        assert not self.wrong, f"the page said: {self.wrong[:3]}"

    def check_accessible(self) -> None:
        """See that axe-core has nothing serious to say."""
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

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error":
            self.wrong.append(f"console: {text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """Run the browser for as long as it is needed."""
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
    """Open a page of its own, with nothing stored in it."""
    context = browser.new_context(
        viewport=SIZE, color_scheme=theme, accept_downloads=True, reduced_motion="reduce"
    )
    try:
        yield Watched(context.new_page(), address)
    finally:
        context.close()
