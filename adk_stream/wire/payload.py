r"""One payload to a value: fast where it is plain JSON, tolerant where providers are not.

msgspec decodes nearly every payload. What it refuses and the standard library takes is real traffic: half
of a surrogate pair (``"\ud83d"``, an emoji cut between two deltas), ``NaN`` and ``Infinity``, numbers beyond
the range of a float.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["MAX_DEPTH", "decode_json", "is_too_deep"]

#: Containers inside one another that an event may have: pydantic serialises at most 255 levels.
MAX_DEPTH = 220

_decode = msgspec.json.Decoder().decode


def is_too_deep(value: Any) -> bool:
    """Is this JSON value nested deeper than ``MAX_DEPTH``?"""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += [item for item in each.values() if isinstance(item, (dict, list))]
            elif isinstance(each, list):
                inner += [item for item in each if isinstance(item, (dict, list))]
        if not inner:
            return False
        level = inner
    return True


def decode_json(data: bytes) -> Any:
    """The JSON value of a payload. Integers are exact; of a repeated key the last value counts.

    Bytes that are not UTF-8 become replacement characters, as in every SSE reader, if that gives valid JSON.

    Raises:
        ValueError: The payload is not JSON, is nested deeper than the interpreter's recursion limit, or holds
            an integer of more digits than ``sys.get_int_max_str_digits()``.
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
