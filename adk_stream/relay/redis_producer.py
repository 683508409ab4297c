"""``RedisProducer``: what is on its way from one producer to Redis, and whose the stream is.

Publishing does not wait for Redis: an entry's id is known before Redis has it, so the cursor is too. Entries wait in
line for the outbox. While Redis cannot be reached the line is bounded, its oldest responses are dropped, and followers
see that as a gap; the finals among them are in the session store.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adk_stream.errors import StreamEndedError, StreamOwnedError, UnknownStreamError
from adk_stream.response import LlmResponse
from adk_stream.sessions.event import new_id
from adk_stream.sessions.stored import SessionKey

from .entries import Entry, Kind
from .positions import Position
from .producing import NumberingProducer
from .redis_layout import entry_id, field_of, final_field
from .redis_link import Link, as_text, log
from .window import Window

if TYPE_CHECKING:
    from .redis_outbox import Outbox

__all__ = ["RedisProducer"]


class RedisProducer(NumberingProducer):
    """A producer whose log is in Redis.

    Attributes:
        waiting: Entries that Redis may not have yet, oldest first.
        waiting_bytes: Their size.
        is_unsure: Whether Redis must be asked if the stream is still there, and still this producer's.
        is_over: Whether Redis has the end, or the stream belongs to another: nothing more is sent.
    """

    def __init__(self, link: Link, outbox: Outbox, stream_id: str, session: SessionKey | None, takeover: float) -> None:
        super().__init__(stream_id, link.options, Position(1, 0, 0))
        self.waiting: deque[Entry] = deque()
        self.waiting_bytes = 0
        self.is_unsure = True
        self.is_over = False
        self._link = link
        self._outbox = outbox
        self._owner = f"{link.id}:{new_id()}"
        self._session = "" if session is None else json.dumps(session)
        self._takeover = takeover
        self._window = Window(link.options)
        self._own_start = 0
        self._written_position = self._position
        self._noted: dict[str, str | bytes] = {}  # kept, in case Redis forgets
        self._unsent_notes: dict[str, str | bytes] = {}
        self._lost: StreamOwnedError | None = None
        self._cancelled = asyncio.Event()

    # ------------------------------------------------------------- for the owner

    async def publish(self, response: LlmResponse) -> str:
        """See ``Producer``."""
        if self._lost is not None:
            raise self._lost
        return await super().publish(response)

    async def save(self, snapshot: bytes) -> None:
        """See ``Producer``."""
        _, number, finals = self._position
        self._note({"saved": f"{number}-{finals}", "snapshot": snapshot})

    @property
    def cancel_requested(self) -> bool:
        """See ``Producer``."""
        return self._cancelled.is_set()

    async def wait_cancelled(self) -> None:
        """See ``Producer``."""
        await self._cancelled.wait()

    async def _append(self, entry: Entry, final_id: str | None) -> None:
        if self.is_over:
            return
        if final_id is not None:
            self._note({final_field(entry.position.finals): final_id})
        self._window.add(entry.position.number, entry.size, time.monotonic())
        self._put(entry)
        limit = self._link.options.max_waiting_bytes
        while self.waiting_bytes > limit and not self._outbox.is_down:
            await self._outbox.progress().wait()
        while self.waiting_bytes > limit and len(self.waiting) > 1:
            self._taken(self.waiting.popleft())

    async def _end(self, entry: Entry, outcome: Mapping[str, str]) -> None:
        if self.is_over:
            return
        self._put(entry)
        self._outbox.finishing(self)
        while not self.is_over and not self._outbox.is_down:
            await self._outbox.progress().wait()

    def _put(self, entry: Entry) -> None:
        self.waiting.append(entry)
        self.waiting_bytes += entry.size
        self._outbox.wake()

    def _note(self, fields: dict[str, str | bytes]) -> None:
        self._noted |= fields
        self._unsent_notes |= fields
        self._outbox.wake()

    # ------------------------------------------------------------- for the outbox

    @property
    def has_work(self) -> bool:
        """Whether something is to be sent."""
        return not self.is_over and (self.is_unsure or bool(self.waiting) or bool(self._unsent_notes))

    async def claim(self, client: Any = None, *, take: bool = False) -> Any:
        """Ask for the stream, at once or as part of a pipeline."""
        before = self.waiting[0].before if self.waiting else self._written_position
        notes = [part for pair in self._noted.items() for part in pair]
        self._unsent_notes = {}
        return await self._link.claim(
            keys=self._link.keys.of(self.stream_id),
            args=[
                self.stream_id,
                self._owner,
                "take" if take else "open",
                self._link.lease_ms,
                self._link.keep_ms,
                int(self._takeover * 1000),
                before.term,
                before.number,
                before.finals,
                self._session,
                self._link.inbox,
                *notes,
            ],
            client=client,
        )

    def claimed(self, reply: Any, *, take: bool = False) -> None:
        """What came of ``claim``.

        Raises:
            UnknownStreamError, StreamOwnedError, StreamEndedError: nothing did.
        """
        word = as_text(reply[0])
        if word != "ok":
            raise _REFUSALS[word](f"stream {self.stream_id!r} {_WHY[word]}")
        self.is_unsure = False
        if take:
            self._go_on(*reply[1:])

    def _go_on(self, term: int, number: bytes, finals: bytes, session: bytes, saved: bytes, snapshot: bytes) -> None:
        self._session = as_text(session)
        self._written = self._own_start = int(number)
        self._written_position = Position(term, int(number), int(finals))
        place = as_text(saved).split("-") if saved else ("0", "0")
        self._position = Position(term, int(place[0]), int(place[1]))
        self.snapshot = snapshot or None

    async def send(self, pipe: Any) -> list[Entry | None]:
        """Add what is to be sent to a pipeline; None stands for a command that is no entry."""
        sent: list[Entry | None] = []
        link, log_key = self._link, self._link.keys.log(self.stream_id)
        if self._unsent_notes:
            notes = [part for pair in self._unsent_notes.items() for part in pair]
            await link.note(link.keys.of(self.stream_id), [self.stream_id, self._owner, *notes], client=pipe)
            self._unsent_notes = {}
            sent.append(None)
        size = 0
        for entry in self.waiting:
            id, field = entry_id(entry.position), field_of(entry)
            if entry.kind is Kind.END:
                args: list[Any] = [self.stream_id, self._owner, entry.position.term, id, field, entry.data]
                await link.end(link.keys.of(self.stream_id), [*args, int(link.options.retention * 1000)], client=pipe)
            else:
                pipe.execute_command("XADD", log_key, "NOMKSTREAM", *self._trim(entry), id, field, entry.data)
            sent.append(entry)
            size += entry.size
            if size > _AT_ONCE:
                break
        return sent

    def _trim(self, entry: Entry) -> tuple[str, ...]:
        """What XADD is told about what may go. Entries of former owners stay until ours fill the window."""
        term, number, _ = entry.position
        first = min(self._window.first, number)
        return ("MINID", "~", f"{term}-{first}") if first > self._own_start + 1 else ()

    def sent(self, entry: Entry | None, reply: Any) -> bool:
        """What came of one of them; False if the rest must be sent again.

        Raises:
            RedisError: Redis does not take it now.
        """
        word = as_text(reply) if reply is not None else "gone"
        if isinstance(reply, Exception):
            # Sent twice, or too late by a former owner; asking for the stream will tell.
            if _IS_THERE not in word:
                raise reply
            self.is_unsure = True
        elif word in _REFUSALS and word != "ended":
            self.is_unsure = True
            return False
        if entry is None:
            return True
        if self.waiting and self.waiting[0] is entry:  # it may have been dropped while it was on its way
            self._taken(self.waiting.popleft())
        self._written_position = entry.position
        if entry.kind is Kind.END:
            self.is_over = True
        return True

    def _taken(self, entry: Entry) -> None:
        self.waiting_bytes -= entry.size

    # ------------------------------------------------------------- for the keeper

    async def renew(self, pipe: Any) -> None:
        """Add the renewal of the lease to a pipeline."""
        link = self._link
        args: list[Any] = [self.stream_id, self._owner, link.lease_ms, link.keep_ms]
        await link.renew(link.keys.of(self.stream_id), args, client=pipe)

    def renewed(self, word: str) -> None:
        """What came of it."""
        if word == "cancel":
            self.cancel()
        elif word == "gone":
            self.is_unsure = True
            self._outbox.wake()
        elif word != "ok":
            self.lose(_REFUSALS[word](f"stream {self.stream_id!r} {_WHY[word]}"))

    def cancel(self) -> None:
        """Somebody wishes the end."""
        self._cancelled.set()

    def lose(self, problem: Exception) -> None:
        """The stream is no longer this producer's."""
        if self.is_over:
            return
        log.warning("%s; what is published further reaches nobody", problem)
        self.is_over = True
        self.waiting.clear()
        self.waiting_bytes = 0
        if isinstance(problem, StreamOwnedError):
            self._lost = problem


#: Bytes that one producer sends in one round trip.
_AT_ONCE = 256 * 1024

_IS_THERE = "equal or smaller than"

_REFUSALS: dict[str, type[UnknownStreamError] | type[StreamOwnedError] | type[StreamEndedError]] = {
    "unknown": UnknownStreamError,
    "gone": UnknownStreamError,
    "owned": StreamOwnedError,
    "ended": StreamEndedError,
}
_WHY = {
    "unknown": "is not there",
    "gone": "is not there",
    "owned": "belongs to another producer",
    "ended": "has ended",
}
