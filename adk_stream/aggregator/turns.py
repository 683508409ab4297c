"""Live sessions: one stream of many turns, each complete at its own end.

Transcripts are responses of their own. What the user said is given before what it led to: a transcript of the model
becomes final at the end of its turn, at an interruption, or before a tool call, and always after the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from adk_stream.aggregator.ending import end_fields, metadata_fields
from adk_stream.aggregator.heard import heard
from adk_stream.aggregator.state import CandidateState, StreamState, Transcript, TurnState
from adk_stream.metadata import as_wire, merge_nested
from adk_stream.parts import (
    PartAssembler,
    PartDelta,
    StreamChunk,
    StreamedPart,
    TranscriptDelta,
    audio_of,
    encodable,
    fresh,
)

if TYPE_CHECKING:
    from adk_stream.aggregator.core import StreamingResponseAggregator
    from adk_stream.parts import LiveSignal
    from adk_stream.response import LlmResponse

__all__ = ["close_turn", "take_in_turn"]


def take_in_turn(own: StreamingResponseAggregator, chunk: StreamChunk) -> list[LlmResponse]:
    """What a chunk of a live session sets free."""
    state = own._state
    if state.turn is None:
        state.turn = TurnState()
        if state.audio is None:  # transcripts are what is kept of a conversation
            state.candidate.assembler.keep_audio = False
    responses = _take(own, state.turn, chunk)
    turn, assembler = state.turn, state.candidate.assembler
    turn.audio_passes = not (
        turn.interrupted or assembler.keep_audio or (assembler.text_came and state.flush == "boundary")
    )
    return responses


def _take(own: StreamingResponseAggregator, turn: TurnState, chunk: StreamChunk) -> list[LlmResponse]:
    live = chunk.live
    if chunk.parts:
        turn.open = True
        return _take_parts(own, turn, chunk)
    if chunk.transcript is not None:
        return _take_transcript(own, turn, chunk.transcript)
    if chunk.empty and own._state.flush == "boundary":
        return own._take_boundaries(own._state.candidate, chunk)
    if live is None:
        return []
    if live.turn_complete:
        return _complete(own, turn, live)
    responses = []
    if live.interrupted:
        turn.open = turn.interrupted = True
        responses.append(_signal(own, {"interrupted": True}))
    if live.ends_interrupted:
        responses += _flush(own, turn, _finished(own), {"status": "incomplete"})
    if live.cancelled:
        responses.append(_cancel(own, turn, live.cancelled))
    if live.fields or live.told:
        responses.append(_signal(own, _fields_of(live)))
    return responses


def _take_parts(own: StreamingResponseAggregator, turn: TurnState, chunk: StreamChunk) -> list[LlmResponse]:
    """Content: audio and deltas are shown at once, a whole call comes out with everything before it."""
    state = own._state
    candidate = state.candidate
    parts = chunk.parts
    for streamed in parts:
        if not turn.interrupted:
            _note_audio(turn, streamed)
    if turn.interrupted or turn.cancelled:
        parts = [_marked(streamed, turn) for streamed in parts]
        chunk = msgspec.structs.replace(chunk, parts=parts)
    brings_call = any(_is_whole_call(streamed) for streamed in parts)
    before = _flush_said(own, turn, {"status": "in_progress"}) if brings_call else []
    if state.flush == "boundary":
        responses = own._take_boundaries(candidate, chunk)
        if not brings_call and any(not response.partial for response in responses):
            before = _final_transcript(own, turn, "input", {"status": "in_progress"})
        return before + responses
    responses = own._take_partials(candidate, parts)
    return responses + before + own._finals(candidate.assembler.drain()) if brings_call else responses


def _note_audio(turn: TurnState, streamed: StreamedPart) -> None:
    part = streamed.part
    if type(part) is PartDelta and part.whole is not None and streamed.partial:
        audio = audio_of(part.whole)
        if audio is not None:
            turn.add_audio(audio[0], len(audio[1]))


def _is_whole_call(streamed: StreamedPart) -> bool:
    part = streamed.part
    return not streamed.partial and type(part) is PartDelta and part.function_call is not None


def _marked(streamed: StreamedPart, turn: TurnState) -> StreamedPart:
    """Audio of an interrupted turn is not to be played, and a cancelled call not to be run."""
    part = streamed.part
    if type(part) is not PartDelta:
        return streamed
    call = part.function_call
    if call is not None and call.id in turn.cancelled:
        marked = {**(part.part_metadata or {}), "cancelled": True}
    elif turn.interrupted and part.whole is not None and audio_of(part.whole) is not None:
        marked = {**(part.part_metadata or {}), "stale": True}
    else:
        return streamed
    return msgspec.structs.replace(streamed, part=msgspec.structs.replace(part, part_metadata=marked))


# ----------------------------------------------------------------- transcripts


def _take_transcript(own: StreamingResponseAggregator, turn: TurnState, delta: TranscriptDelta) -> list[LlmResponse]:
    if delta.interim:
        return [_partial_transcript(own, delta, delta.text, {"interim": True})] if delta.text else []
    said = turn.said.get(delta.who)
    if said is None:
        said = turn.said[delta.who] = Transcript()
    said.append(delta, turn.audio_ms)
    if delta.text:
        turn.open = True
    visible = said.text.visible(delta.text)
    shown = [_partial_transcript(own, delta, visible)] if visible or delta.finished else []
    if delta.finished and delta.who == "input":
        return shown + _final_transcript(own, turn, "input", {"status": "in_progress"})
    return shown


def _partial_transcript(
    own: StreamingResponseAggregator, delta: TranscriptDelta, text: str, told: dict[str, Any] | None = None
) -> LlmResponse:
    if delta.rest is None and told is None and own._state.model_version is None:
        make_response, make_transcription = _transcript_makers(delta.who)
        return make_response(make_transcription(encodable(text), delta.finished))
    said = _transcription(text, delta.finished, delta.rest or {})
    fields = {f"{delta.who}_transcription": said, "provider_metadata": told, "status": "in_progress"}
    return own._build([], fields, partial=True)


@cache
def _transcript_makers(who: str) -> tuple[Callable[[Any], LlmResponse], Callable[[str, bool], Any]]:
    """Functions that make a partial response of a transcription, and the transcription itself."""
    from google.genai import types

    from adk_stream.response import LlmResponse, Template

    said = types.Transcription(text="", finished=False)
    field = f"{who}_transcription"
    response = LlmResponse.model_validate({"partial": True, "status": "in_progress", field: said})
    return Template(response).maker(field), Template(said).pair_maker("text", "finished")


def _final_transcript(
    own: StreamingResponseAggregator, turn: TurnState, who: str, fields: dict[str, Any]
) -> list[LlmResponse]:
    """The whole transcript so far; the next words begin another."""
    said = turn.said.pop(who, None)
    if said is None or not said.text:
        return []
    fields = merge_nested(fields | _told(own._state), _transcript_fields(turn, who, said))
    if who == "output" and turn.interrupted:
        fields["interrupted"] = True
    return [own._build([], fields)]


def _transcript_fields(turn: TurnState, who: str, said: Transcript) -> dict[str, Any]:
    """A transcript as the fields of a final: of an interrupted turn what was heard, and the whole beside it."""
    text, rest = said.text.join(), said.rest
    if said.words:
        rest = rest | {"words": said.words}
    fields: dict[str, Any] = {f"{who}_transcription": _transcription(text, True, rest)}
    if who == "output" and turn.interrupted and turn.played_ms is not None:
        played = heard(text, said.anchors, turn.audio_ms, turn.played_ms)
        if played != text:
            fields[f"{who}_transcription"] = _transcription(played, True, rest)
            fields["provider_metadata"] = {"whole_output_transcription": text}
    return fields


def _transcription(text: str, finished: bool, rest: dict[str, Any]) -> Any:
    from google.genai import types

    from adk_stream.response import read_lenient

    said, _ = read_lenient(types.Transcription, fresh(rest)) if rest else (None, None)
    said = said or types.Transcription()
    said.text, said.finished = encodable(text), finished
    return said


# ----------------------------------------------------------------- ends


def _flush_said(own: StreamingResponseAggregator, turn: TurnState, fields: dict[str, Any]) -> list[LlmResponse]:
    return _final_transcript(own, turn, "input", fields) + _final_transcript(own, turn, "output", fields)


def _flush(
    own: StreamingResponseAggregator, turn: TurnState, parts: list[Any], fields: dict[str, Any]
) -> list[LlmResponse]:
    """Everything of the turn that no final carried yet: the user's words, the content, the model's words."""
    responses = _final_transcript(own, turn, "input", fields)
    if parts:
        interrupted = {"interrupted": True} if turn.interrupted else {}
        responses.append(own._build(parts, fields | _told(own._state) | interrupted))
    return responses + _final_transcript(own, turn, "output", fields)


def _finished(own: StreamingResponseAggregator) -> list[Any]:
    """All parts that are still held; a refusal among them is remembered for the turn's status."""
    parts = own._state.candidate.assembler.finish()
    own._note_refusal(parts)
    return parts


