"""StreamingPartIndexer: part indexes for providers that send none.

Gemini and Chat Completions stream parts without saying where one ends and the next begins. The rules here
decide it from the kinds alone, so that the assembler can merge by index as it does for the providers that do number
their parts (Anthropic's blocks, the items of OpenAI Responses).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from adk_stream.parts import PartDelta, StreamedPart, part_delta

if TYPE_CHECKING:
    from google.genai import types

__all__ = ["StreamingPartIndexer"]


class StreamingPartIndexer(msgspec.Struct):
    """Stamps parts with the index of their place in the response.

    One indexer serves one response id. It is not thread-safe.

    - A text or thought delta continues the current index when the delta before it was of the same kind, else it
      starts the next.
    - A delta with a ``thought_signature`` takes an index of its own and ends the run.
    - A tool-call delta takes the next index at its first delta and keeps it, by call id, for later deltas and for
      the complete call; it does not end the current run, while the complete call does.
    - Any other part is complete, takes the next index and ends the run.
    - An empty text part that holds nothing else comes back unstamped and ends nothing.
    """

    index: int = -1
    run: str | None = None  # the kind of the run that the next delta may continue
    run_index: int = -1
    calls: dict[str, int] = {}

    def stamp(self, part: types.Part | PartDelta) -> StreamedPart:
        """The part with its index: a text or thought as a delta (``partial=True``), any other as complete."""
        delta = part if type(part) is PartDelta else part_delta(part)
        if delta.function_call is not None:
            call_id = delta.function_call.id
            index = self.call_index(call_id) if call_id else self.next_index()
            self.end_run()
            return StreamedPart(part, index)
        if delta.whole is not None or (delta.text is None and not delta.thought and not delta.thought_signature):
            self.end_run()
            return StreamedPart(part, self.next_index())
        if not (delta.text or delta.thought or delta.thought_signature or delta.part_metadata):
            return StreamedPart(part)
        return StreamedPart(part, self.text_index("thought" if delta.thought else "text", delta), True)

    def stamp_tool_call_delta(self, part: types.Part, arguments_delta: str | None = None) -> StreamedPart:
        """A tool-call delta with its index.

        Args:
            part: A part whose ``function_call.id`` names the call.
            arguments_delta: The fragment of the call's JSON arguments that this delta brings.

        Raises:
            TypeError: the part holds no function call, or one without an id; the state is unchanged.
        """
        call = getattr(part, "function_call", None)
        if call is None or not isinstance(call.id, str) or not call.id:
            raise TypeError("a tool-call delta is a Part with a function_call whose id names the call")
        if arguments_delta is not None and not isinstance(arguments_delta, str):
            raise TypeError(f"arguments_delta is a str, not {type(arguments_delta).__name__}")
        return StreamedPart(part, self.call_index(call.id), True, arguments_delta)

    def text_index(self, kind: str, delta: PartDelta) -> int:
        """The index of a delta of this kind; kinds are names that differ where runs must not be merged."""
        if delta.thought_signature:
            self.end_run()
            return self.next_index()
        return self.run_at(kind)

    def run_at(self, kind: str) -> int:
        """The index of the run of this kind, which goes on or begins."""
        if self.run != kind:
            self.run, self.run_index = kind, self.next_index()
        return self.run_index

    def call_index(self, key: Hashable) -> int:
        """The index of the call that is known by ``key`` (its id, or a reader's own name for it)."""
        index = self.calls.get(str(key))
        if index is None:
            index = self.calls[str(key)] = self.next_index()
        return index

    def next_index(self) -> int:
        """Take the next free index."""
        self.index += 1
        return self.index

    def end_run(self) -> None:
        """Let the next delta start a new index."""
        self.run = None
