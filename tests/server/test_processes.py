"""Two service processes on one PostgreSQL and one Redis; processes and Redis are killed in the middle of runs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import httpx
import pytest
from served_app import events_of, shown, wait_until
from service_process import LEASE, WORDS

pytest.importorskip("redis", reason="redis, for the relay, is not installed")

POSTGRES = os.environ.get("ADK_STREAM_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
TEXT = "".join(f"{number} " for number in range(WORDS))


@pytest.fixture(scope="module")
def database():
    """The URL of a schema of its own, dropped afterwards."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg, for PostgreSQL, is not installed")
    try:
        connection = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as problem:
        pytest.skip(f"no PostgreSQL at $ADK_STREAM_POSTGRES: {problem}")
    schema = f"adk_stream_test_{uuid.uuid4().hex[:12]}"
    with connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{POSTGRES}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


class Redis:
    """A server of the test's own, that can be killed and started again."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        self.process = subprocess.Popen(
            ["redis-server", *where, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
        )
        wait_until(self.answers)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.2):
                return True
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


class Process:
    """One service process."""

    def __init__(self, redis, database):
        script = Path(__file__).parent / "service_process.py"
        self.process = subprocess.Popen(
            [sys.executable, script, redis.url, database], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self):
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.client = httpx.Client(base_url=self.url, timeout=20)
        wait_until(self.answers)

    def answers(self):
        try:
            return self.client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def start(self):
        answer = self.client.post("/runs", json={"message": "go", "userId": "u"})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=10)


@pytest.fixture(scope="module")
def processes(redis, database):
    both = [Process(redis, database), Process(redis, database)]
    for process in both:
        process.wait()
    yield both
    for process in both:
        process.kill()


class Follower(threading.Thread):
    """Collects the events of a run until its end; comes back whenever its connection is lost.

    Args:
        process: Whom it asks.
        told: The run.
        patience: How many events it takes from one connection.
        delay: Seconds after which it joins.
    """

    def __init__(self, process, told, patience=10**9, delay=0.0):
        super().__init__(daemon=True)
        self.process, self.path, self.patience, self.delay = process, told["events"], patience, delay
        self.events = []
        self.connections = 0
        self.problem = None
        self.start()

    def run(self):
        time.sleep(self.delay)
        try:
            while not (self.events and self.events[-1]["event"] == "done"):
                self.connect()
        except Exception as problem:
            self.problem = problem

    def connect(self):
        self.connections += 1
        headers = {"last-event-id": self.events[-1]["id"]} if self.events else {}
        try:
            with httpx.stream("GET", self.process.url + self.path, headers=headers, timeout=20) as response:
                if response.status_code == 503:
                    time.sleep(0.1)
                    return
                assert response.status_code == 200, response.read()
                for number, event in enumerate(events_of(response), 1):
                    self.events.append({**event, "data": json.loads(event["data"])})
                    if number == self.patience:
                        return
        except httpx.TransportError:
            time.sleep(0.1)

    def finished(self, seconds=20):
        self.join(seconds)
        assert not self.is_alive(), "it was never told of the end"
        assert self.problem is None, self.problem
        ids = [event["id"] for event in self.events if event["event"] != "gap"]
        assert len(ids) == len(set(ids))
        return self.events


def stored(process, told):
    return process.client.get(f"/sessions/m/u/{told['sessionId']}").json()["events"]


def test_redis_is_started_anew_in_the_middle_of_a_run(processes, redis):
    first, second = processes
    told = first.start()
    followers = [Follower(first, told), Follower(second, told)]
    wait_until(lambda: all(len(follower.events) > 30 for follower in followers))
    redis.kill()
    time.sleep(0.3)
    redis.start()
    for follower in followers:
        events = follower.finished()
        finals = [event for event in events if event["event"] == "final"]
        assert [event["data"]["content"]["parts"][0]["text"] for event in finals] == [TEXT]
        assert events[-1]["data"] == {"status": "completed"}
    assert [event["status"] for event in stored(second, told) if event["author"] == "model"] == ["completed"]
    assert Follower(second, first.start()).finished()[-1]["data"] == {"status": "completed"}


def test_one_run_two_processes_and_a_process_that_dies(processes):
    first, second = processes
    told = first.start()
    steady = Follower(first, told)
    dropping = Follower(second, told, patience=7)
    late = Follower(second, told, delay=0.8)
    everything = steady.finished()
    assert shown(everything) == TEXT
    assert [event["event"] for event in everything[-2:]] == ["final", "done"]
    assert everything == dropping.finished() == late.finished()
    assert dropping.connections > WORDS / 7
    events = stored(second, told)
    assert [event["author"] for event in events] == ["user", "model"]
    assert events[1]["id"] == everything[-2]["data"]["id"]
    last = everything[-1]["id"]
    assert second.client.get(told["events"], headers={"last-event-id": last}).status_code == 204

    # Any process cancels a run of any other, and refuses a second one of its session.
    told = first.start()
    again = {"message": "x", "userId": "u", "sessionId": told["sessionId"]}
    assert second.client.post("/runs", json=again).status_code == 409
    with second.client.stream("GET", f"/vercel/m/{told['sessionId']}/stream?user_id=u") as response:
        chunks = events_of(response)
        assert json.loads(next(chunks)["data"]) == {"type": "start", "messageId": told["runId"]}
    assert second.client.post(f"/runs/{told['runId']}/cancel").status_code == 202
    assert Follower(second, told).finished()[-1]["data"]["status"] == "cancelled"
    assert stored(second, told)[-1]["status"] == "cancelled"

    # The process that runs it is killed: those who follow elsewhere are told, within the lease.
    told = first.start()
    follower, dropping = Follower(second, told), Follower(second, told, patience=7)
    wait_until(lambda: len(follower.events) > 30)
    first.kill()
    killed = time.monotonic()
    events = follower.finished()
    assert time.monotonic() - killed < LEASE * 2 + 1
    assert (events[-1]["data"]["status"], events[-1]["data"]["errorCode"]) == ("failed", "PRODUCER_LOST")
    assert TEXT.startswith(shown(events))
    assert events == dropping.finished()
    assert [event["author"] for event in stored(second, told)] == ["user"]  # what was acknowledged
    assert Follower(second, told).finished() == events
    status = second.client.get(f"/runs/{told['runId']}").json()
    assert (status["status"], status["errorCode"]) == ("failed", "PRODUCER_LOST")

    # A process that is asked to stop ends its runs, and shows and stores that, before it goes.
    told = second.start()
    follower = Follower(second, told)
    wait_until(lambda: len(follower.events) > 30)
    second.process.terminate()
    events = follower.finished()
    assert events[-1]["data"]["status"] == "cancelled"
    assert TEXT.startswith(shown(events))
    assert follower.connections == 1
    assert second.process.wait(10) == -signal.SIGTERM
    errors = second.process.stderr.read()
    assert "ASGI" not in errors, errors
