"""Which tool call does a fragment of ``delta.tool_calls`` belong to?

OpenAI numbers its calls, and names each once. Servers that say they are compatible leave the index out, send null, zero
for every call, or a number that drifts; they send the id first, last, with every fragment, a new one with every
fragment, or never; the name likewise, or in pieces. So every identity there is counts (id, index, name, order), and
beside them one fact: whether the JSON of a call has closed. A fragment that nothing identifies belongs to the open
call; a new id or name after its JSON has closed opens the next.

All lookups are by dict: the work on a fragment does not grow with the number of calls.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from adk_stream.arguments import dump_arguments

__all__ = ["Call", "Calls", "Fragment", "JsonScanner", "join_pieces"]

# The first stops at a bracket or at a string that does not end here, the second at the string's end or at a
# backslash whose other half is not there.
_TO_BRACKET = re.compile(r'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TO_STRING_END = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)


class JsonScanner(msgspec.Struct):
    """Tells when a JSON object or array that comes in fragments has closed; reads every character once."""

    depth: int = 0
    in_string: bool = False
    escaped: bool = False  # the last fragment ended in a backslash
    closed: bool = False

    def feed(self, text: str) -> None:
        """Read on."""
        at, size = 0, len(text)
        if self.escaped and text:
            self.escaped, at = False, 1
        while at < size:
            at = _end(_TO_STRING_END if self.in_string else _TO_BRACKET, text, at)
            if at == size:
                return
            mark = text[at]
            at += 1
            if mark == '"':
                self.in_string = not self.in_string
            elif mark == "\\":
                self.escaped = True
            elif mark in "{[":
                self.depth += 1
            else:
                self.depth -= 1
                self.closed = self.closed or self.depth <= 0


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None  # both patterns match nothing
    return match.end()


class Fragment(msgspec.Struct):
    """One entry of ``delta.tool_calls`` (or the old ``function_call``) in plain words.

    Attributes:
        label: The wire's index, as text whatever its type; None when absent.
        id: The call's id, unless empty.
        name: The name or a piece of it, unless empty.
        text: The fragment of the arguments' JSON text (an object given whole: all of it).
        extra: Other fields of the entry, which go back to the provider as they came.
        custom: The call is of a free-text tool, and ``text`` is its input.
        is_old: It came as ``function_call``.
    """

    label: str | None = None
    id: str | None = None
    name: str | None = None
    text: str = ""
    extra: dict[str, Any] | None = None
    custom: bool = False
    is_old: bool = False

    @classmethod
    def read(cls, entry: Mapping[str, Any], is_old: bool = False) -> Fragment:
        """The fragment that an entry on the wire is.

        Raises:
            TypeError, AttributeError: the entry is of no shape that the format allows.
        """
        custom = entry.get("custom") or (entry.get("type") == "custom" and {})
        body = entry if is_old else (custom or entry.get("function") or {})
        label, ident, name = entry.get("index"), entry.get("id"), body.get("name")
        given = body.get("input") if custom else body.get("arguments")
        return cls(
            None if label is None else str(label),
            None if ident in (None, "") else str(ident),
            _text(name) or None,
            given if type(given) is str else _dumped(given),
            _extra(entry, body) if not is_old and (entry.keys() - _ENTRY_KEYS or body.keys() - _BODY_KEYS) else None,
            custom is not False and custom is not None,
            is_old,
        )

    @property
    def has_text(self) -> bool:
        """Does it bring anything but white space?"""
        return bool(self.text) and not self.text.isspace()

    @property
    def says_nothing(self) -> bool:
        """Is it empty but for an index?"""
        return not (self.id or self.name or self.text or self.extra)

    @property
    def begins(self) -> bool:
        """May it be the beginning of an object?"""
        return self.text.lstrip().startswith("{")

    @property
    def continues(self) -> bool:
        """Can it only be a later piece: text that begins no object?"""
        return self.has_text and not self.begins


_ENTRY_KEYS = frozenset({"index", "id", "type", "function", "custom"})
_BODY_KEYS = frozenset({"name", "arguments", "input"})


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a name is a {type(value).__name__}")
    return value or ""


def _dumped(given: Any) -> str:
    if given is None:
        return ""
    return dump_arguments(given) if isinstance(given, dict) else json.dumps(given, ensure_ascii=False)


def _extra(entry: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    extra = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS and value is not None}
    inner = {key: value for key, value in body.items() if key not in _BODY_KEYS and value is not None}
    if inner:
        extra["function"] = inner
    return extra


def join_pieces(old: Any, new: Any) -> Any:
    """An opaque value that comes in pieces: objects key by key, strings joined, all else replaced.

    A string that says the same again, or all of it and more, is no further piece.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: join_pieces(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, str) and isinstance(new, str):
        return new if new.startswith(old) else old + new
    return old if new is None else new


