"""``Runner``: a model, its tools and a session store, made into an agent."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.genai import types

from .blocking import LoopThread
from .locks import locks_of
from .loop import AfterModel, BeforeModel, RunLoop, Settings
from .run import Run, RunningRuns
from .tools import ConfirmTool, Toolbox
from .watch import Observer

if TYPE_CHECKING:
    from adk_stream.aggregator.core import Flush
    from adk_stream.execution import StreamExecutionOptions
    from adk_stream.models.request import Model, ToolLike
    from adk_stream.sessions import SessionService
    from adk_stream.sessions.event import Event

    from .live import LiveRequestQueue, LiveRun

__all__ = ["Runner"]


class Runner:
    """Asks a model, runs the tools it calls, and asks again, until it answers; keeps all of it in a session.

    One runner serves any number of runs at once. Runs on one session wait for one another, in this process; where
    another process writes to the session meanwhile, the run ends with ``StaleSessionError`` and stores nothing more.

    **Rounds.** Each request is a round: partial events while the answer comes, then one final event of the same id,
    which is stored. Only a round that ended ``completed`` has its calls run. Their answers are one event, in call
    order, stored directly after the message that made them. Whatever goes wrong with a call becomes its answer,
    ``{"error": …}``.

    **The end.** The last event tells how the run ended, in ``status`` and ``error_code``: the model's own final; the
    answers of the calls that were not run, where a round failed, or a limit is met (``MAX_ROUNDS``,
    ``MAX_RUN_TOKENS``); or, where nothing else is left to mark, an event without content. An error inside the answer
    ends the run with a ``failed`` event and raises nothing; a model call that raises gives its ``failed`` event first
    and then raises.

    **Pass-through.** If a round calls a tool that the caller runs, the run ends with that message, its calls open:
    ``long_running_tool_ids`` names those that the caller runs. The caller goes on by sending their results as the
    next message, a Content of function responses. Calls to the runner's own tools in the same message run then, not
    before, so that the answers of one message are stored as one event, and nothing is lost in between. A call that
    this message leaves out gets an error for an answer. If text comes as the next message instead, all of them do.

    **Leaving.** ``aclose()`` of a run, ``cancel``, and cancelling the task end it as ``cancelled``: the model's
    connection is closed, tools that run are cancelled, what had come is stored and marked, and calls without a
    result get an error, all before that returns. Nothing is stored afterwards.

    Args:
        model: Who is asked.
        tools: Functions (sync ones run in threads), and declarations without a function, which the caller runs.
        session_service: Where sessions are kept.
        app_name: The application they belong to.
        instruction: What the model is told before the conversation.
        execution: Time limits and retries of each request.
        pass_through_tool_calls: True, or the names of the tools that the caller runs.
        max_rounds: Requests of one run at most; when the last of them still calls tools, these are not run.
        max_tokens: Tokens of one run, over its rounds; when they are used up, no further tool runs. None: no limit.
        config: Generation settings for each request.
        confirm_tool: Asked before a call runs, with a copy of the call and the function; a false answer refuses it.
        tool_timeout: Seconds that one call may take; None: no limit. A function that runs in a thread cannot be
            stopped: its result is dropped.
        max_parallel_tools: Calls that run at once; 1 runs them one after the other.
        before_model: Sees each request; may give another request, or a response in place of asking.
        after_model: Sees each response, partial or final, before anybody else; may change it or give another, which
            takes over ``partial``, and the status, usage and ids it does not set itself.
        output_key: The key of the session's state that holds the text of the latest run.
        session_timeout: Seconds to wait for another run of the same session; None: as long as it takes.
        flush: ``"close"`` gives one final a round; ``"boundary"`` gives one whenever a run of text or calls ends,
            each with an id of its own, which its partials share.
        observer: Makes a ``RunWatch`` for each run, which is told what the run does.

    Raises:
        ValueError: a limit is not positive, two tools share a name, or a name to pass through is none of them.
        TypeError: a tool is none.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[ToolLike] = (),
        *,
        session_service: SessionService,
        app_name: str,
        instruction: str | None = None,
        execution: StreamExecutionOptions | None = None,
        pass_through_tool_calls: bool | Collection[str] = False,
        max_rounds: int = 25,
        max_tokens: int | None = None,
        config: types.GenerateContentConfig | None = None,
        confirm_tool: ConfirmTool | None = None,
        tool_timeout: float | None = 300.0,
        max_parallel_tools: int = 16,
        before_model: BeforeModel | None = None,
        after_model: AfterModel | None = None,
        output_key: str | None = None,
        session_timeout: float | None = None,
        flush: Flush = "close",
        observer: Observer | None = None,
    ) -> None:
        for name, limit in (("max_rounds", max_rounds), ("max_parallel_tools", max_parallel_tools)):
            if limit < 1:
                raise ValueError(f"{name} is 1 or more, not {limit!r}")
        self._app_name = app_name
        self._settings = Settings(
            model=model,
            tools=tuple(tools),
            toolbox=Toolbox(
                tools,
                pass_through=pass_through_tool_calls,
                confirm=confirm_tool,
                timeout=tool_timeout,
                parallel=max_parallel_tools,
            ),
            service=session_service,
            locks=locks_of(session_service),
            instruction=instruction,
            config=config,
            execution=execution,
            flush=flush,
            max_rounds=max_rounds,
            max_tokens=max_tokens,
            session_patience=session_timeout,
            before_model=before_model,
            after_model=after_model,
            output_key=output_key,
            observer=observer,
        )
        self._running = RunningRuns()
        self._loop_thread = LoopThread()

    def run_async(self, *, user_id: str, session_id: str, new_message: str | types.Content) -> Run:
        """Begin a run when its first event is asked for.

        Args:
            user_id: Whose session it is.
            session_id: An existing session.
            new_message: What the user says, or the results of the calls that the last run left to the caller.

        Returns:
            The run's events, an async iterator with ``aclose``, ``cancel`` and ``usage``.

        Raises:
            TypeError: ``new_message`` is neither text nor a Content.
            ValueError: it is empty. While events are read: it answers a call that does not wait for an answer.
            SessionNotFoundError: (these while events are read) there is no such session.
            SessionBusyError: another run held the session for longer than ``session_timeout``.
            StaleSessionError: another process appended to the session meanwhile.
            SessionError: the store failed.
            Exception: what asking the model raised, after its ``failed`` event; what a callback raised, likewise.
        """
        loop = RunLoop(self._settings, (self._app_name, user_id, session_id), new_message)
        return Run(loop, self._running)

    def run(self, *, user_id: str, session_id: str, new_message: str | types.Content) -> Generator[Event, None, None]:
        """The blocking form of ``run_async``, for callers without an event loop.

        All blocking runs of a runner share one event loop, in a thread that lives while one of them is read. A run
        that is left early (``break``, ``close()``) ends as ``cancelled``.
        """
        return self._loop_thread.read(self.run_async(user_id=user_id, session_id=session_id, new_message=new_message))

    def run_live(
        self,
        *,
        user_id: str,
        session_id: str,
        live_requests: LiveRequestQueue,
        config: types.LiveConnectConfig | Mapping[str, Any] | None = None,
        send_history: bool = True,
        **options: Any,
    ) -> LiveRun:
        """Begin a live conversation when its first event is asked for; it lasts until the queue is closed.

        Partial events are shown, the others stored too: what was said, each transcript once, calls directly followed
        by their answers, and of audio nothing, or a reference where an ``audio_store`` is given. The instruction, the
        tools and their settings are the runner's; limits of rounds and the callbacks of requests are not for it.

        Args:
            user_id: Whose session it is.
            session_id: An existing session.
            live_requests: What the user says.
            config: The session's settings, as google-genai takes them. Models that take a history only where
                ``history_config.initial_history_in_client_content`` is set, need it set here.
            send_history: Tell the model what the session holds, in writing and before anything else; not where the
                config holds a handle, which brings all that was heard.
            options: As ``adk_stream.live.LiveStream`` takes them.

        Returns:
            The run's events, an async iterator with ``aclose``, ``cancel``, ``usage`` and ``handle``.

        Raises:
            RequestError: the model has no live way.
            ValueError: an option is none of its values.
            SessionError: (these while events are read) as ``run_async``.
            StreamError: the conversation broke off and could not be gone on with; what had come is stored.
        """
        from .live import live_run

        key = (self._app_name, user_id, session_id)
        return live_run(self._settings, self._running, key, live_requests, config, send_history, options)

    async def cancel(self, *, session_id: str) -> bool:
        """End the runs of that session as ``cancelled``, those that wait for it too; may be called in any loop.

        What had come is stored, marked, when this returns. Whoever reads a run still gets its ``cancelled`` events,
        and then the end.

        Returns:
            Whether there was a run.
        """
        return await self._running.cancel(session_id)
