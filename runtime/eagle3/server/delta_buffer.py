"""Deltas of several answers between the tasks that make them and the one reader that sends them.

While the reader is busy, deltas of the same answer become one, so a reader that takes nothing costs no more memory than
the answers themselves. Knows neither engine nor HTTP.
Invariant: the reader sees every character and token exactly once and in order; an error comes after what was made
before it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from eagle3.engine.interface import Delta


class DeltaBuffer:
    """Written from tasks of one event loop, read by one reader."""

    def __init__(self) -> None:
        self._pending: OrderedDict[int, list[Delta]] = OrderedDict()  # by position, the longest waiting first
        self._error: BaseException | None = None
        self._wake = asyncio.Event()

    def put(self, position: int, delta: Delta) -> None:
        """Add what one step of answer `position` brought."""
        self._pending.setdefault(position, []).append(delta)
        self._wake.set()

    def fail(self, error: BaseException) -> None:
        """End the reading with an error; the first one counts."""
        if self._error is None:
            self._error = error
            self._wake.set()

    async def get(self) -> tuple[int, Delta]:
        """The next delta and whose it is; raises the error once nothing is pending."""
        while not self._pending:
            if self._error is not None:
                raise self._error
            self._wake.clear()
            await self._wake.wait()
        position, deltas = self._pending.popitem(last=False)
        return position, merge(deltas)


def merge(deltas: list[Delta]) -> Delta:
    """One delta that says what several successive ones of an answer said."""
    if len(deltas) == 1:
        return deltas[0]
    logprobs = None
    if any(delta.logprobs is not None for delta in deltas):
        logprobs = tuple(entry for delta in deltas for entry in delta.logprobs or ())
    return Delta(
        request_id=deltas[0].request_id,
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        logprobs=logprobs,
        answer=deltas[-1].answer,
    )
