"""Any stored conversation, made into turns that a provider takes.

What a session holds is what happened: runs that were stopped, tools that never answered, answers that came late or in
another order. Providers refuse such histories, each in its own words, and agree on what they take: turns of the model
and of the user, each with something in it, and directly after a turn with calls one result for each call, in the
order of the calls. ``turns`` gives that. It changes nothing that it was given.

The rules:

- Partial responses are hints for display, and left out; so are texts that are empty, and turns that hold nothing else.
- Consecutive responses are one turn, and so are consecutive messages of the user.
- A turn of thoughts alone is left out: it is what is left of a run that was cut before the model said anything, and
  no provider takes an answer without one.
- Every call is answered. Where no result is stored, one is made that says so. A call that lost its name before it
  came can be neither sent nor answered, and is left out.
- A result goes to the call of its id; without an id, to the oldest unanswered call of its name in the newest turn with
  such a call. Of several results of one call the newest counts: slow tools first say that they are at work.
- A result without a call is left out. Histories that were shortened at the front begin with such; to raise would make
  a session unusable for good.
- Ids of calls are unique. A call without an id, or with one that was there before (some servers count anew in each
  round), gets one.
- A live session's transcripts are the text of their turn; where its audio is kept (``part_metadata["kept_audio"]``) is
  for people alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import TYPE_CHECKING, TypeAlias

from adk_stream.parts import MADE_ID_PREFIX

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import Message
    from adk_stream.response import LlmResponse

__all__ = ["NO_RESULT", "ModelTurn", "Turn", "UserTurn", "turns"]

#: What the model is told in the place of a result that there is none of.
NO_RESULT = "The run was stopped before this tool gave a result."


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What the model said, up to the next word of the user.

    Attributes:
        responses: Non-partial, in order, each with at least one part; ``to_native`` wants them together. On another
            line than theirs they may still come to nothing (a server-side tool alone).
    """

    responses: list[LlmResponse]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the model was told.

    Attributes:
        parts: First the results of the calls of the turn before, in call order; then the user's own.
    """

    parts: list[types.Part]

    @property
    def results(self) -> list[types.FunctionResponse]:
        """The results alone, in call order; each has the id and the name of its call."""
        return [part.function_response for part in self.parts if part.function_response is not None]

    @property
    def said(self) -> list[types.Part]:
        """Everything but the results."""
        return [part for part in self.parts if part.function_response is None]


Turn: TypeAlias = ModelTurn | UserTurn


def turns(messages: Iterable[Message]) -> list[Turn]:
    """The conversation in turns, ready to be sent; see the module for the rules."""
    spoken = [entry for message in messages for entry in _entries(message) if entry.parts or entry.results]
    worth = [entry for run in _runs(spoken) if any(map(_Entry.matters, run)) for entry in run]
    _pair(worth)
    found: list[Turn] = []
    for run in _runs(entry for entry in worth if entry.parts or entry.results):
        if not run[0].users:
            found.append(ModelTurn([entry.response() for entry in run]))
            if slots := [slot for entry in run for slot in entry.slots]:
                found.append(UserTurn([slot.answer() for slot in slots]))
        elif said := [part for entry in run for part in entry.parts]:
            if found and isinstance(found[-1], UserTurn):
                found[-1].parts.extend(said)
            else:
                found.append(UserTurn(said))
    return found


# ----------------------------------------------------------------- messages


@dataclass(slots=True)
class _Entry:
    """One message: who spoke, and what of it can be sent.

    Attributes:
        users: Whether it is the user's.
        parts: What is to be sent; results are taken out, since their place is decided by their call.
        origin: The response it came in, if it did.
        results: The results it holds; once they are handed over, those alone that answer the turn before.
        slots: The calls it holds that need a result.
    """

    users: bool
    parts: list[types.Part]
    origin: LlmResponse | None
    results: list[types.Part] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)

    def matters(self) -> bool:
        """Whether it holds more than thoughts."""
        return self.users or any(map(_says, self.parts))

    def response(self) -> LlmResponse:
        """The origin itself where nothing was left out of it."""
        from google.genai import types

        from adk_stream.response import LlmResponse

        if self.origin is None:
            return LlmResponse(content=types.Content(role="model", parts=self.parts))
        before = self.origin.parts
        if len(before) == len(self.parts) and all(one is other for one, other in zip(before, self.parts, strict=True)):
            return self.origin
        return self.origin.model_copy(update={"content": types.Content(role="model", parts=self.parts)})


def _entries(message: Message) -> Iterator[_Entry]:
    """The message as one entry; transcripts as one each; a hint for display as none."""
    from google.genai import types

    if isinstance(message, types.Content):
        yield _entry(message, None)
    elif message.partial:
        return
    elif message.content is not None and any(map(_is_sent, message.parts)):
        yield _entry(message.content, message)
    else:
        for role, told in (("user", message.input_transcription), ("model", message.output_transcription)):
            if told is not None and told.text:
                yield _entry(types.Content(role=role, parts=[types.Part(text=told.text)]), message)


def _entry(content: types.Content, origin: LlmResponse | None) -> _Entry:
    parts = content.parts or []
    results = [part for part in parts if part.function_response is not None]
    rest = [part for part in parts if part.function_response is None and not _is_empty(part) and _is_sent(part)]
    if results or _is_users(content, origin):
        return _Entry(True, rest, origin, results)
    return _Entry(False, [part for part in rest if part.function_call is None or part.function_call.name], origin)


def _is_users(content: types.Content, origin: LlmResponse | None) -> bool:
    if content.role is not None:
        return content.role != "model"
    return origin is None or getattr(origin, "author", None) == "user"  # of a session's event


def _is_sent(part: types.Part) -> bool:
    """Not where the audio of a live turn is kept."""
    return "kept_audio" not in (part.part_metadata or {})


#: Fields that a part has beside what it says.
_BESIDE = frozenset({"text", "thought", "thought_signature"})


def _is_empty(part: types.Part) -> bool:
    """No text, and nothing else either: a signature without text is something."""
    return not part.text and not part.thought_signature and not _holds_more(part)


def _says(part: types.Part) -> bool:
    """Whether it is more than a thought, or the signature of one."""
    return not part.thought and (bool(part.text) or _holds_more(part))


def _holds_more(part: types.Part) -> bool:
    return any(value not in (None, {}) for name, value in part.__dict__.items() if name not in _BESIDE)


def _runs(entries: Iterable[_Entry]) -> list[list[_Entry]]:
    """Neighbours that the same side spoke."""
    return [list(run) for _, run in groupby(entries, key=lambda entry: entry.users)]


# ----------------------------------------------------------------- calls and results


class _Slot:
    """A call that needs a result, and the result.

    Attributes:
        stored: The call as it was stored.
        id: The id that it is sent with.
    """

    def __init__(self, stored: types.FunctionCall, id: str) -> None:
        self.stored = stored
        self.id = id
        self.result: types.Part | None = None

    def is_meant_by(self, result: types.FunctionResponse) -> bool:
        if result.id and self.stored.id:
            return result.id == self.stored.id
        return result.name == self.stored.name

    def answer(self) -> types.Part:
        """The result, or one that says that there is none; with the call's id and name."""
        from google.genai import types

        part = self.result or types.Part(function_response=types.FunctionResponse(response={"error": NO_RESULT}))
        told = part.function_response
        if told is None or (told.id, told.name) == (self.id, self.stored.name):
            return part
        return part.model_copy(
            update={"function_response": told.model_copy(update={"id": self.id, "name": self.stored.name})}
        )


