"""How a command ends: its exit code, and one line on stderr for what went wrong.

::

    0    every stream completed
    1    a stream was incomplete, failed or cancelled; its output is there all the same
    2    unusable input or arguments
    130  interrupted by Ctrl-C
    143  ended by SIGTERM
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable

from adk_stream.cli.show import visible
from adk_stream.errors import AdkStreamError

__all__ = [
    "COMPLETED",
    "INTERRUPTED",
    "UNFINISHED",
    "UNUSABLE",
    "UsageProblem",
    "code_of",
    "code_of_signal",
    "complain",
    "run_command",
]

COMPLETED, UNFINISHED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


class UsageProblem(Exception):
    """Arguments that make no sense, or that ask for what is not installed."""


#: What bad input and bad arguments raise; the message says all there is to say.
_EXPECTED = (UsageProblem, AdkStreamError, OSError, ValueError)


def run_command(command: Callable[[], int], *, debug: bool = False) -> int:
    """The exit code of ``command``; what it raises becomes one line on stderr, with ``debug`` the traceback too."""
    _prepare_output()
    try:
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return COMPLETED  # the reader has what it wanted
    except Exception as problem:
        if debug:
            traceback.print_exc()
        complain(problem)
        return UNUSABLE if isinstance(problem, _EXPECTED) else UNFINISHED
    return code


def complain(problem: BaseException | str, about: str = "") -> None:
    """One line on stderr."""
    text = problem if isinstance(problem, str) else str(problem)
    if not isinstance(problem, (str, UsageProblem, AdkStreamError, ValueError)):
        text = f"{type(problem).__name__}: {text}"
    line = " ".join(filter(None, ["adk-stream:", about and f"{about}:", *text.split()]))
    print(visible(line), file=sys.stderr, flush=True)


def code_of(statuses: Iterable[str | None]) -> int:
    """The exit code of a stream whose finals bear these; ``in_progress`` and None say nothing."""
    told = [status for status in statuses if status not in (None, "in_progress")]
    return COMPLETED if told and all(status == "completed" for status in told) else UNFINISHED


def code_of_signal(number: int) -> int:
    """The exit code of a command that a signal ended, as shells have it."""
    return 128 + number


def _prepare_output() -> None:
    """Nothing a model says may fail to print: UTF-8 to files and pipes, and a mark for what has no encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            encoding = None if stream.isatty() else "utf-8"
            reconfigure(encoding=encoding, errors="replace", newline="\n")


def _drop_output() -> None:
    """Let the interpreter's own flush at exit go nowhere, instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
