"""Arguments of calls: whole texts, values by JSONPath, and the preview of a text that is still coming."""

from __future__ import annotations

import json
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import arguments as module
from adk_stream.arguments import (
    MAX_ARRAY_INDEX,
    MAX_DEPTH,
    ArgumentsPreview,
    PathArguments,
    dump_arguments,
    parse_arguments,
)

# Surrogates are drawn apart, so that no two of them meet and become one character in JSON.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["\ud83d", "\ude00x", "a\ud83db", "\U0001f600", "\\ud83d", '"\\/\b\f\n\r\t\x7f\u2028', "\x00"]
)
numbers = st.integers() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type: 1, 1.0 and True are three things here, and so is the order of members."""
    return repr(left) == repr(right)


# -- whole texts -------------------------------------------------------------------------------------------


@given(objects, st.booleans(), st.sampled_from([None, 2]))
def test_a_text_is_read_exactly(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert same(parse_arguments(text), value)
    assert same(parse_arguments(f" \r\n\t{text}\n"), value)


@given(objects)
def test_what_is_dumped_is_read_back(value: dict[str, Any]) -> None:
    text = dump_arguments(value)
    text.encode()  # no lone surrogate is left in it
    assert same(parse_arguments(text), value)


def test_a_dumped_text_is_compact_and_keeps_characters() -> None:
    assert dump_arguments({"é": [1, "\ud83d"]}) == '{"é":[1,"\\ud83d"]}'
    assert dump_arguments({}) == dump_arguments(None) == "{}"
    with pytest.raises(ValueError, match="JSON"):
        dump_arguments({"a": math.nan})


@pytest.mark.parametrize("text", [None, "", " ", "\n\t ", "{}", " {} "])
def test_no_text_is_a_call_without_arguments(text: str | None) -> None:
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        *["[]", "1", '"a"', "null", "true", "x", "{", "}", '{"a"', '{"a":1', '{"a":1}}', '{"a":1} x'],
        *['{"a":1}{"a":1}'],
        *["{'a':1}", '{"a":1,}', "{a:1}", '{"a":01}', '{"a":.5}', '{"a":+1}', '{"a":1.}', '{"a":tru}'],
        *["\ufeff{}"],
        *['{"a":NaN}', '{"a":Infinity}', '{"a":-Infinity}', '{"a":1e400}', '{"a":-1e400}'],
        *['{"\\ud83d":1e400}'],
        *['{"a":"\n"}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":"\\ud83d","b":NaN}', '["\\ud83d"]', "\x00"],
        *["```json\n{}```"],
        '{"a":%s}' % ("1" * (sys.get_int_max_str_digits() + 1)),
        '{"a":' * 100_000,
        '{"a":' + "[" * 100_000,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)  # fmt: skip
def test_what_is_not_one_object_is_never_repaired(text: str) -> None:
    assert parse_arguments(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"a":9223372036854775808,"b":-170141183460469231731687303715884105729}',
            {"a": 2**63, "b": -(2**127) - 1},
        ),
        ('{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
        ('{"a":1.0,"b":1e2,"c":-0.0}', {"a": 1.0, "b": 100.0, "c": -0.0}),
        ('{"a":"\\ud83d\\ude00 \\ude00 \\ud83d"}', {"a": "\U0001f600 \ude00 \ud83d"}),
        ('{"\\ud83d":"\ud83d"}', {"\ud83d": "\ud83d"}),
        ('{"":{"":[]},"b":{}}', {"": {"": []}, "b": {}}),
    ],
)
def test_values_json_allows(text: str, value: dict[str, Any]) -> None:
    assert same(parse_arguments(text), value)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_depth_is_bounded() -> None:
    assert parse_arguments(json.dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    assert parse_arguments(json.dumps(nested(MAX_DEPTH + 1))) is None
    assert parse_arguments(json.dumps({"a": [[]] * (2 * MAX_DEPTH)})) is not None  # wide is not deep


@given(st.text(st.sampled_from('{}[]:,"\\ud83e0 1.tn-\n'), max_size=14), objects, st.data())
def test_the_same_texts_are_json_as_for_the_standard_library(noise: str, value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text)))
    for candidate in (noise, text[:cut], text[:cut] + noise + text[cut:]):
        try:
            expected = json.loads(candidate, parse_constant=lambda word: [][1])
        except (ValueError, IndexError):
            expected = {} if not candidate.strip() else None
        if isinstance(expected, dict) and "inf" not in repr(expected):
            assert same(parse_arguments(candidate), expected)
        elif not isinstance(expected, dict):
            assert parse_arguments(candidate) is None


# -- Gemini: values by JSONPath ----------------------------------------------------------------------------


def collected(*partials: dict[str, Any], args: dict[str, Any] | None = None) -> PathArguments:
    state = PathArguments()
    state.merge_args(args)
    for partial in partials:
        state.add(partial)
    return state


def at(path: str, value: Any, **more: Any) -> dict[str, Any]:
    if value is None:
        return {"jsonPath": path, "nullValue": "NULL_VALUE", **more}
    kind = {str: "stringValue", bool: "boolValue"}.get(type(value), "numberValue")
    return {"jsonPath": path, kind: value, **more}


def path_of(keys: list[str | int], style: int) -> str:
    """One of the spellings of a path."""
    steps = ["$"]
    for key in keys:
        if isinstance(key, int):
            steps.append(f"[{key}]" if style else f"[ {key} ]")
        elif style == 0 and key and key.isidentifier():
            steps.append("." + key)
        elif style == 1:
            steps.append("[" + json.dumps(key) + "]")
        else:
            steps.append("['" + key.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "']")
    return "".join(steps)


def flat(value: Any, keys: list[str | int]) -> list[tuple[list[str | int], Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in flat(item, [*keys, key])]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in flat(item, [*keys, index])]
    return [(keys, value)]


def without_empty(value: Any) -> Any:
    """Empty containers have no path to a value in them."""
    if isinstance(value, dict):
        return {key: inner for key, item in value.items() if (inner := without_empty(item)) not in ({}, [])}
    if isinstance(value, list):
        return [inner for item in value if (inner := without_empty(item)) not in ({}, [])]
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


whole = objects.map(without_empty)


@st.composite
def streams(draw: st.DrawFn, source: st.SearchStrategy[Any] = whole) -> tuple[Any, list[dict[str, Any]]]:
    """An object, and one way a provider could stream it: strings in pieces, places interleaved."""
    value = draw(source)
    queues = []
    for keys, leaf in flat(value, []):
        pieces: list[Any] = [leaf]
        if isinstance(leaf, str):
            cuts = sorted(draw(st.lists(st.integers(0, len(leaf)), max_size=3)))
            pieces = [leaf[i:j] for i, j in zip([0, *cuts], [*cuts, len(leaf)], strict=True)]
        queues.append([at(path_of(keys, draw(st.integers(0, 2))), piece) for piece in pieces])
    partials = []
    while queues:
        queue = queues[draw(st.integers(0, min(2, len(queues) - 1)))]
        partials.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return value, partials


def saved(state: PathArguments) -> PathArguments:
    return msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(state))), PathArguments)


@given(streams())
def test_any_streaming_of_an_object_builds_it(stream: tuple[Any, list[dict[str, Any]]]) -> None:
    value, partials = stream
    state = collected(*partials)
    built, problem = state.build()
    assert problem is None
    assert built == value
    assert same(sorted(map(repr, flat(built, []))), sorted(map(repr, flat(value, []))))  # types, not order
    assert parse_arguments(state.text()) == value


@given(streams(), st.data())
def test_the_state_can_be_saved_anywhere(stream: tuple[Any, list[dict[str, Any]]], data: st.DataObject) -> None:
    _, partials = stream
    cut = data.draw(st.integers(0, len(partials)))
    args = data.draw(st.none() | st.just({"kept": [1, {"x": 2**70}]}))
    state = collected(*partials[:cut], args=args)
    restored = saved(state)
    assert restored == state
    for partial in partials[cut:]:
        state.add(partial)
        restored.add(partial)
    assert same(restored.build(), state.build())


@given(streams(st.dictionaries(st.text("ab_.'\"\\ é-", max_size=4), values, max_size=4).map(without_empty)))
def test_every_value_is_where_its_path_points(stream: tuple[Any, list[dict[str, Any]]]) -> None:
    jsonpath = pytest.importorskip("jsonpath", reason="python-jsonpath is the judge here")
    _, partials = stream
    state = collected(*partials)
    built, _ = state.build()
    for leaf in state.leaves.values():
        if any("\ud800" <= char <= "\udfff" or char < " " for key in leaf.keys for char in str(key)):
            continue
        path = "$" + "".join(f"[{key}]" if isinstance(key, int) else f"[{json.dumps(key)}]" for key in leaf.keys)
        assert same(jsonpath.findall(path, built), [leaf.read()])
        path = module._spell(leaf.keys)
        if max(path) < "\U00010000":  # the judge knows no shorthand for names beyond
            assert same(jsonpath.findall(path, built), [leaf.read()])


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("$.a", ["a"]),
        ("$.a[0]['b.c'].d", ["a", 0, "b.c", "d"]),
        ('$["a"]["b"]', ["a", "b"]),
        ("$.a-b", ["a-b"]),
        ("$.a b", ["a b"]),
        ("$.@type.$ref", ["@type", "$ref"]),
        ("$.0", ["0"]),
        ("$.naïve.日本[10]", ["naïve", "日本", 10]),
        ("$['']", [""]),
        ("$['*']", ["*"]),
        ("$[ 'a' ][ 0 ]", ["a", 0]),
        (r"$['it\'s']", ["it's"]),
        (r"""$["a\"b'c"]""", ["a\"b'c"]),
        (r"$['\b\f\n\r\t\/\\\"']", ['\b\f\n\r\t/\\"']),
        (r"$['\u00e9\u000a']", ["é\n"]),
        (r"$['\ud83d\ude00']", ["\U0001f600"]),
        (r"$['\ud83d']", ["\ud83d"]),
        (r"$['\\u0041']", [r"\u0041"]),
        ("$[']['][\"[0]\"]", ["][", "[0]"]),
    ],
)
def test_paths(path: str, keys: list[str | int]) -> None:
    expected: Any = "v"
    for key in reversed(keys):
        expected = {key: expected} if isinstance(key, str) else [*[None] * key, expected]
    assert collected(at(path, "v")).build() == (expected, None)
    spelled = module._spell(keys)
    assert module._parse_path(spelled) == keys
    spelled.encode()


@pytest.mark.parametrize(
    "path",
    [
        *["", "a", "a.b", "$a", "$.", "$..a", "$.a.", "$.a..b", "$.a[", "$.a]", "$.a[]", "$[a]", "$.a[0"],
        *["$.a['b]", "$['a'"],
        *["$.*", "$.a[*]", "$[0:1]", "$[?@.a]", "$['a','b']", "$.a[-1]", "$.a[01]", "$.a[1.0]", "$.a[+1]"],
        *["$.a[٣]", " $.a"],
        *[r"$['\x']", r"$['\u12']", r"$['\u00zz']", "$['a\\']", f"$.a[{MAX_ARRAY_INDEX + 1}]"],
        *["$.a[" + "9" * 5000 + "]"],
        *["$" + ".a" * (MAX_DEPTH + 1), "$" + "[" * 100_000, "$" + "['" * 100_000],
    ],
)  # fmt: skip
def test_a_path_that_names_no_place_is_a_problem_of_the_call(path: str) -> None:
    state = collected(at("$.ok", "yes"), at(path, "v"))
    built, problem = state.build()
    assert built is None
    assert problem is not None
    assert problem.startswith(f"The argument at {path[:60]}")
    assert len(problem) < 250
    assert state.text() == '{"ok":"yes"}'


def test_the_highest_index_and_depth_are_allowed() -> None:
    built, problem = collected(at(f"$.a[{MAX_ARRAY_INDEX}]", 1)).build()
    assert problem is None
    assert built == {"a": [None] * MAX_ARRAY_INDEX + [1]}
    assert collected(at("$" + ".a" * MAX_DEPTH, 1)).build()[1] is None


def test_a_short_path_cannot_allocate_much() -> None:
    state = collected(at("$" + "['a'][10000]" * 99, 1), at("$.b", 2))
    tracemalloc.start()
    assert "open" in (state.build()[1] or "")
    assert state.text() == '{"b":2}'
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_the_number_of_places_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LEAVES", 2)
    assert collected(at("$.a", 1), at("$.b", 1), at("$.a", 2)).build() == ({"a": 2, "b": 1}, None)
    assert "2 values" in (collected(at("$.a", 1), at("$.b", 1), at("$.c", 1)).build()[1] or "")


@pytest.mark.parametrize(
    ("partials", "args", "problem", "text"),
    [
        (
            [("$.a", "x"), ("$.a.b", "y")],
            {},
            "at $.a.b needs an object at $.a, where a string stands",
            {"a": "x"},
        ),
        ([("$.a.b", "y"), ("$.a", "x")], {}, "at $.a is a string, where an object stands", {"a": {"b": "y"}}),
        (
            [("$.a[0]", 1), ("$.a.b", 2)],
            {},
            "at $.a.b needs an object at $.a, where an array stands",
            {"a": [1]},
        ),
        (
            [("$.a.b", 1), ("$.a[0]", 2)],
            {},
            "at $.a[0] needs an array at $.a, where an object",
            {"a": {"b": 1}},
        ),
        ([("$[0]", 1)], {}, "at $[0] needs an array at $, where an object stands", {}),
        ([("$", "x")], {}, "at $ is a string, where an object is needed", {}),
        ([("$", None)], {}, "at $ is null, where an object is needed", {}),
        ([("$.a", 1), ("$.a", "x")], {}, "at $.a is a string, where a number stands", {"a": 1}),
        ([("$.a", "x"), ("$['a']", 1)], {}, "at $['a'] is a number, where a string stands", {"a": "x"}),
        (
            [("$.a", None), ("$.a.b", 1)],
            {},
            "at $.a.b needs an object at $.a, where null stands",
            {"a": None},
        ),
        ([("$.a.b", 1), ("$.a", None)], {}, "at $.a is null, where an object stands", {"a": {"b": 1}}),
        ([("$.a[0][0]", 1), ("$.a[0]", None)], {}, "at $.a[0] is null, where an array stands", {"a": [[1]]}),
        (
            [("$.a[0]", None), ("$.a[0].b", 1)],
            {},
            "at $.a[0].b needs an object at $.a[0], where null",
            {"a": [None]},
        ),
        ([("$.a.b", 1)], {"a": True}, "at $.a.b needs an object at $.a, where a boolean stands", {"a": True}),
        ([("$.a", 1)], {"a": {}}, "at $.a is a number, where an object stands", {"a": {}}),
        ([("$.a", math.nan)], {}, "at $.a is nan, which JSON does not have", {}),
        ([("$.a", -math.inf)], {}, "at $.a is -inf, which JSON does not have", {}),
    ],
)
def test_conflicts_are_reported_and_nothing_is_lost_silently(
    partials: list[tuple[str, Any]], args: dict[str, Any], problem: str, text: dict[str, Any]
) -> None:
    state = collected(*(at(path, value) for path, value in partials), at("$.z", "fits"), args=args)
    built, told = state.build()
    assert built is None
    assert told is not None
    assert f"The argument {problem}" in told
    assert told.endswith(".")
    assert json.loads(state.text()) == {**text, "z": "fits"}
    assert saved(state).build() == (None, told)


@pytest.mark.parametrize(
    "partial",
    [
        {"stringValue": "x"},
        {"jsonPath": None, "stringValue": "x"},
        {"jsonPath": ["$.a"], "stringValue": "x"},
        {"jsonPath": "$.a", "stringValue": 1},
        {"jsonPath": "$.a", "stringValue": {"x": 1}},
        {"jsonPath": "$.a", "numberValue": "1"},
        {"jsonPath": "$.a", "numberValue": True},
        {"jsonPath": "$.a", "boolValue": 1},
        {"jsonPath": "$.a", "boolValue": "true"},
        {"jsonPath": "$.a", "stringValue": "x", "numberValue": 1},
        {"jsonPath": "$.a", "stringValue": "x", "nullValue": "NULL_VALUE"},
        None,
        "x",
        ["$.a"],
    ],
)
def test_a_partial_that_is_none_is_a_problem_not_an_exception(partial: Any) -> None:
    known = at("$.a", "known")
    for before in ([], [known]):
        built, problem = collected(*before, partial).build()
        assert built is None
        assert (problem or "").startswith("The argument ")


@pytest.mark.parametrize(
    ("partial", "expected"),
    [
        ({"json_path": "$.a", "string_value": "x", "will_continue": True}, {"a": "x"}),
        ({"json_path": "$.a", "number_value": 5.0, "bool_value": None, "null_value": None}, {"a": 5}),
        ({"jsonPath": "$.a", "boolValue": False, "stringValue": None}, {"a": False}),
        ({"jsonPath": "$.a", "nullValue": "NULL_VALUE"}, {"a": None}),
        ({"jsonPath": "$.a", "nullValue": None}, {"a": None}),
        ({"jsonPath": "$.a", "nullValue": 0}, {"a": None}),
        (
            {"json_path": "$.a", "null_value": "NULL_VALUE", "string_value": None, "number_value": None},
            {"a": None},
        ),
        ({"json_path": "$.a", "null_value": None, "string_value": None, "number_value": None}, {}),
        ({"jsonPath": "$.a", "willContinue": True}, {}),
        ({"willContinue": False}, {}),
        ({}, {}),
        ({"jsonPath": "$.a", "stringValue": "x", "unknownField": 1}, {"a": "x"}),
    ],
)
def test_forms_of_a_partial(partial: dict[str, Any], expected: dict[str, Any]) -> None:
    assert same(collected(partial).build(), (expected, None))


def test_google_sdk_objects_as_they_are_dumped() -> None:
    types = pytest.importorskip("google.genai.types")
    partial = types.PartialArg(json_path="$.a", number_value=3)
    for dumped in (
        partial.model_dump(),
        partial.model_dump(by_alias=True),
        partial.model_dump(exclude_none=True),
    ):
        assert same(collected(dumped).build(), ({"a": 3}, None))
    empty = types.PartialArg(json_path="$.a", will_continue=False).model_dump()
    assert collected(at("$.a", "x"), empty).build() == ({"a": "x"}, None)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *[
            (5, 5),
            (5.0, 5),
            (1e3, 1000),
            (-7.0, -7),
            (0.5, 0.5),
            (2.0**53 - 1, 2**53 - 1),
            (2.0**53, 2.0**53),
        ],
        *[(1e300, 1e300), (2**53 + 1, 2**53 + 1), (2**200, 2**200), (-1e20, -1e20)],
    ],
)
def test_numbers_are_integers_where_that_is_exact(number: float, expected: float) -> None:
    state = collected(at("$.n", number))
    assert same(state.build(), ({"n": expected}, None))
    assert same(saved(state).build(), ({"n": expected}, None))


def test_an_empty_closing_string_adds_nothing() -> None:
    partials = [
        at("$.a", "Boston", willContinue=True),
        at("$.a", ""),
        at("$.n", 5),
        at("$.n", ""),
        at("$.e", ""),
    ]
    assert collected(*partials).build() == ({"a": "Boston", "n": 5, "e": ""}, None)


def test_later_scalars_replace() -> None:
    partials = [at("$.a", 1), at("$['a']", 2), at("$.b", True), at("$.b", None)]
    assert same(collected(*partials).build(), ({"a": 2, "b": None}, None))


def test_a_surrogate_pair_cut_in_two_is_one_character() -> None:
    state = collected(at("$.a", "x\ud83d"), at("$.a", "\ude00y"), at("$.b", "\ud83d"))
    assert state.build() == ({"a": "x\U0001f600y", "b": "\ud83d"}, None)
    assert parse_arguments(state.text()) == state.build()[0]


def test_gaps_are_null_and_are_filled_later() -> None:
    partials = [at("$.a[2].x", 1), at("$.a[0]", "first"), at("$.a[3][1]", 2)]
    assert collected(*partials).build() == ({"a": ["first", None, {"x": 1}, [None, 2]]}, None)


def test_whole_args_and_fragments_are_merged() -> None:
    state = PathArguments()
    args = {"a": 1, "keep": {"x": [1]}, "empty": {}, "none": None, "list": []}
    state.merge_args(args)
    state.add(at("$.b", "z"))
    state.add(at("$.keep.y", 2))
    state.add(at("$.empty.deep[0]", 3))
    state.add(at("$.none.filled", 4))
    state.add(at("$.list[0]", 5))
    state.merge_args({"a": 2, "keep": {"w": 0}})
    expected = {
        "a": 2,
        "keep": {"x": [1], "w": 0, "y": 2},
        "empty": {"deep": [3]},
        "none": {"filled": 4},
        "list": [5],
        "b": "z",
    }
    assert state.build() == (expected, None)
    assert args == {"a": 1, "keep": {"x": [1]}, "empty": {}, "none": None, "list": []}


def test_fragments_and_a_whole_copy_count_once() -> None:
    copy = {"a": "hello", "b": [1, 2]}
    fragments = [at("$.a", "hel"), at("$.a", "lo"), at("$.b[0]", 1), at("$.b[1]", 2)]
    before = collected(*fragments, args=copy)
    after = collected(*fragments)
    after.merge_args(copy)
    assert before.build() == after.build() == (copy, None)


@pytest.mark.parametrize(
    "args", [[1], "x", {"a": {1}}, {"a": math.nan}, {1: 2}, {"a": b"x"}, nested(MAX_DEPTH + 1), nested(900)]
)
def test_args_that_are_no_json_object_are_a_problem(args: Any) -> None:
    state = collected(at("$.ok", 1), args=args)
    assert state.build()[0] is None
    assert state.build()[1]
    assert state.text() == '{"ok":1}'


def test_nothing_built_is_shared() -> None:
    args: dict[str, Any] = {"a": {"b": [1]}}
    state = collected(at("$.c[0].d", "x"), args=args)
    first, _ = state.build()
    assert first is not None
    first["a"]["b"].append(2)
    first["c"][0]["d"] = "changed"
    args["a"]["b"].append(3)
    assert state.build() == ({"a": {"b": [1]}, "c": [{"d": "x"}]}, None)
    assert PathArguments().build() == ({}, None)


# -- preview -----------------------------------------------------------------------------------------------


def replayed(events: list[module.ArgumentEvent], root: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the events alone has."""
    for path, kind, value in events:
        keys = module._parse_path(path)
        if not keys:
            continue
        node: Any = root
        for key in keys[:-1]:
            node = node[key]
        last: Any = keys[-1]
        new = {"object": {}, "array": []}.get(kind, value)
        if kind == "delta":
            node[last] += value
        elif isinstance(node, list):
            assert last == len(node)
            node.append(new)
        else:
            node[last] = new
    return root


