"""The output items of a Responses stream while they come, and the parts they become.

An item's part indexes begin at its place times a stride, so that order by index is order by item, and inside
an item the order of its summaries, then its contents. A text and a refusal at one content index are two.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from adk_stream.arguments import parse_arguments
from adk_stream.parts import PartDelta, StreamedPart, Text
from adk_stream.providers.openai_responses_native import PROVIDER, dump_arguments

__all__ = [
    "CALLS",
    "Item",
    "Run",
    "content_parts",
    "find_run",
    "item_metadata",
    "match_items",
    "open_run",
    "run_metadata",
    "settle_run",
    "tool_parts",
]

_STRIDE = 1 << 20
_CONTENTS = 1 << 19  # inside an item: summaries come before, contents from here on
_MAX_CONTENTS = 1 << 17

#: Calls that the client runs, and the field of the item that holds their arguments.
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}

#: Per kind of run: the field that holds its text, and the event's field that numbers it.
_RUNS = {
    "output_text": ("text", "content_index"),
    "refusal": ("refusal", "content_index"),
    "reasoning_text": ("text", "content_index"),
    "summary_text": ("text", "summary_index"),
}
_THOUGHTS = ("reasoning_text", "summary_text")

#: Fields of an item that its parts hold.
_HELD = {
    "message": {"content"},
    "reasoning": {"content", "summary", "encrypted_content"},
    "function_call": {"arguments", "call_id", "name"},
    "custom_tool_call": {"input", "call_id", "name"},
    "code_interpreter_call": {"code", "outputs"},
    "image_generation_call": {"result"},
}
_HELD_BY_RUN = {"type", "text", "refusal", "annotations", "logprobs"}


class Run(msgspec.Struct):
    """One text of an item: a content part or a summary.

    Attributes:
        place: Its part index.
        kind: ``output_text``, ``refusal``, ``reasoning_text`` or ``summary_text``.
        number: Its content or summary index.
        thought: Is it something that the model thought?
        text: What was given out of it as deltas.
        whole: The text that takes the place of what was given out, where that was wrong.
        told: The metadata as last given out; None before the first delta.
        extras: Fields of the content part that no part of ours holds.
        confirmed: The item's own end names it; so it is kept even when it is empty.
    """

    place: int
    kind: str
    number: int
    thought: bool
    text: Text = msgspec.field(default_factory=Text)
    whole: str | None = None
    told: dict[str, Any] | None = None
    extras: dict[str, Any] = {}
    annotations: list[Any] = []
    has_logprobs: bool = False
    confirmed: bool = False

    @property
    def field(self) -> str:
        """The field of the content part that holds the text."""
        return _RUNS[self.kind][0]

    def read(self, part: Mapping[str, Any]) -> None:
        """Take the fields of the content part in, its text and what belongs to the text aside."""
        extras = {key: value for key, value in part.items() if key not in _HELD_BY_RUN and value is not None}
        if part.get("type") not in (self.kind, None):
            extras["type"] = part["type"]
        self.extras = extras or self.extras


class Item(msgspec.Struct):
    """One output item.

    Attributes:
        place: Its place among the items.
        wire_index: The ``output_index`` it came with, if any.
        fields: Its own fields, without those that its parts hold.
        told: ``fields`` as last given out.
        block: All of a hosted tool's item, as last told.
        others: Contents of kinds without a field of ours: the name of their index, the index, all of it.
        text, given: A call's arguments: the pieces given out, and their whole.
        pieces: A hosted tool's streamed texts by their path in the item.
        done: Its end was seen.
        given_out: The call was closed.
    """

    type: str
    place: int
    wire_index: int | None = None
    fields: dict[str, Any] = {}
    told: dict[str, Any] | None = None
    block: dict[str, Any] = {}
    runs: dict[int, Run] = {}
    others: list[tuple[str, int, Any]] = []
    call_id: str | None = None
    name: str | None = None
    text: Text = msgspec.field(default_factory=Text)
    given: Any = None
    pieces: dict[str, Text] = {}
    done: bool = False
    given_out: bool = False

    @property
    def base(self) -> int:
        """The first of its part indexes."""
        return self.place * _STRIDE

    @property
    def is_tool(self) -> bool:
        """Is it none of those whose parts stream: a hosted tool, or of a type nobody knows?"""
        return self.type not in CALLS and self.type not in ("message", "reasoning")

    def learn(self, raw: Mapping[str, Any], done: bool = False) -> None:
        """Take the item's own fields in, as an event tells them; nulls say nothing."""
        held = _HELD.get(self.type) or frozenset[str]()
        fields = {key: value for key, value in raw.items() if key not in held and value is not None}
        if not done or fields.get("status") == "completed":
            fields.pop("status", None)
        fields.setdefault("type", self.type)
        self.fields = {**self.fields, **fields}
        if self.is_tool:
            self.block = {**self.block, **raw}
        elif self.type in CALLS:
            self.learn_call(raw)

    def learn_call(self, raw: Mapping[str, Any]) -> None:
        """Take call id and name in, where they are told."""
        self.call_id = raw.get("call_id") or self.call_id
        self.name = raw.get("name") or self.name

    def whole_arguments(self) -> str | None:
        """The whole text of the arguments; None where it is just what was given out."""
        if self.given is None or isinstance(self.given, str):
            return self.given
        return dump_arguments(self.given)

    def written_arguments(self) -> str | None:
        """The arguments as the wire wrote them, where writing them anew gives another text."""
        if self.type != "function_call":
            return None
        text = self.whole_arguments()
        text = self.text.join() if text is None else text
        args = parse_arguments(text)
        return None if args is None or dump_arguments(args) == text else text

    def piece(self, path: tuple[str, ...], event: Mapping[str, Any]) -> Text:
        """The streamed text at this path (and ``command_index``) of a hosted tool's item."""
        number = event.get("command_index")
        return self.pieces.setdefault("/".join((*path, str(number)) if type(number) is int else path), Text())

    def streamed_block(self) -> dict[str, Any]:
        """A hosted tool's item so far, with its streamed texts put in."""
        if not self.pieces:
            return self.block
        block = deepcopy(self.block)
        for path, piece in self.pieces.items():
            _put(block, path.split("/"), piece.join())
        return block

    def release(self) -> None:
        """Let go of what only an open item needs."""
        self.block, self.runs, self.others, self.pieces = {}, {}, [], {}
        self.text, self.given = Text(), None


