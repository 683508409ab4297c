"""A live preview of a call's arguments: ours after every fragment of 12 characters, and jiter's partial mode.

jiter's is what the official clients show: it reads the whole text again after each fragment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.util import find_spec

from measure import exponent

FRAGMENT = 12
TEXTS: dict[str, Callable[[int], str]] = {
    "one string": lambda size: json.dumps({"code": 'print("row") # of many\n' * (size // 24)}),
    "rows of objects": lambda size: json.dumps({"rows": [{"id": i, "name": f"row {i}"} for i in range(size // 30)]}),
}


def ours(fragments: list[str]) -> object:
    """Each fragment's events, of which an open string is shown, and the object that grows with them."""
    from adk_stream.arguments import ArgumentsPreview

    preview = ArgumentsPreview()
    for fragment in fragments:
        for _ in preview.feed(fragment):
            pass
    return preview.value


def jiter(fragments: list[str]) -> object:
    """The text so far, read anew after each fragment."""
    from jiter import from_json

    text, value = b"", None
    for fragment in fragments:
        text += fragment.encode()
        value = from_json(text, partial_mode="trailing-strings")
    return value


def seconds(run: Callable[[list[str]], object], text: str, repeats: int = 3) -> float:
    """CPU seconds of the quickest of several runs; what it came to is compared."""
    fragments = [text[at : at + FRAGMENT] for at in range(0, len(text), FRAGMENT)]
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        value = run(fragments)
        best = min(best, time.process_time() - start)
        assert value == json.loads(text)
    return best


def lines() -> list[str]:
    """Rows of a table: text, our exponent from 100 kB to 1 MB, and how much slower jiter is at 100 kB."""
    found = []
    for name, make in TEXTS.items():
        small = seconds(ours, make(100_000))
        growth = exponent(100_000, small, 1_000_000, seconds(ours, make(1_000_000)))
        ratio = f"{seconds(jiter, make(100_000), 1) / small:.0f}" if find_spec("jiter") else ""
        found.append(f"| {name} | {ratio} | {growth:.2f} |")
    return found
