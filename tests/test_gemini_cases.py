"""Small Gemini streams with the right values, in google-adk's terms; ``ADK_STREAM_CASES`` names their folder.

No case is left out: where google-adk, adk-go and adk-java disagree, the cases already say what is right.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from adk_stream import LlmResponse, aggregate
from adk_stream.providers.gemini import MADE_ID_PREFIX

CASES = os.environ.get("ADK_STREAM_CASES")
pytestmark = pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")


def load(name: str) -> list[dict]:
    if not CASES:
        return []
    return [json.loads(line) for line in Path(CASES, name).read_text(encoding="utf-8").splitlines() if line.strip()]


def name_of(case: dict) -> str:
    return case.get("id") or case["name"]


def cases(name: str, *modes: str) -> Any:
    found = [case for case in load(name) if not modes or case["mode"] in modes]
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=name_of(case)) for case in found],
    )


def run(events: list[dict], flush: str) -> list[LlmResponse]:
    """Every response; the events take the way over the wire."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return list(aggregate([body.encode()], provider="gemini", flush=flush))


# ----------------------------------------------------------------- the matcher


def plain(value: Any) -> Any:
    """A response or a part as JSON with snake_case keys, base64 in the standard alphabet, and no nulls."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "model_dump"):
        return without_nulls(value.model_dump(mode="python"))
    return value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return getattr(value, "value", value)  # enums


def check(have: Any, wanted: Any, where: str) -> None:
    """An object is a subset, a list has the same length, ``$absent``, ``$any`` and ``$in`` are what they say."""
    if isinstance(wanted, dict) and "$in" in wanted:
        assert have in wanted["$in"], f"{where}: {have!r} is none of {wanted['$in']!r}"
    elif isinstance(wanted, dict):
        assert isinstance(have, dict), f"{where}: {have!r} is no object"
        for key, value in wanted.items():
            if value == {"$absent": True}:
                assert have.get(key) in (None, {"parts": []}), f"{where}.{key}: {have.get(key)!r} is there"
            elif value == {"$any": True}:
                assert have.get(key) is not None, f"{where}.{key} is missing"
            else:
                check(have.get(key), value, f"{where}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(have, list), f"{where}: {have!r} is no list"
        assert len(have) == len(wanted), f"{where}: {have!r} has not {len(wanted)} items"
        for number, (each, other) in enumerate(zip(have, wanted, strict=True)):
            check(each, other, f"{where}[{number}]")
    else:
        assert have == wanted, where
        assert type(have) is type(wanted), where


def check_final(final: LlmResponse, wanted: dict) -> None:
    have = plain(final)
    have["parts"] = plain(final.parts)
    check(have, wanted, "final")


def check_expected(responses: list[LlmResponse], expected: dict) -> None:
    partials = [each for each in responses if each.partial]
    kept = [each for each in responses if not each.partial]
    for key, wanted in expected.items():
        if key == "final":
            check_final(responses[-1], wanted)
        elif key == "partial_text":
            assert "".join(each.text for each in partials) == wanted
        elif key == "nonpartial_text":
            assert "".join(each.text for each in kept) == wanted
        elif key == "nonpartial_parts":
            check(plain([part for each in kept for part in each.parts]), wanted, "parts")
        else:
            pytest.fail(f"what {key!r} expects is not known here")


# ----------------------------------------------------------------- google-adk's terms


@cases("gemini.jsonl", "sse")
def test_progressive_cases(case):
    responses = run(case["chunks"], "close")
    check_expected(responses, case["expected"])
    if "json_text_check" in case:
        [part] = responses[-1].parts
        assert case["json_text_check"] in json.dumps(part.function_call.args)


@cases("gemini.jsonl", "sse_classic")
def test_classic_cases(case):
    check_expected(run(case["chunks"], "boundary"), case["expected"])


@cases("gemini_go.jsonl")
def test_what_adk_go_expects(case):
    check_final(run(case["chunks"], "close")[-1], case["expected_final"])


@cases("gemini_java.jsonl")
def test_what_adk_java_expects(case):
    check_final(run(case["chunks"], "close")[-1], case["expected_final"])


# ----------------------------------------------------------------- faults met by users

STATUS = {"stop": "completed", "tool_calls": "completed", "incomplete": "incomplete", "error": "failed"}


def in_their_words(part: Any) -> dict:
    """The part as the cases write it."""
    signed = {} if part.thought_signature is None else {"signature": base64.b64encode(part.thought_signature).decode()}
    if part.function_call is None:
        return {"type": "reasoning" if part.thought else "text", "text": part.text or "", **signed}
    call = part.function_call
    made = call.id.startswith(MADE_ID_PREFIX)
    return {
        "type": "tool_call",
        "id": "$generated" if made else call.id,
        "name": call.name,
        "args": call.args,
        **signed,
    }


@pytest.mark.parametrize("flush", ["close", "boundary"])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["id"])
        for case in load("streams.jsonl")
        if case["line"] == "gemini_sse" and not any(key.startswith("$") for event in case["events"] for key in event)
    ],
)
def test_streams_that_other_libraries_broke_on(case, flush):
    responses, expected = run(case["events"], flush), case["expected"]
    final = responses[-1]
    parts = [part for each in responses if not each.partial for part in each.parts]
    assert [in_their_words(part) for part in parts] == expected["parts"]
    assert final.status == STATUS[expected["finish"]]
    assert (final.status == "completed") is expected["complete"]
    assert final.native_finish_reason == expected.get("raw_finish")
    if expected.get("error"):
        assert final.error_code == expected["error"]["code"]
        assert final.error_message == expected["error"]["message"]
    else:
        assert final.error_code is None
    usage = expected.get("usage", {})
    counts = final.usage_metadata
    have = {
        "input": counts and counts.prompt_token_count,
        "output": counts and (counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
        "total": counts and counts.total_token_count,
        "reasoning": counts and counts.thoughts_token_count,
    }
    assert {key: have[key] for key in usage} == usage
