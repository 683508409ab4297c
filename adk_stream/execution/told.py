"""Sources that are told what became of their answer: where whoever measures a model listens in.

A source gives raw pieces. What they came to (the final, its usage, an error inside the data) is known only above it,
and to read the pieces a second time for that would cost as much as the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["Tell", "ToldSource"]

#: Takes the final (None: there is none), and the error that ended the attempt (None: it was read to its end). Called
#: once, in the event loop of the execution; it must be quick, and raise nothing.
Tell: TypeAlias = "Callable[[LlmResponse | None, BaseException | None], None]"


@runtime_checkable
class ToldSource(Protocol):
    """A source that wants to be told. ``execute`` asks each source that it opens."""

    def follow_outcome(self) -> Tell:
        """Called before the first piece is asked for. What it gives is called when the outcome is known."""
        ...
