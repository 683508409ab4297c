"""Tools: which function a call names, whether its arguments fit, and what its result is as JSON.

Whatever goes wrong with one call becomes that call's result, ``{"error": …}``: the model reads it and can do better.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import anyio.to_thread
from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidationError, validate_call
from pydantic_core import PydanticSerializationError, to_jsonable_python

from adk_stream.models.declarations import NativeTool, sort_tools

from .shield import to_the_end
from .turns import CallTurn, error_result
from .watch import RunWatch
from .yielding import Told, yielded

if TYPE_CHECKING:
    from adk_stream.models.request import ToolLike

__all__ = ["ConfirmTool", "Toolbox", "as_result", "stop_calls"]

_log = logging.getLogger("adk_stream.runner")

#: Asked before a call runs; a false answer refuses it. The call is a copy: changing it changes nothing.
ConfirmTool: TypeAlias = "Callable[[types.FunctionCall, Callable[..., Any]], bool | Awaitable[bool]]"

_Result: TypeAlias = dict[str, Any]
_Bound: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Function:
    """A tool that this runner runs."""

    run: Callable[..., Any]
    bind: Callable[..., _Bound]
    is_async: bool


class Toolbox:
    """The tools of one runner. Holds no state of any run.

    Args:
        tools: Functions, sync or async; declarations, which the caller of the runner runs (pass-through).
        pass_through: True, or the names of the functions whose calls the caller runs as well.
        confirm: Asked before each call.
        timeout: Seconds that one call may take, the confirmation not counted; None: no limit.
        parallel: How many calls run at once.

    Raises:
        ValueError: two tools have the same name, ``pass_through`` names none of them, or a tool cannot be declared.
        TypeError: something is no tool.
    """

    def __init__(
        self,
        tools: Sequence[ToolLike],
        *,
        pass_through: bool | Collection[str],
        confirm: ConfirmTool | None,
        timeout: float | None,
        parallel: int,
    ) -> None:
        self._confirm = confirm
        self._timeout = timeout
        self._parallel = parallel
        self._functions: dict[str, _Function] = {}
        self._callers: set[str] = set()
        self._passes_all = pass_through is True  # calls to tools that nobody declared too
        self._watch = RunWatch()
        for name, function in _named(tools):
            if name in self._functions or name in self._callers:
                raise ValueError(f"two tools are called {name!r}")
            if function is None or pass_through is True:
                self._callers.add(name)
            else:
                self._functions[name] = function
        if not isinstance(pass_through, bool):
            self._pass(pass_through)

    def _pass(self, names: Collection[str]) -> None:
        if isinstance(names, str):
            raise TypeError("pass_through_tool_calls is a bool or a collection of names, not a string")
        unknown = set(names) - self._functions.keys() - self._callers
        if unknown:
            raise ValueError(f"pass_through_tool_calls names no tool: {', '.join(sorted(unknown))}")
        for name in names:
            self._functions.pop(name, None)
            self._callers.add(name)

    @property
    def parallel(self) -> int:
        """How many calls run at once."""
        return self._parallel

    def watched(self, watch: RunWatch) -> Toolbox:
        """The same toolbox for one run, whose watch is told of the functions that run."""
        toolbox = copy.copy(self)
        toolbox._watch = watch
        return toolbox

    def passes(self, call: types.FunctionCall) -> bool:
        """Whether the caller runs this call."""
        return self._passes_all or call.name in self._callers

    def runs(self, call: types.FunctionCall) -> bool:
        """Whether the call names a function of this toolbox."""
        return call.name in self._functions

    async def answer(self, call: types.FunctionCall, told: Told | None = None) -> types.FunctionResponse:
        """Run one call, now; whatever goes wrong with it is its answer, ``{"error": …}``.

        Args:
            call: The call.
            told: Given each value that a generator yields, when it comes. The answer is the list of them all.
        """
        result = await self._answer(call, told)
        if isinstance(result, types.FunctionResponse):  # the tool's own, with its parts and scheduling
            return result.model_copy(update={"id": call.id, "name": call.name})
        return types.FunctionResponse(id=call.id, name=call.name, response=result)

    async def run(self, turn: CallTurn) -> None:
        """Run the calls that have no answer yet, at once; each answer is put in as soon as it is there.

        When this is cancelled, the calls that run are cancelled too, and the answers that had come stay. A thread
        cannot be stopped: a function that runs in one is left behind, its result unread.
        """
        slots = asyncio.Semaphore(self._parallel)

        async def run_one(place: int, call: types.FunctionCall) -> None:
            async with slots:
                turn.answers[place] = (await self.answer(call)).response or {}

        tasks = [
            asyncio.create_task(run_one(place, call))
            for place, call in enumerate(turn.calls)
            if turn.answers[place] is None
        ]
        if not tasks:
            return
        try:
            # not gather(): when that is cancelled, it waits until the last of its tasks has ended
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        except BaseException:
            await to_the_end(stop_calls(tasks))
            raise

    async def _answer(self, call: types.FunctionCall, told: Told | None) -> _Result | types.FunctionResponse:
        function = self._functions.get(call.name or "")
        if function is None:
            return error_result(f"there is no tool {call.name!r}; there are: {', '.join(self._functions) or 'none'}")
        arguments = copy.deepcopy(call.args or {})  # whatever the tool does to them, the model's own stay
        try:
            args, kwargs = function.bind(**arguments)
        except ValidationError as problem:
            return error_result(f"{call.name}: {_in_words(problem)}")
        if self._confirm is not None:
            try:
                agreed = await _value_of(self._confirm(call.model_copy(deep=True), function.run))
            except Exception as problem:
                return error_result(f"{call.name} was not run: asking for confirmation failed: {_told(problem)}")
            if not agreed:
                return error_result(f"{call.name} was not run: the user refused it")
        limit = asyncio.timeout(self._timeout)
        try:
            with self._watch.calls(call) as returned:
                async with limit:
                    result = await yielded(await _call(function, args, kwargs), told)
                returned(result)
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return error_result(f"{call.name} was cancelled")  # by itself, or by what it waited for
        except Exception as problem:
            if limit.expired():
                return error_result(f"{call.name} took longer than {self._timeout:g} s and was stopped")
            return error_result(_told(problem))
        return result if isinstance(result, types.FunctionResponse) else as_result(call.name, result)


#: Seconds that tools have to end once they are cancelled.
_LAST_WORDS = 2.0


async def stop_calls(
    tasks: Iterable[asyncio.Task[None]], seconds: float = _LAST_WORDS, log: logging.Logger = _log
) -> None:
    """Cancel what still runs, and wait for its end within that time; what goes on is left behind, and logged."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        _, stubborn = await asyncio.wait(running, timeout=seconds)
        if stubborn:
            log.warning("%d tool call(s) went on after they were cancelled, and were left behind", len(stubborn))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _named(tools: Iterable[ToolLike]) -> Iterator[tuple[str, _Function | None]]:
    """Each tool by the name that the model knows, with its function if it has one."""
    for tool in tools:
        function = _function(tool) if callable(tool) and not isinstance(tool, (Mapping, BaseModel)) else None
        functions, native = sort_tools([tool])
        for declaration in functions:
            yield declaration.name or "", function
        for one in native:  # a custom tool is the caller's; what the provider runs never comes as a call to run
            name = _name_of_native(one)
            if name:
                yield name, None


