import base64
import json

import pytest
from command import ANSWER, SIGNATURE, WHOLE, adk_stream, adk_stream_anew

pytestmark = pytest.mark.usefixtures("environment")


def store_in(folder):
    """The options that name a store in that folder, and the id of the session in it."""
    options = ("--session-db", f"sqlite:///{folder}/other.db")
    code, _, err = adk_stream_anew("run", "-", *options, stdin=WHOLE)
    assert code == 0, err
    return options, next(line.split()[1] for line in err.splitlines() if line.startswith("session "))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store_in(tmp_path_factory.mktemp("store"))


def test_a_new_process_shows_the_same_parts_and_signatures(stored):
    options, session_id = stored
    code, out, err = adk_stream_anew("sessions", "show", session_id, *options)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "model · gemini-test" in lines[0]
    assert "completed" in lines[0]
    short = base64.b64encode(SIGNATURE).decode()
    assert lines[1:] == [
        "  thought: Let me think.",
        f"  text: {ANSWER}",
        f'  call look_up {{"city": "Köln"}} [signature {short}, {len(SIGNATURE)} bytes]',
    ]
    _, out, _ = adk_stream("sessions", "show", session_id, "--json", *options)
    (event,) = json.loads(out)["events"]
    assert event["content"]["parts"][2]["thoughtSignature"] == short
    _, out, _ = adk_stream("sessions", "export", session_id, *options)
    assert json.loads(out) == event


def test_list_and_delete(tmp_path):
    options, session_id = store_in(tmp_path)
    code, out, _ = adk_stream("sessions", "list", *options)
    assert code == 0
    assert out.startswith(session_id)
    assert "1 event " in out
    assert adk_stream("sessions", "delete", session_id, *options)[:2] == (0, "")
    assert adk_stream("sessions", "list", *options)[:2] == (0, "")


@pytest.mark.parametrize("command", ["show", "export", "delete"])
def test_a_session_that_is_not_there(stored, command):
    code, out, err = adk_stream("sessions", command, "nobody\x1b", *stored[0])
    assert (code, out) == (2, "")
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_the_variable_names_the_store(stored, monkeypatch):
    options, session_id = stored
    monkeypatch.setenv("ADK_STREAM_SESSION_DB", options[1])
    assert session_id in adk_stream("sessions", "list")[1]
    monkeypatch.setenv("ADK_STREAM_SESSION_DB", options[1].removeprefix("sqlite:///"))
    assert session_id in adk_stream("sessions", "list")[1]


def test_a_file_that_is_no_store(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("no database at all, " * 100)
    code, out, err = adk_stream("sessions", "list", "--session-db", path)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
