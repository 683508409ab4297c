"""The least that a line can cost from bytes while it gives google-genai's objects: prototypes, one for each line.

msgspec decodes the fields that are needed and no others, fragments go into lists, and each delta becomes a partial
response cloned from templates, as in the package. Right on the benchmark's streams and on nothing else: no errors, cut
frames, citations, grounding, ends of another kind, limits or snapshots. What the package costs above its floor is the
price of those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from peers import Result


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """What is not named here is skipped by the decoder."""


class _Makers:
    """Functions that make a partial of a text, a thought, a call's fragment, a piece of audio, a transcript."""

    def __init__(self) -> None:
        from google.genai import types

        from adk_stream.response import LlmResponse, Template

        part_of_text = Template(types.Part(text="")).maker("text")
        part_of_thought = Template(types.Part(text="", thought=True)).maker("text")
        content = Template(types.Content(parts=[], role="model")).maker("parts")
        head: dict[str, Any] = {"partial": True, "status": "in_progress", "model_version": "m", "response_id": "r"}
        response = Template(LlmResponse(content=types.Content(), **head)).maker("content")
        call = types.FunctionCall(id="c", name="n", will_continue=True)
        told_part = Template(types.Part(function_call=call, part_metadata={})).pair_maker(
            "function_call", "part_metadata"
        )
        part_of_call = Template(types.Part(function_call=call)).maker("function_call")
        call_of = Template(call).pair_maker("id", "name")
        streamed_call = types.FunctionCall(id="c", name="n", will_continue=True, partial_args=[])
        call_with = Template(streamed_call).maker("partial_args")
        argument = Template(types.PartialArg(json_path="", string_value="")).pair_maker("json_path", "string_value")
        blob = Template(types.Blob(mime_type="", data=b"")).pair_maker("mime_type", "data")
        part_of_blob = Template(types.Part(inline_data=types.Blob(mime_type="", data=b""))).maker("inline_data")
        said = Template(types.Transcription(text="", finished=False)).maker("text")
        transcript = Template(LlmResponse(output_transcription=types.Transcription(), **head)).maker(
            "output_transcription"
        )
        self.text = lambda text: response(content([part_of_text(text)]))
        self.thought = lambda text: response(content([part_of_thought(text)]))
        self.fragment = lambda id, name, text: response(
            content([told_part(call_of(id, name), {"arguments_delta": text})])
        )
        self.argument = lambda path, text: response(content([part_of_call(call_with([argument(path, text)]))]))
        self.audio = lambda mime_type, data: response(content([part_of_blob(blob(mime_type, data))]))
        self.transcript = lambda text: transcript(said(text))


# ----------------------------------------------------------------- Gemini


class _Argument(_Struct):
    json_path: str
    string_value: str


class _Call(_Struct):
    partial_args: list[_Argument]


class _Part(_Struct):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None


class _Content(_Struct):
    parts: list[_Part]


class _Candidate(_Struct):
    content: _Content
    finish_reason: str | None = None


class _Response(_Struct):
    candidates: list[_Candidate]
    usage_metadata: msgspec.Raw = msgspec.Raw()


def _gemini(frames: list[bytes], make: _Makers, kept: dict[Any, list[str]]) -> Iterator[Any]:
    decode = msgspec.json.Decoder(_Response).decode
    for frame in frames:
        for part in decode(frame[6:-4]).candidates[0].content.parts:
            if part.function_call is not None:
                for argument in part.function_call.partial_args:
                    kept.setdefault(0, []).append(argument.string_value)
                    yield make.argument(argument.json_path, argument.string_value)
            elif part.text:
                kept["thought" if part.thought else "text"].append(part.text)
                yield make.thought(part.text) if part.thought else make.text(part.text)


# ----------------------------------------------------------------- Gemini Live


class _Blob(_Struct):
    mime_type: str
    data: bytes


class _AudioPart(_Struct):
    inline_data: _Blob


class _Turn(_Struct):
    parts: list[_AudioPart]


class _Said(_Struct):
    text: str = ""


class _ServerContent(_Struct):
    model_turn: _Turn | None = None
    output_transcription: _Said | None = None
    turn_complete: bool = False


