"""What a turn with calls owes the history: each call has exactly one answer, in one event right after its message.

Pure functions over events; the loop decides when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from google.genai import types

from adk_stream.response import LlmResponse
from adk_stream.sessions import Event

__all__ = ["CallTurn", "error_result", "open_calls", "split_message", "without_unfinished"]

_Answer = dict[str, Any]


def error_result(message: str) -> _Answer:
    """What the model reads of a call that gave nothing."""
    return {"error": message}


@dataclass
class CallTurn:
    """The calls of one message of the model, in order, and their answers so far, None where there is none yet."""

    calls: list[types.FunctionCall]
    answers: list[_Answer | None]

    @classmethod
    def of(cls, responses: Iterable[LlmResponse]) -> Self:
        """The calls of one round. Those whose arguments are no JSON object are answered already: with that."""
        turn = cls([], [])
        for response in responses:
            runnable = {id(call) for call in response.executable_function_calls()}
            for call in _client_calls(response):
                turn.calls.append(call)
                turn.answers.append(None if id(call) in runnable else error_result(_BAD_ARGUMENTS))
        return turn

    def __iter__(self) -> Iterator[tuple[types.FunctionCall, _Answer | None]]:
        return zip(self.calls, self.answers, strict=True)

    def fill(self, message: str, which: Callable[[types.FunctionCall], bool] = lambda call: True) -> None:
        """Answer each call that has no answer (of those that ``which`` chooses) with an error."""
        for place, (call, answer) in enumerate(self):
            if answer is None and which(call):
                self.answers[place] = error_result(message)

    def take(self, given: Sequence[types.FunctionResponse]) -> None:
        """Put the caller's answers in.

        Raises:
            ValueError: an answer belongs to no open call, or is the second to one.
        """
        taken: set[int] = set()
        for response in given:
            place = self._place_of(response, taken)
            if place is None:
                raise ValueError(f"no call waits for the answer {response.name!r} (id {response.id!r})")
            taken.add(place)
            self.answers[place] = dict(response.response or {})

    def _place_of(self, response: types.FunctionResponse, taken: set[int]) -> int | None:
        for place, call in enumerate(self.calls):
            same = call.id == response.id if response.id else call.name == response.name
            if same and place not in taken:
                return place
        return None

    def event(self, *, author: str, invocation_id: str, end: Mapping[str, Any]) -> Event:
        """All answers, in call order, as one event; ``end`` marks it when the run ends with it."""
        parts = [
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=answer))
            for call, answer in self
        ]
        content = types.Content(role="user", parts=parts)
        return Event(content=content, author=author, invocation_id=invocation_id, **end)


_BAD_ARGUMENTS = "the arguments of this call are not a JSON object; nothing was run"


def _client_calls(response: LlmResponse) -> list[types.FunctionCall]:
    return [
        part.function_call
        for part in response.parts
        if part.function_call is not None and not _NOT_OURS & (part.part_metadata or {}).keys()
    ]


_NOT_OURS = {"server_tool", "cancelled"}


def open_calls(events: Sequence[Event]) -> CallTurn:
    """The calls at the end of a session that nothing has answered."""
    last: list[Event] = []
    for event in reversed(events):
        if event.content is None or not event.parts:
            continue  # a mark: it tells how a run ended, and goes to no model
        if event.content.role != "model":
            break
        last.insert(0, event)
    return CallTurn.of(last)


def without_unfinished(response: LlmResponse) -> LlmResponse:
    """``response`` without calls that were cut in the middle: no provider takes them back.

    What had come of them stays in ``provider_metadata["unfinished_calls"]``. A response that completed keeps all
    its calls that have a name; those that cannot run get an error for an answer, and the model goes on.
    """
    cut = [part for part in response.parts if _is_cut(part, response.status == "completed")]
    if not cut or response.content is None:
        return response
    kept = [part for part in response.parts if not any(part is other for other in cut)]
    content = response.content.model_copy(update={"parts": kept}) if kept else None
    metadata = {**(response.provider_metadata or {}), "unfinished_calls": [_remains(part) for part in cut]}
    return response.model_copy(update={"content": content, "provider_metadata": metadata})


def _is_cut(part: types.Part, completed: bool) -> bool:
    call = part.function_call
    if call is None:
        return False
    return not call.name or (not completed and "unfinished" in (part.part_metadata or {}))


def _remains(part: types.Part) -> dict[str, Any]:
    call, metadata = part.function_call or types.FunctionCall(), part.part_metadata or {}
    values = {"id": call.id, "name": call.name, "args": call.args, "raw_arguments": metadata.get("raw_arguments")}
    return {name: value for name, value in values.items() if value is not None}


def split_message(message: str | types.Content) -> tuple[list[types.FunctionResponse], types.Content | None]:
    """The answers in a new message, and what the user says besides (None: nothing).

    Raises:
        TypeError: it is neither text nor a Content.
        ValueError: it says nothing.
    """
    if isinstance(message, str):
        message = types.Content(role="user", parts=[types.Part(text=message)] if message else [])
    elif not isinstance(message, types.Content):
        raise TypeError(f"new_message is a str or a Content, not {type(message).__name__}")
    parts = message.parts or []
    answers = [part.function_response for part in parts if part.function_response is not None]
    said = [part for part in parts if part.function_response is None]
    if not parts:
        raise ValueError("new_message is empty")
    return answers, types.Content(role=message.role or "user", parts=said) if said else None
