"""StreamingResponseAggregator: StreamChunks to responses that an agent can keep; and ``aggregate`` over a stream.

Two ways of giving finals. ``flush="boundary"``: text and thought that were buffered come out as one
aggregated response before the converted response that ends the run (an empty-parts chunk, audio, a complete
tool call). ``flush="close"``: everything comes out at ``close()``. Either way the non-partial responses are
disjoint, in order, and together hold the stream exactly once.

``core`` is the aggregator, ``shown`` what its partials are made of, ``ending`` what the last final says,
``whole`` a stream from its first piece to its last.
"""

from __future__ import annotations

from adk_stream.aggregator.core import StreamingResponseAggregator
from adk_stream.aggregator.whole import Aggregation, AsyncAggregation, aggregate, aggregate_async

__all__ = ["Aggregation", "AsyncAggregation", "StreamingResponseAggregator", "aggregate", "aggregate_async"]
