"""How the benchmarks measure: CPU time of one process, contestants in turn round after round, results compared.

CPU time, because other programs on the machine lengthen the time on the wall much more; medians of rounds in turn,
because what they do to caches and clocks then meets all contestants alike. Figures of one run go together; only ratios
mean anything beyond it.
"""

from __future__ import annotations

import gc
import json
import math
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from objects import objects_of
from peers import Result, ours
from streams import Stream

from adk_stream import aggregate

#: A function that makes something of pieces, and the pieces.
Contestant = tuple[Callable[[Any], Result], Any]


def seconds(run: Callable[[Any], Result], pieces: Any, expected: Stream) -> float:
    """CPU seconds of one run.

    Raises:
        AssertionError: it gave something else than the stream's content.
    """
    gc.collect()
    start = time.process_time()
    text, thought, arguments = run(pieces)
    elapsed = time.process_time() - start
    assert text == expected.text, "the text differs"
    assert thought in (expected.thought, ""), "the thoughts differ"
    assert list(map(json.loads, arguments)) == list(map(json.loads, expected.arguments)), "the calls differ"
    return elapsed


def compare(contestants: Mapping[str, Contestant], expected: Stream, rounds: int) -> dict[str, float]:
    """Median microseconds a frame of each, after one round to warm up."""
    gc.collect()
    gc.freeze()  # pieces that are objects would make every collection longer, and no contestant made them
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, (run, pieces) in contestants.items():
            times[name].append(seconds(run, pieces, expected))
    gc.unfreeze()
    return {name: statistics.median(each[1:]) / len(expected.frames) * 1e6 for name, each in times.items()}


def exponent(small: int, small_cost: float, large: int, large_cost: float) -> float:
    """Of the growth of total time between two sizes: 1 is linear, 2 quadratic."""
    return math.log(large_cost / small_cost) / math.log(large / small)


def growth(line: str, make: Callable[[int], Stream], kind: str, small: int, large: int) -> float:
    """Our exponent between two sizes, from ``"bytes"`` or ``"objects"``; the least of several runs at each size."""
    costs = [
        min(_own_seconds(line, stream, kind) for _ in range(repeats))
        for stream, repeats in ((make(small), 20), (make(large), 2 if kind == "bytes" else 1))
    ]
    return exponent(small, costs[0], large, costs[1])


def _own_seconds(line: str, stream: Stream, kind: str) -> float:
    if kind == "bytes":
        return seconds(ours(line), stream.frames, stream)
    made = 0.0

    def batches() -> Iterator[Any]:
        """Objects made a thousand at a time, since all at once would fill the memory; the clock stands still."""
        nonlocal made
        for at in range(0, len(stream.frames), 1000):
            start = time.process_time()
            objects = objects_of(line, stream.frames[at : at + 1000])
            made += time.process_time() - start
            yield from objects

    return seconds(ours(line), batches(), stream) - made


def peak_bytes_a_chunk(line: str, stream: Stream) -> float:
    """Peak of memory while our package reads the stream's bytes, beyond the content, by frame."""

    def run(frames: list[bytes]) -> None:
        deque(aggregate(frames, line), maxlen=0)  # keeps none of the responses

    run(stream.frames[:50])
    gc.collect()
    tracemalloc.start()
    start, _ = tracemalloc.get_traced_memory()
    run(stream.frames)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    content = len(stream.text) + len(stream.thought) + sum(map(len, stream.arguments))
    return (peak - start - content) / len(stream.frames)
