"""The content blocks of a Messages stream: how each kind begins, goes on and ends.

Text, thinking and client tools become deltas of their parts as they stream. Every other block (tools that
the provider runs, their results, compaction, whatever comes tomorrow) is kept as the object it is, and
becomes a part when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from adk_stream.arguments import parse_arguments
from adk_stream.parts import CallDelta, PartDelta, StreamChunk, StreamedPart, Text
from adk_stream.providers.anthropic_native import PROVIDER, is_server_tool

__all__ = [
    "DELTAS",
    "STREAM",
    "STREAMED",
    "Block",
    "call_delta",
    "citations_of",
    "cut_block",
    "end_block",
    "extend",
    "is_repeat",
    "open_block",
    "takes",
]

#: The block a delta speaks of, and the field it adds to.
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citation"),
    "input_json_delta": ("tool_use", "partial_json"),
    "compaction_delta": ("compaction", "content"),
}

#: Blocks whose parts stream; these take the deltas of the table above and no others.
STREAMED = frozenset({"text", "thinking", "tool_use"})

#: Blocks that are kept whole and have a form we know: a delta of an unknown type says nothing about them.
_KNOWN_WHOLE = frozenset({"server_tool_use", "mcp_tool_use", "compaction", "fallback", "container_upload"})


class Block(msgspec.Struct):
    """A block that has begun.

    Attributes:
        kind: Its ``type``.
        index: Its part's place.
        fields: What it said of itself at its start and does not stream.
        pieces: The strings that its deltas add to, of a block that is kept whole.
        citations: Those that came so far.
        streamed: The input of a tool has begun to come in fragments.
        closed: Its end was seen.
    """

    kind: str
    index: int
    fields: dict[str, Any] = {}
    pieces: dict[str, Text] = {}
    citations: list[Any] = []
    streamed: bool = False
    closed: bool = False


# ----------------------------------------------------------------- how a block begins


def open_block(block: Block, start: Mapping[str, Any]) -> list[StreamedPart]:
    """What the block's first object (its fields, or all of it) says already."""
    fields = {key: value for key, value in start.items() if value is not None}
    return _OPENERS.get(block.kind, _open_whole)(block, fields)


def _open_text(block: Block, fields: dict[str, Any]) -> list[StreamedPart]:
    text, citations = fields.get("text"), fields.get("citations")
    block.citations = list(citations or ())
    extras = _extras(fields, "text", "citations")
    if not text and not extras:
        return []
    return [StreamedPart(PartDelta(_string(text or ""), part_metadata=_keyed(extras)), block.index, True)]


def _open_thinking(block: Block, fields: dict[str, Any]) -> list[StreamedPart]:
    extras = _extras(fields, "thinking", "signature")
    if "signature" not in fields:
        extras["unsigned"] = True  # a compatible server that has no such field
    text, signature = fields.get("thinking"), fields.get("signature")
    if not (text or signature or extras):
        return []
    delta = PartDelta(_string(text or ""), True, _opaque(signature), part_metadata=_keyed(extras))
    return [StreamedPart(delta, block.index, True)]


def _open_redacted(block: Block, fields: dict[str, Any]) -> list[StreamedPart]:
    """Thinking that only Anthropic can read: a thought part with the opaque value alone."""
    metadata = _keyed({"type": block.kind, **_extras(fields, "data")})
    block.closed = True
    delta = PartDelta(None, True, _opaque(fields.get("data")), part_metadata=metadata)
    return [StreamedPart(delta, block.index)]


def _open_call(block: Block, fields: dict[str, Any]) -> list[StreamedPart]:
    block.fields = {key: _string(fields[key]) for key in ("id", "name") if fields.get(key)}
    if fields.get("input"):
        block.fields["input"] = fields["input"]
    metadata = _keyed(_extras(fields, "id", "name", "input"))
    return [StreamedPart(call_delta(block, metadata=metadata), block.index, True)]


def _open_whole(block: Block, fields: dict[str, Any]) -> list[StreamedPart]:
    block.fields = fields
    return []


_OPENERS = {
    "text": _open_text,
    "thinking": _open_thinking,
    "redacted_thinking": _open_redacted,
    "tool_use": _open_call,
}


def is_repeat(block: Block, start: Mapping[str, Any]) -> bool:
    """Is this the start of the block that has begun there, once more?"""
    if block.kind != start.get("type"):
        return False
    identity = _identity(start)
    return _identity(block.fields) == identity if identity else not block.closed


def _identity(fields: Mapping[str, Any]) -> Any:
    return fields.get("id") or fields.get("tool_use_id")


# ----------------------------------------------------------------- how a block goes on


def _stream_text(block: Block, text: str) -> StreamChunk:
    return StreamChunk((StreamedPart(PartDelta(text), block.index, True),))


def _stream_thinking(block: Block, thought: str) -> StreamChunk:
    return StreamChunk((StreamedPart(PartDelta(thought, True), block.index, True),))


def _stream_signature(block: Block, value: Any) -> StreamChunk:
    return StreamChunk((StreamedPart(PartDelta("", True, _opaque(value)), block.index, True),))


def _stream_input(block: Block, fragment: str) -> StreamChunk:
    if block.closed:
        return StreamChunk()  # the call was told to be whole, and may be running
    block.streamed = block.streamed or not fragment.isspace()
    return StreamChunk((StreamedPart(call_delta(block), block.index, True, fragment),))


def _checked(stream: Callable[[Block, str], StreamChunk]) -> Callable[[Block, Any], StreamChunk]:
    """The same, of a value that may be anything."""
    return lambda block, value: stream(block, _string(value))


