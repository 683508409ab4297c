"""Arguments of tool calls: whole JSON texts, Gemini's fragments by JSONPath, and a live preview.

Providers stream the arguments of a call in one of two ways. OpenAI and Anthropic send the JSON text in
pieces; joined, it is read once with :func:`parse_arguments`. Gemini sends values with the place they belong
to (``partialArgs``); :class:`PathArguments` collects them and builds the tree once. Both are strict: what is
not exactly one JSON object is reported, never repaired, because a tool may run on the result.

:class:`ArgumentsPreview` reads JSON text while it is still coming. It is for display alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, Self, cast

import msgspec

__all__ = [
    "MAX_ARRAY_INDEX",
    "MAX_DEPTH",
    "MAX_LEAVES",
    "MAX_PADDING",
    "ArgumentEvent",
    "ArgumentsPreview",
    "Leaf",
    "PathArguments",
    "dump_arguments",
    "parse_arguments",
]

MAX_ARRAY_INDEX = 10_000
"""Highest array index a path may name."""

MAX_DEPTH = 200
"""Containers inside one another, the outermost object included. pydantic serialises at most 255 levels, and
a call sits a few levels deep in its response."""

MAX_LEAVES = 100_000
"""Distinct places one call may fill by JSONPath."""

MAX_PADDING = 100_000
"""Array elements one call may leave open before those it names: bounds what a short path can allocate."""

_BLOCK = 256
_EXCERPT = 120
_EXACT = 2.0**53

_SURROGATE = re.compile("[\ud800-\udfff]")


# -- whole texts -------------------------------------------------------------------------------------------


def parse_arguments(text: str | None) -> dict[str, Any] | None:
    """Read the whole JSON text of a call's arguments.

    Args:
        text: What the provider sent, joined. None, empty and blank stand for a call without arguments.

    Returns:
        The object, ``{}`` for a call without arguments, or None where the text is not exactly one JSON object
        (RFC 8259; so neither NaN nor Infinity). Integers are exact, the last of equal keys wins, and lone
        surrogates are kept. Numbers Python cannot hold (``1e400``, integers beyond
        ``sys.get_int_max_str_digits()``) and nesting beyond `MAX_DEPTH` are None too.
    """
    if not text or text.isspace():
        return {}
    try:
        arguments = _decoder.decode(text)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeEncodeError):  # among them lone surrogates, which the standard allows
        try:
            arguments = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError):
            return None
        if type(arguments) is not dict:
            return None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(arguments) > MAX_DEPTH:
        return None
    return arguments


def dump_arguments(arguments: dict[str, Any] | None) -> str:
    """Compact JSON text that :func:`parse_arguments` reads back as the same value.

    Characters stay as they are, except that surrogates are escaped, so the text can be encoded as UTF-8.

    Raises:
        ValueError: A number is NaN or infinite.
        TypeError: A value is of a type JSON does not have.
    """
    text = json.dumps(arguments or {}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if text.isascii() else _SURROGATE.sub(_escape, text)


_decoder = msgspec.json.Decoder(dict[str, Any])


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("the number is too large for a float")
    return number


def _depth(value: Any) -> int:
    level: list[Any] = [value]
    depth = 0
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return depth


def _paired(text: str) -> str:
    """Text in which surrogate halves that came in two fragments are the one character they stand for."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# -- JSONPath ----------------------------------------------------------------------------------------------

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\x00-\x1f]+)
      | \[[ \t\n\r]* (?: '(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'
                       | "(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"
                       | (?P<index>-?[0-9]+) ) [ \t\n\r]*\]""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\", "'": "'", '"': '"'}
_SHORTHAND = re.compile("[A-Za-z_\x80-\ud7ff\ue000-\U0010ffff][0-9A-Za-z_\x80-\ud7ff\ue000-\U0010ffff]*")
_UNSAFE = re.compile("['\\\\\x00-\x1f\ud800-\udfff]")
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


class _Misfit(ValueError):
    """Why a value cannot be placed, worded to follow its path. Caught in this module."""


