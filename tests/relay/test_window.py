"""Which responses are kept."""

from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream.relay import RelayOptions
from adk_stream.relay.window import Window

OPTIONS = RelayOptions(max_entries=50, max_bytes=10_000, max_age=100.0)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3000), st.floats(0, 30)), min_size=1, max_size=200))
def test_a_window_keeps_what_its_bounds_allow_and_little_more(steps):
    window, now, entries, first = Window(OPTIONS), 0.0, [], 1
    for number, (size, pause) in enumerate(steps, 1):
        now += pause
        entries.append((number, size, now))
        kept_before, first = first, window.add(number, size, now)
        assert kept_before <= first <= number, "never back, and the newest always stays"
        kept = entries[first - 1 :]
        assert len(kept) <= OPTIONS.max_entries
        # By size and age it may exceed the bounds by a hundredth and one response.
        slack = OPTIONS.max_bytes / 100 + 3000
        assert sum(size for _, size, _ in kept[1:]) <= OPTIONS.max_bytes + slack
        assert all(now - time <= OPTIONS.max_age * 1.01 + 30 for _, _, time in kept[:-1])
        if first > 1 and first > number - OPTIONS.max_entries + 1:
            dropped = entries[first - 2]
            too_much = sum(size for _, size, _ in entries[first - 1 :]) + slack > OPTIONS.max_bytes
            assert too_much or now - dropped[2] > OPTIONS.max_age - 30, "nothing goes without need"


def test_a_long_stream_costs_a_window_no_more_than_a_short_one():
    window = Window(OPTIONS)
    for number in range(1, 100_000):
        window.add(number, 10, number / 100)
    assert len(window._marks) <= 210
