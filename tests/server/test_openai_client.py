"""OpenAI's own client in front of any model."""

import base64
import json

import openai
import pytest
from scripted_model import HANG, ScriptedModel, call, calls, chunk, end, says, text, thought
from served_app import GatedModel, served, wait_until

HI = [{"role": "user", "content": "hi"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "d",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def client_of(service, **options):
    return openai.OpenAI(api_key="k", base_url=f"{service.url}/v1", max_retries=0, **options)


def test_a_completion_streamed_and_whole():
    model = ScriptedModel([thought("why"), text("hel"), text("lo"), *end("stop", 3, 4)])
    with served(model) as service, client_of(service) as client:
        assert [each.id for each in client.models.list()] == ["m"]
        whole = client.chat.completions.create(model="m", messages=HI)
        [choice] = whole.choices
        assert (choice.message.content, choice.finish_reason) == ("hello", "stop")
        assert choice.message.reasoning_content == "why"
        assert whole.usage.total_tokens == 7
        with client.chat.completions.stream(model="m", messages=HI, stream_options={"include_usage": True}) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        assert kinds.count("content.delta") == 3  # the first is empty
        assert final.choices[0].message.content == "hello"
        assert final.usage.total_tokens == 7


def test_calls_and_their_results_go_there_and_back():
    model = ScriptedModel(calls("weather", arguments='{"city": "Lisbon"}'), says("rain"))
    with served(model) as service, client_of(service) as client:
        first = client.chat.completions.create(model="m", messages=HI, tools=[WEATHER], tool_choice="required")
        [made] = first.choices[0].message.tool_calls
        assert (first.choices[0].finish_reason, json.loads(made.function.arguments)) == (
            "tool_calls",
            {"city": "Lisbon"},
        )
        messages = [
            {"role": "system", "content": "be brief"},
            *HI,
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": made.id, "content": '{"sky": "grey"}'},
        ]
        second = client.chat.completions.create(
            model="m", messages=messages, tools=[WEATHER], temperature=0.5, stop="x"
        )
        assert second.choices[0].message.content == "rain"
    asked = model.requests[1]
    assert asked.system_instruction == "be brief"
    assert (asked.config.temperature, asked.config.stop_sequences) == (0.5, ["x"])
    assert [content.role for content in asked.messages] == ["user", "model", "user"]
    answer = asked.messages[2].parts[0].function_response
    assert (answer.id, answer.name, answer.response) == (made.id, "weather", {"sky": "grey"})
    assert model.requests[0].config.tool_config.function_calling_config.mode == "ANY"


def test_two_calls_in_pieces():
    pieces = [
        call("f", '{"a"', id="c0", index=0),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
    ]
    model = ScriptedModel([*pieces, call("g", "{}", id="c1", index=1), *end("tool_calls")])
    with served(model) as service, client_of(service) as client:
        made = client.chat.completions.create(model="m", messages=HI).choices[0].message.tool_calls
        assert [(each.id, each.function.name, json.loads(each.function.arguments)) for each in made] == [
            ("c0", "f", {"a": 1}),
            ("c1", "g", {}),
        ]


def test_files():
    model = ScriptedModel(says("seen"))
    png = base64.b64encode(b"\x89PNG").decode()
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.jpg?c"}},
        {"type": "input_audio", "input_audio": {"data": png, "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{png}"}},
    ]
    with served(model) as service, client_of(service) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}])
        parts = model.requests[0].messages[0].parts
        assert parts[1].inline_data.data == b"\x89PNG"
        assert (parts[2].file_data.file_uri, parts[2].file_data.mime_type) == (
            "https://a.example/b.jpg?c",
            "image/jpeg",
        )
        assert parts[3].inline_data.mime_type == "audio/mp3"
        assert parts[4].inline_data.display_name == "a.pdf"


class StatusError(openai.APIStatusError):
    def __init__(self, status):
        import httpx

        request = httpx.Request("POST", "http://model.example/")
        response = httpx.Response(status, request=request, headers={"retry-after": "7"})
        super().__init__("slow down", response=response, body={"message": "slow down", "code": "rate_limit_exceeded"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("round", "error", "says_what"),
    [
        ([StatusError(429)], openai.RateLimitError, "slow down"),
        ([StatusError(401)], openai.InternalServerError, "slow down"),
        ([ConnectionError("gone")], openai.InternalServerError, "gone"),
        ([{"error": {"message": "overloaded", "code": "overloaded"}}], openai.InternalServerError, "overloaded"),
    ],
)
def test_what_fails_before_anything_was_shown_is_an_http_error(stream, round, error, says_what):
    with served(ScriptedModel(round)) as service, client_of(service) as client, pytest.raises(error, match=says_what):
        client.chat.completions.create(model="m", messages=HI, stream=stream)


def test_what_fails_in_the_middle_is_an_error_in_the_stream():
    with served(ScriptedModel([text("half"), ConnectionResetError("gone")])) as service, client_of(service) as client:
        stream = client.chat.completions.create(model="m", messages=HI, stream=True)
        with pytest.raises(openai.APIError, match="gone"):
            for _ in stream:
                pass
        with pytest.raises(openai.InternalServerError, match="gone"):
            client.chat.completions.create(model="m", messages=HI)


def test_a_request_that_makes_no_sense():
    with served(ScriptedModel(says("x"))) as service, client_of(service) as client:
        with pytest.raises(openai.NotFoundError, match="no model 'other'"):
            client.chat.completions.create(model="other", messages=HI)
        for messages in (
            [],
            [{"role": "tool", "tool_call_id": "a", "content": "x"}],
            [{"role": "user"}],
            [{"role": "x"}],
        ):
            with pytest.raises(openai.UnprocessableEntityError):
                client.chat.completions.create(model="m", messages=messages)
        with pytest.raises(openai.UnprocessableEntityError):
            client.chat.completions.create(model="m", messages=HI, n=2)


@pytest.mark.parametrize("stream", [False, True])
def test_the_models_connection_closes_when_the_client_leaves(stream):
    model = ScriptedModel([*[text("a")] * stream, HANG])
    with served(model) as service, client_of(service, timeout=0.3) as client:
        with pytest.raises((openai.APITimeoutError, openai.APIError, Exception)):
            for _ in client.chat.completions.create(model="m", messages=HI, stream=stream):
                pass
        wait_until(lambda: model.requests and model.open == 0)
        wait_until(lambda: service.service.runs.slots.used == 0)


def test_with_a_token():
    with served(GatedModel(["a"]), token="k") as service:
        service.service.agents.model("m").gate.open()
        with client_of(service) as client:
            assert client.chat.completions.create(model="m", messages=HI).choices[0].message.content == "a"
        stranger = openai.OpenAI(api_key="no", base_url=f"{service.url}/v1")
        with stranger, pytest.raises(openai.AuthenticationError, match="bearer token"):
            stranger.models.list()
