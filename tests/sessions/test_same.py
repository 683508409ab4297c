"""Any sequence of operations: the store in memory and each database answer alike."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from adk_stream.errors import SessionError
from adk_stream.sessions import (
    Event,
    EventActions,
    GetSessionConfig,
    InMemorySessionService,
    SqlSessionService,
)

apps = st.sampled_from(["a", "b"])
users = st.sampled_from(["u", "v", "ü"])
names = st.sampled_from(["s", "t"])
keys = st.sampled_from(["", "k", "app:", "app:k", "user:k", "user:l", "temp:k", "K", "ключ"])
values = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.booleans(), max_size=2) | st.just({1})
states = st.dictionaries(keys, values, max_size=3)
times = st.floats(-10, 10)


class TwoStores(RuleBasedStateMachine):
    def __init__(self, url):
        super().__init__()
        self.runner = asyncio.Runner()
        self.services = [InMemorySessionService(), SqlSessionService(url)]
        self.held = {}  # what a caller holds of each session: one object per store, often stale

    def both(self, call):
        """The outcome of a call, which must be the same on both."""
        outcomes = []
        for number, service in enumerate(self.services):
            try:
                outcomes.append(self.runner.run(call(service, number)))
            except SessionError as problem:
                outcomes.append((type(problem), str(problem)))
        return outcomes

    @rule(app=apps, user=users, name=names, state=states)
    def create(self, app, user, name, state):
        async def call(service, _):
            session = await service.create_session(app_name=app, user_id=user, session_id=name, state=state)
            session.last_update_time = 0.0  # each store looked at the clock
            return session

        one, two = self.both(call)
        assert one == two
        if not isinstance(one, tuple):
            self.held.setdefault((app, user, name), [one, two])

    @rule(
        app=apps,
        user=users,
        name=names,
        most=st.none() | st.integers(0, 3),
        after=st.none() | times,
        hold=st.booleans(),
    )
    def get(self, app, user, name, most, after, hold):
        config = GetSessionConfig(num_recent_events=most, after_timestamp=after)

        async def call(service, _):
            session = await service.get_session(app_name=app, user_id=user, session_id=name, config=config)
            if session is not None and session.revision == 0:
                session.last_update_time = 0.0
            return session

        one, two = self.both(call)
        assert one == two
        if hold and one is not None:
            self.held[app, user, name] = [one, two]

    @rule(app=apps, user=users, name=names)
    def delete(self, app, user, name):
        async def call(service, _):
            await service.delete_session(app_name=app, user_id=user, session_id=name)

        self.both(call)

    @rule(
        data=st.data(),
        event_id=st.sampled_from("12345"),
        state=states,
        time=times,
        partial=st.sampled_from([None, None, True]),
    )
    def append(self, data, event_id, state, time, partial):
        if not self.held:
            return
        held = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        event = Event(id=event_id, timestamp=time, partial=partial, actions=EventActions(state_delta=state))

        async def call(service, number):
            return await service.append_event(held[number], event)

        one, two = self.both(call)
        assert one == two
        assert held[0] == held[1]

    @invariant()
    def lists_are_equal(self):
        for user in (None, "u"):

            async def call(service, _, user=user):
                sessions = (await service.list_sessions(app_name="a", user_id=user)).sessions
                for session in sessions:
                    session.last_update_time = session.last_update_time if session.revision else 0.0
                return sorted(sessions, key=lambda session: (session.user_id, session.id))

            one, two = self.both(call)
            assert one == two

    def teardown(self):
        self.runner.run(self.services[1].close())
        self.runner.close()


def test_sqlite_is_like_memory():
    examples = settings(max_examples=40, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(lambda: TwoStores("sqlite://"), settings=examples)


def test_postgres_is_like_memory(postgres, postgres_url, common_schema):
    def start():
        postgres.empty(common_schema)
        return TwoStores(postgres_url)

    run_state_machine_as_test(start, settings=settings(max_examples=20, stateful_step_count=20, deadline=None))
