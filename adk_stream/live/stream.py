"""``LiveStream``: a voice conversation as one stream of responses, over all its turns and connections.

::

    async with LiveStream(client, model="gemini-…", config={"response_modalities": ["AUDIO"]}, tools=[look_up]) as live:
        await live.send_audio(pcm)
        async for response in live:
            ...

One task reads the server's messages, aggregates them and starts the calls; it runs ahead of the consumer by a bounded
number of responses. Whatever waits, waits here; the aggregator knows of no time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from google.genai import types

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.aggregator.heard import duration_ms
from adk_stream.errors import ConnectionLostError
from adk_stream.models.declarations import sort_tools
from adk_stream.providers.gemini_live import LiveReader
from adk_stream.response import LlmResponse
from adk_stream.runner.shield import to_the_end
from adk_stream.runner.tools import ConfirmTool, Toolbox

from .audio import AudioKeeper, AudioRecorder, audio_in
from .inbox import AudioPolicy, Entry, Inbox
from .outbox import Outbox, Outgoing
from .playback import PlaybackClock
from .session import Connect, LiveSession, Reconnecting
from .tools import LiveTools
from .voice import TurnVoice

if TYPE_CHECKING:
    from google import genai

    from adk_stream.aggregator.core import Audio, Flush
    from adk_stream.models.request import ToolLike
    from adk_stream.parts import StreamChunk, StreamLimits

__all__ = ["LiveStream"]

_LINE = "gemini-live"
_MICROPHONE = "audio/pcm;rate=16000"


class LiveStream(AsyncIterator[LlmResponse]):
    """One live session. Any task may send; one task at a time reads the responses. For one event loop.

    **Responses** are the aggregator's: partials to show and to play, and finals to keep. The answers of tools that ran
    here are responses of role ``user`` between them.

    **Tools.** Functions run here, each call in a task of its own, and are answered at once; a generator is answered
    piece by piece. What the model takes back is stopped and not answered. Calls of what is only declared are the
    reader's to answer, with ``send_function_responses``.

    **Connections.** A connection that goes away or is lost is followed by another with the newest handle. What is sent
    meanwhile waits, and written words that were lost before anything answered them are sent again. A turn that was open
    then ends as ``incomplete`` / ``STREAM_CUT``: what had come is kept, and whatever the server says afterwards is
    another turn. Where the session cannot be gone on with, that final is followed by the error.

    **Playback.** When the user cuts in, the transcript is cut to what was heard: by the client's own report
    (``playback_position``), else by a clock that plays each turn in real time from the moment its first audio is read.

    The websocket is the client's, and so are its settings: ``HttpOptions(async_client_args={"ping_timeout": 60})``. One
    that is not read for longer than its keepalive, since nobody takes what waits here, is lost as any other is.

    **Leaving** the block closes the connection and stops the calls, within ``close_timeout``. What had come of an open
    turn is in ``final``, marked ``cancelled``; nothing is given out any more.

    Args:
        client: A google-genai client, or whatever has its ``connect_live(config)`` (``GeminiModel``).
        model: The model; not with a ``connect_live`` of its own.
        config: The session's settings, as google-genai takes them.
        tools: Functions, which run here, and declarations, which the reader answers.
        toolbox: What runs them, where there is one already; the settings of tools below are then its own.
        unknown_tools: Calls of tools that nobody declared: left to the reader, or answered with an error.
        confirm_tool: Asked before a call runs.
        tool_timeout: Seconds that one call may take; None: no limit.
        max_parallel_tools: Calls that run at once.
        flush: As in ``StreamingResponseAggregator``.
        audio: Whether the finals hold the audio (``"join"``) or not (None, ``"drop"``).
        limits: Bounds on what one response may hold.
        resume: Go on with the session over several connections; False asks the server for no handles.
        max_reconnects: Tries to connect again, before the session is given up.
        reconnect_backoff: Seconds; the wait before the second try, doubled with each further one.
        connect_timeout: Seconds that making a connection may take; None: no limit.
        max_unsent: Messages that wait for the next connection; beyond it, senders wait.
        max_queued: Responses that wait for the reader. With ``audio_policy="wait"`` the server is read no further
            then; with ``"drop_oldest"`` the oldest audio is left out.
        late_words: Seconds that the end of a turn waits for transcripts that lag behind it; what comes of the next
            turn ends the wait. 0: not at all, late words begin the next turn.
        playback: False: only the client's own report tells what was heard.
        recorder: Written all audio, whether it is read or not; stays the caller's to close.
        audio_store: Keeps each turn's audio; the turn's final then holds a reference to it.
        on_malformed: A frame that cannot be read ends the session (``"raise"``), or is passed over.
        close_timeout: Seconds that leaving may take.

    Attributes:
        final: The final that ended the newest turn; after leaving, the ``cancelled`` one of an open turn.
        unread: After leaving: the finals that had come and were not read.

    Raises:
        ValueError: an argument is none of the values above, or two tools share a name.
        TypeError: a tool is none.
    """

    def __init__(
        self,
        client: genai.Client | Any,
        *,
        model: str | None = None,
        config: types.LiveConnectConfig | Mapping[str, Any] | None = None,
        tools: Sequence[ToolLike] = (),
        toolbox: Toolbox | None = None,
        unknown_tools: Literal["pass", "error"] = "pass",
        confirm_tool: ConfirmTool | None = None,
        tool_timeout: float | None = 300.0,
        max_parallel_tools: int = 16,
        flush: Flush = "close",
        audio: Audio | None = None,
        limits: StreamLimits | None = None,
        resume: bool = True,
        max_reconnects: int = 5,
        reconnect_backoff: float = 0.5,
        connect_timeout: float | None = 30.0,
        max_unsent: int = 1000,
        max_queued: int = 2000,
        audio_policy: AudioPolicy = "wait",
        late_words: float = 0.3,
        playback: bool = True,
        recorder: AudioRecorder | None = None,
        audio_store: AudioKeeper | None = None,
        on_malformed: Literal["raise", "skip"] = "raise",
        close_timeout: float = 5.0,
    ) -> None:
        for name, value, values in (
            ("unknown_tools", unknown_tools, ("pass", "error")),
            ("audio_policy", audio_policy, ("wait", "drop_oldest")),
            ("on_malformed", on_malformed, ("raise", "skip")),
        ):
            if value not in values:
                raise ValueError(f"{name} is one of {', '.join(values)}, not {value!r}")
        for name, limit in (
            ("max_reconnects", max_reconnects),
            ("max_unsent", max_unsent),
            ("max_queued", max_queued),
            ("max_parallel_tools", max_parallel_tools),
        ):
            if limit < 1:
                raise ValueError(f"{name} is 1 or more, not {limit!r}")
        settings = _with_tools(types.LiveConnectConfig.model_validate(config or {}), tools)
        toolbox = toolbox or Toolbox(
            tools, pass_through=False, confirm=confirm_tool, timeout=tool_timeout, parallel=max_parallel_tools
        )
        transparent = bool(settings.session_resumption and settings.session_resumption.transparent)
        self._toolbox = toolbox
        self._tools = LiveTools(toolbox, self._answered, parallel=toolbox.parallel)
        self._passes_unknown = unknown_tools == "pass"
        self._aggregator = StreamingResponseAggregator(flush, audio=audio, limits=limits)
        self._messages = LiveReader(accept_tail=late_words > 0)
        self._late_words = late_words
        self._releasing: asyncio.TimerHandle | None = None  # of a turn's end that waits for late words
        self._inbox = Inbox(max_queued, audio_policy)
        self._outbox = Outbox(max_unsent, remember=resume and transparent)
        self._session = LiveSession(
            _connector(client, model),
            settings,
            self._outbox,
            self,
            Reconnecting(resume, max_reconnects, reconnect_backoff, timeout=connect_timeout),
            on_malformed,
        )
        self._voice = TurnVoice(audio_store)
        self._recorder = recorder
        self._plays = playback
        self._clock = PlaybackClock()
        self._close_timeout = close_timeout
        self._open = False  # something of a turn came
        self._asked = False  # something was sent that leads to a turn
        self._reader: asyncio.Task[None] | None = None
        self._reading = False
        self._closing: asyncio.Task[None] | None = None
        self.final: LlmResponse | None = None
        self.unread: list[LlmResponse] = []

    # ------------------------------------------------------------- what is known of the session

    @property
    def handle(self) -> str | None:
        """With what another stream may go on with this session (``config.session_resumption.handle``), if it can."""
        return self._session.handle

    @property
    def session_id(self) -> str | None:
        """The server's id of the session."""
        return self._session.session_id

    @property
    def connections(self) -> int:
        """How many connections were made."""
        return self._session.connections

    @property
    def open(self) -> bool:
        """Whether a turn is going on, or was asked for."""
        return self._open or self._asked

    # ------------------------------------------------------------- sending

    async def send_text(self, text: str) -> None:
        """Say something in writing, as part of the running conversation.

        Raises:
            ConnectionLostError: (as all of these) the session has ended.
        """
        await self._send("send_realtime_input", text=text, asks=True, again=True)

    async def send_content(
        self, turns: str | types.Content | Sequence[types.Content] | Mapping[str, Any], *, turn_complete: bool = True
    ) -> None:
        """Add whole turns to the conversation, in order.

        Args:
            turns: One or several; a text is a turn of the user's.
            turn_complete: Whether the model is to answer now.
        """
        if isinstance(turns, str):
            turns = types.Content(role="user", parts=[types.Part(text=turns)])
        await self._send(
            "send_client_content", turns=turns, turn_complete=turn_complete, asks=turn_complete, again=True
        )

    async def send_audio(self, data: bytes, mime_type: str = _MICROPHONE) -> None:
        """Send a piece of the user's voice: 16-bit PCM, one channel."""
        await self._send("send_realtime_input", audio=types.Blob(data=data, mime_type=mime_type))

    async def send_blob(self, blob: types.Blob) -> None:
        """Send a piece of audio, or an image of a video."""
        if (blob.mime_type or "").startswith("audio/"):
            await self._send("send_realtime_input", audio=blob)
        else:
            await self._send("send_realtime_input", video=blob)

    async def send_audio_end(self) -> None:
        """The microphone is off for now."""
        await self._send("send_realtime_input", audio_stream_end=True, asks=True)

    async def send_activity_start(self) -> None:
        """The user begins to speak; for sessions in which the server does not detect that itself."""
        await self._send("send_realtime_input", activity_start=types.ActivityStart())

    async def send_activity_end(self) -> None:
        """The user has spoken."""
        await self._send("send_realtime_input", activity_end=types.ActivityEnd(), asks=True)

    async def send_function_responses(
        self, responses: types.FunctionResponse | Sequence[types.FunctionResponse]
    ) -> None:
        """Answer calls that do not run here; a call's ``id`` tells which is answered.

        Raises:
            ValueError: an answer has no id.
        """
        given = [responses] if isinstance(responses, types.FunctionResponse) else list(responses)
        await self._send("send_tool_response", function_responses=given, asks=True)

    def playback_position(self, ms: float) -> None:
        """How much of the model's audio in this turn the user has heard, in milliseconds; takes the clock's place."""
        self._clock.report(ms)

    async def _send(self, method: str, *, asks: bool = False, again: bool = False, **fields: Any) -> None:
        if self._reader is None:
            raise RuntimeError("a LiveStream is entered with 'async with' before anything is sent")
        self._asked = self._asked or asks
        await self._outbox.send(Outgoing(method, fields, again))

    # ------------------------------------------------------------- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LlmResponse:
        """The next response.

        Raises:
            StopAsyncIteration: the session has ended, or was left.
            StreamError: how it ended; once, behind its last response.
            RuntimeError: another task is reading, or the stream was not entered.
        """
        if self._reader is None:
            raise RuntimeError("a LiveStream is entered with 'async with' before it is read")
        if self._reading:
            raise RuntimeError("another task is reading this stream")
        self._reading = True
        try:
            entry = await self._inbox.get()
        finally:
            self._reading = False
        if entry.audio_ms:
            entry.clock.hand_out(entry.audio_ms)
        return entry.response

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            StreamError: no session could be had.
            RuntimeError: the stream was entered before.
        """
        if self._reader is not None:
            raise RuntimeError("a LiveStream is entered once")
        self._reader = asyncio.create_task(self._read(), name="adk-stream-live")
        connected = asyncio.create_task(self._session.connected.wait())
        try:
            await asyncio.wait([self._reader, connected], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.aclose()
            raise
        finally:
            connected.cancel()
        if not self._session.connected.is_set():
            await self._reader  # raises
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the session; see the class. Again: does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="adk-stream-live-close")
        await to_the_end(self._closing)

    async def _close(self) -> None:
        self._outbox.close()
        await self._tools.aclose(self._close_timeout / 2)
        reader = self._reader
        if reader is not None and not reader.done():
            reader.cancel()
            await asyncio.wait([reader], timeout=self._close_timeout / 2)
            if not reader.done():
                self._session.abort()
                await asyncio.wait([reader], timeout=1.0)
        self._end_open_turn(asyncio.CancelledError())
        self._voice.close()
        self.unread += [response for response in self._inbox.discard() if not response.partial]

    # ------------------------------------------------------------- the reader task

    async def _read(self) -> None:
        problem: BaseException | None = None
        try:
            await self._session.run()
        except Exception as trouble:
            if not self._session.connected.is_set():
                raise
            problem = trouble
        self._outbox.close(problem)
        await self._tools.aclose(self._close_timeout / 2)
        cut = problem is None or isinstance(problem, ConnectionLostError)
        final = self._end_open_turn(None if cut else problem)
        if final is not None:
            self._put(final)
        self._inbox.end(problem)

    async def take(self, message: types.LiveServerMessage) -> None:
        """Take a message of the server in; the reader's own."""
        content = message.server_content
        if content is not None and content.interrupted and (self._plays or self._clock.reported):
            self._aggregator.playback_position(self._clock.position)
        self._take_chunks(self._messages.read_object(message))
        self._watch_for_late_words()
        await self._inbox.room()

    def disconnected(self) -> None:
        """No more words of the turn are waited for; the session's own."""
        self._stop_waiting()
        self._take_chunks(self._messages.close())

    def broke(self) -> None:
        """The session goes on with another connection; the session's own."""
        final = self._end_open_turn(None)
        if final is not None:
            self._put(final)

    def _take_chunks(self, chunks: Iterable[StreamChunk]) -> None:
        self._aggregator.speaks(_LINE)
        for chunk in chunks:
            for response in self._aggregator.take(chunk):
                self._take_response(response)

    def _watch_for_late_words(self) -> None:
        held = bool(self._messages.tail.held)
        if held and self._releasing is None:
            loop = asyncio.get_running_loop()
            self._releasing = loop.call_later(self._late_words, self._end_wait)
        elif not held:
            self._stop_waiting()

    def _end_wait(self) -> None:
        try:
            self.disconnected()
        except Exception as problem:  # nobody waits for a timer; whoever reads is to know
            self._inbox.end(problem)
        self._session.consider_leaving()

    def _stop_waiting(self) -> None:
        releasing, self._releasing = self._releasing, None
        if releasing is not None:
            releasing.cancel()

    def _take_response(self, response: LlmResponse) -> None:
        if response.interrupted and response.partial:
            self._inbox.clear_audio()
        elif response.partial:
            self._keep_audio(response)
        if response.turn_complete:
            self._put(self._ended(response))
            return
        if _says_something(response):
            self._open = True
            self._outbox.answered()
        self._put(response)
        for call in response.executable_function_calls():
            self._take_call(call)
        cancelled = (response.provider_metadata or {}).get("tool_call_cancellation")
        if cancelled:
            self._tools.cancel(cancelled["ids"])

    def _take_call(self, call: types.FunctionCall) -> None:
        if self._toolbox.passes(call) or (self._passes_unknown and not self._toolbox.runs(call)):
            return
        self._tools.start(call)

    def _keep_audio(self, response: LlmResponse) -> None:
        if self._recorder is not None:
            self._recorder.write(response)
        for mime_type, data, stale in audio_in(response):
            if not stale:
                self._voice.write(mime_type, data)

    def _put(self, response: LlmResponse) -> None:
        self._inbox.put(Entry(response, _audio_ms(response), self._clock))

    def _ended(self, final: LlmResponse) -> LlmResponse:
        """The final that ends a turn, with the references to its audio; the next turn is a new one."""
        self.final = self._voice.refer(final)
        self._open = self._asked = False
        self._clock = PlaybackClock()
        return self.final

    def _end_open_turn(self, problem: BaseException | None) -> LlmResponse | None:
        """The final of what had come of a turn that will not be completed."""
        self.disconnected()
        self._messages = LiveReader(accept_tail=self._messages.accept_tail)
        final = self._aggregator.close(problem)
        told = problem is not None and not isinstance(problem, asyncio.CancelledError)
        if final is None or not (self._open or told):
            return None
        return self._ended(final)

    async def _answered(self, answer: types.FunctionResponse, whole: types.FunctionResponse | None) -> None:
        """An answer of a tool: to the model, and to whoever reads."""
        with contextlib.suppress(ConnectionLostError):  # the session has ended meanwhile; the answer is shown still
            await self._outbox.send(Outgoing("send_tool_response", {"function_responses": [answer]}))
        self._asked = True
        shown = (whole or answer).model_copy(deep=True)
        content = types.Content(role="user", parts=[types.Part(function_response=shown)])
        self._put(LlmResponse(content=content, partial=whole is None))


def _connector(client: Any, model: str | None) -> Connect:
    own: Connect | None = getattr(client, "connect_live", None)
    if own is not None:
        return own
    if not model:
        raise ValueError("a LiveStream on a google-genai client needs the name of a model")
    return lambda config: client.aio.live.connect(model=model, config=config)


def _with_tools(settings: types.LiveConnectConfig, tools: Sequence[ToolLike]) -> types.LiveConnectConfig:
    if not tools:
        return settings
    functions, native = sort_tools(tools)
    declared = [types.Tool(function_declarations=functions)] if functions else []
    return settings.model_copy(update={"tools": [*(settings.tools or ()), *declared, *native]})


def _says_something(response: LlmResponse) -> bool:
    said = response.content or response.input_transcription or response.output_transcription
    return bool(said or response.interrupted)


def _audio_ms(response: LlmResponse) -> float:
    """The length of a partial that is audio alone; 0 of any other response."""
    if not response.partial:
        return 0.0
    pieces = list(audio_in(response))
    if not pieces or len(pieces) < len(response.parts):
        return 0.0
    return sum(duration_ms(mime_type, len(data)) for mime_type, data, _ in pieces)
