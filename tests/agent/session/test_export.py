"""A session can be read, and nothing in it does anything but be read."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.session.records import CALL, HEADER, RESULT, answer, entry, user
from penstock.agent.session.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    FindingEntry,
    Foreign,
    Header,
    LabelEntry,
    ModelEntry,
    TitleEntry,
)
from penstock.agent.session.export import MAX_OPEN, _show, to_html, to_markdown
from penstock.agent.session.tree import Tree
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.request import Image, SystemMessage, UserMessage

EVERYTHING: list[Entry] = [
    ModelEntry(id="m", time=999.0, model="m"),
    entry(1, UserMessage([Text("look"), Image(media_type="image/png", data="AAAA")]), "m"),
    entry(2, CALL),
    entry(3, RESULT),
    entry(4, ToolResult("c2", "read", "no such file", is_error=True)),
    entry(5, answer("half"), kept=False),
    entry(
        6,
        AssistantMessage(
            model="m",
            content=[ToolCall("x", "write", {}, complete=False), Opaque("p", {"o": 1})],
            stop_reason="error",
            error=ErrorInfo("it broke", "transport"),
        ),
    ),
    FindingEntry(id="f", parent="e6", source="rule", names=["quiet"]),
    entry(7, SystemMessage("be quiet"), "f"),
    CompactionEntry(id="k", parent="e7", summary="all of it", first_kept="e7", tokens=1234),
    CustomEntry(id="x", parent="k", name="mine", data=[1, float("nan")]),
    LabelEntry(id="l", parent="x", target="e1", label="begin"),
    Foreign(id="n", parent="l", kind="dream", line=b'{"about":"\xff"}'),
    TitleEntry(id="t", parent="n", title="The title"),
]

FACTS = [
    "The title", "s1", "/home/me", "look", "image image/png", "hm", "read", '"path": "a\\nb"', "ä",
    "no such file", "not in the context", "write (cut off)", '"o": 1', "it broke", "transport",
    "quiet", "be quiet", "all of it", "1,234 tokens before", "mine", "begin", "dream",
    "7 in, 8 out", "1970-01-01 00:16:40 UTC", "ended: error",
]  # fmt: skip


class Page(HTMLParser):
    """What a browser makes of a page: tags that are there, and text that is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.shown: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.shown.append(data)

    @property
    def text(self) -> str:
        return "".join(self.shown)


TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "dl", "dt", "dd", "section",
    "small", "pre", "details", "summary", "p",
}  # fmt: skip


def fences(page: str) -> tuple[list[str], str]:
    """Read Markdown as CommonMark does: what is in fences, and what is outside of them."""
    inside: list[list[str]] = []
    outside: list[str] = []
    fence = ""
    for line in page.split("\n"):
        mark = re.fullmatch(r" {0,3}(`{3,})(json)?[ \t]*", line)
        if not fence and mark:
            fence = mark[1]
            inside.append([])
        elif fence and mark and len(mark[1]) >= len(fence) and not mark[2]:
            fence = ""
        else:
            (inside[-1] if fence else outside).append(line)
    assert not fence
    return ["\n".join(lines) for lines in inside], "\n".join(outside)


@pytest.mark.parametrize("write", [to_markdown, to_html], ids=["markdown", "html"])
def test_everything_is_told(write: object) -> None:
    page = write(HEADER, Tree(EVERYTHING))  # type: ignore[operator]
    text = Page(page).text if write is to_html else page
    for fact in FACTS:
        assert fact in text


def test_thinking_is_folded() -> None:
    tree = Tree([entry(1, AssistantMessage(content=[Thinking("deep"), Text("said")]))])
    assert "<details><summary>Thinking</summary>\n\n```\ndeep\n```\n\n</details>" in to_markdown(
        HEADER, tree
    )
    assert '<details><summary>Thinking</summary><pre class="thinking">deep</pre></details>' in (
        to_html(HEADER, tree)
    )


def test_long_results_are_folded() -> None:
    tree = Tree([entry(1, ToolResult("c", "t", "x" * (MAX_OPEN + 1)))])
    assert "<details><summary>Result of t</summary>" in to_html(HEADER, tree)


