"""What the test servers have seen: kept for the test to look at, and never without bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["MAX_SEEN", "SeenRequest"]

#: How many of the last requests, or messages, a server keeps.
MAX_SEEN = 1000


class SeenRequest(NamedTuple):
    """A request that came in.

    Attributes:
        path: The URL path, without query.
        headers: The headers, their names in lower case.
        body: The decoded JSON body; of a Live session its setup.
        query: The query's fields.
    """

    path: str
    headers: Mapping[str, str]
    body: Any
    query: Mapping[str, str]
