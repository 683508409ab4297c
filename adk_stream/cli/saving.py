"""``--save-audio``: the model's voice as a WAV file, and a word about it at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_stream.live import AudioRecorder

__all__ = ["saved_audio"]


@contextmanager
def saved_audio(file: str | None) -> Iterator[AudioRecorder | None]:
    """A recorder for the file, None without one; finished, and told of on stderr, whatever happens inside."""
    if file is None:
        yield None
        return
    from adk_stream.live import AudioRecorder

    with AudioRecorder(file) as recorder:
        try:
            yield recorder
        finally:
            names = ", ".join(map(str, recorder.paths))
            told = f"{recorder.seconds:.1f} s in {names}" if names else "none came"
            print(f"audio: {told}", file=sys.stderr, flush=True)
