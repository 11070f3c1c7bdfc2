"""What people come to the inspector for: why was it not a call, what happens, what was asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from urllib.parse import urlencode

from playwright.sync_api import Route, expect

from e2e.inspector.browser import SIZE, Watched
from e2e.inspector.client import Client
from e2e.inspector.corpus import GATE, QUOTING

TURNS = 40
HALF_EVENTS = 15
"""How many events at least half of the response has that is watched live."""

MIN_UNREAD = 28
"""How many unread calls the models have written by then: one in each of eight, 20 in the last."""

PHONE = {"width": 390, "height": 844}
MAX_NAME = 60
"""How many pixels tall the name of a field may be: two lines."""


def begin(watched: Watched) -> str:
    """Start with an empty log: a button sends a request with a tool call, which appears."""
    page = watched.page
    watched.go("streams")
    page.get_by_text("No streams yet").wait_for()
    page.locator(".live.on").wait_for()
    page.get_by_role("button", name="Send a demo request").click()
    row = page.locator(".stream.good", has_text="What is the weather in Oslo?")
    row.get_by_text("get_weather").wait_for()
    row.get_by_text("calls tools").wait_for()
    watched.check_quiet()
    return "one row"


def watch_live(watched: Watched, client: Client) -> str:
    """Watch a stream while it runs: text, events, message and timeline grow; then it is whole."""
    page = watched.page
    watched.go("streams")
    page.locator(".live.on").wait_for()
    GATE.clear()
    asked = client.begin("gated")
    try:
        before = _watch_half(watched)
    finally:
        GATE.set()
    asked.result()
    page.locator(".title .pill", has_text="answered").wait_for()
    expect(page.locator(".printed .text")).to_contain_text("word 39")
    tab = page.get_by_role("tab", name="Events")
    after = watched.until(lambda: _number(tab.inner_text()), lambda number: number > before)
    watched.check_quiet()
    return f"{before} events seen while it ran, {after} in the end"


def _watch_half(watched: Watched) -> int:
    """Look at a response whose second half waits; return the number of its events."""
    page = watched.page
    page.locator(".stream.busy a", has_text="gated").click()
    text = page.locator(".printed .text")
    expect(text).to_contain_text("word 15")
    assert "word 39" not in text.inner_text(), "the response has ended"
    page.locator(".title .pill", has_text="running").wait_for()
    expect(page.locator(".message .part")).to_contain_text("word 10")
    page.locator(".plot svg path").first.wait_for(state="attached")
    page.get_by_role("tab", name="Events").click()
    page.locator(".event", has_text="text_delta").first.wait_for()
    tab = page.get_by_role("tab", name="Events")
    return watched.until(lambda: _number(tab.inner_text()), lambda number: number > HALF_EVENTS)


def _number(text: str) -> int:
    return int("".join(filter(str.isdigit, text)) or 0)


def ask_why(watched: Watched, client: Client) -> str:
    """Find a call that was not read, see why and where, and replay it with what helps."""
    page = watched.page
    client.ask("mail")
    watched.go("streams?unread=1")
    row = page.locator(".stream.odd", has_text="send_mail")
    row.get_by_text("the tool is not offered").wait_for()
    page.locator(".chip", has_text="unread calls").wait_for()
    row.locator("a").click()
    why = page.locator(".why", has_text="send_mail")
    why.get_by_text("Offer the tool").wait_for()
    page.locator(".printed .remark-unread", has_text="send_mail").wait_for()
    marked = page.locator(".printed .doubtful")
    watched.until(
        lambda: "".join(marked.all_inner_texts()), lambda text: "harbour@leith.example" in text
    )
    why.get_by_role("button", name="Show it").click()
    why.get_by_role("button", name="Replay with format hermes").click()
    page.get_by_role("heading", name="Replayed with format hermes").wait_for()
    page.locator(".part.call", has_text="harbour@leith.example").wait_for()
    config = page.locator(".config .sample").inner_text()
    assert '[models."mail"]' in config, config
    assert 'format = "hermes"' in config, config
    expect(page.locator(".why")).to_be_hidden()
    page.get_by_role("button", name="Open in playground").click()
    page.locator(".playground .printed", has_text="send_mail").wait_for()
    watched.check_quiet()
    return "explained, replayed, configured"


def tell_reasons(watched: Watched, client: Client) -> str:
    """Tell all reasons apart, also many at once; the overview counts them."""
    page = watched.page
    told = (
        ("fenced", "it is in code", 'fenced = "calls"', "fenced calls"),
        ("other", "parsed in another format", 'Set format = "hermes"', "format auto"),
        ("mused", "it is in the reasoning", 'reasoning = "none"', "reasoning none"),
        ("twice", "the request allows no more calls", "Allow parallel calls", ""),
        ("quoted", "it is quoted from a tool result", 'quoted = "calls"', ""),
        ("broken", "it is not valid", "more than one possible meaning", ""),
        ("cut", "the response ended before the call did", "Raise the token limit", ""),
        ("mails", "the tool is not offered", "Offer the tool", "format hermes"),
    )
    for model, reason, advice, again in told:
        messages = QUOTING if model == "quoted" else ()
        client.ask(model, messages, parallel_tool_calls=model != "twice")
        watched.go(f"streams?unread=1&model={model}")
        row = page.locator(".stream", has_text=model).first
        row.locator(".unread", has_text=reason).wait_for()
        if model == "cut":  # an incomplete call is counted once
            row.get_by_text("1 incomplete call", exact=True).wait_for()
        row.locator("a").click()
        why = page.locator(".why li", has_text=reason)
        expect(why).to_have_count(1)
        expect(why).to_contain_text(advice)
        expect(page.locator(".notes")).to_be_empty()  # nothing is said twice
        replays = why.get_by_role("button", name=f"Replay with {again}")
        expect(replays).to_have_count(1 if again else 0)
        if model == "mails":
            page.get_by_role("heading", name="at least 20 texts").wait_for()
            expect(why).to_contain_text("19 more texts")
            why.get_by_role("button", name="Show next").click()
        elif again:
            replays.click()
            page.get_by_role("heading", name=f"Replayed with {again}").wait_for()
            page.locator(".part.call", has_text="Leith").wait_for()
    watched.go("overview")
    count = page.locator(".totals p", has_text="unread calls").locator("b")
    unread = watched.until(lambda: int(count.inner_text()), lambda number: number >= MIN_UNREAD)
    page.get_by_role("link", name="unread calls").click()
    page.locator(".chip", has_text="unread calls").wait_for()
    page.locator(".stream .unread").nth(3).wait_for()
    expect(page.locator(".stream:not(:has(.unread))")).to_have_count(0)
    watched.check_quiet()
    return f"{len(told)} reasons, {unread} in the overview"


def search(watched: Watched) -> str:
    """Search for an argument, a tool, a word of the prompt and a model; the address has it."""
    page = watched.page
    watched.go("streams")
    rows = page.locator(".stream")
    field = page.get_by_label("Search", exact=True)
    for words, model in (
        ("tides.md", "tides"),
        ("write_file metres", "tides"),
        ("harbour@leith", "mail"),
        ('"They want both"', "native"),
        ("glm45", "demo-glm45"),
    ):
        field.fill(words)
        searched = urlencode({"search": words})
        watched.until(lambda: page.url, lambda url: url.endswith(searched))  # noqa: B023 - now
        expect(page.locator(".stream .asked b").first).to_have_text(model)
    field.fill("Leith days demo-glm45")
    expect(rows).to_have_count(1)
    page.wait_for_url(re.compile(r"search=.*demo-glm45"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(field).to_have_value("Leith days demo-glm45")
    watched.check_quiet()
    return "5 kinds of words"


def sort(watched: Watched) -> str:
    """Sort by duration; remove chips one by one, and all at once."""
    page = watched.page
    watched.go("streams?state=done")
    page.locator(".stream").nth(2).wait_for()
    page.locator(".heads").get_by_role("button", name="Duration").click()
    page.wait_for_url(re.compile(r"sort=duration"))
    expect(page.locator(".chip")).to_have_count(2)
    page.locator('.heads [aria-pressed="true"]', has_text="Duration").wait_for()
    expect(page.locator(".stream.busy")).to_have_count(0)
    figures = page.locator(".stream .figure:last-child")
    watched.until(
        lambda: [_seconds(text) for text in figures.all_inner_texts()],
        lambda all_: len(all_) > 2 and all_ == sorted(all_, reverse=True),
    )
    page.locator(".chip", has_text="longest first").click()
    expect(page.locator(".chip")).to_have_count(1)
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator(".chip")).to_have_count(0)
    watched.until(lambda: page.url, lambda url: url.endswith("#/streams"))
    watched.check_quiet()
    return "by duration"


def _seconds(text: str) -> float:
    """Return the seconds of a text such as ``420 ms``, ``3.21 s`` or ``2 min 5 s``."""
    words = text.split()
    scale = {"ms": 0.001, "s": 1.0, "min": 60.0}
    return sum(
        float(number) * scale[unit] for number, unit in zip(words[::2], words[1::2], strict=False)
    )


def read_request(watched: Watched) -> str:
    """Read a request as messages: tools folded, found words, the JSON, and the upstream's side."""
    page = watched.page
    watched.go("streams?model=tides")
    page.locator(".stream a").first.click()
    page.get_by_role("tab", name="Request").click()
    panel = page.get_by_role("tabpanel", name="Request")
    panel.locator(".bubble.user", has_text="Leith").wait_for()
    tools = panel.locator(".bubble.tools")
    tools.locator("summary").first.click()
    tools.get_by_text("write_file").wait_for()
    panel.get_by_label("Find in messages").fill("Leith")
    panel.get_by_text("1 of 2 parts").wait_for()
    panel.get_by_role("button", name="Raw JSON").click()
    panel.get_by_text('"stream": true').wait_for()
    panel.get_by_label("Side of the request").select_option("to the upstream")
    panel.locator(".bubble.user", has_text="Leith").wait_for()
    page.get_by_role("tab", name="Response").click()
    page.get_by_text("reconstructed from the events").wait_for()
    assert not page.get_by_text("disconnected").count(), "the client had all of it"
    page.get_by_label("Side of the response").select_option("from the upstream")
    response = page.get_by_role("tabpanel", name="Response")
    response.get_by_text("chat.completion.chunk").first.wait_for()
    page.get_by_role("tab", name="Details").click()
    page.get_by_role("tabpanel", name="Details").get_by_text("openai-chat").first.wait_for()
    page.locator(".legend summary").click()
    page.get_by_text("markup of the format").wait_for()
    watched.check_quiet()
    return "5 tabs"


