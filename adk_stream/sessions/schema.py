"""The tables of the SQL store and every statement it runs, in SQLAlchemy Core, so that dialects share them.

State is one row for each key, so sessions that change different keys of their shared state never overwrite
each other, and an append reads no state at all. Events are clustered by (session, sequence number): appending
and reading the newest cost the same however long the session is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable

__all__ = [
    "SCHEMA_VERSION",
    "PostgresStatements",
    "Statements",
    "build_postgres_statements",
    "build_statements",
    "compile_for_postgres",
    "compile_for_sqlite",
    "metadata",
    "schema_version",
    "sqlite_ddl",
]

#: Raised by one with each change of the tables.
SCHEMA_VERSION = 1

# SQLite numbers rows by itself only in a column declared INTEGER.
_Key = BigInteger().with_variant(Integer, "sqlite")

# Names are equal and in order by their code points, whatever the language that a PostgreSQL database is set to.
_Name = String().with_variant(String(collation="C"), "postgresql")

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

sessions = Table(
    "sessions",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("app_name", _Name, nullable=False),
    Column("user_id", _Name, nullable=False),
    Column("session_id", _Name, nullable=False),
    Column("revision", _Key, nullable=False),
    Column("last_update_time", Double, nullable=False),
    UniqueConstraint("app_name", "user_id", "session_id"),
    sqlite_autoincrement=True,  # a key is never used again, so nothing of a deleted session can come back
)

events = Table(
    "events",
    metadata,
    Column("session_key", _Key, ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
    Column("seq", _Key, primary_key=True, autoincrement=False),
    Column("event_id", _Name, nullable=False),
    Column("timestamp", Double, nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("session_key", "event_id"),
    sqlite_with_rowid=False,
)

session_states = Table(
    "session_states",
    metadata,
    Column("session_key", _Key, ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

user_states = Table(
    "user_states",
    metadata,
    Column("app_name", _Name, primary_key=True),
    Column("user_id", _Name, primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

app_states = Table(
    "app_states",
    metadata,
    Column("app_name", _Name, primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)


@dataclass(frozen=True, slots=True)
class Statements:
    """Every statement, ready for one driver. Parameters are named as the columns, except where noted."""

    #: Gives the key, or nothing if there is such a session already.
    create_session: Any
    #: The compare-and-set: gives the key if the session is at ``expected`` and has no event of ``event_id``.
    advance_session: Any
    insert_event: Any
    find_session: Any
    find_event: Any
    #: Newest first, at most ``most`` of those stamped ``after`` or later.
    newest_events: Any
    put_app_state: Any
    put_user_state: Any
    put_session_state: Any
    app_state: Any
    user_state: Any
    session_state: Any
    #: The same of every session and user of an application, for lists.
    sessions_of_app: Any
    sessions_of_user: Any
    session_states_of_app: Any
    session_states_of_user: Any
    user_states_of_app: Any
    delete_session: Any


def build_statements(insert: Any) -> Statements:
    """The statements, given the dialect's own ``insert`` (for ``ON CONFLICT``)."""

    def is_given(*columns: Column[Any]) -> list[Any]:
        return [column == bindparam(column.name) for column in columns]

    def put(table: Table) -> Any:
        row = insert(table).values({column.name: bindparam(column.name) for column in table.columns})
        return row.on_conflict_do_update(index_elements=list(table.primary_key), set_={"value": row.excluded.value})

    named = is_given(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
    of_app, of_user = is_given(sessions.c.app_name), is_given(sessions.c.app_name, sessions.c.user_id)
    held_already = exists().where(events.c.session_key == sessions.c.key, *is_given(events.c.event_id))
    new_session: dict[str, Any] = {
        column.name: bindparam(column.name) for column in sessions.columns if column.name != "key"
    }

    def listed(condition: list[Any]) -> Any:
        names = sessions.c.user_id, sessions.c.session_id
        return (
            select(sessions.c.key, *names, sessions.c.last_update_time, sessions.c.revision)
            .where(*condition)
            .order_by(sessions.c.last_update_time, *names)
        )

    def states_listed(condition: list[Any]) -> Any:
        return (
            select(session_states.c.session_key, session_states.c.name, session_states.c.value)
            .join(sessions, session_states.c.session_key == sessions.c.key)
            .where(*condition)
        )

    return Statements(
        create_session=insert(sessions).values(new_session).on_conflict_do_nothing().returning(sessions.c.key),
        advance_session=update(sessions)
        .values(revision=sessions.c.revision + literal_column("1"), last_update_time=bindparam("timestamp"))
        .where(*named, sessions.c.revision == bindparam("expected"), ~held_already)
        .returning(sessions.c.key),
        insert_event=insert(events).values({column.name: bindparam(column.name) for column in events.columns}),
        find_session=select(sessions.c.key, sessions.c.last_update_time, sessions.c.revision).where(*named),
        find_event=select(events.c.data).where(*is_given(events.c.session_key, events.c.event_id)),
        newest_events=select(events.c.data)
        .where(*is_given(events.c.session_key), events.c.timestamp >= bindparam("after"))
        .order_by(events.c.seq.desc())
        .limit(bindparam("most"))
        .offset(literal_column("0")),
        put_app_state=put(app_states),
        put_user_state=put(user_states),
        put_session_state=put(session_states),
        app_state=select(app_states.c.name, app_states.c.value).where(*is_given(app_states.c.app_name)),
        user_state=select(user_states.c.name, user_states.c.value).where(
            *is_given(user_states.c.app_name, user_states.c.user_id)
        ),
        session_state=select(session_states.c.name, session_states.c.value).where(
            *is_given(session_states.c.session_key)
        ),
        sessions_of_app=listed(of_app),
        sessions_of_user=listed(of_user),
        session_states_of_app=states_listed(of_app),
        session_states_of_user=states_listed(of_user),
        user_states_of_app=select(user_states.c.user_id, user_states.c.name, user_states.c.value).where(
            *is_given(user_states.c.app_name)
        ),
        delete_session=delete(sessions).where(*named),
    )


def compile_for_sqlite() -> Statements:
    """The statements as SQL text with ``:name`` parameters, as ``sqlite3`` takes them."""
    dialect = sqlite.dialect(paramstyle="named")
    statements = build_statements(sqlite.insert)
    return Statements(**{f.name: str(getattr(statements, f.name).compile(dialect=dialect)) for f in fields(Statements)})


def sqlite_ddl() -> list[str]:
    """The statements that make the tables."""
    dialect = sqlite.dialect()
    return [str(CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]


@dataclass(frozen=True, slots=True)
class PostgresStatements(Statements):
    """The statements on PostgreSQL, and two that do a whole call in one round trip."""

    #: The compare-and-set, the event and the changes of state (``…_names`` and ``…_values``, arrays of one length
    #: for ``app``, ``user`` and ``session``); gives the key, or nothing if it was refused and nothing was written.
    append: Any
    #: Rows of ``kind``, ``name``, ``value``, ``number`` and ``moment``: "session" (its revision and last update),
    #: "app", "user" and "own" (state), "event" (its number and text). Of the ``last`` events those stamped ``after``
    #: or later, and of them the newest, at most ``most``.
    read: Any


def build_postgres_statements() -> PostgresStatements:
    """The statements, not compiled yet."""
    plain = build_statements(postgresql.insert)
    return PostgresStatements(
        **{f.name: getattr(plain, f.name) for f in fields(Statements)},
        append=_postgres_append(plain.advance_session),
        read=_postgres_read(plain.find_session),
    )


def compile_for_postgres() -> PostgresStatements:
    """The statements as SQL text with ``%(name)s`` parameters, as psycopg takes them."""
    statements = build_postgres_statements()
    dialect: Dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
    return PostgresStatements(
        **{f.name: str(getattr(statements, f.name).compile(dialect=dialect)) for f in fields(PostgresStatements)}
    )


def _postgres_append(advance_session: Any) -> Any:
    advanced = advance_session.cte("advanced")
    owners = {
        "session_key": advanced.c.key,
        "app_name": bindparam("app_name", type_=String),
        "user_id": bindparam("user_id", type_=String),
    }
    event = {
        column.name: owners.get(column.name, bindparam(column.name, type_=column.type)) for column in events.columns
    }
    stored = postgresql.insert(events).from_select(list(event), select(*event.values())).cte("stored")

    def put(scope: str, table: Table, earlier: Any) -> Any:
        names, values = (bindparam(f"{scope}_{column}", type_=postgresql.ARRAY(Text)) for column in ("names", "values"))
        given = func.unnest(names, values).table_valued("name", "value", name=f"given_{scope}").render_derived()
        owner = [owners[column.name] for column in table.primary_key if column.name != "name"]
        # Every writer takes the rows of shared state in the same order, so no two wait for each other: scope by
        # scope (PostgreSQL runs the parts of a statement in an order of its own, unless one reads the other),
        # and by name within a scope.
        chosen = (
            select(*owner, given.c.name, given.c.value)
            .select_from(advanced.join(given, true()))
            .where(select(func.count()).select_from(earlier).scalar_subquery() > literal_column("-1"))
            .order_by(given.c.name.collate("C"))
        )
        row = postgresql.insert(table).from_select([column.name for column in table.columns], chosen)
        return (
            row.on_conflict_do_update(index_elements=list(table.primary_key), set_={"value": row.excluded.value})
            .returning(table.c.name)
            .cte(f"put_{scope}")
        )

    app = put("app", app_states, advanced)
    user = put("user", user_states, app)
    session = put("session", session_states, user)
    return select(advanced.c.key).add_cte(stored, session)


def _postgres_read(find_session: Any) -> Any:
    found = find_session.cte("found")
    key, revision = (select(column).scalar_subquery() for column in (found.c.key, found.c.revision))
    no_number, no_moment = null().cast(BigInteger), null().cast(Double)

    def state(kind: str, table: Table, *condition: Any) -> Any:
        return select(literal_column(f"'{kind}'"), table.c.name, table.c.value, no_number, no_moment).where(*condition)

    # LIMIT alone does not keep the planner from sorting all events of a session: it takes each to be of average
    # length. Their numbers have no gaps, so the number of the first that is wanted is known.
    first = revision - bindparam("last", type_=BigInteger)
    newest = (
        select(events.c.seq, events.c.data)
        .where(events.c.session_key == key, events.c.seq > first, events.c.timestamp >= bindparam("after"))
        .order_by(events.c.seq.desc())
        .limit(bindparam("most", type_=BigInteger))
        .subquery()
    )
    app_name = bindparam("app_name", type_=String)
    user_id = bindparam("user_id", type_=String)
    return union_all(
        select(
            literal_column("'session'").label("kind"),
            null().cast(Text).label("name"),
            null().cast(Text).label("value"),
            found.c.revision.label("number"),
            found.c.last_update_time.label("moment"),
        ),
        state("app", app_states, app_states.c.app_name == app_name),
        state("user", user_states, user_states.c.app_name == app_name, user_states.c.user_id == user_id),
        state("own", session_states, session_states.c.session_key == key),
        select(literal_column("'event'"), null().cast(Text), newest.c.data, newest.c.seq, no_moment),
    )
