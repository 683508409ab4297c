"""Gemini's generateContent stream: events or google-genai objects to StreamChunks, and back to a Content.

Wire facts: the REST reference of ``models.streamGenerateContent`` (GenerateContentResponse, Candidate, Part,
FunctionCall, PartialArg), for the Gemini API and Vertex AI; thought signatures: each goes back on exactly the part
it came with, and signed parts are never merged with others.

Wire events are read as plain dicts, not through ``GenerateContentResponse.model_validate``: that refuses today's
traffic (unknown fields, numeric enums) and costs more than everything else. SDK objects are read as they are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.errors import NativeError
from adk_stream.indexer import StreamingPartIndexer
from adk_stream.metadata import as_wire, counts_as_wire, merge_nested
from adk_stream.parts import (
    MADE_ID_PREFIX,
    CallDelta,
    Growth,
    PartDelta,
    StreamChunk,
    StreamedPart,
    StreamFault,
    part_delta,
)
from adk_stream.providers import DONE

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["CandidatePlaces", "GeminiReader", "is_empty", "says_nothing", "to_native", "wire_delta"]

_PROVIDER = "gemini"

# Enum numbers as protobuf JSON may send them in the place of names. Beyond these the Gemini API and
# Vertex AI number their finish reasons differently, so a higher number stays an unknown reason.
_FINISH_REASONS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
_BLOCK_REASONS = {1: "SAFETY", 2: "OTHER", 3: "BLOCKLIST", 4: "PROHIBITED_CONTENT"}
_NO_REASON = ("FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", 0, None, "")
_PROBABILITIES = {1: "NEGLIGIBLE", 2: "LOW", 3: "MEDIUM", 4: "HIGH"}
_CATEGORIES = {
    7: "HARM_CATEGORY_HARASSMENT",
    8: "HARM_CATEGORY_HATE_SPEECH",
    9: "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    10: "HARM_CATEGORY_DANGEROUS_CONTENT",
}
_PART_ENUMS = {
    ("executableCode", "language"): {0: "LANGUAGE_UNSPECIFIED", 1: "PYTHON"},
    ("codeExecutionResult", "outcome"): {
        0: "OUTCOME_UNSPECIFIED",
        1: "OUTCOME_OK",
        2: "OUTCOME_FAILED",
        3: "OUTCOME_DEADLINE_EXCEEDED",
    },
}

#: Candidate fields and the fields of LlmResponse they go to.
_METADATA = {
    "groundingMetadata": "grounding_metadata",
    "citationMetadata": "citation_metadata",
    "safetyRatings": "safety_ratings",
    "avgLogprobs": "avg_logprobs",
    "logprobsResult": "logprobs_result",
    "urlContextMetadata": "url_context_metadata",
}
_RESPONSE_KEYS = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
_CANDIDATE_KEYS = frozenset({"content", "finishReason", "finishMessage", "index", *_METADATA})
_PLAIN_KEYS = frozenset({"content", "index"})
_TEXT_KEYS = frozenset({"text", "thought", "thoughtSignature", "partMetadata"})
_CALL_KEYS = frozenset({"functionCall", "thought", "thoughtSignature", "partMetadata"})

#: Calls that are streamed side by side; a fragment is matched against all of them.
_MAX_OPEN_CALLS = 1000


class _OpenCall(msgspec.Struct):
    """A call whose arguments are still being streamed."""

    index: int
    id: str | None
    name: str | None


class CandidatePlaces(msgspec.Struct):
    """What is known of one candidate: where its parts stand, and which of its calls are open (oldest first)."""

    indexer: StreamingPartIndexer = msgspec.field(default_factory=StreamingPartIndexer)
    open_calls: list[_OpenCall] = []
    role: str | None = None  # as last told

    def text_growth(self, text: str | None, thought: bool | None) -> Growth | None:
        """What goes on with the run of text or thought that is open."""
        kind, indexer = "thought" if thought else "text", self.indexer
        return Growth(indexer.run_index, text, kind) if text and indexer.run == kind else None

    def call_growth(self, path: str | None, text: str | None, value_goes_on: bool | None) -> Growth | None:
        """What goes on with the only call that is open."""
        if len(self.open_calls) != 1 or path is None or text is None or value_goes_on is False:
            return None
        call = self.open_calls[0]
        return Growth(call.index, text, "arguments", (call.id, call.name), path, bool(value_goes_on))

    def place(self, delta: PartDelta) -> StreamedPart | None:
        """The part with its index; None when it says nothing."""
        if delta.function_call is not None:
            return self._place_call(delta, delta.function_call)
        if delta.text:
            kind = "thought" if delta.thought else "text"
            return StreamedPart(delta, self.indexer.text_index(kind, delta), True)
        if delta.whole is None and not (delta.thought_signature or delta.part_metadata):
            return None
        mime_type = _audio_type(delta.whole)
        if mime_type is not None:
            return StreamedPart(delta, self.indexer.text_index(mime_type, delta), True)
        return self.indexer.stamp(delta)

    def _place_call(self, delta: PartDelta, call: CallDelta) -> StreamedPart | None:
        streamed = call.partial_args is not None or call.will_continue is not None or not call.name
        if not streamed:
            return self._place_whole_call(delta, call)
        open_call = self._find(call)
        if open_call is None:
            if not (call.name or call.args or call.partial_args):
                return None  # a bare closing chunk, and nothing is open
            if len(self.open_calls) >= _MAX_OPEN_CALLS:
                raise ValueError(f"more than {_MAX_OPEN_CALLS} calls open at once")
            open_call = _OpenCall(self.indexer.next_index(), call.id, call.name)
            self.open_calls.append(open_call)
        open_call.id = call.id or open_call.id
        open_call.name = call.name or open_call.name
        if open_call.id:
            self.indexer.calls[open_call.id] = open_call.index
        if call.will_continue:
            return StreamedPart(delta, open_call.index, True)
        call.will_continue = False  # absent on the last fragment: the part says nothing of more to come
        self.open_calls.remove(open_call)
        self.indexer.end_run()
        return StreamedPart(delta, open_call.index)

    def _place_whole_call(self, delta: PartDelta, call: CallDelta) -> StreamedPart:
        """A call given whole; one with a known id is the same call, sent again or closed by its whole copy."""
        known = self.indexer.calls.get(call.id) if call.id else None
        if known is not None:
            self.open_calls = [each for each in self.open_calls if each.index != known]
            return StreamedPart(delta, known)
        self.indexer.end_run()
        index = self.indexer.call_index(call.id) if call.id else self.indexer.next_index()
        return StreamedPart(delta, index)

    def _find(self, call: CallDelta) -> _OpenCall | None:
        """The open call that a fragment belongs to: by id, by name, else by order."""
        newest_first = list(reversed(self.open_calls))
        if call.id:
            by_id = next((each for each in newest_first if each.id == call.id), None)
            late = (each for each in newest_first if each.id is None and call.name in (None, "", each.name))
            return by_id or next(late, None)
        if call.name:
            return next((each for each in newest_first if each.name in (call.name, None)), None)
        return newest_first[0] if newest_first else None


class GeminiReader(Snapshotted):
    """Reads the events of one generateContent stream; see ``providers.Reader``."""

    candidates: dict[int, CandidatePlaces] = {}
    extras: dict[str, Any] = {}  # response fields that no field of ours holds, as last told
    response_id: str | None = None  # as last told
    model_version: str | None = None

    @property
    def ended(self) -> bool:
        """Never: after the finish reason come usage and grounding, and no event says that it was the last."""
        return False

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one GenerateContentResponse in wire form, one for each candidate (or one for none)."""
        if event == DONE:
            return ()  # some proxies end with the [DONE] of another line
        if event.get("error"):
            return (_fault(event["error"]),)
        first = self._first(event.get("responseId"), event.get("modelVersion"))
        usage = event.get("usageMetadata")
        if usage:
            first.usage_metadata = _object(usage)
        if not event.keys() <= _RESPONSE_KEYS:
            self._read_rare(first, event)
        candidates = event.get("candidates")
        if not candidates:
            return (first,)
        chunks = [first]
        for number, candidate in enumerate(candidates):
            if number:
                chunks.append(StreamChunk(response_id=first.response_id))
            if candidate:
                self._read_candidate(chunks[-1], candidate)
        return chunks

    def _first(self, response_id: Any, model_version: Any) -> StreamChunk:
        self.response_id = response_id or self.response_id
        self.model_version = model_version or self.model_version
        return StreamChunk(response_id=response_id, model_version=model_version)

    def _read_rare(self, chunk: StreamChunk, event: Mapping[str, Any]) -> None:
        extras = {k: v for k, v in event.items() if k not in _RESPONSE_KEYS and v is not None and k != "error"}
        if extras != self.extras:
            self.extras = extras
            chunk.provider_metadata = {_PROVIDER: extras}
        _read_prompt_feedback(chunk, event.get("promptFeedback"))

    def _read_candidate(self, chunk: StreamChunk, candidate: Mapping[str, Any]) -> None:
        chunk.candidate_index = candidate.get("index") or 0
        content = candidate.get("content")
        parts = content.get("parts") if content else None
        if content:
            chunk.role = self._told_role(chunk.candidate_index, content.get("role"))
        if not candidate.keys() <= _PLAIN_KEYS:
            self._read_end(chunk, candidate)
        if parts:
            chunk.parts = self._place(chunk.candidate_index, map(wire_delta, filter(None, parts)))
        elif content is not None or chunk.terminal:
            chunk.empty = True

    def _told_role(self, index: int, role: Any) -> Any:
        if role:
            self._candidate(index).role = role
        return role

    def _candidate(self, index: int) -> CandidatePlaces:
        candidate = self.candidates.get(index)
        if candidate is None:
            candidate = self.candidates[index] = CandidatePlaces()
        return candidate

    def _place(self, candidate_index: int, deltas: Iterable[PartDelta]) -> list[StreamedPart]:
        place = self._candidate(candidate_index).place
        return [placed for delta in deltas if (placed := place(delta)) is not None]

    def _read_end(self, chunk: StreamChunk, candidate: Mapping[str, Any]) -> None:
        extras = {k: v for k, v in candidate.items() if k not in _CANDIDATE_KEYS and v is not None}
        if extras:
            told = (chunk.provider_metadata or {}).get(_PROVIDER, {})
            chunk.provider_metadata = {_PROVIDER: {**told, **extras}}
        reason = candidate.get("finishReason")
        if reason not in _NO_REASON:
            _finish(chunk, reason, candidate.get("finishMessage"))
        elif reason:
            chunk.native_finish_reason = str(reason)
        found = {
            _METADATA[key]: value for key, value in candidate.items() if key in _METADATA and not says_nothing(value)
        }
        if found:
            if "safety_ratings" in found:
                found["safety_ratings"] = [_named_rating(rating) for rating in found["safety_ratings"]]
            chunk.metadata = found

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of a google-genai ``GenerateContentResponse``."""
        first = self._first(event.response_id, event.model_version)
        if event.usage_metadata is not None:
            first.usage_metadata = counts_as_wire(event.usage_metadata)
        if event.prompt_feedback is not None:
            self._read_rare(first, {"promptFeedback": as_wire(event.prompt_feedback)})
        chunks = [first]
        for number, candidate in enumerate(event.candidates or ()):
            if number:
                chunks.append(StreamChunk(response_id=first.response_id))
            self._read_candidate_object(chunks[-1], candidate)
        return chunks

    def _read_candidate_object(self, chunk: StreamChunk, candidate: types.Candidate) -> None:
        chunk.candidate_index = candidate.index or 0
        content = candidate.content
        if content is not None:
            chunk.role = self._told_role(chunk.candidate_index, content.role)
        rest = candidate.model_fields_set - _PLAIN_KEYS
        if rest:
            self._read_end(chunk, as_wire(candidate.model_copy(update={"content": None})))
        if content is not None and content.parts:
            chunk.parts = self._place(chunk.candidate_index, map(part_delta, content.parts))
        elif content is not None or chunk.terminal:
            chunk.empty = True

    # ------------------------------------------------------------- text that goes on

    def grow_bytes(self, data: bytes) -> Growth | None:
        """``read`` of an event that only goes on with what is open, from its payload; None for any other event."""
        try:
            event = _decode_plain(data)
        except (msgspec.DecodeError, RecursionError):
            return None
        candidate = event.candidates[0]
        places = self.candidates.get(candidate.index)
        part = candidate.content.parts[0]
        if places is None or not self._goes_on(event, candidate.content.role, places):
            return None
        if part.function_call is None:
            growth = places.text_growth(part.text, part.thought)
        elif part.text is None and not part.thought:
            argument = part.function_call.partial_args[0]
            growth = places.call_growth(argument.json_path, argument.string_value, argument.will_continue)
        else:
            return None
        if growth is not None:
            growth.candidate_index, growth.usage = candidate.index, event.usage_metadata
        return growth

    def grow_object(self, event: types.GenerateContentResponse) -> Growth | None:
        """``read_object`` of the same."""
        candidates = event.candidates
        if not candidates or len(candidates) > 1 or not event.__pydantic_fields_set__ <= _PLAIN_RESPONSE_FIELDS:
            return None
        candidate = candidates[0]
        content = candidate.content
        if content is None or not candidate.__pydantic_fields_set__ <= _PLAIN_KEYS:
            return None
        parts, index = content.parts, candidate.index or 0
        places = self.candidates.get(index)
        if not parts or len(parts) > 1 or places is None or not self._goes_on(event, content.role, places):
            return None
        part = parts[0]
        fields = part.__pydantic_fields_set__
        if part.text is not None:
            growth = places.text_growth(part.text, bool(part.thought)) if fields <= _PLAIN_TEXT_FIELDS else None
        elif part.function_call is not None and len(fields) == 1:
            growth = _call_object_growth(places, part.function_call)
        else:
            return None
        if growth is not None:
            growth.candidate_index = index
            if event.usage_metadata is not None:
                growth.usage = counts_as_wire(event.usage_metadata)
        return growth

    def _goes_on(self, event: Any, role: str | None, places: CandidatePlaces) -> bool:
        """Is it the same response, of the same model, in the same role?"""
        response_id, model_version = event.response_id, event.model_version
        return (
            (response_id is None or response_id == self.response_id)
            and (model_version is None or model_version == self.model_version)
            and (role is None or role == places.role)
        )

    def close(self) -> Sequence[StreamChunk]:
        """Nothing: calls that are still open are the assembler's to mark."""
        return ()


