"""An estimate as text for people and as JSON, with what it assumes, what it lacks, and how it compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalogue.price import Price
from infra.estimate.comparison import Comparison
from infra.estimate.lines import Estimate, Line
from infra.estimate.stack import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One stack in one region."""

    question: Question
    estimate: Estimate
    cheapest_usd: float
    """USD a month if all that may be spot is."""
    dearest_usd: float
    """USD a month if nothing is spot."""
    comparison: Comparison
    tokens_per_second: float | None
    usd_per_million_tokens: float | None
    is_live: Callable[[Price], bool]
    """Whether a price was asked of AWS just now."""

    @property
    def assumptions(self) -> list[str]:
        """What the numbers rest on, the days of the prices among it."""
        question = self.question
        told = question.assumptions.as_text(spot_share=question.spot_share, region=self.estimate.region)
        dates = sorted({line.price.source.date for line in self.estimate.lines if line.price is not None})
        return [*told, f"prices of {dates[0]} to {dates[-1]}; --json names each one's source"]

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        question, made, bounds = self.question, self.estimate, self.comparison.bounds
        return {
            "stack": question.stack,
            "region": made.region,
            "usd_per_month": round(made.usd, 2),
            "usd_per_month_all_spot": round(self.cheapest_usd, 2),
            "usd_per_month_no_spot": round(self.dearest_usd, 2),
            "lacking": list(made.lacking),
            "remarks": list(made.remarks),
            "subtotals": {group: round(made.subtotal(group), 2) for group in made.groups},
            "lines": [self._line(line) for line in made.lines],
            "spot_share": question.spot_share,
            "hours_per_day": question.assumptions.hours_per_day,
            "commitment": question.assumptions.commitment,
            "assumptions": self.assumptions,
            "public_range": {
                "low": bounds.low,
                "high": bounds.high,
                "machines": bounds.machines,
                "verdict": self.comparison.verdict,
                "holds": list(self.comparison.sentences),
            },
            "tokens_per_second": self.tokens_per_second,
            "usd_per_million_output_tokens": self.usd_per_million_tokens,
        }

    def as_text(self) -> str:
        """A table for people."""
        made = self.estimate
        lines = [f"{self.question.stack} in {made.region}, USD a month", ""]
        lines += table(["item", "quantity", "unit price", "hours", "USD"], self._rows(), left=1)
        lines += ["", f"total {made.usd:,.2f} USD a month" + lacks(made)]
        if self.cheapest_usd != self.dearest_usd:
            lines.append(f"from {self.cheapest_usd:,.2f} (all spot) to {self.dearest_usd:,.2f} (no spot)")
        if self.usd_per_million_tokens is not None:
            lines.append(
                f"{self.usd_per_million_tokens:,.2f} USD for a million output tokens at {self.tokens_per_second:g} "
                "tokens a second in every hour that runs"
            )
        if any(line.price is not None and self.is_live(line.price) for line in made.lines):
            lines.append("* asked of AWS just now; other prices are those of the dated table")
        bounds = self.comparison.bounds
        lines += ["", "Assumed", *(f"  {text}" for text in (*self.assumptions, *made.remarks))]
        lines += ["", f"Published range {bounds.low:,.0f} to {bounds.high:,.0f}: this is {self.comparison.verdict} it"]
        return "\n".join([*lines, *(f"  {text}" for text in self.comparison.sentences)])

    def _rows(self) -> list[list[str]]:
        rows: list[list[str]] = []
        for group in self.estimate.groups:
            rows.append([group, "", "", "", f"{self.estimate.subtotal(group):,.2f}"])
            rows += [self._row(line) for line in self.estimate.of(group)]
        return rows

    def _row(self, line: Line) -> list[str]:
        item, price = line.item, line.price
        quantity = "unknown" if item.quantity is None else f"{item.quantity:,.10g}"
        cost = "unknown" if price is None else f"{price.usd:,.10g} a {price.unit}"
        live = "*" if price is not None and self.is_live(price) else ""
        hours = f"{line.hours:g}" if price is not None and price.unit == "hour" else ""
        name = f"  {item.name}" + (f" ({item.counted})" if item.counted else "")
        return [name, quantity, cost + live, hours, "unknown" if line.usd is None else f"{line.usd:,.2f}"]

    def _line(self, line: Line) -> dict[str, Any]:
        price = line.price
        return {
            "group": line.item.group,
            "item": line.item.name,
            "counted": line.item.counted,
            "quantity": line.item.quantity,
            "purchase": line.item.purchase if price is None else price.purchase,
            "usd_per_unit": None if price is None else price.usd,
            "unit": None if price is None else price.unit,
            "hours": line.hours if price is not None and price.unit == "hour" else None,
            "usd_per_month": None if line.usd is None else round(line.usd, 2),
            "live": price is not None and self.is_live(price),
            "source": None if price is None else f"{price.source.name}, {price.source.date}",
            "remark": line.remark,
        }


def lacks(made: Estimate) -> str:
    """What a sum lacks, as the end of a sentence."""
    return f", without {', '.join(made.lacking)} (no public price)" if made.lacking else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Columns side by side: the first `left` of them to the left, the others to the right."""
    every = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return [
        "  ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in every
    ]
