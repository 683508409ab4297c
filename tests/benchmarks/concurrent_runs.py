"""Many runs at once through one runner and one model: ``python tests/benchmarks/concurrent_runs.py``.

Answers come from a ReplayServer in another process, paced as a model would pace them. Each run asks for an answer of
its own, so that one that got another's would show. Beside it the bare official client reads the same answers in the
same way, as typed events, and keeps nothing. Printed are, of both:

    lag     how late the event loop came to a timer (milliseconds)
    own     the same without the time in which the machine ran something else: at most the CPU time that was used
    cpu     what one event of an answer cost (microseconds)
    memory  how far the process grew (MB), Python's objects that stayed, and what fifty further runs at full speed
            leave behind (KB, traced); sessions deleted, connections closed

The runner's own lag at the 99th percentile may be twice the bare client's, its answers must all be right, and nothing
may stay: otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adk_stream.recording import Piece, Recording

# ----------------------------------------------------------------- the answers


@dataclass(frozen=True)
class Load:
    """What is asked: so many runs, begun over so many seconds, each answered by so many events over so many seconds."""

    runs: int = 500
    over: float = 30.0
    events: int = 40
    seconds: float = 40.0


def words(number: int, load: Load) -> list[str]:
    """The answer to that run: every word names it."""
    return [f"{number}:{place} " for place in range(load.events)]


def _chat(said: list[str]) -> list[Any]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    deltas = [chunk({"content": word}) for word in said]
    return [chunk({"role": "assistant", "content": ""}), *deltas, chunk({}, "stop"), "[DONE]"]


def _messages(said: list[str]) -> list[Any]:
    begin = {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
             "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in said
    ]
    return [
        {"type": "message_start", "message": begin},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def _gemini(said: list[str]) -> list[Any]:
    chunks = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": word}]}}], "responseId": "g"}
        for word in said
    ]
    return [*chunks, {"candidates": [{"index": 0, "finishReason": "STOP"}], "responseId": "g"}]


@dataclass(frozen=True)
class Line:
    """One line: its answers, its official client, how that is read bare, and our model on it."""

    write: Callable[[list[str]], list[Any]]
    client: Callable[[str], Any]
    close: Callable[[Any], Awaitable[None]]
    read: Callable[[Any, str], AsyncIterator[str]]
    model: Callable[[Any], Any]


_TIMEOUT = 60  # seconds; patient with a loaded machine


def _openai(url: str) -> Any:
    import openai

    return openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=_TIMEOUT)


def _anthropic(url: str) -> Any:
    import anthropic

    return anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0, timeout=_TIMEOUT)


def _genai(url: str) -> Any:
    from google import genai

    # as many connections as OpenAI's and Anthropic's clients keep; httpx and httpx2 read the attributes
    limits = SimpleNamespace(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)
    options = {"base_url": url, "timeout": _TIMEOUT * 1000, "async_client_args": {"limits": limits}}
    return genai.Client(api_key="k", http_options=options)


async def _close(client: Any) -> None:
    await client.close()


async def _close_genai(client: Any) -> None:
    await client.aio.aclose()
    client.close()


async def _read_chat(client: Any, message: str) -> AsyncIterator[str]:
    ask = [{"role": "user", "content": message}]
    async with await client.chat.completions.create(model="m", messages=ask, stream=True) as stream:
        async for chunk in stream:
            yield (chunk.choices[0].delta.content if chunk.choices else None) or ""


async def _read_messages(client: Any, message: str) -> AsyncIterator[str]:
    ask = [{"role": "user", "content": message}]
    async with await client.messages.create(model="m", max_tokens=99, messages=ask, stream=True) as stream:
        async for event in stream:
            yield event.delta.text if event.type == "content_block_delta" else ""


async def _read_gemini(client: Any, message: str) -> AsyncIterator[str]:
    async for chunk in await client.aio.models.generate_content_stream(model="m", contents=message):
        yield chunk.text or ""


def _model(name: str) -> Callable[[Any], Any]:
    def make(client: Any) -> Any:
        from adk_stream import models

        return getattr(models, name)("m", client=client)

    return make


LINES = {
    "openai-chat": Line(_chat, _openai, _close, _read_chat, _model("OpenAIChatModel")),
    "anthropic": Line(_messages, _anthropic, _close, _read_messages, _model("AnthropicModel")),
    "gemini": Line(_gemini, _genai, _close_genai, _read_gemini, _model("GeminiModel")),
}


def recording(line: str, number: int, load: Load) -> Recording:
    """The answer to that run, evenly paced; to a run that there is not, at once."""
    payloads = LINES[line].write(words(number, load))
    seconds = load.seconds if number < load.runs else 0.0
    pieces = []
    for place, payload in enumerate(payloads):
        name = f"event: {payload['type']}\n" if line == "anthropic" else ""
        data = payload if isinstance(payload, str) else json.dumps(payload)
        pieces.append(Piece(seconds * (place + 1) / len(payloads), f"{name}data: {data}\n\n".encode()))
    return Recording(tuple(pieces), provider=line, name=f"run-{number}")


# ----------------------------------------------------------------- the server, in another process


def serve(line: str, load: Load) -> None:
    """A replay server; ends with its standard input."""
    from adk_stream.testing import ReplayServer

    server = ReplayServer([recording(line, number, load) for number in range(load.runs + 1)], pace=1)
    server.app = _by_message(server.app)
    with server:
        print(server.url, flush=True)
        sys.stdin.read()


def _by_message(app: Any) -> Any:
    """The recording whose name the message is: one model serves all runs, and its requests differ in nothing else."""

    async def by_message(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = json.loads(body)
        name = body[body.rindex(b"run-") :].partition(b'"')[0].decode()
        asked["model"] = name
        scope = {**scope, "path": scope["path"].replace("/models/m:", f"/models/{name}:")}
        replay = [{"type": "http.request", "body": json.dumps(asked).encode(), "more_body": False}]

        async def receive_again() -> Any:
            return replay.pop() if replay else await receive()

        await app(scope, receive_again, send)

    return by_message


@contextmanager
def server(line: str, load: Load) -> Iterator[str]:
    """Its URL."""
    arguments = [f"--{name}={value}" for name, value in vars(load).items()]
    command = [sys.executable, str(Path(__file__)), "--serve", "--line", line, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate(timeout=30)


# ----------------------------------------------------------------- the two sides


@asynccontextmanager
async def bare(line: Line, url: str, load: Load) -> AsyncIterator[Any]:
    """The official client alone."""
    client = line.client(url)

    async def run(number: int) -> str:
        return "".join([text async for text in line.read(client, f"run-{number}")])

    yield run
    await line.close(client)


@asynccontextmanager
async def runner(line: Line, url: str, load: Load) -> AsyncIterator[Any]:
    """One runner on one model object, and its sessions."""
    from adk_stream import Runner, StreamExecutionOptions
    from adk_stream.sessions import InMemorySessionService

    client = line.client(url)
    service = InMemorySessionService()
    limits = StreamExecutionOptions(first_token_timeout=60, idle_timeout=60)
    one = Runner(line.model(client), session_service=service, app_name="app", execution=limits)

    async def run(number: int) -> str:
        where = {"app_name": "app", "user_id": f"user-{number}"}
        session = await service.create_session(**where)
        where["session_id"] = session.id
        shown: list[str] = []
        final: Any = None
        async for event in one.run_async(user_id=session.user_id, session_id=session.id, new_message=f"run-{number}"):
            if event.partial:
                shown.append(event.text)
            else:
                final = event
        session = await service.get_session(**where)
        stored = [event.text for event in session.events]
        await service.delete_session(**where)
        text = "".join(shown)
        assert final.status == "completed"
        assert (final.text, stored) == (text, [f"run-{number}", text]), f"run {number} is not what it showed"
        return text

    yield run
    await line.close(client)


# ----------------------------------------------------------------- measuring


@dataclass
class Figures:
    """What one side cost."""

    lags: list[float] = field(default_factory=list)
    own_lags: list[float] = field(default_factory=list)
    cpu: float = 0.0
    most_at_once: int = 0
    rss: float = 0.0
    objects: int = 0
    tasks: int = 0


def percentile(seconds: list[float], share: float) -> float:
    """Milliseconds."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


