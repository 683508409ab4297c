"""The service under load: many runs at once, each with several followers, over real sockets.

::

    python tests/benchmarks/service.py [--streams 100] [--rate 20] [--followers 2] [--seconds 20] [--redis URL]

One process serves, another follows; both are started by this command. Prints how late each response reached each
follower (from the time that stands in the event), whether every follower got every response once and in order, and
the memory of the serving process in the course of it. Ends with status 1 if something was lost, or p99 is 250 ms or
more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

WARM_UP = 1.0  # seconds from the start of the runs to their first response: all followers are there by then


class SteadyModel:
    """Says ``rate`` numbers a second, for so many seconds."""

    name, provider = "steady", "openai-chat"

    def __init__(self, rate: float, count: int) -> None:
        self._rate, self._count = rate, count

    async def stream(self, request):
        start = time.monotonic() + WARM_UP
        for number in range(self._count):
            await asyncio.sleep(max(0.0, start + number / self._rate - time.monotonic()))
            yield chunk({"content": f"{number} "})
        yield chunk({}, "stop")


def chunk(delta, finish=None):
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def serve(options) -> None:
    from adk_stream.relay import RelayOptions
    from adk_stream.server import Limits, ServerConfig, ServiceServer, listen, make_app

    config = ServerConfig(
        models={"m": SteadyModel(options.rate, int(options.rate * options.seconds))},
        sessions=options.sessions,
        redis_url=options.redis,
        # What is kept for those who come late, so short that the memory shows everything else.
        relay=RelayOptions(max_entries=options.kept),
        limits=Limits(max_runs=options.streams, drain_seconds=0),
    )
    with listen("127.0.0.1", 0, client_patience=30) as listener:
        print(listener.getsockname()[1], flush=True)
        ServiceServer(make_app(config), log_level="error").run(sockets=[listener])


async def request(port: int, head: str, body: bytes = b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    length = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
    writer.write(f"{head} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n".encode() + body)
    return reader, writer


async def start_run(port: int) -> str:
    reader, writer = await request(port, "POST /runs", b'{"message": "go"}')
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 202 " in head.split(b"\r\n")[0], head
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    told = json.loads(await reader.readexactly(length))
    writer.close()
    return told["events"]


async def follow(port: int, path: str, delays: list[float]) -> list[int]:
    """The numbers that were said, in the order of arrival; how late each was goes into ``delays``."""
    reader, writer = await request(port, f"GET {path}")
    numbers: list[int] = []
    async for line in reader:
        if line.startswith(b"data: ") and b'"partial":true' in line:
            stamp = TIMESTAMP.search(line)
            delays.append(time.time() - float(stamp[1]))
            numbers.append(int(NUMBER.search(line)[1]))
        elif line.startswith(b"event: done"):
            break
    writer.close()
    return numbers


TIMESTAMP = re.compile(rb'"timestamp":([0-9.]+)')
NUMBER = re.compile(rb'"text":"(\d+) "')


def memory(pid: int) -> float:
    """Resident memory in megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


async def watch(pid: int, seconds: float, seen: list[float]) -> None:
    for _ in range(5):
        await asyncio.sleep(seconds / 5)
        seen.append(memory(pid))


async def load(port: int, pid: int, options) -> int:
    count = int(options.rate * options.seconds)
    delays: list[float] = []
    sizes = [memory(pid)]
    paths = await asyncio.gather(*(start_run(port) for _ in range(options.streams)))
    watching = asyncio.create_task(watch(pid, options.seconds, sizes))
    begun, busy = time.monotonic(), cpu(pid)
    got = await asyncio.gather(*(follow(port, path, delays) for path in paths for _ in range(options.followers)))
    took, busy = time.monotonic() - begun, cpu(pid) - busy
    await watching
    delays.sort()
    wrong = sum(numbers != list(range(count)) for numbers in got)
    p50, p99 = (delays[int(len(delays) * part)] * 1000 for part in (0.5, 0.99))
    print(f"{options.streams} streams, {options.rate:g} responses/s each, {options.followers} followers each")
    print(
        f"{len(delays)} deliveries in {took:.1f} s, {len(delays) / took:.0f} a second; busy {busy / took:.0%} of a core"
    )
    print(f"followers that got anything but each response once, in order: {wrong} of {len(got)}")
    print(f"late by: median {p50:.1f} ms, p99 {p99:.1f} ms, worst {delays[-1] * 1000:.1f} ms")
    print("memory of the service in MB, before and in the course of it:", *(f"{size:.0f}" for size in sizes))
    return int(wrong > 0 or p99 >= 250)


def cpu(pid: int) -> float:
    """Seconds of processor time so far."""
    import os

    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--followers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kept", type=int, default=100, help="responses of a run that the relay keeps")
    parser.add_argument("--redis", help="URL; without it the relay is in memory")
    parser.add_argument("--sessions", default="memory:", help="URL of the session store")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return 0
    server = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        return asyncio.run(load(port, server.pid, options))
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    sys.exit(main())
