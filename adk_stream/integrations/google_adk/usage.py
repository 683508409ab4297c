"""Token counts over the chunks of one stream: running totals, of which each counter's last value stands."""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from google.genai.types import GenerateContentResponseUsageMetadata

__all__ = ["LastUsage", "Usage"]


class Usage:
    """Per counter the last value that is not null; a later object without counts erases nothing."""

    def __init__(self) -> None:
        self._last: GenerateContentResponseUsageMetadata | None = None  # not in _counters yet
        self._counters: dict[str, Any] = {}
        self._fields: set[str] = set()
        self._values_of: Callable[[dict[str, Any]], Any] = itemgetter("total_token_count", "total_token_count")

    def add(self, usage: GenerateContentResponseUsageMetadata) -> None:
        """Take a chunk's usage in; it is read now or later, and never changed."""
        # Most streams tell the same counters with each chunk: the newest object has all that the one before had.
        if usage.__pydantic_fields_set__ == self._fields and None not in self._values_of(usage.__dict__):
            self._last = usage
            return
        self._settle()
        self._last = usage
        self._fields = set(usage.__pydantic_fields_set__)
        first, *rest = self._fields or {"total_token_count"}
        self._values_of = itemgetter(first, first, *rest)  # of two names at least, so that it gives a tuple

    def _settle(self) -> None:
        if self._last is not None:
            values = self._last.__dict__
            told = {name: values[name] for name in self._last.__pydantic_fields_set__ if values[name] is not None}
            self._counters.update(told)

    def result(self) -> GenerateContentResponseUsageMetadata | None:
        """The counts so far, as a new object; None if none were told."""
        self._settle()
        return GenerateContentResponseUsageMetadata(**copy.deepcopy(self._counters)) if self._counters else None


class LastUsage(Usage):
    """The last object as it came."""

    def add(self, usage: GenerateContentResponseUsageMetadata) -> None:
        """Take a chunk's usage in, in the place of what came before."""
        self._last, self._counters = usage, {}