def _parse_path(path: str) -> list[str | int]:
    """Member names and array indexes of a path that names one place.

    The singular part of RFC 9535 (``$``, ``.name``, ``['name']``, ``["name"]``, ``[0]``, with the escapes of
    its section 2.3.1.1). Wider than the RFC in one point: a name after a dot may hold anything but dots,
    brackets and control characters (``$.a-b``). Wildcards, slices and negative indexes name no single place.
    """
    if not path.startswith("$"):
        raise _Misfit("does not start with $")
    keys: list[str | int] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise _Misfit(f"cannot be read from character {position + 1} on")
        position = step.end()
        kind = step.lastgroup
        if kind == "index":
            keys.append(_index(step["index"]))
        elif kind == "name":
            if step["name"] == "*":
                raise _Misfit("holds a wildcard")
            keys.append(_paired(step["name"]))
        else:
            keys.append(_paired(_ESCAPE.sub(_unescaped, step["single"] or step["double"] or "")))
        if len(keys) > MAX_DEPTH:
            raise _Misfit(f"is deeper than {MAX_DEPTH} levels")
    return keys


def _index(digits: str) -> int:
    if digits.startswith("-"):
        raise _Misfit("holds a negative index")
    if digits.startswith("0") and digits != "0":
        raise _Misfit("holds an index with a leading zero")
    if len(digits) > len(str(MAX_ARRAY_INDEX)) or int(digits) > MAX_ARRAY_INDEX:
        raise _Misfit(f"holds an index above {MAX_ARRAY_INDEX}")
    return int(digits)


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPED:
        raise _Misfit(f"holds the unknown escape \\{escape}")
    return _ESCAPED[escape]


def _step(key: str | int) -> str:
    """One step of a path: ``[0]``, ``.name`` where RFC 9535 allows it, else quoted as in its section 2.7."""
    if type(key) is int:
        return f"[{key}]"
    name = str(key)
    if (name.isascii() and name.isidentifier()) or _SHORTHAND.fullmatch(name):
        return f".{name}"
    return f"['{_UNSAFE.sub(_escape, name)}']"


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _spell(keys: list[str | int]) -> str:
    return "$" + "".join(map(_step, keys))


def _short(path: object) -> str:
    text = path if isinstance(path, str) else repr(path)
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"


# -- Gemini: values by JSONPath ----------------------------------------------------------------------------


class Leaf(msgspec.Struct):
    """What came for one place: pieces of a string, or another scalar.

    Attributes:
        keys: Member names and array indexes from the root to the place.
        value: The number, boolean or null; None for a string.
        fragments: The latest pieces of a string; None for another scalar.
        blocks: Earlier pieces, joined 256 at a time, so that many small strings do not stay in memory.
    """

    keys: list[str | int]
    value: bool | int | float | None = None
    fragments: list[str] | None = None
    blocks: list[str] = []

    @property
    def is_null(self) -> bool:
        """Whether null was sent for the place."""
        return self.fragments is None and self.value is None

    @classmethod
    def of(cls, keys: list[str | int], value: _Scalar) -> Self:
        """The leaf of a place whose first value came."""
        return cls(keys, fragments=[value]) if isinstance(value, str) else cls(keys, value)

    def put(self, value: _Scalar) -> None:
        """Append a string to a string, or replace another scalar."""
        if self.fragments is None:
            if isinstance(value, str):
                if value:
                    raise _Misfit(f"is a string, where {_kind(self.value)} stands")
            else:
                self.value = value
        elif isinstance(value, str):
            self.fragments.append(value)
            if len(self.fragments) >= _BLOCK:
                self.compact()
        else:
            raise _Misfit(f"is {_kind(value)}, where a string stands")

    def compact(self) -> None:
        """Join the latest pieces."""
        if self.fragments:
            self.blocks.append("".join(self.fragments))
            self.fragments.clear()

    def read(self) -> _Scalar:
        """What has come."""
        if self.fragments is None:
            return self.value
        return _paired("".join(self.blocks) + "".join(self.fragments))


