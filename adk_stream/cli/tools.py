"""``--tool module:function``: the user's own functions, imported from where the command runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from adk_stream.cli.outcome import UsageProblem

__all__ = ["load_tools"]


def load_tools(names: Iterable[str]) -> list[Callable[..., Any]]:
    """The functions of those names.

    Raises:
        UsageProblem: a name is none, or what it names is no function.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return [_load(name) for name in names]


def _load(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise UsageProblem(f"--tool: {name!r} is not module:function")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as problem:  # whatever the user's module raises while it is imported
        raise UsageProblem(f"--tool {name}: {type(problem).__name__}: {problem}") from problem
    if not callable(found):
        raise UsageProblem(f"--tool {name}: it is no function")
    function: Callable[..., Any] = found
    return function
