"""The short way of the chunks that most streams are made of: a piece of text, or of one argument of the open call.

Such a chunk is shown at once, as a clone of a template, and its piece put to those before it; the aggregator hears of
the pieces when the run ends, as of one. Reading each of them in full would cost more than everything else together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types

from adk_stream.response import Template

__all__ = ["ShortWay"]

# What a plain chunk may have set. ``__pydantic_fields_set__`` is what ``model_fields_set`` reads, at half the cost.
_PLAIN_CANDIDATE = frozenset({"content", "index"})
_PLAIN_TEXT = frozenset({"text", "thought"})
_PLAIN_CALL = frozenset({"function_call"})
_PLAIN_FRAGMENT = frozenset({"partial_args", "will_continue"})
_PLAIN_ARGUMENT = frozenset({"json_path", "string_value", "will_continue"})
_ROLES = frozenset({"model", None})


class ShortWay:
    """One run of pieces of one kind.

    Closed until ``open`` was called: the first chunk of a stream, and any that tells of another response or model than
    the one before, must be read in full.
    """

    def __init__(self) -> None:
        self._response_id: str | None = None
        self._model_version: str | None = None
        self._show: Callable[[types.Part], AdkLlmResponse] | None = None
        self._show_fragment: Callable[[types.PartialArg], types.Part] | None = None
        self._call: tuple[str, str | None] | None = None
        self._kind: bool | str = False  # of the run: whether its text is thought, or the path of its argument
        self._pieces: list[str] = []

    def open(
        self, response_id: str | None, model_version: str | None, call: tuple[str, str | None] | None = None
    ) -> None:
        """Be ready for chunks of this response and model, and for fragments of this open call (its id and name)."""
        self._response_id = response_id or self._response_id
        version = model_version or self._model_version
        if self._show is None or version != self._model_version:
            self._model_version, self._show = version, _shower(version)
        if call != self._call:
            self._call = call
            self._show_fragment = None if call is None else _fragment_shower(*call)

    def take(self, response: types.GenerateContentResponse) -> AdkLlmResponse | None:
        """The partial that shows the chunk; None for a chunk that must be read in full, which is left alone."""
        if self._show is None:
            return None
        response_id, version, candidates = response.response_id, response.model_version, response.candidates
        if (
            (version != self._model_version and version is not None)
            or (response_id != self._response_id and response_id is not None)
            or not candidates
            or len(candidates) != 1
            or response.prompt_feedback is not None
        ):
            return None
        candidate = candidates[0]
        content = candidate.content
        if (
            content is None
            or not content.parts
            or len(content.parts) != 1
            or content.role not in _ROLES
            or not candidate.__pydantic_fields_set__ <= _PLAIN_CANDIDATE
            or candidate.index
        ):
            return None
        part = content.parts[0]
        text = part.text
        if not text:
            return self._take_fragment(part)
        thought = part.thought or False
        if (self._pieces and thought is not self._kind) or not part.__pydantic_fields_set__ <= _PLAIN_TEXT:
            return None
        self._kind = thought
        self._pieces.append(text)
        return self._show(_thought(text) if thought else _text(text))

    def _take_fragment(self, part: types.Part) -> AdkLlmResponse | None:
        call = part.function_call
        if (
            call is None
            or self._show is None
            or self._show_fragment is None
            or not call.partial_args
            or len(call.partial_args) != 1
            or not call.will_continue
            or not call.__pydantic_fields_set__ <= _PLAIN_FRAGMENT
            or not part.__pydantic_fields_set__ <= _PLAIN_CALL
        ):
            return None
        argument = call.partial_args[0]
        path, piece = argument.json_path, argument.string_value
        if (
            path is None
            or piece is None
            or (self._pieces and path != self._kind)
            or not argument.__pydantic_fields_set__ <= _PLAIN_ARGUMENT
        ):
            return None
        self._kind = path
        self._pieces.append(piece)
        return self._show(self._show_fragment(argument))

    def end_run(self) -> dict[str, Any] | None:
        """The pieces so far as one part in wire form; None if there are none."""
        if not self._pieces:
            return None
        whole, kind = "".join(self._pieces), self._kind
        self._pieces = []
        if isinstance(kind, str):
            return {"functionCall": {"partialArgs": [{"jsonPath": kind, "stringValue": whole}], "willContinue": True}}
        return {"text": whole, "thought": True} if kind else {"text": whole}


_text = Template(types.Part(text="")).maker("text")
_thought = Template(types.Part(text="", thought=True)).maker("text")
_call_part = Template(types.Part(function_call=types.FunctionCall())).maker("function_call")
_content = Template(types.Content(parts=[], role="model")).maker("parts")


def _shower(model_version: str | None) -> Callable[[types.Part], AdkLlmResponse]:
    """A function that makes the partial response of one part."""
    empty = AdkLlmResponse(content=types.Content(), partial=True, model_version=model_version)
    response, content = Template(empty).maker("content"), _content

    def show(part: types.Part) -> AdkLlmResponse:
        return response(content([part]))

    return show


def _fragment_shower(call_id: str, name: str | None) -> Callable[[types.PartialArg], types.Part]:
    """A function that makes the part of a fragment of one argument."""
    empty = types.FunctionCall(id=call_id, name=name, partial_args=[], will_continue=True)
    call, part = Template(empty).maker("partial_args"), _call_part

    def show(argument: types.PartialArg) -> types.Part:
        return part(call([argument]))

    return show
