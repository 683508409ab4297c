"""Signals that ask a command to leave, taken while it reads an answer, so that what had come is stored first."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["noticed_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noticed_signals(stop: Callable[[], object]) -> Iterator[list[int]]:
    """While entered, SIGINT and SIGTERM call ``stop`` in the running event loop, and end nothing themselves.

    Where the event loop takes no signals (Windows), they do what they always do.

    Yields:
        The numbers of the signals that have come.
    """
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def notice(number: int) -> None:
        came.append(number)
        stop()

    taken: list[signal.Signals] = []
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:  # a shell keeps Ctrl-C from what runs in the background
            continue
        try:
            loop.add_signal_handler(number, notice, number)
        except (NotImplementedError, RuntimeError):
            continue
        taken.append(number)
    try:
        yield came
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