def use_keys(watched: Watched) -> str:
    """Use a stream with the keyboard only: its legend, tabs, events and steps."""
    page = watched.page
    watched.go("streams?model=tides")
    page.locator(".stream a").first.wait_for()
    page.keyboard.press("j")
    page.locator(".stream a:focus").wait_for()
    with _held(watched) as answer:
        page.keyboard.press("Enter")
        page.get_by_text("Loading the stream").wait_for()
        expect(page.locator(".panes")).to_have_count(0)
        answer()
    told = page.locator(".told", has_text=re.compile(r"step [1-9]"))
    told.wait_for()
    steps = told.inner_text()
    page.locator(".legend summary").focus()
    page.keyboard.press("Space")
    page.get_by_text("markup of the format").wait_for()
    page.keyboard.press("Space")
    page.get_by_text("markup of the format").wait_for(state="hidden")
    page.get_by_role("tab", name="Message").focus()
    page.keyboard.press("ArrowRight")
    merged = page.get_by_label("merge deltas")
    merged.wait_for()
    rows = page.locator(".event", has_text="text_delta")
    before = rows.count()
    merged.focus()
    page.keyboard.press("Space")
    expect(merged).not_to_be_checked()
    watched.until(rows.count, lambda number: number > before)
    assert told.inner_text() == steps, "a key for a control has moved the stream"
    page.keyboard.press("j")
    page.locator(".detail").wait_for()
    page.keyboard.press("Shift+ArrowLeft")
    watched.until(told.inner_text, lambda words: words != steps)
    page.keyboard.press("Escape")
    page.locator(".stream a").first.wait_for()
    watched.check_quiet()
    return "no mouse"


