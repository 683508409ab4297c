"""The contract's laws on Chat Completions streams of servers that identify their tool calls badly.

The laws that every line shares hold on well-formed streams (``tests/contract``). Here the calls of a message are told
apart by whatever a server leaves: an index, an id, a name, or the order alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, aggregate
from adk_stream.providers import DONE

law = settings(max_examples=50, deadline=None)
flushes = st.sampled_from(["close", "boundary"])

# ----------------------------------------------------------------- calls, and how a server tells them apart

#: An index that is another for each call and the same for all its fragments.
TELLING = {
    "legal": lambda call, at: call,
    "from_one": lambda call, at: call + 1,
    "string": lambda call, at: str(call),
    "gaps": lambda call, at: 7 * call + 3,
    "backwards": lambda call, at: 9 - call,
}
#: An index that tells nothing; ``...`` stands for none at all.
SILENT = {
    "missing": lambda call, at: ...,
    "null": lambda call, at: None,
    "zero": lambda call, at: 0,
    "drifting": lambda call, at: at,
}
IDS = ("first", "every", "empty_later", "null_later", "late", "never")
NAMES = ("first", "every", "pieces", "after", "null_later", "empty_later")
TOOLS = ("read", "clock", "go_to")  # none is the beginning of another


@dataclass(frozen=True)
class Source:
    """A call as the model meant it; ``text`` is its arguments on the wire."""

    id: str
    name: str
    text: str

    @property
    def args(self) -> Any:
        return json.loads(self.text) if self.text.strip() else {}


@dataclass(frozen=True)
class Habit:
    """How a server identifies the fragments of its calls."""

    index: str
    ids: str
    names: str

    @property
    def index_tells(self) -> bool:
        return self.index in TELLING

    @property
    def is_decidable(self) -> bool:
        """Can calls that come one after the other be told apart?

        Without an index that tells, the first fragment of a call must bear a new id or a name. An index that drifts
        is a new one with each fragment: without an id from the first on, a name at a new index is another call.
        """
        if self.index == "drifting" and self.ids in ("late", "never"):
            return self.names in ("first", "null_later", "empty_later")
        return self.index_tells or self.names != "after" or self.ids not in ("late", "never")

    @property
    def may_interleave(self) -> bool:
        """Does each fragment tell its call? A new id at a place that is taken opens a call if a name comes with it."""
        return self.index_tells or (
            self.ids == "every" and (self.names != "after" or self.index in ("missing", "null"))
        )

    @property
    def may_be_empty(self) -> bool:
        """Can a call without a word of arguments be told from the beginning of a call?"""
        if self.index_tells:
            return True
        return self.ids in ("first", "every", "empty_later", "null_later") and self.names != "after"


@st.composite
def habits(draw: Any) -> Habit:
    habit = st.builds(Habit, st.sampled_from([*TELLING, *SILENT]), st.sampled_from(IDS), st.sampled_from(NAMES))
    return draw(habit.filter(lambda each: each.is_decidable))


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(['a"b\\', "{", "}]", "😀"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=3)


@st.composite
def sources(draw: Any, habit: Habit) -> list[Source]:
    calls = []
    for number in range(draw(st.integers(0, 4))):
        text = json.dumps(
            draw(objects), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))
        )
        if habit.may_be_empty and draw(st.integers(0, 5)) == 0:
            text = ""
        calls.append(Source(f"call_{number}", draw(st.sampled_from(TOOLS)), text))
    return calls


def cut(draw: Any, text: str, most: int = 4) -> list[str]:
    """The text in pieces, some of them empty perhaps."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=most)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def fragments(draw: Any, habit: Habit, number: int, call: Source) -> list[dict[str, Any]]:
    """The entries of ``tool_calls`` that a call comes in; indexes are put on when their order is known."""
    texts = cut(draw, call.text)
    if habit.ids != "every" and not habit.index_tells and habit.names != "every":
        while len(texts) > 1 and not texts[-1]:
            texts.pop()  # the JSON closes with the last fragment: what comes later might belong to anyone
    entries: list[dict[str, Any]] = [{"function": {"arguments": text}} for text in texts]
    names = [each["function"] for each in entries]
    if habit.names == "pieces":
        at = draw(st.integers(1, len(call.name)))
        heads = [{"function": {"name": piece, "arguments": ""}} for piece in (call.name[:at], call.name[at:]) if piece]
        entries = [*heads, *entries]
    elif habit.names == "after":
        entries.append({"function": {"name": call.name}})
    else:
        names[0]["name"] = call.name
        for each in names[1:]:
            if habit.names == "every":
                each["name"] = call.name
            elif habit.names != "first":
                each["name"] = None if habit.names == "null_later" else ""
    if habit.ids == "late":
        if len(entries) == 1:
            entries.append({"function": {"arguments": ""}})
        entries[-1]["id"] = call.id
    elif habit.ids != "never":
        entries[0]["id"] = call.id
        for each in entries[1:]:
            if habit.ids != "first":
                each["id"] = {"every": call.id, "empty_later": "", "null_later": None}[habit.ids]
    for each in entries:
        each["call"] = number
    return entries


