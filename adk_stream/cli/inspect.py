"""``adk-stream inspect``: the report of a recording, drawn for a person or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from adk_stream.cli.json_lines import json_of, write_line
from adk_stream.cli.outcome import COMPLETED, UNFINISHED, UNUSABLE, complain
from adk_stream.cli.show import visible
from adk_stream.cli.source import open_source
from adk_stream.errors import AdkStreamError, RecordingError
from adk_stream.recording import DEFAULT_MAX_RECORDING_BYTES, Recording

if TYPE_CHECKING:
    from adk_stream.cli.inspection import Moment, PartReport, Report

__all__ = ["inspect"]

_BAR = 16


def inspect(file: str, provider: str = "auto", as_json: bool = False) -> int:
    """Say what happened in a recorded stream.

    Args:
        file: A recording of any kind; ``-`` for standard input.
        provider: The line, or ``"auto"``.
        as_json: One JSON object in the place of the drawing.

    Returns:
        0 when the stream completed, 1 when it did not, 2 when the input is unusable.
    """
    from adk_stream.cli.inspection import inspect_recording

    try:
        report = inspect_recording(_load(file, provider), provider)
    except (AdkStreamError, OSError, ValueError) as problem:
        complain(problem, file)
        return UNUSABLE
    if report.provider is None or not report.events:
        complain(_why_unusable(report), file)
        return UNUSABLE
    if as_json:
        write_line(json_of(_camel(report)))
    elif sys.stdout.isatty():
        _draw(report)
    else:
        write_line("\n".join(_plain(report)))
    return COMPLETED if report.status == "completed" else UNFINISHED


def _load(file: str, provider: str) -> Recording:
    source = open_source(file, provider)
    if isinstance(source, Recording):
        return source
    pieces, size = [], 0
    for piece in source:
        pieces.append(piece)
        size += len(piece)
        if size > DEFAULT_MAX_RECORDING_BYTES:
            raise RecordingError(f"standard input: larger than {DEFAULT_MAX_RECORDING_BYTES} bytes")
    return Recording.from_bytes(b"".join(pieces), provider, name="standard input")


def _why_unusable(report: Report) -> str:
    malformed = [finding.text for finding in report.findings if finding.code == "malformed_event"]
    return malformed[0] if malformed else "nothing in it is a stream that can be read"


# ----------------------------------------------------------------- JSON


def _camel(value: Any) -> Any:
    """Dataclasses as objects with camelCase keys, without nulls; mappings are the provider's and stay as they are."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {_camel_name(name): _camel(item) for name, item in pairs if item is not None}
    return [_camel(item) for item in value] if isinstance(value, tuple) else value


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


# ----------------------------------------------------------------- for a person


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """(what, the words for it)"""
    yield "provider", " · ".join(filter(None, (report.provider or "unknown", report.model, report.response_id)))
    time = f", {report.seconds:.3f} s" if report.seconds is not None else ""
    yield "stream", f"{report.events} events, {report.bytes} bytes, {report.wire_format}{time}"
    told = any(finding.code in ("malformed_event", "error_in_stream") for finding in report.findings)
    message = None if told else report.error_message  # the finding says it
    yield "status", " · ".join(filter(None, (report.status, report.error_code, message)))
    if report.finish_event is not None:
        words = dict.fromkeys(filter(None, (report.finish_reason, report.native_finish_reason)))
        yield "finish", f"{', '.join(words)} in event {report.finish_event}"
    if report.first_token is not None:
        yield "first token", _moment(report.first_token)
    if report.gaps:
        yield "longest gaps", ", ".join(f"{gap.seconds:.3f} s before event {gap.event}" for gap in report.gaps)
    counts = {name.removesuffix("TokenCount"): n for name, n in report.usage.items() if name.endswith("TokenCount")}
    if counts:
        yield "tokens", ", ".join(f"{n} {name}" for name, n in counts.items())


def _moment(moment: Moment) -> str:
    return f"event {moment.event}" + (f", after {moment.at:.3f} s" if moment.at is not None else "")


_HEAD = ("part", "kind", "events", "seconds", "size", "when", "how it begins")


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    several = len({part.candidate for part in report.parts}) > 1
    for ordinal, part in enumerate(report.parts, 1):  # indexes are the reader's own numbers, and may be high
        number = f"{ordinal}, candidate {part.candidate}" if several else str(ordinal)
        timed = part.first.at is not None and part.last.at is not None
        yield (
            number,
            _kind(part),
            _range(part.first.event, part.last.event),
            f"{part.first.at:.3f}–{part.last.at:.3f}" if timed else "",
            str(part.size),
            _bar(part, report),
            _one_line(part.excerpt),
        )


def _kind(part: PartReport) -> str:
    marks = [part.name or "", "signed" if part.signed else "", "" if part.complete else "OPEN"]
    return " ".join(filter(None, [part.kind, *map(_one_line, marks)]))


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _bar(part: PartReport, report: Report) -> str:
    """Where in the stream the part came: by time where there is one, else by event."""
    if report.seconds and part.first.at is not None and part.last.at is not None:
        first, last = part.first.at / report.seconds, part.last.at / report.seconds
    else:
        first, last = (part.first.event - 1) / max(report.events, 1), part.last.event / max(report.events, 1)
    start = min(int(first * _BAR), _BAR - 1)
    width = max(round(last * _BAR) - start, 1)
    return ("·" * start + "█" * width).ljust(_BAR, "·")[:_BAR]


def _one_line(text: str) -> str:
    return visible(text.replace("\n", "⏎").replace("\t", " "))


def _findings(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield f"! {_one_line(finding.text)}"
        if finding.excerpt:
            place = "it begins" if finding.code == "malformed_event" else "raw text ends"
            yield f"    {place}: {_one_line(finding.excerpt)}"


def _table(report: Report) -> list[str]:
    """The parts in aligned columns, a heading first; empty columns are left out."""
    rows = list(_rows(report))
    if not rows:
        return []
    shown = [column for column in range(len(_HEAD)) if any(row[column] for row in rows)]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    lines = ("  ".join(row[column].ljust(widths[column]) for column in shown) for row in (_HEAD, *rows))
    return ["  " + line.rstrip() for line in lines]


def _plain(report: Report) -> Iterator[str]:
    yield _one_line(report.name)
    for what, words in _facts(report):
        yield f"  {what:<13} {_one_line(words)}"
    if table := _table(report):
        yield from ("", *table)
    if report.findings:
        yield from ("", *_findings(report))


def _draw(report: Report) -> None:
    """The same with rich, which is loaded for a terminal only."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(_one_line(report.name), style="bold"))
    facts = Table.grid(padding=(0, 2))
    for what, words in _facts(report):
        status = "green" if report.status == "completed" else "red"
        facts.add_row(Text(f"  {what}", style="dim"), Text(_one_line(words), style=status if what == "status" else ""))
    console.print(facts)
    styles = ["dim", *(_style(part) for part in report.parts)]
    for line, style in zip(["", *_table(report)] if report.parts else [], ["", *styles], strict=False):
        console.print(Text(line, style=style), no_wrap=True, overflow="ellipsis")
    for line in ["", *_findings(report)] if report.findings else []:
        console.print(Text(line, style="yellow" if line.startswith("!") else "dim"))


def _style(part: PartReport) -> str:
    return _STYLES.get(part.kind, "") if part.complete else "red"


_STYLES = {"thought": "magenta", "call": "cyan", "text": "green"}
