"""Spans and metrics by OpenTelemetry's conventions for generative AI.

::

    from adk_stream.integrations.opentelemetry import traced, traced_runs

    model = traced(OpenAIChatModel("gpt-5"))                    # a client span for each request
    runner = Runner(model, tools, ..., observer=traced_runs())  # runs, and the tools in them

Only the API is used: without an SDK that the application sets up, nothing is recorded. What is said (prompts, answers,
arguments, results) is recorded where ``record_content=True`` asks for it, and error messages never are.

One span tells of a request. The clients' own instrumentation, where it can be told, keeps silent for that time; inside
a span of somebody else that tells of the same request (google-adk's, say) there is none of this package's. See
``others``. It is the extra ``otel``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from adk_stream.errors import MissingExtraError
from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from .model import TracedModel, traced
    from .runs import traced_runs

__all__ = ["TracedModel", "traced", "traced_runs"]

_HOMES = {"TracedModel": "model", "traced": "model", "traced_runs": "runs"}


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:
        return False


if not _is_installed():
    raise MissingExtraError("tracing needs opentelemetry-api: pip install 'adk-stream[otel]'")


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
