"""Which provider line is this? Told from the shape of a single event.

Each line marks its events by fields that no other line has at that place. An event without such a mark (a
ping, an empty object, an error object that several providers write alike) does not tell, and the next one is
asked.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["detect_line"]

# Server messages of the Live API, https://ai.google.dev/api/live; snake_case as the SDK's own dumps have it.
_LIVE_FIELDS = frozenset(
    {
        "setupComplete",
        "serverContent",
        "toolCall",
        "toolCallCancellation",
        "goAway",
        "sessionResumptionUpdate",
        "setup_complete",
        "server_content",
        "tool_call",
        "tool_call_cancellation",
        "go_away",
        "session_resumption_update",
    }
)
# GenerateContentResponse, https://ai.google.dev/api/generate-content. Usage alone does not tell: Live has it.
_GEMINI_FIELDS = frozenset({"candidates", "promptFeedback", "modelVersion", "prompt_feedback", "model_version"})
_ANTHROPIC_TYPES = ("message_start", "message_delta", "message_stop", "content_block_")


def detect_line(value: object, name: str | None = None) -> str | None:
    """The line of one decoded event, or None if this event does not tell.

    Args:
        value: The decoded payload.
        name: The event's SSE name, which stands in for a missing ``type``.

    Returns:
        ``"gemini"``, ``"gemini-live"``, ``"openai-chat"``, ``"openai-responses"``, ``"anthropic"`` or None.
    """
    if not isinstance(value, Mapping):
        return None
    if value.get("direction") == "received" and "data" in value:  # a frame of a session recorded in both directions
        return detect_line(value["data"])
    kind = value.get("type") or name
    if isinstance(kind, str):
        if kind.startswith("response."):
            return "openai-responses"
        if kind.startswith(_ANTHROPIC_TYPES):
            return "anthropic"
        if kind == "error" and "type" in value:
            return _line_of_error_event(value)
    object_name = value.get("object")
    if object_name == "response":
        return "openai-responses"
    if isinstance(value.get("choices"), list) or (
        isinstance(object_name, str) and object_name.startswith("chat.completion")
    ):
        return "openai-chat"
    if not _LIVE_FIELDS.isdisjoint(value):
        return "gemini-live"
    if not _GEMINI_FIELDS.isdisjoint(value) or _is_google_status(value.get("error")):
        return "gemini"
    return None


def _line_of_error_event(event: Mapping[str, object]) -> str | None:
    """Responses numbers its error events or writes code and message flat; Anthropic nests a typed error."""
    if "sequence_number" in event or "code" in event:
        return "openai-responses"
    error = event.get("error")
    return "anthropic" if isinstance(error, Mapping) and isinstance(error.get("type"), str) else None


def _is_google_status(error: object) -> bool:
    """Google's error object: a numeric code and a status such as ``"INVALID_ARGUMENT"`` (google.rpc.Code)."""
    if not isinstance(error, Mapping):
        return False
    status = error.get("status")
    return isinstance(error.get("code"), int) and isinstance(status, str) and status.isupper()
