"""What a stream tells, step by step: runs of text and thought, tool calls, results, rounds and the end.

The formats of front ends agree in this: each thing is opened once, grows by deltas and is closed once, and nothing
is told twice. Responses are built otherwise: partial ones show pieces, final ones hold everything, with
``flush="close"`` or ``"boundary"`` or without any partial before them. ``Narrator`` stands between: it finds out what
of a final was not shown yet, and calls one method of its subclass for each step. A subclass is then a table from
steps to events.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from google.genai import types

from adk_stream.aggregator.ending import fault_of
from adk_stream.parts import fresh
from adk_stream.response import LlmResponse, Status

from .protocol import dumps

__all__ = ["Call", "Ending", "Kind", "Narrator", "Outcome", "Usage"]

_Event = TypeVar("_Event")

Kind = Literal["text", "thought"]

Outcome = Literal["stop", "calls", "length", "filtered", "cancelled", "failed"]

_FILTERS = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")
_OUTCOMES: Mapping[str, Outcome] = {"MAX_TOKENS": "length", **dict.fromkeys(_FILTERS, "filtered")}

_CUT = "the stream ended before the model had"

#: Ends of a round after which no call of it may run.
_UNRUN = frozenset({"incomplete", "failed", "cancelled"})


@dataclass(slots=True, eq=False)
class Call:
    """A tool call as far as it was told.

    Attributes:
        id: The model's own, or one like it where an earlier round had that already: some servers count anew.
        round: In which round it came.
        args: None until they are whole, and for ever if the call is broken.
        raw_arguments: What there was of the arguments of a broken call.
        begun: Was it told at all? It is not before its name is known.
        held: Pieces of arguments that came before the name.
        told: Has any of its arguments come?
        done: Was it told as ready, or as broken?
        answered: Was its result told?
    """

    id: str
    name: str
    round: int
    args: Mapping[str, Any] | None = None
    raw_arguments: str | None = None
    begun: bool = False
    held: list[str] = field(default_factory=list)
    told: bool = False
    done: bool = False
    answered: bool = False


@dataclass(slots=True)
class Usage:
    """Token counts, summed over the rounds; the meaning of each is that of ``LlmResponse.usage_metadata``."""

    prompt: int = 0
    cached: int = 0
    candidates: int = 0
    thoughts: int = 0
    total: int = 0
    known: bool = False

    def add(self, counts: types.GenerateContentResponseUsageMetadata) -> None:
        """Add one response's."""
        self.known = True
        self.prompt += counts.prompt_token_count or 0
        self.cached += counts.cached_content_token_count or 0
        self.candidates += counts.candidates_token_count or 0
        self.thoughts += counts.thoughts_token_count or 0
        self.total += counts.total_token_count or 0

    @property
    def output(self) -> int:
        """Everything the model wrote."""
        return self.candidates + self.thoughts


@dataclass(frozen=True, slots=True)
class Ending:
    """How the stream ended.

    Attributes:
        status: Of its last round, or of the error that ended it.
        finish_reason: The name of the last round's, if it gave one.
        code: The error code; None after a natural end.
        message: A sentence about it.
        usage: Of all rounds.
        waiting: The calls that were told as ready and got no result.
    """

    status: Status
    finish_reason: str | None
    code: str | None
    message: str | None
    usage: Usage
    waiting: list[Call] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """What to tell the user about an end that is not natural."""
        return self.message or self.code or "the model did not answer to the end"

    @property
    def outcome(self) -> Outcome:
        """The same in the few words that front ends have."""
        if self.status == "completed":
            return "calls" if self.waiting else "stop"
        if self.status == "incomplete":
            return _OUTCOMES.get(self.finish_reason or "", "failed")
        return "cancelled" if self.status == "cancelled" else "failed"


