"""What an open part grows by, taken in and shown: the way of nearly every event of nearly every stream.

Between two events that say anything else, nothing changes but the fragments of the parts that are open. So what
decides how such a part grows is found once, with its first growth, and kept as a function; the aggregator forgets
these functions with the next chunk of any other kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adk_stream.aggregator.shown import Shell, call_makers, fragment_maker, streamed_call_maker
from adk_stream.arguments import PathArguments
from adk_stream.parts import CallSlot, Growth, PartAssembler, Text, TextSlot, encodable

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["Grower", "grower_of"]

#: Takes a growth in; the partial that shows it, None when there is nothing to see yet.
Grower = Callable[[Growth], "LlmResponse | None"]


def grower_of(growth: Growth, assembler: PartAssembler, response_id: str | None, shell: Shell) -> Grower | None:
    """How the part grows that this is the first growth of; None where it takes more than that to tell."""
    slot = assembler.growing(growth, response_id)
    if type(slot) is TextSlot:
        slot.has_text = True
        return _text_grower(slot.text, assembler, shell.with_thought if slot.thought else shell.with_text)
    if type(slot) is CallSlot:
        return (_arguments_grower if growth.path is None else _path_grower)(slot, assembler, shell)
    return None


def _text_grower(text: Text, assembler: PartAssembler, show: Callable[[str], LlmResponse]) -> Grower:
    append = text.append

    def grow(growth: Growth) -> LlmResponse | None:
        fragment = growth.text
        if append(fragment):
            assembler.grew(len(text.blocks[-1]))
        if fragment.isascii() and not text.half:
            return show(fragment)
        fragment = text.visible(fragment)
        return show(fragment) if fragment else None

    return grow


def _arguments_grower(slot: CallSlot, assembler: PartAssembler, shell: Shell) -> Grower:
    """Of a call whose arguments come as JSON text."""
    text, call_id, name = slot.text, slot.id, slot.name
    append, response_with, content_with = text.append, shell.response_with, shell.content_with
    _, make_part, make_call = call_makers()

    def grow(growth: Growth) -> LlmResponse:
        fragment = growth.text
        if append(fragment):
            assembler.grew(len(text.blocks[-1]))
        if not fragment.isascii() or text.half:
            fragment = text.visible(fragment)
        return response_with(content_with([make_part(make_call(call_id, name), {"arguments_delta": fragment})]))

    return grow


def _path_grower(slot: CallSlot, assembler: PartAssembler, shell: Shell) -> Grower:
    """Of a call whose arguments come by JSONPath."""
    paths = slot.paths = slot.paths or PathArguments()
    response_with, content_with = shell.response_with, shell.content_with
    make_part, make_call = call_makers()[0], streamed_call_maker(slot.id, slot.name)
    make_fragment, make_open_fragment = fragment_maker(False), fragment_maker(True)

    def grow(growth: Growth) -> LlmResponse:
        path, text = growth.path or "", growth.text
        if not paths.grow(path, text):
            paths.add({"jsonPath": path, "stringValue": text})
        if not (path.isascii() and text.isascii()):
            path, text = encodable(path), encodable(text)
        fragment = (make_open_fragment if growth.value_goes_on else make_fragment)(path, text)
        return response_with(content_with([make_part(make_call([fragment]))]))

    return grow
