"""Sentences that compare an estimate with the published range of its stack: whether it holds, and at which levers.

Every number is computed from estimates with the same settings, prices and assumptions but one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from infra.catalogue.gpu_instances import gpu_instance
from infra.catalogue.price import HOURS_PER_MONTH
from infra.catalogue.prices import find_price
from infra.estimate.book import Book
from infra.estimate.public_range import RANGES, PublicRange, Span, span_within
from infra.estimate.stack import Question, estimate
from infra.kubernetes.pool_limits import pool_limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What the range says, and what is so."""

    bounds: PublicRange
    verdict: str
    """Where the estimate itself lies: below, within or above."""
    sentences: tuple[str, ...]


def compare(question: Question, usd: float, book: Book) -> Comparison:
    """Compare an estimate of `usd` a month, and the fleet that the range speaks of at full price."""
    bounds = RANGES[question.stack]
    steady = question.asking(machines=bounds.machines, commitment="none", spot_share=0.0, hours_per_day=24.0)
    full = estimate(steady, book)
    bought = {line.item.purchase for line in full.lines if line.item.main}
    if not bought:
        sentence = "it speaks of a machine that runs all hours, and nothing here does"
        return Comparison(bounds=bounds, verdict=bounds.verdict(usd), sentences=(sentence,))
    verdict = bounds.verdict(full.usd)
    sentences = [
        f"{_fleet(question, bounds)} {'on demand' if 'on-demand' in bought else 'spot'}, all hours: {full.usd:,.0f} "
        f"USD, {verdict} the range" + (": it cannot hold there" if verdict != "within" else "")
    ]
    if question.can_spot:
        span = span_within(lambda share: _total(steady, book, spot_share=share), bounds, least=0.0, most=1.0)
        sentences.append(_spot(span, _fleet(question, bounds), _total(steady, book, spot_share=1.0)))
    span = span_within(lambda hours: _total(steady, book, hours_per_day=hours), bounds, least=0.0, most=24.0)
    sentences.append(_hours(span))
    if question.stack == "large":
        sentences += _limits(question, bounds)
    sentences += [_plan(steady, term, bounds, book) for term in ("1y", "3y")]
    return Comparison(bounds=bounds, verdict=bounds.verdict(usd), sentences=tuple(sentences))


def _fleet(question: Question, bounds: PublicRange) -> str:
    several = question.stack == "large" and len(question.settings.large.pools) > 1
    noun = "machine" if bounds.machines == 1 else "machines"
    return f"{bounds.machines} {noun}" + (" in each pool" if several else "")


def _total(question: Question, book: Book, **changes: object) -> float:
    return estimate(question.asking(**changes), book).usd


def _spot(span: Span | None, fleet: str, all_spot: float) -> str:
    at_end = f"all spot costs {all_spot:,.0f} USD"
    if span is None:
        return f"no spot share brings {fleet} into the range, all hours: {at_end}"
    return f"it holds for {fleet}, all hours, at a spot share of {span.least:.0%} to {span.most:.0%} ({at_end})"


def _hours(span: Span | None) -> str:
    if span is None:
        return "no number of hours a day without spot brings it into the range"
    return f"without spot, it holds at {span.least:.1f} to {span.most:.1f} hours a day"


def _limits(question: Question, bounds: PublicRange) -> list[str]:
    """Whether Karpenter may start as many machines as the range speaks of; nothing where no budget limits them."""
    settings, own = question.settings, question.settings.large
    [pool, *more] = own.pools
    prices = [find_price(name, settings.region) for name in pool.instance_types]
    if more or None in prices:
        return []
    gpus = pool_limits(pool, region=settings.region, budget_usd=own.budget.monthly_usd).gpus
    most = max(gpu_instance(name).gpus for name in pool.instance_types)
    if gpus >= bounds.machines * most:
        return []
    dearest = max(price.usd / gpu_instance(price.item).gpus for price in prices if price is not None)
    needed = math.ceil(dearest * bounds.machines * most * HOURS_PER_MONTH / pool.budget_share)
    limit = "" if pool.max_nodes is None else f" and large.pools.0.max_nodes of {bounds.machines}"
    return [
        f"large.budget.monthly_usd {own.budget.monthly_usd:,.0f} lets Karpenter start {gpus // most} machines at once, "
        f"counted on demand at the dearest type; {bounds.machines} need {needed:,}{limit}"
    ]


def _plan(question: Question, term: str, bounds: PublicRange, book: Book) -> str:
    made = estimate(question.asking(commitment=term), book)
    if any(line.item.main and line.remark for line in made.lines):
        return f"Savings Plans of {term}: no public rate for the machines in {made.region}; ask with --live"
    return f"Savings Plans of {term}, all hours: {made.usd:,.0f} USD, {bounds.verdict(made.usd)} the range"
