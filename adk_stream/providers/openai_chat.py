"""OpenAI Chat Completions, and the servers that say they are compatible: chunks to StreamChunks.

Wire facts: OpenAI's API reference (chat.completion.chunk), and what some thirty compatible servers were seen to
send. A chunk has no part indexes: runs of reasoning and text are numbered by arrival, each tool call at its first
fragment. ``data: [DONE]`` ends the stream; after content it does so even where no finish reason came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.indexer import StreamingPartIndexer
from adk_stream.metadata import merge_nested
from adk_stream.parts import CallDelta, Growth, PartDelta, StreamChunk, StreamedPart, TranscriptDelta
from adk_stream.providers import DONE
from adk_stream.providers.gemini import decode_base64
from adk_stream.providers.objects import as_event
from adk_stream.providers.openai_chat_calls import Call, Calls, Fragment, join_pieces
from adk_stream.providers.openai_chat_facts import (
    FINISHES,
    citations_of,
    counts_anything,
    fault_of,
    logprobs_of,
    merge_usage,
    usage_counts,
)
from adk_stream.providers.openai_chat_native import to_native
from adk_stream.providers.openai_chat_think import ThinkSplitter, inlines_thinking

__all__ = ["ChatReader", "to_native"]

PROVIDER = "openai-chat"

#: Names under which servers stream reasoning as a string, in the order of trust; one delta may bear several.
_REASONING = ("reasoning_content", "reasoning", "thinking")

_PLAIN_CHUNK = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation"}
)
#: Not kept: what has a field of its own, and padding against traffic analysis (OpenAI's, Mistral's).
_OWN_FIELDS = frozenset({"id", "object", "model", "choices", "usage", "obfuscation", "p", "error", "citations"})
_PLAIN_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})
_KNOWN_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs", "message", "usage", "text", "error"})
_PLAIN_DELTA = frozenset({"content", "role"})
_KNOWN_DELTA = frozenset(
    {
        "content",
        "role",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "annotations",
        "reasoning_details",
        "images",
        "extra_content",
        "executed_tools",
        "token_id",  # of this chunk alone
        *_REASONING,
    }
)

#: The mime type of the audio that OpenAI streams (``pcm16``: 24 kHz, one channel, little endian).
_AUDIO_TYPE = "audio/pcm;rate=24000"


class _Choice(msgspec.Struct):
    """What is known of one choice."""

    indexer: StreamingPartIndexer = msgspec.field(default_factory=StreamingPartIndexer)
    calls: Calls = msgspec.field(default_factory=Calls)
    splitter: ThinkSplitter | None = None
    streamed: bool = False  # a delta brought content; a whole ``message`` is a copy then
    finished: bool = False
    natural: bool = False  # its end, so far as it came, is one that closes calls
    details: dict[int, dict[str, Any]] = {}  # by part index: what the part tells for the provider's own message
    tools: dict[str, int] = {}  # part indexes of the server's own tools, by their number
    audio_rest: str = ""  # base64 digits that make no whole byte yet
    sealed: int = -1  # index of a part that holds nothing but the newest signature


class ChatReader(Snapshotted):
    """Reads the chunks of one Chat Completions stream; see ``providers.Reader``.

    Attributes:
        think_tags: Take ``<think>`` tags out of the text; None: where the model is known to write them.
    """

    think_tags: bool | None = None
    choices: dict[int, _Choice] = {}
    response_id: str | None = None
    model: str | None = None
    usage: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    annotations: list[Any] = []
    citations: list[Any] = []
    done: bool = False

    @property
    def ended(self) -> bool:
        """``[DONE]`` came; after a finish reason alone, the usage may still come."""
        return self.done

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one event: one for each choice, and what concerns all of them on the first."""
        if self.done:
            return ()
        if event == DONE:
            return self._read_done()
        if event is None:
            return ()
        fault = None if event.get("choices") and "error" not in event else fault_of(event)
        first = StreamChunk()
        if fault is None or event.get("error"):
            self._read_head(first, event)
        chunks = [first]
        for number, choice in enumerate(event.get("choices") or ()):
            if number:
                chunks.append(StreamChunk(response_id=self.response_id))
            if choice:
                self._read_choice(chunks[-1], choice)
        if fault is not None:  # last, so that what came with it is kept
            told = {PROVIDER: {"error": event.get("error") or dict(event)}}
            chunks.append(StreamChunk(error=fault, provider_metadata=told))
        return chunks

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of an ``openai`` ChatCompletionChunk, read as it is."""
        return self.read(as_event(event))

    def grow_bytes(self, data: bytes) -> Growth | None:
        """``read`` of text or arguments that go on, from their payload; None for any other event."""
        try:
            return self._growth(_decode_chunk(data))
        except (msgspec.DecodeError, RecursionError):
            return None

    def grow_object(self, event: Any) -> Growth | None:
        """The same of an ``openai`` ChatCompletionChunk; None for any other event."""
        try:
            if not _is_plain(event, _PLAIN_CHUNK):
                return None
            (choice,) = event.choices
            if not _is_plain(choice, _PLAIN_CHOICE) or not _is_plain(choice.delta, _GROWING_DELTA):
                return None
            for call in choice.delta.tool_calls or ():
                if not _is_plain(call, _GROWING_CALL) or not _is_plain(call.function, _GROWING_FUNCTION):
                    return None
            return self._growth(event)
        except (AttributeError, TypeError, ValueError):  # the SDK checks nothing: ``read`` will tell what is wrong
            return None

    def _growth(self, event: Any) -> Growth | None:
        """What a part grows by: of the SDK's chunk, or of our own with the same names."""
        if self.done or not self.extras or event.usage is not None or (event.model and event.model != self.model):
            return None
        if self.response_id is None and event.id:
            return None
        wire = event.choices[0]
        choice = self.choices.get(wire.index)
        if choice is None or wire.finish_reason or wire.logprobs:
            return None
        delta = wire.delta
        content, calls = delta.content, delta.tool_calls
        if delta.refusal or delta.function_call:
            return None
        if calls:
            growth = None if content else _call_growth(choice.calls, calls)
        elif content and type(content) is str and choice.splitter is None and choice.indexer.run == "text":
            growth = Growth(choice.indexer.run_index, content)
        else:
            return None
        if growth is not None:
            growth.candidate_index = wire.index
        return growth

    def close(self) -> Sequence[StreamChunk]:
        """What was held back: half a tag, and calls whose last words might still have come after a natural end."""
        rests = ((index, self._rest(choice)) for index, choice in self.choices.items())
        return [StreamChunk(parts, candidate_index=index) for index, parts in rests if parts]

    def _rest(self, choice: _Choice) -> list[StreamedPart]:
        calls = choice.calls.take_rest() if choice.natural else ()
        return [*self._release(choice), *_closed(calls)]

    # ------------------------------------------------------------- the chunk

    def _read_head(self, chunk: StreamChunk, event: Mapping[str, Any]) -> None:
        if self.response_id is None and event.get("id"):
            self.response_id = str(event["id"])  # servers that change it in mid-stream still send one response
        chunk.response_id = self.response_id
        if event.get("model"):
            self.model = chunk.model_version = event["model"]
        usage = event.get("usage")
        if usage:
            self._read_usage(chunk, usage)
        if not self.extras or not event.keys() <= _PLAIN_CHUNK:
            self._read_rare(chunk, event)

    def _read_rare(self, chunk: StreamChunk, event: Mapping[str, Any]) -> None:
        extras = {key: value for key, value in event.items() if key not in _OWN_FIELDS and value is not None}
        news = {key: value for key, value in extras.items() if self.extras.get(key) != value}
        if news:
            self.extras = {**self.extras, **news}
            _beside(chunk, news)
        groq = event.get("x_groq")
        if isinstance(groq, Mapping) and groq.get("usage"):
            self._read_usage(chunk, groq["usage"])
        citations = event.get("citations")
        if isinstance(citations, list) and citations != self.citations:
            self.citations = citations
            _beside(chunk, {"citations": citations})
            chunk.metadata = {"citation_metadata": {"citations": citations_of(citations)}}

    def _read_usage(self, chunk: StreamChunk, usage: Any) -> None:
        if not counts_anything(usage):
            return
        self.usage = merge_usage(self.usage, usage)
        chunk.usage_metadata = usage_counts(self.usage)
        chunk.provider_metadata = {**(chunk.provider_metadata or {}), "usage": self.usage}

    def _read_done(self) -> Sequence[StreamChunk]:
        self.done = True
        chunks = []
        for index, choice in self.choices.items():
            if not choice.finished:
                choice.natural = choice.streamed
            chunk = StreamChunk(self._rest(choice), candidate_index=index, response_id=self.response_id)
            if not choice.finished and choice.streamed:
                chunk.finish_reason, chunk.terminal = "STOP", True
            chunks.append(chunk)
        return chunks

    # ------------------------------------------------------------- a choice

    def _choice(self, index: int) -> _Choice:
        choice = self.choices.get(index)
        if choice is None:
            choice = self.choices[index] = _Choice()
            if self.think_tags or (self.think_tags is None and inlines_thinking(self.model)):
                choice.splitter = ThinkSplitter(anywhere=bool(self.think_tags))
        return choice

    def _read_choice(self, chunk: StreamChunk, wire: Mapping[str, Any]) -> None:
        chunk.candidate_index = index = int(wire.get("index") or 0)
        choice = self._choice(index)
        delta = wire.get("delta")
        if not wire.keys() <= _PLAIN_CHOICE:
            self._read_rare_choice(chunk, wire)
            delta = _content_of(wire, choice)
        if delta:
            content = delta.get("content")
            if type(content) is str and choice.splitter is None and delta.keys() <= _PLAIN_DELTA:
                if content:
                    choice.streamed = True
                    text = PartDelta(content)
                    chunk.parts = (StreamedPart(text, choice.indexer.text_index("text", text), True),)
            else:
                only_calls = len(delta) == 1 and delta.get("tool_calls")
                parts = self._calls(choice, only_calls) if only_calls else self._read_delta(chunk, choice, delta)
                choice.streamed = choice.streamed or bool(parts)
                chunk.parts = parts
        if wire.get("logprobs"):
            result = logprobs_of(wire["logprobs"])
            if result is not None:
                chunk.metadata = {**(chunk.metadata or {}), "logprobs_result": result}
        if wire.get("finish_reason"):
            self._finish(chunk, choice, wire["finish_reason"])

    def _read_rare_choice(self, chunk: StreamChunk, wire: Mapping[str, Any]) -> None:
        if wire.get("usage"):
            self._read_usage(chunk, wire["usage"])
        if wire.get("error"):
            chunk.error = fault_of(wire)
        extras = {key: value for key, value in wire.items() if key not in _KNOWN_CHOICE and value is not None}
        if extras:
            _beside(chunk, extras)

    def _finish(self, chunk: StreamChunk, choice: _Choice, reason: Any) -> None:
        word = str(reason)
        chunk.native_finish_reason = word
        chunk.finish_reason = FINISHES.get(word.lower(), "OTHER")
        chunk.terminal = choice.finished = True
        choice.natural = chunk.finish_reason == "STOP"
        if choice.natural:
            chunk.parts = [*chunk.parts, *_closed(choice.calls.take_ready())]

    # ------------------------------------------------------------- a delta

    def _read_delta(self, chunk: StreamChunk, choice: _Choice, delta: Mapping[str, Any]) -> list[StreamedPart]:
        """Reasoning, text, refusal, audio, images, calls: in this order within one delta."""
        parts = _reasoning(choice, delta)
        if delta.get("extra_content"):
            parts += self._sealed(choice, delta.get("content"), delta["extra_content"])
        else:
            parts += self._content(choice, delta.get("content"))
        refusal = delta.get("refusal")
        if refusal:
            parts.append(_run(choice, "refusal", PartDelta(_string(refusal), part_metadata={"refusal": True})))
        if delta.get("audio"):
            parts += _audio(chunk, choice, delta["audio"])
        if delta.get("annotations"):
            self._read_annotations(chunk, delta["annotations"])
        for image in delta.get("images") or ():
            choice.indexer.end_run()
            parts.append(StreamedPart(PartDelta(whole=_image(image)), choice.indexer.next_index()))
        for tool in delta.get("executed_tools") or ():
            parts.append(_server_tool(choice, tool))
        if delta.get("tool_calls"):
            parts += self._calls(choice, delta["tool_calls"])
        if delta.get("function_call"):  # the form before tools
            parts += self._calls(choice, (delta["function_call"],), is_old=True)
        extras = {key: value for key, value in delta.items() if key not in _KNOWN_DELTA and value is not None}
        if extras:
            _beside(chunk, {"delta": extras})
        return parts

    def _content(self, choice: _Choice, content: Any) -> list[StreamedPart]:
        if isinstance(content, str):
            return self._text(choice, content)
        if not isinstance(content, list):
            return []
        parts = []
        for item in content:  # Mistral's reasoning models
            if item.get("type") == "text":
                parts += self._text(choice, _string(item.get("text") or ""))
            elif item.get("type") == "thinking":
                inner = item.get("thinking") or ()
                thought = inner if isinstance(inner, str) else "".join(each.get("text") or "" for each in inner)
                rest = {k: v for k, v in item.items() if k not in ("type", "thinking") and v is not None}
                if thought:
                    parts.append(_thought(choice, thought, "thought", {"field": "content"}, rest))
            elif item:  # a reference, an image, …: as it came
                choice.indexer.end_run()
                whole = {"partMetadata": {PROVIDER: {"content": item}}}
                parts.append(StreamedPart(PartDelta(whole=whole), choice.indexer.next_index()))
        return parts

    def _sealed(self, choice: _Choice, content: Any, extra: Any) -> list[StreamedPart]:
        """Text with a signature (Gemini over this line): a part of its own, with the signature as it came.

        A signature that comes alone is a part of its own too, and so are the pieces of one together.
        """
        indexer = choice.indexer
        text = content if isinstance(content, str) and content else None
        if text is None and choice.sealed == indexer.index:
            known = choice.details[choice.sealed]
        else:
            indexer.end_run()
            choice.sealed, known = indexer.next_index(), {}
        told = choice.details[choice.sealed] = join_pieces(known, extra)
        if text is not None:
            place, choice.sealed = choice.sealed, -1
        else:
            place = choice.sealed
        return [StreamedPart(PartDelta(text, part_metadata={PROVIDER: {"extra_content": told}}), place, True)]

    def _text(self, choice: _Choice, text: str) -> list[StreamedPart]:
        if not text:
            return []
        if choice.splitter is None:
            return [_run(choice, "text", PartDelta(text))]
        return _split_runs(choice, choice.splitter.feed(text))

    def _release(self, choice: _Choice) -> list[StreamedPart]:
        return [] if choice.splitter is None else _split_runs(choice, choice.splitter.close())

    def _read_annotations(self, chunk: StreamChunk, annotations: Any) -> None:
        news = [each for each in annotations if each not in self.annotations]
        if not news:
            return
        self.annotations = [*self.annotations, *news]
        _beside(chunk, {"annotations": self.annotations})
        chunk.metadata = {**(chunk.metadata or {}), "citation_metadata": {"citations": citations_of(news)}}

    # ------------------------------------------------------------- tool calls

    def _calls(self, choice: _Choice, entries: Sequence[Any], is_old: bool = False) -> list[StreamedPart]:
        parts: list[StreamedPart] = []
        touched: set[int] = set()
        for entry in entries:
            if not entry:
                continue
            fragment = Fragment.read(entry, is_old)
            taken = choice.calls.take(fragment, touched)
            if taken is None:
                continue
            call, text, opened = taken
            if opened:
                call.index = choice.indexer.next_index()
                parts += _closed(choice.calls.take_ready(but=call.number))
            if not (call.complete or fragment.says_nothing):
                parts.append(_call_delta(call, fragment, text))
        return parts


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Of a chunk that says this and nothing else, with the names of the SDK's chunks."""


