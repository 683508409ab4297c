"""``adk-stream replay``: the replay server in the foreground, until Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from adk_stream.cli.outcome import COMPLETED, UsageProblem
from adk_stream.cli.show import visible
from adk_stream.recording import Recording, load_recording

__all__ = ["replay_files"]

#: What each line's official client takes as its base URL, after the server's own.
_BASE_PATHS = {"gemini": "", "openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}


def replay_files(files: Sequence[str], *, host: str, port: int, pace: float, faults: Sequence[str]) -> int:
    """Serve the recordings until Ctrl-C, which is how this ends well."""
    try:
        from adk_stream.testing import ReplayServer
    except ImportError as missing:
        raise UsageProblem(f"replay needs {missing.name or missing}: pip install 'adk-stream[testing]'") from missing
    recordings = [load_recording(file) for file in files]
    server = ReplayServer(recordings, pace=pace, faults=list(faults), host=host, port=port)
    with server:
        for line in _announcement(server.url, recordings):
            print(visible(line), flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
    return COMPLETED


def _announcement(url: str, recordings: Sequence[Recording]) -> list[str]:
    lines = sorted({recording.provider or "" for recording in recordings})
    told = [f"{line:<17} {url}{_BASE_PATHS.get(line, '')}" for line in lines]
    if "gemini" in lines:
        told.append(f'adk-stream run --model gemini:x --base-url {url} "hi"')
    return told
