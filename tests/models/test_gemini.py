"""The real google-genai client, against a server that tells what it was sent."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import time
from contextlib import aclosing

import pytest
from google import genai
from google.genai import errors, types

from adk_stream import LlmResponse, aggregate, aggregate_async
from adk_stream.errors import RequestError
from adk_stream.models.gemini import GeminiModel, _raw_models
from adk_stream.models.request import Model, ModelRequest
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

SIGNATURE = bytes(range(256))
SIGNED = base64.b64encode(SIGNATURE).decode()


def event(*parts, finish=None):
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "responseId": "r1"}


def recording(*events, name="turn"):
    data = "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in events).encode()
    return Recording.from_bytes(data, "gemini", name=name)


HELLO = recording(event({"text": "Hel"}), event({"text": "lo \u2028🌍"}, finish="STOP"))
CALL = [
    event({"text": "hm", "thought": True}),
    event({"functionCall": {"name": "look", "args": {"a": 2**63, "b": "é"}}, "thoughtSignature": SIGNED}),
    event({"functionCall": {"id": "c2", "name": "look", "args": {}}, "newField": {"snake_case": [1]}}),
    event({"text": "", "thoughtSignature": SIGNED}, finish="STOP"),
]


@pytest.fixture
def server():
    with ReplayServer([HELLO]) as running:
        yield running


def client_of(server, **options):
    return genai.Client(api_key="key", http_options=types.HttpOptions(base_url=server.url, **options))


def model_of(server, **options):
    return GeminiModel("gemini-test", client=client_of(server, **options))


def ask(text="hi", **fields):
    return ModelRequest([types.Content(role="user", parts=[types.Part(text=text)])], **fields)


async def all_of(model, request):
    async with aclosing(model.stream(request)) as items:
        return [item async for item in items]


async def final_of(model, request):
    async with aclosing(model.stream(request)) as items:
        *_, final = [response async for response in aggregate_async(items, model.provider)]
    return final


def body_of(server, request, **options):
    asyncio.run(all_of(model_of(server, **options), request))
    return server.requests[-1].body


def look(a: int, b: str = "x") -> str:
    """Look it up."""
    return b


# ----------------------------------------------------------------- what is asked


def test_a_question_and_its_settings(server):
    config = types.GenerateContentConfig(
        temperature=0.5,
        max_output_tokens=7,
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        response_mime_type="application/json",
        system_instruction="from the config",
        tools=[types.Tool(google_search=types.GoogleSearch())],
        http_options=types.HttpOptions(headers={"x-mine": "1"}, extra_body={"labels": {"a": "b"}}),
    )
    before = config.model_copy(deep=True)
    body = body_of(server, ask(system_instruction="Be brief.", tools=[look, {"code_execution": {}}], config=config))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    settings = body["generationConfig"]
    assert (settings["temperature"], settings["maxOutputTokens"]) == (0.5, 7)
    assert settings["responseMimeType"] == "application/json"
    assert "thinkingConfig" in settings
    tools = {name: value for tool in body["tools"] for name, value in tool.items()}
    assert set(tools) == {"functionDeclarations", "googleSearch", "codeExecution"}
    (function,) = tools["functionDeclarations"]
    assert (function["name"], function["description"]) == ("look", "Look it up.")
    schema = function.get("parametersJsonSchema") or function["parameters_json_schema"]
    assert schema["required"] == ["a"]
    assert body["labels"] == {"a": "b"}
    assert server.requests[-1].path.endswith("/models/gemini-test:streamGenerateContent")
    assert server.requests[-1].headers["x-mine"] == "1"
    assert config == before, "the request's config is the caller's"


def test_nothing_is_asked_for_that_was_not_set(server):
    assert set(body_of(server, ask())) <= {"contents", "generationConfig"}


def test_the_configs_instruction_holds_where_the_request_has_none(server):
    body = body_of(server, ask(config=types.GenerateContentConfig(system_instruction="Be brief.")))
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]


def test_a_tool_turn_goes_back_as_it_came_with_signatures_and_unknown_fields(server):
    stored = [each for each in aggregate(CALL, provider="gemini", flush="boundary") if not each.partial]
    stored = [LlmResponse.model_validate_json(each.model_dump_json(by_alias=True)) for each in stored]
    first, second = [part.function_call for each in stored for part in each.parts if part.function_call]
    results = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name="look", response={"output": n}))
        for n, call in enumerate((first, second))
    ]
    history = [*ask().messages, *stored, types.Content(role="user", parts=results[::-1])]
    contents = body_of(server, ModelRequest(history))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [part for each in CALL for part in each["candidates"][0]["content"]["parts"]]
    assert contents[2]["parts"] == [
        {"functionResponse": {"name": "look", "response": {"output": 0}}},
        {"functionResponse": {"id": "c2", "name": "look", "response": {"output": 1}}},
    ]


def test_files_go_as_base64_and_turns_of_others_that_mean_nothing_here_not_at_all(server):
    image = types.Part(inline_data=types.Blob(data=SIGNATURE, mime_type="image/png"), part_metadata={"mine": 1})
    thinking = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(part_metadata={"server_tool": {"type": "x"}})]),
        provider_metadata={"provider": "anthropic"},
    )
    history = [types.Content(role="user", parts=[image]), thinking, *ask("on").messages]
    contents = body_of(server, ModelRequest(history))["contents"]
    assert contents == [
        {"role": "user", "parts": [{"inlineData": {"data": SIGNED, "mimeType": "image/png"}}]},
        {"role": "user", "parts": [{"text": "on"}]},
    ]


def test_on_vertex(server):
    client = genai.Client(vertexai=True, api_key="key", http_options=types.HttpOptions(base_url=server.url))
    final = asyncio.run(final_of(GeminiModel("gemini-test", client=client), ask(tools=[look])))
    assert final.text == "Hello \u2028🌍"
    seen = server.requests[-1]
    assert seen.path.endswith("/publishers/google/models/gemini-test:streamGenerateContent")
    assert seen.body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert seen.body["tools"][0]["functionDeclarations"][0]["name"] == "look"


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (ModelRequest([]), RequestError, "nothing to ask"),
        (ask(tools=[{"type": "web_search"}]), RequestError, "no such tool"),
        (ask(tools=[look, {"name": "look"}]), ValueError, "more than one tool is called 'look'"),
    ],
)
def test_what_cannot_be_asked_is_said_and_not_sent(server, request_, error, said):
    with pytest.raises(error, match=said):
        asyncio.run(all_of(model_of(server), request_))
    assert not server.requests


# ----------------------------------------------------------------- what comes


@pytest.mark.parametrize("http", ["httpx", "httpx2"])
def test_the_answer_comes_as_the_bytes_that_were_sent(server, http, monkeypatch):
    """Fails when google-genai's private methods move: then the typed stream comes, at ten times the cost."""
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", http)
    model = model_of(server)
    assert isinstance(model, Model)
    pieces = asyncio.run(all_of(model, ask()))
    assert all(isinstance(piece, bytes) for piece in pieces)
    *_, final = aggregate(pieces, provider="gemini")
    assert (final.text, final.status) == ("Hello \u2028🌍", "completed")


