"""Merging what comes beside the parts: usage, grounding, citations, log probabilities, the provider's own.

Everything here is in wire form (dicts with camelCase keys, as Google's REST API spells them); the aggregator
makes google-genai objects of the result once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["as_wire", "merge_metadata", "merge_nested", "merge_snapshot"]


def as_wire(value: Any) -> Any:
    """A google-genai object (or a list of them) in wire form; anything else as it is."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [as_wire(item) for item in value]
    return value


def merge_snapshot(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Per counter the last non-null value: usage is a running total, never a sum."""
    return {**old, **{key: value for key, value in new.items() if value is not None}}


def merge_nested(old: Any, new: Any) -> Any:
    """Objects key by key at every depth, everything else replaced by the newer value unless that is null."""
    if new is None:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merge_nested(old.get(key), value) for key, value in new.items()}}
    return new


def merge_metadata(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Candidate metadata by the name of its field in ``LlmResponse``, each by its own rule."""
    merged = dict(old)
    for name, value in new.items():
        if value is None:
            continue
        rule = _RULES.get(name)
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = rule(merged[name], value) if rule and both else _first(name, value)
    return merged


def _first(name: str, value: Any) -> Any:
    # A provider may repeat an entry within one message, too.
    return _RULES[name]({}, value) if name in _RULES and isinstance(value, dict) else value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _distinct(*lists: Any) -> list[Any]:
    """Their items in order of first appearance."""
    seen: dict[str, Any] = {}
    for items in lists:
        for item in _items(items):
            seen.setdefault(repr(item), item)
    return list(seen.values())


def _merge_lists(*joined: str) -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    """A rule that joins these lists without repeats and takes the last non-null value of all else."""

    def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        merged = merge_snapshot(old, new)
        for key in joined:
            if old.get(key) or new.get(key):
                merged[key] = _distinct(old.get(key), new.get(key))
        return merged

    return merge


def _merge_grounding(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Chunks joined without repeats; the supports' indices into them are shifted along.

    A later message may count its chunks from zero again or repeat all of them with more behind: both come to
    the same list, since each chunk is found again by its content.
    """
    merged = _merge_queries(old, new)
    chunks = _distinct(old.get("groundingChunks"), new.get("groundingChunks"))
    place = {repr(chunk): number for number, chunk in enumerate(chunks)}
    supports: list[Any] = []
    for part in (old, new):
        own = _items(part.get("groundingChunks"))
        for support in _items(part.get("groundingSupports")):
            indices = _items(support.get("groundingChunkIndices")) if isinstance(support, dict) else None
            # indices beyond the message's own chunks speak of the chunks that came before
            supports.append(
                {**support, "groundingChunkIndices": [place[repr(own[i])] if _within(i, own) else i for i in indices]}
                if indices
                else support
            )
    if chunks:
        merged["groundingChunks"] = chunks
    if supports:
        merged["groundingSupports"] = _distinct(supports)
    return merged


def _within(index: Any, items: list[Any]) -> bool:
    return isinstance(index, int) and 0 <= index < len(items)


def _merge_logprobs(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Tokens in order; each message speaks of its own tokens only, so equal entries are no repeats.

    The lists are the aggregator's own and grow in place: a message brings a few tokens, and there are many.
    """
    merged = merge_snapshot(old, {key: value for key, value in new.items() if key not in _TOKEN_LISTS})
    for key in _TOKEN_LISTS:
        if _items(new.get(key)):
            merged.setdefault(key, []).extend(new[key])
    return merged


_TOKEN_LISTS = ("chosenCandidates", "topCandidates")

_merge_queries = _merge_lists("webSearchQueries", "imageSearchQueries", "retrievalQueries", "sourceFlaggingUris")

_RULES: dict[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] = {
    "grounding_metadata": _merge_grounding,
    "citation_metadata": _merge_lists("citations"),
    "logprobs_result": _merge_logprobs,
    "url_context_metadata": _merge_lists("urlMetadata"),
}
