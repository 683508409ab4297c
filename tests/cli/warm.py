"""A process that has the command's packages loaded, and forks a process for each command that it is told to run.

Loading them takes a second of processor time, which each command would spend anew. Run as a program it reads one
JSON object a line, and answers each with an exit code.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LOADED = (
    "adk_stream.cli.app",
    "adk_stream.cli.aggregate",
    "adk_stream.cli.run",
    "adk_stream.cli.sessions",
    "adk_stream.aggregator",
    "adk_stream.sessions.sqlite",
    "google.genai.types",
    "rich.console",
)


class WarmCommand:
    """The command, many times, each in a process of its own."""

    def __init__(self):
        self._server = None

    def run(self, arguments, stdin, timeout):
        """The exit code, what was written to standard output and to standard error."""
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder, name)) for name in ("in", "out", "err")]
            Path(files[0]).write_bytes(stdin)
            job = {"arguments": arguments, "files": files, "cwd": os.getcwd(), "environment": dict(os.environ)}
            print(json.dumps({**job, "timeout": timeout}), file=self._server.stdin, flush=True)
            code = int(self._server.stdout.readline())
            if code == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(arguments, timeout)
            return code, *(Path(path).read_bytes() for path in files[1:])

    def close(self):
        if self._server is not None:
            with self._server:
                self._server.stdin.close()


def serve():
    """Answer until there is no more to read. Returns in the forked processes only, with the command to run."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            return job
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def become(job):
    """What a new process would have been given; it is killed after its time."""
    signal.alarm(job["timeout"])
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    for number, path in enumerate(job["files"]):
        file = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)
    sys.argv = ["adk-stream", *job["arguments"]]


if __name__ == "__main__":
    for name in LOADED:
        __import__(name)
    become(serve())
    from adk_stream.cli import main

    main()
