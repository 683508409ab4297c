"""A turn sent on to another provider: text and calls stay, what only its own provider can read stays out."""

from __future__ import annotations

import json

import pytest

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.errors import NativeError

SECRET = "b3BhcXVl"  # a signature, or whatever the provider calls it

TURNS = {
    "gemini": [
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "thinking", "thought": True},
                            {"text": "answer"},
                            {
                                "functionCall": {"id": "call_1", "name": "look", "args": {"q": 1}},
                                "thoughtSignature": SECRET,
                            },
                        ]
                    },
                    "finishReason": "STOP",
                }
            ]
        }
    ],
    "openai-chat": [
        {"choices": [{"index": 0, "delta": {"reasoning_content": "thinking"}}]},
        {"choices": [{"index": 0, "delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": SECRET}]}}]},
        {"choices": [{"index": 0, "delta": {"content": "answer"}}]},
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": '{"q":1}'}}
                        ]
                    },
                    "finish_reason": "tool_calls",
                }
            ]
        },
        "[DONE]",
    ],
    "openai-responses": [
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "id": "rs_1",
                "type": "reasoning",
                "encrypted_content": SECRET,
                "summary": [{"type": "summary_text", "text": "thinking"}],
            },
        },
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "answer", "annotations": []}],
            },
        },
        {
            "type": "response.output_item.done",
            "output_index": 2,
            "item": {
                "id": "fc_1",
                "type": "function_call",
                "call_id": "call_1",
                "name": "look",
                "arguments": '{"q":1}',
            },
        },
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "thinking", "signature": SECRET},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "answer"}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "call_1", "name": "look", "input": {"q": 1}},
        },
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
}


def final_of(provider: str, flush: str = "close") -> list[LlmResponse]:
    responses = list(aggregate(TURNS[provider], provider=provider, flush=flush))
    return [response for response in responses if not response.partial]


@pytest.mark.parametrize("origin", TURNS)
@pytest.mark.parametrize("target", TURNS)
def test_text_and_calls_go_everywhere_and_opaque_values_only_home(origin: str, target: str) -> None:
    native = json.dumps(to_native(final_of(origin), provider=target))
    assert "answer" in native
    assert "look" in native
    assert "call_1" in native
    assert (SECRET in native) is (origin == target)
    if origin != target:
        assert "thinking" not in native


@pytest.mark.parametrize("provider", TURNS)
def test_the_message_is_the_same_from_one_final_from_many_and_from_a_stored_one(provider: str) -> None:
    whole = to_native(final_of(provider), provider=provider)
    assert to_native(final_of(provider, "boundary"), provider=provider) == whole
    stored = [
        LlmResponse.model_validate_json(response.model_dump_json(by_alias=True, exclude_none=True))
        for response in final_of(provider)
    ]
    assert to_native(stored, provider=provider) == whole
    assert to_native(stored[0], provider=provider) == whole


@pytest.mark.parametrize("provider", TURNS)
def test_a_partial_response_is_no_history(provider: str) -> None:
    partial = next(iter(aggregate(TURNS[provider], provider=provider)))
    assert partial.partial
    with pytest.raises(NativeError, match="partial"):
        to_native(partial, provider=provider)


def test_unknown_provider() -> None:
    with pytest.raises(ValueError, match="no provider 'else'"):
        to_native(final_of("gemini"), provider="else")


def test_gemini_gives_unknown_part_fields_back_and_keeps_made_ids_to_itself() -> None:
    parts = [{"text": "hi", "newField": {"a": 1}}, {"functionCall": {"name": "f", "args": {"a": 1}}}]
    event = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    *_, final = aggregate([event], provider="gemini")
    assert final.parts[1].function_call.id
    assert to_native(final, provider="gemini") == {"role": "model", "parts": parts}