def _complete(own: StreamingResponseAggregator, turn: TurnState, live: LiveSignal) -> list[LlmResponse]:
    """The turn's finals, the ``turn_complete`` response with status and usage, and a fresh state for the next."""
    state = own._state
    parts = _finished(own)
    end = _end_fields(state, turn)
    responses = _flush(own, turn, parts, {"status": end["status"]})
    end = merge_nested(end | metadata_fields(state), _fields_of(live)) | {"turn_complete": True}
    responses.append(own._build([], end))
    _next_turn(own, turn)
    return responses


def _end_fields(state: StreamState, turn: TurnState) -> dict[str, Any]:
    if turn.interrupted and state.error is None:
        return {"status": "incomplete", "interrupted": True}
    return end_fields(state.candidate, state.error, state.candidate.refused)


def _next_turn(own: StreamingResponseAggregator, turn: TurnState) -> None:
    """Nothing of a turn goes over into the next."""
    state = own._state
    fresh_assembler = PartAssembler(keep_audio=state.candidate.assembler.keep_audio, limits=state.limits)
    state.candidate = CandidateState(fresh_assembler, index=state.candidate.index)
    state.turn = TurnState(complete=turn.complete + 1)
    state.usage, state.provider_metadata = {}, {}


def close_turn(state: StreamState, fields: dict[str, Any], fault: bool) -> dict[str, Any] | None:
    """The fields that the session's end adds to the last final; None where there is nothing left to tell.

    Args:
        state: The stream's, as it was at the end.
        fields: Those of the final so far, which says that the stream was cut.
        fault: The session ended with an error.
    """
    turn = state.turn or TurnState()
    said = {who: transcript for who, transcript in turn.said.items() if transcript.text}
    if not (turn.open or said or fault) and turn.complete:
        if not state.usage:
            return None
        fields = {**fields, "status": "completed", "error_code": None, "error_message": None}
    for who, transcript in said.items():
        fields = merge_nested(fields, _transcript_fields(turn, who, transcript))
    if turn.interrupted:
        fields["interrupted"] = True
    return fields


