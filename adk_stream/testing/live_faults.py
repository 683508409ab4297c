"""Faults of a Live session on demand: steps that come between its messages, or a message that is damaged.

::

    drop=N         the connection breaks off, without a close frame, after N messages
    close=C@N      it is closed with the code C after N messages; 1011 unless told
    stall=S@N      silence of S seconds after N messages, then it goes on
    slow_first=S   S seconds before the answer to setup
    error_event=N  ``{"error": …}`` after N messages, then the connection is closed with code 1011
    garbage=N      a frame that is no JSON and no text after N messages, then it goes on
    malformed=N    the message after N messages is broken JSON; the others come
    status=C       the handshake is refused with an HTTP status; 403 unless told

The answer to setup counts as a message. Where N is beyond the end of the script, the fault strikes at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from adk_stream.testing import live_messages
from adk_stream.testing.faults import FaultError, read_spec
from adk_stream.testing.live_script import CLOSE_CODES, Close, Drop, Frame, Pause, Step, as_steps

__all__ = ["LIVE_FAULTS", "LiveFault", "as_live_faults"]

_INTERNAL_ERROR = 1011  # RFC 6455, 7.4.1


@dataclass(frozen=True)
class LiveFault:
    """One thing that goes wrong on one connection.

    Attributes:
        name: One of ``LIVE_FAULTS``.
        after: How many messages of the server come whole before it.
        seconds: How long ``stall`` and ``slow_first`` take.
        code: The close code of ``close``, the HTTP status of ``status`` and of ``error_event``'s error. None:
            the usual one.

    Raises:
        FaultError: there is no such fault, or a value is out of range.
    """

    name: str
    after: int = 1
    seconds: float = 1.0
    code: int | None = None

    def __post_init__(self) -> None:
        if self.name not in LIVE_FAULTS:
            raise FaultError(f"no fault {self.name!r} of a Live session; there are {', '.join(LIVE_FAULTS)}")
        if self.after < 0:
            raise FaultError(f"after is a number of messages from 0, not {self.after}")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise FaultError(f"seconds is a number from 0, not {self.seconds}")
        if self.code is not None and self.code not in LIVE_FAULTS[self.name].codes:
            raise FaultError(f"the fault {self.name} has no code {self.code}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The fault that ``name[=value][@messages]`` says; what the value means is in the module's table.

        Raises:
            FaultError: it says none.
        """
        name, fields = read_spec(text, {name: kind.value for name, kind in LIVE_FAULTS.items()})
        return cls(name, **fields)

    @property
    def place(self) -> int:
        """The number of messages after which it strikes."""
        return 0 if self.name == "slow_first" else self.after

    @property
    def refusal(self) -> int | None:
        """The HTTP status that the handshake is refused with, if it is."""
        return (self.code or 403) if self.name == "status" else None

    def strike(self) -> tuple[Step, ...]:
        """What is played in its place."""
        return LIVE_FAULTS[self.name].steps(self)

    def damage(self, frame: Frame) -> Frame:
        """What becomes of the message that follows."""
        return LIVE_FAULTS[self.name].damage(frame)


def as_live_faults(faults: LiveFault | str | Iterable[LiveFault | str]) -> tuple[LiveFault, ...]:
    """Faults as they are given: one or several, as objects or as text, in which commas part them.

    Raises:
        FaultError: a text says no fault.
    """
    if isinstance(faults, LiveFault):
        return (faults,)
    if isinstance(faults, str):
        return tuple(LiveFault.parse(text) for text in faults.split(",") if text.strip())
    return tuple(fault for given in faults for fault in as_live_faults(given))


def _drop(fault: LiveFault) -> tuple[Step, ...]:
    return (Drop(),)


def _close(fault: LiveFault) -> tuple[Step, ...]:
    return (Close(fault.code or _INTERNAL_ERROR, "the server ends this session"),)


def _pause(fault: LiveFault) -> tuple[Step, ...]:
    return (Pause(fault.seconds),)


def _error_event(fault: LiveFault) -> tuple[Step, ...]:
    return (*as_steps(live_messages.error(fault.code or 503)), Close(_INTERNAL_ERROR, "the server failed"))


def _garbage(fault: LiveFault) -> tuple[Step, ...]:
    return (Frame(b"\x00\xffnot JSON\xfe"),)


def _nothing(fault: LiveFault) -> tuple[Step, ...]:
    return ()


def _half(frame: Frame) -> Frame:
    return Frame(frame.data[: max(len(frame.data) // 2, 1)])


def _whole(frame: Frame) -> Frame:
    return frame


class LiveFaultKind(NamedTuple):
    """What a fault does.

    Attributes:
        steps: What it plays.
        value: Which field of ``LiveFault`` its ``=value`` sets.
        codes: The codes that it may have.
        damage: What becomes of the next message.
    """

    steps: Callable[[LiveFault], tuple[Step, ...]]
    value: str
    codes: Container[int] = range(400, 600)
    damage: Callable[[Frame], Frame] = _whole


#: The faults by name.
LIVE_FAULTS: dict[str, LiveFaultKind] = {
    "drop": LiveFaultKind(_drop, "after"),
    "close": LiveFaultKind(_close, "code", CLOSE_CODES),
    "stall": LiveFaultKind(_pause, "seconds"),
    "slow_first": LiveFaultKind(_pause, "seconds"),
    "error_event": LiveFaultKind(_error_event, "after"),
    "garbage": LiveFaultKind(_garbage, "after"),
    "malformed": LiveFaultKind(_nothing, "after", damage=_half),
    "status": LiveFaultKind(_nothing, "code"),  # it strikes before there is a session
}
