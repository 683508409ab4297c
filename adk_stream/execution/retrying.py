"""When to begin again, and after how long: the options in tenacity's words."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

import tenacity
from tenacity.stop import stop_base

from adk_stream.errors import StreamError
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.patience import Patience

__all__ = ["retry_arguments"]

_State = tenacity.RetryCallState


def retry_arguments(
    options: StreamExecutionOptions,
    patience: Patience,
    may_retry: Callable[[BaseException], bool],
    sleep: Callable[[float], Any],
) -> dict[str, Any]:
    """The arguments of ``tenacity.Retrying`` and ``AsyncRetrying``; the last error is the one that is raised.

    Both functions are methods of the execution, and held weakly: tenacity's objects refer to themselves, and would
    keep an execution that was let go, and its connection, until the next garbage collection.
    """
    return {
        "retry": tenacity.retry_if_exception(_weakly(may_retry)),
        "stop": tenacity.stop_after_attempt(options.max_retries + 1) | _TooLong(options, patience),
        "wait": _waits(options),
        "sleep": _weakly(sleep),
        "before_sleep": _teller(options),
        "reraise": True,
    }


def _waits(options: StreamExecutionOptions) -> Callable[[_State], float]:
    backoff = tenacity.wait_exponential(multiplier=options.retry_backoff, max=options.retry_max_backoff)

    def wait(state: _State) -> float:
        asked = getattr(_failure(state), "retry_after", None)
        seconds = backoff(state) if asked is None else min(asked, options.retry_max_after)
        return seconds * (1 + random.uniform(0, options.retry_jitter))

    return wait


class _TooLong(stop_base):
    """No wait that could only end in the total limit."""

    def __init__(self, options: StreamExecutionOptions, patience: Patience) -> None:
        self._total = options.total_timeout
        self._patience = patience

    def __call__(self, state: _State) -> bool:
        return self._total is not None and self._patience.waited + state.upcoming_sleep >= self._total


def _teller(options: StreamExecutionOptions) -> Callable[[_State], None] | None:
    tell = options.on_retry
    if tell is None:
        return None

    def before_sleep(state: _State) -> None:
        failure = _failure(state)
        assert isinstance(failure, StreamError)
        tell(failure, state.attempt_number + 1, options.max_retries + 1, state.upcoming_sleep)

    return before_sleep


def _failure(state: _State) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def _weakly(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    reference = weakref.WeakMethod(method)

    def call(argument: Any) -> Any:
        bound = reference()
        assert bound is not None  # it runs only while the execution is iterated
        return bound(argument)

    return call
