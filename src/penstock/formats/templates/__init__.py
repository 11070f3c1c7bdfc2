"""What a model writes, read off its chat template."""

from __future__ import annotations

from penstock.errors import UsageError
from penstock.formats.models import ModelFormat

__all__ = ["from_template"]


def from_template(
    template: str,
    *,
    bos_token: str = "",
    eos_token: str = "",
    thinking: bool | None = None,
) -> ModelFormat:
    """Tell what the model writes whose chat template, in Jinja, is *template*.

    A small conversation is written with it in several ways, and what a call and a thought look like
    is read with the formats that there are. Calls in JSON between markers that no format has become
    a format of their own; of anything else, and of a template that does not work, nothing is known:
    the format is ``auto``.

    *bos_token* and *eos_token* are what the template may ask for. *thinking* switches thinking on
    or off, where the template has a switch, and so decides how the prompt ends; None leaves it
    alone. The template runs in a sandbox, with limits on its steps and on all that it makes.

    Raises `UsageError` where Jinja is missing: it comes with the extra ``template``.
    """
    if not isinstance(template, str):
        raise UsageError(f"a chat template is text, not {type(template).__name__}")
    try:
        from penstock.formats.templates.recognition import recognise  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UsageError("a chat template is read with jinja2: install penstock[template]") from exc
    return recognise(template, bos_token=bos_token, eos_token=eos_token, thinking=thinking)
