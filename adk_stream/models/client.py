"""The official client behind a model: the user's own, or one that the model makes.

What holds for all of them: answers are taken as raw bytes (``with_streaming_response``), since the typed streams
validate every event at about ten times the cost of this package's own readers. Errors of HTTP are the clients' own
typed errors all the same. Bodies go in as ``extra_body``: they are this package's own work already, and the field by
field conversion that openai applies to its named arguments takes 65 to 160 ms for a history of 300 messages.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from contextlib import suppress
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from adk_stream.errors import MissingExtraError

__all__ = ["Clients", "import_extra"]


class Clients:
    """The client of one model, with its own retries off: whether to try again is decided above the models.

    Without a client of the user's, one is made from the environment on first use, and kept; one for each event loop,
    since the open connections of a client belong to the loop that it was first used in.

    The package is imported here already: that takes a second or two, for which it would hold up all that runs in the
    event loop in which the client is made.

    Args:
        given: The user's client. It stays the user's to close; the one used here shares its connections.
        package: The client's package, which is also the name of its extra.
        name: The class that makes a client from the environment.
    """

    def __init__(self, given: Any, package: str, name: str) -> None:
        self._given = given if given is None else given.with_options(max_retries=0)
        self._package = package
        self._name = name
        if given is None:
            with suppress(MissingExtraError):  # told when a client is to be made
                import_extra(package, package)
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._traces = True

    def without_spans(self) -> Clients:
        """The same, of which none traces its calls by itself, as anthropic's do since 2.0."""
        other = copy.copy(self)
        other._traces = False
        other._given = self._given if self._given is None else _without_spans(self._given)
        other._made = WeakKeyDictionary()
        return other

    def current(self) -> Any:
        """The client to use now.

        Raises:
            MissingExtraError: none was given, and the package to make one is not installed.
        """
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            make = getattr(import_extra(self._package, self._package), self._name)
            client = make().with_options(max_retries=0)
            self._made[loop] = client if self._traces else _without_spans(client)
        return self._made[loop]


def _without_spans(client: Any) -> Any:
    switch = "open_telemetry" in inspect.signature(client.with_options).parameters
    return client.with_options(open_telemetry=False) if switch else client


def import_extra(package: str, extra: str) -> Any:
    """The package.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as missing:
        message = f"this model needs {missing.name or package}: pip install 'adk-stream[{extra}]'"
        raise MissingExtraError(message) from missing