def _name_of_native(tool: NativeTool) -> str | None:
    if not isinstance(tool, Mapping):
        return None
    inner = tool.get(str(tool.get("type")))
    name = (inner if isinstance(inner, Mapping) else tool).get("name")
    return name if isinstance(name, str) else None


def _function(tool: Callable[..., Any]) -> _Function:
    body: Any = tool
    while isinstance(body, functools.partial):
        body = body.func
    if not inspect.isroutine(body):
        body = type(body).__call__
    return _Function(tool, _binder(tool, body), inspect.iscoroutinefunction(body))


def _binder(tool: Callable[..., Any], body: Any) -> Callable[..., _Bound]:
    """A function of the tool's parameters that checks its arguments and gives them back, defaults put in.

    Raises (when called):
        ValidationError: they do not fit.
    """

    def give_back(*args: Any, **kwargs: Any) -> _Bound:
        return args, kwargs

    give_back.__signature__ = inspect.signature(tool)  # type: ignore[attr-defined]  # PEP 362
    give_back.__annotations__ = get_type_hints(body, include_extras=True)
    return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(give_back)


async def _call(function: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if function.is_async:
        return await function.run(*args, **kwargs)
    called = functools.partial(function.run, *args, **kwargs)
    return await _value_of(await anyio.to_thread.run_sync(called, abandon_on_cancel=True))


async def _value_of(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def as_result(name: str | None, value: Any) -> _Result:
    """The value as a JSON object: bytes in base64, numbers that are none as null."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as problem:
        return error_result(f"{name} gave a result that has no JSON form: {problem}")
    return plain if isinstance(plain, dict) else {"result": plain}


def _in_words(problem: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, error['loc'])) or 'arguments'}: {error['msg']}"
        for error in problem.errors(include_url=False, include_context=False, include_input=False)
    )


def _told(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
