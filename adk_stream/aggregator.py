"""StreamingResponseAggregator: StreamChunks to responses that an agent can keep; and ``aggregate`` over a stream.

Two ways of giving finals. ``flush="boundary"``: text and thought that were buffered come out as one
aggregated response before the converted response that ends the run (an empty-parts chunk, audio, a complete
tool call). ``flush="close"``: everything comes out at ``close()``. Either way the non-partial responses are
disjoint, in order, and together hold the stream exactly once.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.errors import EmptyResponseError, SnapshotError
from adk_stream.metadata import as_wire, merge_metadata, merge_nested, merge_snapshot
from adk_stream.parts import (
    AudioSlot,
    CallSlot,
    PartAssembler,
    PartDelta,
    Slot,
    StreamChunk,
    StreamedPart,
    StreamFault,
    StreamLimits,
    Text,
    TextSlot,
    WholeSlot,
    as_text,
    audio_of,
    encodable,
    fresh,
    part_delta,
)
from adk_stream.providers.gemini import GeminiReader, is_empty
from adk_stream.providers.line import Line

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse, Template

__all__ = ["Aggregation", "AsyncAggregation", "StreamingResponseAggregator", "aggregate", "aggregate_async"]

Flush = Literal["boundary", "close"]
Audio = Literal["join", "drop"]

_CANCELLATIONS = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})


class _Candidate(msgspec.Struct):
    """What has come of the candidate that is aggregated."""

    assembler: PartAssembler
    index: int | None = None  # None: nothing of any candidate has come
    role: str | None = None
    metadata: dict[str, Any] = {}
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    finish_code: str | None = None
    finish_message: str | None = None
    terminal: bool = False
    refused: bool = False
    transcript: Text = msgspec.field(default_factory=Text)


class _State(Snapshotted):
    """Everything that a snapshot holds."""

    flush: str
    wanted: int
    audio: str | None
    limits: StreamLimits
    candidate: _Candidate
    sdk_reader: GeminiReader | None = None
    provider: str | None = None  # the line the stream came on: opaque values go back to no other
    seen: bool = False
    response_id: str | None = None
    model_version: str | None = None
    usage: dict[str, Any] = {}
    provider_metadata: dict[str, Any] = {}
    error: StreamFault | None = None

    @classmethod
    def fresh(cls, flush: str, wanted: int, audio: str | None, limits: StreamLimits) -> Self:
        assembler = PartAssembler(keep_audio=audio != "drop", limits=limits)
        return cls(flush, wanted, audio, limits, _Candidate(assembler))


class StreamingResponseAggregator:
    """Aggregates one stream; after ``close()`` it is empty and may be used for the next. Not thread-safe.

    Args:
        flush: ``"boundary"`` or ``"close"``; see the module.
        candidate_index: The candidate (choice) that is aggregated; the others are left out. If it is 0 and the
            stream holds one candidate only, that one is taken whatever its index.
        audio: ``"join"`` joins the audio deltas of one mime type into one part of a final, ``"drop"`` leaves
            them out of the finals (they are always shown as partials). None: join.
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
        self._state = _State.fresh(flush, candidate_index, audio, limits or StreamLimits())
        self._shell: _Shell | None = None

    def process_response(self, chunk: Any) -> Iterator[LlmResponse]:
        """Take a chunk in, and give the responses it leads to.

        The chunk is taken in at the call: the iterator may be left unconsumed, and nothing is lost.

        Args:
            chunk: A google-genai ``GenerateContentResponse`` (read as it is, never changed), or a StreamChunk.

        Raises:
            EmptyResponseError: an object with no candidates, no prompt feedback and no usage.
            StreamLimitError: the response is larger than the limits allow.
            TypeError: an object of another kind.
        """
        if type(chunk) is StreamChunk:
            return iter(self.take(chunk))
        if not any(cls.__name__ == "GenerateContentResponse" for cls in type(chunk).__mro__):
            raise TypeError(f"a chunk is a GenerateContentResponse or a StreamChunk, not {type(chunk).__name__}")
        if is_empty(chunk):
            raise EmptyResponseError("a response with no candidates, no prompt feedback and no usage")
        state = self._state
        if state.sdk_reader is None:
            state.sdk_reader, state.provider = GeminiReader(), "gemini"
        responses: list[LlmResponse] = []
        for each in state.sdk_reader.read_object(chunk):
            responses += self.take(each)
        return iter(responses)

    def speaks(self, provider: str | None) -> None:
        """Something came, on this line; finals tell it in ``provider_metadata["provider"]``."""
        self._state.provider = provider
        self._state.seen = True

    def take(self, chunk: StreamChunk) -> list[LlmResponse]:
        """``process_response`` of a StreamChunk, as a list."""
        state = self._state
        state.seen = True
        if chunk.response_id and chunk.response_id != state.response_id:
            response_id = _words(chunk.response_id)
            if response_id != state.response_id:
                if state.response_id is not None and chunk.parts:
                    state.candidate.terminal = False  # another response begins, and has an end of its own
                state.response_id, self._shell = response_id, None
        if chunk.model_version and chunk.model_version != state.model_version:
            state.model_version, self._shell = _words(chunk.model_version), None
        if chunk.usage_metadata is not None:
            state.usage = merge_snapshot(state.usage, as_wire(chunk.usage_metadata))
        if chunk.provider_metadata is not None:
            state.provider_metadata = merge_nested(state.provider_metadata, chunk.provider_metadata)
        if chunk.error is not None and state.error is None:
            state.error = chunk.error
        parts = chunk.parts
        if not (
            parts
            or chunk.terminal
            or chunk.empty
            or chunk.native_finish_reason
            or chunk.metadata
            or chunk.output_transcript
        ):
            return []
        if chunk.candidate_index != state.candidate.index and not self._choose(chunk.candidate_index):
            return []
        candidate = state.candidate
        if chunk.role and chunk.role != candidate.role:
            candidate.role, self._shell = _words(chunk.role), None
        if chunk.terminal or chunk.native_finish_reason or chunk.metadata is not None:
            self._take_end(candidate, chunk)
        if state.flush == "close" or candidate.index != state.wanted:
            responses = self._take_partials(candidate, parts)
        else:
            responses = self._take_boundaries(candidate, chunk)
        if chunk.output_transcript:
            candidate.transcript.append(chunk.output_transcript)
            heard = candidate.transcript.visible(chunk.output_transcript)
            responses += [self._partial_transcript(heard)] if heard else []
        return responses

    def _choose(self, index: int) -> bool:
        """Is this the candidate that is aggregated? Another than the wanted is taken until the wanted comes."""
        state = self._state
        if index == state.wanted:
            if state.candidate.index is not None:  # it was another's: begin anew
                state.candidate = _Candidate(PartAssembler(keep_audio=state.audio != "drop", limits=state.limits))
                self._shell = None
            state.candidate.index = index
            return True
        if state.wanted == 0 and state.candidate.index is None:
            state.candidate.index = index
            return True
        return False

    def _take_end(self, candidate: _Candidate, chunk: StreamChunk) -> None:
        if chunk.metadata is not None:
            wire = {name: as_wire(value) for name, value in chunk.metadata.items()}
            candidate.metadata = merge_metadata(candidate.metadata, wire)
        if chunk.finish_reason or (chunk.native_finish_reason and not candidate.terminal):
            candidate.finish_reason = chunk.finish_reason
            candidate.native_finish_reason = chunk.native_finish_reason
            candidate.finish_code = chunk.finish_code
            candidate.finish_message = chunk.finish_message
        if chunk.terminal:
            candidate.terminal = True

    # ------------------------------------------------------------- flush="close"

    def _take_partials(self, candidate: _Candidate, parts: Sequence[StreamedPart]) -> list[LlmResponse]:
        """One partial for everything that the chunk has to show."""
        state = self._state
        assembler, response_id = candidate.assembler, state.response_id
        if len(parts) == 1:
            only = _shown(parts[0], assembler.add(parts[0], response_id))
            return [] if only is None else [self._partial([only])]
        shown = []
        for streamed in parts:
            part = _shown(streamed, assembler.add(streamed, response_id))
            if part is not None:
                shown.append(part)
        return [self._partial(shown)] if shown else []

    def _partial(self, parts: list[types.Part]) -> LlmResponse:
        shell = self._shell
        if shell is None:
            state = self._state
            shell = self._shell = _Shell(state.candidate.role, state.model_version, state.response_id)
        return shell.response_with(shell.content_with(parts))

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

    def _take_boundaries(self, candidate: _Candidate, chunk: StreamChunk) -> list[LlmResponse]:
        """Partials, and before what ends a run the run itself; each response wholly partial or wholly final."""
        assembler, response_id = candidate.assembler, self._state.response_id
        responses: list[LlmResponse] = []
        shown: list[types.Part] = []
        whole = False  # complete parts were added and not yet given out
        for streamed in chunk.parts:
            audio = _is_audio(streamed)
            if whole and streamed.partial:
                responses += self._finals(assembler.drain())
                whole = False
            if audio and _holds_text(assembler):
                responses += self._flush_shown(shown) + self._finals(assembler.drain())
            slot = assembler.add(streamed, response_id)
            if slot is not None and not streamed.partial:
                responses += self._flush_shown(shown)
                whole = True
                continue
            part = _shown(streamed, slot)
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
            if not runs or _is_run(runs[-1][-1]) is not _is_run(part):
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
        self._state = _State.fresh(state.flush, state.wanted, state.audio, state.limits)
        self._shell = None
        if not state.seen and error is None:
            return None
        candidate = state.candidate
        parts = candidate.assembler.finish()
        fault = state.error or (None if error is None else _fault(error))
        if not state.seen and fault is not None and fault.status == "cancelled":
            return None
        refused = candidate.refused or any(map(_is_refusal, parts))
        fields = _end_fields(candidate, fault, refused)
        fields.update(_metadata_fields(state))
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
        if any(map(_is_refusal, parts)):
            self._state.candidate.refused = True

    def _build(self, parts: list[types.Part], fields: dict[str, Any], state: _State | None = None) -> LlmResponse:
        from google.genai import types

        from adk_stream.response import LlmResponse

        state = state or self._state
        if parts:
            fields["content"] = types.Content(role=state.candidate.role or "model", parts=parts)
        fields.update(partial=False, model_version=state.model_version, response_id=state.response_id)
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
        aggregator._state = _State.restore(data)
        if aggregator._state.flush not in get_args(Flush):
            raise SnapshotError(f"a snapshot with flush={aggregator._state.flush!r}")
        return aggregator