class _GrowingFunction(_Exact):
    arguments: str
    name: None = None


class _GrowingCall(_Exact):
    index: int
    function: _GrowingFunction
    id: None = None
    type: Literal["function"] | None = None


class _GrowingDelta(_Exact):
    content: str | None = None
    tool_calls: Annotated[list[_GrowingCall], msgspec.Meta(max_length=1)] | None = None
    role: str | None = None
    refusal: None = None
    reasoning_content: None = None
    function_call: None = None


class _GrowingChoice(_Exact):
    delta: _GrowingDelta
    index: int = 0
    finish_reason: None = None
    logprobs: None = None


class _GrowingChunk(_Exact):
    choices: Annotated[list[_GrowingChoice], msgspec.Meta(min_length=1, max_length=1)]
    id: str | None = None
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    usage: None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    obfuscation: str | None = None


_decode_chunk = msgspec.json.Decoder(_GrowingChunk).decode

#: Fields of the SDK's delta that may be set where its text or its one call goes on; those beside are null then.
_GROWING_DELTA = frozenset({"content", "tool_calls", "role", "refusal", "function_call"})


_GROWING_CALL = frozenset({"index", "id", "type", "function"})
_GROWING_FUNCTION = frozenset({"arguments", "name"})


def _is_plain(value: Any, fields: frozenset[str]) -> bool:
    """Are these all the fields of the SDK's object that are set?"""
    extra = value.__pydantic_extra__
    return value.__pydantic_fields_set__ <= fields and (not extra or extra.keys() <= fields)


