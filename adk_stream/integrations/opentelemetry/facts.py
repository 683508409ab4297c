"""What a request and a response tell in the words of the conventions: plain functions, and nothing of the content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from adk_stream.errors import AdkStreamError

from . import names

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import ModelRequest
    from adk_stream.response import LlmResponse

__all__ = ["Attributes", "error_type", "failure_of", "request_attributes", "response_attributes", "tokens_by_modality"]

#: Attributes of a span or a measurement.
Attributes: TypeAlias = dict[str, Any]


def request_attributes(request: ModelRequest) -> Attributes:
    """The request's settings."""
    config = request.config
    if config is None:
        return {}
    told = {name: getattr(config, setting, None) for setting, name in names.REQUEST_SETTINGS.items()}
    if config.candidate_count not in (None, 1):
        told[names.REQUEST_CHOICE_COUNT] = config.candidate_count
    told[names.OUTPUT_TYPE] = _output_type(config)
    return {name: value for name, value in told.items() if value is not None}


def _output_type(config: types.GenerateContentConfig) -> str | None:
    wants_json = config.response_schema is not None or config.response_json_schema is not None
    if wants_json or config.response_mime_type == "application/json":
        return "json"
    wanted = {str(getattr(each, "value", each)).lower() for each in config.response_modalities or ()}
    return next((word for modality, word in _OUTPUT_TYPES if modality in wanted), None)


_OUTPUT_TYPES = (("image", "image"), ("audio", "speech"), ("text", "text"))


def response_attributes(final: LlmResponse) -> Attributes:
    """What a final tells: who answered, how it ended, and what it took."""
    told: Attributes = {
        names.STATUS: final.status,
        names.RESPONSE_ID: final.response_id,
        names.RESPONSE_MODEL: final.model_version,
        names.RESPONSE_FINISH_REASONS: (_finish_reason(final),),
        **usage_attributes(final.usage_metadata, final.provider_metadata),
    }
    return {name: value for name, value in told.items() if value is not None}


def _finish_reason(final: LlmResponse) -> str:
    """The provider's own word; an answer that broke off has none."""
    if final.native_finish_reason:
        return final.native_finish_reason
    reason = final.finish_reason
    return names.ERROR if reason is None else str(getattr(reason, "value", reason))


def usage_attributes(
    usage: types.GenerateContentResponseUsageMetadata | None, metadata: Mapping[str, Any] | None = None
) -> Attributes:
    """Counts of tokens: input with what came from a cache, output with what was thought."""
    if usage is None:
        return {}
    own = (metadata or {}).get("usage")
    written = own.get("cache_creation_input_tokens") if isinstance(own, Mapping) else None
    return {
        names.INPUT_TOKENS: _sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
        names.OUTPUT_TOKENS: _sum(usage.candidates_token_count, usage.thoughts_token_count),
        names.CACHE_READ_TOKENS: usage.cached_content_token_count,
        names.CACHE_WRITE_TOKENS: written
        if type(written) is int
        else None,  # the provider's own object may hold anything
        names.REASONING_TOKENS: usage.thoughts_token_count,
    }


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def tokens_by_modality(final: LlmResponse | None, name: str, count: int) -> dict[str, int]:
    """A count, broken down as far as the provider does."""
    usage = final.usage_metadata if final is not None else None
    details: Iterable[types.ModalityTokenCount] = getattr(usage, _DETAILS.get(name, ""), None) or ()
    counts: dict[str, int] = {}
    for detail in details:
        modality = str(getattr(detail.modality, "value", detail.modality)).lower()
        counts[modality] = counts.get(modality, 0) + (detail.token_count or 0)
    rest = count - sum(counts.values())
    if rest < 0:
        return {names.UNKNOWN: count}  # the details speak of something else
    if rest or not counts:
        counts[names.UNKNOWN] = counts.get(names.UNKNOWN, 0) + rest
    return counts


_DETAILS = {
    names.INPUT_TOKENS: "prompt_tokens_details",
    names.OUTPUT_TOKENS: "candidates_tokens_details",
    names.CACHE_READ_TOKENS: "cache_tokens_details",
}


# ----------------------------------------------------------------- errors


def failure_of(response: LlmResponse | None) -> str | None:
    """What went wrong, as ``error.type``; None: nothing did, or somebody called it off.

    An answer that the provider itself ended early (a limit, a filter) was received as it is: no error.
    """
    if response is None:
        return None
    if response.status == "failed":
        return response.error_code or names.OTHER_ERROR
    cut = response.status == "incomplete" and response.finish_reason is None and response.native_finish_reason is None
    return (response.error_code or names.OTHER_ERROR) if cut and not response.interrupted else None


def error_type(problem: BaseException) -> str:
    """The provider's code or this package's, else the name of the class; never the message, which may quote content."""
    code = problem.code if isinstance(problem, AdkStreamError) else None
    return str(code) if code else type(problem).__name__
