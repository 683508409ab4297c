"""OpenAI's Responses stream: ``response.*`` events to StreamChunks.

Wire facts: the OpenAI API reference, "Streaming events" of the Responses API.

The stream is told by *items* (messages, reasoning, calls, hosted tools), each at an ``output_index``; those
with text hold *runs*, one for each ``content_index`` or ``summary_index``. Everything is told several times:
deltas, then ``…text.done``, ``content_part.done``, ``output_item.done``, and once more in the payload of
``response.completed``. Each telling only adds what those before it missed. Ids may change from event to event
(proxies encrypt them anew), so an item is known by its place.

The table at the end names the handler of each type of event; what it does not name is neutral.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.metadata import merge_nested
from adk_stream.parts import CallDelta, Growth, PartDelta, StreamChunk, StreamedPart
from adk_stream.providers import DONE
from adk_stream.providers.objects import as_event
from adk_stream.providers.openai_responses_facts import (
    ENDS,
    add_annotations,
    add_logprobs,
    fault,
    note,
    usage_counts,
)
from adk_stream.providers.openai_responses_items import (
    CALLS,
    Item,
    Run,
    content_parts,
    find_run,
    item_metadata,
    match_items,
    open_run,
    run_metadata,
    settle_run,
    tool_parts,
)
from adk_stream.providers.openai_responses_native import PROVIDER, to_native
from adk_stream.providers.openai_responses_numbers import EventNumbers
from adk_stream.providers.openai_responses_places import ItemPlaces
from adk_stream.wire import MAX_DEPTH

__all__ = ["ResponsesReader", "to_native"]

Event = Mapping[str, Any]


class _Delta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The commonest deltas, with the names of the SDK's events."""

    type: str
    delta: str
    output_index: int
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    logprobs: Annotated[list[str], msgspec.Meta(max_length=0)] | None = None
    obfuscation: str | None = None


#: Bytes of an event that cannot be nested too deeply, whatever it holds.
_SHORT = 2 * MAX_DEPTH

_decode_delta = msgspec.json.Decoder(_Delta).decode

