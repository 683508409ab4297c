"""Audio on its way to files, and what of it a session holds; the clock of the loudspeaker."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from live_talk import audio_of, finals, run, talk, turn, until

from adk_stream import LlmResponse
from adk_stream.errors import AudioFormatError, ConnectionLostError
from adk_stream.live import AudioRecorder, AudioStore, PlaybackClock
from adk_stream.models.history import turns
from adk_stream.sessions import InMemorySessionService, store_events
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import audio, interrupted, output_transcript, together, tone, turn_complete
from adk_stream.testing.live_script import Drop, Wait

ASKED = Wait("text")
PCM = "audio/pcm;rate=24000"


def piece(data: bytes, mime_type: str = PCM, *, stale: bool = False, partial: bool = True) -> LlmResponse:
    metadata = {"stale": True} if stale else None
    part = types.Part(inline_data=types.Blob(data=data, mime_type=mime_type), part_metadata=metadata)
    return LlmResponse(content=types.Content(role="model", parts=[part]), partial=partial)


def read(path: Path | io.BytesIO) -> tuple[int, bytes]:
    with wave.open(str(path) if isinstance(path, Path) else path) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return file.getframerate(), file.readframes(file.getnframes())


class TestRecorder:
    def test_it_writes_exactly_the_bytes(self, tmp_path: Path) -> None:
        pieces = [tone(0.02, hertz=200.0 + n) for n in range(10)]
        with AudioRecorder(tmp_path / "a.wav") as recorder:
            for data in pieces:
                recorder.write(piece(data))
            recorder.write(piece(b"".join(pieces), partial=False))  # what a final holds was written already
        assert read(tmp_path / "a.wav") == (24_000, b"".join(pieces))
        assert recorder.seconds == pytest.approx(0.2)

    def test_a_file_that_nobody_closed_can_be_played(self, tmp_path: Path) -> None:
        recorder = AudioRecorder(tmp_path / "a.wav")
        recorder.write(piece(tone(0.1)))
        recorder._writer._file.flush()  # type: ignore[union-attr]
        assert read(tmp_path / "a.wav") == (24_000, tone(0.1))
        recorder.close()

    def test_nothing_is_written_before_the_first_audio(self, tmp_path: Path) -> None:
        with AudioRecorder(tmp_path / "a.wav") as recorder:
            recorder.write(LlmResponse(partial=True))
        assert not list(tmp_path.iterdir())
        with pytest.raises(ValueError, match="closed"):
            recorder.write(piece(b"ab"))

    @pytest.mark.parametrize("stale", [False, True])
    def test_stale_audio_is_an_option(self, tmp_path: Path, stale: bool) -> None:
        with AudioRecorder(tmp_path / "a.wav", stale=stale) as recorder:
            recorder.write(piece(b"ab"))
            recorder.write(piece(b"cd", stale=True))
        assert read(tmp_path / "a.wav")[1] == (b"abcd" if stale else b"ab")

    def test_another_rate_is_another_file(self, tmp_path: Path) -> None:
        with AudioRecorder(tmp_path / "a.wav") as recorder:
            for rate in (24_000, 16_000, 16_000):
                recorder.write(piece(b"ab", f"audio/pcm;rate={rate}"))
        assert recorder.paths == [tmp_path / "a.wav", tmp_path / "a-2.wav"]
        assert [read(path) for path in recorder.paths] == [(24_000, b"ab"), (16_000, b"abab")]

    def test_an_open_file_stays_open_and_holds_one_rate(self) -> None:
        target = io.BytesIO()
        with AudioRecorder(target) as recorder:
            recorder.write(piece(b"ab"))
            with pytest.raises(AudioFormatError, match="24000 to 16000"):
                recorder.write(piece(b"ab", "audio/pcm;rate=16000"))
        target.seek(0)
        assert read(target) == (24_000, b"ab")
        with pytest.raises(ValueError, match="path"):
            AudioRecorder(target, on_rate_change="new_file")

    def test_other_formats_are_refused(self, tmp_path: Path) -> None:
        with AudioRecorder(tmp_path / "a.wav") as recorder, pytest.raises(AudioFormatError, match="audio/mp3"):
            recorder.write(piece(b"ab", "audio/mp3"))

    def test_another_program_can_read_it(self, tmp_path: Path) -> None:
        soundfile = pytest.importorskip("soundfile")
        with AudioRecorder(tmp_path / "a.wav") as recorder:
            recorder.write(piece(tone(0.5)))
        samples, rate = soundfile.read(tmp_path / "a.wav", dtype="int16")
        assert (rate, samples.tobytes()) == (24_000, tone(0.5))


class TestSession:
    FIRST, SECOND = tone(0.2), tone(0.1, hertz=300)

    def conversation(self) -> Conversation:
        return Conversation(
            [ASKED, output_transcript("One"), audio(self.FIRST[:4000]), audio(self.FIRST[4000:]), turn_complete()],
            [ASKED, audio(self.SECOND), together(interrupted(), audio(b"zz")), audio(b"yy"), turn_complete()],
            [ASKED, output_transcript("Thr"), audio(self.FIRST), Drop()],
        )

    async def talk_it_through(self, server: LiveServer, **options: Any) -> tuple[list[LlmResponse], Any]:
        responses: list[LlmResponse] = []

        async def read_all(live: Any) -> Any:
            for words in ("1", "2", "3"):
                await live.send_text(words)
                async for response in live:
                    yield response
                    if response.turn_complete:
                        break

        service = InMemorySessionService()
        session = await service.create_session(app_name="app", user_id="u")
        async with talk(server, playback=False, **options) as live:
            with pytest.raises(ConnectionLostError):
                async for event in store_events(read_all(live), service, session, author="model"):
                    responses.append(event)
        stored = await service.get_session(app_name="app", user_id="u", session_id=session.id)
        return responses, stored

    def test_each_turns_audio_is_kept_once_and_referred_to(self, tmp_path: Path) -> None:
        with LiveServer(self.conversation()) as server:
            _, stored = run(self.talk_it_through(server, audio_store=AudioStore(tmp_path / "voice")))
        assert [event.output_transcription.text for event in stored.events if event.output_transcription] == [
            "One",
            "Thr",
        ]
        assert not any(part.inline_data for event in stored.events for part in event.parts)
        ends = [event for event in stored.events if event.parts]
        assert [event.status for event in ends] == ["completed", "incomplete", "incomplete"]
        kept = []
        for event in ends:
            (part,) = event.parts
            assert part.file_data.mime_type == "audio/wav"
            kept.append(read(Path(part.file_data.file_uri.removeprefix("file://")))[1])
        assert kept == [self.FIRST, self.SECOND, self.FIRST]
        assert len(list((tmp_path / "voice").iterdir())) == 3
        (turn,) = turns(stored.events)  # as a history it is what was said
        assert [part.text for response in turn.responses for part in response.parts] == ["One", "Thr"]

    def test_without_a_store_a_session_holds_no_audio(self, tmp_path: Path) -> None:
        target = tmp_path / "all.wav"
        with LiveServer(self.conversation()) as server, AudioRecorder(target) as recorder:
            responses, stored = run(self.talk_it_through(server, recorder=recorder))
        assert not any(event.parts for event in stored.events)
        assert read(target)[1] == self.FIRST + self.SECOND + self.FIRST
        assert audio_of(responses).endswith(b"zzyy" + self.FIRST)  # an interruption takes what waited to be played

    def test_it_is_in_the_finals_when_asked_for(self) -> None:
        async def main() -> None:
            async with talk(server, audio="join") as live:
                await live.send_text("1")
                responses = await turn(live)
            assert audio_of([r for r in responses if not r.partial]) == self.FIRST

        with LiveServer(self.conversation()) as server:
            run(main())

    def test_leaving_finishes_the_file(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with talk(server, audio_store=AudioStore(tmp_path)) as live:
                await live.send_text("1")
                await until(live, lambda response: audio_of([response]) == self.FIRST)
            (part,) = live.final.parts
            assert live.final.status == "cancelled"
            assert read(Path(part.file_data.file_uri.removeprefix("file://")))[1] == self.FIRST
            assert finals(live.unread) == []

        with LiveServer(Conversation([ASKED, audio(self.FIRST), Wait("audio")])) as server:
            run(main())


class TestPlaybackClock:
    def test_it_runs_from_the_first_audio_and_waits_where_it_runs_out(self) -> None:
        now = 100.0
        clock = PlaybackClock(lambda: now)
        assert clock.position == 0
        clock.hand_out(1000)
        clock.hand_out(500)
        assert clock.position == 0
        now += 0.4
        assert clock.position == pytest.approx(400)
        now += 5
        assert clock.position == 1500
        clock.hand_out(1000)
        now += 0.1
        assert clock.position == pytest.approx(1600)

    def test_what_is_passed_over_is_behind_it(self) -> None:
        now = 0.0
        clock = PlaybackClock(lambda: now)
        clock.hand_out(100)
        clock.pass_over(50)
        clock.hand_out(100)
        now += 10
        assert clock.position == 250

    def test_a_report_stands(self) -> None:
        clock = PlaybackClock(lambda: 0.0)
        clock.hand_out(1000)
        clock.report(120)
        assert clock.reported
        assert clock.position == 120
        with pytest.raises(ValueError, match="milliseconds"):
            clock.report(float("nan"))
