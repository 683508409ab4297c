"""Ways to feed one input to a decoder: whole, byte by byte, in cuts, through a snapshot at every cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from adk_stream.errors import StreamLimitError
from adk_stream.wire import WireEvent

Make = Callable[[], Any]


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The input cut at these positions (taken modulo its length)."""
    at = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(at)]


def decode(make: Make, parts: Sequence[bytes]) -> list[WireEvent]:
    decoder = make()
    events = [event for part in parts for event in decoder.feed(part)]
    return events + decoder.close()


def decode_with_snapshots(make: Make, parts: Sequence[bytes]) -> list[WireEvent]:
    """A new decoder, restored from JSON text, after every piece."""
    decoder, events = make(), []
    for part in parts:
        events += decoder.feed(part)
        decoder = type(decoder).restore(json.loads(json.dumps(decoder.snapshot())))
    return events + decoder.close()


def outcome(make: Make, parts: Sequence[bytes]) -> tuple[list[WireEvent], bool]:
    """The events that came out, and whether the size limit ended them."""
    decoder, events = make(), []
    try:
        for part in parts:
            events += decoder.feed(part)
        events += decoder.close()
        decoder.close()
    except StreamLimitError:
        return events, True
    return events, False


def single_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def in_all_cuts(make: Make, data: bytes) -> list[WireEvent]:
    """The events of the input, after checking that no way of cutting it changes them."""
    events = decode(make, [data])
    single = single_bytes(data)
    assert decode(make, single) == events
    assert decode_with_snapshots(make, single) == events
    for cut in range(len(data) + 1):
        parts = [data[:cut], data[cut:]]
        assert decode(make, parts) == events, f"cut at {cut}"
    assert decode(make, [b"", *single, b""]) == events
    return events
