"""Merging what comes beside the parts: usage, grounding, citations, log probabilities, the provider's own.

Everything here is in wire form (dicts with camelCase keys, as Google's REST API spells them); the aggregator
makes google-genai objects of the result once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import msgspec

__all__ = ["Metadata", "as_wire", "counts_as_wire", "merge_into", "merge_nested", "take_snapshot"]


def as_wire(value: Any) -> Any:
    """A google-genai object (or a list of them) in wire form; anything else as it is."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [as_wire(item) for item in value]
    return value


def counts_as_wire(counts: Any) -> dict[str, Any]:
    """``as_wire`` of a google-genai object that mostly counts: plain numbers are read from it, which costs less."""
    names = _wire_names(counts.__class__)
    wire: dict[str, Any] = {}
    for name, value in counts.__dict__.items():
        if type(value) is int:
            wire[names[name]] = value
        elif value is not None:
            return cast("dict[str, Any]", as_wire(counts))
    return wire


@cache
def _wire_names(cls: Any) -> dict[str, str]:
    return {name: field.alias or name for name, field in cls.model_fields.items()}


def take_snapshot(own: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Per counter the last non-null value: usage is a running total, never a sum."""
    own.update((key, value) for key, value in new.items() if value is not None)


def merge_nested(old: Any, new: Any) -> Any:
    """Objects key by key at every depth, everything else replaced by the newer value unless that is null."""
    if new is None:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merge_nested(old.get(key), value) for key, value in new.items()}}
    return new


def merge_into(own: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """``merge_nested`` in place, at a cost of ``new`` alone: for what grows over a stream.

    ``own`` and the objects in it must be this function's own work; of ``new`` it takes copies.
    """
    for key, value in new.items():
        if isinstance(value, dict):
            inner = own.get(key)
            own[key] = merge_into(inner if isinstance(inner, dict) else {}, value)
        elif value is not None or key not in own:
            own[key] = value
    return own


class Metadata(msgspec.Struct):
    """Candidate metadata over the messages of a stream, at a cost of each message alone.

    Attributes:
        merged: The metadata so far, by its field in ``LlmResponse``.
        places: For each list that is joined without repeats, where each of its items stands.
    """

    merged: dict[str, Any] = {}
    places: dict[str, dict[str, int]] = {}

    def add(self, new: Mapping[str, Any]) -> None:
        """Take in the metadata of one message, each field by its own rule."""
        for name, value in new.items():
            lists = _LISTS.get(name)
            if value is None:
                continue
            if lists is None:
                self.merged[name] = value
            elif isinstance(value, dict):
                self._join(name, value, lists)
            else:
                self.merged.setdefault(name, value)  # the reader of the final says what is wrong with it

    def _join(self, name: str, new: dict[str, Any], lists: tuple[str, ...]) -> None:
        if not isinstance(self.merged.get(name), dict):
            self.merged[name] = {}
        own = self.merged[name]
        for key, value in new.items():
            if key not in lists and value is not None:
                own[key] = value
        for key in lists:
            items = new.get(key)
            if key == "groundingSupports":
                items = self._shifted(items, new.get("groundingChunks"))
            if not isinstance(items, list):
                if items is not None:
                    own.setdefault(key, items)
                continue
            if not isinstance(own.get(key), list):
                own[key] = []
            if key in _TOKEN_LISTS:  # each message speaks of its own tokens only: equal entries are no repeats
                own[key] += items
                continue
            places = self.places.setdefault(f"{name}.{key}", {})
            for item in items:
                if places.setdefault(repr(item), len(own[key])) == len(own[key]):
                    own[key].append(item)

    def _shifted(self, supports: Any, chunks: Any) -> Any:
        """Supports whose indices speak of the joined chunks in the place of the message's own.

        A later message may count its chunks from zero again or repeat all of them with more behind: both come to
        the same list, since each chunk is found again by its content. Indices beyond the message's own chunks speak
        of the chunks that came before.
        """
        if not isinstance(supports, list):
            return supports
        places = self.places.get("grounding_metadata.groundingChunks", {})
        own = [places[repr(chunk)] for chunk in chunks] if isinstance(chunks, list) else []

        def shifted(support: Any) -> Any:
            indices = support.get("groundingChunkIndices") if isinstance(support, dict) else None
            if not isinstance(indices, list):
                return support
            return {**support, "groundingChunkIndices": [own[i] if _within(i, own) else i for i in indices]}

        return [shifted(support) for support in supports]


def _within(index: Any, items: list[int]) -> bool:
    return isinstance(index, int) and 0 <= index < len(items)


#: The lists of each field that are joined over the messages, chunks before the supports that speak of them.
#: Of all else the last non-null value counts.
_LISTS = {
    "grounding_metadata": (
        "webSearchQueries",
        "imageSearchQueries",
        "retrievalQueries",
        "sourceFlaggingUris",
        "groundingChunks",
        "groundingSupports",
    ),
    "citation_metadata": ("citations",),
    "logprobs_result": ("chosenCandidates", "topCandidates"),
    "url_context_metadata": ("urlMetadata",),
}
_TOKEN_LISTS = _LISTS["logprobs_result"]
