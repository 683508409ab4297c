"""Plays a conversation on one connection, while what the client sends comes in.

One coroutine plays and is the only one to wait; another one reads. So a message of the client can end a wait or
cut a turn short between two steps, never inside one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from adk_stream.testing.live_client import ClientMessage, Kind
from adk_stream.testing.live_faults import LiveFault
from adk_stream.testing.live_script import Close, Drop, Frame, Interruptible, Pause, Step, Utterance, Wait

__all__ = ["Inbox", "Performance"]

# For the client to read what was sent before a connection is lost on purpose.
_READ_SECONDS = 1.0

# Messages that no wait has taken. Beyond it the oldest are forgotten: an open microphone sends 50 a second.
_MAX_WAITING = 10_000

#: What passes when a later message is taken: it belongs to that message's turn.
_PASSING: frozenset[Kind] = frozenset({"audio", "video", "context", "activity_start"})


class _Cue(NamedTuple):
    """What is remembered of a client message: enough to know it by, nothing of its content."""

    kinds: frozenset[Kind]
    id: str | None = None


class Inbox:
    """What the client has sent and no wait has taken yet.

    Attributes:
        arrived: Set when a message comes.
        count: How many have come.
        latest: By kind, which one of them was the last of it, counted from 1.
        spoke: When the user was last heard to speak, by the loop's clock.
    """

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.count = 0
        self.latest: dict[Kind, int] = {}
        self.spoke = -math.inf
        self._cues: list[_Cue] = []
        self._absent: dict[Kind, int] = {}  # by kind, the message up to which none is waiting

    def put(self, message: ClientMessage) -> None:
        """Remember a message; each answer to a call by itself, since each may be waited for."""
        self.count += 1
        self.latest.update(dict.fromkeys(message.kinds, self.count))
        ids = [answer.get("id") for answer in message.function_responses] or [None]
        self._cues += [_Cue(message.kinds, id if isinstance(id, str) else None) for id in ids]
        del self._cues[:-_MAX_WAITING]
        if "speech" in message.kinds:
            self.spoke = asyncio.get_running_loop().time()
        self.arrived.set()

    def take(self, kind: Kind, id: str | None = None) -> bool:
        """Take the first message of that kind, if there is one, and let pass what belongs to its turn.

        Args:
            kind: What it is.
            id: The call that it must answer; an answer without an id answers any.
        """
        if self.latest.get(kind, 0) <= self._absent.get(kind, 0):
            return False
        for place, cue in enumerate(self._cues):
            if kind in cue.kinds and (id is None or cue.id in (id, None)):
                self._cues[: place + 1] = _lasting(self._cues[:place])
                return True
        if id is None:
            self._absent[kind] = self.count
        return False

    def pass_audio(self) -> None:
        """Let pass what belongs to the turn that ends here."""
        self._cues = _lasting(self._cues)


def _lasting(cues: list[_Cue]) -> list[_Cue]:
    return [cue for cue in cues if not cue.kinds & _PASSING]


class _Cut(Exception):
    """The client cut in on these steps."""

    def __init__(self, scope: _Scope) -> None:
        self.scope = scope


class _Over(Exception):
    """The script has ended the connection."""


@dataclass(frozen=True, eq=False)
class _Scope:
    """Steps that play now and may be cut short, by what comes after ``since`` messages."""

    by: frozenset[Kind]
    since: int


class Performance:
    """One conversation on one connection, from one of its turns on.

    Args:
        connection: Where it plays.
        turns: What plays after the setup.
        inbox: What the client sends.
        setup: What answers the client's setup.
        first_turn: The turn that it begins with.
        faults: What goes wrong.
        on_handle: Told of each handle that goes out, and of the turn with which it resumes.
    """

    def __init__(
        self,
        connection: ServerConnection,
        turns: Sequence[Sequence[Step]],
        inbox: Inbox,
        *,
        setup: Sequence[Step],
        first_turn: int,
        faults: Iterable[LiveFault],
        on_handle: Callable[[str, int], None],
    ) -> None:
        self._connection = connection
        self._turns = turns
        self._inbox = inbox
        self._setup = setup
        self._turn = first_turn
        self._faults = list(faults)
        self._on_handle = on_handle
        self._complete = False
        self._sent = 0
        self._scopes: list[_Scope] = []

    async def play(self) -> None:
        """Play it all, or until the client leaves. The connection stays open, unless the script ends it."""
        try:
            await self._strike([fault for fault in self._faults if fault.place == 0])
            await self._play(self._setup)
            for turn in self._turns[self._turn :]:
                self._complete = False
                await self._play(turn)
                self._turn += 1
            await self._strike([fault for fault in self._faults if fault.place > self._sent])
        except (_Over, ConnectionClosed):
            pass

    async def _play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Frame():
                    await self._send(step)
                case Wait():
                    await self._wait(step)
                case Utterance():
                    await self._hear_out(step)
                case Pause():
                    await self._until(_never, step.seconds)
                case Interruptible():
                    await self._play_interruptible(step)
                case Close():
                    await self._connection.close(step.code, step.reason)
                    raise _Over
                case Drop():
                    with contextlib.suppress(TimeoutError):  # its pong tells that it has read all before it
                        await asyncio.wait_for(await self._connection.ping(), _READ_SECONDS)
                    self._connection.transport.abort()
                    raise _Over

    async def _play_interruptible(self, step: Interruptible) -> None:
        scope = _Scope(step.by, self._inbox.count)
        self._scopes.append(scope)
        try:
            await self._play(step.steps)
        except _Cut as cut:
            if cut.scope is not scope:
                raise
        else:
            return
        finally:
            self._scopes.remove(scope)
        await self._play(step.then)

    async def _send(self, frame: Frame) -> None:
        for fault in self._faults:
            if fault.place == self._sent:
                frame = fault.damage(frame)
        await self._put_out(frame)
        self._sent += 1
        await self._strike([fault for fault in self._faults if fault.place == self._sent])

    async def _strike(self, faults: Iterable[LiveFault]) -> None:
        for step in chain.from_iterable(fault.strike() for fault in faults):
            if isinstance(step, Frame):  # no message of the script: it is not counted, and no fault strikes it
                await self._put_out(step)
            else:
                await self._play((step,))

    async def _put_out(self, frame: Frame) -> None:
        await asyncio.sleep(0)  # sending need not yield, and the client is to be heard
        self._heed()
        await self._connection.send(frame.data)
        self._complete = self._complete or frame.completes_turn
        if frame.handle is not None:
            self._on_handle(frame.handle, self._turn + self._complete)

    async def _wait(self, wait: Wait) -> None:
        for id in wait.ids or (None,) * wait.count:
            await self._until(partial(self._inbox.take, wait.kind, id))

    async def _hear_out(self, utterance: Utterance) -> None:
        await self._until(partial(self._inbox.take, "speech"))
        now = asyncio.get_running_loop().time
        while (left := self._inbox.spoke + utterance.quiet - now()) > 0:
            await self._until(_never, left)
        self._inbox.pass_audio()

    async def _until(self, done: Callable[[], bool], seconds: float = math.inf) -> None:
        """Wait until that is so, or for that time.

        Raises:
            _Cut: the client cuts in.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds if seconds < math.inf else None
        while True:
            self._inbox.arrived.clear()
            self._heed()
            if done():
                return
            try:
                async with asyncio.timeout_at(end):
                    await self._inbox.arrived.wait()
            except TimeoutError:
                return

    def _heed(self) -> None:
        """Stop what plays if the client has cut in on it."""
        for scope in self._scopes:
            if any(self._inbox.latest.get(kind, 0) > scope.since for kind in scope.by):
                raise _Cut(scope)


def _never() -> bool:
    return False