def _put(block: Any, path: list[str], value: str) -> None:
    key, rest = path[0], path[1:]
    if isinstance(block, list):  # commands come in order
        if int(key) < len(block):
            block[int(key)] = value
        else:
            block.append(value)
    elif rest:
        inner = block.get(key)
        if not isinstance(inner, (dict, list)):
            inner = block[key] = [] if rest[0].isdigit() else {}
        _put(inner, rest, value)
    else:
        block[key] = value


# ----------------------------------------------------------------- texts


def open_run(item: Item, kind: str, event: Mapping[str, Any]) -> Run:
    """The run that an event speaks of; without an index it is the first.

    Raises:
        ValueError: the index is out of all bounds.
    """
    number = event.get(_RUNS[kind][1]) or 0
    run = find_run(item, kind, number)
    if run is None:
        offset = _offset(kind, number)
        if not 0 <= number < _MAX_CONTENTS:
            raise ValueError(f"{_RUNS[kind][1]} {number}")
        run = item.runs[offset] = Run(item.base + offset, kind, number, kind in _THOUGHTS)
    return run


def find_run(item: Item, kind: str, number: int | None) -> Run | None:
    """The run of this kind and number, if it has begun."""
    return item.runs.get(_offset(kind, number or 0))


def _offset(kind: str, number: int) -> int:
    """Where a run stands in its item."""
    return number if kind == "summary_text" else _CONTENTS + 2 * number + (kind == "refusal")


