"""OpenAIChatModel: the request in the wire's words, and the real client against a real server."""

from __future__ import annotations

import asyncio
import base64
import json
import sys

import openai
import pytest
from google.genai import types
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import BaseModel
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

from adk_stream import LlmResponse, to_native
from adk_stream.errors import MissingExtraError, RequestError
from adk_stream.models.openai_chat import OpenAIChatModel, request_body
from adk_stream.models.request import Model, ModelRequest
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

FIRST = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'


def body_of(request, **options):
    body = request_body(request, **options)
    check(CompletionCreateParamsStreaming, {"model": "m", "stream": True, **json.loads(json.dumps(body))})
    return body


def messages_of(*messages, **fields):
    return body_of(ask(*messages, **fields))["messages"]


# ----------------------------------------------------------------- messages


def test_text_and_instruction():
    body = body_of(ask("hi", system_instruction="Be kind."))
    assert body["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    assert body["stream_options"] == {"include_usage": True}


def test_the_instruction_of_the_config_counts_where_the_request_has_none():
    config = types.GenerateContentConfig(system_instruction=["Be kind.", types.Part(text="Be brief.")])
    assert messages_of(config=config)[0]["content"] == "Be kind.\n\nBe brief."
    assert messages_of(config=config, system_instruction="No.")[0]["content"] == "No."


def test_nothing_to_ask():
    with pytest.raises(RequestError, match="nothing to ask"):
        request_body(ModelRequest([]))


@pytest.mark.parametrize(
    ("part", "native"),
    [
        (blob("image/png", b"\xff\xfe"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,//4="}}),
        (reference("https://x/y.png"), {"type": "image_url", "image_url": {"url": "https://x/y.png"}}),
        (blob("audio/wav", b"w"), {"type": "input_audio", "input_audio": {"data": "dw==", "format": "wav"}}),
        (blob("audio/mpeg;x=1", b"m"), {"type": "input_audio", "input_audio": {"data": "bQ==", "format": "mp3"}}),
        (
            blob("application/pdf", b"p", display_name="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cA=="}},
        ),
        (
            blob("application/pdf", b"p"),
            {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,cA=="}},
        ),
        (reference("file-abc", "application/pdf"), {"type": "file", "file": {"file_id": "file-abc"}}),
        (blob("text/plain", "é".encode()), {"type": "text", "text": "é"}),
    ],
)
def test_files(part, native):
    assert messages_of(said("see", part)) == [{"role": "user", "content": [{"type": "text", "text": "see"}, native]}]


@pytest.mark.parametrize(
    "part",
    [
        blob("video/mp4"),
        blob("audio/ogg"),
        reference("gs://bucket/a.png", "image/png"),
        reference("https://x/a.pdf"),
        blob("text/plain", b"\xff"),
        types.Part(executable_code=types.ExecutableCode(code="1", language="PYTHON")),
    ],
)
def test_parts_that_the_wire_has_no_form_for(part):
    with pytest.raises(RequestError):
        request_body(ask(said("see", part)))


def test_one_tool_message_for_each_call_directly_after():
    native = messages_of("hi", called(call(id="a", x=1), call("wave", "b")), said("and?", result("b", "wave", ok=1)))
    assert [message["role"] for message in native] == ["user", "assistant", "tool", "tool", "user"]
    assert [each["id"] for each in native[1]["tool_calls"]] == ["a", "b"]
    assert [each.get("tool_call_id") for each in native[2:4]] == ["a", "b"]
    assert "stopped" in json.loads(native[2]["content"])["error"]
    assert json.loads(native[3]["content"]) == {"ok": 1}
    assert native[4]["content"] == "and?"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"output": "fine"}, "fine"),
        ({"result": [1, "é"]}, '[1, "é"]'),
        ({"error": "no"}, '{"error": "no"}'),
        ({"result": 1, "took": 2}, '{"result": 1, "took": 2}'),
        ({}, "{}"),
        ({"output": "half \ud83d"}, "half �"),
    ],
)
def test_results_as_text(response, text):
    message = messages_of("hi", called(call()), said(result(**response)))[-1]
    assert message == {"role": "tool", "tool_call_id": "c1", "content": text}
    message["content"].encode()