# ----------------------------------------------------------------- what is shown


class _Shell:
    """A partial response of this stream without its parts."""

    def __init__(self, role: str | None, model_version: str | None, response_id: str | None) -> None:
        from google.genai import types

        from adk_stream.response import LlmResponse, Template

        self.content_with = Template(types.Content(parts=[], role=role or "model")).maker("parts")
        empty = LlmResponse(
            content=types.Content(),
            partial=True,
            status="in_progress",
            model_version=model_version,
            response_id=response_id,
        )
        self.response_with = Template(empty).maker("content")


@cache
def _text_makers() -> tuple[Callable[[str], types.Part], Callable[[str], types.Part]]:
    """Functions that make a part of a text, and of a thought."""
    from google.genai import types

    from adk_stream.response import Template

    return Template(types.Part(text="")).maker("text"), Template(types.Part(text="", thought=True)).maker("text")


@cache
def _call_makers() -> tuple[Callable[[Any], types.Part], Callable[[Any, Any], types.Part], Callable[..., Any]]:
    """Functions that make a part of a call, one of a call and metadata, and the call itself of id and name."""
    from google.genai import types

    from adk_stream.response import Template

    call = types.FunctionCall(id=None, name=None, will_continue=True)
    bare, told = types.Part(function_call=call), types.Part(function_call=call, part_metadata={})
    return (
        Template(bare).maker("function_call"),
        Template(told).pair_maker("function_call", "part_metadata"),
        Template(call).pair_maker("id", "name"),
    )