#: For each of their types: the item, the kind of run (None: its arguments), the field that numbers the run.
_GROWING: dict[str, tuple[str, str | None, str]] = {
    "response.output_text.delta": ("message", "output_text", "content_index"),
    "response.reasoning_text.delta": ("reasoning", "reasoning_text", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_text", "summary_index"),
    "response.function_call_arguments.delta": ("function_call", None, ""),
}

#: Fields of the response object that have a field of ours, or that repeat at length what the request said.
_KNOWN = frozenset(
    {
        *("id", "object", "model", "output", "output_text", "usage"),
        *("status", "error", "incomplete_details", "instructions", "tools"),
    }
)
_EVENT_KNOWN = frozenset({"type", "sequence_number", "response"})


class ResponsesReader(Snapshotted):
    """Reads the events of one Responses stream; see ``providers.Reader``.

    Attributes:
        known: The items so far.
        numbers: Which events have come.
        usage, extras: The provider's own usage, and what no field of ours holds of a response, as last told.
    """

    known: ItemPlaces = msgspec.field(default_factory=ItemPlaces)
    numbers: EventNumbers = msgspec.field(default_factory=EventNumbers)
    response_id: str | None = None
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    extras: dict[str, Any] = msgspec.field(default_factory=dict)
    ended: bool = False  # a terminal event came

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunk of one event, or none; one whose ``sequence_number`` was seen is that event again."""
        if type(event) is not dict and not isinstance(event, Mapping):
            if event == DONE:
                return ()
            raise TypeError(f"an event is an object, not a {type(event).__name__}")
        kind = event.get("type") or name
        number = event.get("sequence_number")
        chunk = StreamChunk()
        if type(number) is int:
            if kind == "response.created":
                self._begin(event)
            if not self.numbers.take(number, event) and kind not in _FINAL:
                return ()
            if self.numbers.changed:
                self.numbers.changed = False
                note(chunk, "sequence_gaps", self.numbers.gaps())
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is None:
            handler = _shape_handler(kind, event)
        if handler is not None:
            handler(self, event, chunk)
        return (chunk,) if chunk.parts or chunk != _NEUTRAL else ()

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of one event object of the official SDK."""
        return self.read(as_event(event))

    def grow_bytes(self, data: bytes) -> Growth | None:
        """``read`` of a delta that goes on with its run or call, from its payload; None for any other event."""
        if len(data) > _SHORT:
            return None
        try:
            return self._growth(_decode_delta(data))
        except (msgspec.DecodeError, RecursionError):
            return None

    def grow_object(self, event: Any) -> Growth | None:
        """The same of an event of the ``openai`` SDK; None for any other event."""
        return self._growth(event) if getattr(event, "type", None) in _GROWING else None

    def _growth(self, event: Any) -> Growth | None:
        """What a run or a call grows by: of the SDK's event, or of our own with the same names."""
        growing = _GROWING.get(event.type)
        number = self.known.at.get(event.output_index)
        delta = event.delta
        if growing is None or number is None or not delta or type(delta) is not str:
            return None
        item_type, run_kind, index_field = growing
        item = self.known.items[number]
        if item.type != item_type or item.done or not self.numbers.continues(event.sequence_number):
            return None
        if run_kind is None:
            if item.given_out or item.told != item.fields:
                return None
            item.text.append(delta)
            growth = Growth(item.base, delta, "arguments", (item.call_id, item.name))
        else:
            run = find_run(item, run_kind, getattr(event, index_field))
            if run is None or run.told is None or getattr(event, "logprobs", None):
                return None
            run.text.append(delta)
            growth = Growth(run.place, delta, "thought" if run.thought else "text")
        self.numbers.go_on(event)
        return growth

    def close(self) -> Sequence[StreamChunk]:
        """What is known of the items that were left open."""
        chunk = StreamChunk()
        self._leave_open(chunk)
        return (chunk,) if chunk.parts else ()

    # ------------------------------------------------------------- text

    def read_delta(self, event: Event, chunk: StreamChunk, kind: str) -> None:
        """A piece of text, refusal, reasoning or summary."""
        delta = event.get("delta")
        if isinstance(delta, Mapping):  # an older form of the reasoning events
            delta = delta.get("text")
        if not delta:
            return
        if type(delta) is not str:
            raise TypeError(f"a delta is a {type(delta).__name__}")
        item = self.known.text_item(event, _ITEM_OF[kind])
        if item.done:
            return
        run = open_run(item, kind, event)
        metadata = run_metadata(item, run) if run.told is None else None
        run.text.append(delta)
        chunk.parts = (StreamedPart(PartDelta(delta, run.thought, None, None, metadata), run.place, True),)
        if event.get("logprobs"):
            add_logprobs(chunk, run, event["logprobs"])

    def read_whole(self, event: Event, chunk: StreamChunk, kind: str, field: str) -> None:
        """``…text.done``: the whole of a run."""
        text = event.get(field)
        if isinstance(text, str) and text:
            item = self.known.text_item(event, _ITEM_OF[kind])
            if item.done:
                return
            run = open_run(item, kind, event)
            if event.get("logprobs") and not run.has_logprobs:
                add_logprobs(chunk, run, event["logprobs"])
            chunk.parts = settle_run(item, run, text)

    def read_part(self, event: Event, chunk: StreamChunk) -> None:
        """``content_part.done``, ``reasoning_summary_part.done``: a run with all its fields."""
        part = event.get("part")
        if isinstance(part, Mapping):
            kind = _RUN_OF.get(str(part.get("type")))
            if kind is not None:
                item = self.known.text_item(event, _ITEM_OF[kind])
                if not item.done:
                    chunk.parts = self._read_content(item, open_run(item, kind, event), part, chunk)

    def read_annotation(self, event: Event, chunk: StreamChunk) -> None:
        """``output_text.annotation.added``: a citation."""
        annotation = event.get("annotation")
        if isinstance(annotation, Mapping):
            item = self.known.text_item(event, "message")
            if not item.done:
                add_annotations(chunk, open_run(item, "output_text", event), [annotation])

    def _read_content(
        self, item: Item, run: Run, part: Mapping[str, Any], chunk: StreamChunk, sure: bool = True
    ) -> list[StreamedPart]:
        run.read(part)
        annotations = part.get("annotations")
        if isinstance(annotations, list) and annotations and annotations != run.annotations:
            add_annotations(chunk, run, annotations)
            run.annotations = list(annotations)
        if part.get("logprobs") and not run.has_logprobs:
            add_logprobs(chunk, run, part["logprobs"])
        return settle_run(item, run, part.get(run.field), sure)

    # ------------------------------------------------------------- calls

    def read_call_delta(self, event: Event, chunk: StreamChunk, kind: str) -> None:
        """A piece of a call's arguments, or of a custom tool's input."""
        delta = event.get("delta")
        if not delta:
            return
        if type(delta) is not str:
            raise TypeError(f"a delta is a {type(delta).__name__}")
        item = self.known.call_item(event, kind)
        if item is not None and not item.given_out:
            item.text.append(delta)
            chunk.parts = (StreamedPart(self._call(item), item.base, True, delta),)

    def read_call_done(self, event: Event, chunk: StreamChunk, kind: str) -> None:
        """The whole arguments: with name and call id known, the call is ready."""
        item = self.known.call_item(event, kind)
        if item is None or item.given_out:
            return
        item.learn_call(event)
        whole = event.get(CALLS[item.type])
        if whole or item.text:
            item.given = whole or item.given
            if item.call_id and item.name:
                chunk.parts = self._close_call(item)

    def _call(self, item: Item) -> PartDelta:
        """What is known of a call; its metadata only where it is news."""
        metadata = item_metadata(item)
        return PartDelta(None, False, None, CallDelta(item.call_id, item.name), metadata)

    def _close_call(self, item: Item) -> list[StreamedPart]:
        delta = self._call(item)
        call, whole = delta.function_call, item.given
        item.given_out = True
        assert call is not None
        if isinstance(whole, Mapping):
            call.args = dict(whole)
            return [StreamedPart(delta, item.base)]
        written = item.written_arguments()
        if written is not None:
            delta.part_metadata = merge_nested(delta.part_metadata, {PROVIDER: {"arguments": written}})
        return [StreamedPart(delta, item.base, False, item.whole_arguments())]

    # ------------------------------------------------------------- hosted tools

    def read_tool_delta(self, event: Event, chunk: StreamChunk, path: tuple[str, ...]) -> None:
        """A piece of a hosted tool's code, arguments or command."""
        delta = event.get("delta")
        if isinstance(delta, str) and delta:
            item = self.known.open_tool(event)
            if item is None:
                return
            item.piece(path, event).append(delta)
            if item.type == "code_interpreter_call":
                code = {"executableCode": {"code": delta, "language": "PYTHON"}}
                chunk.parts = (StreamedPart(PartDelta(whole=code, provider=PROVIDER), None, True),)

    def read_tool_whole(self, event: Event, chunk: StreamChunk, path: tuple[str, ...], field: str) -> None:
        """The whole of such a text; the item as it now stands is shown."""
        whole = event.get(field)
        item = self.known.open_tool(event) if isinstance(whole, str) and whole else None
        if item is not None:
            piece = item.piece(path, event)
            piece.blocks, piece.fragments = [], [str(whole)]
            chunk.parts = tool_parts(item, False)

    def read_partial_image(self, event: Event, chunk: StreamChunk) -> None:
        """A preview: shown, and never part of the result."""
        data = event.get("partial_image_b64")
        if isinstance(data, str) and data:
            place = {"partial_image_index": event.get("partial_image_index"), "item_id": event.get("item_id")}
            mime_type = f"image/{event.get('output_format') or 'png'}"
            preview = {"inlineData": {"mimeType": mime_type, "data": data}, "partMetadata": {PROVIDER: place}}
            chunk.parts = (StreamedPart(PartDelta(whole=preview, provider=PROVIDER), None, True),)

    # ------------------------------------------------------------- items

    def read_item_added(self, event: Event, chunk: StreamChunk) -> None:
        """An item begins."""
        raw = event.get("item")
        if not isinstance(raw, Mapping):
            return
        item = self.known.find(event, _type_of(raw), raw) or self.known.open(event, _type_of(raw))
        if item.done:
            return
        item.learn(raw)
        if item.type in CALLS:
            item.given = raw.get(CALLS[item.type]) or None
            chunk.parts = (StreamedPart(self._call(item), item.base, True),)
        elif item.is_tool:
            chunk.parts = tool_parts(item, False)

    def read_item_done(self, event: Event, chunk: StreamChunk) -> None:
        """An item, whole."""
        raw = event.get("item")
        if isinstance(raw, Mapping):
            item = self.known.find(event, _type_of(raw), raw, done=True) or self.known.open(event, _type_of(raw))
            self._finish_item(item, raw, chunk, True)

    def _finish_item(self, item: Item, raw: Mapping[str, Any], chunk: StreamChunk, sure: bool) -> None:
        """Take an item's whole copy in; ``sure``: also where it contradicts what was streamed."""
        if item.done:
            return
        told = item.told
        item.learn(raw, done=True)
        item.done = True
        if item.given_out:  # a part that was closed may have been given away: it is not changed any more
            late = {key: value for key, value in item.fields.items() if (told or {}).get(key) != value}
            if late:
                note(chunk, "items", {str(item.place): late})
        elif item.type in CALLS:
            item.given = raw.get(CALLS[item.type]) or item.given
            chunk.parts = [*chunk.parts, *self._close_call(item)]
        elif item.is_tool:
            chunk.parts = [*chunk.parts, *tool_parts(item, True)]
        else:
            self._finish_content(item, raw, chunk, sure)
        item.release()

    def _finish_content(self, item: Item, raw: Mapping[str, Any], chunk: StreamChunk, sure: bool) -> None:
        """A message or reasoning: runs that are missing something, then what is known only at the end."""
        parts = list(chunk.parts)
        for group, key in (("summary", "summary_index"), ("content", "content_index")):
            contents = raw.get(group)
            for number, part in enumerate(contents if isinstance(contents, list) else ()):
                kind = _kind_of_run(item.type, group, part)
                if kind is None:
                    item.others.append((key, number, part))
                    continue
                run = open_run(item, kind, {key: number})
                run.confirmed = True
                parts += self._read_content(item, run, part, chunk, sure)
        sealed = raw.get("encrypted_content")
        chunk.parts = parts + content_parts(item, sealed if isinstance(sealed, str) else None)

    def _leave_open(self, chunk: StreamChunk) -> None:
        """What came of items that were never ended: as much as can be kept of them."""
        for item in self.known.items:
            if item.done:
                continue
            if item.type in CALLS:
                if item.given and not item.text and not item.given_out and isinstance(item.given, str):
                    item.text.append(item.given)
                    chunk.parts = [*chunk.parts, StreamedPart(self._call(item), item.base, True, item.given)]
            elif item.is_tool:
                chunk.parts = [*chunk.parts, *(tool_parts(item, False) if item.pieces else ())]
                item.pieces = {}
            else:
                chunk.parts = [*chunk.parts, *content_parts(item, None)]

    # ------------------------------------------------------------- the response

    def _begin(self, event: Event) -> None:
        """``response.created`` of another response: a new one begins in the same stream."""
        response = event.get("response")
        new_id = response.get("id") if isinstance(response, Mapping) else None
        if new_id and self.response_id and new_id != self.response_id:
            self.known, self.numbers = ItemPlaces(), EventNumbers()
            self.usage, self.extras = {}, {}
        self.response_id = new_id or self.response_id

    def read_created(self, event: Event, chunk: StreamChunk) -> None:
        """``response.created``."""
        self._begin(event)
        self.read_response(event, chunk)

    def read_response(self, event: Event, chunk: StreamChunk) -> None:
        """The response object of any ``response.*`` event, its output aside."""
        response = event.get("response")
        if not isinstance(response, Mapping):
            return
        # ids that change within a response are one id encrypted anew: the first stands
        self.response_id = chunk.response_id = self.response_id or response.get("id") or None
        chunk.model_version = response.get("model") or None
        usage = response.get("usage")
        if isinstance(usage, Mapping):
            merged = merge_nested(self.usage, dict(usage))
            if merged != self.usage:
                self.usage = merged
                chunk.usage_metadata = usage_counts(merged)
                chunk.provider_metadata = {**(chunk.provider_metadata or {}), "usage": merged}
        extras = {key: value for key, value in response.items() if key not in _KNOWN}
        extras |= {key: value for key, value in event.items() if key not in _EVENT_KNOWN}
        news = {key: value for key, value in extras.items() if _is_news(value, self.extras.get(key))}
        if news:
            self.extras = {**self.extras, **news}
            for key, value in news.items():
                note(chunk, key, value)

    def read_end(self, event: Event, chunk: StreamChunk, word: str) -> None:
        """A terminal event; its payload tells everything once more."""
        self.read_response(event, chunk)
        response = event.get("response")
        response = response if isinstance(response, Mapping) else {}
        status = response.get("status")
        word = status if status in ENDS else word
        if word not in ENDS:
            return
        output = response.get("output")
        if isinstance(output, list):
            self._read_output([raw for raw in output if isinstance(raw, Mapping)], chunk)
        self._leave_open(chunk)
        ENDS[word](chunk, response)
        self.ended = True

    def _read_output(self, output: list[Mapping[str, Any]], chunk: StreamChunk) -> None:
        for raw, number, place in match_items(output, self.known.items):
            item = self.known.open({}, _type_of(raw), place) if number is None else self.known.items[number]
            self._finish_item(item, raw, chunk, number is None or bool(self.numbers.missing))

    def read_error(self, event: Event, chunk: StreamChunk) -> None:
        """An ``error`` event of either shape, or an error body: the end, in the provider's own words."""
        self._leave_open(chunk)
        error = event.get("error")
        fields: Mapping[str, Any] = error if isinstance(error, Mapping) else event
        message = error if isinstance(error, str) else fields.get("message")
        code = fields.get("code") or (fields.get("type") if fields is error else None)
        chunk.error = fault(code or "error", message)
        told = fields if fields is error else {k: v for k, v in fields.items() if k not in _EVENT_KNOWN}
        note(chunk, "error", dict(told))


def _shape_handler(kind: Any, event: Event) -> Callable[[ResponsesReader, Event, StreamChunk], None] | None:
    """What has no type of this line: an error body, or a whole response in the place of a stream."""
    if isinstance(kind, str) and kind.startswith("response."):
        return None
    if event.get("error") and event.get("object") != "response":
        return ResponsesReader.read_error
    if event.get("object") == "response" and "type" not in event:
        return lambda reader, body, chunk: reader.read_end({"response": body}, chunk, "")
    return None


def _kind_of_run(item_type: str, group: str, part: Any) -> str | None:
    """The kind of run that an item's summary or content part is; None for one that is no text of ours."""
    if not isinstance(part, Mapping):
        return None
    if item_type == "reasoning":
        kind = "summary_text" if group == "summary" else "reasoning_text"
        return kind if isinstance(part.get("text"), str) else None
    kind = _RUN_OF.get(str(part.get("type")), "")
    return kind if _ITEM_OF.get(kind) == item_type else None


def _type_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("type") or "message")


