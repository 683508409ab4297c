"""A voice conversation with Gemini Live: a tool, an interruption, the voice in a WAV file, the session that is kept.

It speaks to a Live server that it starts itself, with a tone for the user's voice. With ``genai.Client()``, a model's
name and a microphone it is a real conversation: ``adk-stream chat --live --microphone --speaker`` is one.
"""

import asyncio
import tempfile
from pathlib import Path

from google import genai
from google.genai import types

from adk_stream import LiveRequestQueue, Runner
from adk_stream.live import AudioRecorder
from adk_stream.models import GeminiModel
from adk_stream.sessions import InMemorySessionService
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import input_transcript, spoken, tone, tool_call
from adk_stream.testing.live_script import STALL, Interruptible, Utterance, Wait, paced

VOICE = types.Blob(data=tone(0.2, rate=16_000), mime_type="audio/pcm;rate=16000")
CONFIG = {"response_modalities": ["AUDIO"], "input_audio_transcription": {}, "output_audio_transcription": {}}
QUIET = Utterance(0.2)
SCRIPT = Conversation(
    [
        QUIET,
        input_transcript("What is the weather in Lisbon?"),
        tool_call("get_weather", {"city": "Lisbon"}, id="call-1"),
        Wait("tool_response", ids=("call-1",)),
        spoken("Rain, at fourteen degrees."),
    ],
    [
        QUIET,
        input_transcript("And tomorrow?"),
        Interruptible(paced(spoken("Tomorrow it will rain as well, and the day after."), 0.1), STALL),
    ],
    [QUIET, input_transcript("Thank you!"), spoken("You are welcome.")],
)


async def get_weather(city: str) -> dict:
    """Tell the weather.

    Args:
        city: Where.
    """
    return {"city": city, "sky": "rain", "celsius": 14}


async def main(model: GeminiModel, target: Path) -> None:
    service = InMemorySessionService()
    await service.create_session(app_name="samples", user_id="me", session_id="talk")
    runner = Runner(model, [get_weather], session_service=service, app_name="samples")
    requests = LiveRequestQueue()
    with AudioRecorder(target) as recorder:
        events = runner.run_live(
            user_id="me", session_id="talk", live_requests=requests, config=CONFIG, recorder=recorder
        )
        requests.send_realtime(VOICE)
        turns = 0
        async for event in events:
            if event.partial and event.output_transcription and event.output_transcription.text == " rain":
                requests.send_realtime(VOICE)  # cut in
            if event.turn_complete:
                turns += 1
                if turns == 1:
                    requests.send_realtime(VOICE)
                if turns == 3:
                    requests.close()
    session = await service.get_session(app_name="samples", user_id="me", session_id="talk")
    for event in session.events:
        said = event.input_transcription or event.output_transcription
        if said:
            print(f"{event.author}: {said.text}{' …' if event.interrupted else ''}")
        for call in event.get_function_calls():
            print(f"{event.author}: {call.name}({call.args})")
        for answer in event.get_function_responses():
            print(f"{answer.name}: {answer.response}")
    print(f"voice: {recorder.seconds:.1f} s in {target.name}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, LiveServer(SCRIPT) as server:
        client = genai.Client(**server.client_options())
        asyncio.run(main(GeminiModel("any", client=client), Path(folder) / "voice.wav"))