@cache
def _fragment_template() -> Template[types.PartialArg]:
    from google.genai import types

    from adk_stream.response import Template

    return Template(types.PartialArg(json_path="", string_value=""))


def _shown(streamed: StreamedPart, slot: Slot | None) -> types.Part | None:
    """The part of a partial response that shows this streamed part; None when there is nothing to see."""
    if type(slot) is TextSlot:
        delta = streamed.part if type(streamed.part) is PartDelta else part_delta(streamed.part)
        text = delta.text
        if text and not (text.isascii() and not slot.text.half):
            text = slot.text.visible(text)
        if delta.thought_signature or delta.part_metadata:
            return _single(slot, msgspec.structs.replace(delta, text=text))
        return _text_makers()[delta.thought](text) if text else None
    if type(slot) is CallSlot and not slot.complete:
        return _shown_call(streamed, slot)
    if type(slot) is AudioSlot:
        return _single(AudioSlot(slot.mime_type), part_delta(streamed.part))
    if slot is None:
        return _unstamped(streamed)
    return slot.build()


def _unstamped(streamed: StreamedPart) -> types.Part | None:
    """A preview: shown, and never part of the result."""
    delta = part_delta(streamed.part)
    return WholeSlot(delta.whole, delta.provider).build() if streamed.partial and delta.whole is not None else None


