"""``adk-stream chat``: lines in, answers out, with tools, on a stored session.

The event loop runs while there is an answer to read, and rests while the user types: so the line is read by
``input`` in the main thread, where readline edits it and Ctrl-C means what it means in every other program.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

from adk_stream.cli.agent import Agent, AskedAgent, Printer
from adk_stream.cli.outcome import COMPLETED, UNFINISHED

__all__ = ["chat"]

_PROMPT = "> "


def chat(asked: AskedAgent, printer: Printer, *, usage: bool) -> int:
    """Answer line after line, until there is none, an empty one, or Ctrl-C at the prompt.

    Args:
        asked: The agent to talk with.
        printer: Shows the events.
        usage: Tell each answer's tokens.

    Raises:
        UsageProblem: the model or a tool is none.
        SessionError: the store cannot be used.
        KeyboardInterrupt: Ctrl-C at the prompt.
    """
    code = COMPLETED
    with asyncio.Runner() as loop:
        agent = loop.run(Agent.open(asked))
        try:
            print(f"session {agent.session_id}", file=sys.stderr, flush=True)
            for line in _lines():
                answer = loop.run(agent.say(line, printer.show))
                printer.end_answer()
                answer.tell(whole=usage)
                if answer.signal == signal.SIGTERM:
                    return answer.code
                if answer.code != COMPLETED:
                    code = UNFINISHED
        finally:
            loop.run(agent.close())
    return code


def _lines() -> Iterator[str]:
    """What the user says, up to an empty line or the end of the input."""
    typed = sys.stdin.isatty()
    if typed:
        with suppress(ImportError):
            import readline  # noqa: F401  # input() edits lines by it
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=None if typed else "utf-8", errors="replace")
    while line := (_typed_line() if typed else sys.stdin.readline()).strip():
        yield line


def _typed_line() -> str:
    if not sys.stdout.isatty():  # the prompt is none of the answers
        print(_PROMPT, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline()
    try:
        return input(_PROMPT)
    except EOFError:
        print()
        return ""