def _stream_citation(block: Block, value: Any) -> StreamChunk:
    """Kept until the text ends: adding to the list that a part holds would copy it each time."""
    block.citations.append(value)
    block.closed = False
    return StreamChunk()


#: What a delta of each type adds to a block that streams, from the value it brings.
STREAM: dict[str, Callable[[Block, Any], StreamChunk]] = {
    "signature_delta": _stream_signature,
    "citations_delta": _stream_citation,
    "text_delta": _checked(_stream_text),
    "thinking_delta": _checked(_stream_thinking),
    "input_json_delta": _checked(_stream_input),
}


def extend(block: Block, delta: Mapping[str, Any]) -> None:
    """Add a delta to a block that is kept whole: strings go on, citations are collected, else it replaces."""
    for key, value in delta.items():
        if key == "type" or value is None:
            continue
        if key == "citation":
            block.citations.append(value)
        elif isinstance(value, str):
            if key not in block.pieces:
                given = block.fields.get(key)
                block.pieces[key] = Text(fragments=[given] if isinstance(given, str) else [])
            block.pieces[key].append(value)
        else:
            block.fields[key] = value


def takes(block_kind: str, delta_kind: Any) -> bool:
    """Does a block that is kept whole take this delta? New kinds of blocks may have new deltas."""
    return block_kind not in STREAMED and (delta_kind in DELTAS or block_kind not in _KNOWN_WHOLE)


def citations_of(block: Block) -> list[dict[str, Any]]:
    """The citations of a text, in the shared form."""
    return [_citation(block, each) for each in block.citations] if block.kind == "text" else []


def _citation(block: Block, citation: Any) -> dict[str, Any]:
    """A citation in wire form of google-genai, with the quote and the block beside.

    Offsets count characters of the cited document, as Anthropic gives them; there is no field for pages.
    """
    if not isinstance(citation, Mapping):
        return {"blockIndex": block.index, "citation": citation}
    fields = {
        "uri": citation.get("url") or citation.get("source"),
        "title": citation.get("title") or citation.get("document_title"),
        "startIndex": citation.get("start_char_index"),
        "endIndex": citation.get("end_char_index"),
        "citedText": citation.get("cited_text"),
        "blockIndex": block.index,
    }
    return {key: value for key, value in fields.items() if value is not None}


# ----------------------------------------------------------------- how a block ends


def cut_block(block: Block) -> list[StreamedPart]:
    """A block that never ended, as far as it came; of those that stream the assembler has the most."""
    if block.closed:
        return []
    block.closed = True
    return _cited(block) if block.kind in STREAMED else [_whole_part(block, unfinished=True)]


def _cited(block: Block) -> list[StreamedPart]:
    """The citations of a text as they came, for the way back."""
    if not block.citations:
        return []
    metadata = _keyed({"citations": block.citations.copy()})
    return [StreamedPart(PartDelta("", part_metadata=metadata), block.index, True)]


def call_delta(block: Block, args: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None) -> PartDelta:
    """What is known of the call so far."""
    call = CallDelta(block.fields.get("id"), block.fields.get("name"), args)
    return PartDelta(function_call=call, part_metadata=metadata)


def end_block(block: Block) -> list[StreamedPart] | None:
    """The part that the block's end makes complete, if any; None for a call of which no input has come."""
    block.closed = True
    if block.kind not in STREAMED:
        return [_whole_part(block)]
    if block.kind != "tool_use":
        return _cited(block)
    return [_whole_call(block)] if block.streamed or block.fields.get("input") else None


def _whole_call(block: Block) -> StreamedPart:
    """A call at its end: the fragments count, or else the input that came with its start."""
    given = block.fields.pop("input", None)
    if block.streamed:
        return StreamedPart(call_delta(block), block.index)
    if isinstance(given, dict):
        return StreamedPart(call_delta(block, args=given), block.index)
    text = given if isinstance(given, str) else json.dumps(given)
    return StreamedPart(call_delta(block), block.index, False, text)


def _whole_part(block: Block, unfinished: bool = False) -> StreamedPart:
    """A block as the object it is: a tool that the provider runs, its result, or anything else."""
    fields, metadata = block.fields, dict[str, Any]()
    raw = block.pieces.pop("partial_json", Text()).join()
    fields.update((key, text.join()) for key, text in block.pieces.items())
    if block.citations:
        fields["citations"] = [*(fields.get("citations") or ()), *block.citations]
    if raw.strip():
        given = parse_arguments(raw)
        if given is None:
            metadata["raw_arguments"] = raw
        else:
            fields["input"] = given
    if unfinished:
        metadata["unfinished"] = True
    block.fields = {key: fields[key] for key in ("id", "tool_use_id") if key in fields}
    block.pieces, block.citations = {}, []
    if is_server_tool(block.kind):
        metadata["server_tool"] = fields
    else:
        metadata[PROVIDER] = {"block": fields}
    return StreamedPart(PartDelta(whole={"partMetadata": metadata}, provider=PROVIDER), block.index)


# ----------------------------------------------------------------- small things


def _string(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"a text is a {type(value).__name__}")
    return value


def _opaque(value: Any) -> bytes | None:
    """An opaque value as the bytes of the wire's string."""
    return _string(value).encode("utf-8", "surrogatepass") if value else None


def _extras(fields: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "type" and key not in known}


def _keyed(extras: dict[str, Any]) -> dict[str, Any] | None:
    return {PROVIDER: extras} if extras else None