def _single(slot: TextSlot | AudioSlot, delta: PartDelta) -> types.Part:
    """The delta alone, as a part of its own."""
    if isinstance(slot, TextSlot):
        alone = TextSlot(delta.thought)
        alone.append(delta)
        return alone.build()
    from google.genai import types

    whole = delta.whole
    data = whole["inlineData"]["data"] if isinstance(whole, dict) else whole.inline_data.data
    return types.Part(inline_data=types.Blob(mime_type=slot.mime_type, data=data))


def _shown_call(streamed: StreamedPart, slot: CallSlot) -> types.Part:
    """A fragment of a call: JSON text in ``part_metadata["arguments_delta"]``, or Gemini's ``partial_args``."""
    make_part, make_told_part, make_call = _call_makers()
    delta = streamed.part if type(streamed.part) is PartDelta else part_delta(streamed.part)
    shown: types.FunctionCall = make_call(slot.id, slot.name)
    call = delta.function_call
    if call is not None and call.partial_args:
        fragments = map(_shown_fragment, call.partial_args)
        shown.partial_args = [fragment for fragment in fragments if fragment is not None]
    if streamed.arguments_delta is None:
        return make_part(shown)
    return make_told_part(shown, {"arguments_delta": slot.text.visible(streamed.arguments_delta)})


def _shown_fragment(raw: dict[str, Any]) -> types.PartialArg | None:
    path, text = raw.get("jsonPath"), raw.get("stringValue")
    if len(raw) == 2 and type(path) is str and type(text) is str:
        return _fragment_template().clone({"json_path": encodable(path), "string_value": encodable(text)})
    from google.genai import types

    from adk_stream.response import read_lenient

    return read_lenient(types.PartialArg, fresh(raw))[0]


def _is_run(part: types.Part) -> bool:
    """Text, thought or audio: what is buffered; anything else is a whole part."""
    if part.function_call is not None:
        return False
    if part.inline_data is not None:
        return (part.inline_data.mime_type or "").startswith("audio/")
    return part.text is not None or part.model_fields_set <= {"thought", "thought_signature", "part_metadata"}


