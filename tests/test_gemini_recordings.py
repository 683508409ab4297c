"""Recorded Gemini streams: what comes out equals a plain reading of the events, and what google-adk makes of them.

The folder is named by ``ADK_STREAM_CORPUS``; beside the recordings, ``oracle/`` holds google-adk's results.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from adk_stream import aggregate, to_native
from adk_stream.errors import UnknownLineError
from adk_stream.providers.gemini import MADE_ID_PREFIX

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
SUFFIXES = (".sse", ".jsonl", ".json")
RECORDINGS = sorted(p for p in Path(CORPUS, "gemini").rglob("*") if p.suffix in SUFFIXES) if CORPUS else []
pytestmark = pytest.mark.skipif(not RECORDINGS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")

every_recording = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem[-60:])


# ----------------------------------------------------------------- a plain reading


def events_of(path: Path) -> list[dict]:
    """The events of a recording, by the simplest means."""
    body = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(body)
    if path.suffix == ".sse":  # an error may stand there as bare JSON, in the place of an event
        return [json.loads(block.strip().removeprefix("data:")) for block in body.split("\n\n") if block.strip()]
    return [json.loads(line) for line in body.splitlines() if line.strip()]


def plain_reading(events: list[dict]) -> tuple[list[dict], Any]:
    """(parts, the last finish reason): neighbouring unsigned texts of one kind joined, fragments of calls put in."""
    parts: list[dict] = []
    finish = None
    for event in events:
        if event.get("error"):
            return parts, None
        for candidate in (event.get("candidates") or [])[:1]:
            finish = candidate.get("finishReason") or finish
            for part in (candidate.get("content") or {}).get("parts") or []:
                take(parts, part)
    return [{k: v for k, v in part.items() if k != "open"} for part in parts], finish


def take(parts: list[dict], part: dict) -> None:
    """Add one wire part."""
    signature = {"signature": part["thoughtSignature"]} if part.get("thoughtSignature") else {}
    call = part.get("functionCall")
    if call is not None:
        if call.get("name"):
            parts.append({"call": call["name"], "id": call.get("id"), "args": call.get("args") or {}, **signature})
        for fragment in call.get("partialArgs") or ():
            put(parts[-1]["args"], fragment)
    elif "text" in part or not part.keys() - {"thought", "thoughtSignature"}:
        kind = "thought" if part.get("thought") else "text"
        if not part.get("text") and not signature:
            return
        joinable = parts and parts[-1].keys() == {kind} and not signature
        if joinable:
            parts[-1][kind] += part["text"]
        else:
            parts.append({kind: part.get("text") or "", **signature})
    else:
        [field] = part.keys() - {"thought", "thoughtSignature"}
        parts.append({"other": field, **signature})


def put(args: dict, fragment: dict) -> None:
    """One ``partialArgs`` entry: strings grow, anything else is set."""
    *way, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", fragment["jsonPath"])]
    for step, following in zip(way, [*way, last][1:], strict=True):
        empty: Any = [] if isinstance(following, int) else {}
        args = args.setdefault(step, empty) if isinstance(args, dict) else at(args, step, empty)
    if isinstance(args, list) and last == len(args):
        args.append("")
    old = args.get(last, "") if isinstance(args, dict) else args[last]
    text = fragment.get("stringValue")
    other = next((fragment[key] for key in ("numberValue", "boolValue") if key in fragment), None)
    args[last] = other if text is None else old + text


def at(items: list, index: int, empty: Any) -> Any:
    if index == len(items):
        items.append(empty)
    return items[index]


def ours(parts: Any) -> list[dict]:
    """The same words for parts that were aggregated."""
    result: list[dict] = []
    for part in parts:
        signature = {}
        if part.thought_signature is not None:
            signature["signature"] = base64.b64encode(part.thought_signature).decode()
        fields = set(part.model_dump(exclude_none=True)) - {"thought", "thought_signature", "part_metadata"}
        if part.function_call is not None:
            call = part.function_call
            known = None if call.id.startswith(MADE_ID_PREFIX) else call.id
            result.append({"call": call.name, "id": known, "args": call.args, **signature})
        elif fields <= {"text"}:
            result.append({"thought" if part.thought else "text": part.text or "", **signature})
        else:
            [field] = fields
            result.append({"other": re.sub("_(.)", lambda match: match[1].upper(), field), **signature})
    return result


def joined(parts: list[dict], kind: str) -> str:
    return "".join(part.get(kind, "") for part in parts)


# ----------------------------------------------------------------- the laws


@cache
def responses_of(path: Path) -> list:
    """Every response; the source in one piece."""
    return list(aggregate([path.read_bytes()], provider="gemini"))


@every_recording
def test_a_plain_reading_of_the_events_gives_the_same(path):
    events = events_of(path)
    wanted, finish = plain_reading(events)
    final = responses_of(path)[-1]
    assert ours(final.parts) == wanted
    names = {1: "STOP"}
    blocked = [e for e in events if (e.get("promptFeedback") or {}).get("blockReason")]
    error = next((e["error"] for e in events if e.get("error")), None)
    if error is not None:
        assert (final.status, final.error_code) == ("failed", error["status"])
        assert final.error_message == error["message"]
    elif finish is not None:
        assert final.native_finish_reason == names.get(finish, finish)
        assert final.status == ("completed" if names.get(finish, finish) == "STOP" else "incomplete")
    elif blocked:
        assert (final.status, final.error_code) == ("incomplete", blocked[-1]["promptFeedback"]["blockReason"])
    else:
        assert (final.status, final.error_code) == ("incomplete", "STREAM_CUT")
    counts = [e["usageMetadata"] for e in events if e.get("usageMetadata")]
    if counts:
        assert final.usage_metadata.total_token_count == counts[-1]["totalTokenCount"]


@every_recording
def test_the_partials_show_the_text_once(path):
    *partials, final = responses_of(path)
    assert all(each.partial for each in partials)
    assert "".join(each.text for each in partials) == final.text
    assert "".join(each.thought_text for each in partials) == final.thought_text


BLOCKED = "a blocked prompt has no finish reason there; here it is SAFETY, with the block reason as error code"

#: Where google-adk is known to say less, and what of its result is therefore not compared.
ADK_DIFFERS: dict[str, tuple[set[str], str]] = {
    "googleai.streaming-failure-prompt-blocked-safety.sse": ({"finish"}, BLOCKED),
    "vertexai.streaming-failure-prompt-blocked-safety.sse": ({"finish"}, BLOCKED),
}


STANDARD = str.maketrans("-_", "+/")


@every_recording
def test_google_adk_agrees_where_it_lost_nothing(path):
    told = json.loads(Path(CORPUS, "oracle", *path.parts[-3:-1], path.name + ".json").read_text())
    final = responses_of(path)[-1]
    if told["status"] == "raised":
        error = next((e["error"] for e in events_of(path) if isinstance(e, dict) and e.get("error")), None)
        if error is not None:
            assert final.status == "failed"  # an error in the data is a final here, an exception there
        else:
            assert "'int' object has no attribute" in told["error"]["message"]  # numeric enums break google-genai
            assert final.status == "completed"
        return
    skipped, _ = ADK_DIFFERS.get(path.name, (set(), ""))
    parts = told["final"].get("content", {}).get("parts") or []
    theirs: list[dict] = []
    for part in parts:
        signed = part.get("thoughtSignature")  # pydantic writes the URL-safe alphabet
        take(theirs, {**part, "thoughtSignature": signed.translate(STANDARD)} if signed else part)
    mine = ours(final.parts)
    have = {
        "text": joined(mine, "text"),
        "thought": joined(mine, "thought"),
        "calls": [(part["call"], part["args"]) for part in mine if "call" in part],
        "signatures": [part["signature"] for part in mine if "signature" in part],
        "signed": [(next(iter(part)), part["signature"]) for part in mine if "signature" in part and "call" in part],
        "finish": None if final.finish_reason is None else final.finish_reason.value,
    }
    wanted = {
        "text": joined(theirs, "text"),
        "thought": joined(theirs, "thought"),
        "calls": [(part["call"], part["args"]) for part in theirs if "call" in part],
        "signatures": [part["signature"] for part in theirs if "signature" in part],
        "signed": [(next(iter(part)), part["signature"]) for part in theirs if "signature" in part and "call" in part],
        "finish": told["final"].get("finishReason"),
    }
    for key in have.keys() - skipped:
        assert have[key] == wanted[key], key
    for key in skipped:
        assert have[key] != wanted[key], f"{key}: google-adk agrees, no exception is needed"


@every_recording
def test_the_reads_do_not_matter(path):
    body = path.read_bytes()
    chooser = random.Random(path.name)
    small = len(body) < 30_000
    ways = [[body[i : i + size] for i in range(0, len(body), size)] for size in ((1, 7) if small else (61, 997))]
    places = sorted({0, len(body), *(chooser.randrange(len(body)) for _ in range(20))})
    ways.append([body[a:b] for a, b in itertools.pairwise(places)])
    wanted = without_made_ids(responses_of(path))
    for pieces in ways:
        assert without_made_ids(list(aggregate(pieces, provider="gemini"))) == wanted


@every_recording
def test_the_other_flush_holds_the_same_parts(path):
    boundary = list(aggregate([path.read_bytes()], provider="gemini", flush="boundary"))
    kept = [part for each in boundary if not each.partial for part in each.parts]
    assert ours(kept) == ours(responses_of(path)[-1].parts)
    assert boundary[-1].status == responses_of(path)[-1].status


@every_recording
def test_each_signature_goes_back_on_its_part(path):
    native = to_native(responses_of(path)[-1], provider="gemini")
    again: list[dict] = []
    for part in native["parts"]:
        take(again, part)
    wanted, _ = plain_reading(events_of(path))
    assert again == wanted


def without_made_ids(responses: list) -> str:
    """The responses as JSON, without the ids that were made."""
    body = "\n".join(each.model_dump_json(exclude_none=True) for each in responses)
    return re.sub(re.escape(MADE_ID_PREFIX) + r"\w+", "made", body)


def test_a_stream_whose_json_is_of_no_known_shape_is_cut():
    """One recording holds valid JSON that is no GenerateContentResponse: unknown fields, so a neutral event."""
    [path] = [path for path in RECORDINGS if path.name == "vertexai.streaming-failure-invalid-json.sse"]
    [final] = responses_of(path)
    assert (final.status, final.error_code, final.content) == ("incomplete", "STREAM_CUT", None)
    assert final.provider_metadata["gemini"]["this"][0]["response"] == {}
    with pytest.raises(UnknownLineError):
        list(aggregate([path.read_bytes()]))


def test_there_are_as_many_recordings_as_known():
    assert len(RECORDINGS) >= 112
