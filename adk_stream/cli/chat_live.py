"""``adk-stream chat --live``: lines in, transcripts out; with a microphone and a speaker, by voice.

A line typed at a terminal goes out at once, and cuts the model short if it speaks. Lines from a pipe or a file wait
for the end of the turn before.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adk_stream.cli.model import open_model
from adk_stream.cli.outcome import COMPLETED, INTERRUPTED, UNFINISHED, UsageProblem, complain
from adk_stream.cli.saving import saved_audio
from adk_stream.cli.show import LiveText, live_view, summary
from adk_stream.cli.source import in_thread, standard_input
from adk_stream.cli.storage import APP_NAME, USER_ID, open_store
from adk_stream.cli.tools import load_tools
from adk_stream.errors import StreamError

if TYPE_CHECKING:
    from adk_stream.cli.sound import Microphone, Speaker
    from adk_stream.live import AudioRecorder
    from adk_stream.models import Model
    from adk_stream.runner import LiveRun
    from adk_stream.sessions import Event, SessionService

__all__ = ["LiveChat", "chat_live"]


@dataclass(frozen=True)
class LiveChat:
    """What was asked for.

    Attributes:
        model: ``PROVIDER:NAME``.
        base_url: Where it is served.
        session: The session to go on with, made where there is none; None begins one.
        store: URL of the session store.
        tools: ``module:function``.
        save_audio: The file for the model's voice.
        microphone: Listen to the user.
        speaker: Play the model's voice.
        instruction: What the model is told before the conversation.
        user_id: Whose session it is.
    """

    model: str
    base_url: str | None = None
    session: str | None = None
    store: str | None = None
    tools: Sequence[str] = ()
    save_audio: str | None = None
    microphone: bool = False
    speaker: bool = False
    instruction: str | None = None
    user_id: str = USER_ID


def chat_live(asked: LiveChat) -> int:
    """Talk until the input ends, or Ctrl-C.

    Raises:
        UsageProblem: the model or a tool is none.
        MissingExtraError: there is no sounddevice.
    """
    model = open_model(asked.model, asked.base_url)
    if not hasattr(model, "connect_live"):
        raise UsageProblem(f"--live: {asked.model.partition(':')[0]} has no live models; gemini:NAME has")
    tools = load_tools(asked.tools)
    with saved_audio(asked.save_audio) as recorder:
        return asyncio.run(_chat(asked, model, tools, recorder))


#: Both sides in writing, whatever the model says aloud.
_CONFIG = {"response_modalities": ["AUDIO"], "input_audio_transcription": {}, "output_audio_transcription": {}}


async def _chat(asked: LiveChat, model: Model, tools: Sequence[Any], recorder: AudioRecorder | None) -> int:
    from adk_stream.runner import LiveRequestQueue, Runner

    service = open_store(asked.store)
    try:
        session_id = await _session_of(service, asked)
        requests = LiveRequestQueue()
        runner = Runner(model, tools, session_service=service, app_name=APP_NAME, instruction=asked.instruction)
        run = runner.run_live(
            user_id=asked.user_id,
            session_id=session_id,
            live_requests=requests,
            config=_CONFIG,
            recorder=recorder,
            playback=asked.speaker,  # what nobody plays, everybody reads
        )
        print(f"session {session_id}", file=sys.stderr, flush=True)
        async with _devices(asked, requests) as speaker:
            return await _Talk(run, requests, live_view(sys.stdout), speaker, asked.microphone).to_its_end()
    finally:
        await service.close()


async def _session_of(service: SessionService, asked: LiveChat) -> str:
    user_id, wanted = asked.user_id, asked.session
    if wanted and await service.get_session(app_name=APP_NAME, user_id=user_id, session_id=wanted) is not None:
        return wanted
    return (await service.create_session(app_name=APP_NAME, user_id=user_id, session_id=wanted)).id


@contextlib.asynccontextmanager
async def _devices(asked: LiveChat, requests: Any) -> AsyncIterator[Speaker | None]:
    from google.genai import types

    from adk_stream.cli.sound import Microphone, Speaker

    def hear(data: bytes, mime_type: str) -> None:
        with contextlib.suppress(RuntimeError):  # the queue was closed
            requests.send_realtime(types.Blob(data=data, mime_type=mime_type))

    speaker = Speaker() if asked.speaker else None
    microphone: Microphone | None = None
    try:
        microphone = Microphone(hear) if asked.microphone else None
        yield speaker
    finally:
        if microphone is not None:
            microphone.close()
        if speaker is not None:
            speaker.close()


@dataclass
class _Talk:
    """One conversation from its first line to its last word."""

    run: LiveRun
    requests: Any
    view: LiveText
    speaker: Speaker | None
    by_voice: bool
    _answered: asyncio.Event = field(default_factory=asyncio.Event)
    _last: Event | None = None

    async def to_its_end(self) -> int:
        typing = asyncio.create_task(self._type(), name="adk-stream-chat-lines")
        try:
            async with aclosing(self.run):
                async for event in self.run:
                    self._show(event)
        except asyncio.CancelledError:  # Ctrl-C: what had come is stored
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            return INTERRUPTED
        except StreamError as problem:
            complain(problem)
            return UNFINISHED
        finally:
            typing.cancel()
            self.view.end()
        return self._tell()

    def _show(self, event: Event) -> None:
        self.view.show(event)
        if self.speaker is not None:
            self._play(self.speaker, event)
        if not event.partial:
            self._last = event
        if event.turn_complete and event.interaction_status != "IN_PROGRESS":
            self._answered.set()

    def _play(self, speaker: Speaker, event: Event) -> None:
        from adk_stream.live.audio import audio_in

        if event.interrupted:
            speaker.hush()
        for mime_type, data, stale in audio_in(event) if event.partial else ():
            if not stale:
                speaker.play(mime_type, data)

    async def _type(self) -> None:
        """The user's lines; behind the last, and its answer, the conversation ends, unless the user speaks."""
        waits = not sys.stdin.isatty()
        async for line in _lines():
            self._answered.clear()
            self.requests.send_content(line)
            if waits:
                await self._answered.wait()
        if not self.by_voice:
            self.requests.close()

    def _tell(self) -> int:
        if self._last is None:
            return COMPLETED
        print(summary(self._last), file=sys.stderr, flush=True)
        return COMPLETED if self._last.status == "completed" else UNFINISHED


async def _lines() -> AsyncIterator[str]:
    """Lines of standard input that say something."""
    rest = b""
    async for piece in in_thread(standard_input()):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line.decode(errors="replace").strip()
    if rest.strip():
        yield rest.decode(errors="replace").strip()