def _is_audio(streamed: StreamedPart) -> bool:
    if not streamed.partial or type(streamed.part) is not PartDelta or streamed.part.whole is None:
        return False
    return audio_of(streamed.part.whole) is not None


def _holds_text(assembler: PartAssembler) -> bool:
    return any(type(slot) is TextSlot for group in assembler.groups for slot in group.slots.values())


def _is_refusal(part: types.Part) -> bool:
    return bool(part.part_metadata and part.part_metadata.get("refusal"))


# ----------------------------------------------------------------- how it ended


def _end_fields(candidate: _Candidate, fault: StreamFault | None, refused: bool) -> dict[str, Any]:
    """Status, finish reason and error of a final: judged by the terminal sign alone, a refusal aside."""
    native_word = _words(candidate.native_finish_reason)
    native = {"native_finish_reason": native_word}
    if fault is not None:
        code, message = _words(fault.code), _words(fault.message)
        return native | {"status": fault.status, "error_code": code, "error_message": message}
    if not candidate.terminal:
        message = "the stream ended without a terminal sign"
        return native | {"status": "incomplete", "error_code": "STREAM_CUT", "error_message": message}
    reason = candidate.finish_reason or "OTHER"
    if reason == "STOP" and refused:
        reason = "SAFETY"
    if reason == "STOP":
        return native | {"status": "completed", "finish_reason": _finish_reason(reason)}
    return native | {
        "status": "incomplete",
        "finish_reason": _finish_reason(reason),
        "error_code": _words(candidate.finish_code or (reason if reason != "OTHER" else native_word or reason)),
        "error_message": _words(candidate.finish_message),
    }


def _words(value: Any) -> str | None:
    """What should be a text and may be anything, as a text."""
    return None if value is None else as_text(value)


def _finish_reason(word: str) -> types.FinishReason:
    from google.genai import types

    return types.FinishReason.__members__.get(word, types.FinishReason.OTHER)


def _fault(error: BaseException) -> StreamFault:
    """An exception as the fault it means, by the names of its classes (the core imports no asyncio)."""
    names = {cls.__name__ for cls in type(error).__mro__}
    message = str(error) or None
    if names & _CANCELLATIONS:
        return StreamFault("STREAM_CANCELLED", message, "cancelled")
    if any("Timeout" in name for name in names):
        return StreamFault("STREAM_TIMEOUT", message)
    code = getattr(error, "code", None) if "AdkStreamError" in names else None
    return StreamFault(code or type(error).__name__, message)


def _metadata_fields(state: _State) -> dict[str, Any]:
    """Usage and candidate metadata as google-genai objects; what they cannot hold goes beside."""
    from google.genai import types

    from adk_stream.response import LlmResponse, read_lenient

    fields: dict[str, Any] = {}
    beside: dict[str, Any] = {"provider": state.provider} if state.provider else {}
    if state.usage:
        usage = fresh(state.usage)
        fields["usage_metadata"], _ = read_lenient(types.GenerateContentResponseUsageMetadata, usage)
        if "usage" not in state.provider_metadata:
            beside["usage"] = usage
    for name, value in fresh(state.candidate.metadata).items():
        if name not in _METADATA_MODELS:
            if name != "avg_logprobs" or isinstance(value, (int, float)):
                fields[name] = value
            else:
                beside[name] = value
            continue
        model = getattr(types, _METADATA_MODELS[name])
        if name == "safety_ratings":
            pairs = [read_lenient(model, item) for item in (value if isinstance(value, list) else [value])]
            fields[name] = [pair[0] for pair in pairs if pair[0] is not None]
            leftover = [pair[1] for pair in pairs if pair[1] is not None]
        else:
            fields[name], leftover = read_lenient(model, value)
        if leftover:
            beside[name] = leftover
    metadata = fresh(merge_nested(beside, state.provider_metadata))
    if metadata:
        fields["provider_metadata"] = metadata
    return {name: value for name, value in fields.items() if name in LlmResponse.model_fields}