def item_metadata(item: Item) -> dict[str, Any] | None:
    """What ``part_metadata`` says of an item; None when it was told already."""
    if item.told == item.fields:
        return None
    item.told = item.fields
    metadata: dict[str, Any] = {PROVIDER: {"output_index": item.place, "item": item.fields}}
    if item.type == "custom_tool_call":
        metadata["custom_tool"] = True
    return metadata


def run_metadata(item: Item, run: Run) -> dict[str, Any]:
    """What ``part_metadata`` says of a run, to be given out now."""
    own: dict[str, Any] = {"output_index": item.place, _RUNS[run.kind][1]: run.number, "item": item.fields}
    if run.extras:
        own["content"] = run.extras
    if run.annotations:
        own["annotations"] = list(run.annotations)
    run.told = {PROVIDER: own, "refusal": True} if run.kind == "refusal" else {PROVIDER: own}
    return run.told


def settle_run(item: Item, run: Run, whole: Any, sure: bool = True) -> list[StreamedPart]:
    """Bring a run to its whole text: nothing to do, or what is missing at its end, or (later) all of it anew.

    Args:
        item: The run's item.
        run: The run.
        whole: The whole text as an event tells it.
        sure: Take it even where it contradicts what was streamed.

    Returns:
        What is missing at the end of what was given out.
    """
    if not isinstance(whole, str) or not whole:
        return []
    known = run.text.join() if run.whole is None else run.whole
    if known == whole:
        return []
    if run.whole is None and whole.startswith(known):
        rest = whole[len(known) :]
        run.text.append(rest)
        metadata = run_metadata(item, run) if run.told is None else None
        return [StreamedPart(PartDelta(rest, run.thought, None, None, metadata), run.place, True)]
    if sure or known in whole:
        run.whole = whole
    return []


def content_parts(item: Item, sealed: str | None) -> list[StreamedPart]:
    """What the end of a message or reasoning adds.

    Texts that were given out wrong, anew; metadata that is news; the encrypted content, on the last of its
    parts; contents that are no text. Where there is none of these, a part that stands for the item.
    """
    runs = [run for _, run in sorted(item.runs.items()) if run.confirmed or run.text or run.whole is not None]
    signature = None if sealed is None else sealed.encode("utf-8", "surrogatepass")
    parts: list[StreamedPart] = []
    for run in runs:
        told = run.told
        metadata = run_metadata(item, run)
        own_signature = signature if run is runs[-1] else None
        if run.whole is not None:
            run.text, run.whole, told = Text(fragments=[run.whole]), None, None
            delta = PartDelta(run.text.join(), run.thought, own_signature, None, metadata)
            parts.append(StreamedPart(delta, run.place))
        elif told != metadata or own_signature:
            delta = PartDelta("" if told is None else None, run.thought, own_signature, None, metadata)
            parts.append(StreamedPart(delta, run.place, True))
    for key, number, raw in item.others:
        place = item.base + (number if key == "summary_index" else _CONTENTS + 2 * number)
        own = {"output_index": item.place, key: number, "item": item.fields, "whole": raw}
        parts.append(StreamedPart(PartDelta(whole={"partMetadata": {PROVIDER: own}}, provider=PROVIDER), place))
    if item.done and not runs and (signature or not item.others):
        thinks = item.type == "reasoning"
        own = {PROVIDER: {"output_index": item.place, "item": item.fields}}
        delta = PartDelta(None if thinks else "", thinks, signature, None, own)
        parts.append(StreamedPart(delta, item.base + _STRIDE - 1, True))
    return parts


# ----------------------------------------------------------------- hosted tools


def tool_parts(item: Item, whole: bool) -> list[StreamedPart]:
    """A hosted tool as it stands; until it is ``whole``, as a hint that is replaced."""
    block = item.streamed_block() if not whole else item.block
    build = _TOOL_PARTS.get(item.type)
    parts = build(item, block, whole) if build is not None else None
    if parts is None:
        metadata = {"server_tool": block} if whole else {"server_tool": block, "unfinished": True}
        parts = [({"partMetadata": metadata}, item.base)]
    return [StreamedPart(PartDelta(whole=part, provider=PROVIDER), index, not whole) for part, index in parts]


