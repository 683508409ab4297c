"""What sessions cost, beside google-adk's services: ``python tests/benchmarks/sessions.py``.

Every service does the same work in one process, in turn, round after round; the figures are medians of wall time and
of processor time, the ratios are between two medians of the same run. The databases are SQLite files, as durable as
each service makes them by itself: an append that returned survives a loss of power. In the end every session is read
again and must hold all of its events in their order.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from adk_stream.sessions import Event, GetSessionConfig, InMemorySessionService, SqlSessionService

NAMES = {"app_name": "app", "user_id": "user"}
NEWEST = 20
TASKS = 32
WIDTH = 34  # of a column


def event_fields(number: int) -> dict[str, Any]:
    """An answer of about 700 bytes of JSON; each a millisecond younger, for google-adk sorts by time."""
    text = f"Answer {number}: " + "a sentence that a model might well say. " * 8
    call = {"name": "look_up", "args": {"query": "the weather in the mountains", "limit": 3}, "id": f"call-{number}"}
    return {
        "id": f"event-{number}",
        "author": "model",
        "invocation_id": f"e-{number // 4}",
        "timestamp": 1_800_000_000 + number / 1000,
        "content": {"role": "model", "parts": [{"text": text}, {"function_call": call}]},
        "usage_metadata": {"prompt_token_count": 1200, "candidates_token_count": 88, "total_token_count": 1288},
        "actions": {"state_delta": {"step": number}} if number % 8 == 0 else {},
    }


@dataclass
class Contestant:
    """A service, its classes, and what was appended to each of its sessions."""

    name: str
    service: Any
    event: Callable[..., Any]
    config: Callable[..., Any]

    def __post_init__(self) -> None:
        self.lengths: dict[str, int] = {}

    def next_events(self, session: str, count: int) -> list[Any]:
        """The events that come next in the session of that name."""
        first = self.lengths.setdefault(session, 0)
        self.lengths[session] += count
        return [self.event.model_validate(event_fields(first + n)) for n in range(count)]

    async def read(self, session: str, newest: int | None = None) -> Any:
        """The session with its newest events, or all."""
        config = None if newest is None else self.config(num_recent_events=newest)
        return await self.service.get_session(**NAMES, session_id=session, config=config)

    async def open(self, session: str) -> Any:
        """The session as a writer holds it: made if it is not there, and no event read."""
        if session not in self.lengths:
            return await self.service.create_session(**NAMES, session_id=session)
        return await self.read(session, newest=0)

    async def fill(self, session: str, length: int) -> None:
        """Bring a new session to that length."""
        held = await self.open(session)
        for event in self.next_events(session, length):
            await self.service.append_event(held, event)

    async def check(self) -> None:
        """Everything is there, in order."""
        for name, length in self.lengths.items():
            session = await self.read(name)
            assert [event.id for event in session.events] == [f"event-{n}" for n in range(length)], (self.name, name)
            assert session.events[-1].content.parts[1].function_call.args["limit"] == 3


class Clock:
    """Wall time and processor time of all threads, since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def per(self, count: int) -> Cost:
        """The seconds of each of so many."""
        wall, cpu = self._start
        return Cost((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count)


class Cost(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


async def append_one_writer(contestant: Contestant, session: str, count: int) -> Cost:
    """The cost of an append, each awaited before the next."""
    held = await contestant.open(session)
    events = contestant.next_events(session, count)
    clock = Clock()
    for event in events:
        await contestant.service.append_event(held, event)
    return clock.per(count)


async def append_many_writers(contestant: Contestant, session: str, count: int) -> Cost:
    """The cost of an append when 32 tasks write at once, each to a session of its own."""
    names = [f"{session} {task}" for task in range(TASKS)]
    held = [await contestant.open(name) for name in names]
    events = [contestant.next_events(name, count) for name in names]

    async def write(task: int) -> None:
        for event in events[task]:
            await contestant.service.append_event(held[task], event)

    clock = Clock()
    await asyncio.gather(*map(write, range(TASKS)))
    return clock.per(count * TASKS)


async def load(contestant: Contestant, session: str, newest: int | None = None) -> Cost:
    """The cost of reading a session and looking at the text of each of its events."""
    clock = Clock()
    read = await contestant.read(session, newest)
    size = sum(len(event.content.parts[0].text) for event in read.events)
    cost = clock.per(1)
    assert size > 300 * (newest or contestant.lengths[session])
    return cost


async def compare(
    contestants: list[Contestant], rounds: int, work: Callable[[Contestant], Awaitable[Cost]]
) -> dict[str, Cost]:
    """Medians; one round before them goes uncounted."""
    times: dict[str, list[Cost]] = {contestant.name: [] for contestant in contestants}
    for _ in range(rounds + 1):
        for contestant in contestants:
            gc.collect()
            times[contestant.name].append(await work(contestant))
    return {name: Cost(*map(statistics.median, zip(*each[1:], strict=True))) for name, each in times.items()}


def report(title: str, found: dict[str, Cost]) -> None:
    """A line of the table: ours in microseconds, the peers' as well and as multiples of ours."""
    (_, ours), *peers = found.items()
    cells = [f"{ours.wall * 1e6:,.0f} (cpu {ours.cpu * 1e6:,.0f})"]
    cells += [f"{p.wall * 1e6:,.0f}  {p.wall / ours.wall:.1f} x (cpu {p.cpu / ours.cpu:.1f} x)" for _, p in peers]
    print(f"{title:32}" + "".join(f"{cell:>{WIDTH}}" for cell in cells), flush=True)


async def measure(kind: str, contestants: list[Contestant], lengths: list[int], stored: int, rounds: int) -> None:
    """The part of the table that is about one kind of store."""
    print(f"{f'{kind}, us':32}" + "".join(f"{contestant.name:>{WIDTH}}" for contestant in contestants), flush=True)
    for length in lengths:
        for contestant in contestants:
            await contestant.fill(f"of {length}", length)
        found = await compare(contestants, rounds, partial(append_one_writer, session=f"of {length}", count=20))
        report(f"append, one writer, from {length:,}", found)
    for length in [length for length in lengths if length <= 100]:
        for contestant in contestants:
            for task in range(TASKS):
                await contestant.fill(f"shared {length} {task}", length)
        found = await compare(contestants, rounds, partial(append_many_writers, session=f"shared {length}", count=5))
        report(f"append, {TASKS} at once, from {length:,}", found)
    for contestant in contestants:
        await contestant.fill("to load", stored)
    report(f"load {stored:,}", await compare(contestants, rounds, partial(load, session="to load")))
    found = await compare(contestants, rounds, partial(load, session="to load", newest=NEWEST))
    report(f"newest {NEWEST} of {stored:,}", found)
    for contestant in contestants:
        await contestant.check()


def in_memory() -> list[Contestant]:
    """Ours first, then google-adk's if it is installed."""
    contestants = [Contestant("adk_stream", InMemorySessionService(), Event, GetSessionConfig)]
    try:
        from google.adk.events.event import Event as AdkEvent
        from google.adk.sessions import InMemorySessionService as AdkInMemory
        from google.adk.sessions.base_session_service import GetSessionConfig as AdkConfig
    except ImportError:
        return contestants
    return [*contestants, Contestant("google-adk InMemory", AdkInMemory(), AdkEvent, AdkConfig)]


def on_sqlite(folder: str) -> list[Contestant]:
    """Ours first, then google-adk's that can be imported: both need aiosqlite, the second SQLAlchemy too."""
    ours = SqlSessionService(f"sqlite:///{folder}/ours.db")
    contestants = [Contestant("adk_stream", ours, Event, GetSessionConfig)]
    try:
        from google.adk.events.event import Event as AdkEvent
        from google.adk.sessions.base_session_service import GetSessionConfig as AdkConfig
        from google.adk.sessions.sqlite_session_service import SqliteSessionService
    except ImportError:
        return contestants
    sqlite = SqliteSessionService(f"{folder}/sqlite.db")
    contestants.append(Contestant("google-adk Sqlite", sqlite, AdkEvent, AdkConfig))
    try:
        from google.adk.sessions import DatabaseSessionService

        database = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/database.db")
    except (ImportError, ValueError):
        return contestants
    return [*contestants, Contestant("google-adk Database", database, AdkEvent, AdkConfig)]


async def run(arguments: argparse.Namespace) -> None:
    """Both parts of the table."""
    rounds, lengths, stored = arguments.rounds, arguments.lengths, arguments.stored
    if "memory" in arguments.only:
        await measure("in memory", in_memory(), [n for n in lengths if n <= 5000] + [5000], stored, rounds)
    if "sqlite" in arguments.only:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            contestants = on_sqlite(folder)
            await measure("SQLite", contestants, lengths, stored, rounds)
            for contestant in contestants:
                await contestant.service.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 100, 1_000, 10_000], help="events before")
    parser.add_argument("--stored", type=int, default=5_000, help="events in the session that is loaded")
    parser.add_argument("--only", nargs="+", choices=["memory", "sqlite"], default=["memory", "sqlite"])
    parser.add_argument("--folder", help="where the files go; a disk, not memory, for synchronous writes to cost")
    logging.disable(logging.WARNING)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
