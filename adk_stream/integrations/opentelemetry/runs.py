"""``traced_runs``: a run of the runner as a span, the requests to its model and the tools that run as spans in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from adk_stream.runner import RunFacts, RunWatch

from . import names
from .content import as_json
from .facts import Attributes, error_type, failure_of, response_attributes
from .instruments import Instruments, instruments_for
from .model import CONVERSATION, provider_name

if TYPE_CHECKING:
    from google.genai import types
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from adk_stream.models.request import ModelRequest
    from adk_stream.sessions.event import Event

__all__ = ["traced_runs"]


def traced_runs(
    *,
    agent_name: str | None = None,
    record_content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Callable[[RunFacts], RunWatch]:
    """The ``observer`` of a runner, which makes each of its runs a span.

    ::

        runner = Runner(traced(model), tools, ..., observer=traced_runs(agent_name="helper"))

    Spans that a tool or the model's client makes are children of the tool's and the request's. The run's span is a
    child of the one that is current where its first event is asked for.

    Args:
        agent_name: What the agent is called; None: the application.
        record_content: Record arguments and results of tools.
        tracer_provider: None: the global one.
        meter_provider: None: the global one.
    """
    instruments = instruments_for(tracer_provider, meter_provider)

    def watch(facts: RunFacts) -> RunWatch:
        return _RunTrace(instruments, facts, agent_name or facts.app_name, record_content)

    return watch


class _RunTrace(RunWatch):
    """One run."""

    def __init__(self, instruments: Instruments, facts: RunFacts, agent_name: str, record_content: bool) -> None:
        self._instruments = instruments
        self._facts = facts
        self._agent_name = agent_name
        self._record_content = record_content
        self._common: Attributes = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.PROVIDER_NAME: provider_name(facts.model),
            names.AGENT_NAME: agent_name,
            names.REQUEST_MODEL: facts.model.name,
        }
        self._span: Span = trace.INVALID_SPAN
        self._context = otel.Context()
        self._began = 0.0
        self._requests = self._calls = 0
        self._tokens: dict[str, int] = {}
        self._last: Event | None = None

    def __enter__(self) -> Self:
        around = otel.get_current()
        facts = self._facts
        told = {
            **self._common,
            names.CONVERSATION_ID: facts.session_id,
            names.INVOCATION_ID: facts.invocation_id,
        }
        name = f"{names.INVOKE_AGENT} {self._agent_name}"
        self._began = time.perf_counter()
        self._span = self._instruments.tracer.start_span(name, around, SpanKind.INTERNAL, told)
        self._context = otel.set_value(CONVERSATION, facts.session_id, trace.set_span_in_context(self._span, around))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        last = self._last
        failure = failure_of(last)
        if isinstance(problem, Exception) and failure is None:
            failure = error_type(problem)
        told = {names.STATUS: _status_of(problem)} if last is None else response_attributes(last)
        span = self._span
        for name in (names.STATUS, names.RESPONSE_FINISH_REASONS):
            if name in told:
                span.set_attribute(name, told[name])
        span.set_attributes(self._tokens)
        if failure is not None:
            span.set_attribute(names.ERROR_TYPE, failure)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        to, context = self._instruments, self._context
        outcome = self._common if failure is None else {**self._common, names.ERROR_TYPE: failure}
        to.run_duration.record(time.perf_counter() - self._began, outcome, context)
        to.run_requests.record(self._requests, self._common, context)
        to.run_calls.record(self._calls, self._common, context)

    def asks(self, request: ModelRequest) -> None:
        self._requests += 1
        otel.attach(self._context)  # to the end of this task

    @contextmanager
    def calls(self, call: types.FunctionCall) -> Iterator[Callable[[Any], None]]:
        self._calls += 1
        common: Attributes = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name or "",
            names.TOOL_TYPE: names.FUNCTION,
        }
        told = common if call.id is None else {**common, names.TOOL_CALL_ID: call.id}
        span = self._instruments.tracer.start_span(
            f"{names.EXECUTE_TOOL} {call.name}", self._context, SpanKind.INTERNAL, told
        )
        records = self._record_content and span.is_recording()
        if records:
            span.set_attribute(names.TOOL_ARGUMENTS, as_json(call.args or {}))

        def returned(value: Any) -> None:
            if records:
                span.set_attribute(names.TOOL_RESULT, as_json(value))

        began = time.perf_counter()
        failure: str | None = None
        token = otel.attach(trace.set_span_in_context(span, self._context))
        try:
            yield returned
        except asyncio.CancelledError:
            span.set_attribute(names.STATUS, "cancelled")
            raise
        except Exception as problem:
            failure = error_type(problem)
            span.set_attribute(names.ERROR_TYPE, failure)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            otel.detach(token)
            span.end()
            outcome = common if failure is None else {**common, names.ERROR_TYPE: failure}
            self._instruments.tool_duration.record(time.perf_counter() - began, outcome, self._context)

    def stored(self, event: Event) -> None:
        if event.status is None:
            return
        self._last = event
        for name, count in response_attributes(event).items():
            if name in names.USAGE_COUNTERS:
                self._tokens[name] = self._tokens.get(name, 0) + count


def _status_of(problem: BaseException | None) -> str:
    """How a run ended that stored nothing."""
    return "failed" if isinstance(problem, Exception) else "cancelled"
