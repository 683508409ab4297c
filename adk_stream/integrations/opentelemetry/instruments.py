"""Where spans and measurements go: a tracer and the instruments, made once for each pair of providers.

Only OpenTelemetry's API is used. Without an SDK all of it does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace

from adk_stream import __version__

from . import names

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Instruments", "instruments_for"]


class Instruments:
    """A tracer, and the metrics of the conventions.

    Args:
        tracer_provider: None: the global one, also one that is set later.
        meter_provider: The same for metrics.
    """

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self.tracer = trace.get_tracer(names.SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(names.SCOPE, __version__, meter_provider)

        def histogram(name: str, unit: str, bounds: Sequence[float], what: str) -> metrics.Histogram:
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=bounds)

        self.duration = histogram(names.DURATION, "s", names.SECONDS_OF_REQUESTS, "Time of a request to a model.")
        self.first_chunk = histogram(
            names.TIME_TO_FIRST_CHUNK, "s", names.SECONDS_OF_REQUESTS, "Time until the first chunk of an answer."
        )
        self.per_chunk = histogram(
            names.TIME_PER_OUTPUT_CHUNK, "s", names.SECONDS_OF_REQUESTS, "Time from one chunk of an answer to the next."
        )
        self.usage = {
            name: meter.create_counter(counter, "{token}", "Tokens used.")
            for name, counter in names.USAGE_COUNTERS.items()
        }
        self.tokens = {
            name: histogram(metric, "{token}", names.TOKENS, "Tokens of a request to a model.")
            for name, metric in names.USAGE_HISTOGRAMS.items()
        }
        self.run_duration = histogram(names.AGENT_DURATION, "s", names.SECONDS_OF_RUNS, "Time of a run.")
        self.run_requests = histogram(
            names.AGENT_INFERENCE_CALLS, "{inference_call}", names.CALLS, "Requests to the model in a run."
        )
        self.run_calls = histogram(names.AGENT_TOOL_CALLS, "{tool_call}", names.CALLS, "Tools that ran in a run.")
        self.tool_duration = histogram(names.TOOL_DURATION, "s", names.SECONDS_OF_REQUESTS, "Time of a tool.")


@lru_cache(maxsize=16)
def instruments_for(tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> Instruments:
    """The same instruments for the same providers: an SDK complains of metrics that are made twice."""
    return Instruments(tracer_provider, meter_provider)
