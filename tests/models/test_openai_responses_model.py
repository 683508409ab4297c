"""OpenAIResponsesModel: the request in the wire's words, and the real client against a real server."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise

import openai
import pytest
from google.genai import types
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from wires import (
    RECORDINGS,
    ask,
    blob,
    call,
    called,
    check,
    configured,
    finals,
    is_cancelled,
    leaves_early,
    look,
    raw,
    reference,
    result,
    said,
    wave,
)

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.errors import MissingExtraError, RequestError
from adk_stream.models.openai_responses import OpenAIResponsesModel, request_body
from adk_stream.models.request import Model
from adk_stream.testing import ReplayServer

RECORDING = RECORDINGS / "openai-responses-reasoning.sse"
FIRST = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hel"}\n\n'


def body_of(request, **options):
    body = request_body(request, **options)
    sent = json.loads(json.dumps(body))
    for item in sent["input"]:
        if item.get("role") == "assistant":
            item.setdefault("id", "msg_1")  # the official type wants one; the service takes messages without
    check(ResponseCreateParamsStreaming, {"model": "m", "stream": True, **sent})
    return body


def input_of(*messages, **options):
    return body_of(ask(*messages), **options)["input"]


def reasoning(sealed=None, item="rs_1", text="hm"):
    """A thought as the reader leaves it."""
    own = {"output_index": 0, "summary_index": 0, "item": {"id": item, "type": "reasoning"}}
    signature = sealed.encode() if sealed else None
    return types.Part(text=text, thought=True, thought_signature=signature, part_metadata={"openai-responses": own})


def own_call(**metadata):
    own = {"output_index": 1, "item": {"id": "fc_1"}}
    return call().model_copy(update={"part_metadata": {"openai-responses": own, **metadata}})


def response(*parts):
    return LlmResponse(
        content=called(*parts), provider_metadata={"provider": "openai-responses"}, response_id="r", status="completed"
    )


# ----------------------------------------------------------------- input items


def test_text_and_instruction():
    assert body_of(ask("hi", system_instruction="Be kind.")) == {
        "instructions": "Be kind.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize(
    ("part", "native"),
    [
        (
            blob("image/png", b"\xff\xfe"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,//4="},
        ),
        (reference("https://x/y.png"), {"type": "input_image", "detail": "auto", "image_url": "https://x/y.png"}),
        (reference("file-1", "image/png"), {"type": "input_image", "detail": "auto", "file_id": "file-1"}),
        (
            blob("application/pdf", b"p", display_name="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cA=="},
        ),
        (reference("https://x/a.pdf"), {"type": "input_file", "file_url": "https://x/a.pdf"}),
        (reference("file-1", "application/pdf"), {"type": "input_file", "file_id": "file-1"}),
        (blob("text/csv", b"a,b"), {"type": "input_text", "text": "a,b"}),
    ],
)
def test_files(part, native):
    assert input_of(said("see", part))[0]["content"] == [{"type": "input_text", "text": "see"}, native]


@pytest.mark.parametrize("part", [blob("audio/wav"), blob("video/mp4"), reference("gs://b/a.png", "image/png")])
def test_files_that_the_wire_has_no_form_for(part):
    with pytest.raises(RequestError, match=r"(audio|video|image)/"):
        request_body(ask(said(part)))


def test_results_directly_after_their_calls():
    items = input_of(
        "hi", called(call(id="a"), call(id="b")), said("and?", result("b", output="two"), result("a", x=1))
    )
    assert [item["type"] for item in items[1:]] == ["function_call"] * 2 + ["function_call_output"] * 2 + ["message"]
    assert [(item["call_id"], item["output"]) for item in items[3:5]] == [("a", '{"x": 1}'), ("b", "two")]


def test_results_of_custom_tools():
    items = input_of("hi", response(own_call(custom_tool=True)), said(result(output="done")))
    assert [item["type"] for item in items[1:]] == ["custom_tool_call", "custom_tool_call_output"]


def test_results_with_files():
    image = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"i"))
    items = input_of("hi", called(call()), said(result(parts=[image], output="seen")))
    assert items[-1]["output"] == [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aQ=="},
    ]


def test_encrypted_reasoning_goes_back_with_its_call():
    items = input_of("hi", response(reasoning("sealed"), own_call()), said(result(output="ok")))
    assert [item["type"] for item in items[1:3]] == ["reasoning", "function_call"]
    assert (items[1]["encrypted_content"], items[1]["id"], items[2]["id"]) == ("sealed", "rs_1", "fc_1")


def test_reasoning_by_reference_goes_back_only_where_the_provider_keeps_it():
    messages = ("hi", response(reasoning(), own_call()), said(result(output="ok")))
    kept = input_of(*messages, stored=True)
    assert [item["type"] for item in kept[1:3]] == ["reasoning", "function_call"]
    stateless = input_of(*messages)
    assert [item["type"] for item in stateless[1:]] == ["function_call", "function_call_output"]
    assert "id" not in stateless[1]  # it would name what it was made along with


def test_reasoning_that_led_to_nothing_stays_out():
    cut = response(types.Part(text="Well"), reasoning("sealed"))
    assert [item["type"] for item in input_of("hi", cut, "go on")] == ["message", "message", "message"]


def test_halves_of_surrogate_pairs_in_arguments_do_not_make_a_session_unusable():
    items = input_of("hi", called(call(city="half \ud83d")))
    assert json.loads(items[1]["arguments"].encode()) == {"city": "half �"}


def test_ids_too_long_are_made_shorter_on_both_sides():
    long = "x" * 100
    items = input_of("hi", called(call(id=long)), said(result(long)))
    assert items[1]["call_id"] == items[2]["call_id"]
    assert len(items[1]["call_id"]) == 64


# ----------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (
            {"temperature": 0.1, "top_p": 0.5, "max_output_tokens": 5},
            {"temperature": 0.1, "top_p": 0.5, "max_output_tokens": 5},
        ),
        (
            {"thinking_config": {"thinking_level": "MINIMAL", "include_thoughts": True}},
            {"reasoning": {"effort": "minimal", "summary": "auto"}},
        ),
        ({"thinking_config": {"thinking_budget": 0}}, {"reasoning": {"effort": "none"}}),
        ({"thinking_config": {"include_thoughts": False}}, {}),
        (
            {"response_logprobs": True, "logprobs": 2},
            {"top_logprobs": 2, "include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        ),
        ({"labels": {"team": "a"}}, {"metadata": {"team": "a"}}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"response_mime_type": "application/json"}, {"text": {"format": {"type": "json_object"}}}),
        ({"candidate_count": 1, "response_modalities": ["TEXT"]}, {}),
    ],
)
def test_settings(settings, fields):
    expected = {"store": False, "include": ["reasoning.encrypted_content"], **fields}
    assert {key: value for key, value in body_of(configured(**settings)).items() if key != "input"} == expected


def test_a_schema():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "title": "Say"}
    told = body_of(configured(response_json_schema=schema))["text"]["format"]
    assert (told["type"], told["name"], told["strict"]) == ("json_schema", "Say", True)
    assert told["schema"] == {**schema, "additionalProperties": False}
    assert "additionalProperties" not in schema


@pytest.mark.parametrize(
    "settings",
    [{"stop_sequences": ["x"]}, {"seed": 1}, {"top_k": 1}, {"presence_penalty": 0.1}, {"candidate_count": 2}],
)
def test_settings_that_the_wire_does_not_know(settings):
    with pytest.raises(RequestError, match=next(iter(settings))):
        request_body(configured(**settings))


def test_tools_leave_parameters_optional():
    [tool] = body_of(ask(tools=[look]))["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "look", False)
    assert tool["parameters"]["required"] == ["city"]


LOOK, WAVE = {"type": "function", "name": "look"}, {"type": "function", "name": "wave"}


@pytest.mark.parametrize(
    ("mode", "names", "choice"),
    [
        ("AUTO", None, None),
        ("ANY", None, "required"),
        ("NONE", ["look"], "none"),
        ("ANY", ["wave"], WAVE),
        ("ANY", ["look", "wave"], {"type": "allowed_tools", "mode": "required", "tools": [LOOK, WAVE]}),
        ("VALIDATED", ["wave"], {"type": "allowed_tools", "mode": "auto", "tools": [WAVE]}),
    ],
)
def test_tool_choice(mode, names, choice):
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names)
    config = types.GenerateContentConfig(tool_config=types.ToolConfig(function_calling_config=calling))
    body = body_of(ask(tools=[look, wave], config=config))
    assert body.get("tool_choice") == choice
    assert len(body["tools"]) == 2


def test_tools_in_the_providers_own_words():
    body = body_of(ask(tools=[look, {"type": "web_search"}]))
    assert body["tools"][1] == {"type": "web_search"}


# ----------------------------------------------------------------- the real client


def model_of(url, name="m", **options):
    return OpenAIResponsesModel(name, client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1"), **options)


@pytest.fixture(scope="module")
def running():
    with ReplayServer([RECORDING]) as server:
        yield server


@pytest.fixture
def server(running):
    running.requests.clear()
    return running


def test_it_is_a_model(server):
    model = model_of(server.url)
    assert isinstance(model, Model)
    assert (model.name, model.provider) == ("m", "openai-responses")


def test_the_bytes_come_as_they_are(server):
    assert asyncio.run(raw(model_of(server.url), ask())) == RECORDING.read_bytes()


@pytest.mark.parametrize(
    ("options", "settings", "store", "include"),
    [
        ({}, {}, False, ["reasoning.encrypted_content"]),
        ({"name": "gpt-4o-mini"}, {}, False, None),
        ({"store": True}, {}, True, None),
        ({"store": True}, {"store": False}, False, ["reasoning.encrypted_content"]),
        ({}, {"store": True}, True, None),
        ({"store": True, "encrypted_reasoning": True}, {}, True, ["reasoning.encrypted_content"]),
        (
            {"extra_body": {"include": ["web_search_call.action.sources"]}},
            {},
            False,
            ["reasoning.encrypted_content", "web_search_call.action.sources"],
        ),
    ],
)
def test_what_is_kept_and_what_comes_encrypted(server, options, settings, store, include):
    asyncio.run(raw(model_of(server.url, **options), configured(**settings)))
    body = server.requests[-1].body
    assert (body["store"], body.get("include")) == (store, include)


def test_extra_fields_are_merged_with_the_models_own(server):
    extra = {"reasoning": {"summary": "detailed"}, "text": {"verbosity": "low"}, "parallel_tool_calls": False}
    config = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(thinking_level="LOW"), response_mime_type="application/json"
    )
    asyncio.run(raw(model_of(server.url, extra_body=extra), ask(config=config)))
    body = server.requests[-1].body
    assert body["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert body["parallel_tool_calls"] is False
    assert (body["model"], body["stream"]) == ("m", True)


def test_two_rounds_send_the_first_answer_back_as_it_came(server):
    async def rounds():
        model = model_of(server.url)
        first = await finals(model, ask("hi", tools=[look]))
        calls = [one for each in first for one in each.executable_function_calls()]
        answers = [said(*(result(one.id, one.name, output="ok") for one in calls))] if calls else []
        await finals(model, ask("hi", *first, *answers, "go on", tools=[look]))
        return first, calls

    first, calls = asyncio.run(rounds())
    native = to_native(first, "openai-responses")
    sealed = [item["encrypted_content"] for item in native if item["type"] == "reasoning"]
    sent = server.requests[-1].body["input"]
    assert sealed
    assert all(blob.encode() in RECORDING.read_bytes() for blob in sealed)
    assert sent[1 : 1 + len(native)] == native
    assert [item["call_id"] for item in sent if item["type"] == "function_call_output"] == [one.id for one in calls]


def test_a_cut_at_any_event_leaves_a_history_that_can_be_sent():
    events = RECORDING.read_bytes().split(b"\n\n")
    for upto in range(1, len(events)):
        cut = [
            each for each in aggregate([b"\n\n".join(events[:upto]) + b"\n\n"], "openai-responses") if not each.partial
        ]
        items = input_of("hi", *cut, "go on")
        calls = {item["call_id"] for item in items if item["type"] == "function_call"}
        assert calls == {item["call_id"] for item in items if item["type"] == "function_call_output"}
        assert all(item.get("encrypted_content") for item in items if item["type"] == "reasoning")
        following = [after for item, after in pairwise(items) if item["type"] == "reasoning"]
        assert all(after.get("role") != "user" for after in following)


def test_errors_of_http_are_the_clients_own_and_come_at_once(server):
    server.queue_fault("status=429")
    with pytest.raises(openai.RateLimitError) as caught:
        asyncio.run(raw(model_of(server.url), ask()))
    assert float(caught.value.response.headers["retry-after"]) > 0
    assert len(server.requests) == 1


def test_a_garbage_body_is_no_answer(server):
    server.queue_fault("garbage")
    [final] = asyncio.run(finals(model_of(server.url), ask()))
    assert (final.status, final.error_code, final.parts) == ("incomplete", "STREAM_CUT", [])


def test_leaving_early_closes_the_connection():
    asyncio.run(leaves_early(model_of, FIRST))


def test_cancelling_closes_the_connection():
    asyncio.run(is_cancelled(model_of, FIRST))


def test_a_model_of_the_environment(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    assert asyncio.run(raw(OpenAIResponsesModel("m"), ask()))


def test_the_package_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"adk-stream\[openai\]"):
        asyncio.run(raw(OpenAIResponsesModel("m"), ask()))
