"""Chart of a load test: throughput and latencies against the number of users, one line a system.

Knows only results. Colours are Okabe and Ito's, which colour-blind readers tell apart; markers and dashes differ too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eagle3.bench.serve_result import LevelResult
from eagle3.errors import ConfigError

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "os^Dvx"
_DASHES = ("-", "--", "-.", ":")


def _throughput(result: LevelResult) -> float | None:
    return result.tokens_per_s


def _first_token(result: LevelResult) -> float | None:
    return result.ttft_ms.p50 if result.ttft_ms else None


def _per_token(result: LevelResult) -> float | None:
    return result.time_per_output_token_ms.p50 if result.time_per_output_token_ms else None


_PANELS: tuple[tuple[str, Callable[[LevelResult], float | None]], ...] = (
    ("output tokens per second", _throughput),
    ("time to first token, median (ms)", _first_token),
    ("time per output token, median (ms)", _per_token),
)


def write_chart(results: list[LevelResult], path: Path) -> None:
    """Write a PNG; ConfigError if matplotlib is not installed or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("--chart needs matplotlib; install eagle3-kit[bench] or leave the chart out") from error
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    levels = sorted({result.concurrency for result in results})
    systems = list(dict.fromkeys(result.system for result in results))
    for axes, (label, value_of) in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
        for place, system in enumerate(systems):
            points = [
                (result.concurrency, value)
                for result in results
                if result.system == system and (value := value_of(result)) is not None
            ]
            axes.plot(
                [users for users, _ in points],
                [value for _, value in points],
                label=system,
                color=_COLOURS[place % len(_COLOURS)],
                marker=_MARKERS[place % len(_MARKERS)],
                linestyle=_DASHES[place % len(_DASHES)],
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(levels, [str(level) for level in levels])
        axes.minorticks_off()
        axes.set_ylim(0, 1.1 * max((value for line in axes.lines for value in line.get_ydata()), default=1.0) or 1.0)
        axes.set_xlabel("users at a time")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    try:
        figure.savefig(path, dpi=150, format="png")
    except OSError as error:
        raise ConfigError(f"cannot write the chart {path}: {error.strerror}") from error
