"""One attempt, and what both forms of execution share: everything but the waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    StreamCutError,
    StreamLimitError,
    StreamTimeoutError,
)
from adk_stream.execution.faults import as_stream_error, may_pass, provider_error
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.patience import Patience
from adk_stream.providers.line import Line

if TYPE_CHECKING:
    from adk_stream.parts import ShortChunk, StreamChunk
    from adk_stream.response import LlmResponse

__all__ = ["LINGER", "Attempt", "ExecutionBase", "Left", "Setup"]

#: After the line's own end mark, how long the source may take to end by itself: then its connection can be used again.
LINGER = 0.05


class Setup:
    """How each attempt's line and aggregator are made: the arguments of ``aggregate``, checked once.

    Raises:
        TypeError: there is no such argument.
        ValueError: an argument has no such value.
    """

    def __init__(
        self,
        provider: str,
        flush: Any,
        *,
        candidate_index: int = 0,
        audio: Any = None,
        think_tags: bool | None = None,
        on_malformed: str = "raise",
        limits: Any = None,
    ) -> None:
        reader_options = {} if think_tags is None else {"think_tags": think_tags}
        self._line: dict[str, Any] = {
            "provider": provider,
            "on_malformed": on_malformed,
            "limits": limits,
            "reader_options": reader_options,
        }
        self._aggregator: dict[str, Any] = {
            "flush": flush,
            "candidate_index": candidate_index,
            "audio": audio,
            "limits": limits,
        }
        self.open()

    def open(self) -> tuple[Line, StreamingResponseAggregator]:
        """A fresh pair."""
        return Line(**self._line), StreamingResponseAggregator(**self._aggregator)


class Attempt:
    """One answer being read: its line, its aggregator, and what it has set free.

    Attributes:
        ready: Responses to give out, in order.
        ended: There is nothing more to wait for, although the source may not have ended.
        spoke: An event came that says something.
        shown: A response was set free.
    """

    def __init__(self, setup: Setup, patience: Patience) -> None:
        self.ready: deque[LlmResponse] = deque()
        self.ended = self.spoke = self.shown = False
        self._line, self._aggregator = setup.open()
        self._patience = patience
        patience.begin()

    def take(self, piece: Any) -> None:
        """Take a piece of the source in.

        Raises:
            MalformedStreamError: an event cannot be read; what came before it is in ``ready``.
            ProviderError: an event tells of an error; what came before it is in ``ready``.
        """
        self._patience.bytes_came()
        for chunks in self._line.feed_short(piece):
            if chunks:
                self._take(chunks)
        if self._line.ended:
            self.ended = True

    def _take(self, chunks: Sequence[StreamChunk | ShortChunk]) -> None:
        aggregator, patience = self._aggregator, self._patience
        if not self.spoke:  # whoever gives chunks knows the provider
            aggregator.speaks(self._line.provider)
            self.spoke = True
        patience.event_came()
        for chunk in chunks:
            responses = aggregator.take(chunk)
            if responses:
                self.ready.extend(responses)
                self.shown = True
                patience.content_came()
            if chunk.error is not None:
                self.ended = True
                if chunk.error.status == "failed":
                    raise provider_error(chunk.error.code, chunk.error.message)
        patience.ending = aggregator.terminal

    def finish(self) -> LlmResponse | None:
        """The final: the source has ended, or is needed no longer. What only the end set free is in ``ready``.

        Raises:
            StreamCutError: nothing was shown, and there was no terminal sign.
            MalformedStreamError: the stream ends inside an event.
        """
        for chunks in (self._line.rest(),) if self.ended else self._line.close():
            if chunks:
                self._take(chunks)
        if not (self.ended or self.shown or self._aggregator.terminal):
            raise StreamCutError("the answer ended before it had shown anything")
        return self._aggregator.close()

    def fail(self, problem: BaseException) -> LlmResponse | None:
        """The final after an error, or when the consumer leaves; it holds what had come.

        An answer that was cut is ``incomplete``, as everywhere; one that said nothing at all has ``failed``.
        """
        if isinstance(problem, StreamLimitError) and problem.event_number is None:  # the assembler's own
            problem.provider, problem.event_number = self._line.provider, self._line.event_count
        if isinstance(problem, StreamCutError) and self.spoke:
            return self._aggregator.close()
        return self._aggregator.close_early(self._line.rest(), problem)

    def is_whole_despite(self, problem: BaseException) -> bool:
        """Did the terminal sign come before the connection failed? Then nobody cares how that ended."""
        return self._aggregator.terminal and isinstance(problem, (ConnectionLostError, StreamTimeoutError))

    def may_retry(self, problem: BaseException) -> bool:
        """Could another attempt go better, and has the consumer seen nothing of this one?"""
        if self.shown:
            return False
        if isinstance(problem, MalformedStreamError):  # no stream at all, or one that this package cannot read
            return not (self.spoke or isinstance(problem, StreamLimitError))
        return may_pass(problem)


class Left(Exception):
    """The consumer has left meanwhile: no error, it only leads out of a wait."""


class ExecutionBase:
    """What the async and the blocking form share: attempts, responses to give, and the end."""

    def __init__(self, setup: Setup, options: StreamExecutionOptions) -> None:
        self.final: LlmResponse | None = None
        self.attempts = 0
        self._setup = setup
        self._options = options
        self._patience = Patience(options)
        self._attempt: Attempt | None = None
        self._ready: deque[LlmResponse] = deque()
        self._failure: BaseException | None = None
        self._over = False
        self._left = False

    def _begin(self) -> None:
        self.attempts += 1
        self._attempt = Attempt(self._setup, self._patience)
        self._ready = self._attempt.ready

    def _may_retry(self, problem: BaseException) -> bool:
        return not self._left and self._attempt is not None and self._attempt.may_retry(problem)

    def _take(self, piece: Any) -> bool:
        """Take a piece in; True when the stream has come to its end with it."""
        assert self._attempt is not None
        self._attempt.take(piece)
        if self._attempt.ended:
            self._finish()
        return self._attempt.ended

    def _cut_short(self) -> None:
        """The terminal sign came, and what may trail it has had its time."""
        assert self._attempt is not None
        self._attempt.ended = True
        self._finish()

    def _finish(self) -> None:
        assert self._attempt is not None
        self._end(self._attempt.finish())

    def _fail(self, problem: BaseException) -> None:
        """The final that tells of the problem comes first, then the problem."""
        if self._left:
            return
        error = as_stream_error(problem)
        if self._attempt is not None and self._attempt.is_whole_despite(error):
            self._cut_short()
            return
        self._failure = error
        self._end(None if self._attempt is None else self._attempt.fail(error))

    def _leave(self, problem: BaseException) -> None:
        """The consumer is gone: nothing more is given."""
        self._left = True
        self._ready.clear()
        self._failure = None
        if not self._over:
            self._over = True
            self.final = None if self._attempt is None else self._attempt.fail(problem)

    def _end(self, final: LlmResponse | None) -> None:
        self._over = True
        self.final = final
        if final is not None:
            self._ready.append(final)

    def _check_left(self) -> None:
        if self._left:
            raise Left

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _raise_as_ours(self, problem: BaseException) -> NoReturn:
        """Raise a client's exception as the error that it means."""
        error = as_stream_error(problem)
        if error is problem:
            raise problem
        raise error from problem