class PublicOnly:
    """A client whose private side is another, as in a later version."""

    def __init__(self, client):
        self.aio = client.aio


def test_without_the_private_methods_the_clients_own_stream_comes(monkeypatch):
    plain = recording(event({"text": "Hel"}), event({"text": "lo"}, finish="STOP"))
    with ReplayServer([plain]) as server:
        model = GeminiModel("gemini-test", client=PublicOnly(client_of(server)))
        chunks = asyncio.run(all_of(model, ask(tools=[look])))
        assert [type(chunk) for chunk in chunks] == [types.GenerateContentResponse] * 2
        *_, final = aggregate(chunks, provider="gemini")
        assert (final.text, final.status) == ("Hello", "completed")
        whole = model_of(server)
        asyncio.run(all_of(whole, ask(tools=[look])))
        assert server.requests[0].body == server.requests[1].body

        api = type(client_of(server)._api_client)
        monkeypatch.delattr(api, "_async_request")
        assert _raw_models(client_of(server))[1] is None


def test_a_client_that_asks_in_another_way_still_gives_its_chunks(server, monkeypatch):
    """The methods are there, but the models go past them."""
    client = client_of(server)
    models = client.aio.models
    monkeypatch.setattr(genai.models, "AsyncModels", lambda api: models)
    chunks = asyncio.run(all_of(GeminiModel("gemini-test", client=client), ask()))
    assert {type(chunk) for chunk in chunks} == {types.GenerateContentResponse}


