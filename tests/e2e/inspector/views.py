"""Each view as a person uses it: the list, one stream, the playground, the chat, the overview."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import expect

import penstock
from e2e.inspector.browser import Watched
from e2e.inspector.client import Client
from e2e.inspector.corpus import DEMO_FORMATS, HALF


def see_streams_live(watched: Watched, client: Client) -> str:
    """See streams appear as they begin, in six formats, and change as they end."""
    page = watched.page
    watched.go("streams")
    page.get_by_text("No streams yet").wait_for()
    page.locator(".live.on").wait_for()
    with _paused():
        asked = [client.begin(f"demo-{name}") for name in DEMO_FORMATS]
        tides = client.begin("tides")
        page.locator(".stream.busy", has_text="tides").wait_for()
        running = page.locator(".stream.busy").count()
    assert all(one.result() for one in (*asked, tides)), "an answer has no chunks"
    for name in DEMO_FORMATS:
        row = page.locator(".stream.good", has_text=f"demo-{name}")
        row.get_by_text("1 call").wait_for()
    row = page.locator(".stream.good", has_text="tides")
    row.get_by_text("2 calls").wait_for()
    row.get_by_text("1 repair").wait_for()
    client.ask("cut")
    page.locator(".stream.bad", has_text="stream cut off").wait_for()
    formats = watched.until(
        page.locator(".stream .asked small").all_inner_texts, lambda all_: all_.count("hermes") >= 3
    )
    assert "auto" not in formats, f"the formats are {formats}"
    watched.check_quiet()
    return f"{len(DEMO_FORMATS) + 2} streams, {running} seen while they ran"


def look_away(watched: Watched, client: Client) -> str:
    """Hide the page while a stream runs: it closes its connection, and catches up later."""
    page = watched.page
    watched.go("streams?state=started")
    page.locator(".live.on").wait_for()
    with _paused():
        asked = client.begin("tides")
        page.locator(".stream.busy").wait_for()
        page.keyboard.press("j")
        page.locator(".stream a:focus").wait_for()
        _turn(watched, is_hidden=True)
        page.locator(".live:not(.on)").wait_for()
    asked.result()
    assert page.locator(".stream.busy").count() == 1, "the page listens while nobody looks"
    assert page.locator(".stream a:focus").count() == 1, "the row that changed lost the focus"
    _turn(watched, is_hidden=False)
    page.locator(".live.on").wait_for()
    page.get_by_text("No matches").wait_for()
    watched.check_quiet()
    return "the end was not missed"


@contextmanager
def _paused() -> Iterator[None]:
    """Hold the response of the model `tides` at its half within a block."""
    HALF.clear()
    try:
        yield
    finally:
        HALF.set()


def _turn(watched: Watched, *, is_hidden: bool) -> None:
    """Hide or show the page for its scripts: a headless browser never hides one."""
    value = f"Object.defineProperty(document, 'hidden', {{value: {json.dumps(is_hidden)}"
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    watched.page.evaluate(f"{value}, configurable: true}}); {tell}")


def filter_streams(watched: Watched) -> str:
    """Filter streams by state and by text; move with the keyboard only."""
    page = watched.page
    rows = page.locator(".stream")
    page.get_by_label("State").select_option("failed")
    expect(rows).to_have_count(1)
    page.get_by_label("State").select_option("")
    expect(rows).to_have_count(len(DEMO_FORMATS) + 2)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("look at the weather")
    expect(rows).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search", exact=True)).to_have_value("look at the weather")
    page.keyboard.press("j")
    page.locator(".stream a:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator(".one h1", has_text="tides").wait_for()
    return "by state, by words, by keys"


def step_through(watched: Watched) -> str:
    """Step back by chunks: less text and fewer events have arrived; then play to the end."""
    page = watched.page
    watched.go("streams")
    page.locator(".stream a", has_text="tides").first.click()
    page.locator(".text .k-name", has_text="write_file").wait_for()
    for kind in ("thinking", "arguments"):
        page.locator(f".text .k-{kind}").first.wait_for()
    page.locator(".remark", has_text="closed").first.wait_for()
    expect(page.locator(".printed .text")).to_contain_text('"city": "Leith", "days": 3')  # unsplit
    page.locator(".part.call", has_text="write_file").first.wait_for()  # the message comes first
    page.get_by_role("tab", name="Events").click()
    page.get_by_role("heading", name="Model output").click()  # the arrow keys are those of the page
    page.locator(".told", has_text=re.compile(r"step [1-9]")).wait_for()
    steps = int(page.get_by_label("Step", exact=True).get_attribute("max") or 0)
    expect(page.locator(".printed .ahead")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    page.locator(".told", has_text=f"step {steps - 11} of {steps}").wait_for()
    page.locator(".printed .ahead").first.wait_for()
    page.get_by_role("button", name="Go to start").click()
    page.locator(".event.ahead").first.wait_for()
    page.get_by_role("button", name="Play", exact=True).click()
    page.locator(".told", has_text=f"step {steps} of {steps}").wait_for()
    page.locator(".text .k-name").first.hover()
    page.locator(".text .k-name.lit").wait_for()
    page.locator(".text .k-name").first.click()
    page.locator(".detail", has_text="toolcall_start").wait_for()
    for tab in ("Message", "Request", "Response", "Details"):
        page.get_by_role("tab", name=tab, exact=True).click()
        page.get_by_role("tabpanel", name=tab, exact=True).wait_for()
    page.get_by_role("tab", name="Events").click()
    watched.check_quiet()
    return f"{steps} steps"


def see_native(watched: Watched, client: Client) -> str:
    """See native reasoning and calls separate from the text, and from each other."""
    page = watched.page
    client.ask("native")
    watched.go("streams")
    page.locator(".stream.good a", has_text="native").click()
    page.locator(".text .k-name").nth(1).wait_for()
    cities = [f'get_weather{{"city": "{city}"}}' for city in ("Leith", "Oslo")]
    wanted = {"They want both.", "I look.", *cities}  # each has a line of its own
    watched.until(
        lambda: page.locator(".printed .block").inner_text().splitlines(), wanted.issubset
    )
    expect(page.locator(".seam", has_text="native")).to_have_count(3)
    watched.check_quiet()
    return "3 native blocks"


def replay(watched: Watched) -> str:
    """Replay the stream in another format, see the differences, and go back."""
    page = watched.page
    page.get_by_role("button", name="Replay with").click()
    page.get_by_role("dialog").get_by_label("Format").select_option("deepseek_v3")
    page.get_by_role("dialog").get_by_label("Trim").select_option("false")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("heading", name="Replayed with format deepseek_v3, trim off").wait_for()
    gone = page.locator(".changes .then", has_text="write_file")
    gone.first.wait_for()
    expect(page.locator(".text .k-name")).to_have_count(0)
    differences = page.locator(".changes section").count()
    page.get_by_role("button", name="Back to the original").click()
    page.locator(".text .k-name").first.wait_for()
    watched.check_quiet()
    return f"{differences} differences"


def export(watched: Watched) -> str:
    """Export the stream as a test vector, which passes in the library, and as a command."""
    page = watched.page
    page.get_by_role("button", name="Export as test").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    vector = json.loads(download.value.path().read_text("utf-8"))
    page.keyboard.press("Escape")
    check_vector(vector)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as curl").click()
    page.get_by_text("curl command copied").wait_for()
    line: str = page.evaluate("navigator.clipboard.readText()")
    assert line.startswith("curl"), f"the command is {line[:80]}"
    return f"{len(vector['expect']['calls'])} calls expected, and read"


def check_vector(vector: dict[str, Any]) -> None:
    """Run the vector in the library."""
    message = penstock.parse(vector["text"], vector["format"], vector["tools"], **vector["options"])
    expect = vector["expect"]
    calls = [{"name": c.name, "arguments": c.arguments} for c in message.tool_calls if c.complete]
    assert calls == expect["calls"], f"the library reads {calls}"
    assert len(calls) == 2, f"the vector has {len(calls)} calls"
    assert message.text == expect["content"], f"the library reads the text {message.text!r}"
    assert message.thinking == (expect["reasoning"] or ""), "the library reads other thoughts"


def play(watched: Watched) -> str:
    """Parse a text while it is typed, with other chunks and formats; open it from a link."""
    page = watched.page
    watched.go("playground")
    page.locator(".law.good").nth(2).wait_for()
    page.get_by_label("Sample").select_option("qwen3_coder")
    page.locator(".text .k-name", has_text="get_weather").wait_for()
    page.get_by_label("Chunk size").fill("9")
    page.locator(".field", has_text="Chunks of 1 character").wait_for()
    page.get_by_role("tab", name="Message").click()
    page.locator(".part.call", has_text="get_weather").wait_for()
    page.get_by_label("Tools as JSON").fill('[{"no": "name"}]')
    page.get_by_text("tool 1 has no name").wait_for()
    page.locator(".result.stale").wait_for()
    page.get_by_label("Tools as JSON").fill("[]")
    page.locator(".result:not(.stale)").wait_for()
    before = watched.until(lambda: page.url, lambda url: "playground?z=" in url)
    page.get_by_label("Model output").first.fill("<tool_call>\n{oops")
    page.locator(".printed", has_text="oops").wait_for()
    page.get_by_text("Compare all formats").click()
    page.locator(".formats tbody tr").first.wait_for()
    formats = page.locator(".formats tbody tr").count()
    link = watched.until(lambda: page.url, lambda url: url != before)
    page.goto("about:blank")
    page.goto(link)
    page.locator(".printed", has_text="oops").wait_for()
    watched.check_quiet()
    return f"{formats} formats compared, a link of {len(link)} characters"


def talk(watched: Watched) -> str:
    """Chat with the demo model: it calls a tool, the page runs it, and both sides are shown.

    The chat is still there when one comes back to it, also if one left before its end.
    """
    page = watched.page
    watched.go("chat")
    page.get_by_label("Model").select_option("demo-hermes")
    page.get_by_role("button", name="What is the weather in Oslo?").click()
    page.locator(".bubble.tool", has_text="invented by this page").wait_for()
    page.locator(".bubble.assistant").nth(1).get_by_text("stop").wait_for()
    lines: str = page.locator(".wire > p").inner_text()
    page.get_by_role("link", name="Inspect this stream").first.click()
    page.locator(".one .k-name", has_text="get_weather").first.wait_for()
    page.go_back()
    page.locator(".bubble.tool").wait_for()
    _leave_and_return(watched)
    page.get_by_role("button", name="New chat").click()
    page.get_by_text("Try one of these").wait_for()
    watched.check_quiet()
    return lines


def _leave_and_return(watched: Watched) -> None:
    page = watched.page
    page.get_by_role("combobox", name="Model").select_option("cut")
    page.get_by_label("Message", exact=True).fill("And the tides?")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.get_by_role("link", name="Playground").click()
    page.locator(".law.good").first.wait_for()
    page.get_by_role("link", name="Chat").click()
    page.locator(".talk .wrong").wait_for()
    page.get_by_role("tab", name="From the upstream").click()
    page.locator(".panel .part", has_text="demo-hermes · ").nth(1).wait_for()
    page.locator(".panel .part", has_text="printing · ").get_by_text("One mo").wait_for()
    page.get_by_role("tab", name="To the client").click()


def look_over(watched: Watched) -> str:
    """See the plots; a name in them links to its streams."""
    page = watched.page
    watched.go("overview")
    page.locator(".totals", has_text="streams").wait_for()
    for title in ("Time to first token", "Duration"):
        plot = page.locator("figure", has_text=title)
        plot.locator("path.line").nth(3).wait_for(state="attached")
        assert "[object" not in plot.inner_text(), f"{title} is written, not drawn"
    plots = page.locator(".figure-box").count()
    page.locator(".ranks").get_by_role("link", name="stream cut off").click()
    page.locator(".stream.bad").first.wait_for()
    page.locator(".stream.good").first.wait_for(state="detached")
    watched.check_quiet()
    return f"{plots} plots"
