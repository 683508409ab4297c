"""Events, and how they are made of responses."""

import copy
import pickle
import subprocess
import sys

import pytest
from google.genai import types
from pydantic import ValidationError

from adk_stream.response import LlmResponse
from adk_stream.sessions import Event, EventActions


def event(*parts, **fields):
    return Event(content=types.Content(role="model", parts=list(parts)), **fields)


CALL = types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": [1]}))
ANSWER = types.Part(function_response=types.FunctionResponse(id="c", name="f", response={}))
TEXT = types.Part(text="hi")
RESULT = types.Part(code_execution_result=types.CodeExecutionResult(output="1"))


@pytest.mark.parametrize(
    ("given", "final"),
    [
        (event(TEXT), True),
        (event(TEXT, partial=True), False),
        (event(TEXT, CALL), False),
        (event(ANSWER), False),
        (event(TEXT, RESULT), False),
        (event(RESULT, TEXT), True),
        (event(CALL, long_running_tool_ids={"c"}), True),
        (event(ANSWER, actions=EventActions(skip_summarization=True)), True),
        (event(RESULT, error_code="SAFETY"), True),
        (event(CALL, error_code="MAX_TOKENS"), False),
        (event(TEXT, error_code="SAFETY", partial=True), False),
        (Event(), True),
    ],
)
def test_is_final_response(given, final):
    assert given.is_final_response() is final


def test_calls_and_responses():
    given = event(TEXT, CALL, ANSWER)
    assert given.get_function_calls() == [CALL.function_call]
    assert given.get_function_responses() == [ANSWER.function_response]
    assert Event().get_function_calls() == Event().get_function_responses() == []


def test_ids_are_made_when_missing():
    ids = {Event().id, Event().id, Event(id="").id, Event.model_validate({"id": None}).id}
    assert len(ids) == 4
    assert all(len(made) == 36 for made in ids)
    assert Event(id="given").id == "given"


def test_json_is_camel_case():
    given = Event(
        invocation_id="i",
        actions={"stateDelta": {"a_b": 1}, "transferToAgent": "x"},
        longRunningToolIds=["b", "a"],
    )
    dumped = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped["invocationId"] == "i"
    assert dumped["actions"]["stateDelta"] == {"a_b": 1}
    assert dumped["longRunningToolIds"] == ["a", "b"]
    assert Event.model_validate(dumped) == given


def test_a_timestamp_is_a_number():
    with pytest.raises(ValidationError):
        Event(timestamp=float("nan"))


def full_response():
    return LlmResponse(
        content=types.Content(role="model", parts=[TEXT.model_copy(), copy.deepcopy(CALL)]),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3),
        citation_metadata=types.CitationMetadata(citations=[types.Citation(uri="u")]),
        provider_metadata={"x": {"y": [1, {"z": 2}]}},
        custom_metadata={"k": [object]},
        finish_reason=types.FinishReason.STOP,
        status="completed",
        avg_logprobs=-0.5,
    )


def test_from_response_keeps_everything_and_shares_nothing():
    response = full_response()
    before = response.model_copy(deep=True)
    made = Event.from_response(response, author="model", invocation_id="i", id="e")
    for name in LlmResponse.model_fields:
        assert getattr(made, name) == getattr(response, name), name
    assert (made.author, made.invocation_id, made.id) == ("model", "i", "e")
    assert made == Event(**response.__dict__, author="model", invocation_id="i", id="e", timestamp=made.timestamp)
    made.content.parts[0].text = "changed"
    made.content.parts[1].function_call.args["a"].append(2)
    made.content.parts.append(TEXT)
    made.usage_metadata.prompt_token_count = 9
    made.citation_metadata.citations[0].uri = "changed"
    made.provider_metadata["x"]["y"][1]["z"] = 3
    made.custom_metadata["k"].clear()
    made.actions.state_delta["s"] = 1
    assert response == before
    other = Event.from_response(response, author="model", invocation_id="i")
    assert other.actions == EventActions()
    assert other.id != made.id
    again = pickle.loads(
        pickle.dumps(
            copy.deepcopy(
                Event.from_response(
                    before.model_copy(update={"custom_metadata": None}), author="a", invocation_id="i", id="e"
                )
            )
        )
    )
    assert again.content == before.content


def test_from_response_of_a_partial_is_cheap():
    import time

    partial = LlmResponse(partial=True, content=types.Content(role="model", parts=[TEXT]), response_id="r")

    def best(work):
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(100):
                work()
            times.append(time.perf_counter() - start)
        return min(times)

    made = best(lambda: Event.from_response(partial, author="model", invocation_id="i", id="e"))
    assert made < best(lambda: partial.model_copy(deep=True))


def test_memory_and_protocol_do_not_load_sqlalchemy():
    code = (
        "import sys; import adk_stream.sessions as s; assert 'google.genai' not in sys.modules;"
        "s.InMemorySessionService(), s.store_events, s.SessionService;"
        "s.open_session_service('memory:');"
        "assert 'sqlalchemy' not in sys.modules and 'sqlite3' not in sys.modules;"
        "s.SqlSessionService; assert 'sqlalchemy' in sys.modules and 'SqlSessionService' in dir(s)"
    )
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_names():
    import adk_stream.sessions as sessions

    for name in sessions.__all__:
        assert getattr(sessions, name) is not None
    with pytest.raises(AttributeError):
        sessions.nothing  # noqa: B018
