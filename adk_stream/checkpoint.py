"""Snapshots: state of a stream as bytes, to be carried to another process and gone on with there.

The whole state of decoders, readers and the aggregator is made of ``msgspec`` structs, so one pair of functions
serves them all. The form is compressed JSON with a header that names kind and version: JSON, because
integers of any size and lone surrogates (half an emoji at the end of a delta) must survive.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from adk_stream.errors import SnapshotError

__all__ = ["Snapshotted", "pack", "unpack"]

_MAGIC = b"adk_stream"

_State = TypeVar("_State")


def pack(kind: str, version: int, state: object) -> bytes:
    """``state`` (msgspec structs and JSON values) as bytes."""
    data = json.dumps(msgspec.to_builtins(state, str_keys=True, enc_hook=_encode_foreign), separators=(",", ":"))
    return b"%s %s %d\n" % (_MAGIC, kind.encode(), version) + zlib.compress(data.encode(), 1)


def unpack(data: bytes, kind: str, version: int, state_type: type[_State]) -> _State:
    """The state that ``pack`` wrote.

    Raises:
        SnapshotError: the bytes are damaged, of another kind, or of a version other than ``version``.
    """
    header, _, body = bytes(data).partition(b"\n")
    words = header.split(b" ")
    if len(words) != 3 or words[0] != _MAGIC:
        raise SnapshotError("these bytes are no snapshot of adk_stream")
    if words[1] != kind.encode():
        raise SnapshotError(f"a snapshot of {words[1].decode('ascii', 'replace')}, wanted one of {kind}")
    if words[2] != str(version).encode():
        raise SnapshotError(f"{kind} snapshot of version {words[2].decode('ascii', 'replace')}, wanted {version}")
    try:
        return msgspec.convert(json.loads(zlib.decompress(body)), state_type, str_keys=True)
    except (zlib.error, ValueError, RecursionError) as problem:
        raise SnapshotError(f"damaged {kind} snapshot: {problem}") from problem


class Snapshotted(msgspec.Struct):
    """Base of structs that are a whole state by themselves: readers, and the aggregator's state."""

    snapshot_version: ClassVar[int] = 1

    def snapshot(self) -> bytes:
        """This state as bytes, for ``restore`` in any process."""
        return pack(type(self).__name__, self.snapshot_version, self)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """The state that ``snapshot`` wrote.

        Raises:
            SnapshotError: the bytes are damaged, of another kind or version.
        """
        return unpack(data, cls.__name__, cls.snapshot_version, cls)


def _encode_foreign(value: Any) -> Any:
    """google-genai objects that were read as they are: their wire form."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, (bytearray, memoryview)):
        return base64.b64encode(value).decode()
    raise SnapshotError(f"{type(value).__name__} cannot be kept in a snapshot")