class _Exact(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """Of an event that says this and nothing else."""


class _PlainArgument(_Exact):
    json_path: str
    string_value: str
    will_continue: bool | None = None


class _PlainCall(_Exact):
    partial_args: Annotated[list[_PlainArgument], msgspec.Meta(min_length=1, max_length=1)]
    will_continue: Literal[True]


class _PlainPart(_Exact):
    text: str | None = None
    thought: bool = False
    function_call: _PlainCall | None = None


class _PlainContent(_Exact):
    parts: Annotated[list[_PlainPart], msgspec.Meta(min_length=1, max_length=1)]
    role: str | None = None


class _PlainCandidate(_Exact):
    content: _PlainContent
    index: int = 0


class _PlainResponse(_Exact):
    candidates: Annotated[list[_PlainCandidate], msgspec.Meta(min_length=1, max_length=1)]
    usage_metadata: dict[str, int | str | list[dict[str, int | str]]] | None = None
    model_version: str | None = None
    response_id: str | None = None


_decode_plain = msgspec.json.Decoder(_PlainResponse).decode

_PLAIN_RESPONSE_FIELDS = frozenset(
    {
        "candidates",
        "usage_metadata",
        "model_version",
        "response_id",
        "sdk_http_response",
        "automatic_function_calling_history",
        "parsed",
    }
)
_PLAIN_TEXT_FIELDS = frozenset({"text", "thought"})


def _call_object_growth(places: CandidatePlaces, call: types.FunctionCall) -> Growth | None:
    fragments = call.partial_args
    if not call.will_continue or not call.__pydantic_fields_set__ <= _STREAMED_CALL_FIELDS:
        return None
    if not fragments or len(fragments) > 1:
        return None
    fragment = fragments[0]
    if not fragment.__pydantic_fields_set__ <= _STRING_FIELDS:
        return None
    return places.call_growth(fragment.json_path, fragment.string_value, fragment.will_continue)


_STREAMED_CALL_FIELDS = frozenset({"partial_args", "will_continue"})
_STRING_FIELDS = frozenset({"json_path", "string_value", "will_continue"})


def is_empty(response: types.GenerateContentResponse) -> bool:
    """Has it no candidates, no prompt feedback and no usage?"""
    return not response.candidates and response.prompt_feedback is None and response.usage_metadata is None


def wire_delta(part: Mapping[str, Any]) -> PartDelta:
    """One part in wire form."""
    text = part.get("text")
    if text is not None and type(text) is not str:
        raise TypeError(f"text is a {type(text).__name__}")
    if text is not None and len(part) == 1:
        return PartDelta(text)
    call = part.get("functionCall")
    if call is None and text is None and part.keys() - _TEXT_KEYS:
        return PartDelta(whole=_whole(part), provider=_PROVIDER)
    signature = part.get("thoughtSignature")
    delta = PartDelta(
        text,
        bool(part.get("thought")),
        decode_base64(signature) if signature else None,
        None,
        part.get("partMetadata"),
        None,
        _PROVIDER,
    )
    known = _TEXT_KEYS
    if call is not None:
        delta.text, known = None, _CALL_KEYS
        delta.function_call = msgspec.convert(call, _WireCall).delta()
    if not part.keys() <= known:
        unknown = {key: value for key, value in part.items() if key not in known and value is not None}
        if unknown:
            delta.part_metadata = {**(delta.part_metadata or {}), _PROVIDER: unknown}
    return delta


class _WireCall(msgspec.Struct, rename="camel"):
    """A FunctionCall in wire form; converting to it checks the types."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool | None = None

    def delta(self) -> CallDelta:
        return CallDelta(self.id or None, self.name or None, self.args, self.partial_args, self.will_continue)


def _whole(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of another kind, with names for numbers and bytes for audio."""
    whole = {key: value for key, value in part.items() if value is not None}
    for (field, key), names in _PART_ENUMS.items():
        inner = whole.get(field)
        if isinstance(inner, dict) and inner.get(key) in names:
            whole[field] = {**inner, key: names[inner[key]]}
    blob = whole.get("inlineData")
    if isinstance(blob, dict) and isinstance(blob.get("data"), str) and str(blob.get("mimeType")).startswith("audio/"):
        whole["inlineData"] = {**blob, "data": decode_base64(blob["data"])}
    return whole


def _audio_type(whole: Any) -> str | None:
    """The mime type of a part that is inline audio."""
    if whole is None:
        return None
    blob = whole.get("inlineData") if isinstance(whole, dict) else whole.inline_data
    mime_type = (blob.get("mimeType") if isinstance(blob, dict) else blob.mime_type) if blob is not None else None
    return mime_type if isinstance(mime_type, str) and mime_type.startswith("audio/") else None


def decode_base64(text: str | bytes) -> bytes:
    """Base64 in either alphabet, padded or not (RFC 4648); what is none is kept as the UTF-8 bytes it came as."""
    if isinstance(text, (bytes, bytearray)):
        return bytes(text)
    if not isinstance(text, str):
        raise TypeError(f"base64 is a text, not a {type(text).__name__}")
    standard = text.translate(_URL_SAFE)
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "surrogatepass")


