"""How the row kernels are compiled, and the exponential that they share. Knows no layers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

f32 = np.float32
ZERO = np.float32(0.0)
ONE = np.float32(1.0)


def compiled(function: Function) -> Function:
    """Compile for the types it is called with, at the first call; the result is kept on disk where that can be written.

    Sums inside a row may be reordered, the same way for every row. NaN and infinity keep their meaning: a model that
    produces them must fail, not go on with other numbers.
    """
    return _compile(function, {"reassoc", "contract", "arcp", "nsz", "afn"})


def compiled_ignoring_nan(function: Function) -> Function:
    """The same where NaN and infinity may be ignored: a maximum is twice as fast so."""
    return _compile(function, True)


def _compile(function: Function, fastmath: bool | set[str]) -> Function:
    try:
        return cast(Function, njit(cache=True, fastmath=fastmath)(function))
    except RuntimeError as error:
        # Neither the package's folder nor the user's can be written, nor is NUMBA_CACHE_DIR set: every start compiles.
        _log.info("compiled kernels are not kept: %s", error)
        return cast(Function, njit(fastmath=fastmath)(function))


@compiled
def exp(x: Any) -> Any:
    """e to the x for x up to 88, error below 2e-7; cephes' polynomial, which the compiler turns into vectors."""
    x = max(x, f32(-87.0))
    n = np.floor(x * f32(1.4426950408889634) + f32(0.5))
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (p * r * r + r + ONE) * power


@compiled_ignoring_nan
def largest(row: Any, count: int) -> Any:
    """The largest of the first `count` numbers."""
    most = row[0]
    for i in range(count):
        most = max(most, row[i])
    return most


@compiled_ignoring_nan
def largest_size(row: Any) -> Any:
    """The largest magnitude of a row."""
    most = ZERO
    for i in range(row.shape[0]):
        most = max(most, abs(row[i]))
    return most
