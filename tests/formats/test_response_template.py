"""Hugging Face's `response_template`: formats from templates, and templates from formats."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_chunk_free, check_lossless
from penstock import formats
from penstock.errors import UsageError
from penstock.events import ToolCallDelta
from penstock.formats.registry import BUILT_IN
from penstock.formats.response_template import TemplateCalls, read_whole
from penstock.formats.template_fields import load_template, read_pattern
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Arguments
from penstock.tools import read_tools

TOOLS: Any = [
    {
        "name": "tide_at",
        "parameters": {
            "type": "object",
            "properties": {
                "port": {"type": "string"},
                "hours": {"type": "integer"},
                "ports": {"type": "array"},
            },
        },
    },
    {"name": "b", "parameters": {"type": "object", "properties": {}}},
]
JSON_IN_TAGS: Any = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|bot|>\n",
    "fields": {
        "thinking": {"open": "<muse>", "close": "</muse>"},
        "tool_calls": {
            "open": "<<call>>",
            "close": "<</call>>",
            "repeats": True,
            "content": "json",
            "transform": {
                "type": "function",
                "function": {"name": "{content.fn}", "arguments": "{content.with}"},
            },
        },
        "content": {"close": "<|stop|>"},
    },
}
ELEMENTS: Any = {
    "start_anchor_pattern": "<\\|bot\\|>\\n?",
    "fields": {
        "tool_calls": {
            "open_pattern": "<do (?P<name>[\\w.]+)>",
            "close": "</do>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": "<(?P<key>\\w+)>(?P<value>.*?)</(?P=key)>",
                "merge_duplicates": True,
            },
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{content}"},
            },
        },
        "content": {},
    },
}
LIST: Any = {
    "start_anchor": "<|bot|>",
    "fields": {
        "tool_calls": {
            "open": "[[CALLS]]",
            "close": "[[END]]",
            "content": "json",
            "content_args": {"unquoted_keys": True, "string_delims": [["~", "~"]]},
            "transform": {
                "type": "function",
                "function": {"name": "{tool}", "arguments": "{args}"},
            },
            "transform_each": True,
        },
        "content": {},
    },
}
NAMED: Any = {
    "start_anchor": "A",
    "fields": {
        "tool_calls": {
            "open_pattern": "@call (?P<name>\\w+) with ",
            "close_pattern": "@end\\s*",
            "repeats": True,
            "content": "json",
            "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {},
    },
}


def said(message: AssistantMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize(
    ("template", "text", "calls", "content"),
    [
        (
            JSON_IN_TAGS,
            '<muse>m</muse>Ok. <<call>>{"fn":"tide_at","with":{"hours": "6"}}<</call>> x<|stop|>',
            [("tide_at", {"hours": 6})],
            "Ok.  x",
        ),
        (
            JSON_IN_TAGS,
            '<<call>>{"fn": "tide_at", "with": {"port": "a <</call>> b"}}<</call>>',
            [("tide_at", {"port": "a <</call>> b"})],
            "",
        ),
        (
            ELEMENTS,
            "Go <do tide_at><port>Leith</port><hours>6</hours></do> ok",
            [("tide_at", {"port": "Leith", "hours": 6})],
            "Go  ok",
        ),
        (
            ELEMENTS,
            "<do tide_at><ports>a</ports><ports>b</ports></do>",
            [("tide_at", {"ports": ["a", "b"]})],
            "",
        ),
        (
            LIST,
            'Hi [[CALLS]][{tool:~tide_at~,args:{port:~Le"ith~,hours:6}},{tool:~b~,args:{}}]',
            [("tide_at", {"port": 'Le"ith', "hours": 6}), ("b", {})],
            "Hi ",
        ),
        (
            NAMED,
            'x @call tide_at with {"port": "@end"}@end y',
            [("tide_at", {"port": "@end"})],
            "x  y",
        ),
    ],
)
def test_a_template_reads_what_it_says(template: Any, text: str, calls: Any, content: str) -> None:
    fmt = formats.from_response_template(template)
    message = fmt.parse(text, TOOLS)
    assert said(message) == calls
    assert message.text.split() == content.split()
    for arguments in ("whole", "live"):
        make = lambda mode=arguments: fmt.parser(TOOLS, arguments=mode)  # noqa: E731
        check_chunk_free(make, text)
        check_lossless(make, text)


def test_the_prompt_may_open_the_reasoning() -> None:
    fmt = formats.from_response_template(JSON_IN_TAGS)
    parser = fmt.parser(TOOLS, prompt_suffix="<|bot|>\n<muse>")
    events = [*parser.feed("need it</muse>Ok."), *parser.finish(cut=False)]
    assert [event.type for event in events if event.type.endswith("_end")] == [
        "thinking_end",
        "text_end",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<do tide_at><port>Leith</po",
        "<do tide_at",
        "<do tide at><port>x</port></do>",
        '<<call>>{"fn": 1}<</call>>',
        '<<call>>{"fn": "tide_at", "with": [1]}<</call>>',
    ],
)
def test_a_broken_region_is_text(text: str) -> None:
    template = ELEMENTS if text.startswith("<do") else JSON_IN_TAGS
    message = formats.from_response_template(template).parse(text, TOOLS)
    assert message.tool_calls == []
    assert message.text == text


def exported() -> list[formats.Format]:
    found = []
    for fmt in BUILT_IN:
        try:
            fmt.response_template(start_anchor="<|bot|>")
        except UsageError:
            continue
        found.append(fmt)
    return found


EXPORTED = exported()


def test_most_formats_have_a_template() -> None:
    names = {fmt.name for fmt in EXPORTED}
    assert len(names) >= 55
    assert names >= {
        *("hermes", "granite4", "longcat", "jamba", "qwen3_coder", "glm45", "seed_oss"),
        *("minimax_m2", "dots", "kimi_k2", "deepseek_v3", "deepseek_v31", "mistral_args"),
        *("harmony", "gemma4", "functiongemma", "cohere_command"),
        *("beam", "inkling", "muse_glimmer", "solar_open", "sentinel", "command_r_plus"),
        *("granite", "granite_20b_fc", "gigachat3", "mistral_array", "phi4_mini_json"),
    }


@pytest.mark.parametrize("fmt", EXPORTED, ids=lambda fmt: fmt.name)
def test_a_format_comes_back_from_its_template(fmt: formats.Format) -> None:
    """The reader of the template reads what the format writes, and its arguments stream."""
    reader = formats.from_response_template(fmt.response_template(start_anchor="<|bot|>"))
    calls = [
        ToolCall("", "tide_at", {"port": "Leith, at the pier", "hours": 6}),
        ToolCall("", "tide_at", {"port": "Oban"}),
    ]
    text = fmt.render_calls(calls)
    assert said(reader.parse(text, TOOLS)) == [(call.name, call.arguments) for call in calls]
    parser = reader.parser(TOOLS, arguments="live")
    events = [event for char in text for event in parser.feed(char)]
    assert sum(isinstance(event, ToolCallDelta) for event in events) > len("Leith, at the pier")


FORMATS = {fmt.name: fmt for fmt in BUILT_IN}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "harmony",
            "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>final<|message|>Calm.<|return|>",
        ),
        (
            "beam",
            "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>final<|message|>Calm.<|return|>",
        ),
        (
            "inkling",
            "<|content_thinking|>Look.<|end_message|><|message_model|><|content_text|>Calm.<|end_message|>",
        ),
        (
            "muse_glimmer",
            "to=self<|message|>Look.<|eom|><|start|>assistant to=user<|message|>Calm.<|eot|>",
        ),
        ("solar_open", "<|think|>Look.<|end|><|begin|>assistant<|content|>Calm.<|end|>"),
    ],
)
def test_a_template_of_messages_has_text_and_reasoning_as_messages(name: str, text: str) -> None:
    template = load_template(FORMATS[name].response_template(start_anchor="<|bot|>"))
    bodies = {region.field: region.body for region in template.read(text) if region.body.strip()}
    assert bodies["thinking"] == "Look."
    assert bodies["content"] == "Calm."


@pytest.mark.parametrize("name", ["beam", "harmony", "inkling", "muse_glimmer", "solar_open"])
def test_a_template_of_messages_becomes_its_format(name: str) -> None:
    fmt = FORMATS[name]
    reader = formats.from_response_template(fmt.response_template(start_anchor="<|bot|>"))
    assert reader.calls == fmt.calls


@pytest.mark.parametrize("end", ["", "</s>", "<|end_of_text|>", "<|eot_id|>"])
def test_the_end_of_the_turn_ends_calls_without_an_end_marker(end: str) -> None:
    call = ToolCall("", "tide_at", {"port": "Leith", "hours": 6})
    for name in ("mistral_array", "granite", "granite_20b_fc", "gigachat3", "phi4_mini_json"):
        fmt = FORMATS[name]
        template = load_template(fmt.response_template(start_anchor="<|bot|>"))
        field = template.field("tool_calls")
        assert field is not None
        calls = read_whole(template, field, fmt.render_call(call) + end, read_tools(TOOLS))
        assert calls == [(call.name, call.arguments)]


BAD: Any = {
    "no object": [],
    "another version": {**ELEMENTS, "version": 2},
    "no anchor": {"fields": ELEMENTS["fields"]},
    "two anchors": {**ELEMENTS, "start_anchor": "x"},
    "an unknown key": {**ELEMENTS, "more": 1},
    "no fields": {**ELEMENTS, "fields": {}},
    "defaults": {**ELEMENTS, "defaults": 1},
    "two implicit fields": {"start_anchor": "x", "fields": {"a": {}, "b": {}}},
    "an unknown content": {"start_anchor": "x", "fields": {"a": {"content": "yaml"}}},
    "an empty literal": {"start_anchor": "x", "fields": {"a": {"open": ""}}},
    "a bad pattern": {"start_anchor": "x", "fields": {"a": {"open_pattern": "("}}},
    "join alone": {"start_anchor": "x", "fields": {"a": {"join": ","}}},
    "each alone": {"start_anchor": "x", "fields": {"a": {"transform_each": True}}},
    "a mixed placeholder": {"start_anchor": "x", "fields": {"a": {"transform": "x {content}"}}},
    "groups alone": {"start_anchor": "x", "fields": {"a": {"open_pattern": "(?P<n>x)"}}},
    "a field that is none": {"start_anchor": "x", "fields": {"a": 1}},
    "an unknown key of a field": {"start_anchor": "x", "fields": {"a": {"colour": 1}}},
}


@pytest.mark.parametrize("template", BAD.values(), ids=BAD)
def test_a_template_that_transformers_refuses_is_refused(template: Any) -> None:
    with pytest.raises(UsageError):
        formats.from_response_template(template)


def test_a_pattern_that_may_take_exponential_time_is_never_run() -> None:
    field = {**ELEMENTS["fields"]["tool_calls"], "open_pattern": "<do (?P<name>(?:a|a+)+)>"}
    with pytest.raises(UsageError, match="exponential"):
        formats.from_response_template({**ELEMENTS, "fields": {"tool_calls": field, "content": {}}})


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=9), st.lists, max_leaves=4))
@settings(max_examples=50)
def test_any_json_is_a_template_or_a_usage_error(value: Any) -> None:
    for key in ("start_anchor", "fields", "version", "defaults"):
        with pytest.raises(UsageError):
            load_template({**JSON_IN_TAGS, key: value, "more": value})


@pytest.mark.parametrize(
    ("pattern", "head", "named", "tail"),
    [
        (r"</think>\s*", ("</think>",), False, ()),
        (r"(?:<turn\|>|<eos>)\s*|$", ("<turn|>", "<eos>"), False, ()),
        (r"<tool_call>\s*<function=(?P<name>[^\n>]+)>", ("<tool_call><function=",), True, (">",)),
    ],
)
def test_simple_patterns_are_markers(pattern: str, head: Any, named: bool, tail: Any) -> None:  # noqa: FBT001
    shape = read_pattern(pattern)
    assert shape is not None
    assert (shape.head, shape.is_named, shape.tail) == (head, named, tail)


def test_other_patterns_are_not() -> None:
    assert read_pattern(r"(?=[\s\S]*?</think>)") is None
    assert read_pattern(r"\)(?:\]<end>)?\s*") is None


def test_a_model_is_known_by_its_folder(tmp_path: Path) -> None:
    config = {"response_template": JSON_IN_TAGS}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    text = '<<call>>{"fn": "b", "with": {}}<</call>>'
    for model in (config, tmp_path, tmp_path / "tokenizer_config.json"):
        found = formats.for_model(model)
        assert isinstance(found.format, formats.Format)
        assert said(found.format.parse(text, TOOLS)) == [("b", {})]
    chat = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": chat}))
    assert formats.for_model(tmp_path).format == "auto"
    named = formats.for_model({"name_or_path": "Qwen/Qwen3-Coder-30B"})
    assert named.format == "qwen3_coder"


def test_a_folder_without_a_configuration_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tokenizer_config"):
        formats.for_model(tmp_path)
    with pytest.raises(UsageError, match="must be a name"):
        formats.for_model(3)  # type: ignore[arg-type]


def tagged(opener: str, closer: str, tag: str, **more: Any) -> Any:
    """Return a template of calls with a tag for each argument, as no built-in format has them."""
    field = {
        "open_pattern": opener,
        "close": closer,
        "repeats": True,
        "content": "xml-inline",
        "content_args": {"tag_pattern": tag, **more},
        "transform": {
            "type": "function",
            "function": {"name": "{name}", "arguments": "{content}"},
        },
    }
    return {"start_anchor": "<|bot|>", "fields": {"tool_calls": field, "content": {}}}


TAGGED: dict[str, tuple[Any, str]] = {
    "attributes": (
        tagged(
            r"<do (?P<name>[\w.]+)>",
            "</do>",
            r'<arg name="(?P<key>\w+)">(?P<value>.*?)</arg>',
        ),
        '<do tide_at><arg name="port">LEITH</arg><arg name="hours">6</arg></do>',
    ),
    "equals signs, stripped by the pattern": (
        tagged(
            r"<act=(?P<name>[^>]+)>",
            "</act>",
            r"<put=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</put>",
        ),
        "<act=tide_at>\n<put=port>\nLEITH\n</put>\n<put=hours>6</put>\n</act>",
    ),
    "key and value apart, stripped by the parser": (
        tagged(
            r"<act>(?P<name>[^<\s]+)",
            "</act>",
            r"<k>(?P<key>[^<]+)</k>\s*<v>(?P<value>.*?)</v>",
            value_parser={"name": "text"},
        ),
        "<act>tide_at<k>port</k>\n<v> LEITH </v><k>hours</k><v>6</v></act>",
    ),
    "values on their own lines": (
        tagged(
            r'<call to="(?P<name>[^"]+)">',
            "</call>",
            '<rfl name="(?P<key>[^"]+)">\n(?P<value>.*?)\n</rfl>',
        ),
        '<call to="tide_at"><rfl name="port">\nLEITH\n</rfl><rfl name="hours">\n6\n</rfl></call>',
    ),
}


@pytest.mark.parametrize("port", ["Leith", "a < b\n  <b>c</b> & d", "two  words"])
@pytest.mark.parametrize(("template", "text"), TAGGED.values(), ids=TAGGED)
def test_tagged_calls_of_a_template_stream(template: Any, text: str, port: str) -> None:
    fmt = formats.from_response_template(template)
    written = f"Go {text.replace('LEITH', port)} ok"
    message = fmt.parse(written, TOOLS)
    expected = [("tide_at", {"port": port, "hours": 6})]
    assert [(call.name, call.arguments) for call in message.tool_calls] == expected
    assert message.text == "Go  ok"
    parser = fmt.parser(TOOLS, arguments="live")
    events = [event for char in written for event in parser.feed(char)]
    assert sum(isinstance(event, ToolCallDelta) for event in events) > len(port) / 2
    modes: tuple[Arguments, ...] = ("whole", "live")
    for arguments in modes:
        make = partial(fmt.parser, TOOLS, arguments=arguments)
        check_lossless(make, written)
        check_chunk_free(make, written)


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(ELEMENTS, id="elements named by their key"),
        pytest.param(
            tagged(r"<do (?P<name>\w+)>", "</do>", r"<a>(?P<key>\w+)=(?P<value>\w+)|x</a>"),
            id="an alternative",
        ),
        pytest.param(
            tagged(
                r"<do (?P<name>\w+)>",
                "</do>",
                r'<arg name="(?P<key>\w+)">(?P<value>.*?)</arg>',
                value_parser={"name": "json"},
            ),
            id="values in JSON",
        ),
    ],
)
def test_other_tags_are_read_region_by_region(template: Any) -> None:
    fmt = formats.from_response_template(template)
    assert isinstance(fmt.calls, TemplateCalls)
