"""What a live session costs: ``python tests/benchmarks/live.py``.

Cost of a message beside google-adk's own receiver, from google-genai's objects and from the frames they are made of,
in turn, round after round; and the memory of many sessions that run at once for a long time (simulated: the clock is
left out, every message is not).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.genai import types

from adk_stream import LlmResponse, StreamingResponseAggregator
from adk_stream.providers.line import Line

AUDIO_A_SECOND = 50  # 20 ms each
WORDS_A_SECOND = 3
SECONDS_A_TURN = 10
_AUDIO = base64.b64encode(os.urandom(960)).decode()


def messages(seconds: int) -> Iterator[dict[str, Any]]:
    """A session of so many seconds: audio, words, and a turn's end every ten seconds."""
    part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": _AUDIO}}
    for second in range(seconds):
        for tick in range(AUDIO_A_SECOND):
            yield {"serverContent": {"modelTurn": {"parts": [part]}}}
            if tick % (AUDIO_A_SECOND // WORDS_A_SECOND) == 0:
                yield {"serverContent": {"outputTranscription": {"text": f" word{second}"}}}
        if second % SECONDS_A_TURN == SECONDS_A_TURN - 1:
            yield {"serverContent": {"generationComplete": True}}
            yield {"serverContent": {"turnComplete": True}, "usageMetadata": {"totalTokenCount": second}}


def from_objects(objects: Iterable[Any]) -> int:
    """Ours, from google-genai's objects."""
    aggregator = StreamingResponseAggregator("close")
    return sum(1 for message in objects for _ in aggregator.process_response(message))


def from_frames(frames: Iterable[bytes]) -> int:
    """Ours, from the websocket's frames."""
    aggregator, line = StreamingResponseAggregator("close"), Line("gemini-live")
    count = 0
    for frame in frames:
        for chunks in line.feed_short(frame):
            for chunk in chunks:
                count += len(aggregator.take(chunk))
    return count


def genai_object(frame: bytes) -> types.LiveServerMessage:
    """As google-genai's ``AsyncSession`` makes it."""
    from google.genai import _live_converters as converters

    found = converters._LiveServerMessage_from_mldev(json.loads(frame))
    return types.LiveServerMessage._from_response(response=found, kwargs={})


def adk_receiver() -> Callable[[Iterable[Any]], int] | None:
    """google-adk's receiver over a session that holds these messages; None where google-adk is not installed."""
    try:
        from google.adk.models.gemini_llm_connection import GeminiLlmConnection
        from google.adk.utils.variant_utils import GoogleLLMVariant
    except ImportError:
        return None

    class Session:
        session_id = "benchmark"

        def __init__(self, objects: Iterable[Any]) -> None:
            self._objects = iter(objects)
            self.over = False

        async def receive(self) -> Any:
            for each in self._objects:
                yield each
            self.over = True

    async def run(objects: Iterable[Any]) -> int:
        session = Session(objects)
        connection = GeminiLlmConnection(
            session, api_backend=GoogleLLMVariant.GEMINI_API, model_version="gemini-live-2.5-flash-preview"
        )
        count = 0
        while not session.over:  # a receive() serves one turn
            async for _ in connection.receive():
                count += 1
        return count

    return lambda objects: asyncio.run(run(objects))


def compare(name: str, wire: list[dict[str, Any]], rounds: int) -> None:
    """Microseconds a message, medians."""
    frames = [json.dumps(message).encode() for message in wire]
    objects = [genai_object(frame) for frame in frames]
    contestants: dict[str, Callable[[], int]] = {
        "adk_stream, objects": lambda: from_objects(objects),
        "adk_stream, frames": lambda: from_frames(frames),
    }
    adk = adk_receiver()
    if adk is not None:
        contestants["google-adk, objects"] = lambda: adk(objects)
        contestants["google-adk, frames"] = lambda: adk(map(genai_object, frames))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    audio = sum("modelTurn" in (message.get("serverContent") or {}) for message in wire)
    for _ in range(rounds):
        for contestant, run in contestants.items():
            gc.collect()
            start = time.process_time()
            assert run() >= audio, "responses are missing"
            times[contestant].append((time.process_time() - start) / len(frames) * 1e6)
    found = {contestant: statistics.median(each) for contestant, each in times.items()}
    print(f"{name}: " + "; ".join(f"{contestant} {cost:.2f} us a message" for contestant, cost in found.items()))
    if adk is not None:
        for kind in ("objects", "frames"):
            ratio = found[f"adk_stream, {kind}"] / found[f"google-adk, {kind}"]
            print(f"  {kind}: {ratio:.3f} of google-adk's (1/{1 / ratio:.1f})")


def resident() -> int:
    """Bytes of memory that this process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def endure(sessions: int, seconds: int) -> None:
    """So many sessions at once: memory after each tenth of the time, and what a session holds at the end."""
    objects = [types.LiveServerMessage.model_validate(message) for message in messages(SECONDS_A_TURN)]
    gc.collect()
    before = resident()
    aggregators = [StreamingResponseAggregator("close") for _ in range(sessions)]
    turns, marks = seconds // SECONDS_A_TURN, []
    kept: list[LlmResponse] = []
    for turn in range(turns):
        for message in objects:  # all sessions move on together
            for aggregator in aggregators:
                for response in aggregator.process_response(message):
                    if response.turn_complete:
                        kept[:] = [response]
        if turn % max(turns // 10, 1) == 0:
            marks.append(resident() - before)
    sizes = [len(aggregator.snapshot()) for aggregator in aggregators[:10]]
    print(
        f"{sessions} sessions for {seconds} s: {sessions * turns * len(objects):,} messages;"
        f" memory above the start, MB: {', '.join(f'{mark / 1e6:.1f}' for mark in marks)};"
        f" a session's whole state {max(sizes)} bytes"
    )
    assert all(aggregator.close() is None for aggregator in aggregators), "a turn was left open"
    if max(marks[1:]) > 1.2 * marks[1] + 5e6:
        sys.exit("memory grows")


def main() -> None:
    """Print the comparison, then the two endurance runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=100, help="length of the session that is compared")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--endure", action="store_true", help="also 1,000 sessions of 2 minutes, and 20 of an hour")
    arguments = parser.parse_args()
    session = list(messages(arguments.seconds))
    compare("audio alone", [each for each in session if "modelTurn" in each["serverContent"]], arguments.rounds)
    compare("audio, words and turns", session, arguments.rounds)
    if arguments.endure:
        endure(1000, 120)
        endure(20, 3600)


if __name__ == "__main__":
    main()
