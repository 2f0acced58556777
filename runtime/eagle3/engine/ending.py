"""Decides where an answer ends: end-of-text and stop tokens, stop strings, length. Also inside a block.

Knows no models. Text that might be the beginning of a stop string is held back until it is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eagle3.engine.detokenizer import Detokenizer

FinishReason = Literal["stop", "length"]


class Ending:
    """Feeds the tokens of one answer through, in order, and stops at the first reason to stop."""

    def __init__(
        self,
        *,
        ending_ids: frozenset[int],
        stop: Sequence[str],
        max_tokens: int,
        detokenizer: Detokenizer,
    ) -> None:
        self._ending_ids = ending_ids
        self._stop = tuple(stop)
        self._max_tokens = max_tokens
        self._detokenizer = detokenizer
        self._pending = ""
        self.token_ids: list[int] = []
        self.text = ""
        self.finish_reason: FinishReason | None = None

    @property
    def remaining(self) -> int:
        """Tokens that may still come."""
        return self._max_tokens - len(self.token_ids)

    def feed(self, token_ids: Sequence[int]) -> tuple[int, str]:
        """Take the tokens of a block up to the end of the answer; returns how many, and the new certain text."""
        taken, released = 0, ""
        for token_id in token_ids:
            if self.finish_reason is not None:
                break
            taken += 1
            released += self._feed_one(token_id)
        return taken, released

    def _feed_one(self, token_id: int) -> str:
        self.token_ids.append(token_id)
        if token_id in self._ending_ids:
            return self._finish("stop", self._detokenizer.flush())
        text = self._detokenizer.add(token_id)
        if len(self.token_ids) >= self._max_tokens:
            return self._finish("length", text + self._detokenizer.flush())
        return self._release(text)

    def _finish(self, reason: FinishReason, text: str) -> str:
        released = self._release(text)
        if self.finish_reason is None:
            released += self._pending
            self.text += self._pending
            self._pending = ""
            self.finish_reason = reason
        return released

    def _release(self, text: str) -> str:
        self._pending += text
        found = [(at, stop) for stop in self._stop if (at := self._pending.find(stop)) >= 0]
        if found:
            certain, self._pending = self._pending[: min(found)[0]], ""
            self.finish_reason = "stop"
        else:
            held = max((_overlap(self._pending, stop) for stop in self._stop), default=0)
            cut = len(self._pending) - held
            certain, self._pending = self._pending[:cut], self._pending[cut:]
        self.text += certain
        return certain


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
