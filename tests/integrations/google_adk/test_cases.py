"""Small Gemini streams with the right values, run inside google-adk with the drop-in; see ``ADK_STREAM_CASES``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from adk_runs import model_at, recordings, run_agent, run_model
from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from matching import matches, parts_of, plain, text_of, total
from releases import INSTALLED

from adk_stream.integrations.google_adk import from_adk_response, install
from adk_stream.testing import ReplayServer

CASES = os.environ.get("ADK_STREAM_CASES")
pytestmark = pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")

#: What no replacement of the aggregator can reach, and why.
OUT_OF_REACH = {
    "R01": "on an exception google-adk's model never asks the aggregator for what had come",
    "R02": "when the consumer leaves, google-adk's model never asks the aggregator for what had come",
    "M03": "google-adk's model puts the last usage object over the aggregator's",
}
if INSTALLED < (2, 13):
    OUT_OF_REACH["M17"] = "this release of google-adk loses `partial` when a callback replaces a response"
MODES = ("sse", "sse_classic", "gemini", "runner", "runner_classic")


def load() -> list[dict]:
    if not CASES:
        return []
    lines = Path(CASES, "gemini.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for line in lines if line.strip() and (case := json.loads(line))["mode"] in MODES]


ALL = load()


def model_name(case: dict) -> str:
    return f"gemini-{case['id'].lower()}"


@pytest.fixture(scope="module")
def server():
    turns = [each for case in ALL for each in recordings(case.get("turns") or [case["chunks"]], model_name(case))]
    with ReplayServer(turns) as server, install():
        yield server


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case["id"],
            marks=pytest.mark.xfail(reason=OUT_OF_REACH[case["id"]], strict=True) if case["id"] in OUT_OF_REACH else (),
        )
        for case in ALL
    ],
)
def test_case(case, server):
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, not case["mode"].endswith("_classic")):
        if case["mode"].startswith("runner"):
            options = {key: case[key] for key in ("output_key", "after_model_callback", "stop_after") if key in case}
            run = run_agent(model_at(server, model_name(case)), tools=tuple(case.get("tools", ())), **options)
        else:
            run = {"events": run_model(server, model_name(case)), "error": None, "ran": [], "session": None}
    check(run, case["expected"])
    if "json_text_check" in case:
        [part] = run["events"][-1].content.parts
        assert case["json_text_check"] in json.dumps(part.function_call.args)


def check(run: dict[str, Any], expected: dict) -> None:
    events = [event for event in run["events"] if not event.content or event.content.role != "user"]
    kept = [event for event in events if not event.partial]
    stored = run["session"].events if run["session"] else []
    of_model = [event for event in stored if event.content and event.content.role == "model"]
    for key, wanted in expected.items():
        have: Any
        match key:
            case "final":
                final = from_adk_response(events[-1])  # calls that must not run are back in their places
                have = {**plain(final), "parts": plain(parts_of([final]))}
                assert matches(have, wanted), (key, have)
            case "partial_text":
                assert text_of([event for event in events if event.partial]) == wanted
            case "nonpartial_text":
                assert text_of(kept) == wanted
            case "nonpartial_parts":
                assert matches(plain(parts_of(kept)), wanted), plain(kept)
            case "usage_total_over_nonpartial":
                assert total(kept) == wanted
            case "executed":
                assert run["ran"] == wanted
            case "session_model_text":
                assert text_of(of_model) == wanted
            case "session_model_parts":
                assert matches(plain(parts_of(of_model)), wanted)
            case "session_usage_total":
                assert total(stored) == wanted
            case "session_has":
                assert all(any(matches(plain(event), each) for event in stored) for each in wanted), plain(stored)
            case "session_not" | "not":
                among = stored if key == "session_not" else run["events"]
                assert not any(matches(plain(event), each) for event in among for each in wanted)
            case "has":
                assert all(any(matches(plain(event), each) for event in run["events"]) for each in wanted)
            case "count_of":
                for each in wanted:
                    assert sum(matches(plain(event), each["match"]) for event in kept) == each["n"]
            case "state":
                assert matches(dict(run["session"].state), wanted)
            case "last_event_is_final":
                assert run["events"][-1].is_final_response() is wanted
            case "error":
                assert run["error"] is wanted
            case _:
                pytest.fail(f"what {key!r} expects is not known here")
