"""What the machine can do at most, measured: bytes read from memory and multiply-adds, each second.

Uses the linear layers that decoding uses, so that a floor is one that better code could reach with them. Knows no
model. Best of several tries: a floor is about the machine alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from eagle3.errors import ConfigError
from eagle3.models.packed import Int8Linear, PackedLinear, check_int8

_STREAM_BYTES = 2**28  # far beyond the caches
_ROWS, _WIDTH, _OUT = 512, 1024, 4096
_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Floors:
    """Rates of this machine with the threads that torch has."""

    bytes_per_s: float
    """Of a large array that is read once."""
    flop_per_s: float
    """Of a large float32 product; a multiply-add counts as two."""
    int8_flop_per_s: float | None
    """The same in int8; None where the machine has no fast int8 products."""

    def seconds(self, *, weight_bytes: int, flop: int, int8: bool) -> float:
        """The least time of one product: its weights must be read and its sums be made."""
        peak = self.int8_flop_per_s if int8 and self.int8_flop_per_s else self.flop_per_s
        return max(weight_bytes / self.bytes_per_s, flop / peak)


@torch.inference_mode()
def measure_floors(clock: Callable[[], float] = time.perf_counter) -> Floors:
    """Measure; about two seconds."""
    stream = torch.ones(_STREAM_BYTES // 4)
    linear = nn.Linear(_WIDTH, _OUT, bias=False)
    flop = 2 * _ROWS * _WIDTH * _OUT
    packed = PackedLinear(linear) if torch.backends.mkldnn.is_available() else linear
    rows = torch.randn(_ROWS, _WIDTH, generator=torch.Generator().manual_seed(0))
    return Floors(
        bytes_per_s=_STREAM_BYTES / _best(lambda: stream.sum(), clock),
        flop_per_s=flop / _best(lambda: packed(rows), clock),
        int8_flop_per_s=_int8_rate(linear, flop, clock),
    )


def _int8_rate(linear: nn.Linear, flop: int, clock: Callable[[], float]) -> float | None:
    try:
        check_int8(torch.device("cpu"))
    except ConfigError:
        return None
    quantised = Int8Linear(linear)
    rows = torch.randint(-127, 128, (_ROWS, _WIDTH), generator=torch.Generator().manual_seed(0)).float()
    return flop / _best(lambda: quantised.rows(rows), clock)


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    work()
    seconds = []
    for _ in range(_TRIES):
        begin_s = clock()
        work()
        seconds.append(clock() - begin_s)
    return min(seconds)
