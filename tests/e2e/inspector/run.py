"""The inspector in a real browser: every view is used, attacked, and checked for accessibility.

The gateway runs with the demo model in six formats and a scripted upstream; the openai SDK asks it;
Chromium shows its page, driven by Playwright. Each line below is one thing that a person does with
it. Then the hostile corpus: nothing of it may run, and no task of the page may take more than 200
ms (as the browser traces them), also with 100,000 events, lines of 5 MB and 10,000 streams.
axe-core may find nothing serious in any view, light or dark. A screenshot of each view is made;
``--images`` puts them into the documentation. Each check prints a row, and the exit code is the
number of those that failed.

The log is in SQLite. What the database answers is then tried again with a log in PostgreSQL;
``--postgres`` exchanges the two.

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
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from e2e.agents import npm
from e2e.agents.gateway import Gateway
from e2e.inspector import hostile, journeys, views
from e2e.inspector.browser import HOW_TO_GET_ONE, Theme, Watched, browsing, find_browser, watching
from e2e.inspector.client import Client
from e2e.inspector.corpus import DEMO_FORMATS, HOSTILE, OTHER_FORMAT, SCRIPTS
from e2e.inspector.log import write_log
from e2e.inspector.upstream import scripted
from store.databases import postgres_server

HERE: Final = Path(__file__).parent
IMAGES: Final = HERE.parents[2] / "docs" / "images"
MAX_IMAGE: Final = 150_000
"""How many bytes a screenshot may have: the repository keeps every version of it."""

SMALLER: Final = {"chat": 600, "streams": 600, "conversation": 600, "api": 600, "overview": 560}
"""The heights of the pictures whose many lines of small type would take too many bytes."""

DATABASES: Final = ("SQLite", "PostgreSQL")
KEY: Final = "a-key-for-the-inspector"
KEYS: Final = f'\n[keys.tester]\nhash = "sha256:{sha256(KEY.encode()).hexdigest()}"\n'

PLACES: Final = {
    "streams": ".stream",
    "stream": ".message .part",
    "conversations": ".run",
    "conversation": ".turn",
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
    first, second = reversed(DATABASES) if "--postgres" in sys.argv else DATABASES
    with (
        tempfile.TemporaryDirectory(prefix="penstock-inspector-") as name,
        postgres_server(f"inspector-{os.getpid()}") as postgres,
    ):

        def make_log(database: str) -> Log:
            folder = Path(tempfile.mkdtemp(dir=name))
            file = f"sqlite:///{folder / 'log.db'}"
            return Log(folder, file if database == "SQLite" else postgres.make_database())

        rows = make_log(first)
        write_log(rows.url, "tester")
        with scripted() as upstream, browsing(program) as browser:
            print(f"the log is in {first}")
            with running(upstream.address, make_log(first)) as gateway:
                use(checks, browser, gateway)
            with (
                running(upstream.address, make_log(first)) as gateway,
                watching(browser, gateway.address) as watched,
            ):
                checks("the first request", journeys.begin, watched)
                checks("on a phone", journeys.use_phone, watched)
            with (
                running(upstream.address, rows, KEYS) as gateway,
                watching(browser, gateway.address) as watched,
            ):
                checks("10,000 streams", hostile.scroll_rows, watched, KEY)
                checks("overview, pictured", picture_overview, watched)
                checks("the key, forgotten", hostile.forget_key, watched)
            print(f"the log is in {second}")
            with running(upstream.address, make_log(second)) as gateway:
                query(checks, browser, gateway)
    print(f"the inspector took {time.monotonic() - began:.0f} s")
    print(f"{checks.passed} passed, {len(checks.failures)} failed")
    print("".join(f"FAILED {one}\n" for one in checks.failures), end="")  # the end of a log is read
    return len(checks.failures)


class Log(NamedTuple):
    """The *folder* of a gateway and the *url* of its log."""

    folder: Path
    url: str


class Checks:
    """Runs checks, and prints the result of each."""

    def __init__(self) -> None:
        self.passed = 0
        self.failures: list[str] = []

    def __call__(self, name: str, check: Callable[..., str], *given: object) -> None:
        began = time.monotonic()
        try:
            said = check(*given)
            self.passed += 1
        except (AssertionError, BrowserError, OSError, ValueError, LookupError) as exc:
            self.failures.append(f"{name}: {exc}")
            said = f"FAILED {exc}"
        print(f"{name:<28} {time.monotonic() - began:>6.1f} s  {said}", flush=True)


@contextmanager
def running(upstream: str, log: Log, more: str = "") -> Iterator[Gateway]:
    """Run a gateway with *log*; *more* is more of its settings."""
    demos = "".join(
        f'\n[upstreams.demo-{name}]\napi = "demo"\ndemo = {{ format = "{name}", pace = 0.02 }}\n'
        f'[models.demo-{name}]\nupstream = "demo-{name}"\nmodel = "penstock-demo"\n'
        for name in DEMO_FORMATS
    )
    scripts = "".join(f'\n[models.{name}]\nupstream = "printing"\n' for name in SCRIPTS)
    scripts = scripts.replace("[models.other]\n", f'[models.other]\nformat = "{OTHER_FORMAT}"\n')
    with Gateway(upstream, log.folder, demos + scripts + more, log.url) as gateway:
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
        checks("one stream, live", journeys.watch_live, watched, client)
        checks("why not a call", journeys.ask_why, watched, client)
        checks("search", journeys.search, watched)
        checks("sorted, with chips", journeys.sort, watched)
        checks("request and response", journeys.read_request, watched)
        checks("keyboard only", journeys.use_keys, watched)
        checks("conversation", journeys.follow_agent, watched, client)
        checks("playground", views.play, watched)
        checks("chat", views.talk, watched)
        checks("chat, compared", journeys.compare_models, watched)
        checks("overview", views.look_over, watched)
        checks("why not, told apart", journeys.tell_reasons, watched, client)
        look_closely(checks, browser, gateway)
        with watching(browser, gateway.address) as other:
            client.ask("mail")
            checks("unread, pictured", picture_unread, other)
        checks("hostile: chat, playground", hostile.talk_hostile, watched, "unseen")
        for model in HOSTILE:
            client.ask(model)
            checks(f"hostile: {model}", hostile.open_hostile, watched, model)
        client.ask("long")
        checks("long, replayed", hostile.replay_all, watched, "long")


def query(checks: Checks, browser: Browser, gateway: Gateway) -> None:
    """Use what each database answers in its own way: filters, search, order, groups, figures."""
    with (
        closing(Client(gateway.address)) as client,
        watching(browser, gateway.address) as watched,
    ):
        checks("streams, live", views.see_streams_live, watched, client)
        checks("streams, filtered", views.filter_streams, watched)
        checks("streams, not looked at", views.look_away, watched, client)
        checks("one stream, native", views.see_native, watched, client)
        checks("why not a call", journeys.ask_why, watched, client)
        checks("search", journeys.search, watched)
        checks("sorted, with chips", journeys.sort, watched)
        checks("request and response", journeys.read_request, watched)
        checks("conversation", journeys.follow_agent, watched, client)
        checks("overview", views.look_over, watched)
        checks("why not, told apart", journeys.tell_reasons, watched, client)


def look_closely(checks: Checks, browser: Browser, gateway: Gateway) -> None:
    """Check the accessibility of every view, and make its screenshot."""
    (tides, *_) = gateway.answered(model="tides")
    (turn, *_) = gateway.answered(model="native", sort="messages", limit="1")
    ids = {
        "stream": f"streams/{tides['id']}",
        "conversation": f"conversations/{turn['conversation']}",
    }
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        for name, sign in PLACES.items():
            with watching(browser, gateway.address, theme) as watched:
                checks(f"{name}, {theme}", close_look, watched, ids.get(name, name), sign)
                if theme == "light" and name not in ("overview", "conversations"):
                    checks(f"{name}, pictured", picture, watched, name)
        with watching(browser, gateway.address, theme) as watched:
            checks(f"API, {theme}", journeys.read_docs, watched)
            if theme == "light":
                checks("API, pictured", picture, watched, "api")


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


def picture_unread(watched: Watched) -> str:
    """Make a screenshot of a stream whose call was not read."""
    page = watched.page
    watched.go("streams?unread=1&model=mail")
    page.locator(".stream a").first.click()
    page.locator(".why li").wait_for()
    watched.check_accessible()
    return picture(watched, "unread")


def picture(watched: Watched, name: str) -> str:
    """Make a screenshot of the page."""
    if name in SMALLER:
        watched.page.set_viewport_size({"width": 1120, "height": SMALLER[name]})
    data = watched.page.screenshot()
    if "--images" in sys.argv:
        assert len(data) < MAX_IMAGE, f"the picture has {len(data):,} bytes"
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / f"inspector-{name}.png").write_bytes(data)
    return f"{len(data) // 1000} kB"


if __name__ == "__main__":
    sys.exit(main())
