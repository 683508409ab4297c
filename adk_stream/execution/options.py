"""StreamExecutionOptions: how long to wait for a stream, and how often to try again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from adk_stream.errors import StreamError

__all__ = ["OnRetry", "StreamExecutionOptions"]

#: Told before a wait: the failure, the next attempt (counted from 1), how many there may be, seconds of the wait.
OnRetry = Callable[[StreamError, int, int, float], Any]

_LIMITS = ("first_token_timeout", "idle_timeout", "content_timeout", "total_timeout")


@dataclass(frozen=True, slots=True)
class StreamExecutionOptions:
    """Time limits and retries of one stream; all times in seconds.

    Only waiting counts: the time from the consumer's request for the next response until something comes. What the
    consumer does between two responses takes nothing from any limit. None switches a limit off.

    Attributes:
        first_token_timeout: Until the first event that says something, connecting included; of each attempt.
        idle_timeout: After that, until the next bytes; any bytes restart it, a ping too.
        content_timeout: Until the next response that has something to show; pings do not restart it.
        total_timeout: Of the whole execution, with all attempts and the waits between them.
        max_retries: How often to begin again after a fault that may pass, while nothing was shown.
        retry_backoff: The wait before the first retry; it doubles with each further one.
        retry_max_backoff: The longest of these waits.
        retry_jitter: Up to this share of a wait is added at random, so that clients do not come back all at once.
        retry_max_after: The longest wait that a provider may ask for (``Retry-After``).
        end_grace: After the terminal sign, where the line has no end mark that it waits for: how long usage and the
            like may still come.
        close_timeout: How long closing the connection may take.
        on_retry: Called before each wait with the failure, the number of the next attempt, how many attempts there
            may be, and the seconds of the wait.

    Raises:
        ValueError: a value is out of range.
    """

    first_token_timeout: float | None = 30.0
    idle_timeout: float | None = 30.0
    content_timeout: float | None = None
    total_timeout: float | None = None
    max_retries: int = 0
    retry_backoff: float = 0.5
    retry_max_backoff: float = 30.0
    retry_jitter: float = 0.25
    retry_max_after: float = 60.0
    end_grace: float = 1.0
    close_timeout: float = 5.0
    on_retry: OnRetry | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise ValueError(f"max_retries is a count from 0, not {self.max_retries!r}")
        for field in fields(self):
            value, name = getattr(self, field.name), field.name
            if name in _LIMITS:
                if value is not None and not (_is_number(value) and value > 0):
                    raise ValueError(f"{name} is seconds above 0, or None, not {value!r}")
            elif name not in ("max_retries", "on_retry") and not (_is_number(value) and 0 <= value < math.inf):
                raise ValueError(f"{name} is a number from 0, not {value!r}")
        if self.on_retry is not None and not callable(self.on_retry):
            raise ValueError(f"on_retry is a function, not {self.on_retry!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