class PathArguments(msgspec.Struct):
    """Arguments of one Gemini call that come as ``partialArgs``: values with their JSONPath.

    Plain data: the state can be saved with ``msgspec.to_builtins`` and restored with ``msgspec.convert`` at
    any point.

    Rules, where Google's documentation of ``FunctionCall`` and ``PartialArg`` is silent:

    - Strings for one place are joined in order of arrival; a later number, boolean or null replaces an
      earlier one. An empty string adds nothing to a number, boolean or null. ``willContinue`` of a value is
      not needed: the call itself tells whether it is whole.
    - Two spellings of one path (``$.a``, ``$['a']``) are one place.
    - `args` that come whole, before, between or after fragments, are merged: objects key by key, anything
      else replaced by the newer. A fragment wins over the scalar `args` hold at the very same place, because
      its strings are complete in themselves; so a whole copy counts once. A null in `args` is open for
      anything. Everything else that does not fit is a conflict.
    - Array elements that nothing was sent for are null.

    Attributes:
        initial: `args` that came as an object.
        leaves: What came by path, in order of appearance, keyed by the path as it was first written.
        spelled: The key in `leaves` of each place, by the one regular spelling of its path.
        problem: The first thing that was not understood; such a call must not run.
    """

    initial: dict[str, Any] | None = None
    leaves: dict[str, Leaf] = {}
    spelled: dict[str, str] = {}
    problem: str | None = None

    def add(self, partial: Mapping[str, Any]) -> None:
        """Take one ``PartialArg``, in the wire's camelCase or in snake_case.

        A value of None is absent, except ``nullValue`` where it is the only value named. Without a value
        there is nothing to take. Never raises: :meth:`build` tells what was wrong.
        """
        if type(partial) is dict and len(partial) == 2 + ("willContinue" in partial):
            # The hot path, a further piece of a string, and no other value beside it.
            place, text = partial.get("jsonPath"), partial.get("stringValue")
            if type(place) is str and type(text) is str and self.grow(place, text):
                return
        path: object = None
        try:
            if not isinstance(partial, Mapping):
                raise _Misfit(f"is {_kind(partial)}, not an object with a path and a value")
            path = partial.get("jsonPath", partial.get("json_path"))
            value = _value(partial)
            if value is not _NOTHING:
                self._put(path, value)
        except _Misfit as misfit:
            self._report(path, misfit)

    def grow(self, path: str, text: str) -> bool:
        """Take a further piece of a string whose place was written in the same way before; False for any other."""
        known = self.leaves.get(path)
        if known is None or known.fragments is None:
            return False
        known.fragments.append(text)
        if len(known.fragments) >= _BLOCK:
            known.compact()
        return True

    def merge_args(self, args: Mapping[str, Any] | None) -> None:
        """Take `args` that came as an object; nothing is shared with it afterwards. Never raises."""
        if args is None:
            return
        try:
            if not isinstance(args, Mapping):
                raise _Misfit(f"is {_kind(args)}, where an object is needed")
            self.initial = _merged(self.initial or {}, _copied(dict(args), MAX_DEPTH))
        except _Misfit as misfit:
            self._report("$", misfit)

    def build(self) -> tuple[dict[str, Any] | None, str | None]:
        """The arguments and None, or None and one sentence on what did not fit.

        Each call builds a new tree that shares nothing with this object.
        """
        if self.problem is not None:
            return None, self.problem
        tree, problem = self._tree()
        return (tree, None) if problem is None else (None, problem)

    def text(self) -> str:
        """JSON text of what has come; where values conflict, of those that fit, the earlier ones first."""
        return dump_arguments(self._tree()[0])

    def _report(self, path: object, misfit: _Misfit) -> None:
        self.problem = self.problem or _problem(path, misfit)

    def _put(self, path: object, value: _Scalar) -> None:
        if not isinstance(path, str):
            raise _Misfit("has no path" if path is None else "is not at a path")
        leaf = self.leaves.get(path)
        if leaf is None:
            keys = _parse_path(path)
            if not keys:
                raise _Misfit(f"is {_kind(value)}, where an object is needed")
            place = _spell(keys)
            known = self.spelled.get(place)
            if known is None:
                if len(self.leaves) >= MAX_LEAVES:
                    raise _Misfit(f"is one more than the {MAX_LEAVES} values that are allowed")
                self.spelled[path if path == place else place] = path
                self.leaves[path] = Leaf.of(keys, value)
                return
            leaf = self.leaves[known]
        leaf.put(value)

    def _tree(self) -> tuple[dict[str, Any], str | None]:
        """All values that fit, and the first problem."""
        tree: dict[str, Any] = _copied(self.initial or {}, MAX_DEPTH)
        problem = None
        room = MAX_PADDING
        nulls: set[str] = set()
        for path, leaf in self.leaves.items():
            try:
                room -= _grow(tree, leaf, room, nulls)
            except _Misfit as misfit:
                problem = problem or _problem(path, misfit)
        return tree, problem