def pieces(text: str, cuts: Iterable[int]) -> list[str]:
    ends = sorted({cut % (len(text) or 1) for cut in cuts})
    return [text[i:j] for i, j in zip([0, *ends], [*ends, len(text)], strict=True)]


@settings(max_examples=300)
@given(
    objects,
    st.booleans(),
    st.sampled_from([None, 1, "\r\n\t "]),
    st.lists(st.integers(0, 10_000), max_size=20) | st.just(range(400)),
)
def test_a_complete_preview_is_what_json_reads(value: Any, ascii_only: bool, indent: Any, cuts: Iterable[int]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    preview = ArgumentsPreview()
    shown: dict[str, Any] = {}
    for piece in pieces(text, cuts):
        assert not preview.complete
        assert not preview.failed
        new = preview.feed(piece)
        assert all(event.value != "" for event in new if event.kind == "delta")
        assert same(replayed(new, shown), preview.value)
    assert preview.complete
    assert not preview.failed
    assert same(preview.value, json.loads(text))
    assert same(shown, json.loads(text))
    assert preview.feed(" \n") == []
    assert preview.complete
    assert preview.feed("x") == []
    assert preview.failed
    assert not preview.complete
    assert same(preview.value, json.loads(text))


@given(objects, st.data())
def test_a_preview_never_shows_more_than_came(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    preview = ArgumentsPreview()
    preview.feed(text[: data.draw(st.integers(0, len(text)))])
    assert not preview.failed
    within(preview.value, value)


def within(part: Any, whole: Any) -> None:
    if isinstance(part, dict):
        for key, item in part.items():
            within(item, whole[key])
    elif isinstance(part, list):
        for item, full in zip(part, whole, strict=False):
            within(item, full)
    elif isinstance(part, str):
        assert whole.startswith(part)
    else:
        assert same(part, whole)


@given(st.text(st.sampled_from('{}[]:,"\\ud83e0 1.tn-\n'), max_size=14), objects, st.data())
def test_a_preview_judges_as_json_does(noise: str, value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text)))
    for candidate in (noise, text[:cut] + noise + text[cut:]):
        preview = ArgumentsPreview()
        for piece in pieces(candidate, data.draw(st.lists(st.integers(0, 10_000), max_size=6))):
            preview.feed(piece)
        expected = parse_arguments(candidate) if candidate.strip() else None
        assert preview.complete == (expected is not None)
        if expected is not None:
            assert same(preview.value, expected)


