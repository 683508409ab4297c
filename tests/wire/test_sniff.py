from __future__ import annotations

from functools import partial

import pytest
from feeding import in_all_cuts

from adk_stream.errors import SnapshotError, StreamLimitError
from adk_stream.wire import BytesDecoder

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("before", [b"", MARK, b"\r\n\n ", MARK + b"\n"])
@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: {}\n\ndata: [DONE]", [b"{}", b"[DONE]"]),
        (b": ping\n\nevent: x\r\ndata: {}\r\n\r\n", [b"{}"]),
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'{\n  "error": {}\n}\n', [b'{\n  "error": {}\n}']),
        (b'[{"a":1}\n,\n{"a":2}]', [b'{"a":1}', b'{"a":2}']),
        (b'error: {"a":1}\n\n', [b'{"a":1}']),
        (b"", []),
    ],
)
def test_the_first_bytes_tell_the_format(before: bytes, stream: bytes, expected: list[bytes]) -> None:
    assert [event.data for event in in_all_cuts(BytesDecoder, before + stream)] == expected


def test_the_limit_is_handed_on() -> None:
    for start in (b"data: ", b'{"', b'[{"'):
        with pytest.raises(StreamLimitError):
            partial(BytesDecoder, max_event_bytes=9)().feed(start + b"0123456789")


@pytest.mark.parametrize("state", [{}, {"decoder": "other"}, {"decoder": "sse", "_direct": 3}])
def test_damaged_snapshot(state: dict[str, object]) -> None:
    with pytest.raises(SnapshotError):
        BytesDecoder.restore(state)