def test_files_of_results_follow_in_a_message_of_the_user():
    image = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"i"))
    native = messages_of("hi", called(call()), said(result(parts=[image], output="seen"), "well?"))
    assert native[-2] == {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    assert [part["type"] for part in native[-1]["content"]] == ["text", "image_url", "text"]


def test_the_old_form_of_calls_is_answered_in_the_old_form():
    part = call().model_copy(update={"part_metadata": {"openai-chat": {"function_call": True}}})
    message = LlmResponse(content=called(part), provider_metadata={"provider": "openai-chat"})
    native = messages_of("hi", message, said(result(output="ok")))
    assert native[1]["function_call"] == {"name": "look", "arguments": "{}"}
    assert native[2] == {"role": "function", "name": "look", "content": "ok"}


def test_ids_too_long_for_openai_are_made_shorter_on_both_sides():
    long = "call:" + "x" * 60
    request = ask("hi", called(call(id=long)), said(result(long)))
    native = body_of(request)["messages"]
    assert native[1]["tool_calls"][0]["id"] == native[2]["tool_call_id"]
    assert len(native[2]["tool_call_id"]) == 40
    assert body_of(request, compatible=True)["messages"][2]["tool_call_id"] == long


def test_a_foreign_turn_that_comes_to_nothing_here_is_left_out():
    gemini = called(types.Part(executable_code=types.ExecutableCode(code="1", language="PYTHON")))
    native = messages_of("hi", LlmResponse(content=gemini, provider_metadata={"provider": "gemini"}), "so?")
    assert [message["role"] for message in native] == ["user", "user"]


# ----------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (
            {"temperature": 0.0, "top_p": 0.5, "seed": 0, "presence_penalty": 0.1, "frequency_penalty": 0.2},
            {"temperature": 0.0, "top_p": 0.5, "seed": 0, "presence_penalty": 0.1, "frequency_penalty": 0.2},
        ),
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ({"candidate_count": 2}, {"n": 2}),
        ({"response_logprobs": True, "logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"thinking_config": {"thinking_level": "HIGH"}}, {"reasoning_effort": "high"}),
        ({"thinking_config": {"thinking_budget": 0}}, {"reasoning_effort": "none"}),
        ({"thinking_config": {"thinking_budget": -1, "include_thoughts": True}}, {}),
        ({"service_tier": "standard"}, {"service_tier": "default"}),
        ({"store": True}, {"store": True}),
        (
            {"response_modalities": ["AUDIO"], "speech_config": "coral"},
            {"modalities": ["text", "audio"], "audio": {"voice": "coral", "format": "pcm16"}},
        ),
        ({"response_mime_type": "application/json"}, {"response_format": {"type": "json_object"}}),
        ({"labels": {"a": "b"}, "automatic_function_calling": {"disable": True}}, {}),
        ({"response_mime_type": "text/plain", "safety_settings": [], "media_resolution": "MEDIA_RESOLUTION_LOW"}, {}),
    ],
)
def test_settings(settings, fields):
    body = body_of(configured(**settings))
    assert {key: value for key, value in body.items() if key not in ("messages", "stream_options")} == fields


@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": 3},
        {"thinking_config": {"thinking_budget": 500}},
        {"safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
        {"cached_content": "x"},
        {"response_mime_type": "text/x.enum", "response_schema": {"type": "STRING"}},
        {"image_config": {"aspect_ratio": "1:1"}},
    ],
)
def test_settings_that_openai_does_not_know(settings):
    with pytest.raises(RequestError):
        request_body(configured(**settings))


def test_settings_of_compatible_servers():
    body = body_of(configured(top_k=3, max_output_tokens=5), compatible=True)
    assert (body["top_k"], body["max_tokens"]) == (3, 5)
    assert "max_completion_tokens" not in body


class City(BaseModel):
    name: str


class Region(BaseModel):
    cities: list[City]
    capital: City | None


class Loose(BaseModel):
    name: str = "x"


def format_of(**settings):
    return body_of(configured(**settings))["response_format"]


def test_a_schema_that_can_be_kept_to_strictly():
    told = format_of(response_schema=Region)["json_schema"]
    assert (told["name"], told["strict"]) == ("Region", True)
    assert told["schema"]["additionalProperties"] is told["schema"]["$defs"]["City"]["additionalProperties"] is False
    assert told["schema"]["required"] == ["cities", "capital"]


def test_a_schema_with_optional_properties_is_sent_as_it_is():
    told = format_of(response_schema=Loose)["json_schema"]
    assert told == {"name": "Loose", "schema": Loose.model_json_schema()}


