"""What a Live server says and when: conversations, their turns, and the steps of a turn.

A script is a value: it knows no sockets and no clocks. A turn is a list of steps, and a step is one of::

    a dict                    a message that goes out (``live_messages`` has the usual ones)
    Wait("text")              until the client has sent that
    Utterance()               until the user has spoken, and is quiet again
    Pause(0.2)                seconds of silence; ``STALL`` ends with the connection only
    Interruptible(...)        steps that the client's voice cuts short
    Frame(b"...")             bytes that go out as they are, JSON or not
    Close(1011, "reason")     the connection ends with a close frame
    Drop()                    it ends without one

A list among the steps is its steps. A call that blocks is a ``tool_call`` followed by its ``Wait``; one that
does not has its ``Wait`` later, or none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from adk_stream.testing import live_messages
from adk_stream.testing.live_client import Kind
from adk_stream.testing.script import as_json
from adk_stream.wire import decode_json

__all__ = [
    "CLOSE_CODES",
    "STALL",
    "Close",
    "Conversation",
    "Drop",
    "Frame",
    "Interruptible",
    "Pause",
    "Step",
    "Utterance",
    "Wait",
    "paced",
]


#: The codes that a close frame may have (RFC 6455, 7.4, and IANA's registry); 1006 is a lost connection: ``Drop``.
CLOSE_CODES = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})


@dataclass(frozen=True)
class Frame:
    """One binary frame; what it says is read once, here.

    Attributes:
        data: The bytes on the wire.
        message: The object they hold; empty if they hold none.
    """

    data: bytes
    message: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            message = decode_json(self.data)
        except ValueError:
            message = None
        object.__setattr__(self, "message", message if isinstance(message, Mapping) else {})

    @property
    def content(self) -> Mapping[str, Any]:
        """Its ``serverContent``."""
        content = self.message.get("serverContent")
        return content if isinstance(content, Mapping) else {}

    @property
    def completes_turn(self) -> bool:
        """Whether it ends the model's turn, and no further turn follows by itself."""
        return bool(self.content.get("turnComplete")) and self.content.get("interactionStatus") != "IN_PROGRESS"

    @property
    def handle(self) -> str | None:
        """The handle it gives for a later connection."""
        update = self.message.get("sessionResumptionUpdate")
        handle = update.get("newHandle") if isinstance(update, Mapping) and update.get("resumable") else None
        return handle if isinstance(handle, str) and handle else None


@dataclass(frozen=True)
class Wait:
    """Until the client has sent what is named. Each message ends one wait at most, also one that came early.

    Audio that came before the message is passed over: it belongs to that message's turn.

    Attributes:
        kind: What the message must be.
        count: How many such messages; of ``tool_response``, how many answers, however they are put together.
        ids: Of ``tool_response``: the calls that must be answered, in place of a count. An answer without an
            id answers any.
    """

    kind: Kind
    count: int = 1
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Utterance:
    """Until the user has spoken and then been quiet for so long: automatic activity detection.

    All audio up to there belongs to it. Silence that an open microphone sends is quiet.
    """

    quiet: float = 0.5

    def __post_init__(self) -> None:
        _check_seconds(self.quiet)


@dataclass(frozen=True)
class Pause:
    """Seconds in which nothing is sent."""

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)


def _check_seconds(seconds: float) -> None:
    if not seconds >= 0:
        raise ValueError(f"a time is a number of seconds from 0, not {seconds!r}")


#: Nothing more comes, and the connection stays open.
STALL = Pause(math.inf)


@dataclass(frozen=True)
class Close:
    """The end of the connection, with a close frame.

    Attributes:
        code: One of ``CLOSE_CODES``.
        reason: At most 123 bytes (RFC 6455, 5.5).
    """

    code: int = 1000
    reason: str = ""

    def __post_init__(self) -> None:
        if self.code not in CLOSE_CODES:
            raise ValueError(f"no close frame may have the code {self.code}")
        if len(self.reason.encode()) > 123:
            raise ValueError("the reason of a close frame has at most 123 bytes")


@dataclass(frozen=True)
class Drop:
    """The end of the connection without a close frame, as when a network is lost.

    It waits up to a second for the client to have read what was sent before.
    """


Step: TypeAlias = "Frame | Wait | Utterance | Pause | Close | Drop | Interruptible"
Given: TypeAlias = "Step | Mapping[str, Any] | Iterable[Given]"


@dataclass(frozen=True, init=False)
class Interruptible:
    """Steps that end early when the client cuts in while they play.

    The message that cuts in stays there for the next ``Wait``: it begins what the user says next. Give the client
    time to cut in: messages without pauses are out before it has heard the first, so mostly it is ``paced`` or
    ends with ``STALL``.

    Args:
        steps: What is played.
        by: What cuts in. Silence of an open microphone does not.
        then: What is played in place of the rest; by default ``interrupted`` and ``turn_complete``.
    """

    steps: tuple[Step, ...]
    by: frozenset[Kind]
    then: tuple[Step, ...]

    def __init__(
        self,
        *steps: Given,
        by: Iterable[Kind] = ("speech", "activity_start", "text"),
        then: Iterable[Given] | None = None,
    ) -> None:
        if then is None:
            then = (live_messages.interrupted(), live_messages.turn_complete())
        object.__setattr__(self, "steps", as_steps(steps))
        object.__setattr__(self, "by", frozenset({by} if isinstance(by, str) else by))
        object.__setattr__(self, "then", as_steps(then))


@dataclass(frozen=True, init=False)
class Conversation:
    """What the server says in one session, which may outlive a connection.

    A connection that resumes goes on with the first turn that was not complete when its handle was given.

    Args:
        turns: The turns, each a list of steps.
        setup: What answers ``setup``; by default ``setup_complete`` with an id of the session.
        names: The models that this is for; of none, any.
    """

    turns: tuple[tuple[Step, ...], ...]
    setup: tuple[Step, ...] | None
    names: frozenset[str]

    def __init__(
        self, *turns: Iterable[Given], setup: Iterable[Given] | None = None, names: Iterable[str] = ()
    ) -> None:
        object.__setattr__(self, "turns", tuple(as_steps(turn) for turn in turns))
        object.__setattr__(self, "setup", None if setup is None else as_steps(setup))
        object.__setattr__(self, "names", frozenset(names))


def as_steps(given: Given) -> tuple[Step, ...]:
    """Steps as they are written: lists flattened, dicts as frames.

    Raises:
        TypeError: something is no step, or holds what JSON does not.
    """
    if isinstance(given, Frame | Wait | Utterance | Pause | Close | Drop | Interruptible):
        return (given,)
    if isinstance(given, Mapping):
        return (Frame(as_json(given)),)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return tuple(step for inner in given for step in as_steps(inner))
    raise TypeError(f"a step is a message or one of live_script's classes, not {given!r}")


def paced(steps: Given, seconds: float) -> tuple[Step, ...]:
    """The steps, with a pause before each message."""
    return tuple(
        part for step in as_steps(steps) for part in ((Pause(seconds), step) if isinstance(step, Frame) else (step,))
    )