def _call_growth(calls: Calls, entries: Sequence[Any]) -> Growth | None:
    entry = entries[0]
    function = entry.function
    text = function.arguments
    if len(entries) > 1 or entry.id or entry.type not in _CLIENT_TYPES or function.name or type(text) is not str:
        return None
    call = calls.go_on(str(entry.index), text) if text and entry.index is not None else None
    return None if call is None else Growth(call.index, text, "arguments", (call.id, call.name))


_CLIENT_TYPES = (None, "function")


def _call_delta(call: Call, fragment: Fragment, text: str) -> StreamedPart:
    delta = PartDelta(function_call=CallDelta(call.id, call.name))
    if fragment.extra or fragment.is_old:
        delta.part_metadata = {PROVIDER: {**call.extra, "function_call": True} if call.is_old else call.extra}
    if fragment.custom:
        delta.part_metadata = {**(delta.part_metadata or {}), "custom_tool": True}
    return StreamedPart(delta, call.index, True, text)


def _closed(calls: Sequence[Call]) -> list[StreamedPart]:
    """Calls that are over, as complete parts. Like their fragments they end no run of text."""
    return [StreamedPart(PartDelta(function_call=CallDelta(call.id, call.name)), call.index) for call in calls]


def _content_of(wire: Mapping[str, Any], choice: _Choice) -> Any:
    """The delta; where a server sends none, its ``message`` (unless that only repeats what was streamed) or text."""
    delta = wire.get("delta")
    if delta:
        return delta
    if wire.get("message") and not choice.streamed:
        return wire["message"]
    return {"content": wire["text"]} if isinstance(wire.get("text"), str) else None


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where a text is needed")
    return value


