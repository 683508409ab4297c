"""adk_stream: the streamed output of a language model, turned into responses an agent can keep.

The public names are loaded on first use: importing google-genai's types takes seconds, and nothing pays for it
that does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from adk_stream.aggregator import StreamingResponseAggregator, aggregate, aggregate_async
    from adk_stream.execution import StreamExecutionOptions, execute, execute_blocking, read_messages_stream
    from adk_stream.indexer import StreamingPartIndexer
    from adk_stream.live import LiveStream
    from adk_stream.parts import StreamChunk, StreamedPart, StreamFault, StreamLimits
    from adk_stream.providers import to_native
    from adk_stream.providers.anthropic_handler import MessagesStream, MessagesStreamHandler
    from adk_stream.providers.openai_chat_state import ChatStreamState
    from adk_stream.providers.openai_responses_state import ResponsesStreamState
    from adk_stream.response import LlmResponse
    from adk_stream.runner import LiveRequestQueue, Runner

__version__ = "0.1.0"

_HOMES = {
    "ChatStreamState": "providers.openai_chat_state",
    "MessagesStream": "providers.anthropic_handler",
    "MessagesStreamHandler": "providers.anthropic_handler",
    "ResponsesStreamState": "providers.openai_responses_state",
    "StreamExecutionOptions": "execution",
    "execute": "execution",
    "execute_blocking": "execution",
    "read_messages_stream": "execution",
    "LiveRequestQueue": "runner",
    "LiveStream": "live",
    "LlmResponse": "response",
    "Runner": "runner",
    "StreamChunk": "parts",
    "StreamFault": "parts",
    "StreamLimits": "parts",
    "StreamedPart": "parts",
    "StreamingPartIndexer": "indexer",
    "StreamingResponseAggregator": "aggregator",
    "aggregate": "aggregator",
    "aggregate_async": "aggregator",
    "to_native": "providers",
}

__all__ = [
    "ChatStreamState",
    "LiveRequestQueue",
    "LiveStream",
    "LlmResponse",
    "MessagesStream",
    "MessagesStreamHandler",
    "ResponsesStreamState",
    "Runner",
    "StreamChunk",
    "StreamExecutionOptions",
    "StreamFault",
    "StreamLimits",
    "StreamedPart",
    "StreamingPartIndexer",
    "StreamingResponseAggregator",
    "aggregate",
    "aggregate_async",
    "execute",
    "execute_blocking",
    "read_messages_stream",
    "to_native",
]


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
