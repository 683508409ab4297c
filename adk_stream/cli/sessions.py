"""``adk-stream sessions``: what was stored, to read, to hand on and to delete."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from adk_stream.cli.json_lines import json_of, json_of_model, write_line
from adk_stream.cli.outcome import COMPLETED
from adk_stream.cli.show import label_of, summary, visible
from adk_stream.cli.storage import open_store
from adk_stream.errors import SessionNotFoundError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.sessions import Event, Session, SessionService

__all__ = ["delete_session", "export_session", "list_sessions", "show_session"]

_SHORT_SIGNATURE = 12  # characters of base64


def list_sessions(url: str | None, app_name: str) -> int:
    """One line a session, the one updated last at the end."""

    async def command() -> None:
        async with _store(url) as service:
            found = await service.list_sessions(app_name=app_name)
        for session in found.sessions:
            events = f"{session.revision} event{'' if session.revision == 1 else 's'}"
            line = f"{session.id}  {_time(session.last_update_time)}  {events}  {session.user_id}"
            write_line(visible(line))

    asyncio.run(command())
    return COMPLETED


def show_session(url: str | None, app_name: str, session_id: str, *, as_json: bool) -> int:
    """The session's events part by part, or all of it as JSON."""
    session = asyncio.run(_read(url, app_name, session_id))
    if as_json:
        data = {
            **session.model_dump(by_alias=True, exclude={"events"}),
            "events": [json.loads(json_of_model(event)) for event in session.events],
        }
        write_line(json_of(data))
        return COMPLETED
    for event in session.events:
        for line in _lines(event):
            write_line(line)
    return COMPLETED


def export_session(url: str | None, app_name: str, session_id: str) -> int:
    """The session's events as JSON lines."""
    for event in asyncio.run(_read(url, app_name, session_id)).events:
        write_line(json_of_model(event))
    return COMPLETED


def delete_session(url: str | None, app_name: str, session_id: str) -> int:
    """Delete the session."""

    async def command() -> None:
        async with _store(url) as service:
            user_id = await _owner(service, app_name, session_id)
            await service.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    asyncio.run(command())
    print(visible(f"deleted session {session_id}"), file=sys.stderr)
    return COMPLETED


@asynccontextmanager
async def _store(url: str | None) -> AsyncIterator[SessionService]:
    service = open_store(url)
    try:
        yield service
    finally:
        await service.close()


async def _read(url: str | None, app_name: str, session_id: str) -> Session:
    async with _store(url) as service:
        user_id = await _owner(service, app_name, session_id)
        session = await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
    if session is None:  # deleted meanwhile
        raise SessionNotFoundError(f"there is no session {session_id!r}")
    return session


async def _owner(service: SessionService, app_name: str, session_id: str) -> str:
    """Whose session it is: the command line asks for its id alone."""
    found = await service.list_sessions(app_name=app_name)
    for session in found.sessions:
        if session.id == session_id:
            return session.user_id
    raise SessionNotFoundError(f"there is no session {session_id!r}")


# ----------------------------------------------------------------- for people to read


def _lines(event: Event) -> Iterator[str]:
    how = summary(event) if event.status else ""
    facts = (event.author, event.model_version, _time(event.timestamp), how)
    yield visible(" · ".join(" ".join(fact.split()) for fact in facts if fact))
    if event.error_message:
        yield from _indented(event.error_message)
    for part in event.parts:
        yield from _indented(_text_of(part) + _signature_of(part))
    for label, heard in (("heard", event.input_transcription), ("said", event.output_transcription)):
        if heard is not None and heard.text:
            yield from _indented(f"{label}: {heard.text}")


def _text_of(part: types.Part) -> str:
    if part.function_call is not None:
        call, metadata = part.function_call, part.part_metadata or {}
        if call.args is None:
            return f"call {call.name or ''} [not to be run] {metadata.get('raw_arguments') or ''}"
        cut = " [unfinished]" if metadata.get("unfinished") else ""
        return f"call {call.name or ''}{cut} {json.dumps(call.args, ensure_ascii=False)}"
    if part.text is not None and (part.text or not part.thought):
        return f"{'thought' if part.thought else 'text'}: {part.text}"
    return label_of(part) or ("thought" if part.thought else "part")


def _signature_of(part: types.Part) -> str:
    signature = part.thought_signature
    if not signature:
        return ""
    text = base64.b64encode(signature).decode()
    short = text if len(text) <= _SHORT_SIGNATURE else text[:_SHORT_SIGNATURE] + "…"
    return f" [signature {short}, {len(signature)} bytes]"


_indent: Callable[[str], str] = "  {}".format


def _indented(text: str) -> Iterator[str]:
    return map(_indent, visible(text).split("\n"))


def _time(seconds: float) -> str:
    """Local time; a stored number may be none that a clock shows."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(seconds)
