"""Finished answers to deterministic requests, kept for the next identical one.

Deterministic is a request at temperature 0 or with a fixed seed. Whether it may speculate is not part of the key: the
text is the same. Knows no engine; identical requests in flight are not merged.
Invariant: never more than `entries` answers and never more than `most_bytes` of them (as estimated) are held.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from eagle3.engine.answer import Answer
from eagle3.engine.interface import GenerationRequest

# Python objects: a string, a small integer in a tuple, one entry of log-probabilities, one alternative in it.
_ANSWER_BYTES = 512
_TOKEN_BYTES = 40
_LOGPROB_BYTES = 160
_ALTERNATIVE_BYTES = 120


class ResponseCache:
    """Least recently used answers go first."""

    def __init__(self, *, entries: int, most_bytes: int) -> None:
        self._entries = entries
        self._most_bytes = most_bytes
        self._answers: OrderedDict[bytes, tuple[Answer, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def bytes_held(self) -> int:
        """Estimated memory of the answers."""
        return self._bytes

    def may_hold(self, request: GenerationRequest) -> bool:
        """Whether the request's answer is determined by the request."""
        return self._entries > 0 and (request.params.temperature == 0.0 or request.params.seed is not None)

    def get(self, request: GenerationRequest) -> Answer | None:
        """The answer to an identical request, which becomes the most recently used."""
        key = _key(request)
        held = self._answers.get(key)
        if held is None:
            return None
        self._answers.move_to_end(key)
        return held[0]

    def put(self, request: GenerationRequest, answer: Answer) -> None:
        """Keep a finished answer; one larger than the whole cache is not kept."""
        size = _size(answer)
        if size > self._most_bytes:
            return
        key = _key(request)
        replaced = self._answers.pop(key, None)
        if replaced is not None:
            self._bytes -= replaced[1]
        self._answers[key] = (answer, size)
        self._bytes += size
        while len(self._answers) > self._entries or self._bytes > self._most_bytes:
            _, (_, gone) = self._answers.popitem(last=False)
            self._bytes -= gone


def _key(request: GenerationRequest) -> bytes:
    params = request.params.model_copy(update={"n": 1})
    index = request.index
    if params.temperature == 0.0:
        params = params.model_copy(update={"seed": None})
        index = 0
    digest = hashlib.sha256(params.model_dump_json().encode())
    digest.update(f"|{index}|{','.join(map(str, request.prompt_ids))}".encode())
    return digest.digest()


def _size(answer: Answer) -> int:
    entries = answer.logprobs or ()
    alternatives = sum(len(entry.top) for entry in entries)
    return (
        _ANSWER_BYTES
        + len(answer.text.encode("utf-8", "replace"))
        + _TOKEN_BYTES * len(answer.token_ids)
        + _LOGPROB_BYTES * len(entries)
        + _ALTERNATIVE_BYTES * alternatives
    )
