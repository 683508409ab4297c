"""Recorded streams of many providers: the same events in any cut, and each tells its line."""

from __future__ import annotations

import csv
import json
import os
import random
from pathlib import Path

import pytest
from feeding import decode, decode_with_snapshots, pieces

from adk_stream.wire import BytesDecoder, decode_json, detect_line

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
pytestmark = pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")

# An object of unknown shape where a response was meant: nothing in it could tell.
TELLS_NOTHING = {"vertexai.streaming-failure-invalid-json.sse"}


def recordings() -> list[tuple[str, Path]]:
    if not CORPUS:
        return []
    with (Path(CORPUS) / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["line"].replace("_", "-"), Path(CORPUS) / row["path"]) for row in rows]


def test_every_recording_tells_its_line() -> None:
    checked = 0
    for line, path in recordings():
        told = set()
        for event in decode(BytesDecoder, [path.read_bytes()]):
            if event.data != b"[DONE]":
                try:
                    told.add(detect_line(decode_json(event.data), event.name))
                except ValueError:
                    assert path.name == "openai.parallel-tool-call-wrapper.1.jsonl", (path, event)
        assert told - {None} == (set() if path.name in TELLS_NOTHING else {line}), path
        checked += 1
    assert checked > 300


def test_every_recording_in_any_cut() -> None:
    chance = random.Random(7)
    for _, path in recordings():
        data = path.read_bytes()
        events = decode(BytesDecoder, [data])
        assert events, path
        cuts = [chance.randrange(len(data) + 1) for _ in range(len(data) // 50)]
        assert decode(BytesDecoder, pieces(data, cuts)) == events, path
        assert decode(BytesDecoder, [data[i : i + 7] for i in range(0, len(data), 7)]) == events, path
        assert decode_with_snapshots(BytesDecoder, pieces(data, cuts[:20])) == events, path


def test_json_recordings_hold_what_the_json_library_reads() -> None:
    for _, path in recordings():
        if path.suffix == ".json":
            expected = json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            expected = [line.encode() for line in path.read_text("utf-8").split("\n") if line.strip()]
        else:
            continue
        found = [event.data for event in decode(BytesDecoder, [path.read_bytes()])]
        assert (found if path.suffix == ".jsonl" else [json.loads(data) for data in found]) == expected, path