def test_the_way_to_a_leaf_leaves_other_ways_out() -> None:
    said = [entry(1, user("trunk")), entry(2, answer("eins")), entry(3, answer("zwei"), 1)]
    tree = Tree([*said, LabelEntry(id="l", parent="e2", target="e2", label="first")])
    for write in (to_markdown, to_html):
        assert "zwei" not in write(HEADER, tree)
        assert "eins" not in write(HEADER, tree, leaf="e3")
        whole = write(HEADER, tree, leaf="e3", whole=True)
        for word in ("trunk", "eins", "zwei", "Branch after e1 (first)"):
            assert whole.count(word) == 1


def test_ways_that_have_nothing_in_common_are_told_too() -> None:
    tree = Tree([entry(1, user("one")), entry(2, user("two"), "")])
    assert "Branch from the beginning" in to_markdown(None, tree, whole=True)


def test_what_has_no_json_form_is_told_as_python_has_it() -> None:
    tree = Tree([CustomEntry(id="x", name="n", data=object())])
    assert "<object object at" in to_markdown(None, tree)


def test_a_session_without_anything_is_a_page_too() -> None:
    assert to_markdown(None, Tree()).startswith("# Session\n")
    assert Page(to_html(None, Tree())).tags <= TAGS


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details><h1>me</h1>",
    "```\nout\n````\n# heading\n~~~\n",
    "``` json\n```",
    "\u202egnihtyna\u2066",
    "\x1b[2Jgone\r\x00\x9b",
    "[x](javascript:alert(1)) ![y](http://127.0.0.1/z)",
    "</style><style>*{}",
    "&lt;&amp;",
    "\ud800 half",
    "</title><title>",
]


def hostile(text: str) -> Tree:
    """Say *text* wherever something can be said."""
    message = AssistantMessage(
        model=text,
        content=[
            Text(text),
            Thinking(text),
            ToolCall(text, text, {text: text}),
            Opaque(text, text),
        ],
        stop_reason="error",
        error=ErrorInfo(text),
    )
    items: list[Entry] = [
        entry(1, UserMessage([Text(text), Image(text, text, text)])),
        entry(2, message),
        entry(3, ToolResult(text, text, text)),
        entry(4, SystemMessage(text)),
        CompactionEntry(id="k", parent="e4", summary=text),
        FindingEntry(id="f", parent="k", source=text, names=[text]),
        LabelEntry(id="l", parent="f", target=text, label=text),
        CustomEntry(id="c", parent="l", name=text, data=text),
        Foreign(id="n", parent="c", kind=text, line=text.encode("utf-8", "replace")),
        ModelEntry(id="m", parent="n", model=text),
        TitleEntry(id="t", parent="m", title=text),
        ModelEntry(id=text or "-", parent="t", model=text),
    ]
    return Tree([*items, entry(9, user(text), 1)])


@settings(max_examples=50)
@given(
    st.one_of(
        st.sampled_from(HOSTILE), st.text(alphabet="`~<>&\"'\n\r\t -#[]()!x\u202e\0", max_size=30)
    )
)
def test_hostile_text_stays_text(text: str) -> None:
    header = Header(version=1, id=text, cwd=text, title=text, parent=text, created=1e300)
    tree = hostile(text)
    page = to_html(header, tree, whole=True)
    page.encode()
    found = Page(page)
    assert found.tags <= TAGS
    assert found.attributes <= {"class", "id", "lang", "charset", "content", "name", "http-equiv"}
    assert not found.open
    assert found.shown.count(_show(text)) >= 4 or not text

    markdown = to_markdown(header, tree, whole=True)
    markdown.encode()
    inside, outside = fences(markdown)
    assert inside.count(_show(text)) >= 6
    # What is left are our own words, and spans of code on one line.
    plain = re.sub(r"(?<!`)(`+)(?!`)(?:.*?[^`])\1(?!`)", "", outside)
    plain = plain.replace("<details><summary>Thinking</summary>", "").replace("</details>", "")
    assert not set(plain) & set("<>&[]()!`~\u202e\0\r\x1b")


@settings(max_examples=50)
@given(st.text())
def test_no_character_acts(text: str) -> None:
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", _show(text))
    assert _show("plain\ttext\nä 漢 🙂") == "plain\ttext\nä 漢 🙂"
