from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.wire import decode_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values, st.booleans())
def test_any_value_of_json(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")
    assert decode_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (rb'{"a":"\ud83d"}', {"a": "\ud83d"}),
        (rb'{"a":"\ude00 \ud83d\ude00"}', {"a": "\ude00 \U0001f600"}),
        (b'{"a":Infinity,"b":-Infinity,"c":1e400}', {"a": math.inf, "b": -math.inf, "c": math.inf}),
        (b"18446744073709551616", 2**64),
        (b"-%d" % 10**400, -(10**400)),
        (b'{"a":%d,"b":"\\ud83d"}' % 2**70, {"a": 2**70, "b": "\ud83d"}),
        (b'{"a":"x\xffy"}', {"a": "x\ufffdy"}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b' \n{"a":\r\n1}\t', {"a": 1}),
    ],
)
def test_what_providers_send(data: bytes, expected: object) -> None:
    assert decode_json(data) == expected


def test_nan() -> None:
    assert math.isnan(decode_json(b"NaN"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  ",
        b"[DONE]",
        b'{"a":',
        b'{"a":1}x',
        b"{'a':1}",
        b"\xff",
        b'{"a":1,}',
        b'"a\nb"',
        b"1" * 100_000,
    ],
)
def test_not_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not JSON: "):
        decode_json(data)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_hostile_nesting(opening: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_json(opening * 200_000)
