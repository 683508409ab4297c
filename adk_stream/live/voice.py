"""The audio of one turn after the other, kept in a store; the turn's final holds references to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

    from .audio import AudioKeeper, KeptAudio

__all__ = ["TurnVoice"]


class TurnVoice:
    """What is kept of the turn that comes now.

    Args:
        store: Where it is kept; None: nowhere.
    """

    def __init__(self, store: AudioKeeper | None) -> None:
        self._store = store
        self._kept: list[KeptAudio] = []
        self._type: str | None = None  # of the newest

    def write(self, mime_type: str, data: bytes) -> None:
        """A piece of the turn's audio. Another type, or another rate, is kept by itself."""
        if self._store is None:
            return
        if mime_type != self._type:
            self.close()
            self._kept.append(self._store.begin(mime_type))
            self._type = mime_type
        self._kept[-1].write(data)

    def refer(self, final: LlmResponse) -> LlmResponse:
        """The turn's final with references to its audio; what comes afterwards belongs to the next turn."""
        self.close()
        kept, self._kept = self._kept, []
        if not kept:
            return final
        references = [_reference(audio) for audio in kept]
        role = (final.content.role if final.content else None) or "model"
        content = types.Content(role=role, parts=[*final.parts, *references])
        return final.model_copy(update={"content": content})

    def close(self) -> None:
        """Finish what is being written."""
        if self._type is not None:
            self._kept[-1].close()
        self._type = None


def _reference(audio: KeptAudio) -> types.Part:
    file = types.FileData(file_uri=audio.uri, mime_type=audio.mime_type)
    return types.Part(file_data=file, part_metadata={"kept_audio": True})  # no provider is sent it
