"""Streams to encode: generated ones through the aggregator in every form, and what they come to."""

import json
from dataclasses import dataclass

from google.genai import types
from hypothesis import strategies as st

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate

USAGE = {"input_tokens": 3, "output_tokens": 1}


@dataclass
class Stream:
    """Responses of one run of an agent, and what they hold."""

    responses: list
    text: str
    thoughts: str
    calls: dict  # arguments by id, of those that may run
    whole: bool
    results: dict


texts = st.text(min_size=1, max_size=12)
arguments = st.dictionaries(
    texts, st.integers(-(2**70), 2**70) | texts | st.none() | st.lists(st.booleans(), max_size=2), max_size=3
)
blocks = st.one_of(
    st.tuples(st.just("text"), texts),
    st.tuples(st.just("thinking"), texts),
    st.tuples(st.just("tool"), arguments),
)


def pieces(draw, text):
    """``text`` cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def anthropic_round(draw, number, ids):
    """The events of one message."""
    told = draw(st.lists(blocks, max_size=5))
    message = {"id": f"m{number}", "model": "c", "role": "assistant", "content": [], "usage": USAGE}
    events = [{"type": "message_start", "message": message}]
    for index, (kind, value) in enumerate(told):
        start = {"type": "content_block_start", "index": index}
        deltas = []
        if kind == "text":
            start["content_block"] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(draw, value)]
        elif kind == "thinking":
            start["content_block"] = {"type": "thinking", "thinking": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(draw, value)]
            deltas.append({"type": "signature_delta", "signature": "c2ln"})
        else:
            name = f"t{len(ids)}"
            ids.append(name)
            start["content_block"] = {"type": "tool_use", "id": name, "name": "f", "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(draw, json.dumps(value))]
        events.append(start)
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if any(kind == "tool" for kind, _ in told) else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
    events.append({"type": "message_stop"})
    return events


def chat_round(draw, number, ids):
    """The chunks of one completion, pieces of its parts interleaved in any way."""
    lanes = []
    for kind, value in draw(st.lists(blocks, max_size=4)):
        if kind == "tool":
            index = sum(lane[0].get("tool_calls") is not None for lane in lanes)
            ids.append(f"call_{len(ids)}")
            first, *others = pieces(draw, json.dumps(value))
            head = {"index": index, "id": ids[-1], "type": "function", "function": {"name": "f", "arguments": first}}
            lane = [head, *({"index": index, "function": {"arguments": piece}} for piece in others)]
            lanes.append([{"tool_calls": [call]} for call in lane])
        else:
            field = "content" if kind == "text" else "reasoning_content"
            lanes.append([{field: piece} for piece in pieces(draw, value)])
    deltas = []
    while any(lanes):
        lane = draw(st.sampled_from([lane for lane in lanes if lane][:2]))
        deltas.append(lane.pop(0))
    called = any("tool_calls" in delta for delta in deltas)
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if called else "stop"})
    frame = {"id": f"c{number}", "object": "chat.completion.chunk"}
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    return [*({**frame, "choices": [chunk]} for chunk in chunks), {**frame, "choices": [], "usage": usage}]


ROUNDS = {"anthropic": anthropic_round, "openai-chat": chat_round}


def answer(call_id, response):
    return types.Part(function_response=types.FunctionResponse(id=call_id, name="f", response=response))


def results(*answers):
    """The response that holds what the tools answered."""
    return LlmResponse(content=types.Content(role="user", parts=list(answers)))


@st.composite
def streams(draw):
    """Some rounds with results of tools between them; the last one may be cut anywhere."""
    line = draw(st.sampled_from(sorted(ROUNDS)))
    form = draw(st.sampled_from(["close", "boundary", "finals"]))
    run = Stream([], "", "", {}, True, {})
    ids = []
    for number in range(draw(st.integers(1, 3))):
        events = ROUNDS[line](draw, number, ids)
        last = len(events) if draw(st.integers(0, 3)) else draw(st.integers(1, len(events) - 1))
        responses = list(aggregate(events[:last], provider=line, flush="boundary" if form == "boundary" else "close"))
        if form == "finals":
            responses = [response for response in responses if not response.partial]
        run.responses += responses
        ready = [
            call
            for response in responses
            if response.status in ("completed", "in_progress")
            for call in response.executable_function_calls()
        ]
        for response in responses:
            if not response.partial:
                run.text += response.text
                run.thoughts += response.thought_text
        run.calls |= {call.id: call.args for call in ready}
        run.whole = bool(responses) and responses[-1].status == "completed"
        if not run.whole or not ready:
            break
        if draw(st.booleans()):
            break
        answers = [answer(call.id, {"result": call.id}) for call in ready]
        run.results |= {call.id: {"result": call.id} for call in ready}
        run.responses.append(results(*answers))
    return run


def gemini(*chunks, flush="close"):
    """The responses to chunks given as parts; the last one finishes."""
    aggregator, responses = StreamingResponseAggregator(flush=flush), []
    for number, parts in enumerate(chunks):
        candidate = {"content": {"role": "model", "parts": parts}}
        if number == len(chunks) - 1:
            candidate["finishReason"] = "STOP"
        chunk = types.GenerateContentResponse.model_validate({"candidates": [candidate]})
        responses += aggregator.process_response(chunk)
    final = aggregator.close()
    return [*responses, final]


def encoded(encoder, responses, error=None):
    """All events of a stream."""
    events = [event for response in responses for event in encoder.encode(response)]
    return events + encoder.finish(error)
