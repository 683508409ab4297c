"""True-to-life generateContent streams for hypothesis, with a plain description of what must come out.

A stream is made of *sources*: what the model means to say. Each becomes wire parts (text in deltas, a call whole or
in ``partialArgs``), the wire parts are cut into events, and finish and usage are put where Google puts them.

The description is a list with one dict for each part: ``{"text": …}``, ``{"thought": …}``, ``{"call": name, "args":
…, "id": …}``, ``{"code": …}``, ``{"result": …}``, ``{"image": …}``, each with ``"signature"`` where it is signed.
"""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate
from adk_stream.providers.gemini import MADE_ID_PREFIX
from adk_stream.providers.line import Line

MODEL = "gemini-test"
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 9, "totalTokenCount": 16}


@dataclass
class Stream:
    """Wire parts cut into events, and what they mean."""

    chunks: list[list[dict]]
    meaning: list[dict]
    finish: str = "STOP"
    streamed: list[dict] = field(default_factory=list)  # of the meaning: calls that came in fragments

    def events(self, finish_at: int | None = None, usage_at: tuple[int, ...] = ()) -> list[dict]:
        """One event for each chunk; the finish on event ``finish_at``, or on an event of its own behind all."""
        events = [event(parts) for parts in self.chunks]
        if finish_at is None:
            events.append({"candidates": [{"content": {"role": "model"}, "finishReason": self.finish, "index": 0}]})
        else:
            events[finish_at]["candidates"][0]["finishReason"] = self.finish
        for number, at in enumerate(usage_at or (len(events) - 1,)):
            last = number == len(usage_at or (0,)) - 1
            counts = USAGE if last else {**USAGE, "candidatesTokenCount": 1, "totalTokenCount": 8}
            events[min(at, len(events) - 1)]["usageMetadata"] = counts
        return events


def event(parts: list[dict], **fields: Any) -> dict:
    """One event with these wire parts."""
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {"candidates": [candidate], "modelVersion": MODEL, "responseId": "r-1", **fields}


def sse(events: list[dict], newline: str = "\r\n") -> bytes:
    """The events as Google's servers frame them."""
    return "".join(f"data: {json.dumps(each, ensure_ascii=False)}{newline}{newline}" for each in events).encode()


# ----------------------------------------------------------------- what came out


def described(parts: Any) -> list[dict]:
    """Parts of a response in the words of ``Stream.meaning``."""
    return [_described(part) for part in parts]


def _described(part: Any) -> dict:
    signed = {} if part.thought_signature is None else {"signature": part.thought_signature}
    if part.function_call is not None:
        call = part.function_call
        known = None if (call.id or "").startswith(MADE_ID_PREFIX) else call.id
        return {"call": call.name, "args": call.args, "id": known, **signed}
    if part.executable_code is not None:
        return {"code": part.executable_code.code, **signed}
    if part.code_execution_result is not None:
        return {"result": part.code_execution_result.output, **signed}
    if part.inline_data is not None:
        return {"image": part.inline_data.data, **signed}
    return {"thought" if part.thought else "text": part.text or "", **signed}


def responses_of(events: Any, **options: Any) -> list[LlmResponse]:
    """Every response of the stream."""
    return list(aggregate(events, provider="gemini", **options))


def final_of(events: Any, **options: Any) -> LlmResponse:
    """The last response of the stream."""
    return responses_of(events, **options)[-1]


def parts_of(events: Any, **options: Any) -> list[dict]:
    """Everything in the non-partial responses, described."""
    return described(part for each in responses_of(events, **options) if not each.partial for part in each.parts)


def same_ids(responses: list[LlmResponse]) -> list[dict]:
    """The responses as dicts, ids that were made aside numbered in the order they appear."""
    made: dict[str, str] = {}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rename(item) for key, item in value.items()}
        if isinstance(value, list):
            return [rename(item) for item in value]
        if isinstance(value, str) and value.startswith(MADE_ID_PREFIX):
            return made.setdefault(value, f"made-{len(made)}")
        return value

    return [rename(each.model_dump()) for each in responses]


