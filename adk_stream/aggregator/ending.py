"""What the last final says beside its content: how the stream ended, usage, metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adk_stream.aggregator.state import CandidateState, StreamState
from adk_stream.metadata import merge_nested
from adk_stream.parts import StreamFault, as_text, fresh

if TYPE_CHECKING:
    from google.genai import types

__all__ = ["as_words", "end_fields", "fault_of", "metadata_fields"]

_CANCELLATIONS = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})


def end_fields(candidate: CandidateState, fault: StreamFault | None, refused: bool) -> dict[str, Any]:
    """Status, finish reason and error of a final: judged by the terminal sign alone, a refusal aside."""
    native_word = as_words(candidate.native_finish_reason)
    native = {"native_finish_reason": native_word}
    if fault is not None:
        code, message = as_words(fault.code), as_words(fault.message)
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
        "error_code": as_words(candidate.finish_code or (reason if reason != "OTHER" else native_word or reason)),
        "error_message": as_words(candidate.finish_message),
    }


def as_words(value: Any) -> str | None:
    """What should be a text and may be anything, as a text."""
    return None if value is None else as_text(value)


def _finish_reason(word: str) -> types.FinishReason:
    from google.genai import types

    return types.FinishReason.__members__.get(word, types.FinishReason.OTHER)


def fault_of(error: BaseException) -> StreamFault:
    """An exception as the fault it means, by the names of its classes (the core imports no asyncio)."""
    names = {cls.__name__ for cls in type(error).__mro__}
    ours = "AdkStreamError" in names
    message = (getattr(error, "message", None) if ours else None) or str(error) or None
    if names & _CANCELLATIONS:
        return StreamFault("STREAM_CANCELLED", message, "cancelled")
    if any("Timeout" in name for name in names):
        return StreamFault("STREAM_TIMEOUT", message)
    code = getattr(error, "code", None) if ours else None
    return StreamFault(code or type(error).__name__, message)


def metadata_fields(state: StreamState) -> dict[str, Any]:
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
    for name, value in fresh(state.candidate.metadata.merged).items():
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
