"""What is asked, as the body of a chat completion.

Knows no transport. Invariant: a question that exists is within the ranges that the server itself checks, so that what
can be refused here never costs a call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from eagle3.errors import InvalidInputError

_SEEDS = range(-(2**63), 2**63)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One prompt and how it is to be answered; None leaves a choice to the server."""

    prompt: str
    """The user's message."""
    system: str | None = None
    """The system message."""
    model: str | None = None
    """Name of the model; None: the only one that is served."""
    max_tokens: int | None = None
    """Tokens of the answer at most."""
    temperature: float | None = None
    """0 takes the most probable token."""
    top_p: float | None = None
    """Probability mass kept, above 0 up to 1."""
    seed: int | None = None
    """Makes sampled text repeatable; 64 bits."""
    stream: bool = True
    """Whether the answer comes in pieces."""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise InvalidInputError("the prompt is empty; give some text")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidInputError(f"--max-tokens must be at least 1; got {self.max_tokens}")
        if self.temperature is not None and not 0 <= self.temperature <= 100:
            raise InvalidInputError(f"--temperature must be 0 to 100; got {self.temperature:g}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidInputError(f"--top-p must be above 0 and at most 1; got {self.top_p:g}")
        if self.seed is not None and self.seed not in _SEEDS:
            raise InvalidInputError(f"--seed must be a 64-bit integer; got {self.seed}")

    def body(self) -> dict[str, Any]:
        """The request; only what was chosen is in it."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        chosen = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
        }
        body: dict[str, Any] = {"messages": [*system, {"role": "user", "content": self.prompt}]}
        body |= {name: value for name, value in chosen.items() if value is not None}
        return body | ({"stream": True, "stream_options": {"include_usage": True}} if self.stream else {})


def checked_timeout(timeout_s: float) -> float:
    """Seconds to wait; InvalidInputError unless they are above 0 and finite."""
    if not (timeout_s > 0 and math.isfinite(timeout_s)):
        raise InvalidInputError(f"--timeout-s must be above 0; got {timeout_s:g}")
    return timeout_s
