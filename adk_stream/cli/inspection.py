"""What happened in a recorded stream: parts over time, how it ended, and what is wrong with it.

The events go through the same reader and aggregator as everywhere, one by one, so that each fact has the number
of its event. Nothing is printed here; ``inspect`` draws the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.errors import MalformedStreamError, UnknownLineError
from adk_stream.metadata import as_wire
from adk_stream.parts import (
    AudioSlot,
    CallSlot,
    PartAssembler,
    Slot,
    StreamChunk,
    StreamedPart,
    TextSlot,
    WholeSlot,
    part_delta,
)
from adk_stream.providers.line import Line
from adk_stream.recording import Recording
from adk_stream.wire import BytesDecoder, decode_json

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["End", "Finding", "Gap", "Moment", "PartReport", "Report", "inspect_recording"]

_EXCERPT = 60
_TAIL = 80
_GAPS = 3


@dataclass(frozen=True)
class Moment:
    """An event by its number (from 1), and when it arrived, in seconds; None where the recording has no times."""

    event: int
    at: float | None = None


@dataclass(frozen=True)
class Gap:
    """A wait for ``event``, in seconds; for event 1 since the start of the recording."""

    event: int
    seconds: float


@dataclass(frozen=True)
class End:
    """Where the bytes stop: in or after this event, after so many bytes, and whether in the middle of it."""

    event: int
    byte: int
    inside_event: bool


@dataclass(frozen=True)
class PartReport:
    """One part of the response.

    Attributes:
        candidate: The candidate (choice) it belongs to.
        index: Its index, as the reader numbers it.
        kind: ``text``, ``thought``, ``call``, ``audio`` or ``whole``.
        name: The tool of a call, the kind of a whole part, the mime type of audio.
        call_id: The id of a call.
        first, last: The events that began it and that said the last of it.
        deltas: How many events spoke of it.
        size: Characters of text, arguments or content; bytes of audio.
        complete: False for a call or tool that was left open.
        signed: It bears a thought signature (or encrypted reasoning).
        excerpt: How it begins.
    """

    candidate: int
    index: int
    kind: str
    first: Moment
    last: Moment
    deltas: int
    size: int
    complete: bool
    signed: bool
    excerpt: str
    name: str | None = None
    call_id: str | None = None


@dataclass(frozen=True)
class Finding:
    """Something that whoever looks into this stream wants to know.

    Attributes:
        code: ``open_call``, ``unreadable_arguments``, ``missing_reasoning``, ``ended_incomplete``,
            ``bytes_stopped``, ``malformed_event``, ``error_in_stream``, ``nothing_came``.
        text: A sentence.
        event: The event it is about.
        byte: The offset in the stream it is about.
        call_name, call_id: The call it is about.
        excerpt: Of the raw text: its end for arguments, its beginning for an event.
    """

    code: str
    text: str
    event: int | None = None
    byte: int | None = None
    call_name: str | None = None
    call_id: str | None = None
    excerpt: str | None = None


@dataclass(frozen=True)
class Report:
    """What happened in one stream.

    Attributes:
        name: The recording's name.
        provider: The line; None when no event told it.
        wire_format: ``sse``, ``json-lines`` or ``json-array``.
        events, bytes: How many there are in the recording.
        seconds: From the start to the last event; None where the recording has no times.
        first_token: The event with the first text, thought, call or other part.
        gaps: The longest waits, longest first; empty without times.
        parts: In the order in which they began.
        status, error_code, error_message, finish_reason, native_finish_reason, usage, model, response_id: As the
            aggregator's final tells; ``usage`` in Gemini's words.
        finish_event: The event that gave the finish reason.
        end: Where the bytes stop.
        findings: What is wrong or strange, in the order of importance.
    """

    name: str
    provider: str | None
    wire_format: str
    events: int
    bytes: int
    end: End
    status: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    finish_event: int | None = None
    model: str | None = None
    response_id: str | None = None
    seconds: float | None = None
    first_token: Moment | None = None
    gaps: tuple[Gap, ...] = ()
    parts: tuple[PartReport, ...] = ()
    usage: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def inspect_recording(recording: Recording, provider: str = "auto") -> Report:
    """Read the whole recording, as far as it can be read.

    Args:
        recording: Of any line.
        provider: The line, or ``"auto"`` for the recording's own word or what its events tell.

    Raises:
        UnknownLineError: no event tells the provider.
        ValueError: there is no such provider.
    """
    events = recording.by_event()
    told = provider if provider != "auto" else recording.provider or "auto"
    reading = _Reading(events, told)
    reading.run()
    final = reading.final
    data = recording.data
    end = _end(data, recording.wire_format, reading.total)
    timed = bool(events.pieces) and events.pieces[-1].at > 0
    parts = tuple(track.report() for track in reading.timeline.tracks)
    return Report(
        name=recording.name,
        provider=reading.line.provider,
        wire_format=recording.wire_format,
        events=reading.total,
        bytes=len(data),
        end=end,
        status=final.status if final else None,
        error_code=final.error_code if final else None,
        error_message=final.error_message if final else None,
        finish_reason=reading.finish_reason,
        native_finish_reason=final.native_finish_reason if final else None,
        finish_event=reading.finish_event,
        model=final.model_version if final else None,
        response_id=final.response_id if final else None,
        seconds=events.pieces[-1].at if timed else None,
        first_token=reading.timeline.first_token,
        gaps=_longest_gaps([piece.at for piece in events.pieces]) if timed else (),
        parts=parts,
        usage=_usage(final),
        findings=tuple(_findings(reading, parts, end, final)),
    )


# ----------------------------------------------------------------- reading


class _Reading:
    """One pass over the events, stopping where ``aggregate`` stops: at an error, or at what cannot be read."""

    def __init__(self, events: Recording, provider: str) -> None:
        self.line = Line(provider)
        self.timeline = _Timeline()
        self.final: LlmResponse | None = None
        self.malformed: MalformedStreamError | None = None
        self.error: tuple[int, str | None, str | None] | None = None  # event, code, message
        self.finish_reason: str | None = None
        self.finish_event: int | None = None
        self.total = 0
        self._pieces = events.pieces
        self._timed = bool(events.pieces) and events.pieces[-1].at > 0
        self._aggregator = StreamingResponseAggregator(flush="close")

    def run(self) -> None:
        problem: MalformedStreamError | None = None
        try:
            for at, chunks in self._chunks():
                self._aggregator.speaks(self.line.provider)
                moment = Moment(max(self.line.event_count, 1), at if self._timed else None)
                if any(self._take(chunk, moment) for chunk in chunks):
                    break
        except UnknownLineError:
            raise
        except MalformedStreamError as caught:
            problem = self.malformed = caught
        if problem is None:
            self.final = self._aggregator.close()
        else:
            self.final = self._aggregator.close_early(self.line.rest(), problem)
        self.total = len(self._pieces) if self.line.event_count else 0

    def _chunks(self) -> Iterator[tuple[float, Sequence[StreamChunk]]]:
        at = 0.0
        for at, data in self._pieces:
            self._aggregator.speaks(self.line.provider)
            for chunks in self.line.feed(data):
                yield at, chunks
        for chunks in self.line.close():
            yield at, chunks

    def _take(self, chunk: StreamChunk, moment: Moment) -> bool:
        """Take a chunk in; True when it ends the stream with an error."""
        self._aggregator.take(chunk)
        self.timeline.take(chunk, moment)
        if chunk.finish_reason or chunk.native_finish_reason:
            self.finish_reason, self.finish_event = chunk.finish_reason, moment.event
        if chunk.error is None:
            return False
        self.error = (moment.event, chunk.error.code, chunk.error.message)
        return True

    def start_of(self, event: int) -> int:
        """The offset of an event's first byte."""
        return sum(len(piece.data) for piece in self._pieces[: event - 1])


