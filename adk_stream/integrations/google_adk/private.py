"""Every name of google-adk that is used here and that google-adk does not call public, in one place.

A test looks each of them up in the release that is installed, so that a move is noticed there and not in the field.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from google.adk.errors._stale_session_error import StaleSessionError

__all__ = ["JSON_PATH_NAMES", "PRIVATE_NAMES", "PrivateName", "StaleSessionError", "json_path_name"]


class PrivateName(NamedTuple):
    """A name, the module it is in, and the first release of google-adk that has it."""

    module: str
    name: str
    since: tuple[int, int]


_STREAMING = "google.adk.utils.streaming_utils"

#: Names of the module around the aggregator: other models of google-adk, and its tests, import them from there.
JSON_PATH_NAMES = ("_JsonPathTracker", "_parse_json_path", "_get_value_by_json_path", "_set_value_by_json_path")

PRIVATE_NAMES = (
    PrivateName(_STREAMING, "StreamingResponseAggregator", (2, 0)),  # its place, not the class, is private
    PrivateName("google.adk.models.google_llm", "StreamingResponseAggregator", (2, 0)),
    PrivateName("google.adk.models.gemini_llm_connection", "GeminiLlmConnection", (2, 0)),
    PrivateName("google.adk.models.google_llm", "GeminiLlmConnection", (2, 0)),
    PrivateName("google.adk.features", "is_feature_enabled", (2, 0)),
    PrivateName("google.adk.features", "FeatureName", (2, 0)),
    PrivateName("google.adk.errors.already_exists_error", "AlreadyExistsError", (2, 0)),
    PrivateName("google.adk.errors.session_not_found_error", "SessionNotFoundError", (2, 0)),
    PrivateName("google.adk.errors._stale_session_error", "StaleSessionError", (2, 7)),
    *(PrivateName(_STREAMING, name, (2, 11)) for name in JSON_PATH_NAMES),
)


def json_path_name(name: str) -> Any:
    """One of ``JSON_PATH_NAMES``, google-adk's own; None where the release that is installed has none."""
    return getattr(import_module(_STREAMING), name, None)
