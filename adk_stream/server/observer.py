"""``RunObserver``: where whoever measures or traces the service listens in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

    from .runs import ServedRun

__all__ = ["RunObserver"]


class RunObserver:
    """Told of every run of the service, in its event loop. Every method does nothing by default, and must be quick."""

    def began(self, run: ServedRun) -> None:
        """The run was accepted."""

    def published(self, run: ServedRun, response: LlmResponse) -> None:
        """Followers can see ``response``."""

    def ended(self, run: ServedRun, error: Exception | None) -> None:
        """The run is over; ``run.status`` and ``run.seconds`` tell how. ``error``: what it raised."""
