"""Hostile and very long streams: nothing of them runs, and nothing of them blocks the page.

The browser traces every task of the page's main thread. None may take more than `MAX_RATIO` times
the processor time of a reference task, which is measured in the same browser right before and after
it. The time by the clock is printed too.
"""

from __future__ import annotations

from collections.abc import Callable

from e2e.inspector.browser import MAX_RATIO, Watched
from e2e.inspector.corpus import MANY_EVENTS, MARKUP, UNSEEN
from e2e.inspector.log import ROWS


def open_hostile(watched: Watched, model: str) -> str:
    """Open the newest stream of *model* completely; open every tab, scroll, step."""
    return _within_limit(watched, lambda: _look_at(watched, model))


def talk_hostile(watched: Watched, model: str) -> str:
    """Send a hostile message to *model* in the chat, and paste it into the playground."""
    return _within_limit(watched, lambda: _talk(watched, model))


def replay_all(watched: Watched, model: str) -> str:
    """Replay a long stream, then load all of it: the page still shows the replay."""
    page = watched.page
    watched.go("streams")
    page.locator(".stream a", has_text=model).first.click()
    page.get_by_role("button", name="Replay with").click()
    page.get_by_role("dialog").get_by_label("Format").select_option("qwen3_coder")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("heading", name="Replayed with").wait_for()
    with page.expect_response("**/replay?full=1") as answer:
        page.get_by_role("button", name="Load all").click()
    page.get_by_role("button", name="Load all").wait_for(state="detached")
    assert page.get_by_role("heading", name="Replayed with").is_visible(), "it is the original"
    watched.check_quiet()
    return f"{len(answer.value.body()) // 1000:,} kB"


def scroll_rows(watched: Watched, key: str) -> str:
    """Enter the required key, and scroll through ten thousand streams."""
    watched.go("streams")
    _give_key(watched, key)
    return _within_limit(watched, lambda: _scroll(watched))


def forget_key(watched: Watched) -> str:
    """Remove the key: the page asks for one again."""
    watched.page.get_by_role("button", name="Remove API key").click()
    watched.page.get_by_role("dialog").get_by_label("API key").wait_for()
    assert not watched.page.evaluate("sessionStorage.length"), "the key is not forgotten"
    return "it is asked for again"


def _within_limit(watched: Watched, look: Callable[[], None]) -> str:
    """Check that no task is too long; return how long the longest was."""
    with watched.timing() as timing:
        look()
        watched.check_nothing_ran()
    said = (
        f"longest task {timing.ratio:.1f} times the reference ({timing.processor:.0f} and "
        f"{timing.reference:.0f} ms of the processor, {timing.clock:.0f} ms by the clock)"
    )
    assert timing.ratio <= MAX_RATIO, said
    return said


def _look_at(watched: Watched, model: str) -> None:
    page = watched.page
    watched.go("streams")
    page.locator(".stream a", has_text=model).first.click()
    page.locator(".event").first.wait_for()
    if page.get_by_role("button", name="Load all").count():
        page.get_by_role("button", name="Load all").click()
        page.get_by_role("button", name="Load all").wait_for(state="detached")
    if model == "events":
        events = page.get_by_role("tab", name="Events").inner_text()
        assert int("".join(filter(str.isdigit, events))) > MANY_EVENTS, f"the page shows {events}"
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.get_by_role("tabpanel").wait_for()
    page.get_by_role("tab").first.click()
    for place in (".printed .text", ".events .rows"):
        for top in (1e9, 20_000, 0):
            page.locator(place).evaluate("(box, top) => { box.scrollTop = top; }", top)
            page.wait_for_timeout(100)
    for key in ("ArrowLeft", "Shift+ArrowLeft", "j", "j", "k"):
        page.keyboard.press(key)


def _talk(watched: Watched, model: str) -> None:
    page = watched.page
    watched.go("chat")
    page.get_by_label("Model").select_option(model)
    page.get_by_label("Message", exact=True).fill(MARKUP)
    page.keyboard.press("Enter")
    page.locator(".bubble.assistant").first.get_by_text("stop").wait_for()
    watched.check_nothing_ran()
    watched.go("playground")
    page.get_by_label("Model output").first.fill(MARKUP + UNSEEN)
    page.locator(".printed .unseen", has_text="RLO").first.wait_for()
    page.get_by_text("Compare all formats").click()
    page.locator(".formats tbody tr").first.wait_for()


def _give_key(watched: Watched, key: str) -> None:
    page = watched.page
    page.get_by_role("dialog").get_by_label("API key").fill("ein Schlüssel")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("alert").filter(has_text="no spaces").wait_for()
    page.get_by_role("dialog").get_by_label("API key").fill(key)
    page.get_by_role("button", name="Continue").click()
    page.locator(".stream", has_text=f"model {ROWS - 1}").wait_for()
    watched.wrong.clear()  # the console reports the refused request
    stored = page.evaluate("[Object.values(localStorage), document.cookie].flat().join()")
    assert key not in stored, "the key is kept beyond the tab"


def _scroll(watched: Watched) -> None:
    """Scroll to the last row, page by page."""
    page = watched.page
    rows = page.locator(".rows")
    rows.evaluate("(box) => { box.scrollTop = 0; }")
    last = page.locator(".stream", has_text="model 0").filter(has_text="hermes")
    for _ in range(2 * ROWS // 50):
        rows.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
        page.wait_for_timeout(60)
        if page.locator(f'.row[aria-posinset="{ROWS}"]').count():
            break
    last.wait_for()
    drawn = page.locator(".row").count()
    assert drawn < 100, f"{drawn} rows are drawn"
