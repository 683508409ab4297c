"""A prompt to a Gemini model through Google's own client, for ``adk-stream run --model``."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from adk_stream.cli.outcome import UsageProblem
from adk_stream.cli.source import STDIN

__all__ = ["ask", "prompt_of", "wanted_model"]

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


def wanted_model(model: str) -> str:
    """The name in ``gemini:NAME``.

    Raises:
        UsageProblem: another provider, or no name.
    """
    provider, colon, name = model.partition(":")
    if not colon or not name:
        raise UsageProblem(f"--model is PROVIDER:NAME, e.g. gemini:NAME, not {model!r}")
    if provider != "gemini":
        raise UsageProblem(f"--model: only gemini is there yet, not {provider!r}")
    return name


def prompt_of(given: str) -> str:
    """The prompt as it was given; ``-`` reads it from standard input.

    Raises:
        UsageProblem: it is empty.
    """
    text = sys.stdin.read() if given == STDIN else given
    if not text.strip():
        raise UsageProblem("the prompt is empty")
    return text


def ask(model: str, prompt: str, *, base_url: str | None = None) -> AsyncIterator[Any]:
    """The model's answer as a stream of google-genai objects.

    Raises:
        UsageProblem: there is no key, and no ``base_url`` that may do without.
    """
    key = next(filter(None, map(os.environ.get, _KEYS)), None)
    if key is None and base_url is None:
        raise UsageProblem(f"no key: set {' or '.join(_KEYS)}")
    return _answer(model, prompt, key or "none", base_url)


async def _answer(model: str, prompt: str, key: str, base_url: str | None) -> AsyncIterator[Any]:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=base_url) if base_url else None
    client = genai.Client(api_key=key, http_options=options, vertexai=False)
    try:
        async for chunk in await client.aio.models.generate_content_stream(model=model, contents=prompt):
            yield chunk
    finally:
        await client.aio.aclose()
