"""``traced``: a model whose every request is a span, with the conventions' metrics.

The raw answer passes through untouched, and is not read a second time: ``execute`` tells the stream what its answer
came to. For each chunk the clock is read; all else is done at the end.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from . import names
from .content import input_attributes, output_attributes
from .facts import Attributes, error_type, failure_of, request_attributes, response_attributes, tokens_by_modality
from .instruments import Instruments, instruments_for
from .others import is_told_already, with_others_silent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from adk_stream.models.request import Model, ModelRequest
    from adk_stream.response import LlmResponse

__all__ = ["CONVERSATION", "TracedModel", "provider_name", "traced"]

#: The key in the context of the session that a request belongs to.
CONVERSATION = otel.create_key("adk_stream.conversation_id")


def traced(
    model: Model,
    *,
    provider_name: str | None = None,
    record_content: bool = False,
    chunk_times: int | None = 64,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> TracedModel:
    """``model``, with a span and the metrics of each request.

    What the answer came to (response id, model, finish reason, tokens) is known where ``execute`` reads it, and so
    everywhere in this package: in the runner, the server, inside google-adk. A stream that is read by other means has
    a span without these. Each attempt of a retried request is a request of its own.

    Args:
        model: Any model. One that is traced already comes back as it is.
        provider_name: Who is behind it (``azure.ai.openai``, ``gcp.vertex_ai``, ``deepseek``, …); None: what the
            line tells.
        record_content: Record what is said: prompts, answers, instructions.
        chunk_times: How many times between two chunks of one answer are measured at most, evenly chosen: an SDK takes
            10 µs for each, half of what all else of a chunk takes. None: all.
        tracer_provider: None: the global one.
        meter_provider: None: the global one.

    Raises:
        ValueError: ``chunk_times`` is negative.
    """
    if isinstance(model, TracedModel):
        return model
    if chunk_times is not None and chunk_times < 0:
        raise ValueError(f"chunk_times is a count from 0, or None, not {chunk_times!r}")
    options = TracingOptions(provider_name, record_content, chunk_times)
    return TracedModel(model, instruments_for(tracer_provider, meter_provider), options)


def provider_name(model: Model) -> str:
    """Who is behind a model, in the conventions' words."""
    told = model.options.provider_name if isinstance(model, TracedModel) else None
    return told or names.PROVIDERS.get(model.provider, model.provider)


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """What ``traced`` is given."""

    provider_name: str | None
    record_content: bool
    chunk_times: int | None


class TracedModel:
    """What ``traced`` makes. Whatever else the model can do, it can do too.

    Attributes:
        name: The model's.
        provider: The model's line.
    """

    def __init__(self, model: Model, instruments: Instruments, options: TracingOptions) -> None:
        self.name = model.name
        self.provider = model.provider
        self.options = options
        self.instruments = instruments
        quiet = getattr(model, "without_client_spans", None)
        self.model: Model = model if quiet is None else quiet()

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # while a copy is made, which begins empty
            raise AttributeError(name)
        return getattr(self.model, name)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        """The model's own stream; its span begins when the first item is asked for."""
        return TracedStream(self, request)


class TracedStream(AsyncGenerator[Any, None]):
    """One answer on its way, and the span that tells of it.

    The span ends with the source, though it may be told later what the answer came to.
    """

    def __init__(self, model: TracedModel, request: ModelRequest) -> None:
        self._model = model
        self._request = request
        self._request_trace: _RequestTrace | None = None
        self._followed = False
        self._items = self._read()

    def follow_outcome(self) -> Callable[[LlmResponse | None, BaseException | None], None]:
        """See ``adk_stream.execution.ToldSource``."""
        self._followed = True
        return self._told

    def __aiter__(self) -> AsyncGenerator[Any, None]:
        """The generator itself: one step less for each item."""
        return self._items

    async def asend(self, value: None) -> Any:
        """See ``AsyncGenerator``."""
        return await self._items.asend(value)

    async def athrow(self, *problem: Any) -> Any:
        """See ``AsyncGenerator``."""
        return await self._items.athrow(*problem)

    async def aclose(self) -> None:
        """See ``AsyncGenerator``."""
        await self._items.aclose()

    async def _read(self) -> AsyncGenerator[Any, None]:
        source = self._model.model.stream(self._request)
        around = otel.get_current()
        if is_told_already(around):
            async with aclosing(source):
                async for item in source:
                    yield item
            return
        request_trace = self._request_trace = _RequestTrace(self._model, self._request, around)
        clock, times = time.perf_counter, request_trace.times
        problem: BaseException | None = None
        try:
            async with aclosing(source):
                token = otel.attach(request_trace.within)  # for the one step in which the request is made
                try:
                    item = await anext(source, _NOTHING)
                finally:
                    otel.detach(token)
                if item is _NOTHING:
                    return
                times.append(clock())
                yield item
                async for item in source:
                    times.append(clock())
                    yield item
        except BaseException as trouble:
            problem = trouble
            raise
        finally:
            request_trace.source_ended()
            if not self._followed:  # whether it was left before or after its end, nobody tells
                request_trace.end(None, None if isinstance(problem, _LEFT) else problem)

    def _told(self, final: LlmResponse | None, problem: BaseException | None) -> None:
        if self._request_trace is not None:
            self._request_trace.end(final, problem)


