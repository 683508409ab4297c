"""Words that come after the end of their turn.

Gemini Live promises no order between transcripts and ``turnComplete``: the last words of a turn may come behind its
end. Whoever reads a stream as a whole holds that end back until it is clear whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from adk_stream.parts import StreamChunk

__all__ = ["TurnTail"]


class TurnTail(msgspec.Struct):
    """Puts the model's late words before the end of the turn they belong to.

    A turn whose transcript was not ``finished`` stays open for words behind its end: they are its own if a
    ``finished`` comes with them, or nothing at all; where anything else of a turn comes after them, they began it.

    Attributes:
        unfinished: The model's transcript of this turn has words and no ``finished``.
        held: The turn's end and the words after it.
    """

    unfinished: bool = False
    held: list[StreamChunk] = []

    def pass_on(self, chunks: Sequence[StreamChunk]) -> list[StreamChunk]:
        """The chunks that may go on now, in order."""
        given: list[StreamChunk] = []
        for chunk in chunks:
            if self.held:
                given += self._held_back(chunk)
            else:
                given += self._watched(chunk)
        return given

    def release(self) -> list[StreamChunk]:
        """Nothing more comes: the late words, and after them the end of their turn."""
        end, late, self.held, self.unfinished = self.held[:1], self.held[1:], [], False
        return late + end

    def _watched(self, chunk: StreamChunk) -> list[StreamChunk]:
        live, said = chunk.live, chunk.transcript
        if said is not None and said.who == "output":
            self.unfinished = (self.unfinished or bool(said.text)) and not said.finished
        elif live is not None and live.interrupted:
            self.unfinished = False
        elif live is not None and live.turn_complete and self.unfinished:
            self.held = [chunk]
            return []
        return [chunk]

    def _held_back(self, chunk: StreamChunk) -> list[StreamChunk]:
        live, said = chunk.live, chunk.transcript
        if said is not None and said.who == "output":
            self.held.append(chunk)
            return self.release() if said.finished else []
        begins_turn = (
            said is not None or bool(chunk.parts) or (live is not None and (live.interrupted or live.turn_complete))
        )
        if not begins_turn:
            return [chunk]
        waiting, self.held, self.unfinished = self.held, [], False
        return waiting[:1] + self.pass_on([*waiting[1:], chunk])
