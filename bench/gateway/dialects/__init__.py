"""How the fake upstream says its pieces in each API: as a stream of frames, and as one object.

They are written by hand, from what providers send, and not with penstock's encoders: what tests
the encoders must not be made by them.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects import chat, messages, responses
from gateway.dialects.frames import CREATED, Speaker, Whole, frame

DIALECTS: Final[dict[str, tuple[Speaker, Whole]]] = {
    "/chat/completions": (chat.stream, chat.whole),
    "/messages": (messages.stream, messages.whole),
    "/responses": (responses.stream, responses.whole),
}
"""Of each API, by the end of its path, who says a stream and who makes an object."""

__all__ = ["CREATED", "DIALECTS", "frame"]
