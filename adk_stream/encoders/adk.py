"""The events that google-adk's server sends from ``/run_sse`` and ``/run_live``, for clients made for it.

An event is the JSON of google-adk's ``Event`` in camelCase, without nulls, and with bytes in URL-safe base64 (RFC 4648
section 5), as google-adk writes it and reads it. What its ``Event`` has no field for is in
``customMetadata["adk_stream"]``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from adk_stream.response import LlmResponse

from .plain import text_parts
from .protocol import EVENT_STREAM, frame_data

__all__ = ["AdkEncoder"]

_OURS = frozenset(
    {
        "status",
        "native_finish_reason",
        "response_id",
        "safety_ratings",
        "url_context_metadata",
        "provider_metadata",
    }
)
_ELSEWHERE = {*_OURS, "content"}


class AdkEncoder:
    """Every response as one event. Responses that are events of a session already keep their id, author and time.

    Args:
        author: Of the responses that tell none.
        invocation_id: Of the responses that tell none; made when missing.
        clock: Gives the time of those responses, in seconds since the epoch.
    """

    headers: Mapping[str, str] = EVENT_STREAM

    def __init__(
        self, *, author: str = "model", invocation_id: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._author = author
        self._invocation_id = invocation_id or f"e-{uuid.uuid4()}"
        self._clock = clock
        self._id = str(uuid.uuid4())
        self._finished = False

    def encode(self, response: LlmResponse) -> list[dict[str, Any]]:
        """See ``Encoder``."""
        if self._finished:
            raise ValueError("the stream is finished")
        event = _as_event(response)
        if "id" not in event:
            event |= {
                "id": self._id,
                "author": self._author,
                "invocationId": self._invocation_id,
                "timestamp": self._clock(),
                "actions": {
                    "stateDelta": {},
                    "artifactDelta": {},
                    "requestedAuthConfigs": {},
                    "requestedToolConfirmations": {},
                },
            }
            if not response.partial:
                self._id = str(uuid.uuid4())  # partial events bear the id of the one that follows them
        return [event]

    def finish(self, error: BaseException | None = None) -> list[dict[str, Any]]:
        """Nothing after a natural end; the format has no mark for it."""
        if self._finished or error is None:
            self._finished = True
            return []
        self._finished = True
        name = type(error).__name__
        details = {"error_type": name, "error_message": str(error), "timestamp": self._clock()}
        return [{"error": f"{name}: {error}", "error_details": details}]

    def frame(self, event: dict[str, Any]) -> bytes:
        """See ``Encoder``."""
        return frame_data(event)


def _as_event(response: LlmResponse) -> dict[str, Any]:
    content = text_parts(response) if response.partial else None
    if content is not None and response.model_fields_set <= _PLAIN_FIELDS:
        event: dict[str, Any] = {"content": content, "partial": True}
        if response.model_version is not None:
            event["modelVersion"] = response.model_version
        ours = {name: value for name in _PLAIN_OURS if (value := getattr(response, name)) is not None}
    else:
        event = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_ELSEWHERE)
        if response.content is not None:
            # Dumped by itself: our own model would write standard base64.
            event["content"] = response.content.model_dump(mode="json", by_alias=True, exclude_none=True)
        ours = response.model_dump(mode="json", exclude_none=True, include=set(_OURS))
    if ours:
        event["customMetadata"] = {**event.get("customMetadata", {}), "adk_stream": ours}
    return event


_PLAIN_OURS = ("status", "response_id")
_PLAIN_FIELDS = frozenset({"content", "partial", "model_version", *_PLAIN_OURS})
