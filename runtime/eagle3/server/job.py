"""A client's request when it has been understood: what the engine is asked, and what the response needs to know.

Knows neither routes nor JSON. Invariant: `requests` holds the `n` answers of the first prompt, then of the second, and
so on; a position in it is the choice's `index`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3.engine.answer import Answer
from eagle3.engine.interface import GenerationRequest
from eagle3.server.gateway import Gateway
from eagle3.server.openai_responses import CompletionTokensDetails, Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One completion or chat request."""

    answer_id: str
    """`id` of the response."""
    created: int
    """Seconds since 1970."""
    model: str
    fingerprint: str
    """Changes when the same request may get another text."""
    requests: tuple[GenerationRequest, ...]
    prompt_tokens: int
    """Of all prompts."""
    stream: bool
    include_usage: bool
    """Whether a stream ends with the token counts."""
    logprobs: bool
    echo: tuple[str, ...] = ()
    """Text to put before each answer; empty for none."""

    def usage(self, answers: Sequence[Answer]) -> Usage:
        """Token counts."""
        completion_tokens = sum(len(answer.token_ids) for answer in answers)
        accepted = sum(sum(answer.stats.accepted_at_depth) for answer in answers)
        drafted = sum(answer.stats.drafted for answer in answers)
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=self.prompt_tokens + completion_tokens,
            completion_tokens_details=CompletionTokensDetails(
                accepted_prediction_tokens=accepted, rejected_prediction_tokens=drafted - accepted
            ),
        )


def fingerprint(gateway: Gateway) -> str:
    """The same for as long as engine, target and draft are the same."""
    info = gateway.info
    parts = [gateway.model_name, *([] if info is None else [info.engine, info.target, info.draft or ""])]
    return "fp_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
