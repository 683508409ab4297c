"""Which item of a Responses stream an event speaks of.

By its ``output_index``, never by id alone: ids may change from event to event. Where a server leaves the
index out, gives one index to several items, or the beginning of an item was missed, ids, kinds and order do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adk_stream.providers.openai_responses_items import CALLS, Item

__all__ = ["ItemPlaces"]

Event = Mapping[str, Any]

_NO_INDEX = -(1 << 62)
#: What an item surely says of itself, where its beginning was missed.
_IMPLIED = {"message": {"role": "assistant"}}


class ItemPlaces(msgspec.Struct):
    """The items of one response.

    Attributes:
        items: In order of first appearance.
        at: Each ``output_index`` of the wire, and the number in ``items`` of the item that it means now.
        places, top: The places that are taken, and the last of them.
    """

    items: list[Item] = []
    at: dict[int, int] = {}
    places: set[int] = set()
    top: int = -1

    def find(self, event: Event, kind: str, raw: Mapping[str, Any] | None = None, done: bool = False) -> Item | None:
        """The item of this type that an event speaks of: by its place, else by id, else the newest.

        Some servers give several items one index: another kind of item there, or one that is added after
        another was done, is another item.
        """
        index = event.get("output_index")
        identifier = event.get("item_id") if raw is None else raw.get("id")
        if type(index) is int:
            number = self.at.get(index)
            if number is None:
                return None
            at_place = self.items[number]
            if at_place.type == kind:
                other_id = identifier and identifier != at_place.fields.get("id")
                return None if at_place.done and not done and other_id else at_place
            same = (each for each in reversed(self.items) if each.wire_index == index and each.type == kind)
            return next((each for each in same if not each.done), None)
        same_type = [each for each in reversed(self.items) if each.type == kind]
        call_id = None if raw is None else raw.get("call_id")
        for each in same_type:
            if (identifier and each.fields.get("id") == identifier) or (call_id and each.call_id == call_id):
                return each
        if raw is not None and not done:
            return None
        return next((each for each in same_type if not each.done), None)

    def text_item(self, event: Event, kind: str) -> Item:
        """The item of a piece of text or arguments, opened where its beginning was missed."""
        number = self.at.get(event.get("output_index", _NO_INDEX))
        if number is not None:
            item = self.items[number]
            if item.type == kind and not item.done:
                return item
        found = self.find(event, kind)
        if found is not None:
            return found
        item = self.open(event, kind)
        item.learn({"type": kind, "id": event.get("item_id"), **_IMPLIED.get(kind, {})})
        return item

    def call_item(self, event: Event, kind: str) -> Item | None:
        """The call whose arguments an event brings; None when they are a hosted tool's."""
        number = self.at.get(event.get("output_index", _NO_INDEX))
        if number is not None:
            item = self.items[number]
            if item.is_tool:
                return None
            if item.type in CALLS:
                kind = item.type
        return self.text_item(event, kind)

    def open(self, event: Event, kind: str, place: int | None = None) -> Item:
        """A new item: at the event's place, at this one, or where that is taken behind all others."""
        index = event.get("output_index")
        wire_index = index if type(index) is int else None
        place = wire_index if place is None else place
        if place is None or place in self.places:
            place = max(self.top, -1) + 1
        self.places.add(place)
        self.top = max(self.top, place)
        item = Item(kind, place, wire_index)
        self.items.append(item)
        if wire_index is not None:
            self.at[wire_index] = len(self.items) - 1
        return item

    def open_tool(self, event: Event) -> Item | None:
        """The hosted tool that an event speaks of, while it is open."""
        index = event.get("output_index")
        number = self.at.get(index) if type(index) is int else None
        if number is not None:
            candidates = [self.items[number]]
        else:
            candidates = [each for each in self.items if each.fields.get("id") == event.get("item_id")]
        return next((each for each in candidates if each.is_tool and not each.done), None)
