"""What a Responses stream tells beside its items: the end, errors, usage, citations, log probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adk_stream.metadata import merge_nested
from adk_stream.parts import StreamChunk, StreamFault
from adk_stream.providers.openai_responses_items import Run
from adk_stream.providers.openai_responses_native import PROVIDER

__all__ = ["ENDS", "add_annotations", "add_logprobs", "fault", "note", "usage_counts"]

_FINISH = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}


def note(chunk: StreamChunk, key: str, value: Any) -> None:
    """Something for ``provider_metadata`` under the line's name."""
    chunk.provider_metadata = merge_nested(chunk.provider_metadata, {PROVIDER: {key: value}})


# ----------------------------------------------------------------- the end


def _completed(chunk: StreamChunk, response: Mapping[str, Any]) -> None:
    chunk.finish_reason, chunk.native_finish_reason, chunk.terminal = "STOP", "completed", True


def _incomplete(chunk: StreamChunk, response: Mapping[str, Any]) -> None:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    chunk.finish_reason = _FINISH.get(str(reason), "OTHER")
    chunk.native_finish_reason, chunk.terminal = str(reason or "incomplete"), True


def _failed(chunk: StreamChunk, response: Mapping[str, Any]) -> None:
    error = response.get("error")
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    chunk.native_finish_reason = "failed"
    chunk.error = fault(fields.get("code") or fields.get("type") or "failed", fields.get("message"))


def _cancelled(chunk: StreamChunk, response: Mapping[str, Any]) -> None:
    chunk.native_finish_reason = "cancelled"
    chunk.error = StreamFault("STREAM_CANCELLED", "the response was cancelled at the provider", "cancelled")


def fault(code: Any, message: Any) -> StreamFault:
    """An error in the provider's words."""
    return StreamFault(str(code), None if message is None else str(message))


#: What each terminal status says to the chunk.
ENDS = {"completed": _completed, "incomplete": _incomplete, "failed": _failed, "cancelled": _cancelled}


# ----------------------------------------------------------------- usage, citations, log probabilities


def usage_counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Input includes what was cached and output includes reasoning, unless the total says otherwise."""
    given, output, total = usage.get("input_tokens"), usage.get("output_tokens"), usage.get("total_tokens")
    reasoning = _detail(usage, "output_tokens_details", "reasoning_tokens")
    said = output
    if isinstance(output, int) and isinstance(reasoning, int):
        beside = reasoning > 0 and total == (given or 0) + output + reasoning
        said = output if beside or reasoning > output else output - reasoning
    counts = {
        "promptTokenCount": given,
        "cachedContentTokenCount": _detail(usage, "input_tokens_details", "cached_tokens"),
        "candidatesTokenCount": said,
        "thoughtsTokenCount": reasoning,
        "totalTokenCount": total,
    }
    if total is None and isinstance(given, int) and isinstance(said, int):
        counts["totalTokenCount"] = given + said + (reasoning or 0)
    return {name: count for name, count in counts.items() if count is not None}


def _detail(usage: Mapping[str, Any], group: str, name: str) -> Any:
    details = usage.get(group)
    return details.get(name) if isinstance(details, Mapping) else None


def add_annotations(chunk: StreamChunk, run: Run, annotations: Sequence[Any]) -> None:
    """Those of them that are news, as citations with their offsets unchanged."""
    news = [each for each in annotations if each not in run.annotations]
    run.annotations += news
    citations = [citation for annotation in news if (citation := _citation(annotation))]
    if citations:
        known = ((chunk.metadata or {}).get("citation_metadata") or {}).get("citations") or []
        chunk.metadata = {**(chunk.metadata or {}), "citation_metadata": {"citations": known + citations}}


def _citation(annotation: Any) -> dict[str, Any]:
    if not isinstance(annotation, Mapping):
        return {}
    citation = {
        "uri": annotation.get("url"),
        "title": annotation.get("title") or annotation.get("filename"),
        "startIndex": annotation.get("start_index"),
        "endIndex": annotation.get("end_index"),
        "fileId": annotation.get("file_id"),
    }
    return {key: value for key, value in citation.items() if value is not None}


def add_logprobs(chunk: StreamChunk, run: Run, logprobs: Any) -> None:
    """Log probabilities of a few tokens, which the run then need not be told again."""
    run.has_logprobs = True
    tokens = [entry for entry in logprobs if isinstance(entry, Mapping)]
    result = {
        "chosenCandidates": [_token(entry) for entry in tokens],
        "topCandidates": [
            {"candidates": [_token(top) for top in entry.get("top_logprobs") or () if isinstance(top, Mapping)]}
            for entry in tokens
        ],
    }
    known = (chunk.metadata or {}).get("logprobs_result")
    if known:
        result = {key: known[key] + result[key] for key in result}
    chunk.metadata = {**(chunk.metadata or {}), "logprobs_result": result}


def _token(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": entry.get("token"), "logProbability": entry.get("logprob")}
