"""Token counts of several answers, added up."""

from __future__ import annotations

from typing import Any

from google.genai import types

__all__ = ["sum_usage"]

_Usage = types.GenerateContentResponseUsageMetadata


def sum_usage(total: _Usage, one: _Usage | None) -> _Usage:
    """Each counter's sum, as a new object; a counter that neither has stays None."""
    if one is None:
        return total
    counts: dict[str, Any] = _counts(total)
    for name, count in _counts(one).items():
        counts[name] = counts.get(name, 0) + count
    return _Usage(**counts)


def _counts(usage: _Usage) -> dict[str, Any]:
    return {name: value for name, value in usage.__dict__.items() if type(value) is int}
