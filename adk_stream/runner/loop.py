"""The rounds of one run: ask, show, store, run the calls, ask again.

The generator here is the whole run, and ``_settle`` is what it owes when it is left in the middle. Everything the
two share is in ``RunLoop``; it lives as long as the run and knows nobody who holds it, so that nothing is left.
"""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from google.genai import types

from adk_stream.aggregator.ending import fault_of
from adk_stream.errors import ProviderError, SessionError, SessionNotFoundError, StaleSessionError, StreamCutError
from adk_stream.execution import StreamExecutionOptions, execute
from adk_stream.models.request import Model, ModelRequest, ToolLike
from adk_stream.response import LlmResponse
from adk_stream.sessions.event import Event, new_id

from .locks import Key, SessionLocks
from .shield import to_the_end
from .showing import EventMaker, stored_form
from .tools import Toolbox
from .turns import CallTurn, error_result, open_calls, split_message, without_unfinished
from .usage import sum_usage
from .watch import RunFacts, RunWatch

if TYPE_CHECKING:
    from adk_stream.aggregator.core import Flush
    from adk_stream.sessions import Session, SessionService

    from .watch import Observer

__all__ = ["AfterModel", "BeforeModel", "RunLoop", "Settings"]

#: Before each request: None goes on, a ModelRequest is asked instead, a response takes the place of asking.
BeforeModel: TypeAlias = "Callable[[ModelRequest], _Instead | Awaitable[_Instead]]"
_Instead: TypeAlias = "ModelRequest | LlmResponse | None"
#: For each response, partial or final, before anybody sees it: None keeps it (it may have been changed).
AfterModel: TypeAlias = "Callable[[LlmResponse], _Other | Awaitable[_Other]]"
_Other: TypeAlias = "LlmResponse | None"

_AUTHOR = "model"
_log = logging.getLogger("adk_stream.runner")


@dataclass(frozen=True, slots=True)
class Settings:
    """What every run of one runner shares; see ``Runner`` for the meanings."""

    model: Model
    tools: tuple[ToolLike, ...]
    toolbox: Toolbox
    service: SessionService
    locks: SessionLocks
    instruction: str | None
    config: types.GenerateContentConfig | None
    execution: StreamExecutionOptions | None
    flush: Flush
    max_rounds: int
    max_tokens: int | None
    session_patience: float | None
    before_model: BeforeModel | None
    after_model: AfterModel | None
    output_key: str | None
    observer: Observer | None

    def watch(self, key: Key, invocation_id: str) -> RunWatch:
        """The watch of a run that will begin."""
        return RunWatch() if self.observer is None else self.observer(RunFacts(*key, invocation_id, self.model))


