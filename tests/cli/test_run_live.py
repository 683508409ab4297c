"""``adk-stream run`` on a conversation by voice."""

import json
import wave

import pytest
from command import adk_stream

from adk_stream.testing.live_messages import (
    audio,
    input_transcript,
    interrupted,
    output_transcript,
    text,
    tone,
    turn_complete,
)

pytestmark = pytest.mark.usefixtures("environment")

FIRST, SECOND = tone(0.1), tone(0.1, hertz=300)
GUESS = {"serverContent": {"interimInputTranscription": {"text": "How a"}}}
MESSAGES = [
    GUESS,
    input_transcript("How are "),
    input_transcript("you?"),
    output_transcript("Fine, "),
    audio(FIRST),
    output_transcript("and you?"),
    interrupted(),
    turn_complete(),
    input_transcript("Bye."),
    audio(SECOND),
    text("Bye!"),
    turn_complete(),
]


def recording(path, messages=MESSAGES):
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


def test_both_transcripts_and_the_audio(tmp_path):
    target = tmp_path / "voice.wav"
    code, out, err = adk_stream("run", recording(tmp_path / "a.jsonl"), "--save-audio", target)
    assert (code, out) == (0, "> How are you?\nFine, and you?\n> Bye.\nBye!\n"), err
    assert f"audio: 0.2 s in {target}" in err
    with wave.open(str(target)) as file:
        assert file.readframes(file.getnframes()) == FIRST + SECOND
    session = next(line.removeprefix("session ") for line in err.splitlines() if line.startswith("session "))
    _, exported, _ = adk_stream("sessions", "export", session)
    events = [json.loads(line) for line in exported.splitlines()]
    said = [event.get(f"{who}Transcription", {}).get("text") for event in events for who in ("input", "output")]
    assert list(filter(None, said)) == ["How are you?", "Fine, and you?", "Bye."]
    assert "inlineData" not in exported


def test_a_cut_conversation_leaves_a_valid_file(tmp_path):
    target = tmp_path / "voice.wav"
    code, out, err = adk_stream("run", recording(tmp_path / "a.jsonl", MESSAGES[:5]), "--save-audio", target)
    assert (code, out) == (1, "> How are you?\nFine, ")
    assert "STREAM_CUT" in err
    with wave.open(str(target)) as file:
        assert file.readframes(file.getnframes()) == FIRST


def test_without_audio_there_is_no_file(tmp_path):
    target = tmp_path / "voice.wav"
    code, _, err = adk_stream(
        "run", recording(tmp_path / "a.jsonl", [text("Hi"), turn_complete()]), "--save-audio", target
    )
    assert code == 0
    assert "audio: none came" in err
    assert not target.exists()