def test_events_of_a_text_as_it_comes() -> None:
    preview = ArgumentsPreview()
    assert preview.feed('{"a b": [{"c":"x') == [
        ("$", "object", None),
        ("$['a b']", "array", None),
        ("$['a b'][0]", "object", None),
        ("$['a b'][0].c", "string", "x"),
    ]
    assert preview.feed("y\\") == [("$['a b'][0].c", "delta", "y")]
    assert preview.value == {"a b": [{"c": "xy"}]}
    assert preview.feed("n\\ud83d") == [("$['a b'][0].c", "delta", "\n")]
    assert preview.feed("\\ude") == []
    assert preview.feed("00") == [("$['a b'][0].c", "delta", "\U0001f600")]
    assert preview.feed('"}, 12') == []
    assert preview.feed("3") == []
    assert preview.feed(', "" ]') == [("$['a b'][1]", "value", 123), ("$['a b'][2]", "string", "")]
    assert not preview.complete
    assert preview.feed("}") == []
    assert preview.complete
    assert preview.value == {"a b": [{"c": "xy\n\U0001f600"}, 123, ""]}


@pytest.mark.parametrize(
    "text",
    [
        *["[", "1", '"', "x", "]", "}", ",", '{"a":}', '{"a":]', '{"a" 1', "{1", "{,", '{"a":1,}'],
        *['{"a":[1,]', '{"a":[,', '{"a":{]'],
        *['{"a":[}', '{"a":1]', '{"a":01,', '{"a":1.,', '{"a":-,', '{"a":tru,', '{"a":NaN', '{"a":nul}'],
        *['{"a":1e400}', '{"a":+'],
        *['{"a":"\n', '{"a":"\\x', '{"a":"\\u00g', '{"a":"\\ud83d\\x', '{"a":"\\ud83d\\u0g', "{}{"],
        *["{} x", '{"a":٣'],
        *['{"a":' * (MAX_DEPTH + 1), '{"a":' + "[" * 100_000],
        *['{"a":%s,' % ("1" * (sys.get_int_max_str_digits() + 1))],
    ],
)  # fmt: skip
def test_a_preview_of_what_is_no_object_stops_and_keeps_what_it_had(text: str) -> None:
    for step in (1, len(text)):
        preview = ArgumentsPreview()
        for start in range(0, len(text), step):
            preview.feed(text[start : start + step])
        assert preview.failed
        assert not preview.complete
        kept = json.dumps(preview.value)
        assert preview.feed('"more":1}') == []
        assert json.dumps(preview.value) == kept


