"""What a docstring says of a function and its parameters, whatever its style."""

from __future__ import annotations

import pytest

from penstock.agent.tools.functions import parse_docstring

GOOGLE = """Tell when high water is.

    It asks the harbour master.

    Args:
        harbour: Where: by its common name,
            in any case.
        day (date, optional): The day.
        *notes (str): Said to the master.
        **options: Whatever else.

    Returns:
        The hour.
    """
NUMPY = """Tell when high water is.

    It asks the harbour master.

    Parameters
    ----------
    harbour : str
        Where: by its common name,
        in any case.
    day : date, optional
        The day.
    *notes
        Said to the master.
    **options
        Whatever else.

    Returns
    -------
    str
        The hour.
    """
SPHINX = """Tell when high water is.

    It asks the harbour master.

    :param harbour: Where: by its common name,
        in any case.
    :type harbour: str
    :param date day: The day.
    :param *notes: Said to the master.
    :keyword options: Whatever else.
    :returns: The hour.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_says_the_same(text: str) -> None:
    said = parse_docstring(text)
    assert said.parameters == {
        "harbour": "Where: by its common name, in any case.",
        "day": "The day.",
        "notes": "Said to the master.",
        "options": "Whatever else.",
    }
    assert said.description.startswith("Tell when high water is.\n\nIt asks the harbour master.")
    assert said.description.endswith("The hour.")
    assert "common name" not in said.description
    assert "Args" not in said.description
    assert "Parameters" not in said.description


def test_prose_stays_as_it_is() -> None:
    text = "Count.\n\n    for x in y:\n        count(x)\n\nArgs: none of them is needed."
    assert parse_docstring(text).description == text


def test_a_section_may_be_the_last_line() -> None:
    assert parse_docstring("Count.\n\nArgs:").description == "Count.\n\nArgs:"


def test_a_blank_line_may_stand_under_the_heading() -> None:
    said = parse_docstring("Add.\n\nArgs:\n\n    a: One.\n    b: Two.\n\nReturns:\n    All.")
    assert said.parameters == {"a": "One.", "b": "Two."}
    assert said.description == "Add.\n\nReturns:\n    All."


def test_numpy_parameters_can_share_their_words() -> None:
    said = parse_docstring("Add.\n\nParameters\n----------\na, b : int\n    What is added.\n")
    assert said.parameters == {"a": "What is added.", "b": "What is added."}


def test_text_follows_a_section() -> None:
    said = parse_docstring("Add.\n\nArgs:\n    a: One.\n\n    b: Two.\n\nThat is all.")
    assert said.parameters == {"a": "One.", "b": "Two."}
    assert said.description == "Add.\n\nThat is all."


def test_a_field_list_ends_at_an_empty_line() -> None:
    said = parse_docstring("Add.\n\n:param a: One,\n  only one.\n\nThat is all.")
    assert said.parameters == {"a": "One, only one."}
    assert said.description == "Add.\n\nThat is all."


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_says_nothing(text: str | None) -> None:
    said = parse_docstring(text)
    assert (said.description, said.parameters) == ("", {})
