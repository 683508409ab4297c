"""``adk-stream aggregate``: recorded or piped streams to JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, cast

from adk_stream.aggregator import aggregate
from adk_stream.cli.json_lines import json_of, json_of_model, write_line
from adk_stream.cli.outcome import UNUSABLE, UsageProblem, code_of, complain
from adk_stream.cli.source import STDIN, open_source
from adk_stream.errors import AdkStreamError, MalformedStreamError, RecordingError
from adk_stream.recording import Recording

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["aggregate_files", "holds_something", "pieces_of"]


def aggregate_files(files: Sequence[str], provider: str, flush: str, *, partials: bool, native: bool) -> int:
    """Each file's responses on stdout; the worst exit code of them all."""
    if flush not in ("close", "boundary"):
        raise UsageProblem(f"--flush is close or boundary, not {flush!r}")
    if partials and native:
        raise UsageProblem("--native gives one whole message: it does not go with --partials")
    if files.count(STDIN) > 1:
        raise UsageProblem("standard input can be read once only")
    return max(_aggregate_file(file, provider, flush, partials=partials, native=native) for file in files)


def _aggregate_file(file: str, provider: str, flush: str, *, partials: bool, native: bool) -> int:
    try:
        source = open_source(file, provider)
        if isinstance(source, Recording) and provider == "auto":
            provider = source.provider or provider
        stream = aggregate(pieces_of(source), provider, cast('Literal["close", "boundary"]', flush))
    except (RecordingError, ValueError) as problem:  # ValueError: no such provider
        complain(problem, "" if isinstance(problem, RecordingError) else file)
        return UNUSABLE
    finals: list[LlmResponse] = []
    trouble: Exception | None = None
    with closing(stream):
        try:
            for response in stream:
                if not response.partial:
                    if not (finals or holds_something(response)):
                        continue  # the end of a stream that said nothing
                    finals.append(response)
                if not native and (partials or not response.partial):
                    write_line(json_of_model(response))
        except (AdkStreamError, OSError) as problem:
            if isinstance(problem, BrokenPipeError):
                raise
            trouble = problem
            complain(problem, file)
    if not finals:
        if trouble is None:
            complain("nothing in it is a stream that can be read", file)
        return UNUSABLE
    if native:
        write_line(json_of(_native(finals, provider)))
    return code_of(final.status for final in finals)


def pieces_of(source: Recording | Iterable[bytes]) -> Iterable[bytes]:
    """The bytes of a source, without its times."""
    return [piece.data for piece in source.pieces] if isinstance(source, Recording) else source


#: What the end of a stream that said nothing bears all the same.
_BARE_FIELDS = {"partial", "status", "error_code", "error_message", "provider_metadata"}
_OUR_CODES = {"STREAM_CUT", MalformedStreamError.code}


def holds_something(final: LlmResponse) -> bool:
    """Whether the stream said anything at all: content, usage, an id, an end, or the provider's own error."""
    if final.error_code not in _OUR_CODES:
        return True
    metadata = final.provider_metadata or {}
    fields = {name for name in final.model_fields_set if getattr(final, name) is not None}
    return bool(fields - _BARE_FIELDS) or bool(metadata.keys() - {"provider"})


def _native(finals: Sequence[LlmResponse], provider: str) -> Any:
    from adk_stream.providers import to_native

    told = (finals[-1].provider_metadata or {}).get("provider")
    return to_native(finals, told or provider)