@contextmanager
def _held(watched: Watched) -> Iterator[Callable[[], None]]:
    """Hold the analyses that the page requests until the function is called."""
    held: list[Route] = []
    is_open = False

    def hold(route: Route) -> None:
        if is_open:
            route.continue_()
        else:
            held.append(route)

    def release() -> None:
        nonlocal is_open
        is_open = True
        for one in held:
            one.continue_()

    watched.page.route(re.compile(r"/inspector/api/streams/[^/]+$"), hold)
    yield release


def follow_agent(watched: Watched, client: Client) -> str:
    """See forty requests of an agent as one conversation, and open the stream of a turn."""
    page = watched.page
    client.run_agent("native", TURNS)
    watched.go("conversations")
    run = page.locator(".run", has_text="again and again")
    run.get_by_text(f"{TURNS} requests").wait_for()
    run.get_by_text(f"{2 * TURNS} calls").wait_for()
    run.locator("a").click()
    turns = page.locator(".turn")
    expect(turns).to_have_count(TURNS)
    page.locator(".facts", has_text=f"{2 * TURNS} calls").wait_for()
    page.locator(".facts").get_by_text("\u2013", exact=True).wait_for()  # no usage was reported
    page.locator(".outline").get_by_role("button").nth(TURNS - 1).click()
    expect(page.get_by_role("region", name=f"Turn {TURNS}", exact=True)).to_be_focused()
    last = page.get_by_role("region", name=f"Turn {TURNS}", exact=True)
    last.locator(".bubble.tool", has_text=f"{TURNS - 2} degrees <b>").first.wait_for()
    last.locator(".bubble.assistant", has_text="get_weather").wait_for()
    last.get_by_role("link", name="Open the stream").click()
    page.locator(".one .title", has_text="native").wait_for()
    page.get_by_role("link", name="Show the conversation").click()
    expect(turns).to_have_count(TURNS)
    watched.check_nothing_ran()
    return f"{TURNS} turns"


