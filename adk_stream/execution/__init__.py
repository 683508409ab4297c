"""Running a stream: time limits, retries before anything was shown, cancellation, and each client's errors as ours.

The one room below the models that looks at a clock. It stands above the core, which never waits, and holds no
aggregation logic.
"""

from __future__ import annotations

from adk_stream.execution.blocking import BlockingExecution, execute_blocking
from adk_stream.execution.execute import Execution, execute
from adk_stream.execution.messages import read_messages_stream
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.told import Tell, ToldSource

__all__ = [
    "BlockingExecution",
    "Execution",
    "StreamExecutionOptions",
    "Tell",
    "ToldSource",
    "execute",
    "execute_blocking",
    "read_messages_stream",
]
