"""One of several processes that count up one value in one session."""

from __future__ import annotations

import asyncio

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions

from adk_stream.integrations.google_adk import AdkSessionService


def count(url: str, session_id: str, times: int) -> None:
    asyncio.run(_count(url, session_id, times))


async def _count(url: str, session_id: str, times: int) -> None:
    key = {"app_name": "app", "user_id": "u", "session_id": session_id}
    async with AdkSessionService(url) as service:
        for _ in range(times):
            while True:
                session = await service.get_session(**key)
                actions = EventActions(state_delta={"count": session.state["count"] + 1})
                try:
                    await service.append_event(session, Event(author="a", invocation_id="i", actions=actions))
                    break
                except StaleSessionError:
                    continue
