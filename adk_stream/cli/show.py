"""What a person sees: model text made harmless for a terminal, and a stream that is drawn as it grows.

A terminal obeys control characters: they move the cursor, rename the window, answer questions nobody asked. A
model's text is not to be trusted with that, so each of them is drawn as a sign of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["LiveText", "LiveView", "label_of", "live_view", "summary", "visible"]

# C0 without tab and line feed, DEL, C1 (ECMA-48), and halves of surrogate pairs, which have no encoding.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def visible(text: str) -> str:
    """``text`` with a sign for each control character but tab and line feed: ``␛`` for ESC, in hex those of C1."""
    return _UNSEEN.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0xA0 else "\ufffd"


# ----------------------------------------------------------------- a stream as it grows


class LiveText:
    """The answer alone, as plain text, piece by piece: for pipes and files.

    Of a conversation by voice, what both say, on lines of their own; the user's begin with ``> ``.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown: list[str] = []
        self._speaker: str | None = None  # who was last shown in this turn

    def show(self, response: LlmResponse) -> None:
        """Draw what a partial response brings, and of a final what no partial has shown."""
        if not response.partial:
            self._show_rest(response)
            if response.turn_complete:
                self.end_turn()
            return
        for part in response.parts:
            if part.text and not part.thought:
                self._shown.append(part.text)
            self.show_part(part)
        if not (response.provider_metadata or {}).get("interim"):  # a guess, which the words themselves replace
            self._show_transcripts(response)
        self._out.flush()

    def show_part(self, part: types.Part) -> None:
        """Draw a part of a partial response."""
        if part.text and not part.thought:
            self.show_text(part.text)

    def show_text(self, text: str) -> None:
        """Draw text of the answer."""
        if self._speaker == "user":
            self._out.write("\n")
        self._speaker = "model"
        self._out.write(text)

    def show_heard(self, text: str) -> None:
        """Draw what the user was heard to say."""
        if self._speaker != "user":
            self._out.write("> " if self._speaker is None else "\n> ")
        self._speaker = "user"
        self._out.write(text)

    def end_turn(self) -> None:
        """A turn of a conversation is over, and another may come."""
        if self._speaker is not None:
            self._out.write("\n")
        self._speaker = None
        self._out.flush()

    def end(self) -> None:
        """Nothing more comes."""
        self._out.flush()

    def _show_transcripts(self, response: LlmResponse) -> None:
        heard, said = response.input_transcription, response.output_transcription
        if heard is not None and heard.text:
            self.show_heard(heard.text)
        if said is not None and said.text:
            self.show_text(said.text)

    def _show_rest(self, response: LlmResponse) -> None:
        shown, text = "".join(self._shown), response.text
        if text:  # of a conversation by voice, most finals are transcripts
            self._shown.clear()
        if text.startswith(shown) and len(text) > len(shown):
            self.show_text(text[len(shown) :])
        self._out.flush()


_DIM, _CYAN, _PLAIN = "\x1b[2m", "\x1b[36m", "\x1b[0m"