def _is_news(value: Any, told: Any) -> bool:
    return value is not None and value not in ({}, []) and value != told


# ----------------------------------------------------------------- the table of events

_NEUTRAL = StreamChunk()

#: Taken whatever their number: some servers count them anew, and told twice they say nothing more.
_FINAL = frozenset({"error", "response.done", *(f"response.{word}" for word in ENDS)})

#: The type of item that a kind of run belongs to.
_ITEM_OF = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}
#: The kind of run that a content part of this type is.
_RUN_OF = {"text": "output_text", **{kind: kind for kind in _ITEM_OF}}


_TEXTS = {
    # event name: (kind of run, the field of the done event)
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
    "reasoning": ("reasoning_text", "text"),
    "reasoning_summary_text": ("summary_text", "text"),
    "reasoning_summary": ("summary_text", "text"),
}
_CALL_EVENTS = {"function_call_arguments": "function_call", "custom_tool_call_input": "custom_tool_call"}
_TOOL_TEXTS: dict[str, tuple[tuple[str, ...], str]] = {
    # event name: (where the text stands in the item, the field of the done event)
    "code_interpreter_call_code": (("code",), "code"),
    "mcp_call_arguments": (("arguments",), "arguments"),
    "shell_call_command": (("action", "commands"), "command"),
    "apply_patch_call_operation_diff": (("operation", "diff"), "diff"),
}


