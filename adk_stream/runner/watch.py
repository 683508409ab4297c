"""``RunWatch``: where whoever measures or traces runs listens in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import Model, ModelRequest
    from adk_stream.sessions.event import Event

__all__ = ["Observer", "RunFacts", "RunWatch"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run before it begins.

    Attributes:
        app_name: The application of its session.
        user_id: Whose session it is.
        session_id: The session.
        invocation_id: Of the run, and of all its events.
        model: Who will be asked.
    """

    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    model: Model


class RunWatch:
    """Told what one run does; entered when it begins, left when it ends. Every method does nothing by default.

    All of it is called in the run's event loop, and must be quick. What is raised here ends the run.
    """

    def __enter__(self) -> Self:
        """The run begins."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        """The run is over. ``problem`` is how it was left; the last stored event tells how it ended."""

    def asks(self, request: ModelRequest) -> None:
        """The model is about to be asked; again for each retry.

        Called in the task that asks, which ends with the answer: context variables set here are seen by the model,
        and by nobody else.
        """

    def calls(self, call: types.FunctionCall) -> AbstractContextManager[Callable[[Any], None]]:
        """A function is about to run; entered and left in the task that it runs in.

        What the function raises, and its time limit, pass through on the way out. What it returns is given to the
        function that entering gives.
        """
        return nullcontext(_ignore)

    def stored(self, event: Event) -> None:
        """An event of the run is in the session."""


#: Makes the watch of a run; ``Runner(observer=…)``.
Observer: TypeAlias = "Callable[[RunFacts], RunWatch]"


def _ignore(value: Any) -> None:
    pass
