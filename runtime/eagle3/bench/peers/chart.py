"""Chart of a race: one bar a system, its length the median decode rate, a line from the lowest to the highest round.

Knows summaries only. Colours are Okabe and Ito's, which colour-blind readers tell apart: one for ours, one for each
family of peers; names stand beside the bars, so that no one needs the colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from eagle3.bench.peers.result import Summary
from eagle3.errors import ConfigError

_COLOURS = {"llama.cpp": "#E69F00", "hf": "#009E73", "vllm": "#CC79A7"}
_OURS = "#0072B2"


def write_chart(sections: Mapping[str, Sequence[Summary]], path: Path) -> None:
    """Write a PNG, one panel a section; ConfigError if matplotlib is missing or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("--chart needs matplotlib; install eagle3-kit[bench] or leave the chart out") from error
    shown = {title: [row for row in rows if row.decode_tokens_per_s] for title, rows in sections.items()}
    shown = {title: rows for title, rows in shown.items() if rows}
    columns = min(2, max(1, len(shown)))
    lines = -(-max(1, len(shown)) // columns)
    longest = max((len(rows) for rows in shown.values()), default=1)
    figure = Figure(figsize=(6.5 * columns, lines * (1.2 + 0.32 * longest)), layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, (title, rows) in zip(panels, shown.items(), strict=False):
        rates = [row.decode_tokens_per_s for row in rows if row.decode_tokens_per_s]
        medians = [rate.median for rate in rates]
        axes.barh(
            [row.system for row in rows],
            medians,
            xerr=[
                [rate.median - rate.low for rate in rates],
                [rate.high - rate.median for rate in rates],
            ],
            color=[_colour(row.system) for row in rows],
            capsize=3,
        )
        for place, rate in enumerate(rates):
            axes.text(rate.high + 0.01 * max(medians), place, f" {rate.median:.1f}", va="center")
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * max(rate.high for rate in rates))
        axes.set_title(title)
        axes.set_xlabel("decode tokens per second")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    try:
        figure.savefig(path, dpi=150, format="png")
    except OSError as error:
        raise ConfigError(f"cannot write the chart {path}: {error.strerror}") from error


def _colour(system: str) -> str:
    return next((colour for family, colour in _COLOURS.items() if system.startswith(family)), _OURS)
