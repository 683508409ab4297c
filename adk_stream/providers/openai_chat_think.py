"""``<think>`` tags in the text of models whose servers do not take them out, cut anywhere over the chunks."""

from __future__ import annotations

import msgspec

__all__ = ["ThinkSplitter", "inlines_thinking"]

_OPEN, _CLOSE = "<think>", "</think>"

#: Models whose own APIs give the thoughts inside the content (their documentation says so).
_INLINING = ("minimax-m", "sonar-reasoning", "deepseek-r1-distill", "qwq-32b")


def inlines_thinking(model: str | None) -> bool:
    """Is this a model that is known to write ``<think>`` into its text?"""
    name = (model or "").lower()
    return any(word in name for word in _INLINING)


class ThinkSplitter(msgspec.Struct):
    """Splits text into runs of thought and of text.

    Attributes:
        anywhere: Look for tags in all of the text; False: only where the message begins with one.
        thinking: Inside the tags.
        held: The end of the text so far that may be the beginning of a tag.
        said: Something visible has been given out.
        off: The message did not begin with a tag.
    """

    anywhere: bool
    thinking: bool = False
    held: str = ""
    said: bool = False
    off: bool = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """(is it thought, text) in order; what may be half a tag waits for the next call."""
        if self.off:
            return [(False, text)]
        text, self.held = self.held + text, ""
        runs: list[tuple[bool, str]] = []
        while text:
            tag, at = self._next_tag(text)
            if at < 0:
                keep = _overlap(text, [_CLOSE] if self.thinking else [_OPEN, _CLOSE])
                self._say(runs, text[: len(text) - keep])
                self.held = text[len(text) - keep :]
                break
            self._say(runs, text[:at])
            if self.off:
                self._say(runs, text[at:])
                break
            if tag == _CLOSE and not self.thinking and self.said:
                self._say(runs, tag)  # closes nothing: it is text
            self.thinking = tag == _OPEN
            text = text[at + len(tag) :]
        return runs

    def close(self) -> list[tuple[bool, str]]:
        """What was held back in vain."""
        runs: list[tuple[bool, str]] = []
        held, self.held = self.held, ""
        self._say(runs, held)
        return runs

    def _next_tag(self, text: str) -> tuple[str, int]:
        if self.thinking:
            return _CLOSE, text.find(_CLOSE)
        places = [(text.find(tag), tag) for tag in (_OPEN, _CLOSE) if tag in text]
        at, tag = min(places, default=(-1, _OPEN))
        return tag, at

    def _say(self, runs: list[tuple[bool, str]], text: str) -> None:
        if not text:
            return
        if not self.thinking and text.strip():
            if not self.anywhere and not self.said:
                self.off = True
            self.said = True
        runs.append((self.thinking, text))


def _overlap(text: str, tags: list[str]) -> int:
    """Length of the longest end of ``text`` that begins one of the tags."""
    longest = max(map(len, tags)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(tag.startswith(text[-size:]) for tag in tags):
            return size
    return 0
