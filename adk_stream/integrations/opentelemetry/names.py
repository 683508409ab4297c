"""Every name that goes out: spans, attributes, metrics, and their values.

Source: OpenTelemetry semantic-conventions-genai 0.1.0, status "Development": names still move, so they stand here
alone. What the conventions do not have begins with ``adk_stream.``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCOPE = "adk_stream"

# ----------------------------------------------------------------- operations

CHAT = "chat"
GENERATE_CONTENT = "generate_content"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

#: The operation that a request on a line is; any other line's is ``CHAT``.
OPERATIONS: Mapping[str, str] = {"gemini": GENERATE_CONTENT, "gemini-live": GENERATE_CONTENT}

#: Operations of which one span tells of one request to a model.
INFERENCE = frozenset({CHAT, GENERATE_CONTENT, "text_completion"})

#: Who is behind a line, as far as the line tells; of any other line, the line itself.
PROVIDERS: Mapping[str, str] = {
    "gemini": "gcp.gemini",
    "gemini-live": "gcp.gemini",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
}

# ----------------------------------------------------------------- attributes

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
CONVERSATION_ID = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
OUTPUT_TYPE = "gen_ai.output.type"

REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count"

#: Settings of google-genai's config, by name, that go out as they are.
REQUEST_SETTINGS: Mapping[str, str] = {
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "stop_sequences": "gen_ai.request.stop_sequences",
    "temperature": "gen_ai.request.temperature",
    "top_k": "gen_ai.request.top_k",
    "top_p": "gen_ai.request.top_p",
}

RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"

INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_MODALITY = "gen_ai.token.modality"

TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"

ERROR_TYPE = "error.type"

#: ``completed``, ``incomplete``, ``failed`` or ``cancelled``.
STATUS = "adk_stream.status"
INVOCATION_ID = "adk_stream.invocation_id"

# only where content is asked for
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# ----------------------------------------------------------------- values

ERROR = "error"  # the finish reason of an answer that has none
FUNCTION = "function"  # the type of a tool
UNKNOWN = "unknown"  # a modality
OTHER_ERROR = "_OTHER"

# ----------------------------------------------------------------- metrics

DURATION = "gen_ai.client.inference.duration"
TIME_TO_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
TIME_PER_OUTPUT_CHUNK = "gen_ai.client.inference.time_per_output_chunk"

#: For each count of tokens, by its attribute, the counter that adds it up.
USAGE_COUNTERS: Mapping[str, str] = {
    INPUT_TOKENS: "gen_ai.client.inference.usage.input_tokens",
    OUTPUT_TOKENS: "gen_ai.client.inference.usage.output_tokens",
    CACHE_READ_TOKENS: "gen_ai.client.inference.usage.cache_read.input_tokens",
    CACHE_WRITE_TOKENS: "gen_ai.client.inference.usage.cache_write.input_tokens",
    REASONING_TOKENS: "gen_ai.client.inference.usage.reasoning.output_tokens",
}

#: For each count of tokens, by its attribute, the histogram over requests.
USAGE_HISTOGRAMS: Mapping[str, str] = {
    INPUT_TOKENS: "gen_ai.client.inference.operation.input_tokens",
    OUTPUT_TOKENS: "gen_ai.client.inference.operation.output_tokens",
}

AGENT_DURATION = "gen_ai.invoke_agent.duration"
AGENT_INFERENCE_CALLS = "gen_ai.invoke_agent.inference_calls"
AGENT_TOOL_CALLS = "gen_ai.invoke_agent.tool_calls"
TOOL_DURATION = "gen_ai.execute_tool.duration"


def _growing(first: float, factor: int, count: int) -> Sequence[float]:
    return tuple(round(first * factor**power, 2) for power in range(count))


#: Boundaries of buckets, as the conventions advise them.
SECONDS_OF_REQUESTS = _growing(0.01, 2, 14)
SECONDS_OF_RUNS = _growing(0.1, 2, 13)
TOKENS = _growing(1, 4, 14)
CALLS = _growing(1, 2, 8)

# ----------------------------------------------------------------- keys in the context, of others

#: Set by instrumentation made with ``opentelemetry-util-genai`` while a request to a model goes on; it then keeps
#: silent about a request within.
INFERENCE_CONTEXT = "opentelemetry.genai.client.inference.context"

#: OpenLLMetry's: no spans of requests to models.
SUPPRESS_LANGUAGE_MODEL = "suppress_language_model_instrumentation"

#: No spans at all; what ``opentelemetry.instrumentation.utils.suppress_instrumentation`` sets.
SUPPRESS_ALL = "suppress_instrumentation"
