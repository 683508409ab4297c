"""The contract's laws that say the same on every line, each held by all of them; see ``lines``."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from typing import Any

import pytest
from gemini_streams import carried, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from lines import LINES, described, messages, sse

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate, to_native
from adk_stream.providers.line import Line

law = settings(max_examples=30, deadline=None)
flushes = st.sampled_from(["close", "boundary"])
every_line = pytest.mark.parametrize("provider", LINES)


def responses_of(stream: Any, provider: str, flush: str = "close") -> list[LlmResponse]:
    return list(aggregate(stream, provider, flush))


def kept(responses: list[LlmResponse]) -> list[dict[str, Any]]:
    return described(part for each in responses if not each.partial for part in each.parts)


def dumps(responses: list[LlmResponse]) -> list[dict[str, Any]]:
    return [each.model_dump() for each in responses]


@every_line
@settings(max_examples=60, deadline=None)
@given(message=messages(), flush=flushes)
def test_1_2_what_was_meant_comes_out_and_the_end_is_natural(provider, message, flush):
    line = LINES[provider]
    responses = responses_of(line.stream(message), provider, flush)
    assert line.agrees(kept(responses), message, flush)
    final = responses[-1]
    assert (final.status, final.finish_reason, final.error_code) == ("completed", "STOP", None)
    ran = [call.id for each in responses for call in each.executable_function_calls()]
    assert ran == [said.id for said in message if said.kind == "call"]


@every_line
@law
@given(message=messages(), data=st.data(), flush=flushes)
def test_1_a_cut_stream_is_a_prefix_and_runs_nothing_that_was_open(provider, message, data, flush):
    line = LINES[provider]
    events = line.stream(message)
    ended = len(events) - len(line.end(message)) + line.terminal
    at = data.draw(st.integers(1, ended - 1))
    final, whole = responses_of(events[:at], provider)[-1], responses_of(events, provider)[-1]
    assert (final.status, final.error_code, final.finish_reason) == ("incomplete", "STREAM_CUT", None)
    assert whole.text.startswith(final.text)
    assert whole.thought_text.startswith(final.thought_text)
    calls = {said.id: json.loads(said.whole) for said in message if said.kind == "call"}
    for each in responses_of(events[:at], provider, flush):
        for call in each.executable_function_calls():
            assert calls[call.id] == call.args


@every_line
@settings(max_examples=60, deadline=None)
@given(message=messages(), data=st.data(), flush=flushes)
def test_3_neutral_events_change_no_part_and_no_end(provider, message, data, flush):
    line = LINES[provider]
    events = line.stream(message)
    wanted = responses_of(events, provider)[-1]
    first = 1 if provider in ("anthropic", "openai-responses") else 0  # these begin with their own first event
    for each in data.draw(st.lists(st.sampled_from(line.neutral), min_size=1, max_size=4)):
        events.insert(data.draw(st.integers(first, len(events) - 1)), each)
    final = responses_of(events, provider)[-1]
    assert described(final.parts) == described(wanted.parts)
    assert (final.status, final.usage_metadata) == (wanted.status, wanted.usage_metadata)
    assert line.agrees(kept(responses_of(events, provider, flush)), message, flush)


@every_line
@law
@given(message=messages(), data=st.data(), newline=st.sampled_from(["\n", "\r", "\r\n"]))
def test_4_the_reads_do_not_matter(provider, message, data, newline):
    body = b": hello" + newline.encode() + sse(LINES[provider].stream(message), newline)
    places = sorted({*data.draw(st.lists(st.integers(0, len(body)), max_size=6)), 0, len(body)})
    wanted = dumps(responses_of([body], provider))
    assert dumps(responses_of([body[a:b] for a, b in itertools.pairwise(places)], provider)) == wanted
    assert dumps(responses_of([body[i : i + 1] for i in range(len(body))], provider)) == wanted
    assert dumps(responses_of([body], "auto")) == wanted


@every_line
@law
@given(message=messages(), flush=flushes)
def test_6_11_the_deltas_joined_are_the_final_and_come_before_it(provider, message, flush):
    responses = responses_of(LINES[provider].stream(message), provider, flush)
    assert {each.response_id for each in responses if each.content} == {"r-1"}
    for view in ("text", "thought_text"):
        shown = final = ""
        for each in responses:
            if each.partial:
                shown += getattr(each, view)
            else:
                final += getattr(each, view)
            assert shown.startswith(final)
        assert shown == final


@every_line
@law
@given(message=messages(), flush=flushes)
def test_8_usage_is_on_exactly_one_final(provider, message, flush):
    responses = responses_of(LINES[provider].stream(message), provider, flush)
    told = [each.usage_metadata for each in responses if each.usage_metadata]
    assert [(u.prompt_token_count, u.candidates_token_count, u.total_token_count) for u in told] == [(3, 2, 5)]
    assert responses[-1].usage_metadata


@every_line
@law
@given(message=messages(), data=st.data(), flush=flushes)
def test_10_the_history_can_be_sent_wherever_the_stream_stopped(provider, message, data, flush):
    events = LINES[provider].stream(message)
    at = data.draw(st.integers(1, len(events)))
    finals = [each for each in responses_of(events[:at], provider, flush) if not each.partial]
    for target in LINES:
        json.dumps(to_native(finals, target))


@every_line
@law
@given(message=messages(), data=st.data(), flush=flushes)
def test_14_an_error_anywhere_ends_the_stream_and_keeps_what_had_come(provider, message, data, flush):
    line = LINES[provider]
    events = line.stream(message)
    at = data.draw(st.integers(0, len(events) - 1))
    responses = responses_of([*events[:at], line.error, *events[at:]], provider, flush)
    final = responses[-1]
    assert (final.status, final.error_code, final.error_message) == ("failed", "oops", "it broke")
    cut = responses_of(events[:at], provider)
    assert "".join(each.text for each in responses if not each.partial) == (cut[-1].text if cut else "")


@every_line
@law
@given(message=messages(), flush=flushes)
def test_20_what_was_given_and_emitted_is_never_changed(provider, message, flush):
    events = LINES[provider].stream(message)
    before = deepcopy(events)
    responses, then = [], []
    for each in aggregate(events, provider, flush):
        responses.append(each)
        then.append(each.model_dump_json())
    assert [each.model_dump_json() for each in responses] == then
    assert events == before


@every_line
@law
@given(several=st.lists(messages(max_size=3), min_size=2, max_size=3), data=st.data())
def test_20_interleaved_streams_are_as_if_run_one_after_another(provider, several, data):
    streams = [LINES[provider].stream(message) for message in several]
    sources = [aggregate(iter(stream), provider) for stream in streams]
    got: list[list[LlmResponse]] = [[] for _ in several]
    alive = set(range(len(several)))
    while alive:
        number = data.draw(st.sampled_from(sorted(alive)))
        each = next(sources[number], None)
        if each is None:
            alive.discard(number)
        else:
            got[number].append(each)
    assert [dumps(each) for each in got] == [dumps(responses_of(stream, provider)) for stream in streams]


@every_line
@law
@given(message=messages(max_size=3), flush=flushes)
def test_a_snapshot_at_any_event_goes_on_as_if_never_stopped(provider, message, flush):
    frames = [sse([each]) for each in LINES[provider].stream(message)]

    def run(carry_at: set[int]) -> list[dict[str, Any]]:
        line, aggregator = Line(provider), StreamingResponseAggregator(flush)
        seeded(aggregator)
        aggregator.speaks(provider)
        responses: list[LlmResponse] = []
        for number, frame in enumerate([*frames, None]):
            if number in carry_at:
                line, aggregator = carried(line, aggregator)
            for chunks in line.close() if frame is None else line.feed(frame):
                for chunk in chunks:
                    responses += aggregator.process_response(chunk)
        last = aggregator.close()
        return dumps([*responses, *([last] if last else [])])

    wanted = dumps(responses_of(frames, provider, flush))
    assert run(set()) == wanted
    assert run(set(range(len(frames) + 1))) == wanted
    for at in range(0, len(frames) + 1, 3):
        assert run({at}) == wanted
