"""The adapter by itself, the syntaxes of segment types, and events on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.tools import Tool
from penstock.views.segments import (
    SEGMENT_TYPES,
    Adapter,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
    ToolInvocation,
    ToolSyntax,
    find_syntax,
    from_dict,
    register_syntax,
    unregister_syntax,
)
from views.segment_samples import TYPED


def segment(
    kind: str, content: str, metadata: dict[str, Any], late: dict[str, Any] | None = None
) -> list[SegmentEvent]:
    return [
        SegmentStart("s", kind, metadata),
        SegmentContent("s", content[:3]),
        SegmentContent("s", content[3:]),
        SegmentEnd("s", late or {}),
    ]


def invoked(events: list[SegmentEvent], **options: Any) -> list[tuple[str, dict[str, Any]]]:
    adapter = Adapter([Tool("add"), TYPED], **options)
    made = [invocation for event in events for invocation in adapter.add(event)]
    assert all(invocation.id.startswith("s") for invocation in made)
    return [(invocation.name, invocation.arguments) for invocation in made]


READ = [
    pytest.param(
        segment("write_file", "text", {"path": "p"}),
        [("write_file", {"path": "p", "content": "text"})],
        id="a file is a path and its content",
    ),
    pytest.param(
        segment("write_file", "text", {}, {"path": "p"}),
        [("write_file", {"path": "p", "content": "text"})],
        id="the path may come with the end",
    ),
    pytest.param(segment("write_file", "text", {}), [], id="a file without a path is not written"),
    pytest.param(
        segment("edit_file", "@@", {"path": "p"}),
        [("edit_file", {"path": "p", "patch": "@@"})],
        id="an edit is a path and its patch",
    ),
    pytest.param(
        segment("run_bash", "ls", {"background": True, "timeoutSeconds": 4}),
        [("run_bash", {"command": "ls", "background": True, "timeout_seconds": 4})],
        id="a command has its options in the metadata",
    ),
    pytest.param(
        segment("run_bash", "", {"cmd": "ls"}),
        [("run_bash", {"command": "ls"})],
        id="a command may stand in the metadata",
    ),
    pytest.param(segment("run_bash", "", {}), [], id="no command is not run"),
    pytest.param(
        segment("tool_call", '{"a": 1}', {"tool_name": "add", "arguments": {"b": 2}}),
        [("add", {"b": 2})],
        id="arguments in the metadata go before the content",
    ),
    pytest.param(
        segment("tool_call", "", {"tool_name": "add", "arguments": {}}, {"arguments": {"b": 2}}),
        [("add", {})],
        id="those of the start go before those of the end",
    ),
    pytest.param(
        segment("tool_call", '{"a": 1}', {"tool_name": "add"}, {"arguments": {"b": 2}}),
        [("add", {"b": 2})],
        id="those of the end go before the content",
    ),
    pytest.param(
        segment("tool_call", ' {"a": [1]}', {"tool_name": "add"}),
        [("add", {"a": [1]})],
        id="content may be JSON",
    ),
    pytest.param(
        segment("tool_call", "<arg name='a'> 1 </arg><b>2</b>", {"tool_name": "ADD"}),
        [("add", {"a": "1", "b": "2"})],
        id="content may be tags, and a name is known in any case",
    ),
    pytest.param(
        segment("tool_call", '{"seats": "2"}', {"tool_name": "book"}),
        [("book", {"seats": 2})],
        id="arguments are made what the tool wants",
    ),
    pytest.param(
        segment("tool_call", '{"tool": {"function": "add", "parameters": {"a": 1}}}', {}),
        [("add", {"a": 1})],
        id="the name may stand in the content",
    ),
    pytest.param(
        segment("tool_call", '{"name": "add", "arguments": {"seats": 3}}', {"tool_name": "book"}),
        [("book", {"seats": 3})],
        id="a name in the metadata goes before one in the content",
    ),
    pytest.param(segment("tool_call", "<a>1</a>", {}), [], id="nobody is called without a name"),
    pytest.param(segment("text", "<a>1</a>", {}), [], id="text calls nobody"),
    pytest.param(segment("reasoning", "{}", {}), [], id="a thought calls nobody"),
    pytest.param(
        segment("write_file", "te", {"path": "p"}, {"incomplete": True}),
        [],
        id="what was cut is not run",
    ),
]


@pytest.mark.parametrize(("events", "expected"), READ)
def test_segments_alone_are_read(
    events: list[SegmentEvent], expected: list[tuple[str, dict[str, Any]]]
) -> None:
    events = [event for event in events if getattr(event, "delta", "x")]
    assert invoked(events) == expected


def test_cut_calls_are_run_for_who_wants_them() -> None:
    events = segment("write_file", "te", {"path": "p"}, {"incomplete": True})
    assert invoked(events, incomplete=True) == [("write_file", {"path": "p", "content": "te"})]


def test_segments_may_be_open_side_by_side() -> None:
    adapter = Adapter()
    events: list[SegmentEvent] = [
        SegmentStart("a", "run_bash"),
        SegmentStart("b", "run_bash"),
        SegmentContent("b", "two"),
        SegmentContent("a", "one"),
        SegmentEnd("b"),
        SegmentEnd("a"),
    ]
    made = [invocation for event in events for invocation in adapter.add(event)]
    assert [(one.id, one.arguments["command"]) for one in made] == [("b", "two"), ("a", "one")]


def test_segments_that_nobody_started_mean_nothing() -> None:
    adapter = Adapter()
    adapter.add(SegmentStart("a", "run_bash"))
    adapter.add(SegmentContent("a", "ls"))
    adapter.reset()
    assert adapter.add(SegmentContent("a", "ls")) == []
    assert adapter.add(SegmentEnd("a")) == []


@pytest.mark.parametrize(
    "fields", [("", "add", {}), ("s", "", {}), ("s", "add", None)], ids=["id", "name", "arguments"]
)
def test_an_invocation_needs_all_it_is_made_of(fields: tuple[str, str, Any]) -> None:
    with pytest.raises(UsageError):
        ToolInvocation(*fields)


# --- syntaxes ---


def test_a_type_of_ones_own_may_stand_for_a_tool() -> None:
    syntax = ToolSyntax("sql", "query", "statement", ("database",), ("statement",))
    register_syntax(syntax)
    try:
        assert find_syntax("sql") == syntax
        assert invoked(segment("sql", "select 1", {"database": "d", "x": 1})) == [
            ("query", {"statement": "select 1", "database": "d"})
        ]
        assert invoked([SegmentStart("s", "sql"), SegmentEnd("s")]) == []
    finally:
        unregister_syntax("sql")
    assert find_syntax("sql") is None


def test_the_types_of_penstock_stay_what_they_are() -> None:
    for kind in SEGMENT_TYPES:
        with pytest.raises(UsageError):
            register_syntax(ToolSyntax(kind, "query", "statement"))
        unregister_syntax(kind)
    assert [kind for kind in SEGMENT_TYPES if find_syntax(kind)] == [
        "write_file",
        "edit_file",
        "run_bash",
    ]
    with pytest.raises(UsageError):
        register_syntax(ToolSyntax("sql", "", "statement"))


# --- the wire ---


@pytest.mark.parametrize(
    "event",
    [
        SegmentStart("s", "text"),
        SegmentStart("s", "write_file", {"path": "p"}),
        SegmentContent("s", "x"),
        SegmentEnd("s"),
        SegmentEnd("s", {"incomplete": True}),
    ],
)
def test_an_event_reads_back_equal(event: SegmentEvent) -> None:
    data = event.as_dict()
    assert from_dict(data) == event
    enveloped = {"event_type": data["type"], **data, "type": "SEGMENT_EVENT"}
    assert from_dict(enveloped) == event
    assert ("segment_type" in data) == isinstance(event, SegmentStart)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "SEGMENT_START"},
        {"type": "SEGMENT_START", "segment_id": ""},
        {"segment_id": "s"},
        {"type": "SEGMENT_PAUSE", "segment_id": "s"},
    ],
)
def test_what_is_no_event_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        from_dict(data)