def _beside(chunk: StreamChunk, extras: Mapping[str, Any]) -> None:
    told = chunk.provider_metadata or {}
    chunk.provider_metadata = {**told, PROVIDER: {**told.get(PROVIDER, {}), **extras}}


def _run(choice: _Choice, kind: str, delta: PartDelta) -> StreamedPart:
    return StreamedPart(delta, choice.indexer.text_index(kind, delta), True)


def _thought(
    choice: _Choice, text: str, kind: str, told: Mapping[str, Any], rest: Mapping[str, Any] | None = None
) -> StreamedPart:
    """A thought delta; the first of its run says how the provider's own message spells it."""
    delta = PartDelta(text, True)
    streamed = _run(choice, kind, delta)
    _tell(choice, streamed.index or 0, delta, {**told, **({"detail": dict(rest)} if rest else {})})
    return streamed


def _tell(choice: _Choice, index: int, delta: PartDelta, told: dict[str, Any]) -> None:
    """Note on a part what the provider's own message needs beside its text, when that is new."""
    known = choice.details.get(index)
    merged = merge_nested(known, told)
    if merged != known:
        choice.details[index] = merged
        delta.part_metadata = {PROVIDER: merged}


def _split_runs(choice: _Choice, runs: Sequence[tuple[bool, str]]) -> list[StreamedPart]:
    return [
        _thought(choice, text, "thought", {"field": "think"}) if is_thought else _run(choice, "text", PartDelta(text))
        for is_thought, text in runs
    ]


