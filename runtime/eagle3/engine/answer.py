"""Results of a request, as the Python API, the command line and the server give them out."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3.engine.ending import FinishReason
from eagle3.engine.stats import DecodeStats


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities of the target at one emitted token, before temperature, penalties and bias."""

    token_id: int
    """The emitted token."""
    logprob: float
    """Its log-probability, nats."""
    top: tuple[tuple[int, float], ...]
    """The most probable tokens and their log-probabilities, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One finished answer."""

    text: str
    """Decoded text without special tokens, cut before a stop string."""
    token_ids: tuple[int, ...]
    """Emitted tokens, the one that ended the text included."""
    finish_reason: FinishReason
    """`stop` for an end-of-text token, stop token or stop string; `length` for a limit."""
    logprobs: tuple[TokenLogprobs, ...] | None
    """One entry per token, if asked for."""
    stats: DecodeStats
    """Counters of this answer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that became certain while an answer is being made; the last piece carries the answer."""

    text: str
    answer: Answer | None = None
