"""The stream of chat.qwen.ai to events.

Its chunks look like chat completions that tell their phase: thoughts, the answer, or something
aside. The end is a chunk of the answer's phase whose status is ``finished``, or the mark
``[DONE]``; either alone is a good end. `session` is what the next request of the chat needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.apis.openai_chat import decode as chat
from penstock.apis.qwen import tables
from penstock.apis.qwen.response import read_response
from penstock.apis.reading import text_at
from penstock.messages import AssistantMessage, ErrorInfo


class Decoder(chat.Decoder):
    """Bytes of a stream of chat.qwen.ai in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.session: dict[str, str] = {}
        self._summary: list[str] = []

    def _read(self, data: dict[str, Any], event: str) -> None:
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        if isinstance(data.get("response.created"), Mapping):
            self._read_created(data["response.created"])
        elif not self._is_foreign(data):
            super()._read({"id": self.session.get("response_id", ""), **data}, event)

    def _read_created(self, created: Mapping[str, Any]) -> None:
        for key in ("chat_id", "parent_id", "response_id"):
            if isinstance(created.get(key), str):
                self.session.setdefault(key, created[key])
        self._transcript.begin(self.session.get("response_id", ""))

    def _is_foreign(self, data: Mapping[str, Any]) -> bool:
        """Tell a frame of another answer, which names another `response_id`."""
        own, named = self.session.get("response_id"), data.get("response_id")
        return own is not None and isinstance(named, str) and named not in ("", own)

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._transcript.usage = tables.read_usage(data["usage"])

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        phase, content = text_at(delta, "phase"), delta.get("content")
        if phase in tables.THINKING:
            self._speech.think(content)
            self._read_summary(delta)
        elif phase in tables.ASIDE:
            if delta.get("status") != "finished" or delta.get("extra"):
                self._speech.close()
                self._transcript.part(tables.NAME, dict(delta))
        else:
            super()._read_delta(delta)
            if delta.get("status") == "finished":
                self._finish = self._finish or "finished"

    def _read_summary(self, delta: Mapping[str, Any]) -> None:
        """Read thoughts that come as a list of summaries, which grows from frame to frame."""
        found: Any = delta
        for key in ("extra", "summary_thought", "content"):
            found = found.get(key) if isinstance(found, Mapping) else None
        summary = (
            [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
        )
        if self._summary and len(self._summary) <= len(summary):
            before, now = self._summary[-1], summary[len(self._summary) - 1]
            if now.startswith(before):  # The last one may grow where it stands.
                self._speech.think(now[len(before) :])
                self._summary[-1] = now
        for text in summary[len(self._summary) :]:
            self._speech.think(text if not self._summary else "\n\n" + text)
            self._summary.append(text)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        super()._read_choice(choice)
        if self._finish == "finished":
            self._conclude("finished")

    def _conclude(self, finish: str) -> None:
        if finish == "finished":
            self._speech.close()
            self._transcript.done("stop", finish)
        else:
            super()._conclude(finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        error = tables.find_error(data)
        if error is not None:
            return error
        return read_response(data) if isinstance(data.get("data"), Mapping) else None

    def _read_page(self, text: str) -> ErrorInfo:
        return tables.read_page(text)