_URL_SAFE = str.maketrans("-_", "+/")


def _fault(error: Any) -> StreamChunk:
    """``{"error": {"code": 503, "message": …, "status": "UNAVAILABLE"}}``: google.rpc.Status over HTTP."""
    if not isinstance(error, dict):
        return StreamChunk(error=StreamFault(None, str(error)))
    code = error.get("status") or error.get("code")
    message = error.get("message")
    fault = StreamFault(None if code is None else str(code), None if message is None else str(message))
    return StreamChunk(error=fault, provider_metadata={_PROVIDER: {"error": error}})


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a {type(value).__name__} where an object is needed")
    return value


def says_nothing(value: Any) -> bool:
    """Null and empty objects and lists, which stand for a field that is not there."""
    return value is None or value == {} or value == []


def _finish(chunk: StreamChunk, reason: Any, message: Any) -> None:
    word = _FINISH_REASONS.get(reason, str(reason)) if type(reason) is int else str(reason)
    chunk.finish_reason = chunk.native_finish_reason = word
    chunk.finish_message = message
    chunk.terminal = True


def _read_prompt_feedback(chunk: StreamChunk, feedback: Any) -> None:
    """A blocked prompt ends the stream; feedback without a block reason says nothing of the end."""
    reason = feedback.get("blockReason") if feedback else None
    if reason in _NO_REASON:
        return
    word = _BLOCK_REASONS.get(reason, str(reason)) if type(reason) is int else str(reason)
    chunk.finish_reason, chunk.finish_code = "SAFETY", word
    chunk.finish_message = feedback.get("blockReasonMessage")
    chunk.terminal = True


