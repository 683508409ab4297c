"""Models, execution and runner against llmock: a server that others wrote, with faults of the field on demand.

Of each fault: the final's status and code, what had come and was kept, the error that was raised, and that a retry
comes only while nothing was shown. llmock itself tells, in its verdict, how well its client behaved.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from google import genai
from google.genai import types
from outside_runs import QUICK, Answer, ask, finals, nothing_stays, question, talk, with_model

from adk_stream import StreamExecutionOptions
from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamCutError,
    StreamTimeoutError,
)
from adk_stream.models import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel

pytest.importorskip("llmock", reason="llmock is not installed")
pytest.importorskip("openai")
pytest.importorskip("anthropic")

WORDS = ["alpha ", "beta ", "gamma ", "delta ", "epsilon"]
TEXT = "".join(WORDS)

#: Clients come from the environment, which llmock's fixture points at its server. It has Gemini's v1beta only.
MODELS = {
    "gemini": lambda: GeminiModel("m", client=genai.Client(http_options=types.HttpOptions(api_version="v1beta"))),
    "openai-chat": lambda: OpenAIChatModel("m"),
    "openai-responses": lambda: OpenAIResponsesModel("m"),
    "anthropic": lambda: AnthropicModel("m"),
}
each_line = pytest.mark.parametrize("line", MODELS)

#: The events of llmock's answer before its first word, and those up to the terminal sign, that one included.
BEFORE = {"gemini": 0, "openai-chat": 1, "openai-responses": 4, "anthropic": 3}
ENDS = {"gemini": 5, "openai-chat": 7, "openai-responses": 13, "anthropic": 11}

PATIENCE = 0.3
IMPATIENT = StreamExecutionOptions(PATIENCE, PATIENCE, retry_backoff=0.01, retry_jitter=0)


def trying(retries: int, **options: float) -> StreamExecutionOptions:
    return StreamExecutionOptions(10, 10, max_retries=retries, retry_backoff=0.01, retry_jitter=0, **options)


@pytest.fixture
def server(llmock) -> Iterator:
    with nothing_stays(llmock.url):
        yield llmock


def told(line: str, events: int) -> str:
    """The text in that many events of the answer."""
    return "".join(WORDS[: max(0, events - BEFORE[line])])


# ----------------------------------------------------------------- answers


@each_line
def test_text(server, line):
    server.reply(TEXT)
    answer = question(MODELS[line])
    assert (answer.end, answer.raised, answer.attempts) == (("completed", None), None, 1)
    assert answer.shown == answer.kept == TEXT
    assert [response.text for response in answer.responses if response.text][:-1] == WORDS
    usage = answer.final.usage_metadata
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count > 0
    server.assert_resilient(strict=True)


@each_line
def test_an_end_that_is_none(server, line):
    from llmock.scenarios import Reply

    ends = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
    if line == "openai-responses":  # llmock tells it as an answer that completed
        del ends["content_filter"]

    async def main(model) -> None:
        for reason, code in ends.items():
            server.add(Reply(text=TEXT, finish_reason=reason))
            answer = await ask(model)
            assert (answer.end, answer.raised) == (("incomplete", code), None)
            assert answer.shown == answer.kept == TEXT

    with_model(MODELS[line], main)


# ----------------------------------------------------------------- faults inside a stream

KINDS = {"disconnect": ConnectionLostError, "truncate": StreamCutError, "corrupt": MalformedStreamError}


def right_end(line: str, kind: str, place: int) -> tuple[tuple[str, str | None], type[Exception] | None]:
    """How a stream ends that has this fault after so many events, and what is raised."""
    if kind == "disconnect":
        return ("failed", "ConnectionLostError"), ConnectionLostError
    if kind == "corrupt":
        return ("failed", "MALFORMED_STREAM"), MalformedStreamError
    if kind == "stall":
        return ("failed", "STREAM_TIMEOUT"), StreamTimeoutError
    nothing_shown = place <= BEFORE[line]
    return ("incomplete" if place else "failed", "STREAM_CUT"), StreamCutError if nothing_shown else None


@each_line
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_breaks_at_any_event(server, line, kind):
    """One client takes all of it, and each answer is its own."""

    async def main(model) -> list[Answer]:
        answers = []
        for place in range(ENDS[line]):
            server.reply(TEXT)
            getattr(server, kind)(after_chunks=place)
            answers.append(await ask(model))
        server.reply(TEXT)
        answers.append(await ask(model))
        return answers

    *broken, whole = with_model(MODELS[line], main)
    for place, answer in enumerate(broken):
        end, error = right_end(line, kind, place)
        assert (place, answer.end, type(answer.raised)) == (place, end, error or type(None))
        assert answer.shown == answer.kept == told(line, place)
        assert answer.attempts == 1
    assert (whole.end, whole.shown, whole.raised) == (("completed", None), TEXT, None)


@each_line
@pytest.mark.parametrize("kind", KINDS)
def test_another_attempt_comes_only_while_nothing_was_shown(server, line, kind):
    async def main(model) -> list[Answer]:
        answers = []
        for place in range(BEFORE[line] + 3):
            server.reply(TEXT, times=2)
            getattr(server, kind)(after_chunks=place)
            answers.append(await ask(model, trying(2)))
            if place <= BEFORE[line] and kind != "corrupt":
                server.assert_resilient(strict=True)
            server.reset()
        return answers

    for place, answer in enumerate(with_model(MODELS[line], main)):
        # broken JSON in an answer that had begun to speak would come again
        may_go_on = place <= BEFORE[line] if kind != "corrupt" else place == 0
        assert (place, answer.attempts) == (place, 2 if may_go_on else 1)
        assert answer.shown == answer.kept == (TEXT if may_go_on else told(line, place))
        assert (answer.end == ("completed", None)) is may_go_on


def test_after_the_terminal_sign_nobody_cares_how_the_stream_ends(server):
    """Only Chat's answer goes on after it, with its end mark."""

    async def main(model) -> None:
        for kind in ("disconnect", "truncate", "stall"):
            server.reply(TEXT)
            getattr(server, kind)(after_chunks=ENDS["openai-chat"])
            answer = await ask(model, trying(1, end_grace=0.1))
            assert (answer.end, answer.raised, answer.attempts) == (("completed", None), None, 1)
            assert answer.shown == answer.kept == TEXT
            assert answer.seconds < 5

    with_model(MODELS["openai-chat"], main)


