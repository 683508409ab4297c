"""LlmResponse, its JSON, and the clones that stand in for validated models."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_stream import LlmResponse
from adk_stream.response import Template, read_lenient

CALL = types.FunctionCall(id="c", name="f", will_continue=True)

#: (template, changes, what the constructor makes of the same)
CLONES: list[tuple[BaseModel, dict[str, Any], BaseModel]] = [
    (types.Part(text=""), {"text": "hi"}, types.Part(text="hi")),
    (types.Part(text="", thought=True), {"text": "hm"}, types.Part(text="hm", thought=True)),
    (types.Part(function_call=CALL), {"function_call": CALL}, types.Part(function_call=CALL)),
    (
        types.Part(function_call=CALL, part_metadata={}),
        {"function_call": CALL, "part_metadata": {"arguments_delta": "{"}},
        types.Part(function_call=CALL, part_metadata={"arguments_delta": "{"}),
    ),
    (
        types.FunctionCall(id=None, name=None, will_continue=True),
        {"id": "c", "name": "f"},
        types.FunctionCall(id="c", name="f", will_continue=True),
    ),
    (
        types.PartialArg(json_path="", string_value=""),
        {"json_path": "$.a", "string_value": "x"},
        types.PartialArg(json_path="$.a", string_value="x"),
    ),
    (
        types.Content(parts=[], role="model"),
        {"parts": [types.Part(text="a")]},
        types.Content(parts=[types.Part(text="a")], role="model"),
    ),
    (
        LlmResponse(content=types.Content(), partial=True, status="in_progress", model_version="m", response_id=None),
        {"content": types.Content(role="model")},
        LlmResponse(
            content=types.Content(role="model"),
            partial=True,
            status="in_progress",
            model_version="m",
            response_id=None,
        ),
    ),
]


@pytest.mark.parametrize(("model", "changes", "validated"), CLONES, ids=lambda each: type(each).__name__)
def test_a_clone_is_what_the_constructor_makes(model: BaseModel, changes: dict[str, Any], validated: BaseModel) -> None:
    template = Template(model)
    clones = [template.clone(changes)]
    if len(changes) == 1:
        clones.append(template.maker(*changes)(*changes.values()))
    else:
        clones.append(template.pair_maker(*changes)(*changes.values()))
    for clone in clones:
        assert clone == validated
        assert type(clone) is type(validated)
        assert clone.model_fields_set == validated.model_fields_set
        assert clone.model_dump() == validated.model_dump()
        assert clone.model_dump_json(exclude_unset=True) == validated.model_dump_json(exclude_unset=True)
        assert repr(clone) == repr(validated)
        for copied in (
            copy.copy(clone),
            copy.deepcopy(clone),
            clone.model_copy(),
            clone.model_copy(deep=True),
            pickle.loads(pickle.dumps(clone)),
        ):
            assert copied == validated
            assert copied.model_fields_set == validated.model_fields_set


def test_clones_share_nothing() -> None:
    make = Template(types.Part(text="")).maker("text")
    one, other = make("a"), make("b")
    one.text = "changed"
    one.thought = True
    assert other == types.Part(text="b")
    assert other.model_fields_set == {"text"}


def test_json_is_camel_case_with_standard_base64() -> None:
    data = bytes(range(256))
    image = types.Part(inline_data=types.Blob(mime_type="image/png", data=data))
    signed = types.Part(text="a", thought_signature=data)
    response = LlmResponse(content=types.Content(parts=[signed, image]), model_version="m")
    dumped = json.loads(response.model_dump_json(by_alias=True, exclude_none=True))
    assert dumped["modelVersion"] == "m"
    parts = dumped["content"]["parts"]
    assert "+" in parts[0]["thoughtSignature"]
    assert "/" in parts[0]["thoughtSignature"]
    assert parts[1]["inlineData"]["data"] == parts[0]["thoughtSignature"]
    assert LlmResponse.model_validate(dumped) == response
    assert LlmResponse.model_validate_json(response.model_dump_json(by_alias=True)) == response


def test_text_and_thought_text() -> None:
    parts = [types.Part(text="hm", thought=True), types.Part(text="a"), types.Part(function_call=CALL)]
    response = LlmResponse(content=types.Content(parts=[*parts, types.Part(text="b")]))
    assert (response.text, response.thought_text) == ("ab", "hm")
    assert LlmResponse().text == ""
    assert LlmResponse().parts == []


@pytest.mark.parametrize(
    ("args", "name", "metadata", "partial", "runs"),
    [
        ({"a": 1}, "f", None, False, True),
        ({}, "f", {"anything": 1}, None, True),
        ({}, "f", None, True, False),
        (None, "f", {"raw_arguments": "{"}, False, False),
        ({}, "f", {"unfinished": True}, False, False),
        ({}, "f", {"cancelled": True}, False, False),
        ({}, "f", {"server_tool": {}}, False, False),
        ({}, None, None, False, False),
        ({}, "", None, False, False),
    ],
)
def test_executable_function_calls(
    args: dict[str, Any] | None, name: str | None, metadata: dict[str, Any] | None, partial: bool | None, runs: bool
) -> None:
    call = types.FunctionCall(id="c", name=name, args=args)
    part = types.Part(function_call=call, part_metadata=metadata)
    response = LlmResponse(content=types.Content(parts=[part]), partial=partial)
    assert response.executable_function_calls() == ([call] if runs else [])


def test_which_calls_of_several_may_run() -> None:
    calls = [types.FunctionCall(id=str(number), name="f", args={}) for number in range(3)]
    metadata = [None, {"unfinished": True}, {"custom_tool": True}]
    parts = [types.Part(function_call=one, part_metadata=told) for one, told in zip(calls, metadata, strict=True)]
    response = LlmResponse(content=types.Content(parts=[types.Part(text="a"), *parts]))
    assert response.executable_function_calls() == [calls[0], calls[2]]
    assert LlmResponse().executable_function_calls() == []


def test_base64_is_standard_at_every_depth_and_the_same_by_either_name() -> None:
    data = b"\xfb\xff"
    parts = [
        types.Part(inline_data=types.Blob(mime_type="image/png", data=data)),
        types.Part(
            function_response=types.FunctionResponse(
                name="f",
                response={"inline_data": "-_"},
                parts=[types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(data=data))],
            )
        ),
    ]
    response = LlmResponse(content=types.Content(role="model", parts=parts))
    for by_alias in (True, False):
        dumped = response.model_dump_json(by_alias=by_alias)
        assert dumped.count('"+/8="') == 2
        assert '"-_"' in dumped
        assert LlmResponse.model_validate_json(dumped) == response
    assert response.model_dump()["content"]["parts"][0]["inline_data"]["data"] == data


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError):
        LlmResponse(new_field=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        LlmResponse.from_adk_dict({"partial": "perhaps"})


def test_a_dump_in_camel_case_is_read_as_well() -> None:
    response = LlmResponse(error_code="X", custom_metadata={"mine": 1}, model_version="m")
    assert LlmResponse.from_adk_dict(response.model_dump(by_alias=True, exclude_none=True)) == response
    before = response.to_adk_dict()
    LlmResponse.from_adk_dict(before)
    assert before == response.to_adk_dict()


def test_there_and_back_in_google_adk_words() -> None:
    response = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text="a", thought_signature=b"\xff")]),
        status="incomplete",
        error_code="STREAM_CUT",
        finish_reason=types.FinishReason.MAX_TOKENS,
        native_finish_reason="length",
        provider_metadata={"usage": {"n": 1}},
        custom_metadata={"mine": 1},
    )
    data = response.to_adk_dict()
    assert data["error_code"] == "STREAM_CUT"
    assert "status" not in data
    assert data["custom_metadata"]["mine"] == 1
    assert LlmResponse.from_adk_dict(data) == response


def test_google_adk_fields_that_are_not_ours_are_kept() -> None:
    response = LlmResponse.from_adk_dict({"error_code": "X", "new_field": 1})
    assert response.error_code == "X"
    assert response.provider_metadata == {"google_adk": {"new_field": 1}}


def test_a_dump_of_google_adk_itself() -> None:
    adk = pytest.importorskip("google.adk.models.llm_response")
    theirs = adk.LlmResponse(content=types.Content(role="model", parts=[types.Part(text="a")]), partial=False)
    ours = LlmResponse.from_adk_dict(theirs.model_dump(exclude_none=True))
    assert adk.LlmResponse.model_validate(ours.to_adk_dict()) == theirs


@pytest.mark.parametrize(
    ("cls", "raw", "fields", "leftover"),
    [
        (types.Part, {"text": "a"}, {"text": "a"}, None),
        (types.Part, {"text": "a", "new": 1}, {"text": "a"}, {"new": 1}),
        (
            types.Part,
            {"executableCode": {"code": "x", "new": 1}},
            {"executable_code": types.ExecutableCode(code="x")},
            {"executableCode": {"new": 1}},
        ),
        (types.FunctionCall, {"name": "f", "args": [1]}, {"name": "f"}, {"args": [1]}),
        (types.ExecutableCode, {"code": "x", "language": 99}, {"code": "x"}, {"language": 99}),
        (types.FunctionCall, {"args": {"text": 1, "parts": [{}]}}, {"args": {"text": 1, "parts": [{}]}}, None),
        (types.Part, {"text": 5, "thought": True}, {"thought": True}, {"text": 5}),
        (types.Part, {"text": None}, {}, None),
        (types.SafetyRating, {"category": 7, "probability": {}}, {}, {"category": 7, "probability": {}}),
        (types.Candidate, {"index": 1, "finishReason": ["x"]}, {"index": 1}, {"finishReason": ["x"]}),
        (
            types.GenerateContentResponseUsageMetadata,
            {
                "promptTokenCount": "many",
                "totalTokenCount": 3,
                "serviceTier": "flex",
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1, "new": [1]}, {"modality": 1}],
            },
            {
                "total_token_count": 3,
                "prompt_tokens_details": [
                    types.ModalityTokenCount(modality=types.MediaModality.TEXT, token_count=1),
                    types.ModalityTokenCount(),
                ],
            },
            {
                "promptTokenCount": "many",
                "serviceTier": "flex",
                "promptTokensDetails": [{"new": [1]}, {"modality": 1}],
            },
        ),
        (
            types.GroundingMetadata,
            {"groundingChunks": [{"web": {"uri": "u", "deep": {"deeper": 1}}}], "groundingSupports": 5},
            {"grounding_chunks": [types.GroundingChunk(web=types.GroundingChunkWeb(uri="u"))]},
            {"groundingChunks": [{"web": {"deep": {"deeper": 1}}}], "groundingSupports": 5},
        ),
    ],
)
def test_lenient_reading(
    cls: type[BaseModel], raw: dict[str, Any], fields: dict[str, Any], leftover: dict[str, Any] | None
) -> None:
    before = copy.deepcopy(raw)
    model, rest = read_lenient(cls, raw)
    assert model == cls(**fields)
    assert rest == leftover
    assert raw == before


def test_lenient_reading_of_what_is_no_object() -> None:
    assert read_lenient(types.Part, [1]) == (None, [1])


def test_an_enum_value_nobody_knows_is_kept_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    rating, leftover = read_lenient(types.SafetyRating, {"category": "HARM_CATEGORY_OF_TOMORROW"})
    assert rating is not None
    assert rating.category is not None
    assert rating.category.value == "HARM_CATEGORY_OF_TOMORROW"
    assert leftover is None
    assert not recwarn.list
