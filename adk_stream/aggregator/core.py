"""The aggregator itself: what a chunk adds, and which responses it sets free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from adk_stream.aggregator.ending import as_words, end_fields, fault_of, metadata_fields
from adk_stream.aggregator.growing import Grower, grower_of
from adk_stream.aggregator.shown import Shell, audio_part, is_audio, is_refusal, is_run, shown_part
from adk_stream.aggregator.state import CandidateState, StreamState, TurnState
from adk_stream.aggregator.turns import close_turn, take_in_turn
from adk_stream.errors import EmptyResponseError, SnapshotError
from adk_stream.metadata import as_wire, merge_into, take_snapshot
from adk_stream.parts import AudioDelta, Growth, PartAssembler, ShortChunk, StreamChunk, StreamLimits
from adk_stream.providers.gemini import GeminiReader, is_empty
from adk_stream.providers.gemini_live import LiveReader

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.parts import StreamedPart
    from adk_stream.response import LlmResponse

__all__ = ["Audio", "Flush", "StreamingResponseAggregator"]

Flush = Literal["boundary", "close"]
Audio = Literal["join", "drop"]


@cache
def _kind_of(cls: type) -> str | None:
    """Which of google-genai's two classes of messages this is, or a subclass of; by name, to import neither."""
    return next((each.__name__ for each in cls.__mro__ if each.__name__ in _KINDS), None)


_KINDS = ("GenerateContentResponse", "LiveServerMessage")


