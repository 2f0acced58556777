"""How a draft tree is grown. Read by the engine, the server and the deployment config alike."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_DEPTH = 32
MAX_TOP_K = 64
MAX_NODES = 1024


class Speculation(BaseModel):
    """Shape of the dynamic draft tree (EAGLE-2 paper, section 4; EAGLE-3 uses the same)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    depth: int = Field(default=5, ge=1, le=MAX_DEPTH, description="levels of the tree below its root")
    top_k: int = Field(default=6, ge=1, le=MAX_TOP_K, description="children drafted per node; 1 makes a chain")
    nodes: int = Field(default=16, ge=1, le=MAX_NODES, description="nodes verified per cycle, the root not counted")
    off_threshold: int | None = Field(
        default=None,
        ge=1,
        description="requests at once above which nothing is drafted; null: decided from measured cost alone",
    )

    @property
    def is_chain(self) -> bool:
        """Whether every node has at most one child."""
        return self.top_k == 1

    @property
    def reserved_slots(self) -> int:
        """Cache slots that one cycle needs beyond the committed ones: root and nodes, or the draft's levels."""
        return max(self.nodes + 1, self.top_k * (self.depth - 1))

    def limited(self, *, depth: int) -> Speculation:
        """The same shape, at most `depth` levels deep."""
        return self if depth >= self.depth else self.model_copy(update={"depth": depth})
