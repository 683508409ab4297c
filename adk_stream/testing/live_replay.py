"""Recordings of Live sessions as conversations: what the server said goes out, what the client said is a cue.

Two forms are read. A recording of the server's side holds its messages alone. One of both sides holds an object
for each frame, ``{"direction": "sent" | "received", "data": {...}}``, as the client saw them.

What the client said is a cue only where the model answers to it: text, calls answered, the end of its own
activity, a run of audio. How much audio a client sends is its own affair: where speech was recorded, it is heard
out; where silence was, or where the user cut in, one chunk will do. Where the client's side is missing, each turn
waits for any input.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from adk_stream.errors import RecordingError
from adk_stream.recording import Recording
from adk_stream.testing.live_client import ClientMessage, Kind
from adk_stream.testing.live_script import Conversation, Frame, Pause, Step, Utterance, Wait
from adk_stream.testing.script import as_json
from adk_stream.wire import decode_json

__all__ = ["is_live", "replay_conversation"]

_LINE = "gemini-live"
# What opens the model's turn. Transcripts of the output do not: they may belong to the turn before.
_OPENING = ("modelTurn", "inputTranscription")
_CUES: tuple[Kind, ...] = ("text", "tool_response", "activity_end", "audio_end")


class _Recorded(NamedTuple):
    """One frame: when it came, and from whom."""

    at: float
    frame: Frame | ClientMessage


def is_live(recording: Recording) -> bool:
    """Whether it is of a Live session, in either form."""
    return recording.provider == _LINE or (
        recording.provider is None and any(_sides(_value(event.data)) for _, event in recording.events()[:1])
    )


def replay_conversation(recording: Recording, *, pace: float = 0.0) -> Conversation:
    """The conversation that a recording holds.

    Args:
        recording: A recording of a Live session.
        pace: What the recorded times between messages are multiplied by; the client's own time is its affair.

    Raises:
        RecordingError: it is of another line.
    """
    if not is_live(recording):
        raise RecordingError(f"{recording.name}: its line is {recording.provider or 'unknown'}, not {_LINE}")
    frames = list(_frames(recording))
    both_sides = any(isinstance(recorded.frame, ClientMessage) for recorded in frames)
    setup, turns = _split(frames)
    steps = _with_cues if both_sides else _with_openings
    model = recording.metadata.get("model")
    names = {recording.name, *([model.rsplit("/", 1)[-1]] if isinstance(model, str) else [])}
    return Conversation(*_turns(steps(turns), pace), setup=setup, names=names)


def _value(data: bytes) -> Any:
    try:
        return decode_json(data)
    except ValueError:
        return None


def _sides(value: Any) -> bool:
    return isinstance(value, dict) and value.get("direction") in ("sent", "received") and "data" in value


def _frames(recording: Recording) -> Iterator[_Recorded]:
    for at, event in recording.events():
        value = _value(event.data)
        if not _sides(value):
            yield _Recorded(at, Frame(event.data))
            continue
        data = value["data"]
        said = data.encode() if isinstance(data, str) else as_json(data)
        if value["direction"] == "received":
            yield _Recorded(at, Frame(said))
        elif isinstance(_value(said), dict):
            yield _Recorded(at, ClientMessage.decode(said))


def _split(frames: list[_Recorded]) -> tuple[list[Frame] | None, list[_Recorded]]:
    """The answer to setup, if it was recorded, and what follows."""
    for place, (_, frame) in enumerate(frames):
        if isinstance(frame, Frame):
            if "setupComplete" in frame.message:
                return [frame], frames[place + 1 :]
            break
    return None, frames


class _Cued(NamedTuple):
    """A step, when it was, and whether a turn may begin with it."""

    at: float
    step: Step
    opens: bool = False


def _with_cues(frames: list[_Recorded]) -> Iterator[_Cued]:
    asked = answering = False  # since the last turn was complete
    for place, (at, frame) in enumerate(frames):
        if isinstance(frame, Frame):
            answering = not frame.completes_turn and (answering or asked or _opens(frame))
            asked = asked and not frame.completes_turn
            yield _Cued(at, frame)
            continue
        cue = _audio_cue(frames, place, answering) if "audio" in frame.kinds else _cue(frame)
        if cue is not None:
            asked = True
            yield _Cued(at, cue, opens=True)


def _cue(message: ClientMessage) -> Wait | None:
    kind = next((kind for kind in _CUES if kind in message.kinds), None)
    ids = tuple(answer["id"] for answer in message.function_responses if isinstance(answer.get("id"), str))
    return None if kind is None else Wait(kind, ids=ids)


def _audio_cue(frames: list[_Recorded], place: int, answering: bool) -> Step | None:
    """What a run of audio is for the server, if it begins there: while it answers, nothing, unless it is cut short."""
    if place and _is_audio(frames[place - 1]):
        return None
    run = list(takewhile(_is_audio, (frames[number] for number in range(place, len(frames)))))
    following = frames[place + len(run)].frame if place + len(run) < len(frames) else None
    if answering:
        cut_short = isinstance(following, Frame) and following.content.get("interrupted")
        return Wait("audio") if cut_short else None
    spoken = any(isinstance(frame, ClientMessage) and "speech" in frame.kinds for _, frame in run)
    return Utterance() if spoken else Wait("audio")


def _is_audio(recorded: _Recorded) -> bool:
    return isinstance(recorded.frame, ClientMessage) and "audio" in recorded.frame.kinds


def _opens(frame: Frame) -> bool:
    return "toolCall" in frame.message or any(name in frame.content for name in _OPENING)


def _with_openings(frames: list[_Recorded]) -> Iterator[_Cued]:
    between = True
    for at, frame in frames:
        if not isinstance(frame, Frame):
            continue
        if between and _opens(frame):
            yield _Cued(at, Wait("input"), opens=True)
            between = False
        yield _Cued(at, frame)
        between = between or frame.completes_turn


def _turns(steps: Iterator[_Cued], pace: float) -> list[list[Step]]:
    """The turns, each from the cue after a complete turn, with the recorded times as pauses."""
    turns: list[list[Step]] = [[]]
    last = 0.0
    complete = False
    for at, step, opens in steps:
        if opens and complete:
            turns.append([])
            complete = False
        if isinstance(step, Frame):
            if pace and at > last:
                turns[-1].append(Pause((at - last) * pace))
            complete = complete or step.completes_turn
        turns[-1].append(step)
        last = at
    return turns