_METADATA_MODELS = {
    "grounding_metadata": "GroundingMetadata",
    "citation_metadata": "CitationMetadata",
    "logprobs_result": "LogprobsResult",
    "url_context_metadata": "UrlContextMetadata",
    "safety_ratings": "SafetyRating",
}


# ----------------------------------------------------------------- whole streams


class Aggregation(Iterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``aggregate`` gives.

    Attributes:
        final: The last final, once the stream has ended; after ``close()`` in mid-stream, what had come, with
            status ``cancelled``.
    """

    def __init__(self, stream: Any, line: Line, aggregator: StreamingResponseAggregator) -> None:
        self.final: LlmResponse | None = None
        self._line = line
        self._aggregator = aggregator
        self._stream = stream
        self._responses = self._run(stream)
        self._started = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LlmResponse:
        self._started = True
        return next(self._responses)

    def close(self) -> None:
        """Leave the stream: its source is closed, and ``final`` holds what had come."""
        self._responses.close()
        if not self._started:
            _close(self._stream)

    def _run(self, stream: Any) -> Generator[LlmResponse, None, None]:
        take, speaks, line = self._aggregator.take, self._aggregator.speaks, self._line
        pieces = _pieces(stream)
        told = False
        try:
            try:
                for piece in pieces:
                    for chunks in line.feed(piece):
                        if not told:  # whoever gives chunks knows the provider
                            speaks(line.provider)
                            told = True
                        for chunk in chunks:
                            yield from take(chunk)
                            if chunk.error is not None:
                                yield from self._end()
                                return
                    if not told and piece:
                        speaks(line.provider)
                for chunks in line.close():
                    for chunk in chunks:
                        yield from take(chunk)
            except Exception as problem:
                yield from self._end(problem)
                raise
            yield from self._end()
        except BaseException as problem:
            self._leave(problem)
            raise
        finally:
            _close(pieces)
            if pieces is not stream:
                _close(stream)

    def _end(self, problem: BaseException | None = None) -> list[LlmResponse]:
        self.final = _final(self._line, self._aggregator, problem)
        return [] if self.final is None else [self.final]

    def _leave(self, problem: BaseException) -> None:
        if self.final is None:
            self.final = _final(self._line, self._aggregator, problem)


class AsyncAggregation(AsyncIterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``aggregate_async`` gives.

    Attributes:
        final: As for ``Aggregation``.
    """

    def __init__(self, stream: Any, line: Line, aggregator: StreamingResponseAggregator) -> None:
        self.final: LlmResponse | None = None
        self._line = line
        self._aggregator = aggregator
        self._stream = stream
        self._responses = self._run(stream)
        self._started = False

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Any:
        self._started = True
        return self._responses.__anext__()

    async def aclose(self) -> None:
        """Leave the stream: its source is closed, and ``final`` holds what had come."""
        await self._responses.aclose()
        if not self._started:
            await _aclose(self._stream)

    async def _run(self, stream: Any) -> AsyncGenerator[LlmResponse, None]:
        take, speaks, line = self._aggregator.take, self._aggregator.speaks, self._line
        pieces = _async_pieces(stream)
        told = False
        try:
            try:
                async for piece in pieces:
                    for chunks in line.feed(piece):
                        if not told:  # whoever gives chunks knows the provider
                            speaks(line.provider)
                            told = True
                        for chunk in chunks:
                            for response in take(chunk):
                                yield response
                            if chunk.error is not None:
                                for response in self._end():
                                    yield response
                                return
                    if not told and piece:
                        speaks(line.provider)
                for chunks in line.close():
                    for chunk in chunks:
                        for response in take(chunk):
                            yield response
            except Exception as problem:
                for response in self._end(problem):
                    yield response
                raise
            for response in self._end():
                yield response
        except BaseException as problem:
            if self.final is None:
                self.final = _final(self._line, self._aggregator, problem)
            raise
        finally:
            await _aclose(pieces)
            if pieces is not stream:
                await _aclose(stream)

    def _end(self, problem: BaseException | None = None) -> list[LlmResponse]:
        self.final = _final(self._line, self._aggregator, problem)
        return [] if self.final is None else [self.final]


def _final(line: Line, aggregator: StreamingResponseAggregator, problem: BaseException | None) -> LlmResponse | None:
    return aggregator.close() if problem is None else aggregator.close_early(line.rest(), problem)


def aggregate(
    stream: Any,
    provider: str = "auto",
    flush: Flush = "close",
    *,
    candidate_index: int = 0,
    audio: Audio | None = None,
    think_tags: bool | None = None,
    on_malformed: str = "raise",
    limits: StreamLimits | None = None,
) -> Aggregation:
    """The responses of a whole stream: partials while it runs, then the finals.

    Args:
        stream: An iterable of pieces (bytes or str cut anywhere, decoded events as dicts, or SDK objects), or all of
            it as one bytes or str.
        provider: One of ``providers.LINES``, or ``"auto"`` to judge by the first events.
        flush: ``"close"`` gives everything in one final, ``"boundary"`` whenever a run of text ends.
        candidate_index: The candidate (choice) that is aggregated.
        audio: ``"join"`` or ``"drop"``; None joins, on the live line it drops.
        think_tags: Split ``<think>`` tags out of the text; None: where the provider is known to inline them.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    An error inside the data ends the stream with a ``failed`` final and raises nothing. An exception of the source
    gives its ``failed`` final first and then goes on to the caller unchanged. When the consumer leaves, the source
    is closed and what had come is in ``.final``; use ``contextlib.closing`` to have that at once.

    Raises:
        MalformedStreamError: an event cannot be read (its ``failed`` final came first).
        ValueError: an argument is none of the values above.
    """
    return Aggregation(stream, *_prepared(provider, flush, candidate_index, audio, think_tags, on_malformed, limits))


def aggregate_async(
    stream: Any,
    provider: str = "auto",
    flush: Flush = "close",
    *,
    candidate_index: int = 0,
    audio: Audio | None = None,
    think_tags: bool | None = None,
    on_malformed: str = "raise",
    limits: StreamLimits | None = None,
) -> AsyncAggregation:
    """``aggregate`` over an async iterable (a plain iterable will do as well); the same arguments."""
    prepared = _prepared(provider, flush, candidate_index, audio, think_tags, on_malformed, limits)
    return AsyncAggregation(stream, *prepared)


def _prepared(
    provider: str,
    flush: Flush,
    candidate_index: int,
    audio: Audio | None,
    think_tags: bool | None,
    on_malformed: str,
    limits: StreamLimits | None,
) -> tuple[Line, StreamingResponseAggregator]:
    options = {} if think_tags is None else {"think_tags": think_tags}
    line = Line(provider, on_malformed=on_malformed, limits=limits, reader_options=options)
    return line, StreamingResponseAggregator(flush, candidate_index, audio, limits=limits)


def _pieces(stream: Any) -> Iterator[Any]:
    if isinstance(stream, (bytes, bytearray, memoryview, str, Mapping)):
        return iter((stream,))
    return iter(stream)


def _async_pieces(stream: Any) -> AsyncIterator[Any]:
    return aiter(stream) if isinstance(stream, AsyncIterable) else _in_turn(_pieces(stream))


async def _in_turn(pieces: Iterator[Any]) -> AsyncGenerator[Any, None]:
    for piece in pieces:
        yield piece


def _close(source: Any) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()


async def _aclose(source: Any) -> None:
    """Close an async iterator, or a client's stream, whose method may be called either way and be sync or not."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    closed = close() if close is not None else None
    if isinstance(closed, Awaitable):
        await closed
