"""What aggregation costs, beside the official clients and other libraries: ``python tests/benchmarks/run.py``.

All contestants of a workload run in one process, in turn, round after round; the figures are medians, and the
ratios are between two medians of the same run. Every result is compared with the expected content first, so a
contestant that loses something shows up as an error, not as fast.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import streams
from peers import Peer, ours, peers_of

WORKLOADS: dict[str, tuple[str, Callable[[int], streams.Stream]]] = {
    "gemini text": ("gemini", streams.gemini_text),
    "gemini text, usage on every chunk": ("gemini", streams.gemini_usage),
    "gemini streamed arguments": ("gemini", streams.gemini_arguments),
    "chat text + 3 calls": ("openai-chat", streams.chat_tools),
    "chat long arguments": ("openai-chat", streams.chat_arguments),
    "responses text + call": ("openai-responses", streams.responses_tools),
    "anthropic thinking + text + call": ("anthropic", streams.anthropic_tools),
}


def seconds(peer: Peer, stream: streams.Stream) -> float:
    """One run, after a look at the result."""
    start = time.perf_counter()
    text, thought, arguments = peer(stream.frames)
    elapsed = time.perf_counter() - start
    assert text == stream.text, "the text differs"
    assert thought in (stream.thought, ""), "the thoughts differ"
    assert list(map(json.loads, arguments)) == list(map(json.loads, stream.arguments)), "the calls differ"
    return elapsed


def compare(line: str, stream: streams.Stream, rounds: int) -> dict[str, float]:
    """Median microseconds a frame of ours and each peer, interleaved."""
    contestants = {"adk_stream": ours(line), **peers_of(line)}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, peer in contestants.items():
            gc.collect()
            times[name].append(seconds(peer, stream))
    return {name: statistics.median(each[1:]) / len(stream.frames) * 1e6 for name, each in times.items()}


def growth(line: str, make: Callable[[int], streams.Stream], small: int, large: int) -> float:
    """The exponent of our total time between two sizes: 1 is linear, 2 quadratic."""
    best = []
    for n in (small, large):
        stream = make(n)
        gc.collect()
        gc.freeze()
        best.append(min(seconds(ours(line), stream) for _ in range(3)) / len(stream.frames))
        gc.unfreeze()
    return 1 + math.log(best[1] / best[0]) / math.log(large / small)


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=10_000, help="deltas in a stream (default 10000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="workloads whose name holds these words")
    parser.add_argument("--growth", type=int, nargs=2, default=(1_000, 100_000), metavar=("SMALL", "LARGE"))
    arguments = parser.parse_args()
    for name, (line, make) in WORKLOADS.items():
        if arguments.only not in name:
            continue
        costs = compare(line, make(arguments.n), arguments.rounds)
        own = costs.pop("adk_stream")
        exponent = growth(line, make, *arguments.growth)
        print(f"{name}: adk_stream {own:.1f} us a frame, growth exponent {exponent:.2f}")
        for peer, cost in costs.items():
            print(f"    {peer}: {cost:.1f} us, {cost / own:.1f} times ours")


if __name__ == "__main__":
    main()
