"""Many runs at once through one runner and one model: the benchmark in short, with room for a loaded machine."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

for package in ("openai", "starlette", "uvicorn"):
    pytest.importorskip(package)

_FILE = Path(__file__).parents[1] / "benchmarks" / "concurrent_runs.py"
_SPEC = importlib.util.spec_from_file_location("concurrent_runs", _FILE)
load_test = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = load_test  # where dataclasses look their module up
_SPEC.loader.exec_module(load_test)

LOAD = load_test.Load(runs=60, over=0.8, events=20, seconds=0.8)


def test_runs_do_not_mix_nor_stay_nor_hold_the_loop_up():
    """Each answer is checked while it is measured."""
    with load_test.server("openai-chat", LOAD) as url:
        bare = load_test.measure(load_test.bare, "openai-chat", url, LOAD)
        ours = load_test.measure(load_test.runner, "openai-chat", url, LOAD)
        held = load_test.growth(load_test.runner, "openai-chat", url, LOAD, runs=10)
    assert ours.most_at_once > LOAD.runs / 4
    assert ours.tasks == 0
    assert ours.objects < 20 * LOAD.runs
    assert held < 64 * 1024
    lag, least = (load_test.percentile(side.own_lags, 0.99) for side in (ours, bare))
    assert lag < max(4 * least, 20)
