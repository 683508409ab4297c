"""Which wire format is this? The first byte that is not white space tells.

``[`` begins a JSON array, ``{`` JSON lines or a plain body, anything else server-sent events (a field
name, or the colon of a comment).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import msgspec

from adk_stream.errors import SnapshotError
from adk_stream.wire.events import DEFAULT_MAX_EVENT_BYTES, BufferedDecoder, WireEvent
from adk_stream.wire.json_values import JsonArrayDecoder, JsonLinesDecoder
from adk_stream.wire.sse import SseDecoder

__all__ = ["BytesDecoder"]

_FormatDecoder = SseDecoder | JsonLinesDecoder | JsonArrayDecoder
_FORMATS: dict[bytes, type[JsonLinesDecoder | JsonArrayDecoder]] = {
    b"[": JsonArrayDecoder,
    b"{": JsonLinesDecoder,
}


class _Undecided(BufferedDecoder, tag="undecided"):
    """Drops a byte order mark and white space until a byte comes that tells."""

    def told(self, data: bytes) -> bytes:
        """Everything from the first byte that tells; empty while none has come."""
        self._buffer += data
        if not self._begin():
            return b""
        telling = bytes(self._buffer).lstrip()
        self._buffer.clear()
        return telling


class BytesDecoder:
    """Decodes a stream of any of the formats, chosen by its first bytes.

    Once the format is known, ``feed`` *is* the chosen decoder's ``feed`` (and so is ``payload``), so choosing costs
    nothing later.

    Args:
        max_event_bytes: The largest event that is accepted.
    """

    def __init__(self, max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._inner: _Undecided | _FormatDecoder = _Undecided(max_event_bytes)

    def feed(self, data: bytes) -> list[WireEvent]:
        """The events that these bytes complete.

        Raises:
            StreamLimitError: An event is larger than ``max_event_bytes``.
        """
        inner = self._inner
        if isinstance(inner, _Undecided):
            data = inner.told(data)
            if not data:
                return []
            inner = _FORMATS.get(data[:1], SseDecoder)(inner.max_event_bytes)
            self._become(inner)
        return inner.feed(data)

    def payload(self, data: bytes) -> bytes | None:
        """What may be the only event of these bytes, in a form that needs no decoder; nothing is taken in.

        None where it takes ``feed`` to tell. Whether it is JSON is for the caller to see.
        """
        return None  # what is right until the format is known

    def close(self) -> list[WireEvent]:
        """What is still unfinished, as it stands."""
        return [] if isinstance(self._inner, _Undecided) else self._inner.close()

    def snapshot(self) -> dict[str, object]:
        """The whole state as plain JSON values."""
        return self._inner.snapshot()

    @classmethod
    def restore(cls, state: Mapping[str, object]) -> Self:
        """A decoder that goes on where ``snapshot()`` was taken.

        Raises:
            SnapshotError: The state is damaged.
        """
        try:
            inner: _Undecided | _FormatDecoder = msgspec.convert(state, _Undecided | _FormatDecoder)
        except msgspec.ValidationError as error:
            raise SnapshotError(f"not the state of a wire decoder: {error}") from error
        decoder = cls()
        decoder._inner = inner
        if not isinstance(inner, _Undecided):
            decoder._become(inner)
        return decoder

    def _become(self, inner: _FormatDecoder) -> None:
        self._inner = inner
        self.feed = inner.feed  # type: ignore[method-assign]
        self.payload = inner.payload  # type: ignore[method-assign]
