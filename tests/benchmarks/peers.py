"""The official clients' own accumulators, and other libraries, each reading the same frames.

Every peer reads through its real client; only the network is replaced, by a transport that gives one frame a
read. A peer is a function from frames to (text, thought, list of JSON arguments). Peers whose packages are not
installed are left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any

Result = tuple[str, str, list[str]]
Peer = Callable[[Any], Result]

_HEADERS = {"content-type": "text/event-stream"}


def ours(line: str) -> Peer:
    """This package, partials and finals, from frames or from an SDK's objects."""
    from adk_stream import StreamingResponseAggregator, aggregate

    def run(pieces: Iterable[Any]) -> Result:
        final = None
        for response in aggregate(pieces, line):
            final = response
        return result_of(final)

    def run_gemini(pieces: Any) -> Result:
        if not isinstance(pieces, list) or isinstance(pieces[0], bytes):
            return run(pieces)
        aggregator = StreamingResponseAggregator("close")  # as google-adk's is used
        for piece in pieces:
            for _ in aggregator.process_response(piece):
                pass
        return result_of(aggregator.close())

    def result_of(final: Any) -> Result:
        arguments = [json.dumps(call.args) for call in final.executable_function_calls()]
        return final.text, final.thought_text, arguments

    return {"gemini": run_gemini, "gemini-live": ours_live}.get(line, run)


def ours_live(messages: Iterable[Any]) -> Result:
    """This package as it receives a live session: each message is answered at once."""
    from adk_stream import StreamingResponseAggregator
    from adk_stream.providers.line import Line

    aggregator, line = StreamingResponseAggregator("close"), Line("gemini-live")
    heard = Heard()
    for message in messages:
        if type(message) is not bytes:
            for response in aggregator.process_response(message):
                heard.take(response)
            continue
        for chunks in line.feed_short(message):
            for chunk in chunks:
                for response in aggregator.take(chunk):
                    heard.take(response)
    return heard.result()


class Heard:
    """What of a live session's responses is compared: the words of the transcripts, and how much audio came."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._audio = 0

    def take(self, response: Any) -> None:
        """A response, ours or google-adk's."""
        content = response.content
        if content is not None and response.partial is not False:
            self._audio += len(content.parts[0].inline_data.data)
        elif response.output_transcription is not None and response.partial is False:
            self._words.append(response.output_transcription.text)

    def result(self) -> Result:
        """The size stands where other lines have their calls."""
        return "".join(self._words), "", [str(self._audio)]


