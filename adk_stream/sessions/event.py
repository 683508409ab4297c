"""``Event``: one entry of a session, a response of a model together with who gave it and when.

Field names and meaning are google-adk's. Order in a session is the order of appending: the timestamp is data.
"""

from __future__ import annotations

import copy
import time
import uuid
from typing import Annotated, Any

from google.genai import types
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_serializer
from pydantic.alias_generators import to_camel

from adk_stream.response import LlmResponse

__all__ = ["Event", "EventActions", "new_id"]


def new_id() -> str:
    """A new random identifier (UUID version 4, RFC 9562)."""
    return str(uuid.uuid4())


class EventActions(BaseModel):
    """What an event does besides speaking.

    Fields of google-adk that are not named here are kept as they are.

    Attributes:
        state_delta: Changes of the session's state; ``SessionService`` tells of the prefixes.
        artifact_delta: The new version of each artifact that changed, by file name.
        transfer_to_agent: The agent that goes on.
        escalate: The agent hands the matter to the agent above it.
        skip_summarization: The model is not asked to sum up this tool's answer.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict)
    artifact_delta: dict[str, int] = Field(default_factory=dict)
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, Any] = Field(default_factory=dict)
    requested_tool_confirmations: dict[str, Any] = Field(default_factory=dict)


class Event(LlmResponse):
    """One entry of a session.

    Fields that a newer version (or google-adk) wrote and this class does not know are kept as they are.

    Attributes:
        id: Made when missing. Partial events bear the id of the final event they lead to.
        invocation_id: Shared by all events that one message of the user set off.
        author: ``"user"``, or who answered.
        timestamp: When it was made, in seconds since the epoch. Never used for order.
        actions: Changes of state and artifacts, hand-overs.
        branch: The path of agents (``a.b.c``) whose conversation it belongs to.
        long_running_tool_ids: Ids of the calls whose answer comes later.
    """

    model_config = ConfigDict(extra="allow")

    id: Annotated[str, BeforeValidator(lambda given: given or new_id())] = Field(default_factory=new_id)
    invocation_id: str = ""
    author: str = ""
    timestamp: float = Field(default_factory=time.time, allow_inf_nan=False)
    actions: EventActions = Field(default_factory=EventActions)
    branch: str | None = None
    long_running_tool_ids: set[str] | None = None

    @field_serializer("long_running_tool_ids")
    def _in_stable_order(self, ids: set[str] | None) -> list[str] | None:
        return None if ids is None else sorted(ids)

    @classmethod
    def from_response(cls, response: LlmResponse, *, author: str, invocation_id: str, id: str | None = None) -> Event:
        """The event that tells of ``response``; the two share nothing that can be changed."""
        # Most fields of most responses are None: copying only the others is cheap enough for each partial.
        fields = {
            name: _copy(value)
            for name, value in response.__dict__.items()
            if value is not None and name in LlmResponse.model_fields
        }
        return cls(**fields, author=author, invocation_id=invocation_id, id=id or new_id())

    def is_final_response(self) -> bool:
        """Whether this ends an agent's turn: something for the user to read, or a wait for a slow tool."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        if self.partial or self.get_function_calls():
            return False
        return bool(self.error_code) or not (self.get_function_responses() or self.has_trailing_code_execution_result())

    def get_function_calls(self) -> list[types.FunctionCall]:
        """All calls in this event, those included that must not run (see ``executable_function_calls``)."""
        return [part.function_call for part in self.parts if part.function_call]

    def get_function_responses(self) -> list[types.FunctionResponse]:
        """The answers of tools in this event."""
        return [part.function_response for part in self.parts if part.function_response]

    def has_trailing_code_execution_result(self) -> bool:
        """Whether the last part is the result of code the provider ran: the model has yet to speak."""
        return bool(self.parts) and self.parts[-1].code_execution_result is not None


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})


def _copy(value: Any) -> Any:
    """A deep copy; far faster than ``copy.deepcopy`` on the models that responses are made of."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()}
    if kind is list:
        return [_copy(item) for item in value]
    if isinstance(value, BaseModel):
        duplicate = value.model_copy()
        for name, item in duplicate.__dict__.items():
            if type(item) not in _ATOMS:
                duplicate.__dict__[name] = _copy(item)
        return duplicate
    return copy.deepcopy(value)
