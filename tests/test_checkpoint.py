"""Snapshots: what does not fit is said, and never restored by half."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from adk_stream.checkpoint import Snapshotted, pack, unpack
from adk_stream.errors import SnapshotError


class State(Snapshotted):
    text: str
    number: int = 0
    data: bytes = b""
    by_index: dict[int, str] = {}


STATE = State("half \ud83d", 2**200, b"\xff\x00", {3: "c"})


def test_round_trip_keeps_big_integers_bytes_and_lone_surrogates() -> None:
    assert State.restore(STATE.snapshot()) == STATE


def test_another_kind() -> None:
    with pytest.raises(SnapshotError, match="snapshot of other, wanted one of State"):
        State.restore(pack("other", 1, STATE))


def test_another_version() -> None:
    with pytest.raises(SnapshotError, match="version 2, wanted 1"):
        State.restore(pack("State", 2, STATE))


@pytest.mark.parametrize("data", [b"", b"nonsense", b"adk_stream State 1\n", b"adk_stream State 1\nnot zlib"])
def test_damage(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        State.restore(data)


def test_every_cut_of_a_snapshot_is_damage() -> None:
    whole = STATE.snapshot()
    for end in range(len(whole)):
        with pytest.raises(SnapshotError):
            State.restore(whole[:end])


def test_every_bit_that_turned_over_is_damage() -> None:
    whole = STATE.snapshot()
    for at in range(len(whole)):
        with pytest.raises(SnapshotError):
            State.restore(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"null", b"\xff", b'{"text": "a", "data": "no base64!"}'])
def test_a_whole_body_of_nonsense_is_damage(body: bytes) -> None:
    with pytest.raises(SnapshotError, match="damaged State snapshot"):
        State.restore(b"adk_stream State 1\n" + zlib.compress(body))


def test_a_state_of_another_shape() -> None:
    with pytest.raises(SnapshotError, match="damaged State snapshot"):
        State.restore(pack("State", 1, {"text": 5}))


def test_what_cannot_be_kept_is_said() -> None:
    with pytest.raises(SnapshotError, match="object cannot be kept"):
        pack("x", 1, {"value": object()})


def test_plain_structs() -> None:
    class Plain(msgspec.Struct):
        a: int

    assert unpack(pack("plain", 1, Plain(1)), "plain", 1, Plain) == Plain(1)
