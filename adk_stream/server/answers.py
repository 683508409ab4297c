"""JSON answers, written as the encoders write: what a model said may hold what stricter writers refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from adk_stream.encoders.protocol import dumps

__all__ = ["json_answer"]


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``value`` as a JSON response."""
    return Response(dumps(value).encode(), status, headers, "application/json")
