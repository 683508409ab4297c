"""What the tests of the models share: what a model sends and gets, and the official types to judge it by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cache
from pathlib import Path

from google.genai import types
from pydantic import TypeAdapter

from adk_stream import aggregate_async
from adk_stream.models.request import ModelRequest

RECORDINGS = Path(__file__).parents[2] / "samples" / "recordings"


def ask(*messages, **fields):
    """A request; strings are the user's."""
    return ModelRequest([said(each) if isinstance(each, str) else each for each in messages or ("hi",)], **fields)


def said(*parts):
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return types.Content(role="user", parts=made)


def configured(**settings):
    return ask(config=types.GenerateContentConfig(**settings))


def call(name="look", id="c1", **args):
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))


def called(*parts):
    return types.Content(role="model", parts=list(parts))


def result(id="c1", name="look", parts=None, **response):
    told = types.FunctionResponse(id=id, name=name, response=response, parts=parts)
    return types.Part(function_response=told)


def blob(mime_type, data=b"\x89x", **fields):
    return types.Part(inline_data=types.Blob(mime_type=mime_type, data=data, **fields))


def reference(uri, mime_type=None):
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def look(city: str, days: int = 1) -> str:
    """Look out of the window."""
    return city * days


def wave() -> None:
    """Wave a hand."""


def check(form, value):
    """Judge a body by the official client's own type; its lists are judged only when they are read."""
    _read(_adapter(form).validate_python(value))


@cache
def _adapter(form):
    return TypeAdapter(form)


def _read(value):
    if isinstance(value, Mapping):
        for each in value.values():
            _read(each)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in value:
            _read(each)


async def raw(model, request):
    return b"".join([piece async for piece in model.stream(request)])


async def finals(model, request):
    """The non-partial responses to one request."""
    return [each async for each in aggregate_async(model.stream(request), model.provider) if not each.partial]


@asynccontextmanager
async def silent_server(first, content_type="text/event-stream"):
    """A server that answers with some bytes and then says no more; and an event that says that the client has left."""
    left = asyncio.Event()

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await reader.readexactly(length)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        writer.write(b"%x\r\n%s\r\n" % (len(first), first))
        await writer.drain()
        try:
            await reader.read()  # until the client closes the connection
        except ConnectionError:
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", left


async def leaves_early(make_model, first):
    """Take the first bytes and close the generator: the server must notice soon, and nothing may be left running."""
    async with silent_server(first) as (url, left):
        before = asyncio.all_tasks()
        model = make_model(url)  # a client that is let go closes itself in a task of its own
        async with aclosing(model.stream(ask())) as pieces:
            assert await anext(pieces) == first
        await asyncio.wait_for(left.wait(), 2)
        await asyncio.sleep(0.05)  # asyncio closes the generators inside of older clients a step later
        left_over = [task for task in asyncio.all_tasks() - before if "answer" not in repr(task.get_coro())]
        assert (model.name, left_over) == ("m", [])


async def is_cancelled(make_model, first):
    """Cancel the task that waits for more: the server must notice soon."""
    async with silent_server(first) as (url, left):
        task = asyncio.create_task(raw(make_model(url), ask()))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task], timeout=2)
        assert task.cancelled()
        await asyncio.wait_for(left.wait(), 2)
