"""Streams of bare JSON values: one array, or values one after another (JSON lines, a plain body).

Both are one mechanism, a scan that follows nesting and strings and gives each value of the outermost
level when it closes: a value printed over several lines is one event, as is one of several on a line. They
differ in what may stand between values and in what a stray scalar ends at.

A value that never closes must not swallow those that follow. It is given up, and delivered as it stands,

* at a line break inside a string: JSON has none there (RFC 8259, section 7), so the line was cut;
* when it is one line, of more than its opening bracket, and the next line begins with ``{`` in its first
  column: a printer that spreads a value over lines begins with the bracket alone or indents what is nested.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from adk_stream.wire.events import BufferedDecoder, WireEvent

__all__ = ["JsonArrayDecoder", "JsonLinesDecoder"]

_QUOTE, _BACKSLASH, _BRACE, _LINE_FEED = b'"\\{\n'
_WHITE_SPACE = b" \t\r\n"
# Both stop at what they cannot pass: the first at a bracket or at a string that does not end in the buffer,
# the second at the string's end, at a line feed, or at a backslash whose other half is not there.
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\\n]++|\\[^\n])*+")*+')
_TO_STRING_END = re.compile(rb"(?:[^\"\\\n]++|\\[^\n])*+")


class _JsonValuesDecoder(BufferedDecoder):
    _SEPARATORS: ClassVar[re.Pattern[bytes]]
    _OPENING: ClassVar[bytes]
    _STRAY: ClassVar[re.Pattern[bytes]]

    # The buffer begins with the unfinished value, or is empty.
    _position: int = 0  # scanned so far
    _depth: int = 0  # open brackets; 0 with something scanned: in a stray scalar
    _in_string: bool = False

    def __post_init__(self) -> None:
        if self._failure is None and (not 0 <= self._position <= len(self._buffer) or self._depth < 0):
            raise ValueError("a scan position outside the buffer")

    def feed(self, data: bytes) -> list[WireEvent]:
        """The values that these bytes close, one event each.

        Raises:
            StreamLimitError: A value is larger than ``max_event_bytes``.
        """
        events: list[WireEvent] = []
        self._take(data, events)
        return self._deliver(events)

    def payload(self, data: bytes) -> bytes | None:
        """These bytes, if they could be a JSON object with nothing to be framed, as a websocket's frame is."""
        return None

    def close(self) -> list[WireEvent]:
        """What is left: a value that never closed, a last scalar."""
        events: list[WireEvent] = []
        if not self._failure:
            self._emit(0, len(self._buffer), events)
        self._buffer.clear()
        self._position = self._depth = 0
        self._in_string = False
        return self._deliver(events)

    def _emit(self, start: int, end: int, events: list[WireEvent]) -> None:
        value = bytes(self._buffer[start:end]).strip(_WHITE_SPACE)
        if value and self._fits(end - start):
            events.append(WireEvent(value))

    def _take(self, data: bytes, events: list[WireEvent]) -> None:
        """Scans on, appending the values that close."""
        if self._failure:
            return
        buffer = self._buffer
        buffer += data
        if not self._begin():
            return
        start, position, depth, in_string = 0, self._position, self._depth, self._in_string
        size = len(buffer)
        while position < size and not self._failure:
            if in_string:
                position = _end(_TO_STRING_END, buffer, position)
                if position == size or (position == size - 1 and buffer[position] == _BACKSLASH):
                    break
                if buffer[position] == _QUOTE:
                    position += 1
                    in_string = False
                else:
                    position = buffer.index(b"\n", position)
                    self._emit(start, position, events)
                    start, depth, in_string = position, 0, False
            elif depth:
                position = _end(_TO_BRACKET, buffer, position)
                if position == size:
                    break
                byte = buffer[position]
                if byte == _QUOTE:
                    in_string = True
                elif byte not in b"{[":
                    depth -= 1
                    if not depth:
                        self._emit(start, position + 1, events)
                        start = position + 1
                elif byte == _BRACE and self._begins_next_line(start, position):
                    self._emit(start, position, events)
                    start, depth = position, 1
                else:
                    depth += 1
                position += 1
            elif position > start:
                position = _end(self._STRAY, buffer, position)
                if position == size:
                    break
                self._emit(start, position, events)
                start = position
            else:
                start = position = _end(self._SEPARATORS, buffer, position)
                if position < size:
                    depth = int(buffer[position] in self._OPENING)
                    position += 1
        if self._failure:
            return
        del buffer[:start]
        self._position, self._depth, self._in_string = position - start, depth, in_string
        self._fits(len(buffer))

    def _begins_next_line(self, start: int, position: int) -> bool:
        """Whether the brace at the position begins a line and the open value is the one line before it."""
        buffer = self._buffer
        return (
            buffer[position - 1] == _LINE_FEED
            and buffer.rfind(b"\n", start, position - 1) < 0
            and len(buffer[start:position].strip(_WHITE_SPACE)) > 1
        )


class JsonArrayDecoder(_JsonValuesDecoder, tag="json-array"):
    """Decodes one JSON array whose elements come one by one: Gemini's ``streamGenerateContent`` without
    ``alt=sse``. Each element is an event when it closes.
    """

    _SEPARATORS = re.compile(rb"[ \t\r\n,\[\]]*")
    _OPENING = b"{"
    _STRAY = re.compile(rb"[^,\[\]{\n]*")


class JsonLinesDecoder(_JsonValuesDecoder, tag="json-lines"):
    """Decodes JSON values one after another: JSON lines, and a plain body printed over many lines
    (an HTTP error where a stream was meant). Blank lines are skipped.

    A line of its own that is no JSON value, or was cut, is one event: the caller sees that it does not parse.
    """

    _SEPARATORS = re.compile(rb"[ \t\r\n]*")
    _OPENING = b"{["
    _STRAY = re.compile(rb"[^\n]*")

    def feed(self, data: bytes) -> list[WireEvent]:
        """The values that these bytes close, one event each.

        Raises:
            StreamLimitError: A value is larger than ``max_event_bytes``.
        """
        events: list[WireEvent] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._failure:
                break
            # A line that is a whole value needs no scan of ours: the JSON library passes over it in C.
            if self._buffer or not self._began or len(line) > self.max_event_bytes or not _is_json(line):
                self._take(line + b"\n", events)
            else:
                events.append(WireEvent(line.strip(_WHITE_SPACE)))
        if rest:
            # A frame of a websocket is one value without a line end.
            whole = not self._buffer and self._began and self._failure is None and len(rest) <= self.max_event_bytes
            if not (whole and _is_object(rest)):
                self._take(rest, events)
            else:
                events.append(WireEvent(rest.strip(_WHITE_SPACE)))
        return self._deliver(events)

    def payload(self, data: bytes) -> bytes | None:
        """These bytes, if they could be a JSON object with nothing to be framed, as a websocket's frame is."""
        if self._buffer or data[-1:] != b"}" or not self._began or len(data) > self.max_event_bytes:
            return None
        return data


_raw = msgspec.json.Decoder(msgspec.Raw)


def _is_json(line: bytes) -> bool:
    try:
        _raw.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_object(text: bytes) -> bool:
    """A value that is known to be whole without the bytes after it; a number is not."""
    return text.endswith(b"}") and _is_json(text)


def _end(pattern: re.Pattern[bytes], buffer: bytearray, position: int) -> int:
    match = pattern.match(buffer, position)
    assert match is not None  # every pattern matches nothing
    return match.end()
