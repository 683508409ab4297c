"""``store_events``: from a stream of responses to the events of a session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Any

from adk_stream.response import LlmResponse

from .event import Event, new_id
from .service import SessionService
from .session import Session

__all__ = ["store_events"]


async def store_events(
    responses: AsyncIterable[LlmResponse] | Iterable[LlmResponse],
    service: SessionService,
    session: Session,
    author: str = "model",
    invocation_id: str | None = None,
) -> AsyncGenerator[Event, None]:
    """Yield every response as an event, the non-partial ones after they were appended to ``session``.

    Partial events bear the id of the non-partial one that follows them. When the consumer leaves, or an error
    comes out of ``responses``, what had come is stored already, and ``responses`` is closed before this ends.
    A plain ``break`` leaves closing to the garbage collector: use ``contextlib.aclosing``.

    Args:
        responses: A synchronous source is read on the event loop, which waits for each of its items.
        service: Where the session is stored.
        session: The session as last read; kept up to date.
        author: Who answers.
        invocation_id: Made when missing.

    Raises:
        StaleSessionError: somebody else appended to the session meanwhile; and whatever else ``append_event``
            or ``responses`` raises.
    """
    invocation_id = invocation_id or f"e-{new_id()}"
    event_id = new_id()
    source = aiter(responses) if isinstance(responses, AsyncIterable) else _in_async(responses)
    try:
        async for response in source:
            event = Event.from_response(response, author=author, invocation_id=invocation_id, id=event_id)
            if not event.partial:
                event = await service.append_event(session, event)
                event_id = new_id()
            yield event
    finally:
        await _close(source)


async def _in_async(responses: Iterable[LlmResponse]) -> AsyncIterator[LlmResponse]:
    source = iter(responses)
    try:
        for response in source:
            yield response
    finally:
        if (close := getattr(source, "close", None)) is not None:
            close()


async def _close(source: Any) -> None:
    if (aclose := getattr(source, "aclose", None)) is not None:
        await aclose()