class StreamingResponseAggregator:
    """Aggregates one stream; after ``close()`` it is empty and may be used for the next. Not thread-safe.

    Args:
        flush: ``"boundary"`` or ``"close"``; see the module.
        candidate_index: The candidate (choice) that is aggregated; the others are left out. If it is 0 and the
            stream holds one candidate only, that one is taken whatever its index.
        audio: ``"join"`` joins the audio deltas of one mime type into one part of a final, ``"drop"`` leaves
            them out of the finals (they are always shown as partials). None: join, in a live session drop.
        limits: Bounds on what one response may hold.

    Raises:
        ValueError: an argument is none of the values above.
    """

    def __init__(
        self,
        flush: Flush = "boundary",
        candidate_index: int = 0,
        audio: Audio | None = None,
        *,
        limits: StreamLimits | None = None,
    ) -> None:
        if flush not in get_args(Flush):
            raise ValueError(f"flush is 'boundary' or 'close', not {flush!r}")
        if audio is not None and audio not in get_args(Audio):
            raise ValueError(f"audio is 'join', 'drop' or None, not {audio!r}")
        if not isinstance(candidate_index, int) or candidate_index < 0:
            raise ValueError(f"candidate_index is an index from 0, not {candidate_index!r}")
        self._state = StreamState.fresh(flush, candidate_index, audio, limits or StreamLimits())
        self._shell: Shell | None = None
        self._growers: dict[int, Grower] = {}  # by the part's place; only until the next chunk of another kind

    def process_response(self, chunk: Any) -> Iterator[LlmResponse]:
        """Take a chunk in, and give the responses it leads to.

        The chunk is taken in at the call: the iterator may be left unconsumed, and nothing is lost.

        Args:
            chunk: A google-genai ``GenerateContentResponse`` or ``LiveServerMessage`` (read as it is, never changed),
                or a StreamChunk.

        Raises:
            EmptyResponseError: an object with no candidates, no prompt feedback and no usage.
            StreamLimitError: the response is larger than the limits allow.
            TypeError: an object of another kind.
        """
        if type(chunk) is StreamChunk:
            return iter(self.take(chunk))
        state = self._state
        if state.turn is not None:
            audio = self._audio_as_it_is(chunk, state, state.turn)
            if audio is not None:
                return iter((audio,))
        growth = None if state.sdk_reader is None else state.sdk_reader.grow_object(chunk)
        if growth is not None:
            return iter(self._grow(growth))
        chunks = self._reader_of(chunk).read_object(chunk)
        if len(chunks) == 1:
            return iter(self.take(chunks[0]))
        return iter([response for each in chunks for response in self.take(each)])

    def _reader_of(self, chunk: Any) -> GeminiReader | LiveReader:
        """The reader of a google-genai object's kind; the first object opens it."""
        state, kind = self._state, _kind_of(chunk.__class__)
        if kind == "LiveServerMessage":
            if state.live_reader is None:
                state.live_reader, state.provider = LiveReader(), "gemini-live"
            return state.live_reader
        if kind is None:
            kinds = "a GenerateContentResponse, a LiveServerMessage or a StreamChunk"
            raise TypeError(f"a chunk is {kinds}, not {type(chunk).__name__}")
        if is_empty(chunk):
            raise EmptyResponseError("a response with no candidates, no prompt feedback and no usage")
        if state.sdk_reader is None:
            state.sdk_reader, state.provider = GeminiReader(), "gemini"
        return state.sdk_reader

    @property
    def terminal(self) -> bool:
        """The terminal sign was seen; never of a live session, where another turn may follow."""
        return self._state.candidate.terminal and self._state.turn is None

    def speaks(self, provider: str | None) -> None:
        """Something came, on this line; finals tell it in ``provider_metadata["provider"]``."""
        self._state.provider = provider
        self._state.seen = True

    def _grow(self, growth: Growth) -> list[LlmResponse]:
        state = self._state
        grow = self._growers.get(growth.index) if growth.candidate_index == state.candidate.index else None
        if grow is None:
            grow = self._grower(growth)
            if grow is None:
                return self.take(growth.chunk())
        if growth.usage is not None:
            state.usage.update(growth.usage)
        partial = grow(growth)
        return [] if partial is None else [partial]

    def _grower(self, growth: Growth) -> Grower | None:
        state = self._state
        if state.turn is not None or growth.candidate_index != state.candidate.index:
            return None
        shell = self._shell or self._new_shell()
        grower = grower_of(growth, state.candidate.assembler, state.response_id, shell)
        if grower is not None:
            self._growers[growth.index] = grower
        return grower

    def take(self, chunk: StreamChunk | ShortChunk) -> list[LlmResponse]:
        """``process_response`` of a StreamChunk, as a list."""
        if isinstance(chunk, Growth):
            return self._grow(chunk)
        if self._growers:
            self._growers.clear()
        state = self._state
        if isinstance(chunk, AudioDelta):
            if state.turn is not None and state.turn.audio_passes:
                state.turn.add_audio(chunk.mime_type, len(chunk.data))
                return [self._partial([audio_part(chunk.mime_type, chunk.data)])]
            chunk = chunk.chunk()
        state.seen = True
        if chunk.response_id and chunk.response_id != state.response_id:
            response_id = as_words(chunk.response_id)
            if response_id != state.response_id:
                if state.response_id is not None and chunk.parts:
                    state.candidate.terminal = False  # another response begins, and has an end of its own
                state.response_id, self._shell = response_id, None
        if chunk.model_version and chunk.model_version != state.model_version:
            state.model_version, self._shell = as_words(chunk.model_version), None
        if chunk.usage_metadata is not None:
            take_snapshot(state.usage, as_wire(chunk.usage_metadata))
        if chunk.provider_metadata is not None:
            merge_into(state.provider_metadata, chunk.provider_metadata)
        if chunk.error is not None and state.error is None:
            state.error = chunk.error
        parts = chunk.parts
        if not (
            parts
            or chunk.terminal
            or chunk.empty
            or chunk.native_finish_reason
            or chunk.metadata
            or chunk.transcript is not None
            or chunk.live is not None
        ):
            return []
        if chunk.candidate_index != state.candidate.index and not self._choose(chunk.candidate_index):
            return []
        candidate = state.candidate
        if chunk.role and chunk.role != candidate.role:
            candidate.role, self._shell = as_words(chunk.role), None
        if chunk.terminal or chunk.native_finish_reason or chunk.metadata is not None:
            self._take_end(candidate, chunk)
        if state.turn is not None or chunk.live is not None:
            return take_in_turn(self, chunk)
        if state.flush == "close" or candidate.index != state.wanted:
            responses = self._take_partials(candidate, parts)
        else:
            responses = self._take_boundaries(candidate, chunk)
        if chunk.transcript is not None:
            candidate.transcript.append(chunk.transcript.text)
            heard = candidate.transcript.visible(chunk.transcript.text)
            responses += [self._partial_transcript(heard)] if heard else []
        return responses

    def playback_position(self, ms: float) -> None:
        """How much of the model's audio in this turn of a live session the user has heard, in milliseconds.

        If the turn is interrupted, its transcript is cut to the words that were played; the whole stays in
        ``provider_metadata["whole_output_transcription"]``. To be told before the interruption is taken in.
        """
        if self._state.turn is not None:
            self._state.turn.played_ms = float(ms)

    def _choose(self, index: int) -> bool:
        """Is this the candidate that is aggregated? Another than the wanted is taken until the wanted comes."""
        state = self._state
        if index == state.wanted:
            if state.candidate.index is not None:  # it was another's: begin anew
                state.candidate = CandidateState(PartAssembler(keep_audio=state.audio != "drop", limits=state.limits))
                self._shell = None
            state.candidate.index = index
            return True
        if state.wanted == 0 and state.candidate.index is None:
            state.candidate.index = index
            return True
        return False

    def _take_end(self, candidate: CandidateState, chunk: StreamChunk) -> None:
        if chunk.metadata is not None:
            candidate.metadata.add({name: as_wire(value) for name, value in chunk.metadata.items()})
        if chunk.finish_reason or (chunk.native_finish_reason and not candidate.terminal):
            candidate.finish_reason = chunk.finish_reason
            candidate.native_finish_reason = chunk.native_finish_reason
            candidate.finish_code = chunk.finish_code
            candidate.finish_message = chunk.finish_message
        if chunk.terminal:
            candidate.terminal = True

    # ------------------------------------------------------------- flush="close"

    def _take_partials(self, candidate: CandidateState, parts: Sequence[StreamedPart]) -> list[LlmResponse]:
        """One partial for everything that the chunk has to show."""
        state = self._state
        assembler, response_id = candidate.assembler, state.response_id
        if len(parts) == 1:
            only = shown_part(parts[0], assembler.add(parts[0], response_id))
            return [] if only is None else [self._partial([only])]
        shown = []
        for streamed in parts:
            part = shown_part(streamed, assembler.add(streamed, response_id))
            if part is not None:
                shown.append(part)
        return [self._partial(shown)] if shown else []

    def _partial(self, parts: list[types.Part]) -> LlmResponse:
        shell = self._shell or self._new_shell()
        return shell.response_with(shell.content_with(parts))

    def _audio_as_it_is(self, message: Any, state: StreamState, turn: TurnState) -> LlmResponse | None:
        """Audio of a live session, fifty times a second: google-genai's own content, given on; None for all else."""
        if state.live_reader is None or not turn.audio_passes:
            return None
        found = state.live_reader.audio_object(message)
        if found is None:
            return None
        content, mime_type, size = found
        if mime_type == turn.audio_type:
            turn.audio_bytes += size
        else:
            turn.add_audio(mime_type, size)
        return (self._shell or self._new_shell()).response_with(content)

    def _new_shell(self) -> Shell:
        state = self._state
        self._shell = Shell(state.candidate.role, state.model_version, state.response_id)
        return self._shell

    def _partial_transcript(self, text: str) -> LlmResponse:
        from google.genai import types

        from adk_stream.response import LlmResponse

        state = self._state
        return LlmResponse(
            output_transcription=types.Transcription(text=text, finished=False),
            partial=True,
            status="in_progress",
            model_version=state.model_version,
            response_id=state.response_id,
        )

    # ------------------------------------------------------------- flush="boundary"

    def _take_boundaries(self, candidate: CandidateState, chunk: StreamChunk) -> list[LlmResponse]:
        """Partials, and before what ends a run the run itself; each response wholly partial or wholly final."""
        assembler, response_id = candidate.assembler, self._state.response_id
        responses: list[LlmResponse] = []
        shown: list[types.Part] = []
        whole = False  # complete parts were added and not yet given out
        for streamed in chunk.parts:
            audio = is_audio(streamed)
            if whole and streamed.partial:
                responses += self._finals(assembler.drain())
                whole = False
            if audio and assembler.text_came:
                responses += self._flush_shown(shown) + self._finals(assembler.drain())
            slot = assembler.add(streamed, response_id)
            if slot is not None and not streamed.partial:
                responses += self._flush_shown(shown)
                whole = True
                continue
            part = shown_part(streamed, slot)
            if part is not None:
                shown.append(part)
        responses += self._flush_shown(shown)
        if whole or chunk.empty:
            responses += self._finals(assembler.drain())
        if chunk.empty:
            responses.append(self._partial([]))
        return responses

    def _flush_shown(self, shown: list[types.Part]) -> list[LlmResponse]:
        if not shown:
            return []
        parts = shown.copy()
        shown.clear()
        return [self._partial(parts)]

    def _finals(self, parts: list[types.Part]) -> list[LlmResponse]:
        """Runs of text, thought and audio, and runs of complete parts, each as one final response."""
        runs: list[list[types.Part]] = []
        for part in parts:
            if not runs or is_run(runs[-1][-1]) is not is_run(part):
                runs.append([])
            runs[-1].append(part)
        self._note_refusal(parts)
        provider = self._state.provider
        metadata = {"provider_metadata": {"provider": provider}} if provider else {}
        return [self._build(run, {"status": "in_progress", **metadata}) for run in runs]

    # ------------------------------------------------------------- the end

    def close(self, error: BaseException | None = None) -> LlmResponse | None:
        """End the stream: the final that bears status, finish reason, usage and what no earlier final carried.

        Args:
            error: Why the stream ends, when it does not end by itself: a cancellation (``CancelledError``,
                ``GeneratorExit``, ``KeyboardInterrupt``) gives ``cancelled``; anything else ``failed``.

        Returns:
            The final, or None when nothing had come (then an error leaves no trace here either).
        """
        state = self._state
        self._state = StreamState.fresh(state.flush, state.wanted, state.audio, state.limits)
        self._shell = None
        self._growers.clear()
        if not state.seen and error is None:
            return None
        candidate = state.candidate
        parts = candidate.assembler.finish()
        fault = state.error or (None if error is None else fault_of(error))
        if not state.seen and fault is not None and fault.status == "cancelled":
            return None
        refused = candidate.refused or any(map(is_refusal, parts))
        fields = end_fields(candidate, fault, refused)
        fields.update(metadata_fields(state))
        if state.turn is not None:
            at_end = close_turn(state, fields, fault is not None)
            if at_end is None:
                return None
            fields = at_end
        if candidate.transcript:
            from google.genai import types

            fields["output_transcription"] = types.Transcription(text=candidate.transcript.join(), finished=True)
        return self._build(parts, fields, state)

    def close_early(self, rest: Iterable[StreamChunk], error: BaseException) -> LlmResponse | None:
        """``close(error)``, with what the reader still held taken in first; everything comes in the one final."""
        self._state.flush, flush = "close", self._state.flush
        for chunk in rest:
            self.take(chunk)
        final = self.close(error)
        self._state.flush = flush
        return final

    def _note_refusal(self, parts: list[types.Part]) -> None:
        if any(map(is_refusal, parts)):
            self._state.candidate.refused = True

    def _build(
        self,
        parts: list[types.Part],
        fields: dict[str, Any],
        state: StreamState | None = None,
        *,
        partial: bool = False,
    ) -> LlmResponse:
        from google.genai import types

        from adk_stream.response import LlmResponse

        state = state or self._state
        if parts:
            fields["content"] = types.Content(role=state.candidate.role or "model", parts=parts)
        fields.update(partial=partial, model_version=state.model_version, response_id=state.response_id)
        return LlmResponse(**{name: value for name, value in fields.items() if value is not None})

    # ------------------------------------------------------------- snapshots

    def snapshot(self) -> bytes:
        """The whole state: restored in another process and gone on with, it gives what this one would have given."""
        return self._state.snapshot()

    @classmethod
    def restore(cls, data: bytes) -> StreamingResponseAggregator:
        """The aggregator whose state this is.

        Raises:
            SnapshotError: the bytes are damaged, of another kind or version.
        """
        aggregator = cls()
        aggregator._state = StreamState.restore(data)
        if aggregator._state.flush not in get_args(Flush):
            raise SnapshotError(f"a snapshot with flush={aggregator._state.flush!r}")
        return aggregator
