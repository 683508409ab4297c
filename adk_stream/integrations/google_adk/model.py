"""``AdkStreamLlm``: any model of this package as a model of google-adk.

google-adk's request holds contents alone: what an event says beside its content does not come back to the model. So a
response that is given to google-adk carries what its provider wants to see again (signatures and reasoning items stand
on the parts already; whose turn it was, and the parts that google-adk must not run, do not) in ``part_metadata`` of its
first part, under one key, and the request takes it off again. It lives wherever google-adk stores events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest as AdkLlmRequest
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_stream.execution import StreamExecutionOptions, execute
from adk_stream.models.request import Message, Model, ModelRequest
from adk_stream.response import LlmResponse

from .conversions import EXTRAS_KEY, adk_fields, with_extras

__all__ = ["AdkStreamLlm"]

#: What of a response's extras its provider needs to see the turn again. Usage is told elsewhere, and much.
_CARRIED = ("response_id", "provider_metadata", "withheld_parts")
_NOT_CARRIED = ("usage",)


class AdkStreamLlm(BaseLlm):
    """A model of this package behind google-adk's interface, for ``LlmAgent(model=…)``.

    ::

        agent = LlmAgent(name="a", model=AdkStreamLlm(AnthropicModel("claude-…")), tools=[...])

    Of a stream that fails google-adk gets, before the exception, a final with what had come and why it ended.

    Args:
        model: Any object that keeps the ``Model`` protocol.
        execution: Time limits and retries; None: no limits, no retries.

    Attributes:
        model: The provider's name of the model.
    """

    _model: Model = PrivateAttr()
    _execution: StreamExecutionOptions | None = PrivateAttr()

    def __init__(self, model: Model, *, execution: StreamExecutionOptions | None = None) -> None:
        super().__init__(model=model.name)
        self._model = model
        self._execution = execution

    async def generate_content_async(
        self, llm_request: AdkLlmRequest, stream: bool = False
    ) -> AsyncGenerator[AdkLlmResponse, None]:
        """Ask once: partial responses (only with ``stream``), then the final.

        Raises:
            adk_stream.errors.AdkStreamError: the request cannot be made, or the stream failed; the ``failed`` final
                came before.
        """
        self._maybe_append_user_content(llm_request)
        request = _request(llm_request)
        running = execute(
            lambda: self._model.stream(request), self._execution, provider=self._model.provider, flush="close"
        )
        async with aclosing(running) as responses:
            async for response in responses:
                if stream or not response.partial:
                    yield _response(response)


# ----------------------------------------------------------------- there


def _response(response: LlmResponse) -> AdkLlmResponse:
    """The response as google-adk's, with what the next request needs on its first part."""
    adk = AdkLlmResponse(**adk_fields(response, AdkLlmResponse))
    if not response.partial and adk.content is not None and adk.content.parts:
        carried = _carried((adk.custom_metadata or {}).get(EXTRAS_KEY) or {})
        first = adk.content.parts[0]
        adk.content.parts[0] = first.model_copy(
            update={"part_metadata": {**(first.part_metadata or {}), EXTRAS_KEY: carried}}
        )
    return adk


def _carried(extras: dict[str, Any]) -> dict[str, Any]:
    carried = {name: extras[name] for name in _CARRIED if name in extras}
    metadata = carried.get("provider_metadata") or {}
    carried["provider_metadata"] = {name: value for name, value in metadata.items() if name not in _NOT_CARRIED}
    return carried


# ----------------------------------------------------------------- and back


def _request(request: AdkLlmRequest) -> ModelRequest:
    config = request.config
    instruction = config.system_instruction
    return ModelRequest(
        messages=[_message(content) for content in request.contents],
        system_instruction=None if instruction is None else _text_of(instruction),
        tools=list(config.tools or ()),
        config=config.model_copy(update={"system_instruction": None, "tools": None}),
    )


def _message(content: types.Content) -> Message:
    """A turn that came from here as the response it was; any other as it is."""
    carried = next(filter(None, map(_extras_on, content.parts or ())), None)
    if carried is None:
        return content
    own = content.model_copy(update={"parts": [_without_extras(part) for part in content.parts or ()]})
    return with_extras(LlmResponse, {"content": own, "partial": False}, dict(carried))


def _extras_on(part: types.Part) -> dict[str, Any] | None:
    extras = (part.part_metadata or {}).get(EXTRAS_KEY)
    return extras if isinstance(extras, dict) else None


def _without_extras(part: types.Part) -> types.Part:
    metadata = {name: value for name, value in (part.part_metadata or {}).items() if name != EXTRAS_KEY}
    return part.model_copy(update={"part_metadata": metadata or None})


def _text_of(instruction: Any) -> str:
    """google-adk gives text; google-genai's other forms are parts and contents, alone or in lists."""
    if isinstance(instruction, str):
        return instruction
    if isinstance(instruction, types.Content):
        return _text_of(instruction.parts or [])
    if isinstance(instruction, types.Part):
        return instruction.text or ""
    if isinstance(instruction, Sequence):
        return "\n\n".join(_text_of(each) for each in instruction)
    return _text_of(types.Content.model_validate(instruction))