@each_line
def test_the_last_error_is_raised_when_all_attempts_fail(server, line):
    server.reply(TEXT, times=3)
    server.disconnect(after_chunks=0, times=2).fail(503, retry_after=0.01)
    answer = question(MODELS[line], trying(2))
    assert answer.attempts == 3
    assert answer.end[0] == "failed"
    assert answer.shown == ""
    assert answer.raised is not None


# ----------------------------------------------------------------- time


@each_line
def test_a_stall(server, line):
    async def main(model) -> None:
        for events, limit in ((BEFORE[line] + 2, "idle"), (0, "first_token")):
            server.reset().reply(TEXT).stall(after_chunks=events, seconds=30)
            options = IMPATIENT if limit == "first_token" else StreamExecutionOptions(10, PATIENCE)
            answer = await ask(model, options)
            assert isinstance(answer.raised, StreamTimeoutError)
            assert answer.raised.limit == limit
            assert answer.end == ("failed", "STREAM_TIMEOUT")
            assert answer.shown == answer.kept == told(line, events)
            assert PATIENCE <= answer.seconds < 5

    with_model(MODELS[line], main)


@each_line
def test_a_slow_beginning_is_tried_again(server, line):
    async def main(model) -> None:
        server.reply(TEXT, times=None)
        await ask(model)  # connects
        for slow in ("slow_first_token", "delay"):
            getattr(server, slow)(3)
            limits = StreamExecutionOptions(PATIENCE, 10, max_retries=1, retry_backoff=0.01)
            answer = await ask(model, limits)
            assert (answer.end, answer.shown, answer.raised) == (("completed", None), TEXT, None)
            assert answer.attempts == 2
            assert answer.seconds < 2.5

    with_model(MODELS[line], main)


@each_line
def test_slow_but_within_the_limits(server, line):
    server.reply(TEXT).slow_first_token(0.1).stall(after_chunks=BEFORE[line] + 1, seconds=0.1).pace(10)
    answer = question(MODELS[line])
    assert (answer.end, answer.shown, answer.raised, answer.attempts) == (("completed", None), TEXT, None, 1)
    assert answer.seconds >= 0.2


@each_line
def test_the_total_limit_counts_what_drips(server, line):
    server.reply(TEXT * 100).pace(10)
    answer = question(MODELS[line], StreamExecutionOptions(10, 10, total_timeout=0.8, max_retries=2))
    assert isinstance(answer.raised, StreamTimeoutError)
    assert (answer.raised.limit, answer.end) == ("total", ("failed", "STREAM_TIMEOUT"))
    assert (TEXT * 100).startswith(answer.shown)
    assert answer.shown == answer.kept != ""
    assert answer.attempts == 1


