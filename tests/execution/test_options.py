"""Options are checked where they are written."""

from __future__ import annotations

import dataclasses

import pytest

from adk_stream import StreamExecutionOptions


def test_the_defaults():
    options = StreamExecutionOptions()
    assert (options.first_token_timeout, options.idle_timeout) == (30, 30)
    assert (options.content_timeout, options.total_timeout) == (None, None)
    assert (options.max_retries, options.retry_backoff) == (0, 0.5)
    assert options.close_timeout <= 5


@pytest.mark.parametrize("field", ["first_token_timeout", "idle_timeout", "content_timeout", "total_timeout"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "5", True])
def test_limits_are_seconds_above_zero(field, value):
    with pytest.raises(ValueError, match=field):
        StreamExecutionOptions(**{field: value})


@pytest.mark.parametrize(
    "field",
    ["retry_backoff", "retry_max_backoff", "retry_jitter", "retry_max_after", "end_grace", "close_timeout"],
)
@pytest.mark.parametrize("value", [None, -0.1, float("inf"), float("nan"), "5"])
def test_the_other_times_are_numbers_from_zero(field, value):
    with pytest.raises(ValueError, match=field):
        StreamExecutionOptions(**{field: value})


@pytest.mark.parametrize("value", [-1, 1.5, None, "3"])
def test_retries_are_counted(value):
    with pytest.raises(ValueError, match="max_retries"):
        StreamExecutionOptions(max_retries=value)


def test_on_retry_is_called():
    with pytest.raises(ValueError, match="on_retry"):
        StreamExecutionOptions(on_retry=5)


def test_options_are_values():
    options = StreamExecutionOptions(idle_timeout=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.idle_timeout = 6
    assert options == StreamExecutionOptions(idle_timeout=5)
    assert dataclasses.replace(options, max_retries=2).max_retries == 2
