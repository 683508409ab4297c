"""What the user heard: audio runs ahead of the loudspeaker, so an interrupted transcript holds words nobody heard."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["duration_ms", "heard", "sample_rate"]

_DEFAULT_RATE = 24_000  # Hz; what Gemini Live sends, https://ai.google.dev/gemini-api/docs/live
_BYTES_A_SAMPLE = 2  # 16-bit PCM, one channel


def duration_ms(mime_type: str, size: int) -> float:
    """Milliseconds that so many bytes of raw PCM last; the rate is the mime type's (``audio/pcm;rate=24000``)."""
    return size * 1000 / (sample_rate(mime_type) * _BYTES_A_SAMPLE)


@lru_cache(maxsize=16)
def sample_rate(mime_type: str) -> int:
    """Samples a second, from the mime type's parameter."""
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "rate" and value.strip().isdecimal() and int(value) > 0:
            return int(value)
    return _DEFAULT_RATE


def heard(text: str, anchors: Iterable[tuple[float, int]], whole_ms: float, played_ms: float) -> str:
    """The words of ``text`` that were played, whole words only.

    The provider does not say which word is where in the audio, but each fragment came when so much of the audio had
    come: between two such anchors the words are taken to be spoken evenly.

    Args:
        text: The whole transcript.
        anchors: For each fragment (milliseconds of audio, characters of text) that had come before it.
        whole_ms: Length of all the audio that came.
        played_ms: How much of it was played.
    """
    if played_ms >= whole_ms:
        return text
    before, after = (0.0, 0), (whole_ms, len(text))
    for anchor in anchors:
        if not (0 < anchor[0] < whole_ms and anchor[1] > 0):
            continue
        if anchor[0] > played_ms:
            after = anchor
            break
        before = anchor
    span = after[0] - before[0]
    share = (max(played_ms, 0.0) - before[0]) / span if span > 0 else 0.0
    cut = before[1] + int(share * (after[1] - before[1]))
    if cut >= len(text):
        return text
    if not text[cut].isspace():
        cut = max((at for at in range(cut) if text[at].isspace()), default=0)
    return text[:cut].rstrip()
