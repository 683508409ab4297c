"""What every wire decoder has in common: the event it gives, its four methods, its size limit.

A decoder turns bytes, cut anywhere, into the payloads of a stream's events. What it gives depends on the
bytes alone, never on how they were cut. It knows framing only: payloads are not parsed here.

Decoders are msgspec structs, so that the snapshot of a decoder is its fields and nothing can be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

import msgspec

from adk_stream.errors import SnapshotError, StreamLimitError

__all__ = ["DEFAULT_MAX_EVENT_BYTES", "BufferedDecoder", "Decoder", "WireEvent"]

DEFAULT_MAX_EVENT_BYTES = 64 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class WireEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream, not yet parsed.

    Attributes:
        data: The payload as it was on the wire; several ``data:`` lines are joined by a line feed.
        name: The ``event:`` field of server-sent events; None when absent or in any other format.
        id: The last ``id:`` that the stream had set when the event ended; None when it had set none.
    """

    data: bytes
    name: str | None = None
    id: str | None = None


class Decoder(Protocol):
    """Bytes in, events out. The end of the input is ``close()``, not an empty read."""

    def feed(self, data: bytes) -> list[WireEvent]:
        """The events that these bytes complete.

        Raises:
            StreamLimitError: An event is larger than the limit. Events before it are delivered first;
                the error is then raised by every later call.
        """

    def close(self) -> list[WireEvent]:
        """The end of the input: what was still unfinished, as it stands. Closing again gives nothing."""

    def snapshot(self) -> dict[str, object]:
        """The whole state as plain JSON values."""

    @classmethod
    def restore(cls, state: Mapping[str, object]) -> Self:
        """A decoder that goes on where ``snapshot()`` was taken.

        Raises:
            SnapshotError: The state is damaged or of another decoder.
        """


class BufferedDecoder(msgspec.Struct, tag_field="decoder", eq=False):
    """A bounded buffer for the unfinished event, the byte order mark, the snapshot: what all decoders share.

    Attributes:
        max_event_bytes: The largest event that is accepted, framing included.
    """

    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES
    _buffer: bytearray = msgspec.field(default_factory=bytearray)
    _began: bool = False  # past the place of the byte order mark
    _failure: str | None = None

    def snapshot(self) -> dict[str, object]:
        """The whole state as plain JSON values."""
        state: dict[str, object] = msgspec.to_builtins(self)
        return state

    @classmethod
    def restore(cls, state: Mapping[str, object]) -> Self:
        """A decoder that goes on where ``snapshot()`` was taken.

        Raises:
            SnapshotError: The state is damaged or of another decoder.
        """
        try:
            if state.get("decoder") != cls.__struct_config__.tag:
                raise msgspec.ValidationError("it names another decoder")
            return msgspec.convert(state, cls)
        except msgspec.ValidationError as error:
            raise SnapshotError(f"not the state of a {cls.__name__}: {error}") from error

    def _begin(self) -> bool:
        """Drops a byte order mark from the start of the buffer; False while it may still be coming."""
        if not self._began and not _BYTE_ORDER_MARK.startswith(self._buffer):
            self._began = True
            if self._buffer.startswith(_BYTE_ORDER_MARK):
                del self._buffer[: len(_BYTE_ORDER_MARK)]
        return self._began

    def _fits(self, size: int) -> bool:
        """Whether an event of this size is allowed; if not, the decoder has failed and reads no more."""
        if size <= self.max_event_bytes:
            return True
        self._failure = f"an event is larger than {self.max_event_bytes} bytes"
        self._buffer.clear()
        return False

    def _deliver(self, events: list[WireEvent]) -> list[WireEvent]:
        """The events, or the failure once there are none left to deliver before it.

        A failure waits for the next call if the same read completed events: otherwise it would depend on
        the cut of the reads whether these are seen.
        """
        if self._failure is not None and not events:
            raise StreamLimitError(self._failure)
        return events