_Scalar = str | bool | int | float | None

_NOTHING: Any = object()

_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value)) or f"a {type(value).__name__}"


def _problem(path: object, misfit: _Misfit) -> str:
    return f"The argument {'' if path is None else f'at {_short(path)} '}{misfit}."


def _grow(tree: dict[str, Any], leaf: Leaf, room: int, nulls: set[str]) -> int:
    """Set one value, with the containers it needs; leave the tree as it is where it does not fit.

    Args:
        tree: All values before this one.
        leaf: The value.
        room: Array elements that may still be left open.
        nulls: Spelled places of the nulls that were sent; this one is added.

    Returns:
        Number of array elements left open for it.
    """
    keys: list[Any] = leaf.keys
    last = len(keys) - 1
    node: Any = tree
    child: Any = None
    for depth, key in enumerate(keys):
        if type(node) is not (list if type(key) is int else dict):
            raise _blocked(keys, depth, node)
        if type(node) is dict:
            child = node.get(key)
        else:
            child = node[key] if key < len(node) else None
        if depth == last or child is None:
            break
        node = child
    if isinstance(child, (dict, list)):
        raise _Misfit(f"is {_kind(leaf.read())}, where {_kind(child)} stands")
    if depth < last and nulls and _spell(keys[: depth + 1]) in nulls:  # was sent, so it is no gap
        raise _blocked(keys, depth + 1, None)

    rest = keys[depth + 1 :]
    padding = sum(index for index in rest if type(index) is int)
    if type(node) is list:
        padding += max(0, key - len(node))
    if padding > room:
        raise _Misfit(f"leaves more than {MAX_PADDING} array elements open")
    value: Any = leaf.read()
    for inner in reversed(rest):
        value = {inner: value} if type(inner) is str else [*[None] * inner, value]
    if type(node) is list:
        node.extend([None] * (key + 1 - len(node)))
    node[key] = value
    if leaf.is_null:
        nulls.add(_spell(keys))
    return padding


def _blocked(keys: list[str | int], depth: int, node: Any) -> _Misfit:
    needed = "an array" if type(keys[depth]) is int else "an object"
    return _Misfit(f"needs {needed} at {_short(_spell(keys[:depth]))}, where {_kind(node)} stands")


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _Misfit(f"is {_kind(value)} that was called a string")
    return value


def _number(value: Any) -> int | float:
    """Gemini's numbers are doubles: one that is whole and exact is an integer, as JSON would write it."""
    if type(value) is int:
        return value
    if type(value) is not float:
        raise _Misfit(f"is {_kind(value)} that was called a number")
    if not math.isfinite(value):
        raise _Misfit(f"is {value}, which JSON does not have")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Misfit(f"is {_kind(value)} that was called a boolean")
    return value


def _null(_: Any) -> None:
    return None


_READERS: dict[str, Callable[[Any], _Scalar]] = {
    "stringValue": _string,
    "string_value": _string,
    "numberValue": _number,
    "number_value": _number,
    "boolValue": _boolean,
    "bool_value": _boolean,
    "nullValue": _null,
    "null_value": _null,
}


def _value(partial: Mapping[str, Any]) -> _Scalar:
    """The one value of a ``PartialArg``, or `_NOTHING`."""
    named = [name for name in partial if name in _READERS]
    given = [name for name in named if partial[name] is not None]
    if len(given) > 1:
        raise _Misfit(f"holds several values ({', '.join(given)})")
    if given:
        return _READERS[given[0]](partial[given[0]])
    only_null = bool(named) and all(_READERS[name] is _null for name in named)
    return None if only_null else _NOTHING


def _copied(value: Any, depth: int) -> Any:
    """A copy of JSON data, of at most `depth` levels."""
    if isinstance(value, (dict, list, tuple)):
        if depth == 0:
            raise _Misfit(f"is deeper than {MAX_DEPTH} levels")
        if not isinstance(value, dict):
            return [_copied(item, depth - 1) for item in value]
        if not all(isinstance(key, str) for key in value):
            raise _Misfit("holds a member whose name is no string")
        return {key: _copied(item, depth - 1) for key, item in value.items()}
    if type(value) not in _KINDS or (type(value) is float and not math.isfinite(value)):
        raise _Misfit(f"holds {_kind(value)} that JSON does not have")
    return value


