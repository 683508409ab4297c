"""``adk-stream chat --live`` against a local Live server."""

import asyncio
import sys
import types as python_types
import wave

import pytest
from command import adk_stream

pytest.importorskip("trustme", reason="the local Live server needs the testing extra")

from adk_stream.cli.chat_live import LiveChat, chat_live
from adk_stream.cli.outcome import UsageProblem
from adk_stream.cli.storage import APP_NAME, USER_ID, open_store
from adk_stream.cli.tools import load_tools
from adk_stream.errors import MissingExtraError
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import output_transcript, spoken, text, tone, tool_call, turn_complete
from adk_stream.testing.live_script import Drop, Wait

pytestmark = pytest.mark.usefixtures("environment")

ASKED = Wait("text")
TOOL = '''
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"
'''


@pytest.fixture
def talk(monkeypatch, tmp_path):
    def chat(server, *arguments, stdin=b""):
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        return adk_stream("chat", "--live", "--model", "gemini:any", *arguments, stdin=stdin)

    return chat


def session_of(err):
    return next(line.removeprefix("session ") for line in err.splitlines() if line.startswith("session "))


def events_of(session_id):
    async def read():
        service = open_store(None)
        try:
            session = await service.get_session(app_name=APP_NAME, user_id=USER_ID, session_id=session_id)
            return session.events
        finally:
            await service.close()

    return asyncio.run(read())


def test_lines_in_transcripts_out(talk, tmp_path):
    (tmp_path / "my_tools.py").write_text(TOOL)
    conversation = Conversation(
        [
            ASKED,
            tool_call("weather", {"city": "Oslo"}, id="c1"),
            Wait("tool_response", ids=("c1",)),
            spoken("It rains."),
        ],
        [ASKED, text("Bye."), turn_complete()],
    )
    with LiveServer(conversation) as server:
        lines = b"Weather in Oslo?\n\nBye"
        code, out, err = talk(server, "--tool", "my_tools:weather", "--save-audio", "a.wav", stdin=lines)
        assert [message.text for message in server.messages if message.text] == ["Weather in Oslo?", "Bye"]
    assert (code, out) == (0, "It rains.\nBye.\n"), err
    assert "audio: 0.2 s in a.wav" in err
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.readframes(file.getnframes()) == tone(0.1, hertz=220) + tone(0.1, hertz=240)
    session = session_of(err)
    events = events_of(session)
    assert [event.author for event in events] == ["user", *["model"] * 4, "user", *["model"] * 2]
    assert events[2].get_function_responses()[0].response == {"result": "rain in Oslo"}

    with LiveServer(Conversation([ASKED, output_transcript("Again."), turn_complete()])) as server:
        code, out, err = talk(server, "--session", session, stdin=b"Hello\n")
    assert (code, out) == (0, "Again.\n")
    assert len(events_of(session)) == len(events) + 3


def test_a_conversation_that_breaks_off(talk):
    with LiveServer(Conversation([ASKED, output_transcript("It r"), Drop()])) as server:
        code, out, err = talk(server, "--session", "mine", stdin=b"Weather?\n")  # made where there is none
    assert (code, out) == (1, "It r")
    assert "1006" in err
    assert events_of("mine")[-1].error_code == "STREAM_CUT"


def test_a_model_without_a_live_way(monkeypatch):
    pytest.importorskip("anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with pytest.raises(UsageProblem, match="no live models"):
        chat_live(LiveChat("anthropic:any"))


@pytest.mark.parametrize(("name", "told"), [("nothing", "module:function"), ("no_such_module:f", "no_such_module")])
def test_tools_that_are_none(name, told):
    with pytest.raises(UsageProblem, match=told):
        load_tools([name])


def test_without_sounddevice_it_says_so(monkeypatch):
    from adk_stream.cli.sound import Speaker

    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingExtraError, match=r"adk-stream\[voice\]"):
        Speaker()


class Device:
    """In the place of sounddevice's streams: what they are asked for, and a way to drive them."""

    made = []

    def __init__(self, *, samplerate, blocksize, channels, dtype, callback):
        assert (channels, dtype) == (1, "int16")
        self.rate, self.size, self.callback, self.open = samplerate, 2 * blocksize, callback, False
        self.made.append(self)

    def start(self):
        self.open = True

    def close(self):
        self.open = False

    def played(self):
        out = memoryview(bytearray(self.size))
        self.callback(out, self.size // 2, None, None)
        return bytes(out)


@pytest.fixture
def devices(monkeypatch):
    monkeypatch.setattr(Device, "made", [])
    library = python_types.SimpleNamespace(RawInputStream=Device, RawOutputStream=Device)
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    return Device.made


def test_a_speaker_plays_in_order_and_can_be_hushed(devices):
    from adk_stream.cli.sound import Speaker

    speaker = Speaker()
    first, second = b"\1" * 1000, b"\2" * 1000
    speaker.play("audio/pcm;rate=24000", first)
    speaker.play("audio/pcm;rate=24000", second)
    (device,) = devices
    assert device.played() == (first + second)[:1920]
    assert device.played() == second[-80:] + bytes(1840)
    speaker.play("audio/pcm;rate=24000", first)
    speaker.hush()
    assert device.played() == bytes(1920)
    speaker.play("audio/pcm;rate=16000", first)
    assert [each.open for each in devices] == [False, True]
    speaker.close()
    assert not devices[1].open


def test_a_microphone_gives_what_it_hears_to_the_loop(devices):
    from adk_stream.cli.sound import Microphone

    async def main():
        heard = []
        microphone = Microphone(lambda *piece: heard.append(piece))
        (device,) = devices
        await asyncio.to_thread(device.callback, memoryview(b"ab"), 1, None, None)
        await asyncio.sleep(0)
        microphone.close()
        assert heard == [(b"ab", "audio/pcm;rate=16000")]
        return device

    device = asyncio.run(main())
    assert not device.open
    device.callback(memoryview(b"ab"), 1, None, None)  # a late one finds nobody
