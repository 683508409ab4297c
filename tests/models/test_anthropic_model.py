"""AnthropicModel: the request in the wire's words, and the real clients against real servers."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
import zlib
from contextlib import aclosing

import anthropic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google.genai import types
from pydantic import BaseModel, Field
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
    silent_server,
    wave,
)

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.errors import MissingExtraError, RequestError
from adk_stream.models.anthropic import AnthropicModel, request_body
from adk_stream.models.request import Model
from adk_stream.testing import ReplayServer

RECORDING = RECORDINGS / "anthropic-thinking-tool.sse"
FIRST = b'event: ping\ndata: {"type":"ping"}\n\n'


def body_of(request, **options):
    body = request_body(request, **options)
    check(MessageCreateParamsStreaming, {"model": "m", "stream": True, **json.loads(json.dumps(body))})
    return body


def messages_of(*messages):
    return body_of(ask(*messages))["messages"]


def own(*parts, reason="tool_use"):
    """An answer as the reader leaves it."""
    metadata = {"provider": "anthropic"}
    return LlmResponse(content=called(*parts), provider_metadata=metadata, native_finish_reason=reason)


def thought(signature=None, text="hm", **block):
    metadata = {"anthropic": block} if block else None
    return types.Part(text=text, thought=True, thought_signature=signature, part_metadata=metadata)


# ----------------------------------------------------------------- messages


def test_text_and_instruction():
    assert body_of(ask("hi", system_instruction="Be kind.")) == {
        "max_tokens": 8192,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


@pytest.mark.parametrize(
    ("part", "native"),
    [
        (
            blob("image/png", b"\xff\xfe"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "//4="}},
        ),
        (reference("https://x/y.jpg"), {"type": "image", "source": {"type": "url", "url": "https://x/y.jpg"}}),
        (reference("file_1", "image/png"), {"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        (
            blob("application/pdf", b"p"),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "cA=="}},
        ),
        (reference("https://x/y.pdf"), {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}),
        (reference("file_1"), {"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        (
            blob("text/markdown; charset=utf-8", "é".encode()),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
        ),
    ],
)
def test_files(part, native):
    assert messages_of(said("see", part))[0]["content"] == [{"type": "text", "text": "see"}, native]


@pytest.mark.parametrize(
    "part",
    [
        blob("image/tiff"),
        blob("audio/wav"),
        reference("gs://b/a.png", "image/png"),
        reference("gs://b/a.pdf", "application/pdf"),
        types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="1")),
    ],
)
def test_parts_that_the_wire_has_no_form_for(part):
    with pytest.raises(RequestError, match="anthropic"):
        request_body(ask(said(part)))


def test_all_results_in_one_message_before_the_text():
    native = messages_of(
        "hi", called(call(id="a"), call(id="b"), call(id="c")), "and?", said(result("b", error="no"), result("a", x=1))
    )
    assert [message["role"] for message in native] == ["user", "assistant", "user"]
    one, two, three, text = native[2]["content"]
    assert one == {"type": "tool_result", "tool_use_id": "a", "content": '{"x": 1}'}
    assert two == {"type": "tool_result", "tool_use_id": "b", "content": '{"error": "no"}', "is_error": True}
    assert (three["tool_use_id"], three["is_error"]) == ("c", True)  # never answered
    assert text == {"type": "text", "text": "and?"}


def test_results_with_files():
    image = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"i"))
    paper = types.FunctionResponsePart(file_data=types.FunctionResponseFileData(file_uri="https://x/a.pdf"))
    native = messages_of("hi", called(call()), said(result(parts=[image, paper], output="seen")))
    assert [block["type"] for block in native[-1]["content"][0]["content"]] == ["text", "image", "document"]


def test_ids_of_other_providers_are_made_fit_on_both_sides():
    request = ask(
        "hi", called(call(id="functions.look:0"), call(id="functions_look_0")), said(result("functions_look_0"))
    )
    native = body_of(request)["messages"]
    used = [block["id"] for block in native[1]["content"]]
    assert used == [block["tool_use_id"] for block in native[2]["content"]]
    assert len(set(used)) == 2
    assert all(set(id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for id in used)


def test_a_history_that_begins_with_the_model_is_opened():
    assert [message["role"] for message in messages_of(called(types.Part(text="Hello")), "hi")] == [
        "user",
        "assistant",
        "user",
    ]


def test_thinking_goes_back_as_it_came():
    native = messages_of("hi", own(thought(b"sig"), thought(b"red", "", type="redacted_thinking"), call()))
    assert native[1]["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "red"},
    ]


def test_what_a_cut_left_behind_stays_out():
    search = types.Part(
        part_metadata={"server_tool": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}
    )
    text = types.Part(text="Well")
    cut = own(thought(b"sig"), text, search, thought(None), reason=None)
    kinds = [block["type"] for block in messages_of("hi", cut, "go on")[1]["content"]]
    assert kinds == ["thinking", "text"]
    paused = own(text, search, reason="pause_turn")
    assert [block["type"] for block in messages_of("hi", paused)[1]["content"]] == ["text", "server_tool_use"]
    ended_in_thought = own(text, thought(b"sig"), reason="max_tokens")
    assert [block["type"] for block in messages_of("hi", ended_in_thought, "go on")[1]["content"]] == ["text"]


def test_halves_of_surrogate_pairs_in_arguments_do_not_make_a_session_unusable():
    native = messages_of("hi", called(call(city="half \ud83d", near=["é"])))
    assert native[1]["content"][0]["input"] == {"city": "half �", "near": ["é"]}


def test_thinking_of_servers_that_do_not_sign_goes_back():
    native = request_body(ask("hi", own(thought(None, unsigned=True), call())))["messages"]
    assert native[1]["content"][0] == {"type": "thinking", "thinking": "hm"}


def test_a_cut_at_any_event_leaves_a_history_that_can_be_sent():
    events = RECORDING.read_bytes().split(b"\n\n")
    for upto in range(1, len(events)):
        cut = [each for each in aggregate([b"\n\n".join(events[:upto]) + b"\n\n"], "anthropic") if not each.partial]
        messages = messages_of("hi", *cut, "go on")
        assert all(message["content"] for message in messages)
        blocks = [block for message in messages for block in message["content"]]
        assert all(block["signature"] for block in blocks if block["type"] == "thinking")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert calls == [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


# ----------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"temperature": 0.0, "top_p": 0.5, "top_k": 3}, {"temperature": 0.0, "top_p": 0.5, "top_k": 3}),
        ({"max_output_tokens": 5, "stop_sequences": ["x"]}, {"max_tokens": 5, "stop_sequences": ["x"]}),
        (
            {"thinking_config": {"thinking_budget": 2000}},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 10192},
        ),
        (
            {"thinking_config": {"thinking_budget": 2000, "include_thoughts": False}, "max_output_tokens": 3000},
            {
                "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
                "max_tokens": 3000,
            },
        ),
        ({"thinking_config": {"thinking_budget": 0}}, {"thinking": {"type": "disabled"}}),
        ({"thinking_config": {"thinking_budget": -1}}, {"thinking": {"type": "adaptive"}}),
        (
            {"thinking_config": {"include_thoughts": True}},
            {"thinking": {"type": "adaptive", "display": "summarized"}},
        ),
        ({"thinking_config": {"include_thoughts": False}}, {}),
        (
            {"thinking_config": {"thinking_level": "MINIMAL"}},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        ({"service_tier": "priority"}, {"service_tier": "auto"}),
        ({"labels": {"a": "b"}, "candidate_count": 1, "store": False}, {}),
    ],
)
def test_settings(settings, fields):
    body = body_of(configured(**settings))
    assert {key: value for key, value in body.items() if key != "messages"} == {"max_tokens": 8192, **fields}


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 1},
        {"presence_penalty": 0.1},
        {"response_logprobs": True},
        {"candidate_count": 2},
        {"response_mime_type": "application/json"},
        {"service_tier": "flex"},
    ],
)
def test_settings_that_the_wire_does_not_know(settings):
    with pytest.raises(RequestError):
        request_body(configured(**settings))


class City(BaseModel):
    name: str
    size: int = Field(ge=1)


def test_a_schema_goes_in_the_subset_that_the_api_compiles():
    config = types.GenerateContentConfig(
        response_schema=City, thinking_config=types.ThinkingConfig(thinking_level="HIGH")
    )
    told = body_of(ask(config=config))["output_config"]
    assert told["effort"] == "high"
    assert told["format"]["schema"]["additionalProperties"] is False
    assert "minimum" not in told["format"]["schema"]["properties"]["size"]


def test_tools():
    body = body_of(ask(tools=[look, wave, {"type": "web_search_20250305", "name": "web_search"}]))
    assert [tool["name"] for tool in body["tools"]] == ["look", "wave", "web_search"]
    assert body["tools"][0]["description"] == "Look out of the window."
    assert body["tools"][0]["input_schema"]["required"] == ["city"]
    assert body["tools"][1]["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("mode", "names", "choice", "sent"),
    [
        ("AUTO", None, None, ["look", "wave"]),
        ("VALIDATED", ["wave"], None, ["wave"]),
        ("ANY", None, {"type": "any"}, ["look", "wave"]),
        ("ANY", ["wave"], {"type": "tool", "name": "wave"}, ["wave"]),
        ("ANY", ["wave", "look"], {"type": "any"}, ["look", "wave"]),
        ("NONE", None, {"type": "none"}, ["look", "wave"]),
    ],
)
def test_tool_choice(mode, names, choice, sent):
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names)
    config = types.GenerateContentConfig(tool_config=types.ToolConfig(function_calling_config=calling))
    body = body_of(ask(tools=[look, wave], config=config))
    assert body.get("tool_choice") == choice
    assert [tool["name"] for tool in body["tools"]] == sent


# ----------------------------------------------------------------- the real client


def model_of(url, **options):
    return AnthropicModel("m", client=anthropic.AsyncAnthropic(api_key="k", base_url=url), **options)


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
    assert (model.name, model.provider) == ("m", "anthropic")


def test_the_bytes_come_as_they_are(server):
    assert asyncio.run(raw(model_of(server.url), ask())) == RECORDING.read_bytes()


def test_what_the_server_sees(server):
    extra = {"cache_control": {"type": "ephemeral"}, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    model = model_of(server.url, max_tokens=99, extra_body=extra, extra_headers={"anthropic-beta": "x-2026"})
    asyncio.run(raw(model, ask("hi", tools=[look])))
    seen = server.requests[-1]
    assert seen.headers["anthropic-beta"] == "x-2026"
    assert [tool["name"] for tool in seen.body.pop("tools")] == ["look", "web_search"]
    assert seen.body == {
        "model": "m",
        "stream": True,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "cache_control": {"type": "ephemeral"},
    }


def test_two_rounds_send_the_first_answer_back_as_it_came(server):
    async def rounds():
        model = model_of(server.url)
        first = await finals(model, ask("hi", tools=[look]))
        [one] = [one for each in first for one in each.executable_function_calls()]
        await finals(model, ask("hi", *first, said(result(one.id, one.name, output="ok")), tools=[look]))
        return first, one

    first, one = asyncio.run(rounds())
    sent = server.requests[-1].body["messages"]
    assert sent[1] == to_native(first, "anthropic")
    assert sent[1]["content"][0]["signature"].encode() in RECORDING.read_bytes()
    assert sent[2]["content"] == [{"type": "tool_result", "tool_use_id": one.id, "content": "ok"}]


def test_errors_of_http_are_the_clients_own_and_come_at_once(server):
    server.queue_fault("status=429")
    with pytest.raises(anthropic.RateLimitError) as caught:
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
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    model = AnthropicModel("m")
    for _ in range(2):
        assert asyncio.run(raw(model, ask()))


def test_the_package_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtraError, match=r"adk-stream\[anthropic\]"):
        asyncio.run(raw(AnthropicModel("m"), ask()))


# ----------------------------------------------------------------- Bedrock and Vertex AI


def aws_frame(payload):
    """One event of Bedrock's framing: lengths, their checksum, headers, the payload, the checksum of it all."""
    inner = json.dumps({"bytes": base64.b64encode(json.dumps(payload).encode()).decode()}).encode()
    told = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in told.items()
    )
    prelude = struct.pack("!II", 16 + len(headers) + len(inner), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + inner
    return message + struct.pack("!I", zlib.crc32(message))


def events_of_recording():
    lines = RECORDING.read_bytes().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    return [event for event in events if event["type"] != "ping"]


def bedrock_of(url):
    client = anthropic.AsyncAnthropicBedrock(aws_region="eu-west-1", api_key="k", base_url=url)
    return AnthropicModel("anthropic.m-v1:0", client=client)


def test_bedrock_comes_as_the_clients_own_events():
    pytest.importorskip("botocore")
    whole = b"".join(map(aws_frame, events_of_recording()))

    async def read():
        async with silent_server(whole, "application/vnd.amazon.eventstream") as (url, left):
            found = []
            async with aclosing(bedrock_of(url).stream(ask())) as events:
                async for event in events:
                    found.append(event)
                    if event.type == "message_stop":
                        break
            await asyncio.wait_for(left.wait(), 2)
            return found

    over_bedrock = [each for each in aggregate(asyncio.run(read()), "anthropic") if not each.partial]
    directly = [each for each in aggregate([RECORDING.read_bytes()], "anthropic") if not each.partial]
    assert to_native(over_bedrock, "anthropic") == to_native(directly, "anthropic")
    assert over_bedrock[-1].status == "completed"


def test_vertex():
    client = anthropic.AsyncAnthropicVertex(region="eu", project_id="p", access_token="t", base_url="http://x")
    httpx2 = pytest.importorskip("httpx2")
    sent = []

    def handle(request):
        sent.append(request)
        return httpx2.Response(200, content=RECORDING.read_bytes(), headers={"content-type": "text/event-stream"})

    client = client.with_options(http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(handle)))
    assert asyncio.run(raw(AnthropicModel("claude", client=client), ask())) == RECORDING.read_bytes()
    assert sent[0].url.path.endswith("/publishers/anthropic/models/claude:streamRawPredict")
    assert json.loads(sent[0].content)["messages"][0]["role"] == "user"