def _merged(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    for key, value in new.items():
        old[key] = _merged(old.get(key), value)
    return old


# -- display -----------------------------------------------------------------------------------------------


class ArgumentEvent(NamedTuple):
    """What one fragment of JSON text added to the arguments.

    Attributes:
        path: RFC 9535 path of the value, as in ``$.files[0].name``.
        kind: ``object`` and ``array``: an empty one opens. ``string``: one opens. ``delta``: text goes on.
            ``value``: a whole number, boolean or null. A second of any but ``delta`` at one path (a key given
            twice) replaces the first.
        value: First piece of a string (may be empty), further piece, or the scalar; None for containers.
    """

    path: str
    kind: Literal["object", "array", "string", "delta", "value"]
    value: Any = None


def _matcher(pattern: str) -> Callable[[str, int], re.Match[str]]:
    """``match`` of a verbose pattern that matches at least nothing."""
    return cast(Any, re.compile(pattern, re.VERBOSE).match)  # type: ignore[no-any-return]


# Inside a string: what can be decoded. Half a surrogate pair waits for what follows. The count is bounded
# because the matcher keeps some hundred bytes for each repetition.
_RUN = _matcher(
    r"""(?: [^"\\\x00-\x1f]+
          | \\ (?: ["\\/bfnrt]
                 | u (?![dD][89abAB]) [0-9a-fA-F]{4}
                 | u [dD][89abAB][0-9a-fA-F]{2} (?= [^\\] | \\[^u] | \\u[0-9a-fA-F]{4} ) ) ){0,1000}"""
)
_CUT = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_WORD = _matcher(r"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SPACE = _matcher(r"[ \t\n\r]*")
_PLAIN = re.compile(r"[^\"\\\x00-\x1f]+")
_JSON = json.JSONDecoder()
_WORDS = {"true": True, "false": False, "null": None}

_State = Literal[  # what comes next, or what is open
    "value",
    "element",  # the first of an array, or its end
    "key",  # the first name of an object, or its end
    "member",  # the name after a comma
    "colon",
    "next",  # a comma, or the end of the container
    "name",
    "string",
    "word",
    "done",
    "failed",
]


class ArgumentsPreview:
    """Live view of the arguments of one call while their JSON text is still coming.

    For display only: half a file name or half a command is a wrong one, so nothing in it may be used to run a
    tool. A tool runs on :func:`parse_arguments` of the whole text.

    Work is proportional to what is fed, wherever the text is cut. Numbers and literals show when they are
    whole, strings as far as they came.
    """

    __slots__ = ("_name", "_path", "_pieces", "_rest", "_root", "_slot", "_stack", "_state")

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._stack: list[tuple[Any, str]] = []  # open containers with their paths
        self._state: _State = "value"
        self._pieces: list[str] = []  # of the open name, string, number or literal
        self._rest = ""  # an escape that was cut, at most 11 characters
        self._name = ""  # of the member whose value comes
        self._slot: str | int = ""  # of the open value in its container
        self._path = "$"  # of the open value

    @property
    def complete(self) -> bool:
        """Whether the object has closed and nothing but white space followed."""
        return self._state == "done"

    @property
    def failed(self) -> bool:
        """Whether the text is not one JSON object (or too deep); what came before stays, nothing is added."""
        return self._state == "failed"

    @property
    def value(self) -> dict[str, Any]:
        """What has come. The live object: it grows with later fragments, so copy what is to stay.

        Reading it joins the open string; to show a long string as it grows, use the events instead.
        """
        if self._state == "string":
            text = "".join(self._pieces)
            if len(self._pieces) > 1:
                self._pieces = [text]
            self._stack[-1][0][self._slot] = text
        return self._root

    def feed(self, fragment: str) -> list[ArgumentEvent]:
        """Read the next piece of the text, cut anywhere; an empty one changes nothing. Never raises."""
        events: list[ArgumentEvent] = []
        if self._state == "failed":
            return events
        if self._pieces and self._state == "string" and not self._rest and _PLAIN.fullmatch(fragment):
            self._pieces.append(fragment)
            events.append(ArgumentEvent(self._path, "delta", fragment))
            return events
        text = self._rest + fragment
        self._rest = ""
        position = 0
        try:
            while position < len(text):
                if self._state == "string" or self._state == "name":
                    position = self._read_string(text, position, events)
                elif self._state == "word":
                    position = self._read_word(text, position, events)
                elif text[position] in " \t\n\r":
                    position = _SPACE(text, position).end()
                else:
                    self._read_mark(text[position], events)
                    position += 1
            if self._state == "string" and not self._pieces:
                self._read_string("", 0, events)  # opened by the last character
        except _Misfit:
            _ = self.value  # joins the open string while it is still known
            self._state = "failed"
        return events

    def _read_string(self, text: str, start: int, events: list[ArgumentEvent]) -> int:
        stop = _RUN(text, start).end()
        piece = text[start:stop]
        if "\\" in piece:
            piece = _JSON.raw_decode(f'"{piece}"')[0]
        if self._state == "string" and (piece or not self._pieces):
            events.append(ArgumentEvent(self._path, "delta" if self._pieces else "string", piece))
        self._pieces.append(piece)
        if stop == len(text):
            return stop
        if text[stop] != '"':
            if stop > start:
                return stop
            if not _CUT.fullmatch(text, stop):
                raise _Misfit("holds a control character or an unknown escape")
            self._rest = text[stop:]
            return len(text)
        whole = "".join(self._pieces)
        if self._state == "name":
            self._name = whole
            self._state = "colon"
        else:
            self._stack[-1][0][self._slot] = whole
            self._state = "next"
        self._pieces = []
        return stop + 1

    def _read_word(self, text: str, start: int, events: list[ArgumentEvent]) -> int:
        stop = _WORD(text, start).end()
        self._pieces.append(text[start:stop])
        if stop < len(text):
            value = _scalar("".join(self._pieces))
            self._set(value)
            events.append(ArgumentEvent(self._path, "value", value))
            self._state = "next"
            self._pieces = []
        return stop

    def _read_mark(self, mark: str, events: list[ArgumentEvent]) -> None:
        state = self._state
        if mark == '"' and (state == "key" or state == "member"):
            self._state = "name"
        elif mark == ":" and state == "colon":
            self._state = "value"
        elif mark == "," and state == "next":
            self._state = "member" if type(self._stack[-1][0]) is dict else "value"
        elif mark in "]}" and state in ("key", "element", "next") and mark == self._closing():
            self._stack.pop()
            self._state = "next" if self._stack else "done"
        elif state == "value" or state == "element":
            self._open(mark, events)
        else:
            raise _Misfit(f"holds {mark!r} out of place")

    def _open(self, mark: str, events: list[ArgumentEvent]) -> None:
        if not self._stack:
            if mark != "{":
                raise _Misfit("is not an object")
            self._enter(self._root, "$", events)
            return
        container, base = self._stack[-1]
        self._slot = self._name if type(container) is dict else len(container)
        self._path = base + _step(self._slot)
        if mark == '"':
            self._set("")
            self._state = "string"
        elif mark == "{" or mark == "[":
            if len(self._stack) >= MAX_DEPTH:
                raise _Misfit(f"is deeper than {MAX_DEPTH} levels")
            inner: Any = {} if mark == "{" else []
            self._set(inner)
            self._enter(inner, self._path, events)
        elif mark in "-0123456789tfn":
            self._pieces = [mark]
            self._state = "word"
        else:
            raise _Misfit(f"holds {mark!r} where a value is needed")

    def _enter(self, container: Any, path: str, events: list[ArgumentEvent]) -> None:
        is_object = type(container) is dict
        self._stack.append((container, path))
        self._state = "key" if is_object else "element"
        events.append(ArgumentEvent(path, "object" if is_object else "array"))

    def _closing(self) -> str:
        return "}" if type(self._stack[-1][0]) is dict else "]"

    def _set(self, value: Any) -> None:
        container = self._stack[-1][0]
        if type(container) is dict:
            container[self._slot] = value
        else:
            container.append(value)


def _scalar(word: str) -> bool | int | float | None:
    if word in _WORDS:
        return _WORDS[word]
    number = _NUMBER.fullmatch(word)
    if number is None:
        raise _Misfit(f"holds {_short(word)}, which is no JSON value")
    try:
        return int(word) if number.lastindex is None else _finite(word)
    except ValueError:
        raise _Misfit("holds a number that is too large") from None
