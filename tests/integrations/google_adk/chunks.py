"""Chunks as google-genai gives them, and aggregators fed with them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from google.adk.models.llm_response import LlmResponse
from google.genai import types


def chunk(*parts: dict, finish: str | None = None, usage: dict | None = None, **fields: Any):
    """A chunk with these wire parts; no parts: a candidate without content."""
    candidate = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    if finish:
        candidate["finishReason"] = finish
    data = {"candidates": [{**candidate, **fields.pop("candidate", {})}], "modelVersion": "gemini-test", **fields}
    if usage:
        data["usageMetadata"] = usage
    return types.GenerateContentResponse.model_validate(data)


def text(text: str, **fields: Any) -> dict:
    return {"text": text, **fields}


def call(name: str | None = None, **fields: Any) -> dict:
    named = {} if name is None else {"name": name}
    return {"functionCall": {**named, **fields}}


def fragment(path: str, piece: str, *, goes_on: bool = True, name: str | None = None, **fields: Any) -> dict:
    return call(name, partialArgs=[{"jsonPath": path, "stringValue": piece}], willContinue=goes_on, **fields)


def feed(aggregator: Any, chunks: list[Any]) -> list[LlmResponse]:
    """Everything that is given before the end, taken the way google-adk takes it."""

    async def main() -> list[LlmResponse]:
        given = []
        for each in chunks:
            async with aclosing(aggregator.process_response(each)) as responses:
                given += [response async for response in responses]
        return given

    return asyncio.run(main())


def run(aggregator: Any, chunks: list[Any]) -> tuple[list[LlmResponse], LlmResponse | None]:
    return feed(aggregator, chunks), aggregator.close()


def parts_of(response: LlmResponse | None) -> list[types.Part]:
    return (response.content.parts or []) if response is not None and response.content is not None else []


def texts(response: LlmResponse | None) -> list[str | None]:
    return [part.text for part in parts_of(response)]