def interleaved(draw: Any, streams: list[list[Any]]) -> list[Any]:
    """Any order of all items that begins the streams one after the other."""
    waiting, order, begun = [list(each) for each in streams], [], 0
    while any(waiting):
        choices = [number for number in range(begun) if waiting[number]] + [begun] * (begun < len(streams))
        number = draw(st.sampled_from(choices))
        begun = max(begun, number + 1)
        order.append(waiting[number].pop(0))
    return order


def chunk(delta: Any = None, finish: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


@dataclass(frozen=True)
class Case:
    """A stream without its end, and what it means."""

    habit: Habit
    calls: list[Source]
    events: list[Any]

    @property
    def stream(self) -> list[Any]:
        return [*self.events, chunk(finish="tool_calls" if self.calls else "stop"), DONE]


@st.composite
def cases(draw: Any, talk: bool = False) -> Case:
    """Calls in fragments, as ``habit`` identifies them; with ``talk`` text and thought stand between."""
    habit = draw(habits())
    calls = draw(sources(habit))
    pieces = [fragments(draw, habit, number, call) for number, call in enumerate(calls)]
    mixed = habit.may_interleave and draw(st.booleans())
    order = interleaved(draw, pieces) if mixed else [each for entries in pieces for each in entries]
    index = {**TELLING, **SILENT}[habit.index]
    groups: list[list[dict[str, Any]]] = []
    owners: set[int] = set()
    for at, each in enumerate(order):
        owner = each.pop("call")
        wire_index = index(owner, at)
        if wire_index is not ...:
            each["index"] = wire_index
        if groups and owner not in owners and draw(st.integers(0, 3)) == 0:  # one event may speak of several calls
            groups[-1].append(each)
            owners.add(owner)
        else:
            groups.append([each])
            owners = {owner}
    events = [chunk({"tool_calls": group}) for group in groups]
    if talk:
        said = st.sampled_from(["content", "reasoning_content"])
        for field, text in draw(st.lists(st.tuples(said, st.text("ab \n", max_size=5)), max_size=5)):
            events.insert(draw(st.integers(0, len(events))), chunk({field: text}))
    return Case(habit, calls, events)


# ----------------------------------------------------------------- reading


def run(events: list[Any], **options: Any) -> list[LlmResponse]:
    return list(aggregate(iter(events), provider="openai-chat", **options))


def kept(responses: list[LlmResponse]) -> list[Any]:
    return [part for each in responses if not each.partial for part in each.parts]


def calls_in(responses: list[LlmResponse]) -> list[Any]:
    return [part.function_call for part in kept(responses) if part.function_call is not None]


def dumps(responses: list[LlmResponse]) -> list[dict[str, Any]]:
    """Comparable responses: ids that are made up here differ from run to run."""
    dumped = [each.model_dump(exclude_none=True) for each in responses]
    made: dict[str, str] = {}
    for each in dumped:
        for part in each.get("content", {}).get("parts") or ():
            ident = part.get("function_call", {}).get("id") or ""
            if ident.startswith("adk-"):
                part["function_call"]["id"] = made.setdefault(ident, f"made {len(made)}")
    return dumped


# ----------------------------------------------------------------- 2, 5, 18: tool calls


@settings(max_examples=800, deadline=None)
@given(case=cases(), flush=flushes)
def test_2_18_every_fragment_reaches_its_call(case: Case, flush: str) -> None:
    responses = run(case.stream, flush=flush)
    got = calls_in(responses)
    assert [(call.name, call.args) for call in got] == [(call.name, call.args) for call in case.calls]
    assert len({call.id for call in got}) == len(got)
    if case.habit.ids != "never":
        assert [call.id for call in got] == [call.id for call in case.calls]
    assert responses[-1].status == ("completed" if case.calls else responses[-1].status)