class _Track:
    """A part as it grows."""

    def __init__(self, candidate: int, index: int, slot: Slot, moment: Moment) -> None:
        self.candidate, self.index, self.slot = candidate, index, slot
        self.first = self.last = moment
        self.deltas = 0

    def report(self) -> PartReport:
        kind, name, content, size = _described(self.slot)
        slot = self.slot
        return PartReport(
            candidate=self.candidate,
            index=self.index,
            kind=kind,
            first=self.first,
            last=self.last,
            deltas=self.deltas,
            size=size,
            complete=slot.complete or isinstance(slot, (TextSlot, AudioSlot)),
            signed=_is_signed(slot),
            excerpt=content[:_EXCERPT] + ("…" if len(content) > _EXCERPT else ""),
            name=name,
            call_id=slot.id if isinstance(slot, CallSlot) else None,
        )


class _Timeline:
    """Which events spoke of which part. The assembler tells what goes where; each candidate has its own."""

    def __init__(self) -> None:
        self.tracks: list[_Track] = []
        self.first_token: Moment | None = None
        self._assemblers: dict[int, PartAssembler] = {}
        self._by_place: dict[tuple[int, int, int], _Track] = {}
        self._by_slot: dict[int, _Track] = {}
        self._response_id: str | None = None

    def take(self, chunk: StreamChunk, moment: Moment) -> None:
        self._response_id = chunk.response_id or self._response_id
        for streamed in chunk.parts:
            if self.first_token is None and _shows(streamed):
                self.first_token = moment
            self._add(chunk.candidate_index, streamed, moment)

    def _add(self, candidate: int, streamed: StreamedPart, moment: Moment) -> None:
        assembler = self._assemblers.setdefault(candidate, PartAssembler())
        slot = assembler.add(streamed, self._response_id)
        if slot is None or streamed.index is None:
            return
        track = self._by_slot.get(id(slot))
        if track is None:
            track = self._place(candidate, streamed.index, assembler, slot, moment)
        track.last = moment
        track.deltas += 1

    def _place(self, candidate: int, index: int, assembler: PartAssembler, slot: Slot, moment: Moment) -> _Track:
        """The track of a slot seen for the first time: a new one, or that of the slot it replaced."""
        groups = assembler.groups
        number = next((n for n in reversed(range(len(groups))) if groups[n].slots.get(index) is slot), -1)
        place = (candidate, number, index)
        track = self._by_place.get(place)
        if track is None:
            track = self._by_place[place] = _Track(candidate, index, slot, moment)
            self.tracks.append(track)
        else:
            self._by_slot.pop(id(track.slot), None)
            track.slot = slot
        self._by_slot[id(slot)] = track
        return track