def _pair(entries: Iterable[_Entry]) -> None:
    """Give each call that needs a result its slot and an id of its own, and each result to its call."""
    rounds: list[list[_Slot]] = []
    taken: set[str] = set()
    for run in _runs(entries):
        for entry in run:
            if entry.users:
                entry.results = [result for result in entry.results if _hand_over(result, rounds)]
            else:
                entry.parts = [_with_slot(part, entry.slots, taken) for part in entry.parts]
        if not run[0].users:
            rounds.append([slot for entry in run for slot in entry.slots])


def _with_slot(part: types.Part, slots: list[_Slot], taken: set[str]) -> types.Part:
    """The part as it is sent; if it is a call for the client to run, with a slot for its result."""
    call = part.function_call
    if call is None or "server_tool" in (part.part_metadata or {}):
        return part
    id = call.id
    if not id or id in taken:
        id = next(made for n in count(len(taken)) if (made := f"{MADE_ID_PREFIX}call-{n}") not in taken)
    taken.add(id)
    slots.append(_Slot(call, id))
    return part if id == call.id else part.model_copy(update={"function_call": call.model_copy(update={"id": id})})


def _hand_over(result: types.Part, rounds: list[list[_Slot]]) -> bool:
    """To the newest round that has such a call: the oldest there that waits, else its result is replaced.

    Returns:
        Whether that was the round just before.
    """
    told = result.function_response
    for slots in reversed(rounds):
        meant = [slot for slot in slots if told is not None and slot.is_meant_by(told)]
        if meant:
            slot = next((slot for slot in meant if slot.result is None), meant[-1])
            slot.result = result
            return slots is rounds[-1]
    return False