class RunLoop:
    """One run.

    Attributes:
        usage: Of all rounds so far.
        left: The events that ``_settle`` stored, for a reader who is still there.
    """

    def __init__(self, settings: Settings, key: Key, message: str | types.Content) -> None:
        self._settings = settings
        self._key = key
        self._given, self._said = split_message(message)
        self._invocation_id = f"e-{new_id()}"
        self._watch = settings.watch(key, self._invocation_id)
        self._toolbox = settings.toolbox.watched(self._watch)
        self._session: Session | None = None
        self._stored = False  # anything of this run
        self._maker = self._new_maker()
        self._source: Any = None  # the answer that is being read
        self._final: LlmResponse | None = None  # its final, which waits to be stored
        self._asking = False  # from the question until the final is stored
        self._kept: list[Event] = []  # what is stored of this round
        self._turn: CallTurn | None = None  # the calls that are stored and not answered
        self._output = ""
        self.usage = types.GenerateContentResponseUsageMetadata()
        self.left: list[Event] = []

    @property
    def session_id(self) -> str:
        """The session that the run goes on with."""
        return self._key[2]

    async def events(self, noted: AbstractContextManager[None]) -> AsyncGenerator[Event, None]:
        """The run's events, while ``noted`` is entered. The last come when the session is free for the next run."""
        settings = self._settings
        last: list[Event] = []
        with noted, self._watch:
            await settings.locks.acquire(self._key, settings.session_patience)
            try:
                opening = await self._open()
                if opening is not None:
                    yield opening
                for number in itertools.count(1):
                    problem: Exception | None = None
                    self._begin_round()
                    try:
                        self._source = await self._ask()
                        async for response in self._source:
                            if settings.after_model is not None:
                                response = await self._seen(response)
                            if response.partial:
                                yield self._maker.show(response)
                            elif response.status == "in_progress":
                                yield await to_the_end(self._keep_piece(response))
                            else:
                                self._final = response  # stored once it is known whether the source raises after it
                    except Exception as trouble:
                        problem = trouble
                    event = await to_the_end(self._keep_final(problem))
                    if self._turn is None or event.long_running_tool_ids:
                        last = [event]
                        break
                    end = self._end(event, number)
                    if end:
                        last = [event, await to_the_end(self._keep_answers(end))]
                        break
                    yield event
                    await self._toolbox.run(self._turn)
                    yield await to_the_end(self._keep_answers({}))
            except BaseException as trouble:
                await to_the_end(self._settle(trouble))
                raise
            finally:
                settings.locks.release(self._key)
            for event in last:
                yield event
        if problem is not None and not _is_told_in_the_stream(problem):
            raise problem

    # ------------------------------------------------------------- the beginning

    async def _open(self) -> Event | None:
        """Read the session, answer what is open in it, store what the user says.

        The answers are given back for display if calls of ours ran for them.
        """
        app_name, user_id, session_id = self._key
        session = await self._settings.service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if session is None:
            raise SessionNotFoundError(f"there is no session {session_id!r} of user {user_id!r} in {app_name!r}")
        turn = open_calls(session.events)
        turn.take(self._given)
        self._session = session
        opening: Event | None = None
        if turn.calls:
            self._turn = turn
            toolbox = self._toolbox
            turn.fill("nobody answered this call", lambda call: not self._given or toolbox.passes(call))
            ours = any(answer is None for _, answer in turn)
            await toolbox.run(turn)
            answers = await to_the_end(self._keep_answers({}, author=_AUTHOR if ours else "user"))
            opening = answers if ours else None
        if self._said is not None:
            said = Event(content=self._said.model_copy(deep=True), author="user", invocation_id=self._invocation_id)
            await to_the_end(self._append(said))
        return opening

    # ------------------------------------------------------------- one round

    def _begin_round(self) -> None:
        self._maker = self._new_maker()
        self._source = self._final = None
        self._asking = True
        self._kept = []

    def _new_maker(self) -> EventMaker:
        return EventMaker(id=new_id(), author=_AUTHOR, invocation_id=self._invocation_id)

    async def _ask(self) -> Any:
        """The model's answer to the conversation so far: an iterator of responses, with ``final`` and ``aclose``."""
        settings = self._settings
        model = settings.model
        request = ModelRequest(
            messages=tuple(self._session.events if self._session else ()),
            system_instruction=settings.instruction,
            tools=settings.tools,
            config=settings.config,
        )
        if settings.before_model is not None:
            instead = await _value_of(settings.before_model(request))
            if isinstance(instead, LlmResponse):
                return _Given(instead)
            request = instead or request

        watch = self._watch  # not the loop itself, which holds the source: nothing may be left of either

        def start() -> AsyncGenerator[Any, None]:
            watch.asks(request)
            return model.stream(request)

        return execute(start, settings.execution, provider=model.provider, flush=settings.flush)

    async def _seen(self, response: LlmResponse) -> LlmResponse:
        """What the callback makes of it."""
        after = self._settings.after_model
        given = None if after is None else await _value_of(after(response))
        return response if given is None else _in_place_of(response, given)

    def _end(self, event: Event, number: int) -> dict[str, Any]:
        """Why the calls of this round are not run, as the fields that mark the end; empty: they are run."""
        settings = self._settings
        if event.status != "completed":
            why = f"the answer that made this call ended as {event.status} ({event.error_code}); nothing was run"
            return _mark(event.status, event.error_code, why)
        if number >= settings.max_rounds:
            why = f"the limit of {settings.max_rounds} rounds is met; nothing was run"
            return _mark("incomplete", MAX_ROUNDS, why)
        spent = self.usage.total_token_count or 0
        if settings.max_tokens is not None and spent >= settings.max_tokens:
            why = f"{spent} tokens were used, of {settings.max_tokens} that are allowed; nothing was run"
            return _mark("incomplete", MAX_RUN_TOKENS, why)
        return {}

    # ------------------------------------------------------------- storing

    async def _keep_piece(self, response: LlmResponse) -> Event:
        """Store a final that comes while the answer goes on (``flush="boundary"``); the next has an id of its own."""
        event = await self._keep(response)
        self._maker = self._new_maker()
        return event

    async def _keep_final(self, problem: BaseException | None) -> Event:
        """Store the final that ends the round; from here on its calls wait for their answers."""
        event = await self._keep(self._final or await self._remains(problem), last=True)
        self._asking = False
        turn = CallTurn.of(self._kept)
        self._turn = turn if turn.calls else None
        return event

    async def _keep(self, response: LlmResponse, *, last: bool = False) -> Event:
        shown = self._maker.show(without_unfinished(response))
        key, text = self._settings.output_key, shown.text
        if key is not None and text:
            shown.actions.state_delta[key] = self._output + text
        if last and shown.status == "completed":
            turn = CallTurn.of([*self._kept, shown])
            passes = self._settings.toolbox.passes
            theirs = {call.id or "" for call, answer in turn if answer is None and passes(call)}
            shown.long_running_tool_ids = theirs or None
        await self._append(stored := stored_form(shown))
        self._kept.append(stored)
        self._output += text
        self.usage = sum_usage(self.usage, shown.usage_metadata)
        return shown

    async def _keep_answers(self, end: dict[str, Any], author: str = _AUTHOR) -> Event:
        """Store the answers of the calls that wait; ``end`` marks the end of the run, and answers those not run."""
        turn = self._turn
        assert turn is not None
        turn.fill(end.get("error_message") or "this call was not run")
        event = turn.event(author=author, invocation_id=self._invocation_id, end=end)
        try:
            await self._append(event)
        except SessionError as problem:  # a result too large or too deep for the store; if not, it is raised again
            turn.answers = [error_result(f"the results cannot be stored: {problem}") for _ in turn.calls]
            event = turn.event(author=author, invocation_id=self._invocation_id, end=end)
            await self._append(event)
        self._turn = None
        return stored_form(event)

    async def _append(self, event: Event) -> None:
        assert self._session is not None
        await self._settings.service.append_event(self._session, event)
        self._stored = True
        self._watch.stored(event)

    # ------------------------------------------------------------- left in the middle

    async def _settle(self, problem: BaseException) -> None:
        """Store what had come, marked with why the run ends here, so that the history can be sent."""
        if not self._stored and self._turn is None:
            return  # the run had not begun
        if isinstance(problem, StaleSessionError):
            return  # the session is another writer's now
        try:
            if not self._asking and self._turn is None:
                self._begin_round()  # between two rounds: nothing came of this one
            if self._asking:
                self.left.append(await self._keep_final(problem))
            if self._turn is not None:
                end = _mark(*_fault(problem))
                end["error_message"] = f"the run was {end['status']} before this call gave its result"
                self.left.append(await self._keep_answers(end))
        except Exception as trouble:  # the first problem is the one to be told of
            _log.warning("session %r: what had come could not be stored: %r", self.session_id, trouble)

    async def _remains(self, problem: BaseException | None) -> LlmResponse:
        """What had come of an answer that gave no final of its own, marked with why."""
        final: LlmResponse | None = None
        if self._source is not None:
            await self._source.aclose()
            final = self._source.final
        try:
            final = None if final is None else await self._seen(final)
        except Exception as trouble:  # what the callback did not pass is not stored
            _log.warning("after_model failed on the remains of an answer, which are not stored: %r", trouble)
            final = None
        if final is not None and final.status in ("completed", "incomplete", "failed"):
            return final
        end = _mark(*_fault(problem)) if problem is not None else _mark("incomplete", "STREAM_CUT", _NOTHING_CAME)
        return (final or LlmResponse()).model_copy(update={"partial": False, **end})


