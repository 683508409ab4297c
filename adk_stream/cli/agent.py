"""What ``run --model`` and ``chat`` share: a runner on a stored session, and how one answer of it is shown and told.

A signal in the middle of an answer ends that answer only: the runner stores what had come, marked ``cancelled``, and
answers the calls that were open, so that the conversation can go on at any time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from adk_stream.cli.interrupts import noticed_signals
from adk_stream.cli.json_lines import json_of_model, write_line
from adk_stream.cli.model import open_model
from adk_stream.cli.outcome import COMPLETED, UNFINISHED, UsageProblem, code_of_signal, complain
from adk_stream.cli.show import LiveText, live_view, summary, visible
from adk_stream.cli.storage import APP_NAME, USER_ID, open_store
from adk_stream.cli.tools import load_tools

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.runner import Run, Runner
    from adk_stream.sessions import Event, SessionService

__all__ = ["Agent", "Answer", "AskedAgent", "JsonLines", "Printer", "Screen", "Show"]

#: Is given each event of an answer, as it comes.
Show: TypeAlias = "Callable[[Event], None]"


@dataclass(frozen=True)
class AskedAgent:
    """What was asked for.

    Attributes:
        model: ``PROVIDER:NAME``.
        base_url: Where it is served.
        tools: ``module:function``.
        instruction: What the model is told before the conversation.
        session: The session to go on with, which is made where there is none; None begins a new one.
        user_id: Whose session it is.
        store: URL of the session store; None: the one that is always used.
        stored: False keeps the conversation in memory only.
    """

    model: str
    base_url: str | None = None
    tools: Sequence[str] = ()
    instruction: str | None = None
    session: str | None = None
    user_id: str = USER_ID
    store: str | None = None
    stored: bool = True


@dataclass(frozen=True)
class Answer:
    """How one answer ended.

    Attributes:
        last: The event that tells it; None where nothing was stored.
        usage: Token counts of all rounds.
        first_token: Seconds until something came.
        signal: The number of the first signal that came meanwhile.
        problem: What was raised, and is not in ``last``.
    """

    last: Event | None
    usage: types.GenerateContentResponseUsageMetadata
    first_token: float | None = None
    signal: int | None = None
    problem: Exception | None = None

    @property
    def code(self) -> int:
        """The exit code of a command that gave this answer alone."""
        if self.signal is not None:
            return code_of_signal(self.signal)
        completed = self.problem is None and self.last is not None and self.last.status == "completed"
        return COMPLETED if completed else UNFINISHED

    def tell(self, *, whole: bool) -> None:
        """One line on stderr for how it ended; unless ``whole``, only where that was not well, and without numbers."""
        if self.problem is not None:
            complain(self.problem)
        if self.last is None or not (whole or self.last.status != "completed"):
            return
        ending = self.last.model_copy(update={"usage_metadata": self.usage if whole else None})
        told = [summary(ending, self.first_token if whole else None)]
        if self.last.error_message:
            told.append(visible(_shortened(" ".join(self.last.error_message.split()))))
        print(" · ".join(told), file=sys.stderr, flush=True)


class Agent:
    """A conversation: one session, one runner. ``open`` makes it, in the event loop that it is used in."""

    def __init__(self, runner: Runner, service: SessionService, user_id: str, session_id: str) -> None:
        self.session_id = session_id
        self._runner = runner
        self._service = service
        self._user_id = user_id

    @classmethod
    async def open(cls, asked: AskedAgent) -> Self:
        """Find all that was asked for, before the model is.

        Raises:
            UsageProblem: the model or a tool is none.
            MissingExtraError: the model's client is not installed.
            SessionError: the store cannot be used.
        """
        from adk_stream.runner import Runner
        from adk_stream.sessions import InMemorySessionService

        model = open_model(asked.model, asked.base_url)
        tools = load_tools(asked.tools)
        service = open_store(asked.store) if asked.stored else InMemorySessionService()
        try:
            runner = Runner(
                model,
                tools,
                session_service=service,
                app_name=APP_NAME,
                instruction=asked.instruction or None,
                pass_through_tool_calls=not tools,  # with nobody to run them, calls are what the answer ends with
            )
            session_id = await _session_of(service, asked.user_id, asked.session)
        except BaseException as problem:
            await service.close()
            if isinstance(problem, (TypeError, ValueError)):  # not a function that a model can be told of
                raise UsageProblem(f"--tool: {problem}") from problem
            raise
        return cls(runner, service, asked.user_id, session_id)

    async def say(self, text: str, show: Show) -> Answer:
        """Send a message, show what comes, and tell how it ended; a problem of the model's is told, not raised.

        Raises:
            BrokenPipeError: nobody reads what is shown; what had come is stored.
        """
        run = self._runner.run_async(user_id=self._user_id, session_id=self.session_id, new_message=text)
        leaving: list[asyncio.Task[None]] = []
        with noticed_signals(lambda: leaving.append(asyncio.create_task(run.cancel()))) as came:
            answer = await _read(run, show)
            if leaving:
                await asyncio.wait(leaving)
            return replace(answer, signal=came[0] if came else None)

    async def close(self) -> None:
        """Close the store."""
        await self._service.close()


async def _read(run: Run, show: Show) -> Answer:
    begun = time.monotonic()
    last: Event | None = None
    first_token: float | None = None
    problem: Exception | None = None
    try:
        async with aclosing(run):
            async for event in run:
                if not event.partial:
                    last = event
                elif first_token is None:
                    first_token = time.monotonic() - begun
                show(event)
    except BrokenPipeError:
        raise
    except Exception as trouble:
        # what asking the model raised stands in its event already
        problem = None if last is not None and last.status == "failed" else trouble
    return Answer(last, run.usage, first_token, problem=problem)


async def _session_of(service: SessionService, user_id: str, session_id: str | None) -> str:
    if session_id is not None:
        found = await service.get_session(app_name=APP_NAME, user_id=user_id, session_id=session_id)
        if found is not None:
            return found.id
    made = await service.create_session(app_name=APP_NAME, user_id=user_id, session_id=session_id)
    return made.id


# ----------------------------------------------------------------- what is shown of it


class Screen:
    """Draws events on stdout: all of it on a terminal, the answer's text alone elsewhere.

    Args:
        thoughts: Draw them too.
    """

    def __init__(self, *, thoughts: bool = True) -> None:
        self._thoughts = thoughts
        self._view: LiveText = live_view(sys.stdout)
        self._round_over = False

    def show(self, event: Event) -> None:
        """Draw one event; each round begins on a line of its own."""
        if self._round_over:
            self.end_answer()
        seen = event if self._thoughts else _without_thoughts(event)
        self._view.show(seen)
        if event.partial:
            return
        for part in seen.parts:
            if part.function_response is not None:
                self._view.show_part(part)
        self._round_over = True

    def end_answer(self) -> None:
        """Another answer, or a round with calls of its own, begins on a new line."""
        self._view.end_turn()
        self._view = live_view(sys.stdout)
        self._round_over = False

    def end(self) -> None:
        """Nothing more comes: a pipe is given the text as it is."""
        self._view.end()


class JsonLines:
    """Writes events to stdout, each as one line of JSON.

    Args:
        thoughts: Write them too.
        partials: Write partial events too.
    """

    def __init__(self, *, thoughts: bool = True, partials: bool = False) -> None:
        self._thoughts = thoughts
        self._partials = partials

    def show(self, event: Event) -> None:
        """Write one event."""
        if self._partials or not event.partial:
            write_line(json_of_model(event if self._thoughts else _without_thoughts(event)))

    def end_answer(self) -> None:
        """Every line is ended already."""

    def end(self) -> None:
        """Every line is ended already."""


#: What shows the events of a conversation.
Printer: TypeAlias = Screen | JsonLines


def _without_thoughts(event: Event) -> Event:
    if event.content is None or not any(part.thought for part in event.parts):
        return event
    spoken: list[Any] = [part for part in event.parts if not part.thought]
    return event.model_copy(update={"content": event.content.model_copy(update={"parts": spoken})})


_MESSAGE_CHARACTERS = 500


def _shortened(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else text[:_MESSAGE_CHARACTERS] + "…"