class _Message(_Struct):
    server_content: _ServerContent | None = None


def _live(frames: list[bytes], make: _Makers, kept: dict[Any, list[str]]) -> Iterator[Any]:
    decode = msgspec.json.Decoder(_Message).decode
    size = 0
    for frame in frames:
        content = decode(frame).server_content
        if content is None:
            continue
        if content.model_turn is not None:
            blob = content.model_turn.parts[0].inline_data
            size += len(blob.data)
            yield make.audio(blob.mime_type, blob.data)
        elif content.output_transcription is not None:
            kept["text"].append(content.output_transcription.text)
            yield make.transcript(content.output_transcription.text)
    kept[0] = [str(size)]


# ----------------------------------------------------------------- OpenAI, Anthropic


class _Named(msgspec.Struct, gc=False):
    """The same with the wire's own names."""


class _Function(_Named):
    arguments: str


class _ToolCall(_Named):
    index: int
    function: _Function


class _ChatDelta(_Named):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(_Named):
    delta: _ChatDelta
    finish_reason: str | None = None


class _ChatChunk(_Named):
    choices: list[_Choice]


def _chat(frames: list[bytes], make: _Makers, kept: dict[Any, list[str]]) -> Iterator[Any]:
    decode = msgspec.json.Decoder(_ChatChunk).decode
    for frame in frames:
        if frame[6:7] != b"{":
            continue
        for choice in decode(frame[6:-2]).choices:
            if choice.delta.content:
                kept["text"].append(choice.delta.content)
                yield make.text(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                kept.setdefault(call.index, []).append(call.function.arguments)
                yield make.fragment(f"call_{call.index}", "tool", call.function.arguments)


class _ResponsesEvent(_Named):
    type: str
    delta: str = ""
    output_index: int = 0


def _responses(frames: list[bytes], make: _Makers, kept: dict[Any, list[str]]) -> Iterator[Any]:
    decode = msgspec.json.Decoder(_ResponsesEvent).decode
    for frame in frames:
        event = decode(frame[frame.index(b"data: ") + 6 : -2])
        if event.type == "response.output_text.delta":
            kept["text"].append(event.delta)
            yield make.text(event.delta)
        elif event.type == "response.function_call_arguments.delta":
            kept.setdefault(event.output_index, []).append(event.delta)
            yield make.fragment("call", "tool", event.delta)


class _BlockDelta(_Named, frozen=True):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _MessagesEvent(_Named):
    type: str
    index: int = 0
    delta: _BlockDelta = _BlockDelta()


def _messages(frames: list[bytes], make: _Makers, kept: dict[Any, list[str]]) -> Iterator[Any]:
    decode = msgspec.json.Decoder(_MessagesEvent).decode
    for frame in frames:
        event = decode(frame[frame.index(b"data: ") + 6 : -2])
        if event.type != "content_block_delta":
            continue
        delta = event.delta
        if delta.text:
            kept["text"].append(delta.text)
            yield make.text(delta.text)
        elif delta.thinking:
            kept["thought"].append(delta.thinking)
            yield make.thought(delta.thinking)
        elif delta.partial_json:
            kept.setdefault(event.index, []).append(delta.partial_json)
            yield make.fragment("call", "tool", delta.partial_json)


_FLOORS: dict[str, Callable[[list[bytes], _Makers, dict[Any, list[str]]], Iterator[Any]]] = {
    "gemini": _gemini,
    "gemini-live": _live,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
}


def floor(line: str) -> Callable[[list[bytes]], Result]:
    """The line's prototype, as a peer."""
    make = _Makers()

    def run(frames: list[bytes]) -> Result:
        kept: dict[Any, list[str]] = {"text": [], "thought": []}
        for _ in _FLOORS[line](frames, make, kept):
            pass
        text, thought = "".join(kept.pop("text")), "".join(kept.pop("thought"))
        calls = ["".join(fragments) for fragments in kept.values()]
        if line == "gemini":
            calls = [json.dumps({"content": call}) for call in calls]
        return text, thought, calls

    return run
