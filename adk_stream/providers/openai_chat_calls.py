"""Which tool call does a fragment of ``delta.tool_calls`` belong to?

OpenAI numbers its calls and names each once; servers that say they are compatible leave the index out, send
null, zero for every call or one that drifts, repeat the id, send it late, or a new one with every fragment. So every
identity there is counts, and above them one fact: a call whose JSON has not closed is not over.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from adk_stream.arguments import dump_arguments

__all__ = ["Call", "Calls", "Fragment"]

_MARKS = re.compile(r'\\.|["{}\[\]\\]', re.DOTALL)
_STRING_MARKS = re.compile(r'\\.|["\\]', re.DOTALL)


class JsonScanner(msgspec.Struct):
    """Has a JSON object that comes in fragments closed? Looks at each character once."""

    depth: int = 0
    in_string: bool = False
    escaped: bool = False  # the last fragment ended in a backslash
    begun: bool = False

    @property
    def closed(self) -> bool:
        return self.begun and self.depth <= 0 and not self.in_string

    def feed(self, text: str) -> None:
        at = 0
        if self.escaped and text:
            self.escaped, at = False, 1
        while True:
            match = (_STRING_MARKS if self.in_string else _MARKS).search(text, at)
            if match is None:
                break
            mark, at = match.group(), match.end()
            if mark == '"':
                self.in_string = not self.in_string
            elif mark in "{[":
                self.depth += 1
            elif mark in "}]":
                self.depth -= 1
            elif mark == "\\":
                self.escaped = self.in_string
        self.begun = self.begun or bool(text.strip())


class Fragment(msgspec.Struct):
    """One entry of ``delta.tool_calls`` (or the old ``function_call``) in plain words."""

    key: str | None  # the wire's index, whatever its type
    id: str | None
    name: str | None
    text: str
    args: dict[str, Any] | None = None  # arguments given as an object, whole
    extra: dict[str, Any] | None = None  # extra_content
    custom: bool = False  # a free-text tool's input

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Fragment:
        """The entry as servers send it: any field may be missing, null, empty or of another type."""
        custom = entry.get("custom")
        function = custom or entry.get("function") or {}
        given = function.get("input") if custom else function.get("arguments")
        key = entry.get("index")
        fragment = cls(
            None if key is None else str(key),
            entry.get("id") or None,
            function.get("name") or None,
            given if isinstance(given, str) else "",
            given if isinstance(given, dict) else None,
            entry.get("extra_content") or None,
            bool(custom) or entry.get("type") == "custom",
        )
        if given is not None and not isinstance(given, (str, dict)):
            fragment.text = dump_arguments(given)  # no object: kept as it is, and never run
        return fragment


class Call(msgspec.Struct):
    """A tool call as far as it is known."""

    index: int  # of its part
    key: str | None
    id: str | None = None
    name: str | None = None
    scanner: JsonScanner = msgspec.field(default_factory=JsonScanner)
    args: dict[str, Any] | None = None
    size: int = 0
    checksum: int = 0
    complete: bool = False
    custom: bool = False
    extra: dict[str, Any] = {}

    @property
    def whole(self) -> bool:
        """Nothing more is to come: its JSON has closed."""
        return self.args is not None or self.scanner.closed

    @property
    def begun(self) -> bool:
        """Some of its arguments came."""
        return self.args is not None or self.scanner.begun

    def is_resent(self, fragment: Fragment) -> bool:
        """Does the fragment say once more all that this whole call holds?"""
        if fragment.args is not None:
            return self.args == fragment.args
        return len(fragment.text) == self.size and zlib.crc32(_encoded(fragment.text)) == self.checksum

    def take(self, fragment: Fragment) -> str:
        """Take a fragment in; the text it adds to the arguments."""
        self.id = self.id or fragment.id
        self.key = self.key if self.key is not None else fragment.key
        self._take_name(fragment.name)
        self.custom = self.custom or fragment.custom
        if fragment.extra:
            self.extra = join_strings(self.extra, fragment.extra)
        if self.whole and (fragment.text.strip() or fragment.args is not None) and self.is_resent(fragment):
            return ""
        if fragment.args is not None:
            self.args = fragment.args
            return ""
        if fragment.text:
            self.scanner.feed(fragment.text)
            self.size += len(fragment.text)
            self.checksum = zlib.crc32(_encoded(fragment.text), self.checksum)
        return fragment.text

    def _take_name(self, name: str | None) -> None:
        """A name comes once, with every fragment, or in pieces as long as no argument has come."""
        if not name or name == self.name:
            return
        if self.name is None:
            self.name = name
        elif not self.begun:
            self.name += name


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def join_strings(old: Any, new: Any) -> Any:
    """Opaque values in pieces: objects key by key, strings joined, all else replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: join_strings(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, str) and isinstance(new, str):
        return old if old == new else old + new
    return old if new is None else new