def _cancel(own: StreamingResponseAggregator, turn: TurnState, ids: list[str]) -> LlmResponse:
    turn.cancelled += ids
    own._state.candidate.assembler.cancel(ids)
    return own._build([], {"status": "in_progress"} | _told(own._state, {"tool_call_cancellation": {"ids": list(ids)}}))


def _signal(own: StreamingResponseAggregator, fields: dict[str, Any]) -> LlmResponse:
    return own._build([], {"status": "in_progress"} | fields, partial=True)


def _told(state: StreamState, told: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"provider_metadata": ({"provider": state.provider} if state.provider else {}) | (told or {})}


#: Fields of LlmResponse that are objects of google-genai.
_MODELS = {
    "live_session_resumption_update": "LiveServerSessionResumptionUpdate",
    "go_away": "LiveServerGoAway",
    "voice_activity": "VoiceActivity",
}


def _fields_of(live: LiveSignal) -> dict[str, Any]:
    """A signal's fields as LlmResponse takes them; what those cannot hold goes beside."""
    from google.genai import types

    from adk_stream.response import read_lenient

    fields: dict[str, Any] = {}
    told = fresh(live.told or {})
    for name, value in fresh(live.fields or {}).items():
        if name not in _MODELS:
            fields[name] = value
            continue
        fields[name], leftover = read_lenient(getattr(types, _MODELS[name]), as_wire(value))
        if leftover:
            told[name] = leftover
    return fields | ({"provider_metadata": told} if told else {})
