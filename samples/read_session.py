"""What a session store holds: `python samples/read_session.py [DATABASE-URL]`.

Without a URL it fills a store in memory with two recordings first.
"""

import asyncio
import sys
from pathlib import Path

from adk_stream import aggregate
from adk_stream.sessions import Event, InMemorySessionService, SessionService, SqlSessionService, store_events

RECORDINGS = Path(__file__).parent / "recordings"


async def filled() -> SessionService:
    service = InMemorySessionService()
    session = await service.create_session(app_name="samples", user_id="me")
    for name in ("code-execution.sse", "cut-stream.sse"):
        stream = aggregate([(RECORDINGS / name).read_bytes()], flush="boundary")
        async for _ in store_events(stream, service, session, author="model"):
            pass  # partial events come by here too; only the others are stored
    return service


def line_of(event: Event) -> str:
    """One line: who, how it ended, and what it holds."""
    end = " ".join(filter(None, (event.status, event.error_code)))
    text = event.text or event.thought_text
    names = [next(iter(part.model_dump(exclude_none=True)), "nothing") for part in event.parts]
    return f"  {event.author}  {end:<25} {', '.join(names)}  {text[:40]!r}"


async def main(url: str | None) -> None:
    async with SqlSessionService(url) if url else await filled() as service:
        for app in ("samples", "adk-stream"):
            listed = await service.list_sessions(app_name=app)
            for each in listed.sessions:  # without their events
                session = await service.get_session(app_name=app, user_id=each.user_id, session_id=each.id)
                print(f"{app} / {each.user_id}: {len(session.events)} events")
                print("\n".join(map(line_of, session.events)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
