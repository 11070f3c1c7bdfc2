"""Random conditions and texts over a small alphabet, so that they often meet."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import strategies as st

from penstock.agent.rules.matcher import compile_condition

_ONES = st.sampled_from(["a", "b", "A", "\\.", ".", "[ab]", "[^a]", "\\w", "\\s", "[]b]", "\\x61"])
_BORDERS = st.sampled_from(["\\b", "\\B", "^", "$", "\\A", "\\Z"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{,2}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map("(?i:{})".format),
        inner.map("({})".format),
    )


def _compiles(source: str) -> bool:
    try:
        compile_condition(source)
    except ValueError:
        return False
    return True


EXACT = st.recursive(_ONES, _grown, max_leaves=8).filter(_compiles)
"""Conditions that look at nothing but the match."""

BORDERED = st.recursive(st.one_of(_ONES, _BORDERS), _grown, max_leaves=8).filter(_compiles)
"""Conditions with borders of words, lines and texts."""

LOOKING = st.recursive(
    st.one_of(_ONES, _BORDERS),
    lambda inner: st.one_of(
        _grown(inner),
        st.tuples(_ONES, st.sampled_from(["*+", "++", "?+"])).map("".join),
        inner.map("(?>{})".format),
        inner.map("(?={})".format),
        inner.map("(?!{})".format),
        _ONES.map("(?<={})".format),
        _ONES.map("(?<!{})".format),
    ),
    max_leaves=8,
).filter(_compiles)
"""Conditions that look around or do not backtrack, too."""

TEXTS = st.text("abA. \n]", max_size=30)
CUTS = st.lists(st.integers(0, 30), max_size=8)


def chunks(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def compiled(*sources: str) -> list[re.Pattern[str]]:
    return [compile_condition(source) for source in sources]
