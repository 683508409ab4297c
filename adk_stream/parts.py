"""StreamedPart and StreamChunk, and the assembler that merges parts by index.

A provider's reader turns each event of its stream into StreamChunks of StreamedParts. A streamed part is a
delta to append at its index (``partial=True``), or a complete part that replaces what is there. The
assembler keeps one slot for each index: fragments in lists, joined once, and gives google-genai parts that are
built fresh each time, so that nothing it gave is ever changed or shared.

All state is made of msgspec structs: cheap in the hot path, and a snapshot needs no further code.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from uuid import uuid4

import msgspec

from adk_stream.arguments import PathArguments, parse_arguments
from adk_stream.errors import StreamLimitError
from adk_stream.metadata import as_wire, merge_into

if TYPE_CHECKING:
    from google.genai import types

__all__ = [
    "AudioDelta",
    "CallDelta",
    "Growth",
    "LiveSignal",
    "PartAssembler",
    "PartDelta",
    "ShortChunk",
    "StreamChunk",
    "StreamFault",
    "StreamLimits",
    "StreamedPart",
    "TranscriptDelta",
    "as_text",
    "audio_of",
    "encodable",
    "fresh",
    "part_delta",
]

#: Calls without an id get one with this prefix; google-adk uses the same and, like us, does not send it back.
MADE_ID_PREFIX = "adk-"

_COMPACT_AT = 256  # fragments: an 80-byte str object each, so they are joined now and then


class StreamLimits(msgspec.Struct, frozen=True):
    """Bounds on what one stream may make this process hold.

    Attributes:
        max_event_bytes: Size of one event on the wire.
        max_response_bytes: Text, arguments and inline data of one response together (characters or bytes).
        max_parts: Number of parts of one response.
    """

    max_event_bytes: int = 64 * 1024 * 1024
    max_response_bytes: int = 512 * 1024 * 1024
    max_parts: int = 100_000


class CallDelta(msgspec.Struct):
    """What one event says of a tool call. None where the event is silent.

    Attributes:
        id: The call's id.
        name: The whole name as far as it is known (a reader joins the pieces).
        args: The arguments as an object, whole.
        partial_args: Gemini's fragments by JSONPath, in wire form.
        will_continue: Gemini's word on whether more fragments of this call follow.
    """

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool | None = None


class PartDelta(msgspec.Struct):
    """What one event says of a part: a google-genai ``Part`` in the few fields that stream.

    ``whole`` holds a part of any other kind (executable code, inline data, …): in wire form, or a google-genai
    ``Part`` as it is. ``provider`` names the key of ``part_metadata`` for fields that google-genai does not know.
    """

    text: str | None = None
    thought: bool = False
    thought_signature: bytes | None = None
    function_call: CallDelta | None = None
    part_metadata: dict[str, Any] | None = None
    whole: Any = None
    provider: str | None = None


class StreamedPart(msgspec.Struct):
    """A part with its place in the response.

    Attributes:
        part: A google-genai ``Part`` (or the ``PartDelta`` that a reader builds in its place).
        index: The part's place; None keeps it out of the result.
        partial: True for a delta to append at ``index``; False for a complete part that replaces what is there.
        arguments_delta: A raw fragment of a tool call's JSON arguments. On a complete call: their whole text.
    """

    part: Any
    index: int | None = None
    partial: bool = False
    arguments_delta: str | None = None


class StreamFault(msgspec.Struct):
    """An error (or the provider's own cancellation) inside the stream, in the provider's words."""

    code: str | None = None
    message: str | None = None
    status: str = "failed"


class TranscriptDelta(msgspec.Struct):
    """What one event says of the words in audio.

    Attributes:
        who: ``"input"`` for the user's speech, ``"output"`` for the model's.
        text: The words to append.
        finished: The provider's word that this transcript is whole.
        interim: A guess that the next one replaces: shown, and never part of the result.
        rest: Language, speaker, words and offsets, in wire form (the fields of google-genai's ``Transcription``).
    """

    who: str
    text: str = ""
    finished: bool = False
    interim: bool = False
    rest: dict[str, Any] | None = None


class LiveSignal(msgspec.Struct):
    """What one message of a live session says beside its content.

    Attributes:
        interrupted: The user spoke over the model: what is still to be played must not be.
        ends_interrupted: What had come of the interrupted turn is all of it.
        turn_complete: The model's turn is over.
        cancelled: Ids of calls whose answers nobody waits for any more.
        fields: Fields of LlmResponse in wire form (``go_away``, ``voice_activity``, …); on the turn's end those of
            its ``turn_complete`` response.
        told: What no field holds, for ``provider_metadata``.
    """

    interrupted: bool = False
    ends_interrupted: bool = False
    turn_complete: bool = False
    cancelled: list[str] | None = None
    fields: dict[str, Any] | None = None
    told: dict[str, Any] | None = None


class StreamChunk(msgspec.Struct):
    """What one event of a stream becomes.

    Attributes:
        parts: The parts or deltas it carries, in order.
        candidate_index: Which candidate (choice) the parts, finish and metadata belong to.
        response_id: The provider's id of the response; a new one opens a new group of parts.
        role: The speaker; ``"model"`` unless the provider says otherwise.
        model_version: The model's name in the provider's words.
        usage_metadata: Token counts so far, in wire form (``promptTokenCount``, …) or as google-genai's object.
        finish_reason: The end in Gemini's words (``"STOP"``, ``"MAX_TOKENS"``, …, ``"OTHER"``).
        native_finish_reason: The end in the provider's own word.
        finish_code: The error code of an end that is not natural, when it is not the finish reason's name.
        finish_message: The provider's sentence about the end.
        terminal: The line's own terminal sign was seen; without it the stream counts as cut.
        error: An error inside the stream.
        metadata: Candidate metadata in wire form by its field in LlmResponse (``grounding_metadata``, …).
        provider_metadata: What no field holds, merged key by key over the chunks.
        transcript: What is said in audio, in words.
        live: What a message of a live session says beside its content; the first one makes the stream a live one.
        empty: The event carried a message without any part, which ends a run of text (``flush="boundary"``).
    """

    parts: Sequence[StreamedPart] = ()
    candidate_index: int = 0
    response_id: str | None = None
    role: str | None = None
    model_version: str | None = None
    usage_metadata: Any = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    finish_code: str | None = None
    finish_message: str | None = None
    terminal: bool = False
    error: StreamFault | None = None
    metadata: dict[str, Any] | None = None
    provider_metadata: dict[str, Any] | None = None
    transcript: TranscriptDelta | None = None
    live: LiveSignal | None = None
    empty: bool = False


class Growth(msgspec.Struct, gc=False):
    """What nearly every event of nearly every stream is: text that an open part grows by, and nothing else.

    It is a StreamChunk in few fields, since making and reading one in all its fields costs more than the rest of the
    work on such an event. Beside the text it may bring usage, and nothing else that is new.

    Attributes:
        index: The part's place.
        text: What it grows by: not empty.
        kind: ``"text"``, ``"thought"``, or ``"arguments"`` of a call.
        call: Id and name of the call.
        path: Where in Gemini's streamed arguments the text belongs (a JSONPath); None: it is of the call's JSON text.
        value_goes_on: Gemini's word that more of the value at that place will come.
        usage: Token counts so far, in wire form and without nulls.
        candidate_index: Which candidate (choice) the part belongs to.
    """

    index: int
    text: str
    kind: str = "text"
    call: tuple[str | None, str | None] = (None, None)
    path: str | None = None
    value_goes_on: bool = False
    usage: dict[str, Any] | None = None
    candidate_index: int = 0

    error: ClassVar[StreamFault | None] = None  # as a StreamChunk's

    def chunk(self) -> StreamChunk:
        """The same as a StreamChunk."""
        if self.kind != "arguments":
            part = StreamedPart(PartDelta(self.text, self.kind == "thought"), self.index, True)
        elif self.path is None:
            part = StreamedPart(PartDelta(function_call=CallDelta(*self.call)), self.index, True, self.text)
        else:
            fragment: dict[str, Any] = {"jsonPath": self.path, "stringValue": self.text}
            fragment |= {"willContinue": True} if self.value_goes_on else {}
            call = CallDelta(*self.call, None, [fragment], True)
            part = StreamedPart(PartDelta(function_call=call), self.index, True)
        return StreamChunk((part,), self.candidate_index, usage_metadata=self.usage)


class AudioDelta(msgspec.Struct, gc=False):
    """A piece of audio and nothing else: nearly every message of a live session is one, fifty a second.

    It is, like Growth, a StreamChunk in few fields.

    Attributes:
        index: The part's place.
        mime_type: Its format, with the sample rate (``audio/pcm;rate=24000``).
        data: The bytes, as they came.
        provider: The line it came on.
    """

    index: int
    mime_type: str
    data: bytes
    provider: str | None = None

    error: ClassVar[StreamFault | None] = None  # as a StreamChunk's

    def chunk(self) -> StreamChunk:
        """The same as a StreamChunk."""
        whole = {"inlineData": {"mimeType": self.mime_type, "data": self.data}}
        return StreamChunk((StreamedPart(PartDelta(whole=whole, provider=self.provider), self.index, True),))


#: What says so little that it needs no StreamChunk; an aggregator takes either.
ShortChunk = Growth | AudioDelta


def part_delta(part: types.Part | PartDelta) -> PartDelta:
    """The streaming fields of a google-genai ``Part``, read as it is."""
    if isinstance(part, PartDelta):
        return part
    fields = part.model_fields_set
    if fields <= _TEXT_FIELDS:
        return PartDelta(part.text, bool(part.thought), part.thought_signature, None, part.part_metadata)
    call = part.function_call
    if call is not None:
        partial_args = as_wire(call.partial_args) if call.partial_args else None
        delta = CallDelta(call.id, call.name, call.args, partial_args, call.will_continue)
        return PartDelta(None, bool(part.thought), part.thought_signature, delta, part.part_metadata)
    if part.text is not None and all(getattr(part, name) is None for name in fields - _TEXT_FIELDS):
        return PartDelta(part.text, bool(part.thought), part.thought_signature, None, part.part_metadata)
    return PartDelta(whole=part)


_TEXT_FIELDS = frozenset({"text", "thought", "thought_signature", "part_metadata"})


class Text(msgspec.Struct):
    """A text that grows by fragments: appended to a list, compacted now and then, joined when it is read."""

    blocks: list[str] = []
    fragments: list[str] = []
    half: str = ""  # the first half of a surrogate pair, which waits to be shown until the other comes

    def append(self, fragment: str) -> bool:
        """Take a fragment in; True when fragments were compacted (the moment to look at limits)."""
        self.fragments.append(fragment)
        if len(self.fragments) < _COMPACT_AT:
            return False
        self.blocks.append("".join(self.fragments))
        self.fragments.clear()
        return True

    def join(self) -> str:
        """The whole text; halves of a surrogate pair that came in two deltas become one character again."""
        text = "".join(self.blocks) + "".join(self.fragments)
        return text if text.isascii() else _repair_surrogates(text)

    def visible(self, fragment: str) -> str:
        """What of a fragment can be shown now: a character that was cut in two waits for its other half."""
        if fragment.isascii() and not self.half:
            return fragment
        text, self.half = self.half + fragment, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return _repair_surrogates(text)

    def __bool__(self) -> bool:
        return bool(self.fragments or self.blocks)


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs: with them no JSON of a response could be written."""
    return text if text.isascii() else _repair_surrogates(text)


def as_text(value: Any) -> str:
    """What should be a text and may be any JSON value, as an encodable text."""
    return encodable(value if isinstance(value, str) else str(value))


def _repair_surrogates(text: str) -> str:
    """Pairs joined; a half whose other half never came is U+FFFD, since no encoding can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class TextSlot(msgspec.Struct, tag="text"):
    """A run of text or thought. Signature pieces at one index are one signature."""

    thought: bool
    text: Text = msgspec.field(default_factory=Text)
    has_text: bool = False  # an empty text that came is not the same as none
    signature: list[bytes] = []
    metadata: dict[str, Any] | None = None
    complete: bool = False

    def append(self, delta: PartDelta) -> None:
        """Take a delta in."""
        self.note(delta)
        if delta.text is not None:
            self.has_text = True
            if delta.text:
                self.text.append(delta.text)

    def note(self, delta: PartDelta) -> None:
        """Take in what a delta brings beside its text."""
        if delta.thought_signature:
            self.signature.append(delta.thought_signature)
        if delta.part_metadata:
            self.metadata = merge_into(self.metadata or {}, delta.part_metadata)

    def build(self) -> types.Part:
        from google.genai import types

        fields: dict[str, Any] = {"text": self.text.join()} if self.has_text else {}
        if self.thought:
            fields["thought"] = True
        if self.signature:
            fields["thought_signature"] = b"".join(self.signature)
        if self.metadata:
            fields["part_metadata"] = fresh(self.metadata)
        return types.Part(**fields)

    def take_half(self) -> TextSlot:
        """The half of a surrogate pair at the end, as a run of its own that waits for the other half."""
        half, self.text.half = self.text.half, ""
        whole = "".join(self.text.blocks) + "".join(self.text.fragments)
        self.text.blocks, self.text.fragments = [], [whole.removesuffix(half)]
        return TextSlot(self.thought, Text(fragments=[half], half=half), has_text=True)

    @property
    def holds_nothing(self) -> bool:
        return not (self.text or self.signature or self.metadata)


class CallSlot(msgspec.Struct, tag="call"):
    """A tool call; *unfinished* until it is complete, and then it cannot be run.

    The arguments are those given whole, or the joined fragments, or Gemini's tree of JSONPath fragments.
    """

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    text: Text = msgspec.field(default_factory=Text)
    paths: PathArguments | None = None
    signature: bytes | None = None
    metadata: dict[str, Any] | None = None
    complete: bool = False

    def append(self, delta: PartDelta, fragment: str | None) -> bool:
        call = delta.function_call or CallDelta()
        if call.id and call.id != self.id:
            self.id = as_text(call.id)
        if call.name and call.name != self.name:
            self.name = as_text(call.name)
        self.signature = self.signature or delta.thought_signature
        if delta.part_metadata:
            self.metadata = merge_into(self.metadata or {}, delta.part_metadata)
        if call.args is not None or call.partial_args is not None:
            self._append_paths(call)
        return bool(fragment) and self.text.append(fragment or "")

    def _append_paths(self, call: CallDelta) -> None:
        self.paths = self.paths or PathArguments()
        if call.args:
            self.paths.merge_args(call.args)
        for partial in call.partial_args or ():
            self.paths.add(partial)

    def close(self, delta: PartDelta, whole_text: str | None) -> None:
        """The call is whole: with the arguments given here, or else with those that came in fragments."""
        call = delta.function_call or CallDelta()
        streamed = call.partial_args is not None or call.will_continue is not None
        if self.complete and delta.thought_signature:
            self.signature = None  # the call is sent again, and signed anew
        self.append(
            delta if streamed else msgspec.structs.replace(delta, function_call=CallDelta(call.id, call.name)), None
        )
        if streamed:
            self.paths = self.paths or PathArguments()
        elif call.args is not None:
            self.args = call.args
        elif whole_text is not None:
            self.args, self.paths, self.text = None, None, Text(fragments=[whole_text])
        self.complete = True

    def arguments(self) -> tuple[dict[str, Any] | None, str | None, str | None]:
        """(the arguments, or None; the raw text when they are None; what is wrong with them)"""
        if self.args is not None:
            return fresh(self.args), None, None
        if self.paths is not None:
            args, problem = self.paths.build()
            if self.complete and args is not None:
                return fresh(args), None, None
            return None, encodable(self.paths.text()), problem
        raw = self.text.join()
        if self.metadata and self.metadata.get("custom_tool"):
            # free text has no end of its own: only a call that was closed has all of it
            return ({"input": raw}, None, None) if self.complete else (None, raw, None)
        if not self.complete and not raw.strip():
            return None, raw, None
        args = parse_arguments(raw)
        if args is None:
            return None, raw, None
        has_halves = not raw.isascii() or "\\u" in raw  # of surrogate pairs, it may be
        return (fresh(args) if has_halves else args), None, None

    def build(self) -> types.Part:
        from google.genai import types

        args, raw, problem = self.arguments()
        metadata = fresh(self.metadata or {})
        if args is None:
            metadata["raw_arguments"] = raw
        if problem:
            metadata["arguments_error"] = encodable(problem)
        if not self.complete:
            metadata["unfinished"] = True
        fields: dict[str, Any] = {"function_call": types.FunctionCall(id=self.id, name=self.name, args=args)}
        if self.signature:
            fields["thought_signature"] = self.signature
        if metadata:
            fields["part_metadata"] = metadata
        return types.Part(**fields)


def fresh(value: Any) -> Any:
    """A deep copy of a JSON value, every text of it ``encodable``."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(key): fresh(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fresh(item) for item in value]
    return value


class WholeSlot(msgspec.Struct, tag="whole"):
    """A part of any other kind as it came: in wire form, or google-genai's object.

    Until it is complete it is how the part stands so far, and what comes next at its index replaces it.
    """

    part: Any
    provider: str | None = None
    complete: bool = True

    def build(self) -> types.Part:
        from google.genai import types

        from adk_stream.response import read_lenient

        if not isinstance(self.part, dict):
            fields = self.part.model_dump(exclude_unset=True)
            encodable_fields = fresh(fields)
            if encodable_fields != fields:
                return types.Part.model_validate(encodable_fields)
            return self.part.model_copy(deep=True)  # type: ignore[no-any-return]
        part, leftover = read_lenient(types.Part, fresh(self.part))
        part = part or types.Part()
        if leftover is not None:
            part.part_metadata = {**(part.part_metadata or {}), self.provider or "provider": fresh(leftover)}
        return part


class AudioSlot(msgspec.Struct, tag="audio"):
    """Audio deltas of one mime type."""

    mime_type: str
    data: list[bytes] = []
    complete: bool = False

    def build(self) -> types.Part:
        from google.genai import types

        return types.Part(inline_data=types.Blob(mime_type=self.mime_type, data=b"".join(self.data)))


Slot = TextSlot | CallSlot | WholeSlot | AudioSlot
_Slot = TypeVar("_Slot", bound=Slot)


class Group(msgspec.Struct):
    """The parts of one response id (or of one round, where the provider sends no id)."""

    response_id: str | None = None
    slots: dict[int, Slot] = {}
    highest: int = -1  # index that has come; a lower one that is new puts the slots out of order
    in_order: bool = True
    newest_complete: int = -1  # the highest index at which a complete part stands
    given: dict[int, str] = {}  # ids of the calls that ``drain`` gave out, by index

    def put(self, index: int, slot: _Slot) -> _Slot:
        """Let this slot stand at that index."""
        if index > self.highest:
            self.highest = index
        elif index not in self.slots:
            self.in_order = False
        self.slots[index] = slot
        return slot

    def ordered(self) -> ItemsView[int, Slot]:
        """The slots by index, sorted only when one came out of order."""
        if not self.in_order:
            self.slots, self.in_order = dict(sorted(self.slots.items())), True
        return self.slots.items()


class PartAssembler(msgspec.Struct):
    """Merges streamed parts by response id and index, into google-genai parts.

    Attributes:
        keep_audio: Join audio deltas into the result; False drops them (they were shown as partials).
        groups: In order of first appearance.
        response_ids: Of all groups there were.
        text_came: A run of text or thought began since the last ``drain``.
        seed, made: Of the ids that are made for calls without one: unique, and the same after a restore.
        size: Characters and bytes held, for the limit.
    """

    keep_audio: bool = True
    limits: StreamLimits = StreamLimits()
    groups: list[Group] = []
    response_ids: set[str] = set()
    text_came: bool = False
    seed: str = msgspec.field(default_factory=lambda: uuid4().hex[:28])
    made: int = 0
    size: int = 0
    count: int = 0

    def add(self, streamed: StreamedPart, response_id: str | None = None) -> Slot | None:
        """Take one streamed part in; the slot it went to, or None when it stays out of the result.

        Raises:
            StreamLimitError: the response is larger than the limits allow; what had come is still there.
        """
        index = streamed.index
        if index is None:
            return None
        part = streamed.part
        delta = part if type(part) is PartDelta else part_delta(part)
        groups = self.groups
        group = groups[-1] if groups and groups[-1].response_id == response_id else self._group(response_id)
        slot = group.slots.get(index)
        if delta.function_call is not None:
            return self._add_call(group, index, slot, streamed, delta)
        if delta.text is not None and streamed.partial:
            if type(slot) is not TextSlot or slot.complete or slot.thought is not delta.thought:
                group = self._group_that_takes_text(group, index, slot)
                slot = group.put(index, self._new(TextSlot(delta.thought)))
            elif index < group.newest_complete and group.response_id is None:
                # no reader goes back to text before a complete part: a new round counts its parts from zero
                group = self._open(None)
                slot = group.put(index, self._new(TextSlot(delta.thought)))
            if delta.thought_signature or delta.part_metadata:
                slot.note(delta)
            slot.has_text = True
            if delta.text and slot.text.append(delta.text):
                self.grew(len(slot.text.blocks[-1]))
            return slot
        return self._add_other(group, index, slot, streamed, delta)

    def growing(self, growth: Growth, response_id: str | None) -> TextSlot | CallSlot | None:
        """The open part that does nothing but grow by this; None where it takes ``add`` to tell what it means."""
        group = self.groups[-1] if self.groups else None
        slot = None if group is None else group.slots.get(growth.index)
        if group is None or slot is None or slot.complete or group.response_id != response_id:
            return None
        if growth.kind == "arguments":
            return slot if type(slot) is CallSlot else None
        if type(slot) is not TextSlot or slot.thought is not (growth.kind == "thought"):
            return None
        return None if growth.index < group.newest_complete else slot

    def _add_other(
        self, group: Group, index: int, slot: Slot | None, streamed: StreamedPart, delta: PartDelta
    ) -> Slot | None:
        if delta.whole is None:
            return self._replace_text(group, index, delta, streamed.partial)
        audio = audio_of(delta.whole) if streamed.partial else None
        if audio is None:
            if not streamed.partial:
                group.newest_complete = max(group.newest_complete, index)
            self.grew(_weight(delta.whole))
            return group.put(index, self._new(WholeSlot(delta.whole, delta.provider, not streamed.partial)))
        mime_type, data = audio
        if not self.keep_audio:
            return AudioSlot(mime_type)
        if not isinstance(slot, AudioSlot) or slot.mime_type != mime_type:
            slot = group.put(index, self._new(AudioSlot(mime_type)))
        slot.data.append(data)
        self.grew(len(data))
        return slot

    def _replace_text(self, group: Group, index: int, delta: PartDelta, partial: bool) -> Slot:
        """A complete text or thought, or a part that is nothing but a signature."""
        old = group.slots.get(index)
        if partial and isinstance(old, TextSlot) and not old.complete and old.thought is delta.thought:
            old.append(delta)
            return old
        slot = TextSlot(delta.thought)
        slot.append(delta)
        slot.complete = not partial
        self.grew(len(delta.text or ""))
        if slot.complete:
            group.newest_complete = max(group.newest_complete, index)
        return group.put(index, self._new(slot))

    def _add_call(
        self, group: Group, index: int, slot: Slot | None, streamed: StreamedPart, delta: PartDelta
    ) -> CallSlot | None:
        call = delta.function_call
        if slot is None and call is not None and call.id and group.given.get(index) == call.id:
            return None  # a copy of a call that was given out, and may have run: it counts once
        if not isinstance(slot, CallSlot):
            if slot is not None and group.response_id is None:
                group = self._open(None)
            slot = group.put(index, self._new(CallSlot()))
        if streamed.partial:
            if slot.append(delta, streamed.arguments_delta):
                self.grew(len(slot.text.blocks[-1]))
            return slot
        slot.close(delta, streamed.arguments_delta)
        if slot.id is None:
            slot.id = self._make_id()
        self.grew(len(streamed.arguments_delta or "") if slot.args is None else _weight(slot.args))
        group.newest_complete = max(group.newest_complete, index)
        return slot

    def cancel(self, ids: Collection[str]) -> None:
        """Calls of these ids that are still here must not run any more."""
        for group in self.groups:
            for slot in group.slots.values():
                if isinstance(slot, CallSlot) and slot.id in ids:
                    slot.metadata = {**(slot.metadata or {}), "cancelled": True}

    def drain(self) -> list[types.Part]:
        """Build and let go the longest run of parts from the front that waits for nothing.

        An open call or tool holds back what stands after it: parts given out stay in order.
        """
        parts: list[types.Part] = []
        self.text_came = False
        while self.groups:
            group = self.groups[0]
            for index, slot in list(takewhile(lambda item: not _is_open(item[1]), group.ordered())):
                del group.slots[index]
                if isinstance(slot, TextSlot) and slot.text.half and not group.slots:
                    group.slots[index] = slot.take_half()  # the run goes on with the other half of this character
                parts += self._built(slot)
                if isinstance(slot, CallSlot) and slot.id:
                    group.given[index] = slot.id
            if group.slots or len(self.groups) == 1:
                break
            del self.groups[0]
        return parts

    def finish(self) -> list[types.Part]:
        """Build everything in order, calls that were left open as unfinished ones, and let go of it."""
        groups, self.groups = self.groups, []
        return [part for group in groups for _, slot in group.ordered() for part in self._built(slot)]

    def _built(self, slot: Slot) -> list[types.Part]:
        if isinstance(slot, TextSlot) and slot.holds_nothing and not slot.complete:
            return []
        if isinstance(slot, CallSlot) and slot.id is None:
            slot.id = self._make_id()
        return [slot.build()]

    @property
    def waiting(self) -> bool:
        """Is there anything that ``drain`` would give?"""
        for group in self.groups:
            for _, slot in group.ordered():
                return not _is_open(slot)
        return False

    def _group(self, response_id: str | None) -> Group:
        groups = self.groups
        if groups and (response_id is None or groups[-1].response_id == response_id):
            return groups[-1]
        if response_id is None:
            return self._open(None)
        if groups and groups[-1].response_id is None:
            groups[-1].response_id = response_id  # the id came late
            self.response_ids.add(response_id)
            return groups[-1]
        known = response_id in self.response_ids
        found = next((each for each in groups if each.response_id == response_id), None) if known else None
        return found or self._open(response_id)

    def _open(self, response_id: str | None) -> Group:
        group = Group(response_id)
        self.groups.append(group)
        if response_id is not None:
            self.response_ids.add(response_id)
        return group

    def _group_that_takes_text(self, group: Group, index: int, slot: Slot | None) -> Group:
        """With an id, another kind at one index replaces what is there; without one, it is a new round."""
        going_back = index < group.newest_complete
        return self._open(None) if group.response_id is None and (slot is not None or going_back) else group

    def _new(self, slot: _Slot) -> _Slot:
        self.count += 1
        if self.count > self.limits.max_parts:
            raise StreamLimitError(f"more than {self.limits.max_parts} parts in one response")
        if type(slot) is TextSlot:
            self.text_came = True
        return slot

    def grew(self, size: int) -> None:
        """Count what is held.

        Raises:
            StreamLimitError: it is more than the limits allow.
        """
        self.size += size
        if self.size > self.limits.max_response_bytes:
            raise StreamLimitError(f"more than {self.limits.max_response_bytes} bytes in one response")

    def _make_id(self) -> str:
        self.made += 1
        return f"{MADE_ID_PREFIX}{self.seed}{self.made:04x}"


def _is_open(slot: Slot) -> bool:
    """Does more come of it that no text run could go on with: an unfinished call or tool?"""
    return type(slot) in (CallSlot, WholeSlot) and not slot.complete


def audio_of(whole: Any) -> tuple[str, bytes] | None:
    """(mime type, bytes) of inline audio, None for anything else."""
    blob = whole.get("inlineData") if isinstance(whole, dict) else whole.inline_data
    if blob is None:
        return None
    if isinstance(blob, dict):
        mime_type, data = str(blob.get("mimeType") or ""), blob.get("data")
    else:
        mime_type, data = blob.mime_type or "", blob.data
    return (mime_type, data) if mime_type.startswith("audio/") and isinstance(data, bytes) else None


def _weight(value: Any) -> int:
    """About how many bytes a JSON value or a part holds."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(_weight(item) for item in value.values()) + 8
    if isinstance(value, (list, tuple)):
        return sum(_weight(item) for item in value) + 8
    if hasattr(value, "inline_data") and value.inline_data is not None:
        return len(value.inline_data.data or b"")
    return 8
