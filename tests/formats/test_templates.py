"""A chat template tells what its model writes, and a hostile one does no harm."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import formats
from penstock.errors import UsageError
from penstock.formats import Format, ModelFormat, from_template
from penstock.messages import ToolCall
from penstock.parsing import Reasoning

HERE = Path(__file__).parent / "templates"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def read(name: str, **options: object) -> ModelFormat:
    source = (HERE / f"{name}.jinja").read_text()
    return from_template(source, **TOKENS, **options)  # type: ignore[arg-type]


FOUND = {
    "hermes": ("qwen25", ""),
    "qwen3_thinking": ("qwen25", "<think>\n"),
    "qwen3_coder": ("qwen3_coder", ""),
    "llama31": ("llama3_json", ""),
    "mistral_array": ("mistral_array", ""),
    "mistral_args": ("mistral_args", ""),
    "deepseek_v3": ("deepseek_v3", ""),
    "deepseek_v31": ("deepseek_v31", ""),
    "glm45": ("glm45", ""),
    "glm47": ("glm47", "<think>"),
    "kimi_k2": ("kimi_k2", ""),
    "kimi_k3": (
        "kimi_k3",
        '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
    ),
    "granite": ("granite", ""),
    "granite_told": ("granite", ""),
    "gemma4": ("gemma4", "<|channel>thought\n<channel|>"),
    "lfm2": ("lfm2", ""),
    "harmony": ("harmony", "<|start|>assistant"),
    "minimax_m2": ("minimax_m2", "<think>\n"),
    "command_r7b": ("command_r7b", ""),
    "chatml": ("auto", ""),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_template_in_the_manner_of_a_model_tells_its_format(name: str) -> None:
    found = read(name)
    assert (found.format, found.prompt_suffix) == FOUND[name]
    assert found.reasoning is None  # The format's own way is the template's.


@pytest.mark.parametrize("name", ["qwen3_thinking", "glm47", "kimi_k3", "minimax_m2"])
def test_a_prompt_that_opens_a_thought_says_so(name: str) -> None:
    assert read(name).opens_in_reasoning


@pytest.mark.parametrize("name", ["hermes", "glm45", "gemma4", "harmony", "kimi_k2"])
def test_a_prompt_that_opens_none_says_so_too(name: str) -> None:
    assert not read(name).opens_in_reasoning


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("qwen3_thinking", "<think>\n", "<think>\n\n</think>\n\n"),
        ("deepseek_v31", "<think>", ""),
        ("glm45", "", "<think></think>"),
        ("glm47", "<think>", ""),
    ],
)
def test_thinking_is_switched_on_and_off(name: str, on: str, off: str) -> None:
    assert read(name, thinking=True).prompt_suffix == on
    switched_off = read(name, thinking=False)
    assert switched_off.prompt_suffix == off
    assert not switched_off.opens_in_reasoning


def test_json_between_markers_that_nobody_knows_becomes_a_format() -> None:
    found = read("own_markers")
    assert isinstance(found.format, Format)
    assert isinstance(found.reasoning, Reasoning)
    assert found.opens_in_reasoning
    parser = found.parser()
    text = 'what now? (ah)Well: <<DO>> {"name": "ls", "arguments": {"path": "."}} <<DONE>>'
    message = found.format.parse("Well: " + text.partition("Well: ")[2])
    assert message.tool_calls == [ToolCall("call_1", "ls", {"path": "."})]
    events = [*parser.feed(text), *parser.finish()]
    assert [getattr(event, "call", None) for event in events][-1] == message.tool_calls[0]
    assert "what now?" in repr(events[1])


def test_methods_of_text_work_whatever_it_holds() -> None:
    source = (HERE / "hermes.jinja").read_text()
    words = "{% set words = '{ 12345 { %*'.split(' ') | join('{{') %}{{ '{:4}'.format('x') }}"
    assert from_template(words + source).format == "qwen25"


BROKEN = {
    "no text at all": "",
    "no template": "just words",
    "a tag that is not closed": "{% for message in messages %}",
    "a word that is not there": "{{ missing.thing }}",
    "a refusal": "{{ raise_exception('I do not like this.') }}",
    "a file from elsewhere": "{% include 'other' %}",
    "no messages": "{{ tools | tojson }}",
    "something that is not Jinja": "{% frobnicate %}",
    "too many blocks": "{% if x %}" * 500,
    "deep brackets": "{{" + "(" * 9_999 + ")" * 9_999 + "}}",
    "a call in words that no format has": (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "please run {{ c.function.name }} now{% endfor %}{% endfor %}"
    ),
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN.keys())
def test_a_template_that_does_not_work_leaves_it_to_auto(source: str) -> None:
    assert from_template(source) == ModelFormat("auto")


LOOP = "{% set ns = namespace(x='xy') %}{% for i in range(9999) %}@{% endfor %}"
AGAIN = "{% set x = $ %}{% for i in range(9999) %}{% set y = @ %}{% endfor %}"
TWINS = (
    "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}{% for i in range(40) %}"
    "{% set a.x = [a.x, a.x] %}{% set b.x = [b.x, b.x] %}{% endfor %}{{ @ }}"
)

HOSTILE = {
    "loops in loops": "{% for a in range(9999) %}" * 4 + "{% endfor %}" * 4,
    "a loop that counts far": "{% for a in range(10 ** 12) %}{% endfor %}",
    "a loop that calls itself": "{% for a in [[1]] recursive %}{{ loop(range(9999)) }}{% endfor %}",
    "a macro that calls itself": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "a tree of macros": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "a product": "{{ 'x' * 10 ** 10 }}",
    "a product of lists": "{{ [['x' * 9999] * 9999] * 9999 }}",
    "a power": "{{ 9 ** 9 ** 9 }}",
    "a growing number": LOOP.replace("'xy'", "9").replace("@", "{% set ns.x = ns.x * ns.x %}"),
    "growing text": LOOP.replace("@", "{% set ns.x = ns.x + ns.x %}"),
    "growing joins": LOOP.replace("@", "{% set ns.x = ns.x ~ ns.x %}"),
    "growing blocks": LOOP.replace(
        "@", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"
    ),
    "a growing list": LOOP.replace("'xy'", "[1]").replace("@", "{% set _ = ns.x.extend(ns.x) %}"),
    "much in a macro": (
        "{% set y = 'x' * 99999 %}{% macro f() %}{% for i in range(9999) %}{{ y }}{% endfor %}"
        "{% endmacro %}{% set z = f() %}"
    ),
    "a wide filter": "{{ 'x' | center(10 ** 9) }}",
    "a wide method": "{{ 'x'.ljust(999999999) }}",
    "a wide format": "{{ '{:999999999}'.format(1) }}",
    "a wide format from outside": "{{ '{:{}}'.format(1, 999999999) }}",
    "a wide percent": "{{ '%999999999d' % 1 }}",
    "a wide format from deep inside": "{{ '{:{0[0]}}'.format([999999999]) }}",
    "a starred precision": "{{ '%.*f' % (999999999, 1.0) }}",
    "variables that hold each other": (
        "{% set ns = namespace(x=1) %}{% for i in range(99) %}"
        "{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}{{ ns }}{{ [ns.x] | string }}"
    ),
    "a starred percent": "{{ '%*d' % (999999999, 1) }}",
    "a wide format filter": "{{ '%999999999d' | format(1) }}",
    "a replacement": "{{ ('x' * 9999) | replace('x', 'y' * 99999) }}",
    "a join": "{{ ('x' * 99999) | join('y' * 99999) }}",
    "an indent": "{{ ('x\n' * 60000) | indent(9999) }}",
    "a search in text": AGAIN.replace("$", "'x' * 99999").replace("@", "'y' in x"),
    "a search in a list": AGAIN.replace("$", "range(9999) | list").replace("@", "-1 in x"),
    "a test in a list": AGAIN.replace("$", "range(9999) | list").replace("@", "-1 is in(x)"),
    "a search by a method": AGAIN.replace("$", "range(9999) | list").replace("@", "x.count(-1)"),
    "sums of lists": AGAIN.replace("$", "[[1]] * 9999").replace("@", "x | sum(start=[])"),
    "slices": AGAIN.replace("$", "range(9999) | list").replace("@", "x[1:]"),
    "sorting": AGAIN.replace("$", "range(9999) | list").replace("@", "x | sort"),
    "lists that hold each other, compared": TWINS.replace("@", "a.x == b.x"),
    "lists that hold each other, in order": TWINS.replace("@", "a.x < b.x"),
    "lists that hold each other, sorted": TWINS.replace("@", "[a.x, b.x] | sort"),
    "a list that holds itself": (
        "{% set a = [] %}{% set b = [] %}{% set _ = (a.append(a), b.append(b)) %}{{ a == b }}"
    ),
    "too long": " " * 200_000,
    "the insides of Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_template_is_given_up_soon(source: str) -> None:
    assert from_template(source) == ModelFormat("auto")


def test_a_hostile_template_does_not_fill_the_memory() -> None:
    script = """
        import resource, sys
        from penstock.formats import from_template
        from_template("{% set x = 1 %}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for source in sys.stdin.read().split("\\0"):
            from_template(source)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(grown // 1024)
    """
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", textwrap.dedent(script)],
        input="\0".join(HOSTILE.values()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 300


def test_what_a_template_does_to_its_lists_is_forgotten() -> None:
    source = (HERE / "hermes.jinja").read_text()
    greedy = "{% set _ = messages.append(messages[0]) %}{% set _ = tools.clear() %}"
    for _ in range(2):
        assert from_template(source + greedy).format == "qwen25"


PIECES = st.sampled_from(
    [
        *("{{ ", " }}", "{% ", " %}", "for m in messages", "endfor", "if tools", "endif", "else"),
        *("m.content", "m.role", "messages", "m.tool_calls", "tools", "|tojson", "|", "~", "+"),
        *(
            "'<tool_call>'",
            "[",
            "]",
            "(",
            ")",
            "{%- ",
            " -%}",
            "set x = ",
            "x",
            "<think>",
            "1",
            "*",
        ),
    ]
)


@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(PIECES, max_size=14))
def test_no_template_makes_it_raise(pieces: list[str]) -> None:
    assert isinstance(from_template("".join(pieces)), ModelFormat)


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(sorted(FOUND)), cut=st.integers(0, 4_000), gone=st.integers(1, 40))
def test_no_damaged_template_makes_it_raise(name: str, cut: int, gone: int) -> None:
    source = (HERE / f"{name}.jinja").read_text()
    found = from_template(source[:cut] + source[cut + gone :])
    assert isinstance(found.format, Format) or found.format in (*formats.names(), "auto")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="string"):
        from_template([{"name": "default", "template": ""}])  # type: ignore[arg-type]


def test_a_missing_jinja_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.formats.chat_template", raising=False)
    monkeypatch.delitem(sys.modules, "penstock.formats.chat_template", raising=False)
    monkeypatch.delitem(sys.modules, "penstock.formats.jinja_sandbox", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"penstock\[template\]"):
        from_template("")