_TICK = 0.005


async def _watch(figures: Figures) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due, used = loop.time() + _TICK, time.thread_time()
        await asyncio.sleep(_TICK)
        lag = loop.time() - due
        figures.lags.append(lag)
        figures.own_lags.append(min(lag, time.thread_time() - used))


async def _runs(run: Callable[[int], Awaitable[str]], load: Load, figures: Figures) -> None:
    """All runs, each begun in its turn; every answer is checked."""
    under_way = 0

    async def one(number: int) -> None:
        nonlocal under_way
        await asyncio.sleep(load.over * number / load.runs)
        under_way += 1
        figures.most_at_once = max(figures.most_at_once, under_way)
        text = await run(number)
        under_way -= 1
        assert text == "".join(words(number, load)), f"run {number} got another answer: {text[:60]!r}"

    async with asyncio.TaskGroup() as group:
        for number in range(load.runs):
            group.create_task(one(number))


def _rss() -> float:
    """Megabytes; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _settle() -> tuple[float, int]:
    for _ in range(3):
        gc.collect()
    return _rss(), len(gc.get_objects())


@contextmanager
def _apart_from_the_rest() -> Iterator[None]:
    """Garbage collections look at what is made in here, not at all else that this process holds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def measure(side: Any, line: str, url: str, load: Load) -> Figures:
    """One side under the load, after a few runs that fill its caches."""
    figures = Figures()

    async def main() -> None:
        for _ in range(2):
            async with side(LINES[line], url, load) as run:
                for _ in range(4):
                    await run(load.runs)
        await asyncio.sleep(0.1)
        rss, objects = _settle()
        async with side(LINES[line], url, load) as run:
            watcher = asyncio.create_task(_watch(figures))
            began = time.process_time()
            await _runs(run, load, figures)
            figures.cpu = time.process_time() - began
            watcher.cancel()
        del run
        await asyncio.sleep(0.1)
        figures.tasks = len(asyncio.all_tasks()) - 1
        after = _settle()
        figures.rss, figures.objects = after[0] - rss, after[1] - objects

    with _apart_from_the_rest():
        asyncio.run(main())
    return figures