def _transport(httpx: Any, frames: list[bytes]) -> Any:
    """A transport (sync and async) whose every answer is these frames."""

    class Body(httpx.AsyncByteStream, httpx.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            return iter(frames)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for frame in frames:
                yield frame

    class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            request.read()
            return httpx.Response(200, headers=_HEADERS, stream=Body())

        async def handle_async_request(self, request: Any) -> Any:
            await request.aread()
            return httpx.Response(200, headers=_HEADERS, stream=Body())

    return Transport()


def google_adk(frames: list[bytes]) -> Result:
    """google-genai's asynchronous client, and google-adk's aggregator over its chunks."""
    import httpx
    from google import genai
    from google.adk.utils.streaming_utils import StreamingResponseAggregator
    from google.genai import types

    async def run() -> Any:
        http = httpx.AsyncClient(transport=_transport(httpx, frames))
        options = types.HttpOptions(base_url="http://bench.invalid", httpx_async_client=http)
        client = genai.Client(api_key="bench", http_options=options)
        aggregator = StreamingResponseAggregator()
        no_tools = types.AutomaticFunctionCallingConfig(disable=True)
        config = types.GenerateContentConfig(automatic_function_calling=no_tools)
        stream = await client.aio.models.generate_content_stream(model="gemini", contents="hi", config=config)
        async for chunk in stream:
            async for _ in aggregator.process_response(chunk):
                pass
        return aggregator.close()

    return read_adk_parts(asyncio.run(run()).content.parts)


def read_adk_parts(parts: list[Any]) -> Result:
    """What google-adk's final response holds."""
    text = "".join(part.text for part in parts if part.text and not part.thought)
    thought = "".join(part.text for part in parts if part.text and part.thought)
    return text, thought, [json.dumps(part.function_call.args) for part in parts if part.function_call]


def adk_live(frames: list[bytes]) -> Result:
    """google-genai's conversion of a websocket's frame, and google-adk's receiver."""
    return adk_receiver(map(_genai_message, frames))


def _genai_message(frame: bytes) -> Any:
    """As google-genai's ``AsyncSession`` makes it."""
    from google.genai import _live_converters as converters
    from google.genai import types

    found = converters._LiveServerMessage_from_mldev(json.loads(frame))
    return types.LiveServerMessage._from_response(response=found, kwargs={})


def adk_receiver(messages: Iterable[Any]) -> Result:
    """google-adk's receiver over a session that holds these messages."""
    from google.adk.models.gemini_llm_connection import GeminiLlmConnection
    from google.adk.utils.variant_utils import GoogleLLMVariant

    class Session:
        session_id = "benchmark"
        rest = iter(messages)
        over = False

        async def receive(self) -> Any:
            for each in self.rest:
                yield each
            self.over = True

    async def run() -> Result:
        session: Any = Session()
        connection = GeminiLlmConnection(session, GoogleLLMVariant.GEMINI_API, "gemini-live-2.5-flash-preview")
        heard = Heard()
        while not session.over:  # a receive() serves one turn
            async for response in connection.receive():
                heard.take(response)
        return heard.result()

    return asyncio.run(run())


def openai_chat(frames: list[bytes]) -> Result:
    """openai's ``chat.completions.stream()``."""
    import httpx2
    import openai

    http = httpx2.Client(transport=_transport(httpx2, frames))
    client = openai.OpenAI(api_key="bench", base_url="http://bench.invalid", http_client=http)
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    return message.content or "", "", [call.function.arguments for call in message.tool_calls or ()]


def openai_responses(frames: list[bytes]) -> Result:
    """openai's ``responses.stream()``."""
    import httpx2
    import openai

    http = httpx2.Client(transport=_transport(httpx2, frames))
    client = openai.OpenAI(api_key="bench", base_url="http://bench.invalid", http_client=http)
    with client.responses.stream(model="m", input="hi") as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    return response.output_text, "", [item.arguments for item in response.output if item.type == "function_call"]


def anthropic_messages(frames: list[bytes]) -> Result:
    """anthropic's ``messages.stream()``."""
    import anthropic
    import httpx2

    http = httpx2.Client(transport=_transport(httpx2, frames))
    client = anthropic.Anthropic(api_key="bench", base_url="http://bench.invalid", http_client=http)
    request: Any = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    with client.messages.stream(**request) as stream:
        for _ in stream:
            pass
        blocks: Any = stream.get_final_message().content
    text = "".join(block.text for block in blocks if block.type == "text")
    thought = "".join(block.thinking for block in blocks if block.type == "thinking")
    return text, thought, [json.dumps(block.input) for block in blocks if block.type == "tool_use"]


def _pydantic_ai(make_model: Callable[[list[bytes]], Any]) -> Peer:
    """pydantic-ai's streamed model request over one of its models."""

    def run(frames: list[bytes]) -> Result:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import ModelRequest, TextPart, ThinkingPart, ToolCallPart

        async def read() -> Any:
            async with model_request_stream(make_model(frames), [ModelRequest.user_text_prompt("hi")]) as stream:
                async for _ in stream:
                    pass
                return stream.get()

        parts = asyncio.run(read()).parts
        text = "".join(part.content for part in parts if isinstance(part, TextPart))
        thought = "".join(part.content for part in parts if isinstance(part, ThinkingPart))
        return text, thought, [part.args_as_json_str() for part in parts if isinstance(part, ToolCallPart)]

    return run


def _pydantic_openai(class_name: str) -> Callable[[list[bytes]], Any]:
    def make(frames: list[bytes]) -> Any:
        import httpx2
        import openai
        import pydantic_ai.models.openai as models
        from pydantic_ai.providers.openai import OpenAIProvider

        http = httpx2.AsyncClient(transport=_transport(httpx2, frames))
        client = openai.AsyncOpenAI(api_key="bench", base_url="http://bench.invalid", http_client=http)
        return getattr(models, class_name)("m", provider=OpenAIProvider(openai_client=client))

    return make


def _pydantic_anthropic(frames: list[bytes]) -> Any:
    import anthropic
    import httpx2
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    http = httpx2.AsyncClient(transport=_transport(httpx2, frames))
    client = anthropic.AsyncAnthropic(api_key="bench", base_url="http://bench.invalid", http_client=http)
    return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))


#: For each line: (name, packages it needs, peer).
_PEERS: dict[str, list[tuple[str, tuple[str, ...], Peer]]] = {
    "gemini": [("google-genai + google-adk", ("google.adk",), google_adk)],
    "gemini-live": [("google-genai + google-adk", ("google.adk",), adk_live)],
    "openai-chat": [
        ("openai stream()", ("openai",), openai_chat),
        ("pydantic-ai", ("pydantic_ai", "openai"), _pydantic_ai(_pydantic_openai("OpenAIChatModel"))),
    ],
    "openai-responses": [
        ("openai stream()", ("openai",), openai_responses),
        ("pydantic-ai", ("pydantic_ai", "openai"), _pydantic_ai(_pydantic_openai("OpenAIResponsesModel"))),
    ],
    "anthropic": [
        ("anthropic stream()", ("anthropic",), anthropic_messages),
        ("pydantic-ai", ("pydantic_ai", "anthropic"), _pydantic_ai(_pydantic_anthropic)),
    ],
}


def peers_of(line: str) -> dict[str, Peer]:
    """The installed peers of a line, by name."""
    return {name: peer for name, packages, peer in _PEERS[line] if all(map(installed, packages))}


def installed(package: str) -> bool:
    """Is the package here?"""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
