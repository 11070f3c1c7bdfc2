"""The inspector in a real browser: every view is used, attacked, and checked for accessibility.

The gateway runs with the demo model in six formats and a scripted upstream; the openai SDK asks it;
Chromium shows its page, driven by Playwright. Each line below is one thing that a person does with
it. Then the hostile corpus: nothing of it may run, and no task of the page may take more than three
times the processor time of a reference task (as the browser traces them), also with 100,000 events,
lines of 5 MB and 10,000 streams. axe-core may find nothing serious in any view, light or dark. A
screenshot of each view is made; ``--images`` puts them into the documentation. Each check prints a
row, and the exit code is the number of those that failed.

Node has to be there. A Chromium is installed where apt can do it; where there is none to be had,
the test says how to get one, and passes. `INSPECTOR=skip` passes without a look.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from e2e.agents import npm
from e2e.agents.gateway import Gateway
from e2e.inspector import hostile, views
from e2e.inspector.browser import HOW_TO_GET_ONE, Theme, Watched, browsing, find_browser, watching
from e2e.inspector.client import Client
from e2e.inspector.corpus import DEMO_FORMATS, HOSTILE, SCRIPTS
from e2e.inspector.log import write_log
from e2e.inspector.upstream import scripted

HERE: Final = Path(__file__).parent
IMAGES: Final = HERE.parents[2] / "docs" / "images"
MAX_IMAGE: Final = 150_000
"""How many bytes a screenshot may have: the repository keeps every version of it."""

KEY: Final = "a-key-for-the-inspector"
KEYS: Final = f'\n[keys.tester]\nhash = "sha256:{sha256(KEY.encode()).hexdigest()}"\n'

PLACES: Final = {
    "streams": ".stream",
    "stream": ".event",
    "playground": ".law.good",
    "chat": ".starts",
    "overview": "figure:has(path.line)",
}
"""The views, and an element of each that shows that it is ready."""


def main() -> int:
    if os.environ.get("INSPECTOR") == "skip":
        print("inspector: skipped, as INSPECTOR=skip asks for")
        return 0
    program, package_manager = find_browser(), shutil.which("npm")
    if program is None:
        print(HOW_TO_GET_ONE)
        return 0
    if package_manager is None:
        print("inspector: there is no npm here; install Node.js, or pass INSPECTOR=skip")
        return 1
    npm.install(package_manager, HERE)
    checks = Checks()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-inspector-") as name:
        views_folder, rows_folder = Path(name) / "views", Path(name) / "rows"
        views_folder.mkdir()
        rows_folder.mkdir()
        write_log(rows_folder, "tester")
        with scripted() as upstream, browsing(program) as browser:
            with running(upstream.address, views_folder) as gateway:
                use(checks, browser, gateway)
            with (
                running(upstream.address, rows_folder, KEYS) as gateway,
                watching(browser, gateway.address) as watched,
            ):
                checks("10,000 streams", hostile.scroll_rows, watched, KEY)
                checks("overview, pictured", picture_overview, watched)
                checks("the key, forgotten", hostile.forget_key, watched)
    print(f"{checks.passed} passed, {checks.failed} failed")
    print(f"the inspector took {time.monotonic() - began:.0f} s")
    return checks.failed


class Checks:
    """Runs checks, and prints the result of each."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def __call__(self, name: str, check: Callable[..., str], *given: object) -> None:
        began = time.monotonic()
        try:
            said = check(*given)
            self.passed += 1
        except (AssertionError, BrowserError, OSError, ValueError, LookupError) as exc:
            self.failed += 1
            said = f"FAILED {exc}"
        print(f"{name:<28} {time.monotonic() - began:>6.1f} s  {said}", flush=True)


@contextmanager
def running(upstream: str, folder: Path, more: str = "") -> Iterator[Gateway]:
    """Run a gateway whose log is in *folder*; *more* is more of its settings."""
    demos = "".join(
        f'\n[upstreams.demo-{name}]\napi = "demo"\ndemo = {{ format = "{name}", pace = 0.02 }}\n'
        f'[models.demo-{name}]\nupstream = "demo-{name}"\nmodel = "penstock-demo"\n'
        for name in DEMO_FORMATS
    )
    scripts = "".join(f'\n[models.{name}]\nupstream = "printing"\n' for name in SCRIPTS)
    with Gateway(upstream, folder, demos + scripts + more) as gateway:
        yield gateway


def use(checks: Checks, browser: Browser, gateway: Gateway) -> None:
    """Use every view, check its accessibility, then attack it."""
    with (
        closing(Client(gateway.address)) as client,
        watching(browser, gateway.address) as watched,
    ):
        checks("streams, live", views.see_streams_live, watched, client)
        checks("streams, filtered", views.filter_streams, watched)
        checks("streams, not looked at", views.look_away, watched, client)
        checks("one stream, native", views.see_native, watched, client)
        checks("one stream, stepped", views.step_through, watched)
        checks("one stream, replayed", views.replay, watched)
        checks("one stream, exported", views.export, watched)
        checks("playground", views.play, watched)
        checks("chat", views.talk, watched)
        checks("overview", views.look_over, watched)
        look_closely(checks, browser, gateway)
        checks("hostile: chat, playground", hostile.talk_hostile, watched, "unseen")
        for model in HOSTILE:
            client.ask(model)
            checks(f"hostile: {model}", hostile.open_hostile, watched, model)
        client.ask("long")
        checks("long, replayed", hostile.replay_all, watched, "long")


def look_closely(checks: Checks, browser: Browser, gateway: Gateway) -> None:
    """Check the accessibility of every view, and make its screenshot."""
    (tides, *_) = gateway.answered(model="tides")
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        for name, sign in PLACES.items():
            place = f"streams/{tides['id']}" if name == "stream" else name
            with watching(browser, gateway.address, theme) as watched:
                checks(f"{name}, {theme}", close_look, watched, place, sign)
                if theme == "light" and name != "overview":
                    checks(f"{name}, pictured", picture, watched, name)


def close_look(watched: Watched, place: str, sign: str) -> str:
    """Open a view and run axe-core on it."""
    watched.go(place)
    watched.page.locator(sign).first.wait_for()
    if place == "chat":
        watched.page.get_by_label("Model").select_option("demo-hermes")
        watched.page.get_by_role("button", name="What is the weather").click()
        watched.page.locator(".bubble.assistant").nth(1).get_by_text("stop").wait_for()
    watched.page.wait_for_timeout(300)
    watched.check_accessible()
    watched.check_quiet()
    return "nothing serious"


def picture_overview(watched: Watched) -> str:
    """Make a screenshot of the plots of a gateway with many requests."""
    page = watched.page
    page.get_by_role("link", name="Overview").click()
    page.locator("figure path.line").nth(3).wait_for()
    return picture(watched, "overview")


def picture(watched: Watched, name: str) -> str:
    """Make a screenshot of the page."""
    if name == "chat":  # many lines of small type take many bytes
        watched.page.set_viewport_size({"width": 1120, "height": 600})
    data = watched.page.screenshot()
    assert len(data) < MAX_IMAGE, f"the picture has {len(data):,} bytes"
    if "--images" in sys.argv:
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / f"inspector-{name}.png").write_bytes(data)
    return f"{len(data) // 1000} kB"


if __name__ == "__main__":
    sys.exit(main())
