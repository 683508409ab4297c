"""What aggregation costs, beside the official clients and other libraries: ``python tests/benchmarks/run.py``.

Every line, from the bytes of the wire and from the objects of the official SDK. A contestant whose result is not the
expected content is an error, not fast. ``--save docs/benchmark`` writes the table and a picture of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import previews
import report
import streams
from floors import floor
from measure import Contestant, compare, growth, peak_bytes_a_chunk
from objects import accumulators_of, installed_sdk, objects_of
from peers import ours, peers_of

WORKLOADS: dict[str, tuple[str, Callable[[int], streams.Stream]]] = {
    "Gemini text": ("gemini", streams.gemini_text),
    "Gemini text, usage on every chunk": ("gemini", streams.gemini_usage),
    "Gemini streamed arguments": ("gemini", streams.gemini_arguments),
    "Gemini Live audio and words": ("gemini-live", streams.live_audio),
    "Chat text and three calls": ("openai-chat", streams.chat_tools),
    "Chat long arguments": ("openai-chat", streams.chat_arguments),
    "Responses text and call": ("openai-responses", streams.responses_tools),
    "Anthropic thinking, text and call": ("anthropic", streams.anthropic_tools),
}

_MEMORY_CHUNKS = 5000


def from_bytes(name: str, n: int, rounds: int, sizes: tuple[int, int] | None) -> report.Finding:
    """Ours, the prototype and the peers on the wire's frames."""
    line, make = WORKLOADS[name]
    stream = make(n)
    runs = {"adk_stream": ours(line), "floor": floor(line), **peers_of(line)}
    costs = compare({each: (run, stream.frames) for each, run in runs.items()}, stream, rounds)
    found = report.Finding(name, "bytes", costs.pop("adk_stream"), floor=costs.pop("floor"), peers=costs)
    if sizes is not None:
        found.exponent = growth(line, make, "bytes", *sizes)
        found.memory = peak_bytes_a_chunk(line, make(_MEMORY_CHUNKS))
    return found


def from_objects(name: str, n: int, rounds: int, sizes: tuple[int, int] | None) -> report.Finding:
    """Ours and the official accumulator on the SDK's objects."""
    line, make = WORKLOADS[name]
    stream = make(n)
    runs = {"adk_stream": ours(line), **accumulators_of(line)}
    # each has objects of its own, since google-adk writes into those it is given
    contestants: dict[str, Contestant] = {name: (run, objects_of(line, stream.frames)) for name, run in runs.items()}
    costs = compare(contestants, stream, rounds)
    found = report.Finding(name, "objects", costs.pop("adk_stream"), peers=costs)
    if sizes is not None:
        found.exponent = growth(line, make, "objects", *sizes)
    return found


def main() -> None:
    """Print the tables as they come."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=10_000, help="deltas in a stream (default 10000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="streams whose name holds these words")
    parser.add_argument("--growth", type=int, nargs=2, default=(1_000, 100_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--no-growth", action="store_true", help="leave growth, memory and previews out")
    parser.add_argument("--save", type=Path, help="write this file with .md and with .svg")
    options = parser.parse_args()
    sizes = None if options.no_growth else tuple(options.growth)
    findings = []
    text = [f"How many times our time the others take; {options.n:,} deltas; {report.about()}", "", report.HEAD]
    print("\n".join(text), flush=True)
    for name, (line, _) in WORKLOADS.items():
        for measure in (from_bytes, from_objects):
            if options.only not in name or (measure is from_objects and not installed_sdk(line)):
                continue
            findings.append(measure(name, options.n, options.rounds, sizes))
            text.append(report.row(findings[-1]))
            print(text[-1], flush=True)
    if sizes is not None and not options.only:
        head = "| arguments, a preview after every 12 characters | jiter's partial mode at 100 kB | growth to 1 MB |"
        text += ["", head, "|---|---|---|", *previews.lines()]
        print("\n".join(text[-4:]))
    if options.save is not None:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.with_suffix(".md").write_text("\n".join(text) + "\n")
        options.save.with_suffix(".svg").write_text(report.picture(findings, report.about()))


if __name__ == "__main__":
    main()
