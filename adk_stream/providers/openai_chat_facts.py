"""What a Chat chunk says beside its content: the end, errors, usage, citations, log probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adk_stream.parts import StreamFault

__all__ = ["FINISHES", "citations_of", "fault_of", "logprobs_of", "merge_usage", "usage_counts"]

#: Finish reasons in Gemini's words, by the provider's in lower case. Others are unknown, and no natural end.
FINISHES: dict[str, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "eos": "STOP",
    "eos_token": "STOP",
    "end_turn": "STOP",
    "tool_use": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "max_tokens": "MAX_TOKENS",
    "model_length": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
    "safety": "SAFETY",
    "sensitive": "SAFETY",
}

#: Where servers put the sentence about an error.
_MESSAGES = ("message", "msg", "detail", "error_msg", "Message")
_CODES = ("code", "type", "status", "Code")


def fault_of(event: Mapping[str, Any]) -> StreamFault | None:
    """The error an event holds, in any of the shapes that servers give it; None if it is no error."""
    error = event.get("error")
    if not error:
        if event.get("object") == "error":
            error = event
        elif "Response" in event and isinstance(event["Response"], Mapping):
            error = event["Response"].get("Error")
        elif not event.keys() & {"choices", "id", "usage", "object"} and _first(event, _MESSAGES) is not None:
            error = event if event.keys() & {*_CODES, "error_msg", "detail"} else None
    if not error:
        return None
    if not isinstance(error, Mapping):
        return StreamFault(None, str(error))
    code, message = _first(error, _CODES), _first(error, _MESSAGES)
    return StreamFault(None if code is None else str(code), None if message is None else str(message))


def _first(mapping: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((mapping[key] for key in keys if mapping.get(key) not in (None, "")), None)


def merge_usage(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Usage is a running total: per counter the last non-null value; an object of zeros says nothing."""
    merged = dict(old)
    for key, value in new.items():
        if isinstance(value, Mapping):
            merged[key] = merge_usage(merged.get(key) or {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def counts_anything(usage: Any) -> bool:
    """Is any counter other than zero?"""
    return isinstance(usage, Mapping) and any(value and isinstance(value, (int, float)) for value in usage.values())


def usage_counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts in the shared meaning: the prompt with what was read from cache, the candidates without reasoning.

    Some servers count reasoning inside the completion, as OpenAI does, some beside it; the total tells.
    """
    prompt, completion, total = (usage.get(key) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
    details = usage.get("prompt_tokens_details") or usage.get("prompt_token_details") or {}
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    cached = next(
        (
            value
            for value in (
                details.get("cached_tokens"),
                usage.get("cached_tokens"),
                usage.get("prompt_cache_hit_tokens"),
            )
            if value is not None
        ),
        None,
    )
    spoken = completion
    if completion is not None and reasoning:
        beside = total == (prompt or 0) + completion + reasoning or reasoning > completion
        spoken = completion if beside else completion - reasoning
    if total is None and (prompt is not None or completion is not None):
        total = (prompt or 0) + (spoken or 0) + (reasoning or 0)
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": spoken,
        "thoughtsTokenCount": reasoning,
        "cachedContentTokenCount": cached,
        "totalTokenCount": total,
    }
    return {name: count for name, count in counts.items() if count is not None}


def citations_of(annotations: Sequence[Any]) -> list[dict[str, Any]]:
    """``url_citation`` annotations (OpenAI), and bare URLs (Perplexity's ``citations``), as google-genai citations."""
    citations = []
    for each in annotations:
        if isinstance(each, str):
            citations.append({"uri": each})
        elif isinstance(each, Mapping):
            cited = each.get("url_citation") or each
            fields = {
                "uri": cited.get("url"),
                "title": cited.get("title"),
                "startIndex": cited.get("start_index"),
                "endIndex": cited.get("end_index"),
            }
            citation = {name: value for name, value in fields.items() if value is not None}
            if citation:
                citations.append(citation)
    return citations


def logprobs_of(logprobs: Mapping[str, Any]) -> dict[str, Any] | None:
    """``choice.logprobs`` as google-genai's LogprobsResult."""
    tokens = [*(logprobs.get("content") or ()), *(logprobs.get("refusal") or ())]
    if not tokens:
        return None
    chosen = [{"token": each.get("token"), "logProbability": each.get("logprob")} for each in tokens]
    top = [
        {
            "candidates": [
                {"token": one.get("token"), "logProbability": one.get("logprob")}
                for one in each.get("top_logprobs") or ()
            ]
        }
        for each in tokens
    ]
    return {"chosenCandidates": chosen, "topCandidates": top}
