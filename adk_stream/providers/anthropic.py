"""Anthropic's Messages stream: events or SDK objects to StreamChunks.

Wire facts: Anthropic's documentation of streaming messages (``message_start``, ``content_block_start``,
``content_block_delta``, ``content_block_stop``, ``message_delta``, ``message_stop``, ``ping``, ``error``),
extended thinking, citations, the server tools, and the compaction and fallback betas; Amazon Bedrock's
``InvokeModelWithResponseStream``, which carries the same events in an envelope. A client must expect new
types of events, blocks and deltas at any time, the documentation says.

The index of a block is the index of its part. Text, thinking and client tools stream as such; every other
block is kept as the object it is, with what its deltas add. The way back is ``anthropic_native``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.metadata import merge_nested
from adk_stream.parts import Growth, StreamChunk, StreamedPart, StreamFault
from adk_stream.providers import DONE
from adk_stream.providers.anthropic_blocks import (
    DELTAS,
    STREAM,
    STREAMED,
    Block,
    call_delta,
    citations_of,
    cut_block,
    end_block,
    extend,
    is_repeat,
    open_block,
    takes,
)
from adk_stream.providers.anthropic_native import PROVIDER, to_native
from adk_stream.providers.objects import as_event
from adk_stream.wire import MAX_DEPTH, decode_json

__all__ = ["AnthropicReader", "to_native"]

_FINISH_REASONS = {
    "end_turn": "STOP",
    "stop_sequence": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "refusal": "SAFETY",
}

_MESSAGE_FIELDS = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage"}
)
_DELTA_EVENT_FIELDS = frozenset({"type", "delta", "usage"})
_STOP_EVENT_FIELDS = frozenset({"type", "message"})  # the SDK's own helper puts the message there

_NOTHING: tuple[StreamChunk, ...] = ()


class _Delta(msgspec.Struct, gc=False):
    """The fields of the commonest deltas; each has one of them."""

    type: str
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _DeltaEvent(msgspec.Struct, tag="content_block_delta", gc=False):
    index: int
    delta: _Delta


#: Bytes of an event that cannot be nested too deeply, whatever it holds.
_SHORT = 2 * MAX_DEPTH

_decode_delta = msgspec.json.Decoder(_DeltaEvent).decode

#: For each of their types: the block, the field, and what grows by its text.
_PLAIN_DELTAS = {
    "text_delta": (*DELTAS["text_delta"], "text"),
    "thinking_delta": (*DELTAS["thinking_delta"], "thought"),
    "input_json_delta": (*DELTAS["input_json_delta"], "arguments"),
}


class AnthropicReader(Snapshotted):
    """Reads the events of one Messages stream; see ``providers.Reader``."""

    message_id: str | None = None
    started: bool = False
    stopped: bool = False  # message_stop was seen
    stop_reason: str | None = None
    usage: dict[str, Any] = {}
    blocks: dict[int, Block] = {}  # by the wire's index
    taken: set[int] = set()  # the indexes of the parts
    top: int = -1  # the highest of them
    newest: int = 0  # the wire's index of the block that began last
    cited: list[dict[str, Any]] = []  # citations of texts that have ended, in the shared form
    held: list[Block] = []  # closed calls without input: whole if the model went on after them

    @property
    def ended(self) -> bool:
        """``message_stop`` came, and the stop reason."""
        return self.stopped and self.stop_reason is not None

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one event in wire form."""
        if event == DONE:
            return _NOTHING  # some servers end with the [DONE] of another line
        kind: Any = event.get("type") or name
        if kind == "content_block_delta":
            return self._read_delta(event.get("index"), event.get("delta"))
        read = _EVENTS.get(kind)
        return read(self, event) if read is not None else self._read_odd(event)

    def read_bytes(self, data: bytes) -> Sequence[StreamChunk] | None:
        """``read`` of a delta that goes on with its block, from its payload; None for any other event."""
        growth = self.grow_bytes(data)
        return None if growth is None else (growth.chunk(),)

    def grow_bytes(self, data: bytes) -> Growth | None:
        """The same, as the text that its part grows by."""
        if len(data) > _SHORT:
            return None
        try:
            event = _decode_delta(data)
        except (msgspec.DecodeError, RecursionError):
            return None
        return self._growth(event.index, event.delta)

    def grow_object(self, event: Any) -> Growth | None:
        """The same of an event of the ``anthropic`` SDK; None for any other event."""
        if getattr(event, "type", None) != "content_block_delta":
            return None
        return self._growth(event.index, event.delta)

    def _growth(self, at: int, delta: Any) -> Growth | None:
        """What a block grows by: of the SDK's delta, or of our own with the same names."""
        block = self.blocks.get(at)
        plain = _PLAIN_DELTAS.get(delta.type)
        if plain is None or block is None:
            return None
        home, field, kind = plain
        value = getattr(delta, field, None)
        if not value or type(value) is not str or block.kind != home:
            return None
        if kind != "arguments":
            return Growth(block.index, value, kind)
        if block.closed:
            return None
        block.streamed = block.streamed or not value.isspace()
        return Growth(block.index, value, kind, (block.fields.get("id"), block.fields.get("name")))

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of an event of the ``anthropic`` SDK (or of boto3), read as it is."""
        return self.read(as_event(event))

    def close(self) -> Sequence[StreamChunk]:
        """What had come of blocks that never ended."""
        parts = [part for block in self.blocks.values() for part in self._cut(block)]
        return (self._chunk(parts),) if parts else _NOTHING

    def _cut(self, block: Block) -> list[StreamedPart]:
        parts = cut_block(block)
        self.cited += citations_of(block) if parts else ()
        return parts

    def _chunk(self, parts: Sequence[StreamedPart]) -> StreamChunk:
        """A chunk of these parts, with the citations that their ends brought."""
        found, self.cited = self.cited, []
        return StreamChunk(parts, metadata={"citation_metadata": {"citations": found}} if found else None)

    # ------------------------------------------------------------- the message

    def _read_start(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        """A new message, or once more the start of the one that is open."""
        message = event.get("message") or {}
        message_id = message.get("id") or None
        same = message_id is None or self.message_id in (None, message_id)
        again = self.started and same and not (self.stopped and message_id is None)
        before = self._leave_message() if self.started and not again else _NOTHING
        self.started = True
        self.message_id = message_id or self.message_id
        if again:  # what has come since is newer
            chunk = StreamChunk(response_id=message_id)
            self._take_usage(chunk, merge_nested(message.get("usage"), self.usage))
            return (chunk,)
        blocks = message.get("content") or ()
        parts = [part for at, block in enumerate(blocks) for part in self._whole(at, block)]
        chunk = self._chunk(parts)
        chunk.response_id, chunk.model_version = message_id, message.get("model")
        self._take_usage(chunk, message.get("usage"))
        self._take_end(chunk, message)
        _keep(chunk, message, _MESSAGE_FIELDS)
        return (*before, chunk)

    def _leave_message(self) -> Sequence[StreamChunk]:
        """Another message begins in the same stream: give what this one still holds, and forget it."""
        parts = self._let_go(natural=True)
        before = (*((StreamChunk(parts),) if parts else ()), *self.close())
        self.blocks, self.taken, self.top, self.usage = {}, set(), -1, {}
        self.stopped, self.stop_reason = False, None
        return before

    def _read_message(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        """A whole message, as an answer that was not streamed holds it."""
        return (*self._read_start({"message": event}), *self._read_stop({}))

    def _whole(self, at: int, block: Any) -> list[StreamedPart]:
        parts = self._open(at, block)
        if at in self.blocks:
            parts += self._end(self.blocks[at])
        return parts + self._let_go(natural=True)

    def _read_message_delta(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        chunk = StreamChunk()
        self._take_usage(chunk, event.get("usage"))
        delta = event.get("delta") or {}
        self._take_end(chunk, delta)
        _keep(chunk, delta, _MESSAGE_FIELDS)
        _keep(chunk, event, _DELTA_EVENT_FIELDS)
        return (chunk,)

    def _read_stop(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        """The end, if a stop reason came; else one may still come."""
        self.stopped = True
        chunk = StreamChunk(terminal=self.stop_reason is not None)
        _keep(chunk, event, _STOP_EVENT_FIELDS)
        return (chunk,)

    def _take_end(self, chunk: StreamChunk, source: Mapping[str, Any]) -> None:
        told = {key: source[key] for key in ("stop_sequence", "stop_details") if source.get(key) is not None}
        if told:
            _add_metadata(chunk, told)
        reason = source.get("stop_reason")
        if not reason:
            return
        self.stop_reason = chunk.native_finish_reason = str(reason)
        chunk.finish_reason = _FINISH_REASONS.get(self.stop_reason, "OTHER")
        details = told.get("stop_details")
        chunk.finish_message = details.get("explanation") if isinstance(details, Mapping) else None
        chunk.terminal = self.stopped
        chunk.parts = [*chunk.parts, *self._let_go(natural=chunk.finish_reason == "STOP")]

    def _take_usage(self, chunk: StreamChunk, usage: Any) -> None:
        """Counts are running totals of the message, so each one's last value stands."""
        if not usage:
            return
        merged = merge_nested(self.usage, usage)
        if merged != self.usage:
            self.usage = merged
            chunk.usage_metadata = _counts(merged)
            chunk.provider_metadata = {**(chunk.provider_metadata or {}), "usage": merged}

    # ------------------------------------------------------------- the blocks

    def _read_block_start(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        block = event.get("content_block")
        if not block:
            return _NOTHING  # its deltas will tell what it is
        at = event.get("index")
        at = len(self.blocks) if at is None else int(at)
        parts = self._let_go(natural=True) + self._open(at, block)
        chunk = self._chunk(parts)
        if block.get("type") == "fallback":  # from here on another model speaks
            chunk.model_version = (block.get("to") or {}).get("model")
        return (chunk,)

    def _open(self, at: int, start: Mapping[str, Any]) -> list[StreamedPart]:
        kind = start.get("type")
        if not kind:
            return []
        old = self.blocks.get(at)
        if old is not None and is_repeat(old, start):
            return []
        parts = [] if old is None else self._cut(old)
        block = self._new(at, str(kind))
        return parts + open_block(block, start)

    def _new(self, at: int, kind: str) -> Block:
        """A block at its own index, or behind all others where a server uses one index again."""
        block = Block(kind, self.top + 1 if at in self.taken else at)
        self.taken.add(block.index)
        self.top = max(self.top, block.index)
        self.newest = at
        self.blocks[at] = block
        return block

    def _read_delta(self, at: Any, delta: Any) -> Sequence[StreamChunk]:
        if not delta:
            return _NOTHING
        kind = delta.get("type")
        block = self.blocks.get(at)
        if block is None:
            at = self._place(at)
            block = self.blocks.get(at)
        if kind in DELTAS:
            home, field = DELTAS[kind]
            value = delta.get(field)
            if block is None or (block.kind != home and block.kind in STREAMED and home in STREAMED):
                if value in (None, ""):
                    return _NOTHING
                # the start was lost, or a server puts two kinds under one index
                block = self._new(at, home)
            if block.kind in STREAMED:
                return _NOTHING if value in (None, "") else (STREAM[kind](block, value),)
        if block is not None and not block.closed and takes(block.kind, kind):
            extend(block, delta)
        return _NOTHING

    def _place(self, at: Any) -> int:
        """The wire's index of a block; without one it is the newest that is meant."""
        return self.newest if at is None else int(at)

    def _read_block_stop(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        block = self.blocks.get(self._place(event.get("index")))
        parts = [] if block is None else self._end(block)
        return (self._chunk(parts),) if parts else _NOTHING

    def _end(self, block: Block) -> list[StreamedPart]:
        if block.closed:
            return []
        parts = end_block(block)
        if parts is None:
            self.held.append(block)
        self.cited += citations_of(block)
        return parts or []

    def _let_go(self, natural: bool) -> list[StreamedPart]:
        """Calls that closed without any input. The model went on, or ended by itself: nothing is missing.

        A model that was stopped may have been stopped at their first character: they stay unfinished, with
        the empty input that the wire showed.
        """
        if not self.held:
            return []
        held, self.held = self.held, []
        if natural:
            return [StreamedPart(call_delta(block, args={}), block.index) for block in held]
        return [StreamedPart(call_delta(block), block.index, True, "{}") for block in held]

    # ------------------------------------------------------------- errors, envelopes

    def _read_error(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        """``{"type": "error", "error": {"type": …, "message": …}}``, also as a whole body."""
        return (*self.close(), _fault(event.get("error") or event.get("message"), event))

    def _read_odd(self, event: Mapping[str, Any]) -> Sequence[StreamChunk]:
        """An event without a known type: an error, Bedrock's envelope, or nothing to us."""
        if event.get("error"):
            return self._read_error(event)
        if "type" in event:
            return _NOTHING
        if isinstance(event.get("content"), list):
            return self._read_message(event)
        envelope = event.get("chunk", event)
        payload = envelope.get("bytes") if isinstance(envelope, Mapping) else None
        if payload:
            return self.read(decode_json(_payload(payload)))
        for key, value in event.items():
            if key.endswith("Exception") and isinstance(value, Mapping):  # Bedrock's errors inside the stream
                return (*self.close(), _fault({"type": key, **value}, {}))
        return _NOTHING


_EVENTS = {
    "message_start": AnthropicReader._read_start,
    "content_block_start": AnthropicReader._read_block_start,
    "content_block_stop": AnthropicReader._read_block_stop,
    "message_delta": AnthropicReader._read_message_delta,
    "message_stop": AnthropicReader._read_stop,
    "message": AnthropicReader._read_message,
    "error": AnthropicReader._read_error,
}


# ----------------------------------------------------------------- small things


def _keep(chunk: StreamChunk, source: Mapping[str, Any], known: frozenset[str]) -> None:
    """Keep the fields that no field of ours holds."""
    if source.keys() <= known:
        return
    extras = {key: value for key, value in source.items() if key not in known and value is not None}
    if extras:
        _add_metadata(chunk, extras)


def _add_metadata(chunk: StreamChunk, extras: dict[str, Any]) -> None:
    chunk.provider_metadata = merge_nested(chunk.provider_metadata or {}, {PROVIDER: extras})


def _counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The shared counters: Anthropic's input leaves out what was read from and written to its cache."""
    inputs = [usage.get(f"{kind}input_tokens") for kind in ("", "cache_read_", "cache_creation_")]
    prompt = sum(filter(None, inputs)) if any(count is not None for count in inputs) else None
    output = usage.get("output_tokens")
    thoughts = (usage.get("output_tokens_details") or {}).get("thinking_tokens")
    if thoughts is not None and output is not None:
        thoughts = min(thoughts, output)  # of an older snapshot than the output
    counts = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": inputs[1],
        "candidatesTokenCount": output - (thoughts or 0) if output is not None else None,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": (prompt or 0) + (output or 0),
    }
    return {key: value for key, value in counts.items() if value is not None}


def _fault(error: Any, event: Mapping[str, Any]) -> StreamChunk:
    """The provider's error; Vertex AI and gateways write ``status`` or ``code`` for ``type``."""
    beside = {key: value for key, value in event.items() if key != "type" and value is not None}
    metadata = {PROVIDER: {**beside, "error": error}}
    if not isinstance(error, Mapping):
        return StreamChunk(error=StreamFault("error", str(error or "") or None), provider_metadata=metadata)
    code = error.get("type") or error.get("status") or error.get("code")
    message = error.get("message")
    fault = StreamFault("error" if code is None else str(code), None if message is None else str(message))
    return StreamChunk(error=fault, provider_metadata=metadata)


def _payload(data: Any) -> bytes:
    """The event inside Bedrock's envelope: bytes as boto3 gives them, or base64 as the wire has it."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        data = bytes(data)
        return data if data.lstrip().startswith(b"{") else base64.b64decode(data)
    return base64.b64decode(data)