@pytest.mark.parametrize(
    ("status", "kind"), [(400, errors.ClientError), (429, errors.ClientError), (503, errors.ServerError)]
)
def test_an_error_comes_as_the_client_raises_it_and_is_not_tried_again(server, status, kind):
    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.01)
    server.queue_fault(f"status={status}")
    with pytest.raises(kind) as raised:
        asyncio.run(all_of(model_of(server, retry_options=retries), ask()))
    assert raised.value.code == status
    assert len(server.requests) == 1


def test_nothing_is_sent_before_it_is_asked_for(server):
    async def main():
        stream = model_of(server).stream(ask())
        await asyncio.sleep(0.05)
        await stream.aclose()

    asyncio.run(main())
    assert not server.requests


@pytest.mark.parametrize("leave", ["close", "cancel"])
def test_who_leaves_closes_the_connection(leave):
    async def main():
        gone = asyncio.Event()

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            first = b"data: " + json.dumps(event({"text": "Hel"})).encode() + b"\n\n"
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + first)
            await writer.drain()
            while await reader.read(65536):
                pass
            gone.set()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url))
        stream = GeminiModel("gemini-test", client=client).stream(ask())
        assert b"Hel" in await anext(stream)
        if leave == "close":
            await stream.aclose()
        else:
            task = asyncio.create_task(anext(stream))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.wait_for(gone.wait(), 2)
        server.close()

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 5


def test_streams_of_one_model_do_not_meet():
    told = [
        recording(event({"text": f"a{n} "}), event({"text": f"b{n}"}, finish="STOP"), name=f"m{n}") for n in range(6)
    ]
    with ReplayServer(told) as server:
        model = model_of(server)

        async def main():
            return await asyncio.gather(*(final_of(model, ask(str(n))) for n in range(12)))

        finals = asyncio.run(main())
        assert sorted(final.text for final in finals) == sorted(2 * [f"a{n} b{n}" for n in range(6)])
        asked = sorted(int(seen.body["contents"][0]["parts"][0]["text"]) for seen in server.requests)
        assert asked == list(range(12))


# ----------------------------------------------------------------- the client


def test_a_client_is_made_from_the_environment_on_first_use_and_kept(server, monkeypatch):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    made = []
    real = genai.Client
    monkeypatch.setattr(genai, "Client", lambda **options: made.append(real(**options)) or made[-1])
    model = GeminiModel("gemini-test")
    with pytest.raises(ValueError, match=r"(?i)api.?key"):
        asyncio.run(all_of(model, ask()))
    assert not made
    monkeypatch.setenv("GEMINI_API_KEY", "from the environment")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)

    async def twice():
        return [(await final_of(model, ask())).text for _ in range(2)]

    assert asyncio.run(twice()) == ["Hello \u2028🌍"] * 2
    assert len(made) == 1
    assert server.requests[0].headers["x-goog-api-key"] == "from the environment"
    assert asyncio.run(twice()) == ["Hello \u2028🌍"] * 2, "on another loop too"
    assert len(made) == 2


def test_a_client_that_nobody_else_holds_lives_as_long_as_the_stream(server):
    async def main():
        stream = model_of(server).stream(ask())
        pieces = []
        async for piece in stream:
            gc.collect()
            pieces.append(piece)
        return pieces

    *_, final = aggregate(asyncio.run(main()), provider="gemini")
    assert final.text == "Hello \u2028🌍"
