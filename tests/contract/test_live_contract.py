"""The contract's laws on live sessions: every turn's words, audio and calls once and in order, however it goes.

A turn is drawn as a few strands (what the user said, what the model said, text, audio, calls), each in order, and its
messages are some interleaving of them with signals anywhere in between.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate
from adk_stream.providers.line import Line

law = settings(max_examples=60, deadline=None)
flushes = st.sampled_from(["close", "boundary"])
words = st.text("ab é😀\n", max_size=4)
Message = dict[str, Any]

#: What may come anywhere in a turn and is no part of its content.
SIGNALS: list[Message] = [
    {"serverContent": {"generationComplete": True}},
    {"serverContent": {"waitingForInput": True}},
    {"serverContent": {}},
    {},
    {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
    {"goAway": {"timeLeft": "9s"}},
    {"usageMetadata": {"totalTokenCount": 1}},
]
COMPLETE: Message = {"serverContent": {"turnComplete": True}, "usageMetadata": {"totalTokenCount": 2}}
INTERRUPTED: Message = {"serverContent": {"interrupted": True}}


def transcript(who: str, pieces: list[str], finish: str) -> list[Message]:
    """Fragments, with ``finished`` on the last, behind it, or never."""
    found: list[Message] = [{"serverContent": {f"{who}Transcription": {"text": piece}}} for piece in pieces]
    if finish == "behind":
        found.append({"serverContent": {f"{who}Transcription": {"finished": True}}})
    elif finish == "on" and found:
        found[-1]["serverContent"][f"{who}Transcription"]["finished"] = True
    return found


def model_turn(part: dict[str, Any]) -> Message:
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [part]}}}


def audio(data: bytes) -> Message:
    return model_turn({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(data).decode()}})


finishes = st.sampled_from(["on", "behind", "never"])
inputs = st.builds(transcript, st.just("input"), st.lists(words, max_size=3), finishes)
outputs = st.builds(transcript, st.just("output"), st.lists(words, max_size=3), finishes)
texts = st.lists(st.builds(model_turn, st.fixed_dictionaries({"text": words})), max_size=3)
sounds = st.lists(st.builds(audio, st.binary(min_size=1, max_size=4)), max_size=3)
signals = st.lists(st.sampled_from(SIGNALS), max_size=3)


@st.composite
def woven(draw: Any, *strands: Any) -> list[Message]:
    """One message after another from strands that keep their own order."""
    left = [list(draw(strand)) for strand in strands]
    messages: list[Message] = []
    while any(left):
        number = draw(st.sampled_from([number for number, strand in enumerate(left) if strand]))
        messages.append(left[number].pop(0))
    return messages


plain_turns = woven(inputs, outputs, texts, sounds, signals)
interrupted_turns = woven(inputs, outputs, texts, sounds, signals, st.just([INTERRUPTED]))
sessions = st.lists(plain_turns | interrupted_turns, min_size=1, max_size=3)


def strand(messages: list[Message], *path: str) -> str:
    """The text at that place, over all messages."""
    found = []
    for message in messages:
        value: Any = message.get("serverContent") or {}
        for key in path:
            value = value.get(key) or {}
        found.append(value if isinstance(value, str) else "")
    return "".join(found)


def said(messages: list[Message]) -> dict[str, Any]:
    """What was meant."""
    parts = [
        part for m in messages for part in ((m.get("serverContent") or {}).get("modelTurn") or {}).get("parts", ())
    ]
    blobs = [part["inlineData"]["data"] for part in parts if "inlineData" in part]
    return {
        "input": strand(messages, "inputTranscription", "text"),
        "output": strand(messages, "outputTranscription", "text"),
        "text": "".join(part.get("text") or "" for part in parts),
        "audio": b"".join(map(base64.b64decode, blobs)),
    }


def told(responses: list[LlmResponse], partial: bool) -> dict[str, Any]:
    """What came out, in finals or in partials."""
    chosen = [response for response in responses if bool(response.partial) is partial]
    parts = [part for response in chosen for part in response.parts]
    return {
        "input": "".join(r.input_transcription.text or "" for r in chosen if r.input_transcription),
        "output": "".join(r.output_transcription.text or "" for r in chosen if r.output_transcription),
        "text": "".join(part.text or "" for part in parts),
        "audio": b"".join(part.inline_data.data for part in parts if part.inline_data),
    }


def from_objects(messages: list[Message], **options: Any) -> list[LlmResponse]:
    aggregator = StreamingResponseAggregator(**options)
    responses = [
        response
        for message in messages
        for response in aggregator.process_response(types.LiveServerMessage.model_validate(message))
    ]
    final = aggregator.close()
    return responses + ([final] if final is not None else [])


def from_frames(messages: list[Message], **options: Any) -> list[LlmResponse]:
    aggregator, line = StreamingResponseAggregator(**options), Line("gemini-live")
    aggregator.speaks("gemini-live")
    chunks = [chunk for message in messages for each in line.feed(json.dumps(message).encode()) for chunk in each]
    responses = [response for chunk in chunks for response in aggregator.take(chunk)]
    final = aggregator.close()
    return responses + ([final] if final is not None else [])


def turns_of(responses: list[LlmResponse]) -> list[list[LlmResponse]]:
    turns: list[list[LlmResponse]] = [[]]
    for response in responses:
        turns[-1].append(response)
        if response.turn_complete:
            turns.append([])
    return turns


@pytest.mark.parametrize("run", [from_objects, from_frames])
@law
@given(session=sessions, flush=flushes)
def test_each_turn_holds_its_own_words_once(run: Callable[..., Any], session: list[list[Message]], flush: str) -> None:
    responses = run([message for turn in session for message in [*turn, COMPLETE]], flush=flush, audio="join")
    turns = turns_of(responses)
    assert turns.pop() == []
    assert len(turns) == len(session)
    for turn, messages in zip(turns, session, strict=True):
        assert told(turn, partial=False) == said(messages)
        assert told(turn, partial=True) == said(messages)
        end = turn[-1]
        interrupted = INTERRUPTED in messages
        assert (end.status, end.interrupted or False) == (("incomplete", True) if interrupted else ("completed", False))
        assert end.error_code is None
        assert end.usage_metadata.total_token_count == 2
        assert sum(response.usage_metadata is not None for response in turn) == 1


@law
@given(session=st.lists(plain_turns, min_size=1, max_size=2), flush=st.just("close"))
def test_what_the_user_said_comes_before_what_it_led_to(session: list[list[Message]], flush: str) -> None:
    responses = from_objects([message for turn in session for message in [*turn, COMPLETE]], flush=flush)
    for turn in turns_of(responses):
        finals = [response for response in turn if not response.partial]
        kinds = ["input" if response.input_transcription else "other" for response in finals]
        assert kinds == sorted(kinds)


@pytest.mark.parametrize("run", [from_objects, from_frames])
@law
@given(session=sessions, flush=flushes, data=st.data())
def test_a_cut_keeps_what_had_come(
    run: Callable[..., Any], session: list[list[Message]], flush: str, data: st.DataObject
) -> None:
    messages = [message for turn in session for message in [*turn, COMPLETE]]
    came = messages[: data.draw(st.integers(0, len(messages)))]
    responses = run(came, flush=flush, audio="join")
    assert told(responses, partial=False) == said(came)
    running = turns_of(responses)[-1]
    open_turn = came[len(came) - came[::-1].index(COMPLETE) :] if COMPLETE in came else came
    if said(open_turn) != said([]) or INTERRUPTED in open_turn:
        assert (running[-1].status, running[-1].error_code) == ("incomplete", "STREAM_CUT")
    assert not any(response.status == "completed" for response in running if not response.usage_metadata)


@law
@given(session=sessions, flush=flushes, data=st.data())
def test_objects_frames_and_a_snapshot_anywhere_say_the_same(
    session: list[list[Message]], flush: str, data: st.DataObject
) -> None:
    messages = [message for turn in session for message in [*turn, COMPLETE]]
    whole = [response.model_dump() for response in from_objects(messages, flush=flush)]
    assert [response.model_dump() for response in from_frames(messages, flush=flush)] == whole
    at = data.draw(st.integers(0, len(messages)))
    aggregator, carried = StreamingResponseAggregator(flush), []
    for number, message in enumerate(messages):
        if number == at:
            aggregator = StreamingResponseAggregator.restore(aggregator.snapshot())
        carried += aggregator.process_response(types.LiveServerMessage.model_validate(message))
    assert [response.model_dump() for response in carried] == whole
    assert aggregator.close() is None


@law
@given(session=sessions)
def test_read_as_a_whole_nothing_is_lost_either(session: list[list[Message]]) -> None:
    messages = [message for turn in session for message in [*turn, COMPLETE]]
    responses = list(aggregate(messages, "gemini-live"))
    assert told(responses, partial=False) == said(messages) | {"audio": b""}
    assert told(responses, partial=True)["audio"] == said(messages)["audio"]


@law
@given(
    ids=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=2, unique=True), min_size=1, max_size=2),
    turn=plain_turns,
    cancelled=st.sets(st.sampled_from("abcd")),
    flush=flushes,
    together=st.booleans(),
)
def test_each_call_comes_out_when_it_arrives(
    ids: list[list[str]], turn: list[Message], cancelled: set[str], flush: str, together: bool
) -> None:
    calls = [{"toolCall": {"functionCalls": [{"id": i, "name": "f", "args": {"i": i}} for i in each]}} for each in ids]
    cancel = [{"toolCallCancellation": {"ids": sorted(cancelled)}}] if cancelled else []
    end = [{**calls[-1], **COMPLETE}] if together else [calls[-1], COMPLETE]
    messages = [*turn, *calls[:-1], *cancel, *end]
    responses = from_objects(messages, flush=flush)
    seen: list[str] = []
    for place, each in enumerate(ids):  # a call sent again counts once; a cancelled one that comes later cannot run
        before = place < len(ids) - 1
        seen += [i for i in each if i not in seen and (before or i not in cancelled)]
    assert [c.id for response in responses for c in response.executable_function_calls()] == seen
    assert told(responses, partial=False) == said(turn) | {"audio": b""}
