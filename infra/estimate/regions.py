"""Estimates of one stack in several regions, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.estimate.item import GROUPS, Group
from infra.estimate.report import Report, lacks, table


def as_text(reports: Sequence[Report]) -> str:
    """A column a region; a line that a region does not have is "-", one without a price "unknown"."""
    lines = [f"{reports[0].question.stack}, USD a month", ""]
    lines += table(["", *(made.estimate.region for made in reports)], _rows(reports), left=1)
    lines += [
        "",
        *(f"{made.estimate.region}: total{lacks(made.estimate)}" for made in reports if made.estimate.lacking),
    ]
    lines += ["", "Assumed", *(f"  {text}" for text in reports[0].assumptions[1:])]
    remarks = dict.fromkeys(remark for made in reports for remark in made.estimate.remarks)
    return "\n".join([*lines, *(f"  {text}" for text in remarks)])


def as_json(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """The objects of the regions, in the order asked."""
    return [made.as_json() for made in reports]


def _rows(reports: Sequence[Report]) -> list[list[str]]:
    rows: list[list[str]] = []
    everywhere = [0.0] * len(reports)
    for group in GROUPS:
        names = list(dict.fromkeys(line.item.name for made in reports for line in made.estimate.of(group)))
        if names:
            rows.append([group, *(f"{made.estimate.subtotal(group):,.2f}" for made in reports)])
        for name in names:
            cells = [_usd(made, group, name) for made in reports]
            rows.append([f"  {name}", *(cell if isinstance(cell, str) else f"{cell:,.2f}" for cell in cells)])
            if "unknown" not in cells:
                known = [cell if isinstance(cell, float) else 0.0 for cell in cells]
                everywhere = [total + cell for total, cell in zip(everywhere, known, strict=True)]
    return [
        *rows,
        ["total", *(f"{made.estimate.usd:,.2f}" for made in reports)],
        ["total of what has a price in each", *(f"{usd:,.2f}" for usd in everywhere)],
        ["total if all is spot", *(f"{made.cheapest_usd:,.2f}" for made in reports)],
        ["total if nothing is spot", *(f"{made.dearest_usd:,.2f}" for made in reports)],
    ]


def _usd(made: Report, group: Group, name: str) -> float | str:
    found = [line.usd for line in made.estimate.of(group) if line.item.name == name]
    if None in found:
        return "unknown"
    return sum(usd for usd in found if usd is not None) if found else "-"
