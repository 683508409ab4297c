"""OpenAI's own client reads the chunks over HTTP, and its accumulator makes the completion that was meant."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest
from encoder_streams import encoded, gemini, streams
from hypothesis import given, settings
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from adk_stream import LlmResponse
from adk_stream.encoders import OpenAIChatEncoder


@settings(max_examples=60, deadline=None)
@given(streams())
def test_the_accumulator_makes_the_same_message(run):
    state = ChatCompletionStreamState()
    for event in encoded(OpenAIChatEncoder("gpt", include_usage=True), run.responses):
        if event != "[DONE]" and "error" not in event:
            state.handle_chunk(ChatCompletionChunk.model_validate(event))
    snapshot = state.current_completion_snapshot
    [choice] = snapshot.choices
    assert (choice.message.content or "") == run.text
    assert getattr(choice.message, "reasoning_content", "") == run.thoughts
    calls = {call.id: call.function.arguments for call in choice.message.tool_calls or []}
    for name, args in run.calls.items():
        assert json.loads(calls[name]) == args
    counted = any(response.usage_metadata for response in run.responses)
    assert (snapshot.usage is not None) == (run.whole and counted)


@pytest.fixture
def client_of():
    """A client whose server answers with the given bytes."""
    servers = []

    def make(body):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                for name, value in OpenAIChatEncoder.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        servers.append((server, thread))
        return openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1", max_retries=0)

    yield make
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def body(responses, error=None):
    encoder = OpenAIChatEncoder("gpt", include_usage=True)
    return b"".join(encoder.frame(event) for event in encoded(encoder, responses, error))


CALL = {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}


def test_the_client_streams_it(client_of):
    responses = gemini([{"text": "why", "thought": True}], [{"text": "look \u2028"}], [CALL])
    with client_of(body(responses)) as client:
        messages = [{"role": "user", "content": "hi"}]
        with client.chat.completions.stream(model="gpt", messages=messages) as stream:
            kinds = [event.type for event in stream]
            completion = stream.get_final_completion()
    assert "content.delta" in kinds
    assert "tool_calls.function.arguments.done" in kinds
    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("look \u2028", "tool_calls")
    assert choice.message.tool_calls[0].function.arguments == '{"x":1}'


@pytest.mark.parametrize("error", [None, ConnectionResetError("gone")])
def test_the_client_raises_when_the_stream_was_cut(client_of, error):
    """Whether the final says so or an exception: it is no natural end."""
    cut = gemini([{"text": "half"}], [{"text": "never"}])[:1]
    if error is None:
        cut.append(LlmResponse(status="incomplete", error_code="STREAM_CUT", error_message="it broke off"))
    with client_of(body(cut, error)) as client:
        stream = client.chat.completions.create(model="gpt", messages=[], stream=True)
        with pytest.raises(openai.APIError, match="it broke off" if error is None else "gone"):
            for _ in stream:
                pass


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "completed", "finish_reason": "STOP"}, "stop"),
        ({"status": "incomplete", "finish_reason": "MAX_TOKENS", "error_code": "MAX_TOKENS"}, "length"),
        ({"status": "incomplete", "finish_reason": "SAFETY", "error_code": "SAFETY"}, "content_filter"),
        ({"status": "incomplete", "finish_reason": "RECITATION", "error_code": "RECITATION"}, "content_filter"),
        ({"status": "incomplete", "finish_reason": "OTHER", "error_code": "pause_turn"}, None),
        ({"status": "failed", "error_code": "overloaded"}, None),
        ({"status": "cancelled", "error_code": "STREAM_CANCELLED"}, None),
        ({}, "stop"),
    ],
)
def test_finish_reasons(fields, reason):
    final = LlmResponse(content={"role": "model", "parts": [{"text": "x"}]}, **fields)
    events = encoded(OpenAIChatEncoder("gpt"), [final])
    if reason is None:
        assert events[-1]["error"]["code"] == fields["error_code"]
    else:
        assert events[-2]["choices"][0]["finish_reason"] == reason


def test_calls_of_the_agents_own_tools_are_not_shown():
    other = {"functionCall": {"id": "b", "name": "g", "args": {}}}
    responses = gemini([CALL], [other])
    events = encoded(OpenAIChatEncoder("gpt", tools=["g"]), responses)
    named = [
        call["id"]
        for event in events[:-1]
        for call in event["choices"][0]["delta"].get("tool_calls", [])
        if "id" in call
    ]
    assert named == ["b"]
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    events = encoded(OpenAIChatEncoder("gpt", tools=[]), responses)
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