class Calls(msgspec.Struct):
    """The calls of one choice, in order of first appearance."""

    all: list[Call] = []

    def find(self, fragment: Fragment, taken: list[Call]) -> Call | None:
        """The call a fragment goes on with; None when it opens a new one.

        Args:
            fragment: The fragment.
            taken: Calls that this same delta already spoke of: its entries are calls of their own.
        """
        call = self._by_id(fragment) or self._by_key(fragment) or self._by_order(fragment, taken)
        return None if call is None or self._begins_anew(call, fragment) else call

    def _by_id(self, fragment: Fragment) -> Call | None:
        if fragment.id is None:
            return None
        return next((call for call in reversed(self.all) if call.id == fragment.id), None)

    def _by_key(self, fragment: Fragment) -> Call | None:
        if fragment.key is None:
            return None
        same_key = [call for call in reversed(self.all) if call.key == fragment.key]
        if fragment.name:  # one index for all calls: the name tells them apart
            named = next((call for call in same_key if call.name == fragment.name and not call.whole), None)
            if named is not None and fragment.id is None:
                return named
        call = same_key[0] if same_key else None
        if call is not None and call.whole and fragment.text.strip() and not (fragment.name or fragment.id):
            return next((other for other in reversed(self.all) if not other.whole), call)
        return call

    def _by_order(self, fragment: Fragment, taken: list[Call]) -> Call | None:
        """No identity is known: the newest call that is open, or the newest of that name."""
        open_calls = [call for call in reversed(self.all) if not call.whole and call not in taken]
        if fragment.key is not None and (fragment.name or fragment.id):
            # a number that is new: a call of its own, unless it drifts in the middle of one
            open_calls = [] if _starts_object(fragment) else [call for call in open_calls if call.begun]
            if fragment.name:
                open_calls = [call for call in open_calls if call.name in (None, fragment.name)]
        elif fragment.name:
            named = [call for call in open_calls if call.name == fragment.name]
            open_calls = named or [call for call in open_calls[:1] if call.name is None or not call.begun]
        if open_calls:
            return open_calls[0]
        if fragment.name or fragment.id or _starts_object(fragment):
            return None
        return self.all[-1] if self.all else None

    def _begins_anew(self, call: Call, fragment: Fragment) -> bool:
        """Is the fragment a new call, though it says it is this one's?"""
        other_id = fragment.id is not None and call.id is not None and fragment.id != call.id
        if other_id:
            # a nameless fragment goes on with arguments that are not whole, whatever id a server makes up for it
            return bool(fragment.name) or call.whole
        other_name = bool(fragment.name and call.name and fragment.name != call.name)
        if not call.whole:
            return other_name and call.begun and fragment.id is None
        # its JSON has closed: a new name or new arguments are another call's, unless all of it is sent again
        more = bool(fragment.text.strip()) or fragment.args is not None
        if fragment.id is not None:
            again = not more or call.is_resent(fragment)
            return not again and (call.id is None or fragment.key != call.key)
        return other_name or (bool(fragment.name) and call.name is not None and more)


def _starts_object(fragment: Fragment) -> bool:
    return fragment.args is not None or not fragment.text.strip() or fragment.text.lstrip().startswith("{")
