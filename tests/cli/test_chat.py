"""``adk-stream chat`` and ``run --model`` as processes of their own, with real clients against local wires."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import CUT, WHOLE, adk_stream, gemini_event, sse

sys.path.insert(0, str(Path(__file__).parent.parent / "runner"))
pytest.importorskip("openai")
pytest.importorskip("anthropic")

from test_runner_clients import ANSWER, STORY, chat, gemini, messages, responses
from typer.testing import CliRunner

from adk_stream.cli.app import app
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

TOOLS = '''
import time

def lookup(city: str) -> dict:
    """Look a city up."""
    return {"city": city, "cold": True}

def weigh(grams: int) -> str:
    """Weigh something."""
    return f"{grams} g"

def look_up(city: str) -> str:
    """Take a long time."""
    print("looking up", flush=True)
    time.sleep(60)
    return city

not_a_function = 7
'''
BOTH = ("--tool", "my_tools:lookup", "--tool", "my_tools:weigh")


@pytest.fixture(autouse=True)
def folder(environment, monkeypatch, tmp_path):
    """A folder with the user's tools, and keys that open nothing."""
    (tmp_path / "my_tools.py").write_text(TOOLS)
    (tmp_path / "broken_tools.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_tools", raising=False)
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "any")
    return tmp_path


@pytest.fixture
def served(monkeypatch):
    """A server that gives the answers one after the other, where each official client looks for its provider."""

    @contextmanager
    def serve(*answers, provider="gemini", **options):
        recordings = [
            answer if isinstance(answer, Recording) else Recording.from_bytes(answer, provider) for answer in answers
        ]
        with ReplayServer(recordings, **options) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
            yield server

    return serve


def here(*arguments, stdin=b""):
    """The command in this process, which has imported already what takes its time; as ``adk_stream`` otherwise."""
    done = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    return done.exit_code, done.stdout, done.stderr


def session_of(err):
    return next(line.removeprefix("session ") for line in err.splitlines() if line.startswith("session "))


def events_of(session_id):
    code, out, err = here("sessions", "export", session_id)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def answered(events):
    """Every call is answered in the event after it: such a history can be sent to any provider."""
    parts = [event.get("content", {}).get("parts", []) for event in events]
    for place, here in enumerate(parts):
        if calls := [part["functionCall"]["id"] for part in here if "functionCall" in part]:
            yield [part["functionResponse"]["response"] for part in parts[place + 1]]
            assert [part["functionResponse"]["id"] for part in parts[place + 1]] == calls


