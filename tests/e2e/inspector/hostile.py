"""What means harm, and what is very much: nothing of it runs, and nothing of it stops the page.

The browser traces every task of the page's main thread. None may take more than `MAX_TASK` of the
processor; by the clock a task may seem longer where the machine is busy with other things, so both
are told.
"""

from __future__ import annotations

from collections.abc import Callable

from e2e.inspector.browser import MAX_TASK, Watched
from e2e.inspector.corpus import MANY_EVENTS, MARKUP, UNSEEN
from e2e.inspector.log import ROWS


def open_hostile(watched: Watched, model: str) -> str:
    """Open the newest stream of *model*, all of it; look at every tab, scroll, step."""
    return _within_limit(watched, lambda: _look_at(watched, model))


def talk_hostile(watched: Watched, model: str) -> str:
    """Ask *model* in the chat, and give what it means to do to the playground."""
    return _within_limit(watched, lambda: _talk(watched, model))


def replay_all(watched: Watched, model: str) -> str:
    """Read a long stream again, and then all of it: what is shown stays the replay."""
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
    """Give the key that is asked for, and scroll through ten thousand streams."""
    watched.go("streams")
    _give_key(watched, key)
    return _within_limit(watched, lambda: _scroll(watched))


def forget_key(watched: Watched) -> str:
    """Take the key back: the page asks for one again."""
    watched.page.get_by_role("button", name="Forget the key").click()
    watched.page.get_by_role("dialog").get_by_label("API key").wait_for()
    assert not watched.page.evaluate("sessionStorage.length"), "the key is not forgotten"
    return "it is asked for again"


def _within_limit(watched: Watched, look: Callable[[], None]) -> str:
    """See that no task is too long; give how long the longest was."""
    with watched.timing() as timing:
        look()
        watched.check_nothing_ran()
    said = f"longest task {timing.processor} ms of the processor, {timing.clock} ms by the clock"
    assert timing.processor <= MAX_TASK, said
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
    page.get_by_label("What the model printed").first.fill(MARKUP + UNSEEN)
    page.locator(".printed .unseen", has_text="RLO").first.wait_for()
    page.get_by_text("What would each format read").click()
    page.locator(".formats tbody tr").first.wait_for()


def _give_key(watched: Watched, key: str) -> None:
    page = watched.page
    page.get_by_role("dialog").get_by_label("API key").fill("ein Schlüssel")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("alert").filter(has_text="no spaces").wait_for()
    page.get_by_role("dialog").get_by_label("API key").fill(key)
    page.get_by_role("button", name="Go on").click()
    page.locator(".stream", has_text=f"model {ROWS - 1}").wait_for()
    watched.wrong.clear()  # the console tells of the refusal
    stored = page.evaluate("[Object.values(localStorage), document.cookie].flat().join()")
    assert key not in stored, "the key is kept beyond the tab"


def _scroll(watched: Watched) -> None:
    """Scroll to the last row, page by page, as they come."""
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