def compare_models(watched: Watched) -> str:
    """Ask two models at once, with a system prompt and a tool whose result the user types."""
    page = watched.page
    watched.go("chat")
    page.get_by_text("System prompt and tools").click()
    page.get_by_label("System prompt", exact=True).fill("You speak of the sea.")
    tool = '[{"type": "function", "function": {"name": "get_weather", "parameters": {}}}, '
    tool += '{"type": "function", "function": {"name": "ask_harbour", "description": '
    tool += '"Ask the harbour master", "parameters": {"type": "object", "properties": {}}}}]'
    page.get_by_label("Tools as JSON").fill("[")
    page.get_by_label("Message", exact=True).fill("Ask the harbour master!")
    page.keyboard.press("Enter")
    page.locator("#chat-wrong:not(:empty)").wait_for()
    page.get_by_label("Tools as JSON").fill(tool)
    page.get_by_text("System prompt and tools").click()
    page.get_by_role("button", name="Compare with another model").click()
    models = page.get_by_role("combobox", name="Model")
    models.nth(0).select_option("demo-hermes")
    models.nth(1).select_option("demo-qwen3_coder")
    page.get_by_label("Message", exact=True).press("Enter")
    for column in (0, 1):
        result = page.locator(".column").nth(column).get_by_label("Result of ask_harbour")
        result.locator("textarea").fill("All ships are in.")
        result.get_by_role("button", name="Send result").click()
    for column in (0, 1):
        answers = page.locator(".column").nth(column).locator(".bubble.assistant")
        answers.nth(1).get_by_text("All ships are in.").wait_for()
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Remove this model").first.click()
    expect(page.locator(".column")).to_have_count(1)
    watched.check_quiet()
    return "2 models, a tool of one's own"


