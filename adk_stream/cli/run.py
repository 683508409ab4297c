"""``adk-stream run``: a stream shown while it comes, stored in a session, and how it ended."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adk_stream.aggregator import AsyncAggregation, aggregate_async
from adk_stream.cli.aggregate import holds_something
from adk_stream.cli.interrupts import noticed_signals
from adk_stream.cli.outcome import COMPLETED, UNFINISHED, UNUSABLE, UsageProblem, code_of_signal, complain
from adk_stream.cli.saving import saved_audio
from adk_stream.cli.show import LiveText, live_view, summary
from adk_stream.cli.source import in_thread, open_source
from adk_stream.cli.storage import SessionKeeper, open_store
from adk_stream.errors import SessionError
from adk_stream.recording import Recording, play_async

if TYPE_CHECKING:
    from adk_stream.cli.agent import AskedAgent, Printer
    from adk_stream.live import AudioRecorder
    from adk_stream.response import LlmResponse
    from adk_stream.sessions import Event

__all__ = ["Store", "run_model", "run_recording"]


@dataclass(frozen=True)
class Store:
    """Where a run is stored, and whether."""

    url: str | None = None
    wanted: bool = True

    def open(self) -> SessionKeeper | None:
        """A keeper for one run; None when nothing is to be stored."""
        return SessionKeeper(open_store(self.url)) if self.wanted else None


def run_recording(
    file: str, provider: str, *, pace: float, interval: float, store: Store, save_audio: str | None = None
) -> int:
    """Show a recording, or standard input as it comes."""
    if not (math.isfinite(pace) and pace >= 0):
        raise UsageProblem(f"--pace is a factor from 0, not {pace}")
    source = open_source(file, provider, interval=interval)
    if isinstance(source, Recording):
        line = source.provider if provider == "auto" and source.provider else provider
        return _show(play_async(source, pace), line, store, save_audio=save_audio)
    return _show(in_thread(source), provider, store, save_audio=save_audio)


def run_model(asked: AskedAgent, prompt: str, printer: Printer, *, save_audio: str | None = None) -> int:
    """Ask a model, run the tools it calls, and show the answer.

    Raises:
        UsageProblem: the prompt is empty; the model or a tool is none.
        SessionError: the store cannot be used.
    """
    from adk_stream.cli.model import prompt_of

    text = prompt_of(prompt)
    with saved_audio(save_audio) as recorder:
        return asyncio.run(_ask(asked, text, printer, recorder))


async def _ask(asked: AskedAgent, text: str, printer: Printer, recorder: AudioRecorder | None) -> int:
    from adk_stream.cli.agent import Agent

    def show(event: Event) -> None:
        if recorder is not None and event.partial:
            recorder.write(event)
        printer.show(event)

    agent = await Agent.open(asked)
    try:
        answer = await agent.say(text, show)
    finally:
        await agent.close()
    printer.end()
    if asked.stored:
        print(f"session {agent.session_id}", file=sys.stderr)
    answer.tell(whole=True)
    return answer.code


def _show(
    pieces: AsyncIterable[Any],
    provider: str,
    store: Store,
    *,
    save_audio: str | None = None,
) -> int:
    import adk_stream.response  # noqa: F401  # it takes its time, which is not the model's

    stream = aggregate_async(pieces, provider)
    with saved_audio(save_audio) as recorder:
        return asyncio.run(_run(_Run(stream, store.open(), live_view(sys.stdout), recorder)))


async def _run(run: _Run) -> int:
    keeper = run.keeper
    try:
        return await run.to_its_end()
    finally:
        if keeper is not None:
            await keeper.close()


class _Run:
    """One stream from its first response to its last line."""

    def __init__(
        self,
        stream: AsyncAggregation,
        keeper: SessionKeeper | None,
        view: LiveText,
        recorder: AudioRecorder | None = None,
    ) -> None:
        self._stream = stream
        self.keeper = keeper
        self._view = view
        self._recorder = recorder
        self._kept: LlmResponse | None = None
        self._first_token: float | None = None
        self._start = time.monotonic()

    async def to_its_end(self) -> int:
        trouble: Exception | None = None
        interrupted: list[int] = []
        task = asyncio.current_task()
        assert task is not None
        try:
            with noticed_signals(task.cancel) as interrupted:
                async with aclosing(self._stream):
                    async for response in self._stream:
                        await self._take(response)
        except asyncio.CancelledError:  # Ctrl-C: what had come is kept, and the command ends by itself
            task.uncancel()
        except Exception as problem:
            if isinstance(problem, BrokenPipeError):
                await self._keep_cancelled()
            if self._stream.final is None or isinstance(problem, (BrokenPipeError, SessionError)):
                raise
            trouble = problem
        await self._keep_cancelled()
        self._view.end()
        if trouble is not None:
            complain(trouble)
        code = self._tell()
        return code_of_signal(interrupted[0]) if interrupted else code

    async def _take(self, response: LlmResponse) -> None:
        if response.partial:
            if self._first_token is None:
                self._first_token = time.monotonic() - self._start
            if self.keeper is not None:
                await self.keeper.open()
            if self._recorder is not None:
                self._recorder.write(response)
            self._view.show(response)
        elif holds_something(response):
            self._view.show(response)
            await self._keep(response)

    async def _keep(self, response: LlmResponse) -> None:
        self._kept = response
        if self.keeper is not None:
            await self.keeper.keep(response)

    async def _keep_cancelled(self) -> None:
        """What a stream that was left held; nothing where its final has come already."""
        final = self._stream.final
        if final is not None and final is not self._kept and holds_something(final):
            await self._keep(final)

    def _tell(self) -> int:
        final = self._kept
        if self.keeper is not None and self.keeper.session is not None:
            print(f"session {self.keeper.session.id}", file=sys.stderr)
        if final is None:
            complain("nothing came that is a stream that can be read")
            return UNUSABLE
        print(summary(final, self._first_token), file=sys.stderr, flush=True)
        return COMPLETED if final.status == "completed" else UNFINISHED
