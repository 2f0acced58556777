"""How a draft tree is grown. Read by the engine, the server and the deployment config alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Drafter = Literal["eagle3", "suffix"]

MAX_DEPTH = 32
MAX_TOP_K = 64
MAX_NODES = 1024
MAX_SUFFIX_MATCH = 64


def _without_repetition(drafters: tuple[Drafter, ...]) -> tuple[Drafter, ...]:
    if len(set(drafters)) < len(drafters):
        raise ValueError("names a drafter twice; name each once")
    return drafters


class Speculation(BaseModel):
    """Who guesses, and the shape of the dynamic draft tree (EAGLE-2 paper, section 4; EAGLE-3 uses the same)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    depth: int = Field(default=3, ge=1, le=MAX_DEPTH, description="levels of the tree below its root")
    top_k: int = Field(default=4, ge=1, le=MAX_TOP_K, description="children drafted per node; 1 makes a chain")
    nodes: int = Field(default=6, ge=1, le=MAX_NODES, description="nodes verified per cycle, the root not counted")
    min_probability: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="nodes less probable than this, as the drafters see it, are not verified, and nothing is drafted "
        "below them; 0 fills the tree",
    )
    drafters: Annotated[tuple[Drafter, ...], AfterValidator(_without_repetition)] = Field(
        default=("eagle3", "suffix"),
        min_length=1,
        description="who guesses: eagle3 (the draft), suffix (what followed the longest repetition so far), or both; "
        "suffix alone needs no draft",
    )
    suffix_min_match: int = Field(
        default=1, ge=1, le=MAX_SUFFIX_MATCH, description="tokens that have to be repeated before suffix guesses"
    )
    suffix_tokens: int = Field(
        default=16, ge=1, le=MAX_DEPTH, description="tokens that suffix guesses at most, within the nodes of the tree"
    )
    off_threshold: int | None = Field(
        default=None,
        ge=1,
        description="requests at once above which nothing is drafted; null: decided from measured cost alone",
    )

    @property
    def is_chain(self) -> bool:
        """Whether the draft gives every node at most one child."""
        return self.top_k == 1

    def working_drafters(self, *, has_draft: bool) -> tuple[Drafter, ...]:
        """Who guesses: without the draft that should do so, nobody."""
        return self.drafters if has_draft or "eagle3" not in self.drafters else ()

    @property
    def reserved_slots(self) -> int:
        """Cache slots that one cycle needs beyond the committed ones: root and nodes, or the draft's levels."""
        levels = self.top_k * (self.depth - 1) if "eagle3" in self.drafters else 0
        return max(self.nodes + 1, levels)

    def limited(self, *, depth: int) -> Speculation:
        """The same shape, at most `depth` levels deep."""
        return self if depth >= self.depth else self.model_copy(update={"depth": depth})