@pytest.mark.parametrize(
    ("schema", "native"),
    [
        ({"type": "ARRAY", "items": {"type": "INTEGER"}}, {"type": "array", "items": {"type": "integer"}}),
        (types.Schema(type="STRING", nullable=True), {"type": ["string", "null"]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ],
)
def test_schemas_of_any_form(schema, native):
    assert format_of(response_schema=schema)["json_schema"] == {"name": "response", "schema": native}


# ----------------------------------------------------------------- tools


def tools_body(mode=None, names=None, tools=(look, wave)):
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names) if mode else None
    config = types.GenerateContentConfig(tool_config=types.ToolConfig(function_calling_config=calling))
    return body_of(ask(tools=tools, config=config))


def test_tools():
    native = tools_body()["tools"]
    assert native[0]["function"]["name"] == "look"
    assert native[0]["function"]["description"] == "Look out of the window."
    assert native[0]["function"]["parameters"]["properties"]["city"]["type"] == "string"
    assert native[1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "tool_choice" not in tools_body()


@pytest.mark.parametrize(
    ("mode", "names", "choice", "sent"),
    [
        ("AUTO", None, None, ["look", "wave"]),
        ("VALIDATED", ["wave"], None, ["wave"]),
        ("ANY", None, "required", ["look", "wave"]),
        ("ANY", ["wave"], {"type": "function", "function": {"name": "wave"}}, ["wave"]),
        ("ANY", ["look", "wave"], "required", ["look", "wave"]),
        ("NONE", None, "none", ["look", "wave"]),
    ],
)
def test_tool_choice(mode, names, choice, sent):
    body = tools_body(mode, names)
    assert body.get("tool_choice") == choice
    assert [tool["function"]["name"] for tool in body["tools"]] == sent


def test_no_tool_choice_without_tools():
    assert not {"tools", "tool_choice"} & tools_body("ANY", tools=()).keys()


def test_tools_of_the_config_and_in_the_providers_own_words():
    custom = {"type": "custom", "custom": {"name": "sql"}}
    request = ask(tools=[look, custom], config=types.GenerateContentConfig(tools=[wave]))
    assert [tool["type"] for tool in request_body(request)["tools"]] == ["function", "function", "custom"]


@pytest.mark.parametrize("tools", [[types.Tool(google_search=types.GoogleSearch())], [look, look], [3]])
def test_tools_that_cannot_be_sent(tools):
    with pytest.raises(RequestError):
        request_body(ask(tools=tools))


# ----------------------------------------------------------------- the real client


def client_of(url):
    return openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")


def model_of(url, **options):
    return OpenAIChatModel("m", client=client_of(url), **options)


@pytest.fixture(scope="module")
def running():
    with ReplayServer([RECORDINGS / "openai-chat-tools.sse"]) as server:
        yield server


@pytest.fixture
def server(running):
    running.requests.clear()
    return running


def test_it_is_a_model(server):
    model = model_of(server.url)
    assert isinstance(model, Model)
    assert (model.name, model.provider) == ("m", "openai-chat")


def test_the_bytes_come_as_they_are(server):
    assert asyncio.run(raw(model_of(server.url), ask())) == (RECORDINGS / "openai-chat-tools.sse").read_bytes()


def test_what_the_server_sees(server):
    extra = {"reasoning_effort": "low", "stream_options": None, "tools": [{"type": "custom", "custom": {"name": "q"}}]}
    model = model_of(server.url, extra_body=extra, extra_headers={"x-own": "1"})
    asyncio.run(raw(model, ask("hi", tools=[look], config=types.GenerateContentConfig(max_output_tokens=5))))
    seen = server.requests[-1]
    assert seen.headers["x-own"] == "1"
    assert seen.body["messages"] == [{"role": "user", "content": "hi"}]
    assert {key: seen.body[key] for key in ("model", "stream", "max_tokens", "reasoning_effort")} == {
        "model": "m",
        "stream": True,
        "max_tokens": 5,  # a server on this machine is not OpenAI
        "reasoning_effort": "low",
    }
    assert [tool["type"] for tool in seen.body["tools"]] == ["function", "custom"]
    assert "stream_options" not in seen.body


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ],
)
def test_whose_server_it_is(base_url, field, monkeypatch):
    model = OpenAIChatModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=base_url))
    sent = []

    class Stop(Exception):
        pass

    def create(**arguments):
        sent.append(arguments["extra_body"])
        raise Stop

    monkeypatch.setattr(
        type(model._clients.current().chat.completions),
        "with_streaming_response",
        property(lambda completions: type("Create", (), {"create": staticmethod(create)})),
    )
    with pytest.raises(Stop):
        asyncio.run(raw(model, configured(max_output_tokens=5)))
    assert field in sent[0]


