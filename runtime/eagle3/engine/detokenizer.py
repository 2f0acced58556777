"""Turns token ids into text piece by piece without ever emitting half a character.

Knows tokenizers only through `decode`. Invariant: the pieces put together are the decoded text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_REPLACEMENT = "\ufffd"


class Detokenizer:
    """Incremental decoder of one answer.

    A window of recent tokens is decoded twice, without and with the new ones; the difference is new text.
    Text that ends in a replacement character may be half a UTF-8 sequence and is held back.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._window = 0
        self._emitted = 0

    def add(self, token_id: int) -> str:
        """Text that has become certain with this token; may be empty."""
        self._ids.append(token_id)
        return self._advance(final=False)

    def flush(self) -> str:
        """Whatever is still held back, incomplete characters as replacement characters."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        old = self._decode(self._ids[self._window : self._emitted])
        new = self._decode(self._ids[self._window :])
        if len(new) <= len(old) or (new.endswith(_REPLACEMENT) and not final):
            return ""
        self._window, self._emitted = self._emitted, len(self._ids)
        return new[len(old) :]