# ----------------------------------------------------------------- refusals


@each_line
def test_refusals_that_stay_are_not_tried_again(server, line):
    async def main(model) -> None:
        for status in (400, 401, 403, 404, 413, 422):
            server.reset().fail(status)
            answer = await ask(model, trying(2))
            assert isinstance(answer.raised, ProviderError)
            assert (answer.raised.status, answer.attempts) == (status, 1)
            assert answer.end == ("failed", answer.raised.code)
            assert answer.raised.code.upper() == answer.raised.code or line != "gemini"
            assert len(server.requests) == 1
            server.assert_resilient(strict=True)

    with_model(MODELS[line], main)


@each_line
def test_refusals_that_pass_are_tried_again(server, line):
    async def main(model) -> None:
        for status in (408, 409, 429, 500, 502, 503, 504, 529):
            server.reset().reply(TEXT, times=2).fail(status, retry_after=0.02)
            answer = await ask(model, trying(2))
            assert (status, answer.end, answer.shown, answer.attempts) == (status, ("completed", None), TEXT, 2)
            server.assert_resilient(strict=True)

    with_model(MODELS[line], main)


@each_line
def test_retry_after_is_honoured(server, line):
    waits: list[tuple[type[Exception], float]] = []
    server.reply(TEXT).rate_limit(times=2, retry_after=0.15)
    options = StreamExecutionOptions(
        max_retries=2, retry_backoff=9, on_retry=lambda error, *_: waits.append((type(error), error.retry_after))
    )
    answer = question(MODELS[line], options)
    assert waits == [(RateLimitError, 0.15)] * 2
    assert (answer.end, answer.shown, answer.attempts) == (("completed", None), TEXT, 3)
    assert 0.3 <= answer.seconds < 5
    server.assert_resilient(strict=True)


@each_line
def test_a_quota_of_tokens_is_waited_for(server, line):
    """Two answers of half the minute's tokens each, and a little: the second waits until that is there again."""
    server.limits(tpm=60_000).reply(TEXT, times=None)
    config = types.GenerateContentConfig(max_output_tokens=30_100)

    async def main(model) -> list[Answer]:
        return [await ask(model, trying(4), config=config) for _ in range(2)]

    first, second = with_model(MODELS[line], main)
    assert [first.end, second.end] == [("completed", None)] * 2
    assert first.attempts == 1
    assert second.attempts > 1
    server.assert_resilient()


@each_line
def test_a_quota_that_would_take_too_long_fails_at_once(server, line):
    server.limits(rpm=1).reply(TEXT, times=None)

    async def main(model) -> list[Answer]:
        return [await ask(model, trying(2, total_timeout=20)) for _ in range(2)]

    first, second = with_model(MODELS[line], main)
    assert first.end == ("completed", None)
    assert isinstance(second.raised, RateLimitError)
    assert 50 < second.raised.retry_after <= 60
    assert second.attempts == 1
    assert second.seconds < 5


@each_line
def test_a_prompt_that_is_too_long(server, line):
    server.limits(context_window=1)
    answer = question(MODELS[line], trying(2), message="Be brief. " * 50)
    assert type(answer.raised) is ProviderError
    assert (answer.raised.status, answer.attempts, answer.end[0]) == (400, 1, "failed")
    assert "maximum" in answer.raised.message


# ----------------------------------------------------------------- runs

CALL = {"city": "Longyearbyen"}
LEAD = "Let me see. "