class Call(msgspec.Struct):
    """What is known of one call, but for its arguments: of those only where they stand, and a checksum."""

    number: int  # in order of first appearance
    index: int = -1  # of its part; -1 while it has shown nothing
    id: str | None = None
    wire_id: str | None = None  # as the server says, though another call has that id already
    name: str | None = None
    label: str | None = None
    extra: dict[str, Any] = {}
    scanner: JsonScanner = msgspec.field(default_factory=JsonScanner)
    custom: bool = False
    is_old: bool = False
    begun: bool = False  # its arguments have begun
    complete: bool = False  # it was given out; nothing is added any more
    size: int = 0
    checksum: int = 0
    fragments: int = 0
    id_repeats: int = 0
    drifts: bool = False  # its index changed on the way
    known_first: bool = False  # its first fragment bore an id or a name
    name_was_late: bool = False  # its arguments had begun before it had a name
    named_again: bool = False  # after its JSON had closed, the name came once more, alone

    @property
    def closed(self) -> bool:
        """Its JSON has closed."""
        return self.scanner.closed

    def take(self, fragment: Fragment) -> str:
        """Take a fragment in; the text that it adds to the arguments."""
        self.fragments += 1
        if fragment.id is not None:
            self.id_repeats += fragment.id == self.wire_id
            self.wire_id = self.wire_id or fragment.id
            self.id = self.id or fragment.id
        if fragment.label is not None:
            self.drifts = self.drifts or self.label not in (None, fragment.label)
            self.label = fragment.label
        self.custom = self.custom or fragment.custom
        self.is_old = self.is_old or fragment.is_old
        self._take_name(fragment)
        if fragment.extra:
            self.extra = join_pieces(self.extra, fragment.extra)
        return self._take_text(fragment)

    def _take_name(self, fragment: Fragment) -> None:
        """The name comes once, with every fragment, or in pieces until the arguments begin."""
        name = fragment.name
        if not name:
            return
        if not self.name:
            self.name, self.name_was_late = name, self.begun
        elif self.closed and name == self.name and not fragment.has_text:
            self.named_again = True
        elif name != self.name and (not self.begun or (self.name_was_late and not fragment.has_text)):
            self.name += name

    def _take_text(self, fragment: Fragment) -> str:
        if not fragment.text or self.complete:
            return ""
        if fragment.has_text and self.closed and self.is_resent(fragment):
            return ""
        self.grow(fragment.text)
        return fragment.text

    def grow(self, text: str) -> None:
        """More of its arguments."""
        self.begun = self.begun or not text.isspace()
        if not self.custom:
            self.scanner.feed(text)
        self.size += len(text)
        self.checksum = zlib.crc32(_encoded(text), self.checksum)

    def is_resent(self, fragment: Fragment) -> bool:
        """Does the fragment say once more all that the call holds?"""
        return len(fragment.text) == self.size and zlib.crc32(_encoded(fragment.text)) == self.checksum


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Calls(msgspec.Struct):
    """The calls of one choice, in order of first appearance.

    Attributes:
        ready: Numbers of calls whose JSON has closed and that were not given out.
        unclosed: Numbers of calls whose JSON may go on; some may have closed since (they are dropped when met).
    """

    all: list[Call] = []
    by_id: dict[str, int] = {}
    by_label: dict[str, int] = {}
    by_name: dict[str, int] = {}
    current: int = -1  # the call spoken of last
    ready: list[int] = []
    unclosed: list[int] = []
    opened_by_id: int = 0  # how many calls' first fragments bore an id

    def take(self, fragment: Fragment, touched: set[int]) -> tuple[Call, str, bool] | None:
        """Take a fragment in.

        Args:
            fragment: The fragment.
            touched: Numbers of the calls that this same event spoke of already: two entries of one event that both
                bear a name are two calls. The call's number is added.

        Returns:
            (its call, the text it adds, is the call new?); None when it says nothing.
        """
        is_place = fragment.says_nothing and self._is_place(fragment)
        if fragment.says_nothing and not is_place:
            return None
        call = None if is_place else self._find(fragment, touched)
        opened = call is None
        if call is None:
            call = self._open(fragment)
        was_closed = call.closed
        text = call.take(fragment)
        if call.closed and not was_closed:
            self.ready.append(call.number)
        touched.add(call.number)
        self.current = call.number
        if fragment.id:
            self.by_id[fragment.id] = call.number
        if fragment.label is not None:
            self.by_label[fragment.label] = call.number
        if call.name:
            self.by_name[call.name] = call.number
        return call, text, opened

    def go_on(self, label: str, text: str) -> Call | None:
        """``take`` of nothing but an index and text, where it can only go on with the call there; else None."""
        number = self.by_label.get(label)
        call = None if number is None else self.all[number]
        if number is None or call is None or call.index < 0 or call.label != label:
            return None
        if call.complete or call.closed or call.custom or call.is_old:
            return None
        call.fragments += 1
        call.grow(text)
        if call.closed:
            self.ready.append(number)
        self.current = number
        return call

    def take_ready(self, but: int = -1) -> list[Call]:
        """Calls that are over, once a later one has begun or the end has come: their JSON has closed.

        A call without an id or a name may still get it, and waits for ``take_rest``.
        """
        ready = [self.all[number] for number in self.ready if number != but]
        self.ready = [number for number in self.ready if number == but]
        over = [call for call in ready if call.id and call.name]
        for call in over:
            call.complete = True
        return over

    def take_rest(self) -> list[Call]:
        """All calls that were not given out; those that said nothing but an id are none."""
        rest = [call for call in self.all if not call.complete and (call.name or call.begun or call.extra)]
        for call in rest:
            call.complete = True
        self.ready = []
        return rest

    def _open(self, fragment: Fragment) -> Call:
        call = Call(len(self.all), known_first=bool(fragment.id or fragment.name))
        if fragment.id in self.by_id:
            call.wire_id, fragment.id = fragment.id, None  # an id made here will be unique
        if not fragment.name and self.all and self.all[self.current].named_again:
            call.name = self.all[self.current].name
            self.all[self.current].named_again = False
        self.all.append(call)
        self.opened_by_id += bool(fragment.id or call.wire_id)
        self.unclosed.append(call.number)
        return call

    def _is_place(self, fragment: Fragment) -> bool:
        """Does an empty fragment, by its index alone, hold the place of a call that names itself later?"""
        now = self._now()
        return fragment.label is not None and fragment.label not in self.by_label and not (now and now.known_first)

    def _at(self, numbers: dict[str, int], key: str | None) -> Call | None:
        number = None if key is None else numbers.get(key)
        return None if number is None else self.all[number]

    def _newest_unclosed(self) -> Call | None:
        current = self._now()
        if current is not None and not current.closed:
            return current
        while self.unclosed and self.all[self.unclosed[-1]].closed:
            self.unclosed.pop()
        return self.all[self.unclosed[-1]] if self.unclosed else None

    def _now(self) -> Call | None:
        return self.all[self.current] if self.all else None

    def _find(self, fragment: Fragment, touched: set[int]) -> Call | None:
        """The call that a fragment goes on with; None when it opens one."""
        if fragment.id is not None:
            known = self._at(self.by_id, fragment.id)
            at_label = self._at(self.by_label, fragment.label)
            if known is None:
                return self._find_by_new_id(fragment, at_label, touched)
            if at_label is not None and at_label.wire_id == fragment.id:
                known = at_label
            return None if _takes_anothers_id(known, fragment) else known
        if fragment.label is None:
            return self._find_by_order(fragment, touched)
        at_label = self._at(self.by_label, fragment.label)
        if at_label is None:
            return self._find_by_new_label(fragment, touched)
        if fragment.name:
            return self._find_by_label_and_name(fragment, at_label, touched)
        if at_label.closed and fragment.has_text:
            if at_label.named_again and fragment.begins:
                return None
            return at_label if at_label.is_resent(fragment) else self._newest_unclosed() or at_label
        return at_label

    def _find_by_new_id(self, fragment: Fragment, at_label: Call | None, touched: set[int]) -> Call | None:
        """An id that is new: another call's, or late, or one of many that a server makes up for one call."""
        call = at_label
        if call is None:
            call = self._newest_unclosed()
            if fragment.label is not None:
                call = call or self._now()
                if call is None or fragment.name not in (None, call.name):
                    return None  # id and index are new
                named_before = call.id is None and call.known_first and not fragment.name
                late = named_before and not (call.closed and fragment.has_text)
                goes_on = fragment.continues and not call.closed
                ends = call.id is None and not (fragment.name or fragment.has_text)
                return call if goes_on or late or ends else None
        if call is None:  # everything has closed, and no index tells
            call = self._now()
            late = (
                call is not None
                and call.id is None
                and not fragment.has_text
                and fragment.name in (None, call.name)
                and call.number not in touched
            )
            return call if late else None
        renamed = bool(fragment.name and call.name and fragment.name != call.name)
        if fragment.name and call.number in touched and (fragment.label is None or renamed):
            return None
        if call.id is None:
            if call.closed:
                return None if fragment.has_text or renamed else call
            return None if renamed and call.begun else call
        if call.closed:
            return None
        if fragment.name:
            return call if fragment.name == call.name and call.begun and fragment.continues else None
        if fragment.label is None or call.id_repeats:  # ids can be trusted, or there is nothing else
            return call if fragment.continues and not call.id_repeats else None
        return call

    def _find_by_new_label(self, fragment: Fragment, touched: set[int]) -> Call | None:
        """An index that is new, and no id: another call, or the open one whose index drifts."""
        if fragment.name and self.current in touched:
            return None
        call = self._newest_unclosed()
        if fragment.name and self.all and self.opened_by_id == len(self.all):
            # calls are opened by ids here: an index that is new, without one, drifts
            now = self.all[self.current]
            if not fragment.has_text and now.name in (None, fragment.name):
                return now
            if call is None:
                return None
            is_piece = call is now and not call.begun
            return call if is_piece or call.name in (None, fragment.name) else None
        if fragment.name:
            if call is None or fragment.name != call.name:
                return None
            return call if fragment.continues or call.drifts else None
        if call is None:
            return None if fragment.begins else self._now()
        if call.drifts or not fragment.begins:
            return call
        return call if call.fragments == 1 and call.known_first else None

    def _find_by_label_and_name(self, fragment: Fragment, call: Call, touched: set[int]) -> Call | None:
        """An index that is known and a name: the name once more, a piece of it, or one index for all calls."""
        if call.closed:
            if fragment.has_text or call.number in touched:
                return None
            late_piece = call.name is None or call.name_was_late or fragment.name == call.name
            return call if late_piece else None
        if call.name is None or fragment.name == call.name:
            return call
        if not call.begun:
            return call
        if call.name_was_late and not fragment.has_text:
            return call
        named = self._at(self.by_name, fragment.name)
        return named if named is not None and not named.closed and named.label == fragment.label else None

    def _find_by_order(self, fragment: Fragment, touched: set[int]) -> Call | None:
        """Neither id nor index."""
        if not fragment.name:
            call = self._newest_unclosed() or self._now()
            if call is None:
                return None
            return None if call.closed and call.named_again and fragment.begins else call
        named = self._at(self.by_name, fragment.name)
        if named is not None and not named.closed and named.number not in touched:
            return named
        now = self._now()
        if now is None or now.number in touched:
            return None
        if now.closed:  # the name came late, or once more
            return now if now.name in (None, fragment.name) and not fragment.has_text else None
        return now if now.name is None or not now.begun else None


def _takes_anothers_id(call: Call, fragment: Fragment) -> bool:
    """Is it a call of its own, though another has its id? Servers that number calls per message do that."""
    if not fragment.name or call.name is None or call.is_resent(fragment):
        return False
    moved = fragment.label is not None and fragment.label != call.label
    renamed = fragment.name != call.name
    if not call.closed:
        return moved and renamed and call.begun
    return fragment.begins or (moved and renamed)
