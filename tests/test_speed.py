"""Speed, with slack: growth is linear, and the official accumulators stay far behind.

CPU time, the least of several short runs, and ratios within one process: what a busy machine does to all contestants
alike does not matter. The figures themselves come from ``benchmarks/run.py``.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))

import objects
import peers
import previews
import streams

LINES: dict[str, Callable[[int], streams.Stream]] = {
    "gemini": streams.gemini_text,
    "gemini-live": streams.live_audio,
    "openai-chat": streams.chat_tools,
    "openai-responses": streams.responses_tools,
    "anthropic": streams.anthropic_tools,
}

#: How many times our time the SDK's own accumulator takes at least, from objects: half of what is aimed at.
AHEAD = {"openai-chat": 6.0, "openai-responses": 3.0, "anthropic": 4.0}


def least(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of the quickest run of each, in turn."""
    best = dict.fromkeys(runs, float("inf"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in runs.items():
                start = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - start)
    finally:
        gc.enable()
    return best


@pytest.mark.parametrize("line", LINES)
def test_ten_times_the_chunks_take_ten_times_the_time(line: str) -> None:
    small, large = LINES[line](2_000), LINES[line](20_000)
    run = peers.ours(line)
    assert run(large.frames)[0] == large.text
    times = least({"small": lambda: run(small.frames), "large": lambda: run(large.frames)}, 3)
    assert times["large"] / times["small"] <= 12


@pytest.mark.parametrize("line", AHEAD)
def test_the_sdks_own_accumulator_is_far_behind(line: str) -> None:
    pytest.importorskip(line.split("-")[0])
    stream = LINES[line](1_500)
    pieces = objects.objects_of(line, stream.frames)
    ((_, accumulator),) = objects.accumulators_of(line).items()
    own = peers.ours(line)
    assert own(pieces)[0] == accumulator(pieces)[0] == stream.text
    times = least({"own": lambda: own(pieces), "official": lambda: accumulator(pieces)}, 5)
    assert times["official"] / times["own"] >= AHEAD[line]


@pytest.mark.parametrize("name", previews.TEXTS)
def test_a_preview_of_arguments_grows_with_their_length(name: str) -> None:
    small, large = (previews.seconds(previews.ours, previews.TEXTS[name](size), 3) for size in (30_000, 300_000))
    assert large / small <= 14
