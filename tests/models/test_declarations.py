"""Tools of every form come out as one, and a schema as every provider reads it."""

from __future__ import annotations

import enum
import functools
from typing import Annotated, Any, Literal, Optional

import pytest
from google.genai import types
from pydantic import BaseModel, Field

from adk_stream.errors import RequestError
from adk_stream.models.declarations import declarations, declare, json_schema, sort_tools

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Place(BaseModel):
    city: str
    zip: int | None = None


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


def weather(
    city: Annotated[str, Field(description="Where")],
    day: int = 0,
    unit: Unit = Unit.C,
    mode: Literal["short", "long"] = "short",
    near: Optional[Place] = None,  # noqa: UP045  # people write it so
    tags: list[str] = [],  # noqa: B006
    limit: int | None = None,
) -> Place:
    """The weather.

    Args:
        city: Where.
    """
    return Place(city=city)


async def weather_async(place: Place, unit: Unit, maybe: str | None) -> object:
    """Later."""


class Weather:
    """Weather as an object."""

    def __call__(self, city: str) -> str:
        return city

    def at(self, city: str) -> str:
        """There."""
        return city


class Odd:
    __get_pydantic_core_schema__ = None


class Unknown:
    """Nothing that a schema could tell of."""


def test_a_function_with_everything():
    made = declare(weather)
    assert (made.name, made.description) == ("weather", "The weather.\n\nArgs:\n    city: Where.")
    schema = json_schema(made)
    assert schema["type"] == "object"
    assert schema["required"] == ["city"]
    assert schema["properties"]["city"] == {"type": "string", "description": "Where"}
    assert schema["properties"]["day"] == {"type": "integer", "default": 0}
    assert schema["properties"]["unit"]["default"] == "celsius", "defaults are JSON"
    assert schema["properties"]["mode"]["enum"] == ["short", "long"]
    assert schema["properties"]["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert schema["properties"]["limit"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert schema["$defs"]["Place"]["required"] == ["city"]


def test_an_async_function_needs_what_has_no_default_even_if_it_may_be_none():
    schema = json_schema(declare(weather_async))
    assert schema["required"] == ["place", "unit", "maybe"]
    assert schema["properties"]["place"]["required"] == ["city"]


def test_functions_that_google_genai_alone_refuses():
    def untyped(a, b=2, *rest, **more): ...

    def odd_result(a: int) -> Unknown: ...

    def odd_default(a: Any = Unknown()): ...  # noqa: B008

    assert json_schema(declare(untyped)) == {
        "type": "object",
        "properties": {"a": {}, "b": {"default": 2}},
        "required": ["a"],
    }
    assert declare(untyped).description is None
    assert json_schema(declare(odd_result))["properties"] == {"a": {"type": "integer"}}
    assert json_schema(declare(odd_default))["properties"] == {"a": {"default": None}}


def test_methods_objects_classes_and_partials():
    assert declare(Weather().at).name == "at"
    made = declare(Weather())
    assert (made.name, made.description) == ("Weather", "Weather as an object.")
    assert json_schema(made)["required"] == ["city"]
    model = declare(Place)
    assert (model.name, model.description) == ("Place", None), "pydantic's own docstring is not for the model"
    assert json_schema(model)["required"] == ["city"]
    bound = declare(functools.partial(weather, "Oslo"))
    assert bound.name == "weather"
    assert "city" not in json_schema(bound)["properties"]


def test_a_function_without_parameters():
    def now() -> str:
        """The time."""

    assert json_schema(declare(now)) == {"type": "object", "properties": {}}


def test_what_cannot_be_described_is_said():
    def odd(a: Odd): ...

    with pytest.raises(ValueError, match=r"parameter a: .*Odd of function odd"):
        declare(odd)

    class Local:
        """Known to this test alone: an annotation that is a string does not find it."""

    def local(a: Local): ...

    with pytest.raises(ValueError, match="tool local: an annotation cannot be read: name 'Local'"):
        declare(local)

    def local_result(a: int) -> Local: ...

    assert declare(local_result).name == "local_result"


@pytest.mark.parametrize(
    "mapping",
    [
        {"type": "function", "function": {"name": "w", "description": "d", "parameters": SCHEMA, "strict": True}},
        {"type": "function", "name": "w", "description": "d", "parameters": SCHEMA, "strict": True},
        {"name": "w", "description": "d", "input_schema": SCHEMA},
        {"type": "custom", "name": "w", "description": "d", "input_schema": SCHEMA},
        {"name": "w", "description": "d", "inputSchema": SCHEMA},
        {"name": "w", "description": "d", "parameters": SCHEMA},
        {"name": "w", "description": "d", "parametersJsonSchema": SCHEMA},
        {"function_declarations": [{"name": "w", "description": "d", "parameters_json_schema": SCHEMA}]},
    ],
    ids=lambda mapping: "-".join(mapping),
)
def test_every_form_of_a_mapping(mapping):
    made = declare(mapping)
    assert (made.name, made.description) == ("w", "d")
    assert json_schema(made) == SCHEMA
    json_schema(made)["properties"].clear()
    assert json_schema(made) == SCHEMA, "the caller's own copy"


def test_a_bare_schema_is_called_by_its_title():
    made = declare({"title": "w", "description": "d", **SCHEMA})
    assert (made.name, made.description) == ("w", "d")
    assert json_schema(made)["additionalProperties"] is False


def test_a_function_that_takes_nothing_as_a_mapping():
    for mapping in ({"name": "w"}, {"type": "function", "name": "w"}, {"type": "function", "function": {"name": "w"}}):
        assert json_schema(declare(mapping)) == {"type": "object", "properties": {}}


OPENAPI = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "nullable": True, "example": "Oslo", "minLength": 1},
        "unit": {"type": "STRING", "enum": ["c", "f"], "nullable": True},
        "when": {"anyOf": [{"type": "INTEGER", "format": "int64"}, {"type": "STRING"}], "nullable": True},
        "rows": {"type": "ARRAY", "items": {"type": "OBJECT", "properties": {"type": {"type": "NUMBER"}}}},
        "more": {"type": "OBJECT", "additionalProperties": {"type": "BOOLEAN"}},
        "any": {"description": "whatever", "nullable": False},
    },
    "required": ["city"],
    "propertyOrdering": ["city", "unit"],
    "additionalProperties": False,
}
STANDARD = {
    "type": "object",
    "properties": {
        "city": {"type": ["string", "null"], "examples": ["Oslo"], "minLength": 1},
        "unit": {"type": ["string", "null"], "enum": ["c", "f", None]},
        "when": {"anyOf": [{"type": "integer", "format": "int64"}, {"type": "string"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "number"}}}},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": {"description": "whatever"},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "w", "parameters": OPENAPI},
        types.FunctionDeclaration(name="w", parameters=types.Schema.model_validate(OPENAPI)),
        types.Tool(
            function_declarations=[types.FunctionDeclaration.model_validate({"name": "w", "parameters": OPENAPI})]
        ),
    ],
    ids=["mapping", "declaration", "tool"],
)
def test_googles_own_schema_becomes_json_schema(tool):
    made = declare(tool)
    assert made.parameters is not None
    assert json_schema(made) == STANDARD


