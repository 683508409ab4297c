"""Server-sent events, from bytes.

Follows the parsing and interpretation rules of the WHATWG HTML standard, section "Server-sent events": CR, LF
and CRLF end a line and nothing else does, one byte order mark may come first, a blank line ends an event.
It deviates where providers' streams ask for it:

* The last event is delivered at the end of the input even without its blank line. The standard drops it,
  since a browser reconnects; here the stream ends there, and several servers leave the last line end out.
* An event without data, or with white space as its only data, is not delivered: it cannot hold a payload.
* Lines that are no field but begin a JSON value are an event: servers drop the body of an HTTP error into the
  stream as it is. So is a line ``error: …``, which gives an event named "error".

Blocks (what stands between two blank lines) are found and split by C code; only blocks of an unusual form are
read line by line. Line ends are made LF first, which changes no payload, as no line can hold another kind.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile

from adk_stream.wire.events import BufferedDecoder, WireEvent

__all__ = ["SseDecoder"]

_LF, _CR, _BRACE = b"\n\r{"
_EVENT_LINE = re.compile(rb"event: ([^\r\n]+)\r?\n")
_MAX_REMEMBERED = 256  # bytes of an ``event:`` line


@lru_cache(maxsize=256)
def _event_name(line: bytes) -> str | None:
    """The name in a whole line ``event: …``; None when it is anything else. A stream repeats a few of them."""
    match = _EVENT_LINE.fullmatch(line)
    return match[1].decode("utf-8", "replace") if match else None


class SseDecoder(BufferedDecoder, tag="sse"):
    """Decodes ``text/event-stream``.

    Args:
        max_event_bytes: The largest event that is accepted, its field names and comments included.
    """

    _last_id: str | None = None
    _skip_line_feed: bool = False  # the input so far ended in CR: an LF that comes next belongs to it
    _direct: bool = False  # nothing is held over: the next read stands alone

    def feed(self, data: bytes) -> list[WireEvent]:
        """The events that these bytes complete.

        Raises:
            StreamLimitError: An event is larger than ``max_event_bytes``.
        """
        if self._direct and len(data) <= self.max_event_bytes:
            event = self._whole_frame(data)
            if event is not None:
                return [event]
            if _CR in data:
                data = self._gather(data)
        else:
            data = self._gather(data)
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        if len(data) > self.max_event_bytes:
            blocks = list(takewhile(lambda block: self._fits(len(block)), blocks))
        events: list[WireEvent] = []
        for block in blocks:
            if block[:7] == b"data: {" and _LF not in block:  # the form of nearly every event
                events.append(WireEvent(block[6:], None, self._last_id))
            else:
                self._read(block, events)
        if rest and self._failure is None:
            self._buffer += rest
            self._fits(len(rest) - 1)  # its last byte may be the line end before the blank line
        self._direct = self._began and not (self._buffer or self._skip_line_feed or self._failure)
        return self._deliver(events)

    def payload(self, data: bytes) -> bytes | None:
        """The JSON object of a read that is exactly one frame of a usual form; None where it takes ``feed`` to tell.

        Nothing is taken in. An event named "error" is none of these: its name changes what it means.
        """
        if not self._direct or len(data) > self.max_event_bytes:
            return None
        if data[:7] == b"data: {":
            end = -2 if data[-2:] == b"\n\n" else -4 if data[-4:] == b"\r\n\r\n" else 0
            payload = data[6:end]
            return None if not end or _LF in payload or _CR in payload else payload
        event = self._whole_frame(data)
        return None if event is None or event.name == "error" else event.data

    def _whole_frame(self, data: bytes) -> WireEvent | None:
        """The event of a read that is exactly one frame of one of the two usual forms."""
        if data[-2:] == b"\n\n":
            end = -2
        elif data[-4:] == b"\r\n\r\n":
            end = -4
        else:
            return None
        if data[:6] == b"data: ":
            head, payload = b"", data[6:end]
        else:
            head, _, payload = data.partition(b"data: ")
            payload = payload[:end]
        if not payload or payload[0] != _BRACE or _LF in payload or _CR in payload:
            return None
        if not head:
            return WireEvent(payload, None, self._last_id)
        name = _event_name(head) if len(head) < _MAX_REMEMBERED else None
        return None if name is None else WireEvent(payload, name, self._last_id)

    def close(self) -> list[WireEvent]:
        """The last event, if no blank line ended it."""
        events: list[WireEvent] = []
        block = bytes(self._buffer).removesuffix(b"\n")
        self._buffer.clear()
        if self._fits(len(block)):
            self._read(block, events)
        return self._deliver(events)

    def _gather(self, data: bytes) -> bytes:
        """What was held over and these bytes, with LF line ends; empty as long as no event has ended."""
        if not data or self._failure:
            return b""
        if self._skip_line_feed:
            data = data.removeprefix(b"\n")
        self._skip_line_feed = data[-1:] == b"\r"
        if _CR in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        buffer = self._buffer
        if not buffer and self._began:
            return data
        searched = max(len(buffer) - 1, 0)  # a blank line may begin with the last byte held
        buffer += data
        if not self._began:
            if not self._begin():
                return b""
            searched = 0
        if buffer.find(b"\n\n", searched) < 0:
            self._fits(len(buffer) - 1)  # its last byte may be the line end before the blank line
            return b""
        data = bytes(buffer)
        buffer.clear()
        return data

    def _read(self, block: bytes, events: list[WireEvent]) -> None:
        """Reads one block, whatever its form."""
        if block[:7] == b"event: " and block.count(b"\n") == 1:
            name, _, payload = block[7:].partition(b"\ndata: ")
            if name and payload[:1] > b" ":
                events.append(WireEvent(payload, name.decode("utf-8", "replace"), self._last_id))
                return
        event_name: str | None = None
        payloads: dict[str, list[bytes]] = {}  # in the order in which each kind first came
        for line in block.split(b"\n"):
            if not line or line[:1] == b":":
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                payloads.setdefault("data", []).append(value)
            elif field == b"event":
                event_name = value.decode("utf-8", "replace") or None
            elif field == b"id":
                if b"\0" not in value:
                    self._last_id = value.decode("utf-8", "replace") or None
            elif field == b"error":
                payloads.setdefault("error", []).append(value)
            elif field != b"retry":
                payloads.setdefault("bare", []).append(line)
        for kind, lines in payloads.items():
            payload = b"\n".join(lines)
            if not payload.strip() or (kind == "bare" and payload.lstrip()[:1] not in (b"{", b"[")):
                continue
            events.append(WireEvent(payload, "error" if kind == "error" else event_name, self._last_id))
