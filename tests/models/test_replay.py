"""A model without a provider: recordings in turn, and what was asked for them."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing

import pytest
from google.genai import types

from adk_stream import aggregate_async, models
from adk_stream.errors import RecordingError
from adk_stream.models import MODELS, Model, ModelRequest, ReplayModel, model_from_name
from adk_stream.recording import Piece, Recording, save_recording


def chat(text, finish="stop"):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def gemini(text):
    return {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}


def sse(*events):
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def ask(text="hi"):
    return ModelRequest([types.Content(role="user", parts=[types.Part(text=text)])])


async def final_of(model, request):
    async with aclosing(model.stream(request)) as items:
        *_, final = [response async for response in aggregate_async(items, model.provider)]
    return final


def texts_of(model, rounds):
    async def main():
        return [(await final_of(model, ask(str(n)))).text for n in range(rounds)]

    return asyncio.run(main())


def test_rounds_of_every_form_in_turn(tmp_path):
    path = tmp_path / "one.sse"
    path.write_bytes(sse(chat("one")))
    own = tmp_path / "two.rec.jsonl"
    save_recording(Recording.from_bytes(sse(chat("two"))), own)
    model = ReplayModel(
        [path, str(own), sse(chat("three")), Recording.from_bytes(sse(chat("four"))), [chat("fi", None), chat("ve")]]
    )
    assert isinstance(model, Model)
    assert (model.name, model.provider) == ("replay", "auto"), "a list of events does not say"
    assert texts_of(model, 5) == ["one", "two", "three", "four", "five"]
    assert [request.messages[0].parts[0].text for request in model.requests] == list("01234")


def test_the_line_is_what_the_recordings_say():
    assert ReplayModel([sse(chat("a")), sse(chat("b"))]).provider == "openai-chat"
    assert ReplayModel(sse(gemini("a"))).provider == "gemini", "one recording stands for itself"
    assert ReplayModel([[gemini("a")]], provider="gemini", name="mine").provider == "gemini"
    mixed = ReplayModel([sse(chat("a")), sse(gemini("b"))])
    assert mixed.provider == "auto"
    assert texts_of(mixed, 2) == ["a", "b"]


def test_after_the_last_round_it_says_so_or_begins_again():
    model = ReplayModel([sse(chat("a")), sse(chat("b"))])
    assert texts_of(model, 2) == ["a", "b"]
    with pytest.raises(RecordingError, match="'replay' was asked 3 times and has 2 recordings"):
        asyncio.run(final_of(model, ask()))
    assert len(model.requests) == 2
    assert texts_of(ReplayModel([sse(chat("a")), [chat("b")]], repeat=True), 5) == ["a", "b", "a", "b", "a"]


def test_an_exception_is_raised_where_it_stands():
    model = ReplayModel([[chat("a", None), ConnectionResetError("gone")]], provider="openai-chat")

    async def main():
        stream = model.stream(ask())
        assert await anext(stream) == chat("a", None)
        with pytest.raises(ConnectionResetError, match="gone"):
            await anext(stream)

    asyncio.run(main())


def test_nothing_is_asked_before_the_first_item():
    model = ReplayModel([sse(chat("a"))])

    async def main():
        await model.stream(ask()).aclose()

    asyncio.run(main())
    assert model.requests == []
    assert texts_of(model, 1) == ["a"]


def test_the_pace():
    slow = Recording((Piece(0.0, sse(chat("a", None))), Piece(0.4, sse(chat("b")))), "openai-chat")
    took = {}
    for pace in (0.0, 0.5):
        start = time.monotonic()
        assert texts_of(ReplayModel([slow], pace=pace), 1) == ["ab"]
        took[pace] = time.monotonic() - start
    assert took[0.5] >= 0.2
    assert took[0.0] < took[0.5]


def test_streams_at_once_have_a_round_each():
    model = ReplayModel([[chat(text, None), chat(text)] for text in "abcd"], provider="openai-chat")

    async def main():
        return await asyncio.gather(*(final_of(model, ask()) for _ in range(4)))

    assert sorted(final.text for final in asyncio.run(main())) == ["aa", "bb", "cc", "dd"]


@pytest.mark.parametrize(
    ("rounds", "options", "error", "said"),
    [
        ([], {}, RecordingError, "no recording to play"),
        (["missing.sse"], {}, RecordingError, "missing.sse"),
        ([b" "], {}, RecordingError, "round 1: the recording is empty"),
        ([b"x"], {"pace": -1}, ValueError, "pace is a factor from 0"),
        ([b"x"], {"pace": float("nan")}, ValueError, "pace is a factor from 0"),
    ],
)
def test_what_cannot_be_played_is_said_at_once(rounds, options, error, said):
    with pytest.raises(error, match=said):
        ReplayModel(rounds, **options)


# ----------------------------------------------------------------- the room's face


def test_a_model_by_its_name(tmp_path):
    path = tmp_path / "turn:1.sse"
    path.write_bytes(sse(chat("a")))
    model = model_from_name(f"replay:{path}")
    assert texts_of(model, 1) == ["a"]
    for provider in MODELS.keys() - {"replay"}:
        made = model_from_name(f"{provider}:some:model/name")
        assert isinstance(made, Model)
        assert (made.name, made.provider) == ("some:model/name", provider)


@pytest.mark.parametrize("name", ["", "gemini", "gemini:", ":x", "else:x"])
def test_what_names_no_model(name):
    with pytest.raises(ValueError, match=r"PROVIDER:NAME|no provider"):
        model_from_name(name)


def test_every_name_of_the_room_is_there():
    for name in models.__all__:
        assert getattr(models, name) is not None
        assert name in dir(models)
    with pytest.raises(AttributeError, match="nothing"):
        _ = models.nothing
