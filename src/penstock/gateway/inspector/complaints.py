"""Text that was meant to be a call and is none: what is wrong with it, and where it stands.

The log keeps the words of a complaint, and not its place. So where there are any, the text is read
once more, and the complaints of both readings are the same ones in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock.errors import PenstockError
from penstock.formats import Parser
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.inspector.offsets import width
from penstock.gateway.inspector.remarks import Remark, complaint
from penstock.models.untrusted import untrusted_in
from penstock.request import Request

MAX_READ: Final = 200_000
"""Up to how many characters a text is read again; in longer ones nobody knows the place."""


class Complaint(Struct, frozen=True):
    """What is wrong with *text*."""

    why: str
    text: str


def complaints_about(text: str, options: ModelOptions, request: Request) -> list[Complaint]:
    """Read *text*, which answers *request*, as *options* say; give what is wrong with it."""
    if len(text) > MAX_READ or not options.parse:
        return []
    found: list[Complaint] = []
    untrusted = untrusted_in(request, options.quoted, options.quoted_tools)
    look_up()
    try:
        parser = Parser(
            options.format,
            request.tools,
            arguments=options.arguments,
            reasoning=options.reasoning or None,
            repair=options.repair,
            fenced=options.fenced,
            untrusted=untrusted,
            on_error=lambda why, segment: found.append(Complaint(why, segment.text)),
        )
        parser.feed(text)
        parser.finish(cut=False)
    except PenstockError:
        return []
    return found


def remarks_on_complaints(
    told: Iterable[str], found: Iterable[Complaint], text: str
) -> list[Remark]:
    """Say what was *told*, at the places in *text* that it is *found* at."""
    remarks: list[Remark] = []
    ahead, at = list(found), 0
    for why in told:
        place = None
        same = next((n for n, one in enumerate(ahead) if why.startswith(one.why)), None)
        if same is not None:
            start = text.find(ahead[same].text, at) if ahead[same].text else -1
            place = None if start < 0 else width(text[:start])
            at, ahead = max(at, start + 1), ahead[same + 1 :]
        remarks.append(complaint(why, place))
    return remarks
