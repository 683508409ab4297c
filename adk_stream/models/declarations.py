"""Tools in every form that people have them, made into one: google-genai's ``FunctionDeclaration``.

Each model turns declarations into its provider's own words. What is no function (Gemini's ``google_search``, a
provider's hosted tool as a mapping) has no common form: it is kept as it is, for the one provider that knows it.

The forms of mappings, told by their keys:

- ``{"type": "function", "function": {"name", "description", "parameters"}}``: Chat Completions
- ``{"type": "function", "name", "description", "parameters"}``: Responses
- ``{"name", "description", "input_schema"}``: Anthropic (``inputSchema``: the Model Context Protocol)
- ``{"name", "description", "parameters"}``: plain; ``parameters_json_schema`` and ``parametersJsonSchema`` too
- ``{"title", "description", "type": "object", "properties"}``: a bare JSON schema that bears the name as its title
- ``{"function_declarations": […]}``: google-genai's ``Tool`` as a mapping
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_type_hints

from adk_stream.errors import RequestError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import ToolLike

__all__ = ["NativeTool", "Tools", "declarations", "declare", "json_schema", "sort_tools"]

#: What is no function: a ``types.Tool`` without declarations, or a mapping in a provider's own words.
NativeTool: TypeAlias = "types.Tool | Mapping[str, Any]"

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
_TOOL_KEYS = ("function_declarations", "functionDeclarations")


class Tools(NamedTuple):
    """Tools sorted.

    Attributes:
        functions: The functions, each name once.
        native: What one provider alone knows, as it was given.
    """

    functions: list[types.FunctionDeclaration]
    native: list[NativeTool]


def sort_tools(tools: Sequence[ToolLike]) -> Tools:
    """Functions on one side, tools in a provider's own words on the other.

    Raises:
        ValueError: two functions have one name, a declaration has none, or a parameter cannot be described.
        TypeError: something is no tool.
    """
    functions: list[types.FunctionDeclaration] = []
    native: list[NativeTool] = []
    for tool in tools:
        for one in _each(tool):
            (functions if _is_declaration(one) else native).append(one)
    twice = [name for name, times in Counter(function.name for function in functions).items() if times > 1]
    if twice:
        raise ValueError(f"more than one tool is called {', '.join(map(repr, twice))}")
    return Tools(functions, native)


def declarations(tools: Sequence[ToolLike]) -> list[types.FunctionDeclaration]:
    """All tools as declarations; for models that know functions alone.

    Raises:
        RequestError: one is no function, such as Gemini's ``google_search``.
        ValueError: as ``sort_tools``.
        TypeError: something is no tool.
    """
    functions, native = sort_tools(tools)
    if native:
        raise RequestError(f"this model cannot run {_named(native[0])}: it takes functions alone")
    return functions


def declare(tool: ToolLike) -> types.FunctionDeclaration:
    """The declaration of one function.

    Raises:
        RequestError: it is no function.
        ValueError: there are several; it has no name; or a parameter cannot be described.
        TypeError: it is no tool.
    """
    functions = declarations([tool])
    if len(functions) != 1:
        raise ValueError(f"one function is needed, not {len(functions)}")
    return functions[0]


def json_schema(declaration: types.FunctionDeclaration) -> dict[str, Any]:
    """The parameters as standard JSON schema (draft 2020-12), always of type ``object``; the caller's to change."""
    if declaration.parameters_json_schema is not None:
        schema = deepcopy(dict(declaration.parameters_json_schema))
    elif declaration.parameters is not None:
        schema = _standard(declaration.parameters.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        schema = {}
    return {"type": "object", "properties": {}, **schema}


# ----------------------------------------------------------------- one tool of any form


def _each(tool: Any) -> Iterator[Any]:
    """The declarations that a tool holds, and what of it is none."""
    from google.genai import types

    if isinstance(tool, types.FunctionDeclaration):
        yield _with_name(tool)
    elif isinstance(tool, types.Tool):
        yield from map(_with_name, tool.function_declarations or ())
        rest = tool.model_copy(update={"function_declarations": None})
        if rest.model_dump(exclude_none=True):
            yield rest
    elif isinstance(tool, Mapping):
        yield from _of_mapping(tool)
    elif callable(tool):
        yield _of_callable(tool)
    else:
        raise TypeError(f"{tool!r:.80} is no tool: give a function, a declaration or a mapping")


def _of_mapping(tool: Mapping[str, Any]) -> Iterator[Any]:
    from google.genai import types

    inner = tool.get("function")
    if isinstance(inner, Mapping):
        tool = inner
    elif any(key in tool for key in _TOOL_KEYS):
        yield from _each(types.Tool.model_validate(tool))
        return
    elif tool.get("type") == "object" and "title" in tool and "name" not in tool:
        tool = {"name": tool["title"], "description": tool.get("description"), "parameters": tool}
    elif _is_native(tool):
        yield _as_gemini_tool(tool)
        return
    schema = next((tool[key] for key in _SCHEMA_KEYS if tool.get(key) is not None), None)
    declaration = types.FunctionDeclaration(name=tool.get("name"), description=tool.get("description"))
    if isinstance(schema, Mapping) and str(schema.get("type", "")).isupper():
        declaration.parameters = types.Schema.model_validate(schema)
    elif schema is not None:
        declaration.parameters_json_schema = deepcopy(dict(schema))
    yield _with_name(declaration)


def _is_native(tool: Mapping[str, Any]) -> bool:
    """No function: it has no schema, and another type (``{"type": "web_search"}``) or neither type nor name."""
    if not tool or any(key in tool for key in _SCHEMA_KEYS):
        return False
    return tool["type"] != "function" if "type" in tool else "name" not in tool


def _as_gemini_tool(tool: Mapping[str, Any]) -> NativeTool:
    """``{"google_search": {}}`` as the ``Tool`` it is; other providers' mappings as they are."""
    from google.genai import types

    known = {key for name, field in types.Tool.model_fields.items() for key in (name, field.alias)}
    return types.Tool.model_validate(tool) if tool.keys() <= known else tool


def _of_callable(tool: Callable[..., Any]) -> types.FunctionDeclaration:
    """What google-genai reads from a function's signature and docstring.

    It is shown a stand-in, for it refuses callable objects, parameters without annotation, and functions whose
    *result* it cannot describe, which no provider asks for.
    """
    from google.genai import types
    from pydantic_core import to_jsonable_python

    face, parameters = _stand_in(tool)
    declaration = types.FunctionDeclaration.from_callable_with_api_option(callable=face, use_json_schema=True)
    declaration.description = declaration.description or None
    if declaration.parameters_json_schema is not None:
        # defaults come as Python objects, and "required" leaves out what may be None but has no default
        schema = to_jsonable_python(declaration.parameters_json_schema, fallback=lambda default: None)
        required = [each.name for each in parameters if each.default is inspect.Parameter.empty]
        schema.pop("required", None)
        declaration.parameters_json_schema = {**schema, "required": required} if required else schema
    return declaration


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _stand_in(tool: Callable[..., Any]) -> tuple[Callable[..., Any], list[inspect.Parameter]]:
    """A function with the tool's name, docstring and parameters, and the parameters that can be given by name."""
    named: Any = tool.func if isinstance(tool, partial) else tool
    body = named if inspect.isroutine(named) or inspect.isclass(named) else type(named).__call__
    given = [each for each in inspect.signature(tool).parameters.values() if each.kind not in _VARIADIC]

    def face() -> None: ...

    face.__name__ = getattr(named, "__name__", None) or type(named).__name__
    face.__doc__ = body.__doc__ or named.__doc__  # not what a class inherits: pydantic's would be told to the model
    face.__annotations__ = {each.name: Any if each.annotation is each.empty else each.annotation for each in given}
    try:
        hints = get_type_hints(face, getattr(inspect.unwrap(body), "__globals__", None), include_extras=True)
    except NameError as problem:
        raise ValueError(f"tool {face.__name__}: an annotation cannot be read: {problem}") from problem
    parameters = [each.replace(annotation=hints[each.name], kind=each.KEYWORD_ONLY) for each in given]
    face.__annotations__ = hints
    face.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # PEP 362
    return face, parameters


def _with_name(declaration: types.FunctionDeclaration) -> types.FunctionDeclaration:
    if not declaration.name:
        raise ValueError("a tool without a name")
    return declaration


def _is_declaration(tool: Any) -> bool:
    from google.genai import types

    return isinstance(tool, types.FunctionDeclaration)


def _named(tool: NativeTool) -> str:
    """How an error calls a tool that is no function."""
    if isinstance(tool, Mapping):
        return str(tool.get("type") or tool.get("name") or sorted(tool))
    return ", ".join(tool.model_dump(exclude_none=True))


# ----------------------------------------------------------------- OpenAPI's schema to JSON schema

_ONE_SCHEMA = ("items", "additionalProperties")
_MANY_SCHEMAS = ("properties", "defs")
_RENAMED: dict[str, str] = {"defs": "$defs", "ref": "$ref"}
_SAID_OTHERWISE = ("type", "nullable", "example", "propertyOrdering")


def _standard(schema: Any) -> Any:
    """A ``types.Schema`` on the wire as JSON schema: lower-case types, ``nullable`` as a type, no Gemini-only words."""
    if not isinstance(schema, Mapping):
        return schema  # additionalProperties: true
    standard: dict[str, Any] = {}
    if schema.get("type", "TYPE_UNSPECIFIED") != "TYPE_UNSPECIFIED":
        standard["type"] = schema["type"].lower()
    for key, value in schema.items():
        name = _RENAMED.get(str(key), str(key))
        if key in _ONE_SCHEMA:
            standard[name] = _standard(value)
        elif key in _MANY_SCHEMAS:
            standard[name] = {inner: _standard(each) for inner, each in value.items()}
        elif key == "anyOf":
            standard[name] = [_standard(each) for each in value]
        elif key not in _SAID_OTHERWISE:
            standard[name] = value
    if "example" in schema:
        standard["examples"] = [schema["example"]]
    return _or_null(standard) if schema.get("nullable") else standard


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that takes null too."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema
