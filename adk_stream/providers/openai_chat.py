"""OpenAI Chat Completions, and the servers that say they are compatible: chunks to StreamChunks.

Wire facts: OpenAI's API reference (chat.completion.chunk), and what some thirty compatible servers were seen to
send. A chunk has no part indexes: runs of reasoning and text are numbered by arrival, each tool call at its first
fragment. ``data: [DONE]`` ends the stream; after content it does so even where no finish reason came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.indexer import StreamingPartIndexer
from adk_stream.parts import CallDelta, PartDelta, StreamChunk, StreamedPart
from adk_stream.providers.gemini import decode_base64
from adk_stream.providers.objects import as_event
from adk_stream.providers.openai_chat_calls import Call, Calls, Fragment
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
_OWN_FIELDS = frozenset({"id", "object", "model", "choices", "usage", "obfuscation", "error", "citations"})
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
    told: set[int] = set()  # part indexes whose field name the provider's own message needs, and that have it
    streamed: bool = False  # a delta brought content; a whole ``message`` is a copy then
    finished: bool = False


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

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one event: one for each choice, and what concerns all of them on the first."""
        if self.done:
            return ()
        if type(event) is str:
            return self._read_done()
        if not event.get("choices") or "error" in event:
            fault = fault_of(event)
            if fault is not None:
                return (StreamChunk(error=fault, provider_metadata={PROVIDER: {"error": event.get("error") or event}}),)
        first = StreamChunk()
        self._read_head(first, event)
        chunks = [first]
        for number, choice in enumerate(event.get("choices") or ()):
            if number:
                chunks.append(StreamChunk(response_id=self.response_id))
            if choice:
                self._read_choice(chunks[-1], choice)
        return chunks

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of an ``openai`` ChatCompletionChunk, read as it is."""
        return self.read(as_event(event))

    def close(self) -> Sequence[StreamChunk]:
        """Text that was held back as the beginning of a tag."""
        return [
            StreamChunk(parts, candidate_index=index)
            for index, choice in self.choices.items()
            if (parts := self._release(choice))
        ]

    # ------------------------------------------------------------- the chunk

    def _read_head(self, chunk: StreamChunk, event: Mapping[str, Any]) -> None:
        if self.response_id is None and event.get("id"):
            self.response_id = event["id"]  # servers that change it in mid-stream still send one response
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
            parts = [*self._release(choice), *self._close_calls(choice, natural=not choice.finished)]
            chunk = StreamChunk(parts, candidate_index=index)
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
        chunk.candidate_index = index = wire.get("index") or 0
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
        chunk.finish_reason = FINISHES.get(word, "OTHER")
        chunk.terminal = choice.finished = True
        closed = self._close_calls(choice, natural=chunk.finish_reason == "STOP")
        chunk.parts = [*chunk.parts, *self._release(choice), *closed]

    # ------------------------------------------------------------- a delta

    def _read_delta(self, chunk: StreamChunk, choice: _Choice, delta: Mapping[str, Any]) -> list[StreamedPart]:
        """Reasoning, text, refusal, audio, images, calls: in this order within one delta."""
        parts = _reasoning(choice, delta)
        parts += self._content(choice, delta.get("content"))
        refusal = delta.get("refusal")
        if refusal:
            parts.append(_run(choice, "refusal", PartDelta(refusal, part_metadata={"refusal": True})))
        if delta.get("audio"):
            parts += _audio(chunk, choice, delta["audio"])
        if delta.get("annotations"):
            self._read_annotations(chunk, delta["annotations"])
        for image in delta.get("images") or ():
            choice.indexer.end_run()
            parts.append(StreamedPart(PartDelta(whole=_image(image)), choice.indexer.next_index()))
        calls = list(delta.get("tool_calls") or ())
        if delta.get("function_call"):  # the form before tools: one call, never numbered
            calls.append({"index": "function_call", "function": delta["function_call"]})
        if calls:
            parts += self._calls(choice, calls)
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
                parts += self._text(choice, item.get("text") or "")
            elif item.get("type") == "thinking":
                inner = item.get("thinking") or ()
                thought = inner if isinstance(inner, str) else "".join(each.get("text") or "" for each in inner)
                if thought:
                    parts.append(_thought(choice, thought, "thought", {"field": "content"}))
        return parts

    def _text(self, choice: _Choice, text: str) -> list[StreamedPart]:
        if not text:
            return []
        if choice.splitter is None:
            return [_run(choice, "text", PartDelta(text))]
        if choice.indexer.run == "thought" or choice.indexer.index >= 0:
            # reasoning came in a field of its own: a closing tag that follows closes nothing we have not seen
            choice.splitter.off = choice.splitter.off and not choice.splitter.anywhere
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

    def _calls(self, choice: _Choice, entries: Sequence[Any]) -> list[StreamedPart]:
        parts: list[StreamedPart] = []
        taken: list[Call] = []
        for entry in entries:
            if not entry:
                continue
            fragment = Fragment.read(entry)
            call = choice.calls.find(fragment, taken)
            if call is None:
                if not (fragment.name or fragment.id or fragment.text or fragment.args is not None):
                    continue
                parts += self._close_whole(choice)
                call = Call(choice.indexer.next_index(), fragment.key)
                if any(other.id == fragment.id for other in choice.calls.all):
                    fragment.id = None  # a server's id for two calls: the second gets one of its own
                choice.calls.all.append(call)
            taken.append(call)
            parts.append(self._call_delta(call, fragment))
            if call.whole and call is not choice.calls.all[-1] and not call.complete:
                parts.append(self._close_call(choice, call))
        return parts

    def _call_delta(self, call: Call, fragment: Fragment) -> StreamedPart:
        text = call.take(fragment)
        delta = PartDelta(function_call=CallDelta(call.id, call.name))
        metadata: dict[str, Any] = {}
        if fragment.extra:
            metadata[PROVIDER] = {"extra_content": call.extra}
        if fragment.custom:
            metadata["custom_tool"] = True
        if metadata:
            delta.part_metadata = metadata
        return StreamedPart(delta, call.index, True, text)

    def _close_whole(self, choice: _Choice) -> list[StreamedPart]:
        """A later call begins: those before it whose JSON has closed are over."""
        return [self._close_call(choice, call) for call in choice.calls.all if call.whole and not call.complete]

    def _close_calls(self, choice: _Choice, natural: bool) -> list[StreamedPart]:
        """The end: a natural one closes every call, any other those whose JSON has closed."""
        open_calls = [call for call in choice.calls.all if not call.complete]
        return [self._close_call(choice, call) for call in open_calls if natural or call.whole]

    def _close_call(self, choice: _Choice, call: Call) -> StreamedPart:
        call.complete = True
        choice.indexer.end_run()
        return StreamedPart(PartDelta(function_call=CallDelta(call.id, call.name, call.args)), call.index)


def _content_of(wire: Mapping[str, Any], choice: _Choice) -> Any:
    """The delta; where a server sends none, its ``message`` (unless that only repeats what was streamed) or text."""
    delta = wire.get("delta")
    if delta:
        return delta
    if wire.get("message") and not choice.streamed:
        return wire["message"]
    return {"content": wire["text"]} if isinstance(wire.get("text"), str) else None


def _beside(chunk: StreamChunk, extras: Mapping[str, Any]) -> None:
    told = chunk.provider_metadata or {}
    chunk.provider_metadata = {**told, PROVIDER: {**told.get(PROVIDER, {}), **extras}}


def _run(choice: _Choice, kind: str, delta: PartDelta) -> StreamedPart:
    return StreamedPart(delta, choice.indexer.text_index(kind, delta), True)


def _thought(choice: _Choice, text: str, kind: str, told: Mapping[str, Any]) -> StreamedPart:
    """A thought delta; the first of its run says how the provider's own message spells it."""
    delta = PartDelta(text, True)
    streamed = _run(choice, kind, delta)
    if streamed.index is not None and streamed.index not in choice.told:
        choice.told.add(streamed.index)
        delta.part_metadata = {PROVIDER: dict(told)}
    return streamed


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
    kind = detail.get("type")
    text = (detail.get("text") or detail.get("summary") or "") if spelled else ""
    opaque = detail.get("signature") or detail.get("data")
    at = detail.get("index")
    if not text and not opaque:
        return None
    key = f"detail {number if at is None else at} {kind}"
    index = choice.indexer.call_index(key)
    if choice.indexer.run != key:
        choice.indexer.run = key  # text that follows is another run
    delta = PartDelta(text or None, True, opaque.encode("utf-8", "surrogatepass") if opaque else None)
    if index not in choice.told:
        choice.told.add(index)
        rest = {k: v for k, v in detail.items() if k not in ("text", "summary", "signature", "data")}
        delta.part_metadata = {PROVIDER: {"field": "reasoning_details", "detail": rest}}
    return StreamedPart(delta, index, True)


def _audio(chunk: StreamChunk, choice: _Choice, audio: Mapping[str, Any]) -> list[StreamedPart]:
    """OpenAI's ``delta.audio``: base64 data, and the transcript of it."""
    about = {key: value for key, value in audio.items() if key not in ("data", "transcript") and value is not None}
    if about:
        _beside(chunk, {"audio": about})
    if audio.get("transcript"):
        chunk.output_transcript = audio["transcript"]
        choice.streamed = True
    if not audio.get("data"):
        return []
    whole = {"inlineData": {"mimeType": _AUDIO_TYPE, "data": decode_base64(audio["data"])}}
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
