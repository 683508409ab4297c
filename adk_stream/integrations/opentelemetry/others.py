"""Other instrumentation of the same request: who tells of it, and how those that would tell it again are kept silent.

The official clients have instrumentation of their own (OpenTelemetry's, OpenLLMetry's). It would see little of an
answer, which this package reads as raw bytes: no tokens, no finish reason. So the span here is the one that stays, and
for the time in which the request is made, the keys in the context that those packages look at tell them so. Spans of
HTTP remain. A client that traces by itself (anthropic since 2.0) is told by an option; see ``without_client_spans`` of
its model. OpenInference's packages have no key but the one that silences HTTP too: there both tell, each in own words.

The other way round, a request inside somebody else's span of the same request has none here.
"""

from __future__ import annotations

import sys
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import Context

from . import names

__all__ = ["is_told_already", "with_others_silent"]


def is_told_already(context: Context) -> bool:
    """Whether a span around is of the very request that will be made, or none is wanted."""
    if any(otel.get_value(key, context) for key in _SILENCING):
        return True
    attributes = getattr(trace.get_current_span(context), "attributes", None) or {}  # an SDK's span has them
    return attributes.get(names.OPERATION_NAME) in names.INFERENCE


def with_others_silent(context: Context) -> Context:
    """``context``, with what keeps the clients' instrumentation from a second span."""
    context = otel.set_value(names.SUPPRESS_LANGUAGE_MODEL, True, context)
    util: Any = sys.modules.get("opentelemetry.util.genai.invocation")  # loaded by whatever looks at its key
    data = getattr(util, "InferenceData", None)
    return context if data is None else otel.set_value(names.INFERENCE_CONTEXT, data(), context)


#: The last is what OpenTelemetry's own ``suppress_instrumentation`` sets first; older releases of the API lack it.
_SILENCING = (
    names.INFERENCE_CONTEXT,
    names.SUPPRESS_LANGUAGE_MODEL,
    names.SUPPRESS_ALL,
    getattr(otel, "_SUPPRESS_INSTRUMENTATION_KEY", names.SUPPRESS_ALL),
)
