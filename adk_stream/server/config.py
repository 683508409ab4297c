"""``ServerConfig``: everything that one service is set up with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .limits import Limits
from .observer import RunObserver
from .telemetry import TelemetryOptions

if TYPE_CHECKING:
    from adk_stream.execution import StreamExecutionOptions
    from adk_stream.models.request import Model, ToolLike
    from adk_stream.relay import RelayOptions
    from adk_stream.sessions import SessionService

__all__ = ["ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One service. It owns what it opens from a URL, and leaves to the caller what it was given open.

    Attributes:
        models: What is asked, by the name that clients use: as the application of a session, as google-adk's
            ``appName``, as OpenAI's ``model``. A text is ``PROVIDER:NAME``, or ``replay:FILE`` for a recording.
        sessions: The session store, or its URL: ``memory:``, ``sqlite:///…``, ``postgresql://…``. Services that share
            runs must share it.
        redis_url: Where running streams are passed on, so that any process can show a run of any other; None: in the
            memory of this process.
        relay: Bounds of what is passed on.
        token: What clients must send as ``Authorization: Bearer …``; None: nothing.
        allowed_hosts: The names by which the service may be called. None: any with a token, else this machine's own.
        cors_origins: Sites whose pages may call the service (``https://app.example``); none by default.
        public_health: Answer ``/health`` without the token.
        tools: What the models may call; see ``Runner``.
        instruction: What the models are told before a conversation.
        execution: Time limits and retries of each request to a model.
        runner_options: Further arguments of every ``Runner`` (``max_rounds``, ``confirm_tool``, …).
        cancel_when_left: Cancel a run when the client leaves the answer that it was started with. Without it a run
            goes on to its end, and can be followed again; a completion without a session always ends with its client.
        limits: Bounds of the service.
        observer: Told of every run.
        telemetry: Spans and metrics of models and runs by OpenTelemetry; None: where its API is installed.
    """

    models: Mapping[str, Model | str]
    sessions: SessionService | str = "memory:"
    redis_url: str | None = None
    relay: RelayOptions | None = None
    token: str | None = None
    allowed_hosts: Sequence[str] | None = None
    cors_origins: Sequence[str] = ()
    public_health: bool = False
    tools: Sequence[ToolLike] = ()
    instruction: str | None = None
    execution: StreamExecutionOptions | None = None
    runner_options: Mapping[str, Any] = field(default_factory=dict)
    cancel_when_left: bool = False
    limits: Limits = field(default_factory=Limits)
    observer: RunObserver = field(default_factory=RunObserver)
    telemetry: TelemetryOptions = None

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("a service needs a model")
        if self.token is not None and not self.token.strip():
            raise ValueError("the token is empty")
