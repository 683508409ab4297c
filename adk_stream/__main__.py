"""``python -m adk_stream``: the ``adk-stream`` command."""

from __future__ import annotations

from adk_stream.cli import main

if __name__ == "__main__":
    main()
