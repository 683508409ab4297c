"""A background response of OpenAI is gone on with by another process, from the snapshot of the one that died."""

import asyncio
import gc
import json

import pytest
from relay_material import collect, texts, until

from adk_stream import StreamingResponseAggregator
from adk_stream.errors import StreamOwnedError
from adk_stream.providers.line import Line
from adk_stream.sessions import Event, InMemorySessionService, SqlSessionService


def _events():
    """As the Responses API sends them, and again from a number on for ``starting_after``."""
    words = [f"word{number} " for number in range(40)]
    text = "".join(words)
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    response = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
    usage = {"input_tokens": 3, "output_tokens": 40, "total_tokens": 43}
    events = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.content_part.added", **place, "part": part | {"text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word} for word in words),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": response | {"status": "completed", "output": [item], "usage": usage},
        },
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


EVENTS = _events()


class Owner:
    """Reads the response and publishes it; what it needs to go on is in its snapshot."""

    def __init__(self, snapshot=None):
        state = json.loads(snapshot) if snapshot else None
        self.number = state["number"] if state else -1
        self.line = Line.restore(state["line"].encode("latin-1")) if state else Line("openai-responses")
        self.aggregator = (
            StreamingResponseAggregator.restore(state["aggregator"].encode("latin-1"))
            if state
            else StreamingResponseAggregator(flush="close")
        )

    def snapshot(self):
        parts = {"line": self.line.snapshot(), "aggregator": self.aggregator.snapshot()}
        return json.dumps(
            {name: data.decode("latin-1") for name, data in parts.items()} | {"number": self.number}
        ).encode()

    def responses(self, until=None):
        for event in EVENTS[self.number + 1 :]:  # starting_after
            if event["sequence_number"] == until:
                return
            for chunks in self.line.feed(event):
                for chunk in chunks:
                    yield from self.aggregator.process_response(chunk)
            self.number = event["sequence_number"]
        yield self.aggregator.close()

    async def work(self, producer, store, session, every, until=None):
        for count, response in enumerate(self.responses(until), 1):
            # One id for the whole answer: the store takes it once, whichever process brings it.
            event = Event.from_response(response, author="model", invocation_id="i", id="answer-1")
            if not event.partial:
                await store.append_event(session, event)
            await producer.publish(event)
            if count % every == 0:
                await producer.save(self.snapshot())


@pytest.mark.parametrize(
    ("until_event", "every"), [(0, 5), (3, 1), (20, 1), (20, 7), (20, 1000), (len(EVENTS) - 1, 9), (None, 9)]
)
def test_followers_notice_nothing(relays, tmp_path, until_event, every):
    whole = list(Owner().responses())

    async def test(relays):
        here, there = await relays.open(lease=0.3), await relays.open(lease=0.3)
        store = InMemorySessionService() if relays.kind == "memory" else SqlSessionService(f"sqlite:///{tmp_path}/s.db")
        async with store:
            session = await store.create_session(app_name="a", user_id="u", session_id="s")
            producer = await here.open("s", session=session, takeover=10)
            follower = asyncio.create_task(collect(there))
            await Owner().work(producer, store, session, every, until_event)
            await asyncio.sleep(0.05)
            del producer
            if relays.kind == "redis":
                await here.close()
            gc.collect()
            heirs = []

            async def try_to_take_over():
                try:
                    heirs.append(await there.take_over("s"))
                except StreamOwnedError:
                    return False
                return True

            await until(try_to_take_over)
            session = await store.get_session(app_name="a", user_id="u", session_id="s")
            await Owner(heirs[0].snapshot).work(heirs[0], store, session, every)
            await heirs[0].finish()
            items = await follower
            return items, await store.get_session(app_name="a", user_id="u", session_id="s")

    items, session = relays.run(test)
    assert texts(items) == [*(response.text for response in whole), "completed"]
    assert [event.text for event in session.events] == [whole[-1].text]
    assert session.events[0].status == "completed"
