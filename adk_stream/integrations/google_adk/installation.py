"""Puts our classes in the place of google-adk's, and takes them out again.

google-adk's modules import the classes by name, so each module that holds a reference is given ours. ``REPLACEMENTS``
is the whole table of what is replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from threading import RLock
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self

__all__ = ["REPLACEMENTS", "Installation", "Replacement", "install", "uninstall"]


class Replacement(NamedTuple):
    """One class that is replaced.

    Attributes:
        home: The module that defines google-adk's class.
        name: Its name there, and in every module that imports it.
        users: The modules that are known to import it; they are loaded first, so that none is missed.
        ours: Gives our class, of whether google-adk's exact results are wanted; None where its own serves for that.
    """

    home: str
    name: str
    users: tuple[str, ...]
    ours: Callable[[bool], type | None]


def _aggregator(strict: bool) -> type:
    from .aggregator import StreamingResponseAggregator
    from .strict import StrictStreamingResponseAggregator

    return StrictStreamingResponseAggregator if strict else StreamingResponseAggregator


def _live(strict: bool) -> type | None:
    from .live import GeminiLlmConnection

    return None if strict else GeminiLlmConnection


REPLACEMENTS = (
    Replacement(
        "google.adk.utils.streaming_utils",
        "StreamingResponseAggregator",
        ("google.adk.models.google_llm",),
        _aggregator,
    ),
    Replacement(
        "google.adk.models.gemini_llm_connection",
        "GeminiLlmConnection",
        ("google.adk.models.google_llm",),
        _live,
    ),
)

_PACKAGE = "google.adk"
_lock = RLock()
_originals: dict[Replacement, Any] = {}
_strict: bool | None = None  # None: nothing is installed


class Installation:
    """What ``install`` did. As a context manager it restores, at the end, what was there before."""

    def __init__(self, before: bool | None) -> None:
        self._before = before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            uninstall()
        else:
            install(strict_adk=self._before)


def install(strict_adk: bool = False) -> Installation:
    """Let google-adk use our classes, in this whole process, from the next call of a model on.

    Installing again changes nothing, or only ``strict_adk``. Use it as a context manager to have it undone::

        with install():
            ...

    Args:
        strict_adk: google-adk's exact results where its own tests hold what this project wants otherwise; see the
            module ``strict``.

    Raises:
        AttributeError: the installed google-adk has none of the classes that are replaced.
    """
    global _strict
    with _lock:
        before = _strict
        for replacement in REPLACEMENTS:
            for module in (replacement.home, *replacement.users):
                import_module(module)
            original = _originals.get(replacement)
            if original is None:
                original = _originals[replacement] = getattr(sys.modules[replacement.home], replacement.name)
            old = original if before is None else replacement.ours(before) or original
            _replace(replacement.name, old, replacement.ours(strict_adk) or original)
        _strict = strict_adk
        return Installation(before)


def uninstall() -> None:
    """Give google-adk its own classes back, also in modules that were loaded meanwhile; if it has them, do nothing."""
    global _strict
    with _lock:
        if _strict is None:
            return
        for replacement, original in _originals.items():
            _replace(replacement.name, replacement.ours(_strict) or original, original)
        _originals.clear()
        _strict = None


def _replace(name: str, old: Any, new: Any) -> None:
    for module in _adk_modules():
        if module.__dict__.get(name) is old:
            setattr(module, name, new)


def _adk_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if module is not None and (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")):
            yield module
