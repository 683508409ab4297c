"""Front ends that send the whole conversation with every request: what of it is new to the session.

The session is the truth: it holds signatures, reasoning and calls as the provider wants them back, which no front end
keeps. So of the client's messages only those after the last answer count, and of results of tools only those that the
session waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from google.genai import types

from adk_stream.runner.turns import open_calls

from .messages import user_content

if TYPE_CHECKING:
    from adk_stream.sessions import Session

__all__ = ["new_message"]


def new_message(session: Session, results: Sequence[types.Part], said: Sequence[types.Part]) -> types.Content:
    """The message that goes on with ``session``.

    Args:
        session: With its events.
        results: Function responses, by the ids of their calls; those that nothing waits for are passed over.
        said: What the user says.

    Raises:
        Problem: 422, nothing of it is new.
    """
    waiting = {call.id: call.name for call in open_calls(session.events).calls}
    answers = []
    for part in results:
        answer = part.function_response
        if answer is not None and answer.id in waiting:
            named = answer.model_copy(update={"name": waiting[answer.id]})
            answers.append(types.Part(function_response=named))
    return user_content([*answers, *said])