def growth(side: Any, line: str, url: str, load: Load, runs: int) -> int:
    """Bytes that so many runs leave behind, all at once and at full speed; traced, so nothing is timed here."""
    held: list[int] = []

    async def main() -> None:
        for _ in range(3):  # the first fills caches
            async with side(LINES[line], url, load) as run:
                await asyncio.gather(*(run(load.runs) for _ in range(runs)))
            del run
            await asyncio.sleep(0.1)
            _settle()
            held.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        with _apart_from_the_rest():
            asyncio.run(main())
    finally:
        tracemalloc.stop()
    return held[-1] - held[-2]


# ----------------------------------------------------------------- the table


def main() -> int:
    """Print the table; 0 if all is as it shall be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in vars(Load()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--line", choices=LINES, default="openai-chat")
    parser.add_argument("--side", choices=("bare", "runner"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(given.runs, given.over, given.events, given.seconds)
    if given.serve:
        serve(given.line, load)
        return 0
    if given.side:
        side = {"bare": bare, "runner": runner}[given.side]
        if given.traced:
            print(growth(side, given.line, given.url, load, min(50, load.runs)))
        else:
            print(json.dumps(vars(measure(side, given.line, given.url, load))))
        return 0

    print(f"{load.runs} runs over {load.over:g} s, {load.events} events in {load.seconds:g} s each, {given.line}\n")
    columns = ("lag p50", "p99", "max", "own p99", "own max", "cpu", "at once", "memory", "objects", "held", "tasks")
    print(" " * 8 + "".join(f"{column:>9}" for column in columns))
    with server(given.line, load) as url:
        table = {name: Figures(**each) for name, each in _in_processes(given.line, url, load).items()}
        held = _in_processes(given.line, url, load, "--traced")
    for name, each in table.items():
        lags = "".join(f"{percentile(each.lags, share):9.2f}" for share in (0.5, 0.99, 1))
        own = "".join(f"{percentile(each.own_lags, share):9.2f}" for share in (0.99, 1))
        cost = 1e6 * each.cpu / (load.runs * load.events)
        stays = f"{each.most_at_once:9d}{each.rss:9.1f}{each.objects:9d}{held[name] / 1024:9.0f}{each.tasks:9d}"
        print(f"{name:8}{lags}{own}{cost:9.1f}{stays}")
    ours = table["runner"]
    ratio = percentile(ours.own_lags, 0.99) / percentile(table["bare"].own_lags, 0.99)
    print(f"\nown lag at the 99th percentile: {ratio:.2f} times the bare client's")
    stays = ours.tasks or ours.objects > load.runs or held["runner"] > 1024 * min(50, load.runs)
    return 1 if ratio > 2 or stays else 0


def _in_processes(line: str, url: str, load: Load, *options: str) -> dict[str, Any]:
    """Both sides in processes of their own, at once: what else the machine does disturbs the one as the other."""
    arguments = [f"--{name}={value}" for name, value in vars(load).items()]
    command = [sys.executable, str(Path(__file__)), "--line", line, "--url", url, *arguments, *options]
    processes = {
        side: subprocess.Popen([*command, "--side", side], stdout=subprocess.PIPE, text=True)
        for side in ("bare", "runner")
    }
    told = {side: process.communicate()[0] for side, process in processes.items()}
    return {side: json.loads(each) for side, each in told.items()}


if __name__ == "__main__":
    sys.exit(main())
