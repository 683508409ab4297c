"""Spans and metrics of the service's models and runs, by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from adk_stream.errors import MissingExtraError

if TYPE_CHECKING:
    from adk_stream.models.request import Model
    from adk_stream.runner.watch import Observer

__all__ = ["Telemetry", "TelemetryOptions"]

#: None: where OpenTelemetry is installed. True: or else an error. False: never. A mapping: with these options
#: (``tracer_provider``, ``meter_provider``, ``record_content``), which ``traced`` and ``traced_runs`` share.
TelemetryOptions: TypeAlias = "Mapping[str, Any] | bool | None"


class Telemetry:
    """What is put around models and runs; nothing, where nothing is to be told.

    Raises:
        MissingExtraError: it is asked for, and the extra ``otel`` is not installed.
    """

    def __init__(self, wanted: TelemetryOptions) -> None:
        self._options = dict(wanted) if isinstance(wanted, Mapping) else {}
        self._traced: Callable[..., Model] | None = None
        self._runs: Callable[..., Observer] | None = None
        if wanted is False:
            return
        try:
            from adk_stream.integrations.opentelemetry import traced, traced_runs
        except MissingExtraError:
            if wanted is not None:
                raise
            return
        self._traced, self._runs = traced, traced_runs

    def model(self, model: Model) -> Model:
        """The model, each request to it a span."""
        return model if self._traced is None else self._traced(model, **self._options)

    def observer(self, agent_name: str) -> Observer | None:
        """For a runner, each run of which becomes a span."""
        return None if self._runs is None else self._runs(agent_name=agent_name, **self._options)
