"""Gemini Live: a session loop that survives lost connections, what was heard of it, and audio on its way to files.

Every name is loaded on first use: the recorder alone pays neither for google-genai nor for the tools.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .audio import AudioKeeper, AudioRecorder, AudioStore, KeptAudio
    from .playback import PlaybackClock
    from .stream import LiveStream

__all__ = ["AudioKeeper", "AudioRecorder", "AudioStore", "KeptAudio", "LiveStream", "PlaybackClock"]

_MODULES = {
    "AudioKeeper": "audio",
    "AudioRecorder": "audio",
    "AudioStore": "audio",
    "KeptAudio": "audio",
    "LiveStream": "stream",
    "PlaybackClock": "playback",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
