import shlex
import signal
import subprocess
import sys

import pytest
from command import ANSWER, WHOLE, adk_stream

pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.sse"
    path.write_bytes(WHOLE)
    return path


def test_the_line_it_prints_works(whole):
    process = subprocess.Popen(
        [sys.executable, "-m", "adk_stream", "replay", str(whole), "--fault", "cut=4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        base, ready = process.stdout.readline().split(), shlex.split(process.stdout.readline())
        assert base[0] == "gemini"
        assert ready[:2] == ["adk-stream", "run"]
        assert base[1] in ready
        code, out, _ = adk_stream(*ready[1:], "--no-session")
        assert (code, out) == (1, ANSWER)  # the fault took the end
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("options", [["--fault", "earthquake"], ["--port", "99999"], ["--pace", "-1"], ["missing.sse"]])
def test_arguments_that_make_no_sense(whole, options):
    code, out, err = adk_stream("replay", whole, *options)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_without_its_extra_it_says_what_to_install(whole):
    program = (
        "import sys\n"
        "sys.modules['uvicorn'] = None\n"
        f"sys.argv = ['adk-stream', 'replay', {str(whole)!r}]\n"
        "from adk_stream.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "adk-stream[testing]" in done.stderr
    assert "Traceback" not in done.stderr