class _RequestTrace:
    """The span and the measurements of one request.

    Attributes:
        within: The context in which the request is made.
        times: When each chunk came, by the performance counter.
    """

    def __init__(self, model: TracedModel, request: ModelRequest, around: Context) -> None:
        self._instruments = model.instruments
        self._options = model.options
        operation = names.OPERATIONS.get(model.provider, names.CHAT)
        self._common: Attributes = {
            names.OPERATION_NAME: operation,
            names.PROVIDER_NAME: provider_name(model),
            names.REQUEST_MODEL: model.name,
        }
        told = {**self._common, names.REQUEST_STREAM: True, **request_attributes(request)}
        conversation = otel.get_value(CONVERSATION, around)
        if conversation is not None:
            told[names.CONVERSATION_ID] = conversation
        self._began_at = time.time_ns()
        self._span: Span = self._instruments.tracer.start_span(
            f"{operation} {model.name}", around, SpanKind.CLIENT, told, start_time=self._began_at
        )
        if self._options.record_content and self._span.is_recording():
            self._span.set_attributes(input_attributes(request))
        self._context = trace.set_span_in_context(self._span, around)
        self.within = with_others_silent(self._context)
        self.times = array("d")
        self._began = time.perf_counter()
        self._ended: float | None = None
        self._over = False

    def source_ended(self) -> None:
        """Whatever becomes known later, the request took until now."""
        if self._ended is None:
            self._ended = time.perf_counter()

    def end(self, final: LlmResponse | None, problem: BaseException | None) -> None:
        """The outcome is known. Ending again does nothing."""
        if self._over:
            return
        self._over = True
        self.source_ended()
        left = isinstance(problem, _LEFT)
        failure = failure_of(final) if problem is None or left else error_type(problem)
        if final is not None:
            told = response_attributes(final)
        elif problem is not None:
            told = {names.STATUS: "cancelled" if left else "failed", names.RESPONSE_FINISH_REASONS: (names.ERROR,)}
        else:
            told = {}
        self._end_span(told, final, failure)
        self._measure(told, final, failure)

    def _end_span(self, told: Attributes, final: LlmResponse | None, failure: str | None) -> None:
        span = self._span
        if span.is_recording():
            span.set_attributes(told)
            if self.times:
                span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, self.times[0] - self._began)
            if final is not None and self._options.record_content:
                span.set_attributes(output_attributes(final, told[names.RESPONSE_FINISH_REASONS][0]))
            if failure is not None:
                span.set_attribute(names.ERROR_TYPE, failure)
                span.set_status(Status(StatusCode.ERROR))
        span.end(self._began_at + int(self._seconds * 1e9))

    @property
    def _seconds(self) -> float:
        return (self._ended or self._began) - self._began

    def _measure(self, told: Attributes, final: LlmResponse | None, failure: str | None) -> None:
        to, context = self._instruments, self._context
        common = dict(self._common)
        if names.RESPONSE_MODEL in told:
            common[names.RESPONSE_MODEL] = told[names.RESPONSE_MODEL]
        outcome = common if failure is None else {**common, names.ERROR_TYPE: failure}
        to.duration.record(self._seconds, outcome, context)
        if self.times:
            to.first_chunk.record(self.times[0] - self._began, common, context)
        for seconds in _some([after - before for before, after in pairwise(self.times)], self._options.chunk_times):
            to.per_chunk.record(seconds, common, context)
        if not told:
            return  # nobody said what the answer came to
        for name, counter in to.usage.items():
            count = told.get(name, 0)
            for modality, part in tokens_by_modality(final, name, count).items():
                counter.add(part, {**common, names.TOKEN_MODALITY: modality}, context)
        for name, histogram in to.tokens.items():
            histogram.record(told.get(name, 0), outcome, context)


def _some(values: list[float], most: int | None) -> list[float]:
    """So many of them at most, evenly chosen."""
    if most is None or len(values) <= most:
        return values
    return values[:: -(-len(values) // most)] if most else []


_NOTHING = object()

#: How a stream that is not wanted any more ends: no fault of the model's.
_LEFT = (GeneratorExit, asyncio.CancelledError)
