"""The alarms as `eagle3 runbook list` shows them."""

from __future__ import annotations

import textwrap
from typing import Any

from infra.observability.alarm_catalogue import ALARMS, BUDGET, BUDGET_MEANING

_MEANING_WIDTH = 54


def as_json() -> list[dict[str, Any]]:
    """Every alarm in the catalogue's order, then the budget."""
    rows = [
        {
            "alarm": alarm.name,
            "severity": alarm.severity,
            "where": [need.replace("_", " ") for need in alarm.needs],
            "meaning": alarm.meaning,
        }
        for alarm in ALARMS
    ]
    return [*rows, {"alarm": BUDGET, "severity": "ticket", "where": ["a stack"], "meaning": BUDGET_MEANING}]


def as_table() -> str:
    """The same as a table for a terminal."""
    rows = [("alarm", "severity", "where there is", "meaning")]
    rows += [(row["alarm"], row["severity"], ", ".join(row["where"]), row["meaning"]) for row in as_json()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines: list[str] = []
    for row in rows:
        first, *more = textwrap.wrap(row[3], _MEANING_WIDTH)
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        lines.append("  ".join([*cells, first]).rstrip())
        lines += [" " * (sum(widths) + 6) + line for line in more]
    return "\n".join(lines)
