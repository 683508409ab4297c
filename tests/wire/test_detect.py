from __future__ import annotations

import pytest

from adk_stream.wire import detect_line


@pytest.mark.parametrize(
    ("value", "name", "line"),
    [
        ({"candidates": []}, None, "gemini"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, None, "gemini"),
        ({"usageMetadata": {}, "modelVersion": "m"}, None, "gemini"),
        ({"usage_metadata": {}, "model_version": "m"}, None, "gemini"),
        ({"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}, None, "gemini"),
        ({"setupComplete": {}}, None, "gemini-live"),
        ({"server_content": {}, "usage_metadata": {}}, None, "gemini-live"),
        ({"serverContent": {}, "usageMetadata": {}}, None, "gemini-live"),
        ({"goAway": {"timeLeft": "5s"}}, None, "gemini-live"),
        ({"object": "chat.completion.chunk", "usage": None}, None, "openai-chat"),
        ({"choices": [], "object": ""}, None, "openai-chat"),
        ({"type": "response.created", "response": {}}, None, "openai-responses"),
        ({"delta": "x"}, "response.output_text.delta", "openai-responses"),
        ({"object": "response", "output": []}, None, "openai-responses"),
        ({"type": "error", "code": "x", "message": "m", "param": None}, "error", "openai-responses"),
        ({"type": "error", "sequence_number": 2, "error": {"type": "quota"}}, None, "openai-responses"),
        ({"type": "message_start", "message": {}}, None, "anthropic"),
        ({"type": "content_block_delta", "index": 0}, None, "anthropic"),
        ({"type": "message_delta"}, "message_delta", "anthropic"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "error", "anthropic"),
        ({"type": "ping"}, "ping", None),
        ({"usageMetadata": {}}, None, None),
        ({"error": {"message": "m", "code": "x"}}, None, None),
        ({"error": {"message": "m"}}, "error", None),
        ({"choices": None, "candidates_": 1, "type": 5, "object": 7}, None, None),
        ({}, None, None),
        ([], None, None),
        ("candidates", None, None),
        (None, "response.created", None),
    ],
)
def test_one_event(value: object, name: str | None, line: str | None) -> None:
    assert detect_line(value, name) == line
