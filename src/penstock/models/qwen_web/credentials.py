"""Who asks chat.qwen.ai: what a browser that is logged in would send, told to nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from penstock.models.http.keys import Key, find_key

BROWSER: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36"
)
"""How a client introduces itself: what is no browser gets a page in place of an answer."""

HEADERS: Final = frozenset({"authorization", "cookie", "bx-umidtoken", "user-agent"})
"""The headers that are ours to send: no request brings its own."""


class QwenCredentials:
    """The token of an account, the cookies of its browser, and the guard's own token.

    Guests have no *token*. Each is as the browser sends it; `user_agent` should be the browser's
    too. None of them shows in a repr, a log or an error, and none can be pickled.

    Raises `UsageError` for what no header may hold.
    """

    def __init__(
        self,
        token: str = "",
        cookie: str = "",
        umid_token: str = "",
        *,
        user_agent: str = BROWSER,
    ) -> None:
        self._token = Key(token.strip().removeprefix("Bearer "))
        self._cookie = Key(cookie)
        self._umid_token = Key(umid_token)
        self._user_agent = Key(user_agent)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read `QWEN_TOKEN` (or `QWEN_API_KEY`), `QWEN_COOKIE` and `QWEN_UMID_TOKEN`."""
        names = (("QWEN_TOKEN", "QWEN_API_KEY"), ("QWEN_COOKIE",), ("QWEN_UMID_TOKEN",))
        return cls(*(find_key(None, each, environ).reveal() for each in names))

    @property
    def is_guest(self) -> bool:
        """Whether no account is named."""
        return not self._token

    def __repr__(self) -> str:
        held = {"token": self._token, "cookie": self._cookie, "umid_token": self._umid_token}
        shown = ", ".join(f"{name}=***" for name, key in held.items() if key)
        return f"QwenCredentials({shown})"

    def token(self) -> str:
        """Give the token itself."""
        return self._token.reveal()

    def headers(self) -> dict[str, str]:
        """Give the headers that go along with every call, the token's aside."""
        held = {
            "cookie": self._cookie,
            "bx-umidtoken": self._umid_token,
            "user-agent": self._user_agent,
        }
        return {name: key.reveal() for name, key in held.items() if key}
