"""Every store behind one fixture: what holds for one must hold for the others."""

import asyncio
import os
import sys
import uuid
from pathlib import Path

import pytest

from adk_stream.sessions import InMemorySessionService, SqlSessionService

sys.path.insert(0, str(Path(__file__).parent))

#: A server whose database these tests may make schemas in; each run has its own, and drops it.
POSTGRES = os.environ.get("ADK_STREAM_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


class Store:
    """Runs a test's coroutine against a fresh service, and closes it on the same loop."""

    def __init__(self, kind, url):
        self.kind = kind
        self.url = url

    def open(self, **options):
        return InMemorySessionService(**options) if self.kind == "memory" else SqlSessionService(self.url, **options)

    def run(self, test, **options):
        async def main():
            async with self.open(**options) as service:
                return await test(service)

        return asyncio.run(main())


class Postgres:
    """The server, through a connection of the tests' own."""

    def __init__(self, connection):
        self.connection = connection
        self.schemas = []

    def execute(self, statement, *parameters):
        cursor = self.connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else None

    def new_schema(self):
        name = f"adk_stream_test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE SCHEMA {name}")
        self.schemas.append(name)
        return name

    def url(self, schema, **options):
        options = {"options": f"-csearch_path%3D{schema}", **options}
        return f"{POSTGRES}?{'&'.join(f'{key}={value}' for key, value in options.items())}"

    def empty(self, schema):
        tables = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
        names = [f"{schema}.{name}" for (name,) in tables if name != "schema_version"]
        if names:
            self.execute(f"TRUNCATE {', '.join(names)}")


@pytest.fixture(scope="session")
def postgres():
    psycopg = pytest.importorskip("psycopg", reason="psycopg, for PostgreSQL, is not installed")
    try:
        connection = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as problem:
        pytest.skip(f"no PostgreSQL at $ADK_STREAM_POSTGRES: {problem}")
    server = Postgres(connection)
    yield server
    for schema in server.schemas:
        server.execute(f"DROP SCHEMA {schema} CASCADE")
    connection.close()


@pytest.fixture(scope="session")
def common_schema(postgres):
    return postgres.new_schema()


@pytest.fixture
def postgres_url(postgres, common_schema):
    """A database with no sessions in it."""
    yield postgres.url(common_schema)
    postgres.empty(common_schema)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request, tmp_path, postgres_schema_url):
    """A database that does not hold our tables yet, open to other processes."""
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else postgres_schema_url()


@pytest.fixture
def postgres_schema_url(request):
    """Makes the URL of a new, empty schema."""

    def make(**options):
        postgres = request.getfixturevalue("postgres")
        return postgres.url(postgres.new_schema(), **options)

    return make


@pytest.fixture(params=["memory", "sqlite", "sqlite-in-memory", "postgres"])
def store(request, tmp_path):
    urls = {
        "memory": lambda: "memory:",
        "sqlite": lambda: f"sqlite:///{tmp_path}/sessions.db",
        "sqlite-in-memory": lambda: "sqlite://",
        "postgres": lambda: request.getfixturevalue("postgres_url"),
    }
    return Store(request.param, urls[request.param]())
