"""What partial responses are made of: a chunk's parts as they are shown, built as clones in the hot path."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from adk_stream.parts import (
    AudioSlot,
    CallSlot,
    PartDelta,
    Slot,
    StreamedPart,
    TextSlot,
    WholeSlot,
    audio_of,
    encodable,
    fresh,
    part_delta,
)

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse, Template

__all__ = [
    "Shell",
    "audio_part",
    "call_makers",
    "fragment_maker",
    "is_audio",
    "is_refusal",
    "is_run",
    "shown_part",
    "streamed_call_maker",
]


class Shell:
    """A partial response of this stream without its parts."""

    def __init__(self, role: str | None, model_version: str | None, response_id: str | None) -> None:
        from adk_stream.response import Template, nested_maker

        content = _empty_content(role or "model")
        response = Template(_empty_response().clone({"model_version": model_version, "response_id": response_id}))
        self.content_with = content.maker("parts")
        self.response_with = response.maker("content")
        self.with_text, self.with_thought = (nested_maker(response, content, part, "text") for part in _text_parts())


@cache
def _empty_response() -> Template[LlmResponse]:
    from google.genai import types

    from adk_stream.response import LlmResponse, Template

    content = types.Content()
    empty = LlmResponse(content=content, partial=True, status="in_progress", model_version=None, response_id=None)
    return Template(empty)


@lru_cache(maxsize=16)  # a role may be anything that a provider writes
def _empty_content(role: str) -> Template[types.Content]:
    from google.genai import types

    from adk_stream.response import Template

    return Template(types.Content(parts=[], role=role))


@cache
def _text_parts() -> tuple[Template[types.Part], Template[types.Part]]:
    """A part of a text, and of a thought."""
    from google.genai import types

    from adk_stream.response import Template

    return Template(types.Part(text="")), Template(types.Part(text="", thought=True))


@cache
def _text_makers() -> tuple[Callable[[str], types.Part], Callable[[str], types.Part]]:
    """Functions that make a part of a text, and of a thought."""
    text, thought = _text_parts()
    return text.maker("text"), thought.maker("text")


@cache
def call_makers() -> tuple[Callable[[Any], types.Part], Callable[[Any, Any], types.Part], Callable[..., Any]]:
    """Functions that make a part of a call, one of a call and metadata, and the call itself of id and name."""
    from google.genai import types

    from adk_stream.response import Template

    call = types.FunctionCall(id=None, name=None, will_continue=True)
    bare, told = types.Part(function_call=call), types.Part(function_call=call, part_metadata={})
    return (
        Template(bare).maker("function_call"),
        Template(told).pair_maker("function_call", "part_metadata"),
        Template(call).pair_maker("id", "name"),
    )


@lru_cache(maxsize=256)
def streamed_call_maker(
    call_id: str | None, name: str | None
) -> Callable[[list[types.PartialArg]], types.FunctionCall]:
    """A function that makes this call as it shows a fragment that came by path."""
    from google.genai import types

    from adk_stream.response import Template

    call = types.FunctionCall(id=call_id, name=name, will_continue=True, partial_args=[])
    return Template(call).maker("partial_args")


@cache
def _audio_makers() -> tuple[Callable[[Any], types.Part], Callable[[Any, Any], types.Part], Callable[..., Any]]:
    """Functions that make a part of a blob, one of a blob and metadata, and the blob itself of mime type and data."""
    from google.genai import types

    from adk_stream.response import Template

    blob = types.Blob(mime_type="", data=b"")
    bare, told = types.Part(inline_data=blob), types.Part(inline_data=blob, part_metadata={})
    return (
        Template(bare).maker("inline_data"),
        Template(told).pair_maker("inline_data", "part_metadata"),
        Template(blob).pair_maker("mime_type", "data"),
    )


@cache
def fragment_maker(will_continue: bool) -> Callable[[str, str], types.PartialArg]:
    """A function that makes a fragment of an argument, of its path and a piece of a string."""
    from google.genai import types

    from adk_stream.response import Template

    told: dict[str, Any] = {"will_continue": True} if will_continue else {}
    return Template(types.PartialArg(json_path="", string_value="", **told)).pair_maker("json_path", "string_value")


def shown_part(streamed: StreamedPart, slot: Slot | None) -> types.Part | None:
    """The part of a partial response that shows this streamed part; None when there is nothing to see."""
    if type(slot) is TextSlot:
        delta = streamed.part if type(streamed.part) is PartDelta else part_delta(streamed.part)
        text = delta.text
        if text and not (text.isascii() and not slot.text.half):
            text = slot.text.visible(text)
        if delta.thought_signature or delta.part_metadata:
            return _signed(slot, msgspec.structs.replace(delta, text=text))
        return _text_makers()[delta.thought](text) if text else None
    if type(slot) is CallSlot and not slot.complete:
        return _shown_call(streamed, slot)
    if type(slot) is AudioSlot:
        return _shown_audio(part_delta(streamed.part), slot.mime_type)
    if slot is None:
        return _unstamped(streamed)
    return slot.build()


def _unstamped(streamed: StreamedPart) -> types.Part | None:
    """A preview: shown, and never part of the result."""
    delta = part_delta(streamed.part)
    return WholeSlot(delta.whole, delta.provider).build() if streamed.partial and delta.whole is not None else None


def _signed(slot: TextSlot, delta: PartDelta) -> types.Part:
    """The delta alone, with its signature or whatever else comes with it, as a part of its own."""
    alone = TextSlot(delta.thought)
    alone.append(delta)
    return alone.build()


def audio_part(mime_type: str, data: bytes) -> types.Part:
    """A part of one piece of audio."""
    make_part, _, make_blob = _audio_makers()
    return make_part(make_blob(mime_type, data))


def _shown_audio(delta: PartDelta, mime_type: str) -> types.Part:
    make_part, make_marked_part, make_blob = _audio_makers()
    whole = delta.whole
    blob = make_blob(mime_type, whole["inlineData"]["data"] if type(whole) is dict else whole.inline_data.data)
    return make_marked_part(blob, dict(delta.part_metadata)) if delta.part_metadata else make_part(blob)


def _shown_call(streamed: StreamedPart, slot: CallSlot) -> types.Part:
    """A fragment of a call: JSON text in ``part_metadata["arguments_delta"]``, or Gemini's ``partial_args``."""
    make_part, make_told_part, make_call = call_makers()
    delta = streamed.part if type(streamed.part) is PartDelta else part_delta(streamed.part)
    shown: types.FunctionCall = make_call(slot.id, slot.name)
    call = delta.function_call
    if call is not None and call.partial_args:
        fragments = map(_shown_fragment, call.partial_args)
        shown.partial_args = [fragment for fragment in fragments if fragment is not None]
    if streamed.arguments_delta is None:
        return make_part(shown)
    fragment = streamed.arguments_delta
    if not fragment.isascii() or slot.text.half:
        fragment = slot.text.visible(fragment)
    return make_told_part(shown, {"arguments_delta": fragment})


def _shown_fragment(raw: dict[str, Any]) -> types.PartialArg | None:
    path, text = raw.get("jsonPath"), raw.get("stringValue")
    if len(raw) == 2 and type(path) is str and type(text) is str:
        return fragment_maker(False)(encodable(path), encodable(text))
    from google.genai import types

    from adk_stream.response import read_lenient

    return read_lenient(types.PartialArg, fresh(raw))[0]


def is_run(part: types.Part) -> bool:
    """Text, thought or audio: what is buffered; anything else is a whole part."""
    if part.function_call is not None:
        return False
    if part.inline_data is not None:
        return (part.inline_data.mime_type or "").startswith("audio/")
    return part.text is not None or part.model_fields_set <= {"thought", "thought_signature", "part_metadata"}


def is_audio(streamed: StreamedPart) -> bool:
    """An audio delta: it ends a run of text."""
    if not streamed.partial or type(streamed.part) is not PartDelta or streamed.part.whole is None:
        return False
    return audio_of(streamed.part.whole) is not None


def is_refusal(part: types.Part) -> bool:
    """Was it said to refuse?"""
    return bool(part.part_metadata and part.part_metadata.get("refusal"))