def _reasoning(choice: _Choice, delta: Mapping[str, Any]) -> list[StreamedPart]:
    """Reasoning as a string, as a list of details, or as both, which then counts once."""
    field = next((name for name in _REASONING if isinstance(delta.get(name), str) and delta[name]), None)
    said = delta[field] if field is not None else ""
    details = delta.get("reasoning_details")
    if not details:
        return [_thought(choice, said, "thought", {"field": field})] if said else []
    spelled = "".join(detail.get("text") or detail.get("summary") or "" for detail in details)
    parts = []
    if said and said != spelled:
        parts.append(_thought(choice, said, "thought", {"field": field}))
    for number, detail in enumerate(details):
        part = _detail(choice, detail, number, spelled=not said or said == spelled)
        if part is not None:
            parts.append(part)
    return parts


def _detail(choice: _Choice, detail: Mapping[str, Any], number: int, spelled: bool) -> StreamedPart | None:
    """One of OpenRouter's ``reasoning_details``: pieces with one index are one detail, and one part."""
    text = (detail.get("text") or detail.get("summary") or "") if spelled else ""
    seal = next((name for name in ("signature", "data") if isinstance(detail.get(name), str) and detail[name]), None)
    rest = {k: v for k, v in detail.items() if k not in ("text", "summary", seal) and v is not None}
    at = detail.get("index")
    key = f"detail {number if at is None else at} {detail.get('type')}"
    index = choice.indexer.calls.get(key)
    if index is None or (at is None and text and choice.indexer.run != key):
        if not (text or seal):
            return None
        index = choice.indexer.calls[key] = choice.indexer.next_index()
    choice.indexer.run, choice.indexer.run_index = key, index  # text that follows is another run
    delta = PartDelta(text or None, True, detail[seal].encode("utf-8", "surrogatepass") if seal else None)
    told: dict[str, Any] = {"field": "reasoning_details", "detail": rest}
    if seal:
        told["sealed"] = seal
    _tell(choice, index, delta, told)
    return StreamedPart(delta, index, True) if text or seal or delta.part_metadata else None


