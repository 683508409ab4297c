"""google-genai's own objects through the aggregator: snapshots at every cut, and nothing of them changed.

They may hold what the wire cannot: bytes, integers of any size, halves of surrogate pairs, parts of every kind.
"""

from __future__ import annotations

from typing import Any

from gemini_streams import seeded
from google.genai import types
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, StreamingResponseAggregator

Part = types.Part


def call(**fields: Any) -> Part:
    return Part(function_call=types.FunctionCall(**fields))


def blob(mime_type: str, data: bytes, **fields: Any) -> Part:
    return Part(inline_data=types.Blob(mime_type=mime_type, data=data), **fields)


def fragment(path: str, **fields: Any) -> types.PartialArg:
    return types.PartialArg(json_path=path, **fields)


HALF, OTHER_HALF = "\ud83d", "\ude00"

MESSAGES: list[list[Part]] = [
    [Part(text="a" + HALF)],
    [Part(text=OTHER_HALF + "b")],
    [Part(text="x", thought=True, thought_signature=b"\xff\x00")],
    [blob("image/png", b"\xff\x00")],
    [blob("audio/pcm", b"\xff\x00")],
    [blob("audio/pcm", b"\xfe"), blob("audio/wav", b"\xfd")],
    [blob("video/mp4", b"v", video_metadata=types.VideoMetadata(fps=1.0))],
    [Part(file_data=types.FileData(file_uri="u", mime_type="m"))],
    [Part(function_response=types.FunctionResponse(id="1", name="f", response={"a": 2**80, "b": [HALF, 1.5, None]}))],
    [Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON), thought_signature=b"\xfb")],
    [Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output=HALF))],
    [call(name="g", args={"n": 2**70, "s": HALF}, id="q"), Part(text="t", part_metadata={"k": {"z": [1, HALF]}})],
    [call(name="s", will_continue=True)],
    [call(partial_args=[fragment("$.a", string_value=HALF)], will_continue=True)],
    [call(partial_args=[fragment("$.a", string_value=OTHER_HALF), fragment("$.b[0]", number_value=3)])],
    [Part(text="a", thought_signature=b"\x00"), Part(thought_signature=b"s")],
    [],
]


def response(number: int) -> types.GenerateContentResponse:
    """The message of that number; numbers beyond them are an end, usage, and log probabilities."""
    if number < len(MESSAGES):
        candidate = types.Candidate(content=types.Content(role="model", parts=MESSAGES[number]))
    elif number == len(MESSAGES):
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=2**65)
        return types.GenerateContentResponse(usage_metadata=usage)
    else:
        tokens = [types.LogprobsResultCandidate(token=HALF, log_probability=-1.0)]
        logprobs = types.LogprobsResult(chosen_candidates=tokens)
        candidate = types.Candidate(finish_reason=types.FinishReason.STOP, logprobs_result=logprobs)
    return types.GenerateContentResponse(candidates=[candidate], response_id="r" + HALF, model_version="m" + HALF)


numbers = st.lists(st.integers(0, len(MESSAGES) + 1), min_size=1, max_size=8)
law = settings(max_examples=60, deadline=None)


def run(objects: list[Any], flush: str, carry_at: set[int]) -> list[LlmResponse]:
    aggregator = StreamingResponseAggregator(flush)
    seeded(aggregator)
    responses: list[LlmResponse] = []
    for at, each in enumerate(objects):
        if at in carry_at:
            aggregator = StreamingResponseAggregator.restore(aggregator.snapshot())
        responses += aggregator.process_response(each)
    if len(objects) in carry_at:
        aggregator = StreamingResponseAggregator.restore(aggregator.snapshot())
    last = aggregator.close()
    assert last is not None
    return [*responses, last]


@law
@given(numbers, st.sampled_from(["close", "boundary"]))
@example(list(range(len(MESSAGES) + 2)), "close")
@example(list(range(len(MESSAGES) + 2)), "boundary")
def test_a_snapshot_at_any_object_goes_on_as_if_never_stopped(chosen, flush):
    objects = [response(number) for number in chosen]
    wanted = [each.model_dump() for each in run(objects, flush, set())]
    for carry_at in [*({at} for at in range(len(objects) + 1)), set(range(len(objects) + 1))]:
        assert [each.model_dump() for each in run(objects, flush, carry_at)] == wanted


@law
@given(numbers, st.sampled_from(["close", "boundary"]))
@example(list(range(len(MESSAGES) + 2)), "close")
def test_every_response_can_be_written_and_the_objects_are_unchanged(chosen, flush):
    objects = [response(number) for number in chosen]
    before = [each.model_dump() for each in objects]
    for each in run(objects, flush, set()):
        assert LlmResponse.model_validate_json(each.model_dump_json(by_alias=True, exclude_none=True))
    assert [each.model_dump() for each in objects] == before


@law
@given(numbers)
def test_a_part_is_given_once_in_either_flush(chosen):
    objects = [response(number) for number in chosen]

    def kept(flush: str) -> list[dict[str, Any]]:
        return [part.model_dump() for each in run(objects, flush, set()) if not each.partial for part in each.parts]

    close, boundary = kept("close"), kept("boundary")
    images = [number for number in chosen if number in (3, 6, 7, 8, 9, 10)]
    others = [part for part in close if part["text"] is None and part["function_call"] is None]
    whole = [part for part in others if not ((part["inline_data"] or {}).get("mime_type") or "").startswith("audio")]
    assert len([part for part in whole if part["thought_signature"] != b"s"]) == len(images)

    def said(parts: list[dict[str, Any]]) -> list[tuple[str, bytes, list[Any]]]:
        text = "".join(part["text"] or "" for part in parts)
        audio = b"".join((part["inline_data"] or {}).get("data") or b"" for part in parts)
        return [(text.replace("\ufffd", ""), audio, [part["function_call"] for part in parts if part["function_call"]])]

    assert said(close) == said(boundary)