def _shows(streamed: StreamedPart) -> bool:
    delta = part_delta(streamed.part)
    return bool(delta.text or delta.function_call or delta.whole is not None)


def _described(slot: Slot) -> tuple[str, str | None, str, int]:
    """(kind, name, content as text, size)"""
    if isinstance(slot, TextSlot):
        text = slot.text.join()
        return "thought" if slot.thought else "text", None, text, len(text)
    if isinstance(slot, CallSlot):
        args, raw, _ = slot.arguments()
        content = _json(args) if args is not None else raw or ""
        return "call", slot.name, content, len(content)
    if isinstance(slot, AudioSlot):
        return "audio", slot.mime_type, "", sum(map(len, slot.data))
    part = slot.part if isinstance(slot.part, dict) else as_wire(slot.part)
    name, inner = next(((key, value) for key, value in part.items() if isinstance(value, dict)), (None, {}))
    return "whole", name, _json(inner), sum(map(len, _strings(inner)))


def _is_signed(slot: Slot) -> bool:
    if isinstance(slot, (TextSlot, CallSlot)):
        return bool(slot.signature)
    return isinstance(slot, WholeSlot) and isinstance(slot.part, dict) and bool(slot.part.get("thoughtSignature"))


def _strings(value: Any) -> Iterator[str | bytes]:
    """What a JSON value holds of text and data."""
    if isinstance(value, (str, bytes)):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_weighed)


