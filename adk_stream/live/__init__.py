"""Gemini Live: a session loop that survives lost connections, what was heard of it, and audio on its way to files.

Every name is loaded on first use: the recorder alone pays neither for google-genai nor for the tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from .audio import AudioKeeper, AudioRecorder, AudioStore, KeptAudio
    from .playback import PlaybackClock
    from .stream import LiveStream

__all__ = ["AudioKeeper", "AudioRecorder", "AudioStore", "KeptAudio", "LiveStream", "PlaybackClock"]

_HOMES = {
    "AudioKeeper": "audio",
    "AudioRecorder": "audio",
    "AudioStore": "audio",
    "KeptAudio": "audio",
    "LiveStream": "stream",
    "PlaybackClock": "playback",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