def read_docs(watched: Watched) -> str:
    """Find an endpoint on the page of the API, read its schema, and send a request."""
    page = watched.page
    page.goto(f"{watched.address}/docs")
    page.get_by_label("Filter endpoints").fill("chat")
    box = page.locator(".endpoint", has_text="/v1/chat/completions")
    expect(page.locator(".endpoint")).to_have_count(1)
    box.locator("summary").first.click()
    box.get_by_text("The tools that the model may call.").wait_for()
    box.locator("details.fold", has_text="ChatMessage").first.locator("summary").first.click()
    box.get_by_text("tool_call_id").first.wait_for()
    message = '{"role": "user", "content": "Hello!"}'
    body = f'{{"model": "demo-hermes", "messages": [{message}], "stream": true}}'
    box.get_by_label("Request body").last.fill(body)
    box.get_by_role("button", name="Send").click()
    box.get_by_text("chat.completion.chunk").first.wait_for()
    watched.check_accessible()
    page.locator("main").evaluate("(main) => main.scrollTo(0, 0)")
    watched.check_quiet()
    return f"{page.locator('dt').count()} fields"


def use_phone(watched: Watched) -> str:
    """Use the page on a phone: nothing is wider than the screen, and results are in sight."""
    page = watched.page
    page.set_viewport_size(PHONE)
    page.goto("about:blank")
    views = (
        ("/#/playground", ".law.good"),
        ("/#/streams", ".stream .pill"),
        ("/#/overview", "figure"),
        ("/#/conversations", "h1"),
        ("/#/chat", ".starts"),
        ("/docs", ".endpoint"),
    )
    for place, sign in views:
        page.goto(f"{watched.address}{place}")
        page.locator(sign).first.wait_for()
        _check_width(watched, place)
        top = (page.locator(sign).first.bounding_box() or {"y": 1e9})["y"]
        assert top < PHONE["height"], f"{sign} is {top} pixels down"
        last = page.get_by_role("link", name="API", exact=True).bounding_box()
        assert last is not None, f"{place} has no link to the API"
        assert last["x"] + last["width"] <= PHONE["width"], f"{place} hides a link"
        watched.check_accessible()
        _check_figures(watched)
    page.locator(".endpoint summary").first.click()
    page.locator("details.fold", has_text="ChatMessage").locator("summary").first.click()
    page.locator("dt", has_text="tool_call_id").first.wait_for()
    tall = page.locator(".schema dt").evaluate_all("(all) => all.map((a) => a.offsetHeight)")
    assert max(tall) < MAX_NAME, f"a name of the schema is {max(tall)} pixels tall"
    watched.go("streams")
    page.locator(".stream a").first.click()
    page.locator(".message .part").first.wait_for()
    _check_figures(watched)
    for tab in page.get_by_role("tab").all():
        tab.click()
        _check_width(watched, tab.inner_text())
    page.set_viewport_size(SIZE)
    watched.check_quiet()
    return f"{len(views) + 1} views"


def _check_figures(watched: Watched) -> None:
    """Check that no label of an axis covers another one or leaves its figure."""
    for axis in watched.page.locator(".ticks, .axis").all():
        boxes = [box for one in axis.locator("span").all() if (box := one.bounding_box())]
        end = axis.bounding_box() or {"x": 0, "width": 0}
        for left, right in pairwise(boxes):
            assert left["x"] + left["width"] <= right["x"] + 1, "two labels cover each other"
        for box in boxes[-1:]:
            assert box["x"] + box["width"] <= end["x"] + end["width"] + 1, "a label leaves the axis"


def _check_width(watched: Watched, what: str) -> None:
    page = watched.page
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], f"{what} is {width} pixels wide"
    wide = page.locator("main :is(select, input, textarea, button)").evaluate_all(
        "(all, most) => all.filter((one) => one.getBoundingClientRect().right > most).length",
        PHONE["width"],
    )
    assert not wide, f"{what} has {wide} controls beyond the screen"