class _Shown:
    """Text of one kind that partial responses showed and no final has held yet."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._pieces: list[str] = []
        self._runs: list[tuple[int, int]] = []  # where each run begins, and its number
        self._length = self._at = self._before = 0

    def final_ends(self) -> None:
        """What was shown so far may be in a later final of the round (parts that came interleaved), or in none."""
        self._before = self._length

    def add(self, text: str, run: int) -> None:
        if not self._runs or self._runs[-1][1] != run:
            self._runs.append((self._length, run))
        self._pieces.append(text)
        self._length += len(text)

    def rest_of(self, text: str) -> tuple[str, int | None]:
        """What of a final's ``text`` is still to be shown; and the run that showed its beginning, if one did.

        Of a text that is not the one that was shown nothing is shown again: no format can take back.
        """
        if not self._pieces:
            return text, None
        if len(self._pieces) > 1:
            self._pieces[:] = ["".join(self._pieces)]
        shown, start = self._pieces[0], self._at
        if start < self._before and not (shown.startswith(text, start) or text.startswith(shown[start:])):
            start = self._at = self._before  # no final holds it
            if start == self._length:
                self.clear()
                return text, None
        if shown.startswith(text, start):
            self._at = start + len(text)
            run = max(number for begin, number in self._runs if begin < max(self._at, 1))
            if self._at == self._length:
                self.clear()
            return "", run
        run = self._runs[-1][1]
        rest = text[self._length - start :] if text.startswith(shown[start:]) else ""
        self.clear()
        return rest, run


class Narrator(Generic[_Event]):
    """Base of the encoders that tell a stream step by step. A subclass adds to ``self._out`` in the methods below.

    Args:
        message_id: Names the answer; made when missing.
    """

    def __init__(self, message_id: str | None = None) -> None:
        self.message_id = message_id or uuid.uuid4().hex
        self._out: list[_Event] = []
        self._begun = self._finished = self._in_round = self._answered = False
        self._run: Kind | None = None
        self._runs = self._rounds = 0
        self._shown: dict[Kind, _Shown] = {"text": _Shown(), "thought": _Shown()}
        self._calls: dict[str, Call] = {}  # by the model's id, the newest of each
        self._told_calls: list[Call] = []
        self._open_calls: dict[str, Call] = {}
        self._usage = Usage()
        self._sources: set[str] = set()
        self._last: LlmResponse | None = None

    # The steps. ``run`` is the number of a run of text or thought, counted from 1 over the whole stream.

    def _begin(self) -> None:
        """First of all."""

    def _round_begins(self) -> None:
        """The model begins to answer: at first, and again after results of tools."""

    def _run_begins(self, kind: Kind, run: int) -> None:
        """Text or thought begins."""

    def _run_grows(self, kind: Kind, run: int, text: str) -> None:
        """A piece of it, never empty."""

    def _run_ends(self, kind: Kind, run: int) -> None:
        """It is whole, or nothing more of it comes."""

    def _thought_is_signed(self, run: int, signature: bytes) -> None:
        """The signature of what that run of thought ended with; the run may be closed already."""

    def _call_is_signed(self, call: Call, signature: bytes) -> None:
        """The signature of a call that was told as ready."""

    def _call_begins(self, call: Call) -> None:
        """A tool call is known by id and name."""

    def _call_grows(self, call: Call, text: str) -> None:
        """A piece of its arguments' JSON text, never empty."""

    def _call_is_ready(self, call: Call) -> None:
        """Its arguments are whole, and the model's final response says so: it may run."""

    def _call_is_broken(self, call: Call) -> None:
        """It was cut, does not parse or was cancelled: it must not run."""

    def _result(self, call: Call, response: Mapping[str, Any]) -> None:
        """The tool answered."""

    def _file(self, mime_type: str, data: bytes | None, uri: str | None) -> None:
        """An image or another file; either ``data`` or ``uri`` is given."""

    def _source(self, uri: str, title: str | None) -> None:
        """Something the answer rests on; each address once."""

    def _extra(self, name: str, value: Mapping[str, Any]) -> None:
        """A tool that the provider ran, or code and its result, in JSON."""

    def _round_ends(self) -> None:
        """The model has answered."""

    def _end(self, ending: Ending) -> None:
        """Last of all; nothing is open any more."""

    def encode(self, response: LlmResponse) -> list[_Event]:
        """The events that tell of ``response``; see ``Encoder``."""
        if self._finished:
            raise ValueError("the stream is finished")
        out: list[_Event] = []
        self._out = out
        if not self._begun:
            self._begun = True
            self._begin()
        from_user = _is_from_user(response)
        if self._answered and (from_user or (response.partial and (response.content or response.output_transcription))):
            # Only now, since a live turn has several finals with the status of the turn.
            self._end_round()
        if from_user:
            self._tell_results(response.parts)
        elif response.partial:
            self._tell_partial(response)
        else:
            self._tell_final(response)
        return out

    def finish(self, error: BaseException | None = None) -> list[_Event]:
        """The events that end the stream; see ``Encoder``."""
        out: list[_Event] = []
        self._out = out
        if self._finished:
            return out
        self._finished = True
        if not self._begun:
            self._begin()
        cut = self._in_round and not self._answered
        self._end_round()
        self._end(self._ending(error, cut))
        return out

    def _tell_partial(self, response: LlmResponse) -> None:
        if response.content is not None:
            for part in response.content.parts or ():
                if part.text is not None:
                    self._show_text(part)
                elif part.function_call is not None:
                    self._show_call(part.function_call, part.part_metadata)
                elif part.inline_data is None:
                    self._end_run()  # its final tells the rest
        heard = response.output_transcription
        if heard is not None and heard.text:
            self._grow("text", heard.text)

    def _show_text(self, part: types.Part) -> None:
        kind: Kind = "thought" if part.thought else "text"
        if part.text:
            if part.thought_signature is None:
                self._grow(kind, part.text)
                return
            # A signed piece is a part of its own. The signature itself may come in pieces: the final holds it whole.
            self._end_run()
            self._grow(kind, part.text)
            self._end_run()

    def _show_call(self, shown: types.FunctionCall, metadata: Mapping[str, Any] | None) -> None:
        if not shown.will_continue:
            self._end_run()
            self._tell_arguments(self._call(shown), shown.args)
            return
        # A run of text may go on around the pieces of a call: only a whole part ends it.
        call = self._call(shown)
        if metadata and (text := metadata.get("arguments_delta")):
            self._grow_call(call, text)

    def _tell_final(self, response: LlmResponse) -> None:
        kinds: set[Kind] = set()
        runnable = [] if response.status in _UNRUN else response.executable_function_calls()
        for part in response.parts:
            if part.function_call is not None:
                self._keep_call(part, runs=any(call is part.function_call for call in runnable))
            elif part.text is not None and not (part.part_metadata and "server_tool" in part.part_metadata):
                kind: Kind = "thought" if part.thought else "text"
                kinds.add(kind)
                run = self._keep_text(kind, part.text)
                if part.thought and part.thought_signature is not None and part.text:
                    self._thought_is_signed(run, part.thought_signature)
            else:
                self._keep_whole(part)
        heard = response.output_transcription
        if heard is not None and heard.text:
            kinds.add("text")
            self._keep_text("text", heard.text)
        self._tell_sources(response)
        if response.usage_metadata is not None:
            self._usage.add(response.usage_metadata)
        self._end_run()
        for kind in kinds:
            self._shown[kind].final_ends()
        if _ends_round(response):
            self._last = response
            self._enter_round()
            self._answered = True

    def _keep_text(self, kind: Kind, text: str) -> int:
        """Tell what of a final's text was not shown; gives the run that it is the end of."""
        rest, run = self._shown[kind].rest_of(text)
        if rest:
            if run is None:
                self._end_run()
            self._grow(kind, rest, shown=False)
            run = None
        return self._runs if run is None else run

    def _keep_call(self, part: types.Part, *, runs: bool) -> None:
        kept, metadata = part.function_call, part.part_metadata or {}
        assert kept is not None
        if "server_tool" in metadata:
            self._keep_whole(part)
            return
        self._enter_round()
        if self._known_call(kept) is None:
            self._end_run()
        call = self._call(kept)
        if call.done:
            return
        raw = metadata.get("raw_arguments")
        if raw and not call.told:
            self._grow_call(call, str(raw))
        self._tell_arguments(call, kept.args)
        if not runs:
            self._break(call, str(raw) if raw is not None else dumps(kept.args or {}))
            return
        self._begin_call(call)
        call.args, call.done = fresh(kept.args), True
        self._open_calls.pop(call.id, None)
        self._call_is_ready(call)
        if part.thought_signature is not None:
            self._call_is_signed(call, part.thought_signature)

    def _keep_whole(self, part: types.Part) -> None:
        metadata = part.part_metadata or {}
        blob, file = part.inline_data, part.file_data
        self._enter_round()
        if "server_tool" in metadata:
            self._end_run()
            block = metadata["server_tool"]
            self._extra("server_tool", fresh(block) if isinstance(block, Mapping) else {"value": block})
        elif blob is not None and blob.data and not (blob.mime_type or "").startswith("audio/"):
            self._end_run()
            self._file(blob.mime_type or "application/octet-stream", blob.data, None)
        elif file is not None and file.file_uri:
            self._end_run()
            self._file(file.mime_type or "application/octet-stream", None, file.file_uri)
        elif part.executable_code is not None or part.code_execution_result is not None:
            self._end_run()
            name = "executable_code" if part.executable_code is not None else "code_execution_result"
            self._extra(name, getattr(part, name).model_dump(mode="json", by_alias=True, exclude_none=True))

    def _tell_results(self, parts: list[types.Part]) -> None:
        for part in parts:
            answer = part.function_response
            call = self._calls.get(answer.id or "") if answer is not None else None
            if answer is not None and call is not None and call.args is not None and not call.answered:
                call.answered = True
                self._result(call, fresh(answer.response or {}))

    def _tell_sources(self, response: LlmResponse) -> None:
        grounding, citations = response.grounding_metadata, response.citation_metadata
        found = [
            (chunk.web.uri, chunk.web.title)
            for chunk in (grounding.grounding_chunks or () if grounding else ())
            if chunk.web is not None
        ]
        found += [(cited.uri, cited.title) for cited in (citations.citations or () if citations else ())]
        for uri, title in found:
            if uri and uri not in self._sources:
                self._sources.add(uri)
                self._enter_round()
                self._source(uri, title)

    def _enter_round(self) -> None:
        if not self._in_round:
            self._in_round = True
            self._rounds += 1
            self._round_begins()

    def _end_round(self) -> None:
        self._end_run()
        for call in list(self._open_calls.values()):
            self._break(call, None)
        for shown in self._shown.values():
            shown.clear()
        if self._in_round:
            self._in_round = self._answered = False
            self._round_ends()

    def _grow(self, kind: Kind, text: str, shown: bool = True) -> None:
        if kind is not self._run:
            self._enter_round()
            self._end_run()
            self._run = kind
            self._runs += 1
            self._run_begins(kind, self._runs)
        if shown:
            self._shown[kind].add(text, self._runs)
        self._run_grows(kind, self._runs, text)

    def _end_run(self) -> None:
        if self._run is not None:
            kind, self._run = self._run, None
            self._run_ends(kind, self._runs)

    def _call(self, given: types.FunctionCall) -> Call:
        self._enter_round()
        call = self._known_call(given)
        if call is None:
            name = given.id or f"call-{uuid.uuid4().hex}"
            unique = f"{name}-{self._rounds}" if name in self._calls else name
            call = Call(unique, given.name or "", self._rounds)
            self._calls[name] = self._open_calls[call.id] = call
            self._told_calls.append(call)
        if not call.begun and given.name:
            call.name = given.name
            self._begin_call(call)
        return call

    def _known_call(self, given: types.FunctionCall) -> Call | None:
        call = self._calls.get(given.id or "")
        return call if call is not None and call.round == self._rounds else None

    def _begin_call(self, call: Call) -> None:
        if not call.begun:
            call.begun = True
            self._call_begins(call)
            for text in call.held:
                self._call_grows(call, text)
            call.held.clear()

    def _grow_call(self, call: Call, text: str) -> None:
        call.told = True
        if call.begun:
            self._call_grows(call, text)
        else:
            call.held.append(text)

    def _tell_arguments(self, call: Call, args: Mapping[str, Any] | None) -> None:
        if not call.told and args is not None:
            self._grow_call(call, dumps(args))

    def _break(self, call: Call, raw: str | None) -> None:
        self._begin_call(call)
        call.done, call.raw_arguments = True, raw
        self._open_calls.pop(call.id, None)
        self._call_is_broken(call)

    def _ending(self, error: BaseException | None, cut: bool) -> Ending:
        last = None if cut else self._last
        reason = last.finish_reason.name if last is not None and last.finish_reason is not None else None
        status: Status
        if error is not None and (last is None or last.status not in ("failed", "cancelled")):
            fault = fault_of(error)
            status, code, message = fault.status, fault.code, fault.message  # type: ignore[assignment]
        elif last is None:
            status, code, message = "incomplete", "STREAM_CUT", _CUT
        else:
            status = last.status or ("failed" if last.error_code else "completed")
            code, message = last.error_code, last.error_message
        waiting = [call for call in self._told_calls if call.args is not None and not call.answered]
        return Ending(status, reason, code, message, self._usage, waiting)


def _is_from_user(response: LlmResponse) -> bool:
    """The user's words, or the answers of tools, which are given to the model like them."""
    if response.content is None or response.partial:
        return False
    return response.content.role == "user" or any(part.function_response for part in response.parts)


def _ends_round(response: LlmResponse) -> bool:
    """Does the model's turn end with it? Responses that no stream made have no status."""
    if response.status is None:
        return bool(response.content or response.error_code or response.finish_reason)
    return response.status != "in_progress"