def run_in_steps(events: list[Any], flush: str, carry_at: set[int]) -> list[LlmResponse]:
    """Feed event by event; before those of ``carry_at`` line and aggregator go through a snapshot."""
    line, aggregator = Line("gemini"), StreamingResponseAggregator(flush)
    seeded(aggregator)
    responses: list[LlmResponse] = []
    for number, each in enumerate(events):
        if number in carry_at:
            line, aggregator = carried(line, aggregator)
        for chunks in line.feed(each):
            for chunk in chunks:
                responses += aggregator.process_response(chunk)
    if len(events) in carry_at:
        line, aggregator = carried(line, aggregator)
    for chunks in line.close():
        for chunk in chunks:
            responses += aggregator.process_response(chunk)
    last = aggregator.close()
    return responses if last is None else [*responses, last]


def seeded(aggregator: StreamingResponseAggregator) -> None:
    """Make the ids it makes the same in every run."""
    aggregator._state.candidate.assembler.seed = "0" * 28


def carried(line: Line, aggregator: StreamingResponseAggregator) -> tuple[Line, StreamingResponseAggregator]:
    """Both as another process would have them."""
    return Line.restore(line.snapshot()), StreamingResponseAggregator.restore(aggregator.snapshot())


# ----------------------------------------------------------------- sources

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
names = st.sampled_from(["look_up", "add", "größe"])
signatures = st.binary(min_size=1, max_size=9)
keys = st.sampled_from(["a", "b", "cc", "a.b", "ü", "it's"])
leaves = words | st.integers(-(2**53), 2**53) | st.booleans() | st.none()
flat_args = st.dictionaries(keys, leaves, max_size=3)
args = st.dictionaries(
    keys, leaves | st.lists(leaves, min_size=1, max_size=2) | st.dictionaries(keys, leaves, min_size=1), max_size=3
)


