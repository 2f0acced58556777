"""What a waiting user sees of a rehearsal: a bar per phase on a terminal, one line per phase elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

from tqdm import tqdm

from eagle3.errors import Eagle3Error

# Of a phase that does not know how much there is to do.
_WAITING = "{desc} [{elapsed}]"


class Progress:
    """Phases in their order. Data never goes through here: it writes to the stream that it is given, stderr mostly."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._bar: tqdm[NoReturn] | None = None
        self.seconds: dict[str, float] = {}
        """Phase to how long it took, finished phases only."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase and show it; an error of the rehearsal or of its input shows as `failed`."""
        start_s = self._clock()
        terminal = self._stream.isatty()
        bar: tqdm[NoReturn] = tqdm(
            desc=name, unit=" resources", file=self._stream, disable=not terminal, leave=False, bar_format=_WAITING
        )
        self._bar = bar
        outcome = "done"
        try:
            yield
        except Eagle3Error:
            outcome = "failed"
            raise
        except BaseException:
            outcome = "stopped"
            raise
        finally:
            bar.close()
            self._bar = None
            took_s = self._clock() - start_s
            self._stream.write(f"{name}: {outcome} ({took_s:.1f} s)\n")
            self._stream.flush()
        self.seconds[name] = took_s

    def expect(self, resources: int) -> None:
        """How many resources the phase works on."""
        if self._bar is not None and not self._bar.disable:
            self._bar.bar_format = None
            self._bar.reset(total=resources)

    def advance(self) -> None:
        """One more resource is done."""
        if self._bar is not None:
            self._bar.update()

    def tick(self) -> None:
        """Time has passed."""
        if self._bar is not None and not self._bar.disable:
            self._bar.refresh()

    def say(self, text: str) -> None:
        """A line of its own."""
        self._stream.write(text + "\n")
        self._stream.flush()
