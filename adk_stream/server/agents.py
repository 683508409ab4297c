"""The models of a service by name, each with a runner over the one session store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from adk_stream.models import ReplayModel, model_from_name
from adk_stream.runner import Runner

from .problems import Problem
from .telemetry import Telemetry

if TYPE_CHECKING:
    from adk_stream.models.request import Model, ToolLike
    from adk_stream.sessions import SessionService

    from .config import ServerConfig

__all__ = ["Agents"]


class Agents:
    """What clients may ask.

    Raises:
        ValueError: a model's name is none.
        MissingExtraError: telemetry is asked for, and OpenTelemetry is not installed.
        RecordingError: a recording cannot be read.
    """

    def __init__(self, config: ServerConfig, service: SessionService) -> None:
        self._config = config
        self._service = service
        self._telemetry = Telemetry(config.telemetry)
        opened = {name: _opened(model) if isinstance(model, str) else model for name, model in config.models.items()}
        self._models: dict[str, Model] = {name: self._telemetry.model(model) for name, model in opened.items()}
        self._runners = {name: self._runner(name) for name in self._models}

    @property
    def names(self) -> list[str]:
        """All of them, in the order of the configuration."""
        return list(self._models)

    def model(self, name: str) -> Model:
        """The model of that name.

        Raises:
            Problem: 404, there is none.
        """
        if name not in self._models:
            raise Problem(404, f"there is no model {name!r}")
        return self._models[name]

    def name(self, given: str | None) -> str:
        """The name that the client gave, or the only one there is.

        Raises:
            Problem: 404, there is none of that name; 422, none was given and there are several.
        """
        if given is not None:
            self.model(given)
            return given
        if len(self._models) > 1:
            raise Problem(422, f"name one of the models: {', '.join(self._models)}")
        return next(iter(self._models))

    def runner(self, name: str, client_tools: Iterable[ToolLike] = ()) -> Runner:
        """A runner of that model.

        Args:
            name: As ``model`` takes it.
            client_tools: Declarations of tools that the client runs, for this run alone.

        Raises:
            Problem: 404, there is no such model; 422, the tools cannot be used.
        """
        self.model(name)
        tools = list(client_tools)
        if not tools:
            return self._runners[name]
        try:
            return self._runner(name, tools)
        except (TypeError, ValueError) as error:
            raise Problem(422, f"tools: {error}") from error

    def _runner(self, name: str, client_tools: Sequence[Any] = ()) -> Runner:
        config = self._config
        return Runner(
            self._models[name],
            [*config.tools, *client_tools],
            session_service=self._service,
            app_name=name,
            instruction=config.instruction,
            execution=config.execution,
            **{"observer": self._telemetry.observer(name), **config.runner_options},
        )


def _opened(name: str) -> Model:
    """The model of that name; a recording is played as often as it is asked for, in its own time."""
    provider, _, file = name.partition(":")
    return ReplayModel(file, pace=1.0, repeat=True) if provider == "replay" and file else model_from_name(name)
