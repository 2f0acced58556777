"""What steps cost, in seconds: measured once per number of rows, and then for every load and shape that was run.

Knows no models: times are handed in. A load is a number of sequences that decode together. Trees of one shape differ
in size where the drafters are unsure, so a step is remembered beside what its own rows should cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean, median

from eagle3.config.speculation import Speculation
from eagle3.tree.draft_tree import DraftTree

# Recent steps of which the median is taken: one slow step, such as another program's turn, does not count.
_RECENT = 15
# Steps over which the size of trees is averaged: large and small ones alternate with the texts.
_SIZES = 150
# Steps before a median is trusted.
ENOUGH = 3
# Rows of prompts that a step may always read.
_FEWEST_ROWS = 32


class RowCosts:
    """Seconds of a pass as a function of its rows, between measured points by straight lines."""

    def __init__(self, seconds_at: Mapping[int, float]) -> None:
        assert seconds_at, "at least one measurement"
        self._rows = sorted(seconds_at)
        # More rows never cost less; a measurement that says so is noise.
        self._seconds: list[float] = []
        for rows in self._rows:
            self._seconds.append(max(seconds_at[rows], self._seconds[-1] if self._seconds else 0.0))

    def __call__(self, rows: float) -> float:
        """Seconds of a pass of so many rows; beyond the last point in proportion."""
        points, seconds = self._rows, self._seconds
        if rows <= points[0]:
            return seconds[0]
        if rows >= points[-1]:
            return seconds[-1] * rows / points[-1]
        right = bisect_left(points, rows)
        left = right - 1
        share = (rows - points[left]) / (points[right] - points[left])
        return seconds[left] + share * (seconds[right] - seconds[left])

    def rows_within(self, seconds: float) -> int:
        """Rows of the longest pass that takes so long, to the nearest measured point below; at least the fewest."""
        points = [rows for rows, cost in zip(self._rows, self._seconds, strict=True) if cost <= seconds]
        if not points:
            return self._rows[0]
        if points[-1] < self._rows[-1]:
            return points[-1]
        return int(points[-1] * seconds / self._seconds[-1])


class StepTimes:
    """Seconds of whole steps by load and shape, predicted where they were not measured yet."""

    def __init__(self, verify: RowCosts, draft: RowCosts) -> None:
        self._verify = verify
        self._draft = draft
        self._recent: dict[tuple[int, Speculation | None], deque[tuple[float, float]]] = {}  # seconds and cost of rows
        self._sizes: dict[tuple[int, Speculation | None], deque[float]] = {}  # cost of rows alone
        self._paces: deque[float] = deque(maxlen=_RECENT)  # seconds of recent steps over what their rows should cost

    def record(self, load: int, shape: Speculation | None, seconds: float, trees: Sequence[DraftTree] = ()) -> float:
        """Remember a step that drafted `shape` for `load` sequences; without its `trees` they count as full ones.

        Returns the seconds that it would have taken had its trees been of the usual size.
        """
        cost = self._of_trees(load, shape, trees) if trees else self._from_rows(load, shape)
        key = _bucket(load), shape
        self._recent.setdefault(key, deque(maxlen=_RECENT)).append((seconds / load, cost / load))
        self._sizes.setdefault(key, deque(maxlen=_SIZES)).append(cost / load)
        self._paces.append(seconds / cost)
        return seconds * (fmean(self._sizes[key]) * load / cost)

    def samples(self, load: int, shape: Speculation | None) -> int:
        """Steps remembered of such a load and shape."""
        return len(self._recent.get((_bucket(load), shape), ()))

    def seconds(self, load: int, shape: Speculation | None, beside: int = 0) -> float:
        """Seconds of a step: the median of recent ones, else what its rows cost plus what this load adds to that.

        The median is of steps brought to the usual size of their trees: that of few large and many small steps as they
        were would be that of the small ones.

        `beside` rows of prompts add what they cost on top of the step's own: the more of them, the dearer is a node.
        """
        if beside:
            rows = load * (1 if shape is None else 1 + shape.nodes)
            return self.seconds(load, shape) + self._verify(rows + beside) - self._verify(rows)
        if self.samples(load, shape) >= ENOUGH:
            return self._usual(_bucket(load), shape) * load
        return self._from_rows(load, shape) + self._overhead(load)

    def rows_within(self, seconds: float) -> int:
        """Rows of the target that a pass of so many seconds has, by the pace of recent steps; never very few.

        What was measured before the first request may have been disturbed; prompts must not crawl for it ever after.
        """
        pace = median(self._paces) if len(self._paces) >= ENOUGH else 1.0
        return max(_FEWEST_ROWS, self._verify.rows_within(seconds / pace))

    def _from_rows(self, load: int, shape: Speculation | None) -> float:
        if shape is None:
            return self._verify(load)
        levels = shape.depth - 1
        return self._verify(load * (1 + shape.nodes)) + self._draft(2 * load) + levels * self._draft(load * shape.top_k)

    def _of_trees(self, load: int, shape: Speculation | None, trees: Sequence[DraftTree]) -> float:
        cost = self._verify(sum(map(len, trees)))
        if shape is None:
            return cost
        levels = (sum(rows) for rows in zip_longest(*(tree.draft_rows for tree in trees), fillvalue=0))
        return cost + self._draft(2 * load) + sum(map(self._draft, levels))

    def _usual(self, bucket: int, shape: Speculation | None) -> float:
        """Seconds for each sequence of a step whose trees have the usual size."""
        size = fmean(self._sizes[bucket, shape])
        return median(seconds * (size / cost) for seconds, cost in self._recent[bucket, shape])

    def _overhead(self, load: int) -> float:
        """What steps at this load took beyond their rows: attention over many contexts, choosing, text."""
        known = [
            ((self._usual(bucket, shape) - fmean(self._sizes[bucket, shape])) * load, len(times))
            for (bucket, shape), times in self._recent.items()
            if bucket == _bucket(load) and len(times) >= ENOUGH
        ]
        return max(0.0, max(known, key=lambda pair: pair[1])[0]) if known else 0.0


def _bucket(load: int) -> int:
    """Loads of similar size share their measurements: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, …"""
    size = 1
    while size * 2 <= load:
        size *= 2
    return size + size // 2 if size >= 2 and load >= size + size // 2 else size