def started(*arguments, stdin=subprocess.DEVNULL):
    return subprocess.Popen(
        [sys.executable, "-m", "adk_stream", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_until(process, words):
    shown = b""
    while words not in shown:
        piece = os.read(process.stdout.fileno(), 1000)
        assert piece, process.stderr.read().decode()
        shown += piece
    return shown


SLOW = Recording.from_bytes(sse(*[gemini_event({"text": f"word{n} "}) for n in range(40)]), "gemini", interval=0.1)
HELLO = sse(gemini_event({"text": "Hello again."}, finish="STOP"))


@pytest.mark.parametrize(
    ("provider", "write"),
    [("gemini", gemini), ("openai-chat", chat), ("openai-responses", responses), ("anthropic", messages)],
)
def test_tools_run_and_another_process_goes_on(served, provider, write):
    another = adk_stream if provider == "openai-chat" else here
    with served(*map(write, STORY), provider=provider) as server:
        chatting = ("chat", "--model", f"{provider}:m", "--session", "mine", "--instruction", "Be brief.")
        code, out, err = here(*chatting, *BOTH, "-u", stdin=b"How are they?\n")
        assert (code, out) == (0, f"Let me see. \n{ANSWER}\n"), err
        assert err.splitlines()[0] == "session mine"
        assert err.splitlines()[-1].startswith("completed")
        assert "95 in, 15 out" in err.splitlines()[-1]  # of all three rounds
        assert len(server.requests) == 3
        assert list(answered(events_of("mine"))) == [
            [{"city": "Tromsø", "cold": True}, {"result": f"{2**60} g"}],
            [{"city": "Oslo", "cold": True}],
        ]
        code, out, err = another("run", "--model", f"{provider}:m", "--session", "mine", *BOTH, "Thanks!")
        assert (code, out) == (0, "You are welcome."), err
        sent = json.dumps(server.requests[-1].body, ensure_ascii=False)
        assert all(words in sent for words in ("How are they?", ANSWER, "Thanks!"))
        assert "Be brief." in json.dumps(server.requests[0].body)
    assert [event["author"] for event in events_of("mine")].count("user") == 2


def test_json_lines(served):
    with served(*map(gemini, STORY)):
        code, out, err = here("chat", "--model", "gemini:m", *BOTH, "--json", "--hide-thoughts", stdin=b"How?\n")
        assert code == 0, err
        events = [json.loads(line) for line in out.splitlines()]
        assert not any(event.get("partial") for event in events)
        assert events[-1]["content"]["parts"][0]["text"] == ANSWER
        stored = events_of(session_of(err))
        assert [event["id"] for event in events] == [event["id"] for event in stored[1:]]
        assert "Both are needed." not in out
        assert "Both are needed." in json.dumps(stored)
    with served(HELLO):
        code, out, err = here("chat", "--model", "gemini:m", "--json", "--partials", stdin=b"Hi\n")
    assert [json.loads(line).get("partial") for line in out.splitlines()] == [True, False]


def test_a_cut_answer_is_marked_and_the_chat_goes_on(served):
    with served(CUT, HELLO) as server:
        code, out, err = here("chat", "--model", "gemini:m", stdin=b"Hi\nAnd now?\n\nnot asked\n")
        assert len(server.requests) == 2
    assert (code, out) == (1, "Hello, wörld\nHello again.\n")
    assert err.splitlines()[1].startswith("incomplete · STREAM_CUT")
    assert len(err.splitlines()) == 2


def test_a_refused_request_is_marked_and_the_chat_goes_on(served):
    with served(HELLO, faults="status=400"):
        code, out, err = here("chat", "--model", "gemini:m", stdin=b"Hi\n")
    assert (code, out) == (1, "")
    assert err.splitlines()[1].startswith("failed · ")
    assert "Traceback" not in err
    with served(HELLO):
        code, out, err = here("chat", "--model", "gemini:m", "--session", session_of(err), stdin=b"Hi\n")
    assert (code, out) == (0, "Hello again.\n")


def test_ctrl_c_ends_the_answer_and_not_the_chat(served):
    with served(SLOW, HELLO, pace=1) as server:
        process = started("chat", "--model", "gemini:m", stdin=subprocess.PIPE)
        process.stdin.write(b"Count!\n")
        process.stdin.flush()
        shown = read_until(process, b"word1 ")
        process.send_signal(signal.SIGINT)
        shown += read_until(process, b"\n")
        out, err = process.communicate(b"Go on.\n", timeout=20)
        sent = server.requests[-1].body["contents"]
    assert (process.returncode, out) == (1, b"Hello again.\n"), err
    assert err.decode().splitlines()[1].startswith("cancelled · ")
    assert [content["parts"][0]["text"] for content in sent] == ["Count!", shown.decode().strip("\n"), "Go on."]
    cut, last = events_of(session_of(err.decode()))[1::2]
    assert (cut["status"], last["status"]) == ("cancelled", "completed")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_run_stores_what_had_come_before_it_leaves(served, number, code):
    with served(SLOW, pace=1):
        process = started("run", "--model", "gemini:m", "Count!")
        read_until(process, b"word1 ")
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in err.decode()
    assert err.decode().splitlines()[-1].startswith("cancelled · ")
    _, event = events_of(session_of(err.decode()))
    assert event["status"] == "cancelled"
    assert event["content"]["parts"][0]["text"].startswith("word0 word1 ")


def test_a_tool_that_cannot_be_stopped_does_not_hold_up_the_end(served):
    with served(WHOLE, HELLO):
        process = started("run", "--model", "gemini:m", "--tool", "my_tools:look_up", "Where?")
        read_until(process, b"looking up")
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert time.monotonic() - begun < 10
    assert process.returncode == 143
    events = events_of(session_of(err.decode()))
    ((answer,),) = answered(events)
    assert "error" in answer
    assert events[-1]["status"] == "cancelled"


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("my_tools", "is not module:function"),
        ("nowhere:f", "No module named 'nowhere'"),
        ("my_tools:missing", "missing"),
        ("my_tools:not_a_function", "no function"),
        ("broken_tools:f", "SyntaxError"),
    ],
)
def test_a_tool_that_is_none(command, tool, said):
    code, out, err = here(command, "--model", "gemini:m", "--tool", tool, *(["hi"] if command == "run" else []))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_options_that_go_together():
    for arguments, said in (
        (("chat", "--model", "gemini:m", "--partials"), "--partials goes with --json"),
        (("chat", "--model", "gemini:m", "--speaker"), "--speaker goes with --live"),
        (("run", "x.sse", "--tool", "a:b"), "--tool goes with --model"),
    ):
        code, _, err = here(*arguments)
        assert code == 2
        assert said in err


@pytest.mark.parametrize("hidden", [False, True])
def test_on_a_terminal(served, hidden):
    with served(*map(gemini, STORY)):
        ours, theirs = pty.openpty()
        options = ["--hide-thoughts"] if hidden else []
        process = subprocess.Popen(
            [sys.executable, "-m", "adk_stream", "chat", "--model", "gemini:m", *BOTH, *options],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.write(ours, b"How?\n")
        shown = b""
        while shown.count(b"> ") < 2 and select.select([ours], [], [], 20)[0]:
            shown += os.read(ours, 65536)
        os.write(ours, b"\x04")  # Ctrl-D
        while select.select([ours], [], [], 20)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                break
        os.close(ours)
        assert process.wait(20) == 0
    text = shown.decode().replace("\r\n", "\n")
    assert ("\x1b[2mBoth are" in text) is not hidden
    assert '→ lookup \x1b[0m{"city": "Tromsø"}\n' in text
    assert '← lookup {"city": "Tromsø", "cold": true}' in text
    assert f"\n{ANSWER}\n" in text.replace("\x1b[0m", "")
