"""``adk-stream replay``: the servers that the recordings need, in the foreground, until Ctrl-C.

Recordings of Live sessions have a server of their own, which speaks TLS; the HTTP lines share one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from adk_stream.cli.outcome import COMPLETED, UsageProblem
from adk_stream.cli.show import visible
from adk_stream.recording import Recording, load_recording

__all__ = ["replay_files"]

#: What each line's official client takes as its base URL, after the server's own.
_BASE_PATHS = {"gemini": "", "openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}
_LIVE = "gemini-live"


def replay_files(files: Sequence[str], *, host: str, port: int, pace: float, faults: Sequence[str]) -> int:
    """Serve the recordings until Ctrl-C, which is how this ends well.

    Where both servers run, the Live one takes the port after the one asked for; after the last port, a free one.
    """
    try:
        from adk_stream.testing import LiveServer, ReplayServer
        from adk_stream.testing.live_replay import is_live
    except ImportError as missing:
        raise UsageProblem(f"replay needs {missing.name or missing}: pip install 'adk-stream[testing]'") from missing
    recordings = [load_recording(file) for file in files]
    live = [recording for recording in recordings if is_live(recording)]
    http = [recording for recording in recordings if not is_live(recording)]
    with ExitStack() as servers:
        told: list[str] = []
        if http:
            replay = ReplayServer(http, pace=pace, faults=list(faults), host=host, port=port)
            told += _announcement(servers.enter_context(replay).url, http)
        if live:
            live_port = (port + 1) % 65536 if http and port else port
            server = servers.enter_context(LiveServer(live, pace=pace, faults=list(faults), host=host, port=live_port))
            told += [f"{_LIVE:<17} {server.url}", f"{'':<17} SSL_CERT_FILE={server.ca_file}"]
        for line in told:
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
