"""Every fuzz target on every run, with text that looks like what the readers read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS
from laws.strategies import ANY_TEXT, JSON_VALUES, soup
from penstock.values import rjson

CRUMBS = [
    *"{}[]\",:\\/<>&;=-+.'`#\n\r\t ",
    "\\u",
    "\\ud83d",
    "\\d",
    "//",
    "/*",
    "*/",
    "true",
    "nul",
]
TAGS = ["<a>", "</a>", "<b>", "</b>", "<c><item>", "</item></c>", "<d>", "<e/>", "&lt;", "<!--"]
KEYWORDS = [*"{}[]:,1", '"a"', '"string"', '"integer"', '"object"', '"#"', '"(a+)+$"']
KEYWORDS += ['"type":', '"properties":', '"items":', '"enum":', '"anyOf":', '"$ref":', '"pattern":']
FRAMES = ["data: ", "event:", "id:", "\n\n", "\r\n", "\ufeff", ": ping"]

HALF_BROKEN = st.builds(
    lambda value, at, crumb: (text := rjson.dumps(value))[:at] + crumb + text[at:],
    JSON_VALUES,
    st.integers(0, 60),
    st.sampled_from(CRUMBS),
)
TEXTS = ANY_TEXT | HALF_BROKEN | soup(*CRUMBS) | soup(*TAGS) | soup(*KEYWORDS) | soup(*FRAMES)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(text=TEXTS)
def test_a_reader_keeps_its_promises_on_any_text(name: str, text: str) -> None:
    TARGETS[name](text)
