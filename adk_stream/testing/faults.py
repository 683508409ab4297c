"""Faults on demand: what goes wrong with streams in the field, each a pure function from script to script.

::

    drop=N              the connection breaks off after N events
    cut=N               the body ends, cleanly, after N events
    cut_in_event=N      the body ends inside the event after N events
    cut_in_character=N  the body ends inside a character of several bytes, the first after N events
    stall=S@N           silence of S seconds after N events, then it goes on
    slow_first=S        S seconds before the first byte, the head of the answer included
    error_event=N       the line's own error, inside the stream, after N events; then the body ends
    status=C            an HTTP error in the line's own words; 429, 503 and 529 with Retry-After
    garbage             status 200 and a page of HTML
    malformed=N         the event after N events is broken JSON; the others come

Where N is beyond the end of the recording, the fault strikes at its end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from adk_stream.recording import Piece
from adk_stream.testing.script import Script, Step, as_json, error_script

__all__ = ["FAULTS", "FAULT_HEADER", "Fault", "FaultError", "as_faults", "read_spec"]

#: A request's own faults, ``name[=value][@events]``, parted by commas.
FAULT_HEADER = "x-adk-stream-fault"

_SPEC = re.compile(r"(?P<name>[a-z_]+)(?:=(?P<value>[0-9.]+))?(?:@(?P<after>[0-9]+))?")


class FaultError(ValueError):
    """There is no such fault, or the recording gives it nothing to strike at."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong with one answer.

    Attributes:
        name: One of ``FAULTS``.
        after: How many events come whole before it, for faults that have a place in the stream.
        seconds: How long ``stall`` and ``slow_first`` take; the ``Retry-After`` of ``status``.
        status: The HTTP status of ``status``, and what ``error_event`` tells of. None: the usual one.

    Raises:
        FaultError: there is no such fault, or a value is out of range.
    """

    name: str
    after: int = 1
    seconds: float = 1.0
    status: int | None = None

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise FaultError(f"no fault {self.name!r}; there are {', '.join(FAULTS)}")
        if self.after < 0:
            raise FaultError(f"after is a number of events from 0, not {self.after}")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise FaultError(f"seconds is a number from 0, not {self.seconds}")
        if self.status is not None and not 400 <= self.status <= 599:
            raise FaultError(f"status is an HTTP error from 400 to 599, not {self.status}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The fault that ``name[=value][@events]`` says; what the value means is in the module's table.

        Raises:
            FaultError: it says none.
        """
        name, fields = read_spec(text, {name: kind.value for name, kind in FAULTS.items()})
        return cls(name, **fields)

    def apply(self, script: Script) -> Script:
        """The script with this fault in it.

        Raises:
            FaultError: the script holds nothing that it could strike at.
        """
        return FAULTS[self.name].apply(script, self)