def cut(draw: Any, text: str) -> list[str]:
    """The text in pieces, cut anywhere; none of them empty."""
    places = sorted({*draw(st.lists(st.integers(0, len(text)), max_size=3)), 0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


def signed_part(part: dict, signature: bytes) -> dict:
    """The part with its signature, as it goes over the wire."""
    return {**part, "thoughtSignature": base64.b64encode(signature).decode()}


def path_of(keys: list[str | int]) -> str:
    """The JSONPath (RFC 9535) of a value."""

    def step(key: str | int) -> str:
        if isinstance(key, int):
            return f"[{key}]"
        escaped = key.replace("\\", "\\\\").replace("'", "\\'")
        return f".{key}" if key.isidentifier() else f"['{escaped}']"

    return "$" + "".join(map(step, keys))


def fragments_of(draw: Any, value: Any, at: list[str | int]) -> list[dict]:
    """``partialArgs`` entries that build the value: each leaf at its path, strings in pieces."""
    if isinstance(value, dict):
        return [each for key, item in value.items() for each in fragments_of(draw, item, [*at, key])]
    if isinstance(value, list):
        return [each for key, item in enumerate(value) for each in fragments_of(draw, item, [*at, key])]
    path = path_of(at)
    if isinstance(value, str):
        return [{"jsonPath": path, "stringValue": piece, "willContinue": True} for piece in cut(draw, value)]
    if value is None:
        return [{"jsonPath": path, "nullValue": "NULL_VALUE"}]
    return [{"jsonPath": path, "boolValue" if isinstance(value, bool) else "numberValue": value}]


def streamed_call(draw: Any, name: str, id: str | None, given: dict, every: str | None = None) -> list[dict]:
    """The wire parts of a call in fragments; ``every`` names what each fragment repeats (``id``, ``name``)."""
    start: dict[str, Any] = {"name": name, **({"id": id} if id else {}), "willContinue": True}
    repeated = {} if every is None else {"id": id} if every == "id" else {"name": name}
    fragments = fragments_of(draw, given, [])
    if fragments and draw(st.booleans()):
        start["partialArgs"] = [fragments.pop(0)]
    parts = [start]
    while fragments:
        count = draw(st.integers(1, 2))
        taken, fragments = fragments[:count], fragments[count:]
        parts.append({**repeated, "partialArgs": taken, "willContinue": True})
    if len(parts) > 1 and draw(st.booleans()):
        parts[-1]["willContinue"] = False
    else:
        parts.append({**repeated, **draw(st.sampled_from([{}, {"willContinue": False}]))})
        if every == "name":
            parts[-1]["willContinue"] = False  # a name alone would be a whole call
    return [{"functionCall": each} for each in parts]


@st.composite
def streams(draw: Any, min_sources: int = 1, max_sources: int = 5, kinds: tuple[str, ...] = ()) -> Stream:
    """Any stream of these sources."""
    wire: list[dict] = []
    meaning: list[dict] = []
    streamed: list[dict] = []
    for number in range(draw(st.integers(min_sources, max_sources))):
        kind = draw(st.sampled_from(kinds or tuple(_SOURCES)))
        parts, means = _SOURCES[kind](draw, number)
        wire += parts
        meaning += means
        if kind in ("streamed", "pair"):
            streamed += means
    chunks: list[list[dict]] = []
    while wire:
        count = draw(st.sampled_from([1, 1, 2, 3]))
        chunks.append(wire[:count])
        wire = wire[count:]
    return Stream(chunks, merged(meaning), streamed=streamed)


def merged(meaning: list[dict]) -> list[dict]:
    """Neighbouring runs of one kind are one part, unless one of them is signed."""
    result: list[dict] = []
    for each in meaning:
        kind = next(iter(each))
        if kind in ("text", "thought") and result and result[-1].keys() == each.keys() == {kind}:
            result[-1] = {kind: result[-1][kind] + each[kind]}
        else:
            result.append(each)
    return result


def _text(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    said = draw(words)
    return [{"text": piece} for piece in cut(draw, said)], [{"text": said}]


def _thought(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    said = draw(words)
    return [{"text": piece, "thought": True} for piece in cut(draw, said)], [{"thought": said}]


def _signed(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    kind, said, signature = draw(st.sampled_from(["text", "thought"])), draw(words), draw(signatures)
    part = {"text": said, **({"thought": True} if kind == "thought" else {})}
    return [signed_part(part, signature)], [{kind: said, "signature": signature}]


def _bare_signature(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    signature = draw(signatures)
    return [signed_part(draw(st.sampled_from([{}, {"text": ""}])), signature)], [{"text": "", "signature": signature}]


def _call(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    name, given, id = draw(names), draw(args), draw(st.sampled_from([None, f"id-{number}"]))
    call = {"name": name, "args": given, **({"id": id} if id else {})}
    means: dict[str, Any] = {"call": name, "args": given, "id": id}
    if draw(st.booleans()):
        return [{"functionCall": call}], [means]
    signature = draw(signatures)
    return [signed_part({"functionCall": call}, signature)], [{**means, "signature": signature}]


def _streamed(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    name, given, id = draw(names), draw(args), draw(st.sampled_from([None, f"id-{number}"]))
    return streamed_call(draw, name, id, given), [{"call": name, "args": given, "id": id}]


def _pair(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    """Two calls whose fragments alternate: told apart by id, or by name where there is no id."""
    every = draw(st.sampled_from(["id", "name"]))
    calls = [("same", f"id-{number}a"), ("same", f"id-{number}b")] if every == "id" else [("f", None), ("g", None)]
    given = [draw(args), draw(args)]
    queues = [streamed_call(draw, name, id, each, every) for (name, id), each in zip(calls, given, strict=True)]
    mixed = [queues[0].pop(0), queues[1].pop(0)]
    while any(queues):
        mixed.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    return mixed, [{"call": name, "args": each, "id": id} for (name, id), each in zip(calls, given, strict=True)]


def _code(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    code, output = draw(words), draw(words)
    return [
        {"executableCode": {"language": "PYTHON", "code": code}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}},
    ], [{"code": code}, {"result": output}]


def _image(draw: Any, number: int) -> tuple[list[dict], list[dict]]:
    data = draw(st.binary(min_size=1, max_size=6))
    blob = {"mimeType": "image/png", "data": base64.b64encode(data).decode()}
    return [{"inlineData": blob}], [{"image": data}]


_SOURCES = {
    "text": _text,
    "thought": _thought,
    "signed": _signed,
    "bare_signature": _bare_signature,
    "call": _call,
    "streamed": _streamed,
    "pair": _pair,
    "code": _code,
    "image": _image,
}