class Weather:
    """A tool that notes what it was asked, and may break what comes after it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.then = lambda: None

    def weather(self, city: str) -> str:
        """Tell the weather of a city."""
        self.asked.append(city)
        self.then()
        return f"cold in {city}"


@each_line
def test_a_tool_round(server, line):
    tool = Weather()
    server.call_tool("weather", CALL, text=LEAD).reply(TEXT)
    run = with_model(MODELS[line], lambda model: talk(model, ["How is it there?"], tools=[tool.weather]))
    assert run.raised == [None]
    call, result, answer = finals(run.runs[0])
    assert (call.text, [(each.name, each.args) for each in call.get_function_calls()]) == (LEAD, [("weather", CALL)])
    assert [each.response for each in result.get_function_responses()] == [{"result": "cold in Longyearbyen"}]
    assert (answer.text, answer.status) == (TEXT, "completed")
    assert len({event.id for event in run.runs[0]}) == 3
    assert "cold in Longyearbyen" in json.dumps(server.requests[1].body)
    server.assert_resilient(strict=True)


@each_line
def test_a_broken_call_is_answered_and_the_model_goes_on(server, line):
    async def main(model) -> None:
        for kind in ("malformed_arguments", "unknown_tool"):
            tool = Weather()
            server.reset().call_tool("weather", CALL).break_tool_call(kind).reply(TEXT)
            run = await talk(model, ["How is it there?"], tools=[tool.weather])
            call, result, answer = finals(run.runs[0])
            assert tool.asked == []
            assert len(call.get_function_calls()) == 1
            assert list(result.get_function_responses()[0].response) == ["error"]
            assert (answer.text, answer.status, run.raised) == (TEXT, "completed", [None])
            assert [record.status for record in server.requests] == [200, 200]

    with_model(MODELS[line], main)


@each_line
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_cut_never_runs(server, line, kind):
    """Cut at any event: the run ends, the history can be sent, and the next run answers."""
    events = {"gemini": 3, "openai-chat": 8, "openai-responses": 16, "anthropic": 12}[line]

    async def main(model) -> None:
        for place in range(events):
            tool = Weather()
            server.reset().tool_mode("off").call_tool("weather", CALL, text=LEAD)
            getattr(server, kind)(after_chunks=place)
            run = await talk(model, ["How is it there?", "And now?"], tools=[tool.weather])
            assert (place, tool.asked) == (place, [])
            first, second = run.runs
            assert first[-1].status in ("failed", "incomplete")
            assert LEAD.startswith(finals(first)[0].text)
            assert "".join(event.text for event in first if event.partial) == finals(first)[0].text
            assert (second[-1].status, run.raised[1]) == ("completed", None)
            assert [record.status for record in server.requests] == [200, 200]

    with_model(MODELS[line], main)


@each_line
def test_a_fault_in_the_second_round(server, line):
    """The tool that ran keeps its result, what had come of the answer is kept, and the next run goes on with both."""

    async def main(model) -> None:
        for kind in (*KINDS, "stall"):
            tool = Weather()
            limits = IMPATIENT if kind == "stall" else QUICK
            tool.then = lambda kind=kind: getattr(server, kind)(after_chunks=BEFORE[line] + 2)
            server.reset().call_tool("weather", CALL).reply(TEXT).reply("As I said: cold.")
            run = await talk(model, ["How is it there?", "Go on."], tools=[tool.weather], execution=limits)
            _, result, broken = finals(run.runs[0])
            assert [each.response for each in result.get_function_responses()] == [{"result": "cold in Longyearbyen"}]
            end, error = right_end(line, kind, BEFORE[line] + 2)
            assert ((broken.status, broken.error_code), type(run.raised[0])) == (end, error or type(None))
            assert broken.text == "alpha beta "
            assert (finals(run.runs[1])[-1].text, run.raised[1]) == ("As I said: cold.", None)
            said = [event for event in run.stored if event.content and event.content.role == "model"]
            assert [event.status for event in said] == ["completed", broken.status, "completed"]
            sent = json.dumps(server.requests[-1].body)
            assert all(words in sent for words in ("cold in Longyearbyen", "alpha beta ", "Go on."))

    with_model(MODELS[line], main)


@each_line
def test_refusals_of_a_run(server, line):
    """A run that is refused stores that, and the next one goes on; one that may try again shows nothing of it."""

    async def main(model) -> None:
        server.fail(400).reply(TEXT, times=2)
        run = await talk(model, ["hi", "again"])
        assert isinstance(run.raised[0], ProviderError)
        assert (run.runs[0][-1].status, run.runs[0][-1].content) == ("failed", None)
        assert (run.runs[1][-1].text, run.raised[1]) == (TEXT, None)

        server.reset().rate_limit(retry_after=0.05).reply(TEXT)
        run = await talk(model, ["hi"], execution=trying(1))
        assert (run.raised, [event.text for event in finals(run.runs[0])]) == ([None], [TEXT])
        server.assert_resilient(strict=True)

    with_model(MODELS[line], main)


@each_line
def test_leaving_a_stream_that_stalls_closes_its_connection(server, line):
    """The fixture sees that no connection stays, though the server would hold it for half a minute."""
    server.reply(TEXT).stall(after_chunks=BEFORE[line] + 2, seconds=30)

    async def main(model) -> None:
        task = asyncio.create_task(ask(model))
        await asyncio.sleep(PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_model(MODELS[line], main)
