"""``adk-stream serve``: the HTTP service, in the foreground, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from adk_stream.cli.model import open_model
from adk_stream.cli.outcome import COMPLETED, UsageProblem
from adk_stream.cli.storage import store_url

__all__ = ["Binding", "serve"]

#: Where the token is when no option says so.
TOKEN_VARIABLE = "ADK_STREAM_TOKEN"


@dataclass(frozen=True)
class Binding:
    """Where the service listens, and who may come in.

    Attributes:
        host: The address; without a token only one that this machine alone reaches.
        port: 0 takes a free one.
        token: None: ``$ADK_STREAM_TOKEN``, if it is set.
        cors_origins: Sites whose pages may call.
        allowed_hosts: The names that the service may be called by; none: see ``ServerConfig``.
    """

    host: str
    port: int
    token: str | None = None
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()


def serve(
    models: Sequence[str],
    binding: Binding,
    *,
    session_db: str | None = None,
    redis_url: str | None = None,
    max_runs: int,
    drain_seconds: float,
    access_log: bool = False,
) -> int:
    """Serve the models until a signal comes, which is how this ends well.

    Args:
        models: ``PROVIDER:NAME``, or ``AS=PROVIDER:NAME`` for another name towards the clients.
        binding: Where, and for whom.
        session_db: The store; as the other commands take it.
        redis_url: Where running streams are shared between processes.
        max_runs: Runs at once.
        drain_seconds: What runs are given to end when the service stops.
        access_log: A line on stderr for each request.

    Raises:
        UsageProblem: an argument that makes no sense, or a model without a key.
        MissingExtraError: the extra ``server`` is not installed.
        OSError: the address cannot be listened on.
    """
    from adk_stream.server import Limits, ServerConfig, ServiceServer, is_loopback, listen, make_app

    token = binding.token or os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(binding.host):
        raise UsageProblem(f"--host {binding.host} is reached from elsewhere: set --token or ${TOKEN_VARIABLE}")
    config = ServerConfig(
        models=_by_name(models),
        sessions=store_url(session_db),
        redis_url=redis_url,
        token=token,
        allowed_hosts=binding.allowed_hosts or None,
        cors_origins=binding.cors_origins,
        limits=Limits(max_runs=max_runs, drain_seconds=drain_seconds),
    )
    server = ServiceServer(make_app(config), log_level="info" if access_log else "warning", access_log=access_log)
    with listen(binding.host, binding.port, client_patience=config.limits.send_timeout) as listener:
        host, port = listener.getsockname()[:2]
        print(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}", flush=True)
        print(f"models: {', '.join(config.models)}", file=sys.stderr, flush=True)
        # uvicorn sends itself the signal again once it has ended well; it has been dealt with.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    return COMPLETED


def _by_name(models: Sequence[str]) -> dict[str, str]:
    """The models by the names that clients use.

    Raises:
        UsageProblem: two have one name, or one cannot be opened.
    """
    named: dict[str, str] = {}
    for given in models:
        name, equals, model = given.partition("=")
        if not equals or ":" in name:
            name, model = given.partition(":")[2].rpartition("/")[2], given
        if name in named:
            raise UsageProblem(f"--model: there are two models {name!r}; name one NAME=PROVIDER:NAME")
        open_model(model)  # tells of a missing key
        named[name] = model
    return named
