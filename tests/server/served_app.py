"""A service on a real socket, in a thread, and clients for it."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager

import httpx

from adk_stream.server import Limits, ServerConfig, ServiceServer, listen, make_app


class Served:
    """One service; ``client`` is a blocking client for it."""

    def __init__(self, config):
        self.app = make_app(config)
        self.service = self.app.state.service
        self.server = ServiceServer(self.app, log_level="critical")
        self.socket = listen("127.0.0.1", 0, client_patience=config.limits.send_timeout)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        headers = {} if config.token is None else {"authorization": f"Bearer {config.token}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=20)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def start(self):
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.005)

    def stop(self):
        self.client.close()
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()
        assert not self.thread.is_alive()

    def run(self, message="hi", **fields):
        """Start a run; what the service tells of it."""
        answer = self.client.post("/runs", json={"message": message, **fields})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def session(self, told):
        return self.client.get(f"/sessions/{told['appName']}/{told['userId']}/{told['sessionId']}").json()


@contextmanager
def served(model=None, **fields):
    limits = Limits(**{"drain_seconds": 0.0, **fields.pop("limits", {})})
    fields.setdefault("models", {"m": model})
    running = Served(ServerConfig(limits=limits, **fields))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def events_of(response):
    """The server-sent events of a streamed response as dicts: id, event, data."""
    event = {}
    for line in response.iter_lines():
        if not line and event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value
    assert not event, "a stream that ends in the middle of an event"


def follow(service, told, after=None):
    headers = {} if after is None else {"last-event-id": after}
    with service.client.stream("GET", told["events"], headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [{**event, "data": json.loads(event["data"])} for event in events_of(response)]


def shown(events):
    """The text of the partial responses."""
    return "".join(
        part.get("text", "")
        for event in events
        if event["event"] == "partial"
        for part in event["data"]["content"]["parts"]
    )


class Gate:
    """What a scripted model waits for in the middle, until a test opens it from its own thread."""

    def __init__(self):
        self.opened = threading.Event()

    def open(self):
        self.opened.set()


class GatedModel:
    """Says the words before the gate, waits, says the rest; any number of streams at once."""

    name, provider = "gated", "openai-chat"

    def __init__(self, before, after=(), gate=None):
        self.before, self.after = before, after
        self.gate = gate or Gate()
        self.open = 0
        self.requests = []

    async def stream(self, request):
        from scripted_model import end, text

        self.requests.append(request)
        self.open += 1
        try:
            for word in self.before:
                yield text(word)
            while not self.gate.opened.is_set():
                await asyncio.sleep(0.005)
            for word in self.after:
                yield text(word)
            for item in end("stop", 3, 4):
                yield item
        finally:
            self.open -= 1


def wait_until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
