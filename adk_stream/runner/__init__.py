"""The agent loop: stream an answer, run the tools it calls, ask again; every final goes into the session."""

from adk_stream.runner.live import LiveRequestQueue, LiveRun
from adk_stream.runner.run import Run
from adk_stream.runner.runner import Runner
from adk_stream.runner.watch import Observer, RunFacts, RunWatch

__all__ = ["LiveRequestQueue", "LiveRun", "Observer", "Run", "RunFacts", "RunWatch", "Runner"]