def test_two_rounds_with_tools(server):
    async def rounds():
        model = model_of(server.url)
        first = await finals(model, ask("what time is it?", tools=[look]))
        calls = [one for each in first for one in each.executable_function_calls()]
        answers = said(*(result(one.id, one.name, output="noon") for one in calls))
        await finals(model, ask("what time is it?", *first, answers, tools=[look]))
        return first, calls

    first, calls = asyncio.run(rounds())
    sent = server.requests[-1].body["messages"]
    assert len(calls) > 1
    assert sent[1] == to_native(first, "openai-chat")
    assert [each.get("tool_call_id") for each in sent[2:]] == [one.id for one in calls]


def test_reasoning_details_go_back_byte_equal():
    sealed = base64.b64encode(bytes(range(256))).decode()
    detail = {"type": "reasoning.encrypted", "data": sealed, "id": "r", "format": "x", "index": 0}
    function = {"name": "look", "arguments": '{"city": "Bonn"}'}
    extra = {"google": {"thought_signature": sealed}}
    deltas = [
        {"role": "assistant", "reasoning_details": [detail]},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function, "extra_content": extra}]},
    ]
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()

    async def rounds(server):
        model = model_of(server.url)
        first = await finals(model, ask("hi"))
        await finals(model, ask("hi", *first, said(result(output="ok"))))

    with ReplayServer([Recording.from_bytes(data, "openai-chat")]) as server:
        asyncio.run(rounds(server))
        sent = server.requests[-1].body["messages"][1]
    assert sent["reasoning_details"][0].items() <= detail.items()
    assert sent["reasoning_details"][0]["data"] == sealed
    assert sent["tool_calls"][0]["extra_content"] == extra


def test_errors_of_http_are_the_clients_own_and_come_at_once(server):
    server.queue_fault("status=429")
    with pytest.raises(openai.RateLimitError) as caught:
        asyncio.run(raw(model_of(server.url), ask()))
    assert float(caught.value.response.headers["retry-after"]) > 0
    assert len(server.requests) == 1  # the client did not try again
    server.queue_fault("status=400")
    with pytest.raises(openai.BadRequestError):
        asyncio.run(raw(model_of(server.url), ask()))


def test_a_garbage_body_is_no_answer(server):
    server.queue_fault("garbage")

    [final] = asyncio.run(finals(model_of(server.url), ask()))
    assert (final.status, final.error_code, final.parts) == ("incomplete", "STREAM_CUT", [])


def test_nothing_is_sent_before_the_first_item(server):
    async def start():
        await model_of(server.url).stream(ask()).aclose()

    asyncio.run(start())
    assert server.requests == []


def test_leaving_early_closes_the_connection():
    asyncio.run(leaves_early(model_of, FIRST))


def test_cancelling_closes_the_connection():
    asyncio.run(is_cancelled(model_of, FIRST))


def test_a_model_of_the_environment_serves_one_event_loop_after_the_other(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    model = OpenAIChatModel("m")
    for _ in range(2):
        assert asyncio.run(raw(model, ask()))
    assert server.requests[0].headers["authorization"] == "Bearer k"


def test_streams_of_one_model_do_not_meet(server):
    async def many():
        model = model_of(server.url)
        return await asyncio.gather(*(raw(model, ask(f"hi {n}")) for n in range(5)))

    assert len(set(asyncio.run(many()))) == 1
    assert {seen.body["messages"][0]["content"] for seen in server.requests} == {f"hi {n}" for n in range(5)}


def test_azure(server):
    client = openai.AsyncAzureOpenAI(api_key="k", azure_endpoint=server.url, api_version="2025-01-01")
    model = OpenAIChatModel("deployed", client=client, compatible=False)
    asyncio.run(raw(model, configured(max_output_tokens=7)))
    seen = server.requests[-1]
    assert seen.path == "/openai/deployments/deployed/chat/completions"
    assert seen.body["max_completion_tokens"] == 7


def test_the_package_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"adk-stream\[openai\]"):
        asyncio.run(raw(OpenAIChatModel("m"), ask()))
