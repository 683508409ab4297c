"""The ``adk-stream`` command.

Each command has a module of its own, which is imported when it runs: so ``--help`` loads neither google-genai,
pydantic, SQLAlchemy nor rich, and answers at once.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that ``sys.argv`` tells, and exit."""
    try:
        import typer  # noqa: F401
    except ImportError:
        print("adk-stream: the command line needs typer: pip install 'adk-stream[cli]'", file=sys.stderr)
        sys.exit(2)
    from adk_stream.cli.app import app

    app(prog_name="adk-stream")
