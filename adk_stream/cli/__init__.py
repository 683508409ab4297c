"""The ``adk-stream`` command.

Each command has a module of its own, which is imported when it runs: so ``--help`` loads neither google-genai,
pydantic, SQLAlchemy nor rich, and answers at once.
"""

from __future__ import annotations

import os
import sys
import threading

__all__ = ["main"]


def main() -> None:
    """Run the command that ``sys.argv`` tells, and exit."""
    try:
        import typer  # noqa: F401
    except ImportError:
        print("adk-stream: the command line needs typer: pip install 'adk-stream[cli]'", file=sys.stderr)
        sys.exit(2)
    from adk_stream.cli.app import app

    try:
        app(prog_name="adk-stream")
    except SystemExit as end:
        if isinstance(end.code, int) and _threads_are_left():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


def _threads_are_left() -> bool:
    """Whether a tool of the user's is still at work after its run was cancelled: a thread cannot be stopped.

    The interpreter would wait for it; what is to be stored is stored already.
    """
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    mine = [thread for thread in others if not thread.daemon]
    for thread in mine:
        thread.join(_GRACE)
    return any(thread.is_alive() for thread in mine)


_GRACE = 0.2  # seconds; idle threads end at once