def _table() -> dict[str, Callable[[ResponsesReader, Event, StreamChunk], None]]:
    reader = ResponsesReader
    table: dict[str, Callable[[ResponsesReader, Event, StreamChunk], None]] = {
        "response.created": reader.read_created,
        "response.queued": reader.read_response,
        "response.in_progress": reader.read_response,
        "response.output_item.added": reader.read_item_added,
        "response.output_item.done": reader.read_item_done,
        "response.content_part.done": reader.read_part,
        "response.reasoning_summary_part.done": reader.read_part,
        "response.output_text.annotation.added": reader.read_annotation,
        "response.image_generation_call.partial_image": reader.read_partial_image,
        "response.done": partial(reader.read_end, word=""),
        "error": reader.read_error,
    }
    table |= {f"response.{word}": partial(reader.read_end, word=word) for word in ENDS}
    for name, (run, field) in _TEXTS.items():
        table[f"response.{name}.delta"] = partial(reader.read_delta, kind=run)
        table[f"response.{name}.done"] = partial(reader.read_whole, kind=run, field=field)
    for name, kind in _CALL_EVENTS.items():
        table[f"response.{name}.delta"] = partial(reader.read_call_delta, kind=kind)
        table[f"response.{name}.done"] = partial(reader.read_call_done, kind=kind)
    for name, (path, field) in _TOOL_TEXTS.items():
        table[f"response.{name}.delta"] = partial(reader.read_tool_delta, path=path)
        table[f"response.{name}.done"] = partial(reader.read_tool_whole, path=path, field=field)
    return table


_HANDLERS = _table()