def test_a_preview_that_fails_keeps_its_open_string() -> None:
    preview = ArgumentsPreview()
    assert preview.feed('{"a":1,"b":"text\\q') == [
        ("$", "object", None),
        ("$.a", "value", 1),
        ("$.b", "string", "text"),
    ]
    assert preview.failed
    assert preview.value == {"a": 1, "b": "text"}


def test_a_key_given_twice_starts_over() -> None:
    preview = ArgumentsPreview()
    events = preview.feed('{"a":"first","a":["x"],"a":"last"}')
    assert preview.value == replayed(events, {}) == {"a": "last"}


# -- cost --------------------------------------------------------------------------------------------------


def add_many(count: int) -> None:
    state = PathArguments()
    for number in range(count):
        state.add({"jsonPath": f"$.rows[{number % 4}].text", "stringValue": "twelve chars", "willContinue": True})
    built, _ = state.build()
    assert built is not None
    assert sum(len(row["text"]) for row in built["rows"]) == 12 * count


def add_places(count: int) -> None:
    state = PathArguments()
    for number in range(count):
        state.add({"jsonPath": f"$.rows[{number}].n", "numberValue": float(number)})
    assert len((state.build()[0] or {})["rows"]) == count


def feed_many(unit: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        preview = ArgumentsPreview()
        preview.feed('{"a":["')
        for _ in range(count):
            preview.feed(unit)
        preview.feed('"]}')
        assert preview.complete

    return run


def feed_digits(count: int) -> None:
    preview = ArgumentsPreview()
    preview.feed('{"a":0.')
    for _ in range(count):
        preview.feed("123456789012")
    preview.feed("}")
    assert preview.complete


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (add_many, 20_000),
        (add_places, 1_000),
        (feed_many("twelve chars"), 10_000),
        (feed_many("\\n\\u00e9\\ud83d"), 10_000),
        (feed_many('x","name is '), 10_000),
        (feed_digits, 2_000),
    ],
)
def test_cost_grows_with_the_text_alone(run: Callable[[int], None], count: int) -> None:
    def seconds(size: int) -> float:
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            run(size)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(10 * count) < 20 * seconds(count)  # linear is 10, quadratic 100


@pytest.mark.parametrize("unit", ["\\n", "\\ud83d\\ude00", 'é\\"'])
def test_one_large_fragment_of_escapes_takes_little_memory(unit: str) -> None:
    text = '{"a":"' + unit * 100_000 + '"}'
    preview = ArgumentsPreview()
    tracemalloc.start()
    preview.feed(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert preview.value == json.loads(text)
    assert peak < 8 * len(text)


def test_small_fragments_do_not_stay_in_memory() -> None:
    state = PathArguments()
    tracemalloc.start()
    for number in range(100_000):
        state.add({"jsonPath": "$.a", "stringValue": f"{number:06}"})
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 2 * 600_000
    assert (state.build()[0] or {})["a"] == "".join(f"{number:06}" for number in range(100_000))
