"""What a run found, as a table in Markdown and as a picture (SVG)."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import date
from html import escape
from pathlib import Path


@dataclass
class Finding:
    """Of one stream, read from bytes or from objects.

    Attributes:
        stream, kind: Which.
        own: Our microseconds a frame.
        peers: Those of the others.
        floor: Those of the prototype; None from objects.
        exponent: Of our growth; None: not measured.
        memory: Our peak in bytes a chunk beyond the content; None: not measured.
    """

    stream: str
    kind: str
    own: float
    peers: dict[str, float] = field(default_factory=dict)
    floor: float | None = None
    exponent: float | None = None
    memory: float | None = None

    @property
    def times(self) -> dict[str, float]:
        """How many times our time each of the others takes."""
        return {name: cost / self.own for name, cost in self.peers.items()}


HEAD = """\
| stream | from | the official accumulator | pydantic-ai | ours / floor | growth | peak, bytes a chunk |
|---|---|---|---|---|---|---|"""


def row(found: Finding) -> str:
    """A line of the table."""
    times = dict(found.times)
    other = times.pop("pydantic-ai", None)
    official = ", ".join(f"**{ratio:.1f}** ({name})" for name, ratio in times.items())
    ratio = None if found.floor is None else found.own / found.floor
    cells = [found.stream, found.kind, official, _number(other, 1), _number(ratio, 2)]
    cells += [_number(found.exponent, 2), _number(found.memory, 0)]
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def about() -> str:
    """Date and machine of this run."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    machine = model or platform.machine()
    return f"{date.today():%-d %B %Y}, {machine}, CPython {platform.python_version()}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


_COLOURS = {"bytes": "#3b6ea5", "objects": "#d08a3c"}
_BAR, _GAP, _LEFT, _WIDTH = 14, 10, 270, 760


def picture(findings: list[Finding], note: str) -> str:
    """A bar for each stream and kind: how many times our time the official accumulator takes."""
    pairs = [(found, next(iter(found.times.values()))) for found in findings if found.times]
    scale = (_WIDTH - _LEFT - 60) / max(ratio for _, ratio in pairs)
    height, body = 46, []
    names = set()
    for found, ratio in pairs:
        if found.stream not in names:
            names.add(found.stream)
            height += _GAP
            body.append(f'<text x="{_LEFT - 8}" y="{height + 11}" text-anchor="end">{escape(found.stream)}</text>')
        width = f"{ratio * scale:.1f}"
        body.append(
            f'<rect x="{_LEFT}" y="{height}" width="{width}" height="{_BAR - 2}" fill="{_COLOURS[found.kind]}"/>'
        )
        body.append(f'<text x="{_LEFT + ratio * scale + 5:.1f}" y="{height + 11}">{ratio:.1f}</text>')
        height += _BAR
    legend = "".join(
        f'<rect x="{_LEFT + 130 * at}" y="26" width="12" height="12" fill="{colour}"/>'
        f'<text x="{_LEFT + 130 * at + 17}" y="36">from {kind}</text>'
        for at, (kind, colour) in enumerate(_COLOURS.items())
    )
    height += 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="17" font-weight="bold">Time of the official accumulator, in multiples of adk_stream\'s</text>'
        f'{legend}{"".join(body)}<text x="8" y="{height - 10}" fill="#555">{escape(note)}</text></svg>\n'
    )
