"""Where time goes among functions that call each other: each second belongs to the innermost one that is timed.

Functions are replaced where they are looked up and put back by `close`; nothing in them changes. Knows no engine.
Invariant: the parts' seconds add up to the time spent in the outermost timed functions, never more.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

Seen = Callable[[str, tuple[Any, ...]], None]


class PartTimer:
    """Seconds and calls by part. A part that is timed below another one is named `outer / inner`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._clock = clock
        self._stack: list[_Running] = []
        self._replaced: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, attribute: str, part: str, *, inner: bool = False, seen: Seen | None = None) -> None:
        """Time `owner.attribute` (a class and its method, or a module and its function) as `part`.

        `inner` names the part after the one that it runs in. `seen` is told the part and the arguments of each call.
        """
        original = vars(owner)[attribute]

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            name = f"{self._stack[-1].outer} / {part}" if inner and self._stack else part
            running = _Running(name if not inner or not self._stack else self._stack[-1].outer)
            if seen is not None:
                seen(name, args)
            self._stack.append(running)
            begin_s = self._clock()
            try:
                return original(*args, **kwargs)
            finally:
                elapsed_s = self._clock() - begin_s
                self._stack.pop()
                self.seconds[name] += elapsed_s - running.inner_s
                self.calls[name] += 1
                if self._stack:
                    self._stack[-1].inner_s += elapsed_s

        self._replaced.append((owner, attribute, original))
        setattr(owner, attribute, timed)

    def close(self) -> None:
        """Put every function back."""
        while self._replaced:
            owner, attribute, original = self._replaced.pop()
            setattr(owner, attribute, original)

    def clear(self) -> None:
        """Forget what was measured so far; functions that are running go on being timed."""
        self.seconds.clear()
        self.calls.clear()


class _Running:
    """One timed call that has not returned."""

    __slots__ = ("inner_s", "outer")

    def __init__(self, outer: str) -> None:
        self.outer = outer
        self.inner_s = 0.0
