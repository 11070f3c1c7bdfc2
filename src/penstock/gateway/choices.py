"""Several answers to one request: as many upstream streams, each a choice of one chat completion.

Each choice has a journal of its own, as if it had been asked for alone. What comes from them goes
out as it comes; a task reads each of them, no further than one list of events ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import structs

from penstock.apis.encoding import failure_of
from penstock.apis.numbers import told_usage
from penstock.apis.openai_chat.choices import ChoicesEncoder, write_choices
from penstock.events import Done, Event, Failed
from penstock.gateway.answering import Answering, Keep
from penstock.gateway.caller import Caller
from penstock.gateway.dialects import ApiDialect
from penstock.gateway.endings import aborted_by, cut, find_end, is_nothing_but_failure
from penstock.gateway.journal import Journal
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches
from penstock.streams.failures import error_of

Numbered = tuple[int, list[Event]]
"""A list of events, and the number of the choice that they belong to."""


class Choosing(Answering):
    """Answers with several choices; a *journal* for each."""

    def __init__(
        self,
        caller: Caller,
        dialect: ApiDialect,
        journals: list[Journal],
        keep: Keep,
        *,
        patience: float,
    ) -> None:
        super().__init__(caller, dialect, journals[0], keep, patience=patience)
        self._journals = journals
        self._ends: list[Done | Failed | None] = [None] * len(journals)
        self._told = dialect
        self._choices = ChoicesEncoder(
            len(journals),
            model=dialect.model,
            id=dialect.id,
            created=dialect.created,
            usage=bool(dialect.options.get("usage")),
            input_tokens=dialect.tokens,
        )

    async def _stream(self, *sources: Batches) -> None:
        self._alive.begin()
        async with aclosing(merged(sources)) as merging:
            async for choice, batch in merging:
                self._see(choice, batch)
                if not self._caller.has_begun:
                    if is_nothing_but_failure(batch):
                        await self._refuse(self._ends[choice] or _failure())
                        return
                    await self._caller.begin_stream()
                data = b"".join([self._choices.encode(choice, event) for event in batch])
                self._alive.touch()
                if data:
                    await self._caller.send(data)
                if self._choices.ended:
                    break
        await self._caller.end_stream(self._choices.finish())

    async def _whole(self, *sources: Batches) -> None:
        async with aclosing(merged(sources)) as merging:
            async for choice, batch in merging:
                self._see(choice, batch)
        ends = [end or _failure() for end in self._ends]
        for end in ends:
            failure = failure_of(end.message)
            if failure is not None:
                await self._refuse(
                    end if isinstance(end, Failed) else Failed("error", failure, end.message)
                )
                return
        self.end = ends[0]
        told = self._told
        messages = [
            structs.replace(
                end.message,
                id=told.id,
                model=told.model,
                usage=told_usage(end.message, told.tokens),
            )
            for end in ends
        ]
        await self._caller.answer(200, write_choices(messages, created=told.created))

    def _see(self, choice: int, batch: list[Event]) -> None:
        self._journals[choice].events(batch)
        if (end := find_end(batch)) is not None:
            self._ends[choice] = self.end = end
            if isinstance(end, Failed):
                self._make_fit(end)

    def _last_words(self, failed: Failed) -> bytes:
        return self._choices.finish(failed)

    def _note(self) -> None:
        """Note each choice; those that had no end were ended with the whole answer."""
        stopped = self.aborted
        if stopped is None and any(isinstance(end, Failed) for end in self._ends):
            stopped = aborted_by(ErrorInfo("another choice failed", "aborted"))
        for end, journal in zip(self._ends, self._journals, strict=True):
            self._note_one(end or stopped, journal)


async def merged(sources: Sequence[Batches]) -> AsyncGenerator[Numbered, None]:
    """Give what all *sources* give, as it comes; whoever stops reading stops them all."""
    queue: asyncio.Queue[Numbered | None] = asyncio.Queue(maxsize=len(sources))

    async def read(number: int, source: Batches) -> None:
        try:
            async with aclosing(source):
                async for batch in source:
                    if batch:
                        await queue.put((number, batch))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the client is told
            await queue.put((number, [Failed("error", error_of(exc), AssistantMessage())]))
        await queue.put(None)

    tasks = [asyncio.create_task(read(number, one)) for number, one in enumerate(sources)]
    try:
        left = len(tasks)
        while left:
            came = await queue.get()
            if came is None:
                left -= 1
            else:
                yield came
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failure() -> Failed:
    return Failed("error", cut(), AssistantMessage())