def _audio(chunk: StreamChunk, choice: _Choice, audio: Mapping[str, Any]) -> list[StreamedPart]:
    """OpenAI's ``delta.audio``: base64 data, and the transcript of it."""
    about = {key: value for key, value in audio.items() if key not in ("data", "transcript") and value is not None}
    if about:
        _beside(chunk, {"audio": about})
    if audio.get("transcript"):
        chunk.transcript = TranscriptDelta("output", _string(audio["transcript"]))
        choice.streamed = True
    digits = choice.audio_rest + (audio.get("data") or "")
    whole_bytes = len(digits) - len(digits) % 4
    digits, choice.audio_rest = digits[:whole_bytes], digits[whole_bytes:]
    if not digits:
        return []
    whole = {"inlineData": {"mimeType": _AUDIO_TYPE, "data": decode_base64(digits)}}
    delta = PartDelta(whole=whole, provider=PROVIDER)
    return [_run(choice, _AUDIO_TYPE, delta)]


def _image(image: Any) -> dict[str, Any]:
    """An image that a model drew: a data URL (RFC 2397) as bytes, any other as a reference."""
    url = ((image or {}).get("image_url") or {}).get("url") or ""
    head, _, data = url.partition(";base64,")
    metadata = {"partMetadata": {PROVIDER: {"image": {k: v for k, v in image.items() if k != "image_url"}}}}
    if head.startswith("data:") and data:
        return {"inlineData": {"mimeType": head.removeprefix("data:"), "data": decode_base64(data)}, **metadata}
    return {"fileData": {"fileUri": url}, **metadata}


def _server_tool(choice: _Choice, tool: Mapping[str, Any]) -> StreamedPart:
    """A tool that Groq ran itself: told of when it begins, and again with what it gave."""
    choice.indexer.end_run()
    key = str(tool.get("index"))
    index = choice.tools.get(key)
    if index is None:
        index = choice.tools[key] = choice.indexer.next_index()
    whole = {"partMetadata": {"server_tool": dict(tool)}}
    return StreamedPart(PartDelta(whole=whole, provider=PROVIDER), index, tool.get("output") is None)
