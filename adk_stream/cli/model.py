"""The model that ``--model PROVIDER:NAME`` asks, and what it is asked.

The official clients read keys and addresses from the environment. The command looks there first, so that a missing
key is bad usage, told in one line before anything is stored, and not a run that failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from adk_stream.cli.outcome import UsageProblem
from adk_stream.cli.source import STDIN

if TYPE_CHECKING:
    from adk_stream.models import Model, ModelRequest

__all__ = ["open_model", "prompt_of", "question"]


class _Environment(NamedTuple):
    """What an official client reads.

    Attributes:
        keys: Each of them is enough to be let in; the first is the one to name.
        base_url: Where the provider is, if it is not where it always is.
        extra: The client's package and the extra that brings it; empty: it is always there.
    """

    keys: tuple[str, ...]
    base_url: str
    extra: str = ""


_OPENAI = _Environment(("OPENAI_API_KEY",), "OPENAI_BASE_URL", "openai")
_ENVIRONMENTS: Mapping[str, _Environment] = {
    "gemini": _Environment(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"),
        "GOOGLE_GEMINI_BASE_URL",
    ),
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _Environment(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_IDENTITY_TOKEN_FILE"),
        "ANTHROPIC_BASE_URL",
        "anthropic",
    ),
}


def open_model(name: str, base_url: str | None = None) -> Model:
    """The model; a ``base_url`` is put where the official client looks for it, and may do without a key.

    Raises:
        UsageProblem: there is no such model, or no key.
        MissingExtraError: its client is not installed.
        RecordingError: ``replay:FILE``, and the file cannot be read.
    """
    from adk_stream.models import model_from_name
    from adk_stream.models.client import import_extra

    try:
        model = model_from_name(name)
    except ValueError as problem:
        raise UsageProblem(f"--model: {problem}") from problem
    environment = _ENVIRONMENTS.get(name.partition(":")[0])
    if environment is None:
        if base_url is not None:
            raise UsageProblem("--base-url: a recording is served nowhere")
        return model
    if environment.extra:
        import_extra(environment.extra, environment.extra)
    if base_url is not None:
        os.environ[environment.base_url] = base_url
    if not any(map(os.environ.get, environment.keys)):
        if base_url is None:
            raise UsageProblem(f"no key: set {environment.keys[0]}")
        os.environ[environment.keys[0]] = "none"
    return model


def prompt_of(given: str) -> str:
    """The prompt as it was given; ``-`` reads it from standard input.

    Raises:
        UsageProblem: it is empty.
    """
    text = sys.stdin.read() if given == STDIN else given
    if not text.strip():
        raise UsageProblem("the prompt is empty")
    return text


def question(prompt: str) -> ModelRequest:
    """The request that asks this and nothing else."""
    from google.genai import types

    from adk_stream.models import ModelRequest

    return ModelRequest([types.Content(role="user", parts=[types.Part(text=prompt)])])