def test_a_tool_of_several_functions_and_one_of_geminis_own():
    f, g = types.FunctionDeclaration(name="f"), types.FunctionDeclaration(name="g")
    tool = types.Tool(function_declarations=[f, g], google_search=types.GoogleSearch())
    assert sort_tools([tool, weather, {"code_execution": {}}, {"type": "web_search"}]) == (
        [f, g, declare(weather)],
        [
            types.Tool(google_search=types.GoogleSearch()),
            types.Tool(code_execution=types.ToolCodeExecution()),
            {"type": "web_search"},
        ],
    )
    with pytest.raises(ValueError, match="one function is needed, not 2"):
        declare(types.Tool(function_declarations=[f, g]))


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        (types.Tool(google_search=types.GoogleSearch()), "google_search"),
        (types.Tool(url_context=types.UrlContext()), "url_context"),
        ({"googleSearch": {}}, "google_search"),
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search_20250305"),
        ({"type": "custom", "name": "shell"}, "custom"),
        ({"type": "mcp", "server_url": "x"}, "mcp"),
    ],
)
def test_what_is_no_function_is_refused_by_name(tool, named):
    with pytest.raises(RequestError, match=f"cannot run {named}: it takes functions alone"):
        declarations([tool])


def test_names_are_unique_and_there():
    with pytest.raises(ValueError, match="more than one tool is called 'weather'"):
        declarations([weather, {"name": "other"}, {"name": "weather"}])
    for nameless in ({}, {"parameters": SCHEMA}, {"type": "function"}, types.FunctionDeclaration()):
        with pytest.raises(ValueError, match="without a name"):
            declarations([nameless])


@pytest.mark.parametrize("thing", [None, 3, "weather", [weather]])
def test_what_is_no_tool_at_all(thing):
    with pytest.raises(TypeError, match="is no tool"):
        declarations([thing])