def read_spec(text: str, values: Mapping[str, str | None]) -> tuple[str, dict[str, Any]]:
    """The name and the fields that ``name[=value][@events]`` gives.

    Args:
        text: What was written.
        values: By fault, the field that ``=value`` sets; None for a fault without one.

    Raises:
        FaultError: it is not of that form, or the value is none.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise FaultError(f"a fault is name[=value][@events], not {text!r}")
    name, value, after = match["name"], match["value"], match["after"]
    fields: dict[str, Any] = {}
    if after is not None:
        fields["after"] = int(after)
    if value is not None:
        field = values.get(name, "after")
        if field is None:
            raise FaultError(f"the fault {name} has no value")
        try:
            fields[field] = float(value) if field == "seconds" else int(value)
        except ValueError:
            raise FaultError(f"the fault {name} has no value {value!r}") from None
    return name, fields


def as_faults(faults: Fault | str | Iterable[Fault | str]) -> tuple[Fault, ...]:
    """Faults as they are given: one or several, as objects or as text, in which commas part them.

    Raises:
        FaultError: a text says no fault.
    """
    if isinstance(faults, Fault):
        return (faults,)
    if isinstance(faults, str):
        return tuple(Fault.parse(text) for text in faults.split(",") if text.strip())
    return tuple(fault for given in faults for fault in as_faults(given))


def _drop(script: Script, fault: Fault) -> Script:
    return replace(script.cut(fault.after), dropped=True)


def _cut(script: Script, fault: Fault) -> Script:
    return script.cut(fault.after)


def _cut_in_event(script: Script, fault: Fault) -> Script:
    place = _place(script, fault)
    step = script.steps[place]
    start = max(step.data.find(step.event.data[:1] if step.event else b""), 0)
    middle = (start + len(step.data.rstrip())) // 2
    return _cut_inside(script, place, max(middle, start + 1))


def _cut_in_character(script: Script, fault: Fault) -> Script:
    for place, step in enumerate(script.steps[fault.after :], fault.after):
        lead = next((position for position, byte in enumerate(step.data) if byte >= 0xC0), None)
        if lead is not None:
            return _cut_inside(script, place, lead + 1)
    raise FaultError(f"the recording has no character of several bytes after {fault.after} events")


def _stall(script: Script, fault: Fault) -> Script:
    steps = [
        step if place < fault.after else step._replace(at=step.at + fault.seconds)
        for place, step in enumerate(script.steps)
    ]
    return replace(script, steps=tuple(steps), end=_later(script.end, fault.seconds))


def _slow_first(script: Script, fault: Fault) -> Script:
    steps = tuple(step._replace(at=step.at + fault.seconds) for step in script.steps)
    return replace(script, steps=steps, end=_later(script.end, fault.seconds), begin=script.begin + fault.seconds)


def _error_event(script: Script, fault: Fault) -> Script:
    status = fault.status or script.dialect.error_status
    error = script.dialect.error(status, "the server failed while it streamed")
    cut = script.cut(fault.after)
    payload = as_json(script.dialect.error_event(error, len(cut.steps)))
    step = Step(cut.end.at, script.framed(len(cut.steps), payload))
    return replace(cut, steps=(*cut.steps, step), end=Piece(cut.end.at, b"]" if script.as_array else b""))


def _status(script: Script, fault: Fault) -> Script:
    status = fault.status or 429
    waits = status in (429, 503, 529)
    headers = {"retry-after": str(math.ceil(fault.seconds))} if waits else {}
    failed = error_script(script.dialect, status, "the server refuses this request", headers)
    return replace(failed, begin=script.begin)


def _garbage(script: Script, fault: Fault) -> Script:
    page = Step(script.begin, b"<!doctype html>\n<html><body><h1>It works!</h1></body></html>\n")
    return Script(script.dialect, (page,), begin=script.begin, content_type="text/html; charset=utf-8")


def _malformed(script: Script, fault: Fault) -> Script:
    place = _place(script, fault)
    step = script.steps[place]
    payload, name = (step.event.data, step.event.name) if step.event else (step.data.strip(), None)
    half = payload[: max(len(payload) // 2, 1)].decode("utf-8", "ignore").encode()  # broken JSON, but whole text
    broken = step._replace(data=script.framed(place, half, name))
    return replace(script, steps=(*script.steps[:place], broken, *script.steps[place + 1 :]))


class FaultKind(NamedTuple):
    """What a fault does, and which field of ``Fault`` its ``=value`` sets, if any."""

    apply: Callable[[Script, Fault], Script]
    value: str | None


#: The faults by name.
FAULTS: dict[str, FaultKind] = {
    "drop": FaultKind(_drop, "after"),
    "cut": FaultKind(_cut, "after"),
    "cut_in_event": FaultKind(_cut_in_event, "after"),
    "cut_in_character": FaultKind(_cut_in_character, "after"),
    "stall": FaultKind(_stall, "seconds"),
    "slow_first": FaultKind(_slow_first, "seconds"),
    "error_event": FaultKind(_error_event, "after"),
    "status": FaultKind(_status, "status"),
    "garbage": FaultKind(_garbage, None),
    "malformed": FaultKind(_malformed, "after"),
}


def _place(script: Script, fault: Fault) -> int:
    """The place of the event that the fault strikes."""
    if not script.steps:
        raise FaultError(f"the recording has no event for {fault.name} to strike")
    return min(fault.after, len(script.steps) - 1)


def _cut_inside(script: Script, place: int, size: int) -> Script:
    cut = script.cut(place + 1)
    last = cut.steps[-1]
    return replace(cut, steps=(*cut.steps[:-1], last._replace(data=last.data[:size])))


def _later(end: Piece, seconds: float) -> Piece:
    return end._replace(at=end.at + seconds)
