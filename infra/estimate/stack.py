"""An estimate of one stack: its items under a set of assumptions, priced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from eagle3.errors import ConfigError
from infra.estimate.assumptions import Assumptions
from infra.estimate.book import Book
from infra.estimate.cluster_items import cluster_items
from infra.estimate.endpoint_items import endpoint_items
from infra.estimate.item import Item
from infra.estimate.lines import Estimate, priced
from infra.estimate.machines import spot_share_of
from infra.settings.root import Settings

STACKS = ("small", "medium", "large")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is estimated."""

    stack: str
    """small, medium or large."""
    settings: Settings
    assumptions: Assumptions
    today: date

    def __post_init__(self) -> None:
        if self.stack != "large" and self.assumptions.spot_share:
            raise ConfigError(
                f"--spot-share must be 0 for {self.stack}: SageMaker endpoints are not sold as spot; got "
                f"{self.assumptions.spot_share:g}"
            )

    @property
    def can_spot(self) -> bool:
        """Whether a pool may buy both spot and on demand, so that the share is open."""
        return self.stack == "large" and any({"spot"} < set(pool.capacity_types) for pool in self.settings.large.pools)

    @property
    def spot_share(self) -> float:
        """Share of the GPU machines' hours that is spot: the first pool's."""
        if self.stack != "large":
            return 0.0
        return spot_share_of(self.settings.large.pools[0], self.assumptions.spot_share)

    def asking(self, **changes: object) -> Question:
        """The same with other assumptions."""
        return replace(self, assumptions=replace(self.assumptions, **changes))  # type: ignore[arg-type]


def items_of(question: Question, book: Book) -> list[Item]:
    """What the stack is billed for; ConfigError for settings that it refuses."""
    settings = question.settings
    if question.stack == "large":
        return cluster_items(settings, question.assumptions, book, question.today)
    own = settings.small if question.stack == "small" else settings.medium
    return endpoint_items(settings, own, question.assumptions)


def estimate(question: Question, book: Book) -> Estimate:
    """The estimate."""
    return priced(
        items_of(question, book), region=question.settings.region, hours=question.assumptions.hours, book=book
    )