def _named_rating(rating: Any) -> Any:
    """A safety rating with names in the place of numbers."""
    if not isinstance(rating, dict):
        return rating
    tables = {"category": _CATEGORIES, "probability": _PROBABILITIES}
    return {
        key: tables.get(key, {}).get(value, value) if isinstance(value, int) else value for key, value in rating.items()
    }


def to_native(responses: Sequence[LlmResponse]) -> dict[str, Any]:
    """A ``Content`` in wire form, ready to be sent back as history: signatures on their parts, in order.

    Ids that were made here are left out (the model never saw them), and so is ``partMetadata``, which is ours. Of
    another provider's turn text and calls are kept: its thoughts and opaque values mean nothing to Gemini.
    """
    parts: list[dict[str, Any]] = []
    for response in responses:
        if response.partial:
            raise NativeError("a partial response is a hint for display and no part of the history")
        own = (response.provider_metadata or {}).get("provider") in (None, _PROVIDER, "gemini-live")
        data = response.model_dump(mode="json", by_alias=True, exclude_none=True, include={"content"})
        for part in (data.get("content") or {}).get("parts") or ():
            parts += _native_part(part) if own else _foreign_part(part)
    return {"role": "model", "parts": parts}


def _native_part(part: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = part.pop("partMetadata", {})
    unknown = metadata.get(_PROVIDER)
    native = _native_call(part, metadata)
    return [merge_nested(unknown, native) if isinstance(unknown, dict) else native]


def _foreign_part(part: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = part.pop("partMetadata", {})
    if part.get("thought") or "server_tool" in metadata:
        return []
    part.pop("thoughtSignature", None)
    return [_native_call(part, metadata)] if part else []


def _native_call(part: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    call = part.get("functionCall")
    if call is None:
        return part
    call = {key: value for key, value in call.items() if key not in ("partialArgs", "willContinue")}
    if str(call.get("id", "")).startswith(MADE_ID_PREFIX):
        del call["id"]
    if "args" not in call:
        call["args"] = {"raw_arguments": metadata.get("raw_arguments") or ""}
    return {**part, "functionCall": call}