class LiveView(LiveText):
    """Everything a stream brings, for a terminal: thoughts dimmed, tool calls with their arguments filling in.

    It only ever adds to what it drew: so it needs no room, and what scrolled away stays right.
    """

    def __init__(self, out: TextIO, *, colour: bool = True) -> None:
        super().__init__(out)
        self._colour = colour
        self._run: tuple[str, str | None] | None = None  # the kind of what is being drawn, and the call's id
        self._path: str | None = None  # where in a call's arguments the last fragment stood
        self._started: set[str | None] = set()  # calls that were drawn, in part or whole
        self._line_open = False

    def show_part(self, part: types.Part) -> None:
        """Draw a part of a partial response."""
        if part.function_call is not None:
            self._show_call(part.function_call, part.part_metadata or {})
        elif part.text and part.thought:
            self._enter("thought")
            self._write(part.text, _DIM)
        elif part.text:
            self.show_text(part.text)
        elif label := label_of(part):
            self._enter("other")
            self._write(label, _CYAN)

    def show_text(self, text: str) -> None:
        """Draw text of the answer."""
        self._enter("text")
        self._write(text)

    def show_heard(self, text: str) -> None:
        """Draw what the user was heard to say."""
        if self._enter("heard"):
            self._write("> ", _CYAN)
        self._write(text, _CYAN)

    def end_turn(self) -> None:
        """A turn of a conversation is over, and another may come."""
        self._enter(None)
        self._out.flush()

    def end(self) -> None:
        """Nothing more comes: leave the cursor at the start of a line."""
        self._enter(None)
        super().end()

    def _show_call(self, call: types.FunctionCall, metadata: Mapping[str, Any]) -> None:
        begun = call.id in self._started
        fragment, paths = metadata.get("arguments_delta"), call.partial_args or []
        whole = call.args is not None or "raw_arguments" in metadata
        if whole and begun:
            self._enter(None)
            return
        if self._enter("call", call.id):
            self._write(f"→ {call.name or 'tool'} {'… ' if begun else ''}", _CYAN)
            self._path = None
        self._started.add(call.id)
        if whole:
            raw = str(metadata.get("raw_arguments") or "")
            self._write(raw if call.args is None else json.dumps(call.args, ensure_ascii=False))
        if isinstance(fragment, str):
            self._write(fragment)
        for piece in paths:
            self._show_path(piece)

    def _show_path(self, piece: types.PartialArg) -> None:
        if piece.json_path != self._path:
            self._write(f"{', ' if self._path else ''}{piece.json_path}=")
            self._path = piece.json_path
        self._write(_value_of(piece))

    def _enter(self, kind: str | None, call_id: str | None = None) -> bool:
        """End the run that was being drawn, unless this goes on with it."""
        run = None if kind is None else (kind, call_id)
        if run == self._run and kind != "other":
            return False
        self._run = run
        if self._line_open:
            self._out.write("\n")
            self._line_open = False
        return True

    def _write(self, text: str, style: str = "") -> None:
        text = visible(text)
        if not text:
            return
        self._out.write(f"{style}{text}{_PLAIN}" if style and self._colour else text)
        self._line_open = not text.endswith("\n")


def live_view(out: TextIO) -> LiveText:
    """The view that suits ``out``: everything on a terminal (colours unless ``NO_COLOR`` is set), else the answer."""
    if not out.isatty():
        return LiveText(out)
    return LiveView(out, colour=not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def label_of(part: types.Part) -> str:
    """One line for a part that is neither text nor a call; empty when there is nothing to see."""
    if part.executable_code is not None:
        return f"code: {part.executable_code.code or ''}"
    if part.code_execution_result is not None:
        return f"result: {part.code_execution_result.output or ''}"
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type or 'data'}, {len(part.inline_data.data or b'')} bytes]"
    if part.file_data is not None:
        return f"[file {part.file_data.file_uri or ''}]"
    if part.function_response is not None:
        answer = part.function_response
        return f"← {answer.name or 'tool'} {json.dumps(answer.response, ensure_ascii=False, default=str)}"
    tool = (part.part_metadata or {}).get("server_tool")
    return f"server tool: {json.dumps(tool, ensure_ascii=False, default=str)}" if tool else ""


def _value_of(piece: types.PartialArg) -> str:
    if piece.string_value is not None:
        return piece.string_value
    value = piece.number_value if piece.number_value is not None else piece.bool_value
    return json.dumps(value)


# ----------------------------------------------------------------- how it ended


_COUNTS = (
    ("in", "prompt_token_count"),
    ("cached", "cached_content_token_count"),
    ("out", "candidates_token_count"),
    ("thought", "thoughts_token_count"),
    ("total", "total_token_count"),
)


def summary(final: LlmResponse, first_token: float | None = None) -> str:
    """One line: status, error code, finish reason, tokens, seconds to the first token."""
    facts: list[str] = [final.status or "unknown"]
    facts += [word for word in (final.error_code, _word(final.native_finish_reason, final.error_code)) if word]
    counts = ((name, getattr(final.usage_metadata, field, None)) for name, field in _COUNTS)
    tokens = ", ".join(f"{count} {name}" for name, count in counts if count is not None)
    if tokens:
        facts.append(f"tokens: {tokens}")
    if first_token is not None:
        facts.append(f"first token after {first_token:.2f} s")
    return visible(" · ".join(" ".join(fact.split()) for fact in facts))


def _word(native: str | None, code: str | None) -> str | None:
    return None if native == code else native
