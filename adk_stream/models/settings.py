"""google-genai's generation settings in each provider's own words, by a table.

A model's table says for each setting that its provider knows the wire's name, or a function from the value to wire
fields. What is in no table is an error, for somebody who set it relies on it, with two exceptions: settings that say
what holds anyway (one candidate, text), and those of ``LEFT_OUT``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from adk_stream.errors import RequestError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import ModelRequest

__all__ = [
    "LEFT_OUT",
    "Fields",
    "OutputFormat",
    "ToolChoice",
    "instruction",
    "merged",
    "output_format",
    "tool_choice",
    "tools",
    "translate",
]

#: Fields of a request body.
Fields: TypeAlias = dict[str, Any]

#: Left out in silence where no table has them: bookkeeping, and hints to Google's own machinery without which the
#: answer is as good as before.
LEFT_OUT = frozenset(
    {
        "audio_timestamp",
        "automatic_function_calling",  # this package never lets a client run tools
        "enable_enhanced_civic_answers",
        "labels",
        "media_resolution",
        "should_return_http_response",
    }
)

#: Values that say what holds on every provider.
_HOLDS_ANYWAY: Mapping[str, tuple[Any, ...]] = {
    "candidate_count": (1,),
    "response_logprobs": (False,),
    "response_modalities": (["TEXT"],),
    "store": (False,),
}

#: Settings that are no field by themselves; the functions below read them.
_READ_APART = frozenset(
    {"system_instruction", "tools", "tool_config", "response_mime_type", "response_schema", "response_json_schema"}
)


def translate(
    config: types.GenerateContentConfig | None, words: Mapping[str, str | Callable[[Any], Fields]], provider: str
) -> Fields:
    """The wire's fields of all settings that stand for themselves.

    Raises:
        RequestError: a setting that the provider does not know.
    """
    fields: Fields = {}
    for name in type(config).model_fields if config is not None else ():
        value = getattr(config, name)
        if value is None or value in ([], {}) or name in _READ_APART:
            continue
        word = words.get(name)
        if isinstance(word, str):
            fields = merged(fields, {word: value})
        elif word is not None:
            fields = merged(fields, word(value))
        elif name not in LEFT_OUT and value not in _HOLDS_ANYWAY.get(name, ()):
            raise RequestError(f"{provider} has no setting for {name}")
    return fields


def merged(fields: Mapping[str, Any], more: Mapping[str, Any]) -> Fields:
    """Both, as a new object: objects key by key, lists joined, other values replaced; None takes a field away."""
    both = dict(fields)
    for key, value in more.items():
        old = both.get(key)
        if value is None:
            both.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            both[key] = merged(old, value)
        elif isinstance(old, list) and isinstance(value, list | tuple):
            both[key] = [*old, *value]
        else:
            both[key] = value
    return both


def instruction(request: ModelRequest) -> str | None:
    """What the model is told before the conversation: the request's instruction, else the config's.

    Raises:
        RequestError: it holds more than text.
    """
    given: Any = request.system_instruction
    if given is None and request.config is not None:
        given = request.config.system_instruction
    return None if given is None else "\n\n".join(_texts(given)) or None


def _texts(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, list | tuple):
        return [text for each in given for text in _texts(each)]
    parts = getattr(given, "parts", None)
    if parts is not None:
        return _texts(parts)
    text = getattr(given, "text", None)
    if text is None:
        raise RequestError(f"a system instruction is text, not {type(given).__name__}")
    return [text]


class ToolChoice(NamedTuple):
    """Whether the model calls tools, and which.

    Attributes:
        mode: ``"auto"``: as it likes; ``"any"``: at least one; ``"none"``: no tool.
        names: The tools that it may call; empty: all.
    """

    mode: Literal["auto", "any", "none"] = "auto"
    names: tuple[str, ...] = ()

    def allows(self, name: str | None) -> bool:
        """May this tool be called?"""
        return not self.names or name in self.names


_MODES: Mapping[str, Literal["auto", "any", "none"]] = {
    "MODE_UNSPECIFIED": "auto",
    "AUTO": "auto",
    "VALIDATED": "auto",  # calls that keep to their schema; the model may answer in words too
    "ANY": "any",
    "NONE": "none",
}


def tool_choice(config: types.GenerateContentConfig | None) -> ToolChoice:
    """The config's ``tool_config``.

    Raises:
        RequestError: its mode is unknown.
    """
    calling = config.tool_config.function_calling_config if config and config.tool_config else None
    if calling is None:
        return ToolChoice()
    word = "AUTO" if calling.mode is None else calling.mode.value
    if word not in _MODES:
        raise RequestError(f"no function calling mode {word!r}; there are {', '.join(_MODES)}")
    return ToolChoice(_MODES[word], tuple(calling.allowed_function_names or ()))


def tools(
    request: ModelRequest,
    provider: str,
    write: Callable[[types.FunctionDeclaration], Fields],
    choice: ToolChoice = ToolChoice(),  # noqa: B008  # a tuple
) -> list[Fields]:
    """The config's tools and the request's: functions that may be called, then tools in the provider's own words.

    Args:
        request: The request.
        provider: The line, for errors.
        write: A function in the provider's words.
        choice: Which functions may be called.

    Raises:
        RequestError: something is no tool, or a tool of Gemini's.
    """
    from adk_stream.models.declarations import sort_tools

    given: list[Any] = [*((request.config and request.config.tools) or ()), *request.tools]
    try:
        functions, native = sort_tools(given)
    except (ValueError, TypeError) as problem:
        raise RequestError(str(problem)) from problem
    for tool in native:
        if not isinstance(tool, Mapping):
            raise RequestError(f"{provider} does not have the tool {', '.join(tool.model_dump(exclude_none=True))}")
    written = [write(function) for function in functions if choice.allows(function.name)]
    return written + [dict(cast("Mapping[str, Any]", tool)) for tool in native]


class OutputFormat(NamedTuple):
    """What the answer must look like.

    Attributes:
        name: What to call it, for providers that want a name.
        schema: Its JSON schema; None: any JSON.
    """

    name: str = "response"
    schema: dict[str, Any] | None = None


def output_format(config: types.GenerateContentConfig | None, provider: str) -> OutputFormat | None:
    """The config's response schema and mime type; None: text.

    Raises:
        RequestError: a mime type other than JSON and plain text.
    """
    if config is None:
        return None
    kind = config.response_mime_type
    if kind not in (None, "text/plain", "application/json"):
        raise RequestError(f"{provider} cannot be made to answer in {kind}")
    schema = config.response_json_schema if config.response_json_schema is not None else config.response_schema
    if schema is not None:
        return OutputFormat(_schema_name(schema), _json_schema(schema))
    return OutputFormat() if kind == "application/json" else None


def _schema_name(schema: Any) -> str:
    title = schema.get("title") if isinstance(schema, Mapping) else isinstance(schema, type) and schema.__name__
    usable = isinstance(title, str) and title.isascii() and title.replace("_", "").replace("-", "").isalnum()
    return str(title)[:64] if usable else "response"


def _json_schema(schema: Any) -> dict[str, Any]:
    """A JSON schema of any form that google-genai takes: a mapping, a ``types.Schema``, a Python type."""
    from google.genai import types
    from pydantic import TypeAdapter

    from adk_stream.models.declarations import json_schema

    if isinstance(schema, Mapping) and not str(schema.get("type", "")).isupper():
        return dict(schema)
    if isinstance(schema, Mapping):
        schema = types.Schema.model_validate(schema)
    if isinstance(schema, types.Schema):
        # json_schema() speaks of parameters, which are one object; any schema fits in as a property of it
        wrapped = types.Schema(type=types.Type.OBJECT, properties={"it": schema})
        answer: dict[str, Any] = json_schema(types.FunctionDeclaration(name="it", parameters=wrapped))["properties"][
            "it"
        ]
        return answer
    return TypeAdapter(schema).json_schema()