def _weighed(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


# ----------------------------------------------------------------- where it stops, and how long it took


def _end(data: bytes, wire_format: str, events: int) -> End:
    """Where the bytes stop. A last event that lacks only its blank line is whole."""
    decoder = BytesDecoder(max_event_bytes=len(data) + 1)
    decoder.feed(data)
    left = decoder.close()
    if left:
        return End(events, len(data), not _is_whole(left[-1].data))
    begun = wire_format == "sse" and any(
        line.strip() and not line.startswith(b":") for line in _LINE_END.split(_BLANK_LINE.split(data)[-1])
    )
    return End(events + begun, len(data), begun)  # what has begun and holds no data yet is counted nowhere else


_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def _is_whole(payload: bytes) -> bool:
    if payload == b"[DONE]":
        return True
    try:
        decode_json(payload)
    except ValueError:
        return False
    return True


def _longest_gaps(arrivals: Sequence[float]) -> tuple[Gap, ...]:
    waits = [
        Gap(number, round(at - before, 6))
        for number, (before, at) in enumerate(zip([0.0, *arrivals], arrivals, strict=False), 1)
    ]
    longest = sorted(waits, key=lambda gap: (-gap.seconds, gap.event))[:_GAPS]
    return tuple(gap for gap in longest if gap.seconds > 0)


def _usage(final: LlmResponse | None) -> dict[str, Any]:
    if final is None or final.usage_metadata is None:
        return {}
    return final.usage_metadata.model_dump(mode="json", by_alias=True, exclude_none=True)


# ----------------------------------------------------------------- findings


def _findings(reading: _Reading, parts: Sequence[PartReport], end: End, final: LlmResponse | None) -> Iterator[Finding]:
    if reading.error is not None:
        yield _error(reading, reading.error)
    if reading.malformed is not None:
        yield _malformed(reading, reading.malformed)
    if final is None:
        yield Finding("nothing_came", "the recording holds no event")
    elif final.error_code == "STREAM_CUT" or end.inside_event:
        yield _stopped(reading, end)
    yield from _ended_incomplete(reading, final)
    for track in reading.timeline.tracks:
        yield from _call_findings(track)
    yield from _reasoning(parts, _usage(final))


def _error(reading: _Reading, error: tuple[int, str | None, str | None]) -> Finding:
    event, code, message = error
    said = ": ".join(filter(None, (code, message))) or "without a word about it"
    after = reading.total - event
    more = f"; {after} more event{'s' * (after > 1)} after it" if after > 0 else ""
    return Finding("error_in_stream", f"the provider reports an error in event {event}: {said}{more}", event)


def _malformed(reading: _Reading, problem: MalformedStreamError) -> Finding:
    event = problem.event_number or max(reading.line.event_count, 1)
    byte = reading.start_of(event)
    after = reading.total - event
    more = f"; {after} more event{'s' * (after > 1)} after it" if after > 0 else ""
    text = f"event {event} of {reading.total} (from byte {byte}) cannot be read: {problem.reason}{more}"
    return Finding("malformed_event", text, event, byte, excerpt=problem.excerpt or None)


def _stopped(reading: _Reading, end: End) -> Finding:
    if end.inside_event:
        where = f"inside event {end.event}"
    else:
        where = f"after event {end.event}, between two events" if end.event else "before any event"
    sign = "" if reading.finish_event else ", and no finish reason had come"
    return Finding("bytes_stopped", f"the bytes stop at {end.byte}, {where}{sign}", end.event or None, end.byte)


def _ended_incomplete(reading: _Reading, final: LlmResponse | None) -> Iterator[Finding]:
    """The response itself had ended short, whatever happened to the stream after that."""
    if final is None or reading.finish_event is None:
        return
    ours, native = reading.finish_reason, final.native_finish_reason
    if (ours == "STOP" and final.status != "incomplete") or (ours == "STOP" and final.error_code == "STREAM_CUT"):
        return
    code = final.error_code if final.status == "incomplete" and final.error_code != "STREAM_CUT" else ours
    word = code or ours or native or "OTHER"
    spelt = f" (the provider's word: {native})" if native and native != word else ""
    said = f": {final.error_message}" if final.status == "incomplete" and final.error_message else ""
    text = f"the response had ended incomplete in event {reading.finish_event}: {word}{spelt}{said}"
    yield Finding("ended_incomplete", text, reading.finish_event)


def _call_findings(track: _Track) -> Iterator[Finding]:
    slot = track.slot
    if not isinstance(slot, CallSlot):
        return
    args, raw, problem = slot.arguments()
    if slot.complete and args is not None:
        return
    text = raw if raw is not None else _json(args)
    name = f"{slot.name or 'a call without a name'}" + (f" ({slot.id})" if slot.id else "")
    if slot.complete:
        code, said = "unreadable_arguments", f"the arguments of {name} are no JSON object"
    else:
        code, said = "open_call", f"the arguments of {name} never closed; the last of them came in event"
        said += f" {track.last.event}"
    said += f": {problem}" if problem else ""
    yield Finding(code, said, track.last.event, None, slot.name, slot.id, text[-_TAIL:] or None)


def _reasoning(parts: Sequence[PartReport], usage: Mapping[str, Any]) -> Iterator[Finding]:
    counted = usage.get("thoughtsTokenCount") or 0
    if not counted or any(part.kind == "thought" and part.size for part in parts):
        return
    signed = [part for part in parts if part.signed]
    instead = f", only a signature in event {signed[0].last.event}" if signed else ""
    yield Finding(
        "missing_reasoning",
        f"usage counts {counted} tokens of thought, but no thought text came{instead}",
        signed[0].last.event if signed else None,
    )
