"""The relay under load: ``python tests/benchmarks/relay.py [--seconds 20] [--redis URL]``.

A hundred streams of twenty responses a second, two followers each, first in one process (in memory, then over Redis),
then with the followers in another process and Redis between, at 1,500 deliveries a second. Every follower reads each
response as an object. Printed are, for each:

    delivered  responses that followers got, per second, and how many are missing or came twice
    latency    from ``publish`` to the follower (milliseconds)
    cpu        of the processes, of one core
    memory     of the processes, at a quarter of the time and at the end (MB)

Something missing, or a latency of 250 ms or more at the 99th percentile, makes the exit code 1. So does memory that
grows by more than a quarter beyond what the streams, which are kept whole here, hold themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
import uuid
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from adk_stream.relay import Delivery, End, MemoryRelay, RedisRelay, Relay, RelayOptions
from adk_stream.sessions import Event

#: A process that runs for long keeps a window of each stream; here it is full early, so that growth would show.
OPTIONS = RelayOptions(max_entries=100)
PREFIX = "adk_stream_benchmark_"


@dataclass
class Load:
    """So many streams, each of so many responses a second for so many seconds, each with so many followers."""

    streams: int = 100
    rate: float = 20.0
    seconds: float = 20.0
    followers: int = 2

    @property
    def responses(self) -> int:
        """Of one stream."""
        return int(self.rate * self.seconds)

    @property
    def deliveries(self) -> int:
        """Of all."""
        return self.streams * self.followers * self.responses


@dataclass
class Seen:
    """What followers met."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    wrong: int = 0

    async def follow(self, relay: Relay, stream_id: str, responses: int) -> None:
        """Follow a stream, and check that it is whole."""
        expected = 0
        async for item in relay.subscribe(stream_id):
            if isinstance(item, Delivery):
                number, sent = item.response.text.split(" ")
                self.latencies.append(time.monotonic() - float(sent))
                self.wrong += int(number) != expected
                expected += 1
            elif not isinstance(item, End):
                self.wrong += 1
        self.wrong += abs(expected - responses)


async def produce(relay: Relay, stream_id: str, load: Load, place: int, start: asyncio.Event) -> None:
    """One stream, evenly paced from when the followers are there."""
    producer = await relay.open(stream_id)
    await start.wait()
    begin = time.monotonic() + place / load.streams / load.rate
    for number in range(load.responses):
        await asyncio.sleep(begin + number / load.rate - time.monotonic())
        text = f"{number} {time.monotonic()}"
        content = types.Content(role="model", parts=[types.Part(text=text)])
        await producer.publish(Event(author="model", invocation_id="i", partial=True, content=content))
    await producer.finish("completed")