#: ``error_code`` of the event that ends a run at one of its limits.
MAX_ROUNDS, MAX_RUN_TOKENS = "MAX_ROUNDS", "MAX_RUN_TOKENS"

_NOTHING_CAME = "the model gave no answer"


class _Given:
    """A response that takes the place of an answer."""

    def __init__(self, response: LlmResponse) -> None:
        self.final = response.model_copy(update={"partial": False, "status": response.status or "completed"})
        self._more = True

    def __aiter__(self) -> _Given:
        return self

    async def __anext__(self) -> LlmResponse:
        if not self._more:
            raise StopAsyncIteration
        self._more = False
        return self.final

    async def aclose(self) -> None:
        self._more = False


#: What a callback's response takes over from the one it replaces, unless it says otherwise.
_INHERITED = (
    "status",
    "finish_reason",
    "native_finish_reason",
    "error_code",
    "error_message",
    "usage_metadata",
    "response_id",
    "model_version",
    "turn_complete",
    "interrupted",
    "provider_metadata",
)


def _in_place_of(response: LlmResponse, given: LlmResponse) -> LlmResponse:
    inherited = {name: getattr(response, name) for name in _INHERITED if name not in given.model_fields_set}
    return given.model_copy(update={**inherited, "partial": response.partial})


def _mark(status: str | None, code: str | None, message: str | None) -> dict[str, Any]:
    return {"status": status, "error_code": code, "error_message": message}


def _is_told_in_the_stream(problem: Exception) -> bool:
    """Whether the answer itself says it, and so its event does: an error in the data, or an end that came too early."""
    return isinstance(problem, StreamCutError) or (isinstance(problem, ProviderError) and problem.status is None)


def _fault(problem: BaseException) -> tuple[str, str | None, str | None]:
    fault = fault_of(problem)
    return fault.status, fault.code, fault.message


async def _value_of(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given
