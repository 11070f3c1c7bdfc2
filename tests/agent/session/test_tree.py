"""Every entry has a place, whatever the record looks like, and the model is shown what it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from agent.session.records import CALL, answer, entry, talk, texts, user
from penstock.agent.session.entries import (
    CompactionEntry,
    Entry,
    FindingEntry,
    Foreign,
    LabelEntry,
    TitleEntry,
)
from penstock.agent.session.tree import (
    Tree,
    find_context,
    find_fired_rules,
    list_context,
    sum_entry_usage,
)
from penstock.agent.summarize import make_summary_message
from penstock.messages import AssistantMessage


def said(tree: Tree, leaf: str = "") -> list[str]:
    return texts(list_context(tree.path(leaf or tree.last)))


def test_a_path_goes_from_the_first_entry_to_the_leaf() -> None:
    entries = [*talk("a", "b", "c"), entry(4, answer("x"), 1)]
    tree = Tree(entries)
    assert tree.path("e3") == entries[:3]
    assert tree.path("e4") == [entries[0], entries[3]]
    assert tree.path("e9") == tree.path("") == []
    assert (tree.last, tree.messages) == ("e4", 4)


def test_nothing_is_a_tree_too() -> None:
    tree = Tree()
    assert (tree.last, tree.entries, tree.branches(), tree.path("")) == ("", [], [], [])


def test_a_message_that_was_not_kept_is_not_shown_again() -> None:
    tree = Tree([*talk("a"), entry(2, answer("bad"), kept=False), entry(3, answer("good"))])
    assert said(tree) == ["a", "good"]


def test_a_compaction_shows_its_summary_what_it_kept_and_what_came_later() -> None:
    entries = talk("a", "b", "c", "d")
    cut = CompactionEntry(id="k", parent="e4", summary="a and b", first_kept="e3")
    tree = Tree([*entries, cut, entry(5, user("e"), "k")])
    found = find_context(tree.path("e5"))
    assert [id_ for id_, _ in found] == ["k", "e3", "e4", "e5"]
    assert texts([message for _, message in found[1:]]) == ["c", "d", "e"]
    assert found[0][1] == make_summary_message("a and b")
    assert said(tree, "e4") == ["a", "b", "c", "d"]  # a way without it


def test_kept_answers_have_lost_their_usage_for_it_counted_what_is_gone() -> None:
    cut = CompactionEntry(id="k", parent="e2", summary="s", first_kept="e1")
    tree = Tree([*talk("a", "b"), cut, entry(3, answer("c"), "k")])
    answers = [m for m in list_context(tree.path("e3")) if isinstance(m, AssistantMessage)]
    assert [message.usage.output for message in answers] == [0, 5]
    assert sum_entry_usage(tree.entries).output == 10  # they were paid for all the same


def test_the_last_of_several_compactions_counts() -> None:
    first = CompactionEntry(id="k1", parent="e2", summary="one", first_kept="e2")
    second = CompactionEntry(id="k2", parent="e4", summary="two", first_kept="e3")
    tree = Tree([*talk("a", "b"), first, entry(3, user("c"), "k1"), entry(4, answer("d")), second])
    assert list_context(tree.path("k2"))[0] == make_summary_message("two")
    assert said(tree)[1:] == ["c", "d"]


def test_a_compaction_that_kept_nothing_or_what_is_lost_shows_its_summary() -> None:
    for first_kept in ("", "lost"):
        cut = CompactionEntry(id="k", parent="e2", summary="s", first_kept=first_kept)
        assert list_context(Tree([*talk("a", "b"), cut]).path("k")) == [make_summary_message("s")]


def test_an_entry_whose_parent_is_lost_goes_on_behind_the_one_written_before() -> None:
    entries = talk("a", "b", "c", "d")
    assert said(Tree([*entries[:1], *entries[2:]])) == ["a", "c", "d"]


def test_an_entry_without_a_parent_begins_anew() -> None:
    tree = Tree([*talk("a", "b"), entry(3, user("c"), "")])
    assert said(tree) == ["c"]


def test_rings_and_parents_that_come_later_are_hung_where_they_were_written() -> None:
    entries = [entry(1, user("a"), 2), entry(2, answer("b"), 1), entry(3, user("c"), 3)]
    tree = Tree(entries)
    assert said(tree) == ["a", "b", "c"]


def test_the_same_line_twice_is_one_entry() -> None:
    entries = talk("a", "b")
    tree = Tree([*entries, *entries, entry(3, user("c"))])
    assert (said(tree), len(tree.entries), tree.messages) == (["a", "b", "c"], 3, 3)


def test_two_entries_of_one_id_are_both_there() -> None:
    entries = talk("a", "b")
    other = structs.replace(entry(2, answer("other")), parent="e2")
    tree = Tree([*entries, other, entry(3, user("c"), "e2")])
    assert said(tree) == ["a", "b", "other", "c"]
    assert [item.id for item in tree.entries] == ["e1", "e2", "e2~2", "e3"]


def test_what_is_foreign_links_what_is_not() -> None:
    strange = Foreign(id="n", parent="e1", kind="dream", line=b"{}")
    assert said(Tree([*talk("a"), strange, entry(2, answer("b"), "n")])) == ["a", "b"]


def test_branches_say_where_they_begin_and_what_they_are_called() -> None:
    tree = Tree([
        *talk("a", "b", "c", "d"),
        entry(5, user("again"), 2),
        entry(6, answer("f")),
        LabelEntry(id="l1", parent="e6", target="e5", label="second try"),
        LabelEntry(id="l2", parent="l1", target="e1", label="gone"),
        LabelEntry(id="l3", parent="l2", target="e1"),
    ])  # fmt: skip
    first, second = tree.branches()
    assert (first.leaf, first.start, first.messages, first.prompt) == ("e4", "e1", 4, "c")
    assert (second.leaf, second.start, second.messages) == ("l3", "e5", 4)
    assert (first.label, second.label, second.prompt) == ("", "second try", "again")


def test_the_title_is_the_one_given_last_on_any_branch() -> None:
    titles = [TitleEntry(id="t1", parent="e1", title="x"), TitleEntry(id="t2", title="y")]
    tree = Tree([*talk("a"), *titles, entry(2, answer("b"), 1)])
    assert tree.title == "y"


def test_rules_that_have_spoken_on_the_way_are_named_once() -> None:
    found = [
        FindingEntry(id="f1", parent="e1", source="rule", names=["x", "y"]),
        FindingEntry(id="f2", parent="f1", source="guard", names=["edit"]),
        FindingEntry(id="f3", parent="f2", source="rule", names=["y", "z"]),
        FindingEntry(id="f4", parent="e1", source="rule", names=["elsewhere"]),
    ]
    tree = Tree([*talk("a"), *found])
    assert find_fired_rules(tree.path("f3")) == ["x", "y", "z"]


def test_usage_counts_every_branch_and_what_was_not_kept() -> None:
    tree = Tree([entry(1, CALL), entry(2, answer("x", 4), 1), entry(3, answer("y"), 1, kept=False)])
    assert sum_entry_usage(tree.entries).output == 3 + 4 + 5
    assert sum_entry_usage(tree.path("e2")).output == 7


NAMES = st.sampled_from(["", "a", "b", "c", "d"])
ENTRIES = st.builds(
    lambda id_, parent, text, kind: (
        CompactionEntry(id=id_, parent=parent, summary=text, first_kept=text)
        if kind == 0
        else structs.replace(entry(1, user(text)), id=id_, parent=parent)
    ),
    st.sampled_from("abcd"),
    NAMES,
    st.sampled_from("abcd"),
    st.integers(0, 3),
)


@settings(max_examples=60)
@given(st.lists(ENTRIES, max_size=12))
def test_any_entries_make_a_tree_in_which_each_can_be_found(entries: list[Entry]) -> None:
    tree = Tree(entries)
    assert len(tree.entries) == len({item.id for item in tree.entries}) == len(distinct(entries))
    on_ways = {item.id for branch in tree.branches() for item in tree.path(branch.leaf)}
    assert on_ways == {item.id for item in tree.entries}
    for item in tree.entries:
        path = tree.path(item.id)
        assert path[-1] == item
        list_context(path)


def distinct(entries: list[Entry]) -> list[Entry]:
    """Leave out entries that say again what the first entry of their id said."""
    first: dict[str, Entry] = {}
    return [
        item
        for item in entries
        if first.setdefault(item.id, item) is item or first[item.id] != item
    ]
