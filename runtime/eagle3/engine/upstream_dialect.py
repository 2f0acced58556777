"""What differs between the programs that `UpstreamEngine` runs: command, request, frames, counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine_arguments import EngineCommand
from eagle3.engine.answer import TokenLogprobs
from eagle3.engine.ending import FinishReason
from eagle3.engine.interface import EngineSnapshot, GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.engine.upstream_metrics import Samples
from eagle3.engine.upstream_models import UpstreamModels
from eagle3.models.draft_keys import DraftFormat


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What one event of a streamed answer adds."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    speculation: DecodeStats | None = None
    """Cycles of this answer, once the program has told."""


FrameReader = Callable[[Mapping[str, Any]], Frame]


class Dialect(Protocol):
    """One program's side of the conversation."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """Where requests are posted to."""
        ...

    @property
    def draft_format(self) -> DraftFormat:
        """Layout of drafts whose every flag it reads with our meaning."""
        ...

    @property
    def install_hint(self) -> str:
        """What to do when the program is missing."""
        ...

    def command(
        self, config: DeploymentConfig, models: UpstreamModels, *, port: int, without: frozenset[str]
    ) -> EngineCommand: ...

    def body(self, request: GenerationRequest, models: UpstreamModels, *, max_tokens: int) -> dict[str, Any]:
        """The JSON of a request; InvalidInputError for what the program cannot do."""
        ...

    def frames(self, request: GenerationRequest) -> FrameReader:
        """A reader of one answer's events."""
        ...

    def snapshot(self, samples: Samples) -> EngineSnapshot:
        """Counters of this run of the program, and its gauges."""
        ...


def stop_ids(request: GenerationRequest, ending_ids: Iterable[int]) -> list[int]:
    """Tokens that end this answer, as the native engine has it."""
    params = request.params
    return sorted({*params.stop_token_ids, *(() if params.ignore_eos else ending_ids)})