def memory() -> float:
    """Of this process now, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


@contextmanager
def measured(load: Load) -> Iterator[dict[str, Any]]:
    """CPU and memory of this process over a block, once the block ends."""
    told: dict[str, Any] = {"memory": []}
    loop = asyncio.get_running_loop()
    timer = loop.call_later(load.seconds / 4, lambda: told["memory"].append(memory()))
    cpu, start = time.process_time(), time.monotonic()
    yield told
    timer.cancel()
    told["memory"].append(memory())
    told["cpu"] = (time.process_time() - cpu) / (time.monotonic() - start)


async def one_process(relay: Relay, load: Load) -> tuple[Seen, dict[str, Any]]:
    """Producers and followers in this process."""
    seen, name, start = Seen(), uuid.uuid4().hex[:6], asyncio.Event()
    async with relay:
        with measured(load) as told:
            names = [f"{name}-{n}" for n in range(load.streams)]
            producers = [asyncio.create_task(produce(relay, id, load, n, start)) for n, id in enumerate(names)]
            await asyncio.sleep(0.3)
            following = asyncio.gather(
                *(seen.follow(relay, id, load.responses) for id in names for _ in range(load.followers))
            )
            await asyncio.sleep(0.3)
            start.set()
            await asyncio.gather(*producers, following)
    return seen, told


async def follow_elsewhere(url: str, prefix: str, load: Load) -> None:
    """The other process: waits for the streams, follows them, prints what it met."""
    seen = Seen()
    async with RedisRelay(url, prefix=prefix, options=OPTIONS) as relay:
        while len(names := await relay.running()) < load.streams:
            await asyncio.sleep(0.05)
        with measured(load) as told:
            following = asyncio.gather(
                *(seen.follow(relay, name, load.responses) for name in names for _ in range(load.followers))
            )
            await asyncio.sleep(0.5)
            print("ready", flush=True)
            await following
    json.dump({"latencies": list(seen.latencies), "wrong": seen.wrong, **told}, sys.stdout)


async def two_processes(url: str, prefix: str, load: Load) -> tuple[Seen, list[dict[str, Any]]]:
    """Producers here, followers in another process."""
    arguments = [sys.executable, __file__, "--redis", url, "--follow", prefix, json.dumps(vars(load))]
    other = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
    async with RedisRelay(url, prefix=prefix, options=OPTIONS) as relay:
        with measured(load) as told:
            start = asyncio.Event()
            producers = asyncio.gather(*(produce(relay, f"s{n}", load, n, start) for n in range(load.streams)))
            assert other.stdout is not None
            await other.stdout.readline()
            start.set()
            await producers
            output, _ = await other.communicate()
    theirs = json.loads(output)
    return Seen(array("d", theirs["latencies"]), theirs["wrong"]), [told, theirs]


def show(name: str, seen: Seen, told: list[dict[str, Any]], load: Load) -> bool:
    """Print the figures; whether they are good."""
    latencies = sorted(1000 * seconds for seconds in seen.latencies)
    p50, p99 = (latencies[int(len(latencies) * part)] if latencies else float("inf") for part in (0.5, 0.99))
    missing = load.deliveries - len(latencies)
    print(f"{name}: {load.streams} streams, {load.rate:g} responses/s each, {load.followers} followers each")
    print(f"  delivered  {len(latencies) / load.seconds:,.0f}/s; missing {missing}, wrong {seen.wrong}")
    print(f"  latency    p50 {p50:.1f}  p99 {p99:.1f}  max {latencies[-1] if latencies else 0:.1f} ms")
    cpu = [f"{100 * one['cpu']:.0f} %" for one in told]
    held = [" -> ".join(f"{mb:.0f}" for mb in one["memory"]) for one in told]
    print(f"  cpu        {'  '.join(cpu)}")
    print(f"  memory     {'  '.join(held)} MB", flush=True)
    flat = all(one["memory"][-1] < 1.25 * one["memory"][0] for one in told)
    return missing == 0 and seen.wrong == 0 and p99 < 250 and flat


async def main(arguments: argparse.Namespace) -> int:
    """All of them."""
    load = Load(seconds=arguments.seconds)
    good = []
    seen, told = await one_process(MemoryRelay(options=OPTIONS), load)
    good.append(show("in memory, one process", seen, [told], load))
    prefix = f"{PREFIX}{uuid.uuid4().hex[:6]}:"
    options = RelayOptions(max_entries=OPTIONS.max_entries, retention=5)
    seen, told = await one_process(RedisRelay(arguments.redis, prefix=prefix, options=options), load)
    good.append(show("Redis, one process", seen, [told], load))
    load = Load(streams=75, rate=10, seconds=arguments.seconds)
    seen, both = await two_processes(arguments.redis, f"{prefix}two:", load)
    good.append(show("Redis, two processes", seen, both, load))
    return 0 if all(good) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--redis", default="redis://127.0.0.1:6379")
    parser.add_argument("--follow", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow:
        asyncio.run(follow_elsewhere(given.redis, given.follow[0], Load(**json.loads(given.follow[1]))))
    else:
        sys.exit(asyncio.run(main(given)))