_Placed = list[tuple[dict[str, Any], int | None]]


def _code_parts(item: Item, block: Mapping[str, Any], whole: bool) -> _Placed | None:
    """Code interpreter: the code, and its result once there is one."""
    code, outputs = block.get("code"), block.get("outputs")
    if not isinstance(code, str) and whole:
        return None
    own = {"output_index": item.place, "item": item.fields}
    metadata = {PROVIDER: own} if whole else {PROVIDER: own, "unfinished": True}
    program = {"code": code or "", "language": "PYTHON"}
    parts: _Placed = [({"executableCode": program, "partMetadata": metadata}, item.base)]
    if whole and isinstance(outputs, list) and outputs:
        logs = "".join(str(each.get("logs") or "") for each in outputs if isinstance(each, Mapping))
        own = {"output_index": item.place, "item": item.fields}
        if outputs != [{"type": "logs", "logs": logs}]:
            own["outputs"] = outputs
        outcome = "OUTCOME_OK" if block.get("status") in ("completed", None) else "OUTCOME_FAILED"
        result = {"outcome": outcome, "output": logs}
        parts.append(({"codeExecutionResult": result, "partMetadata": {PROVIDER: own}}, item.base + 1))
    return parts


def _image_parts(item: Item, block: Mapping[str, Any], whole: bool) -> _Placed | None:
    """Image generation: the image; before it is there only a hint that it is being made."""
    if not whole:
        return [({"partMetadata": {"server_tool": block, "unfinished": True}}, None)]
    result = block.get("result")
    try:
        data = base64.b64decode(result, validate=True) if isinstance(result, str) else b""
    except (binascii.Error, ValueError):
        return None
    if not data:
        return None
    own = {"output_index": item.place, "item": item.fields}
    if base64.b64encode(data).decode() != result:
        own["result"] = result
    blob = {"mimeType": f"image/{block.get('output_format') or 'png'}", "data": data}
    return [({"inlineData": blob, "partMetadata": {PROVIDER: own}}, item.base)]


_TOOL_PARTS = {"code_interpreter_call": _code_parts, "image_generation_call": _image_parts}


# ----------------------------------------------------------------- the terminal payload


def match_items(
    output: Sequence[Mapping[str, Any]], items: Sequence[Item]
) -> list[tuple[Mapping[str, Any], int | None, int | None]]:
    """Each item of the response's payload with the number of the item it repeats.

    An output index is the place in the payload; where a server counts otherwise or leaves it out, ids, call
    ids and order tell. An item that was not seen has no number, but the place it should take.
    """
    found: dict[int, int] = {}
    free = dict(enumerate(items))

    def pair(key_of_output: Any, key_of_item: Any) -> None:
        by_key: dict[Any, int] = {}
        for number, item in free.items():
            by_key.setdefault(key_of_item(item), number)
        for place, raw in enumerate(output):
            key = key_of_output(place, raw)
            place_number = by_key.get(key) if place not in found and None not in key else None
            if place_number is not None and place_number in free:
                found[place] = place_number
                del free[place_number]

    types = [str(raw.get("type") or "message") for raw in output]
    pair(
        lambda place, raw: (place, types[place], raw.get("id")),
        lambda item: (item.place, item.type, item.fields.get("id")),
    )
    pair(lambda place, raw: (types[place], raw.get("id")), lambda item: (item.type, item.fields.get("id")))
    pair(lambda place, raw: (types[place], raw.get("call_id")), lambda item: (item.type, item.call_id))
    left = [place for place in range(len(output)) if place not in found]
    in_order = sorted(free, key=lambda number: items[number].place)
    if [types[place] for place in left] == [items[number].type for number in in_order]:
        found.update(zip(left, in_order, strict=True))
        free.clear()
    pair(lambda place, raw: (place, types[place]), lambda item: (item.place, item.type))
    shift = next((items[number].place - place for place, number in sorted(found.items())), 0)
    return [(raw, found.get(place), None if place in found else place + shift) for place, raw in enumerate(output)]
