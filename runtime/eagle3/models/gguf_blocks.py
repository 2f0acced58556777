"""Stored GGUF values to float32 tensors.

Plain floats and the simplest blocks are a few tensor operations here, several times as fast as the `gguf` package,
which reads every other kind. Knows no files and no models. Invariant: bit-equal to `gguf.quants.dequantize`.
N blocks, 32 values each: a float16 scale (and minimum), then the values, in half bytes first all the low ones.
"""

from __future__ import annotations

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quant_shape_to_byte_shape
from torch import Tensor

_PLAIN = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}
_BLOCK = 32


def dequantised(stored: np.ndarray[tuple[int], np.dtype[np.uint8]], kind: GGMLQuantizationType,
                shape: tuple[int, ...]) -> Tensor:  # fmt: skip
    """float32 tensor of `shape` from its stored bytes, which it may share; ValueError for kinds that nothing reads."""
    if kind in _PLAIN:
        return torch.from_numpy(stored).view(_PLAIN[kind]).to(torch.float32).view(shape)
    if kind is GGMLQuantizationType.Q8_0:
        return _q8_0(torch.from_numpy(stored)).view(shape)
    if kind is GGMLQuantizationType.Q4_0:
        return _q4_0(torch.from_numpy(stored)).view(shape)
    if kind is GGMLQuantizationType.Q4_1:
        return _q4_1(torch.from_numpy(stored)).view(shape)
    rows = stored.reshape(quant_shape_to_byte_shape(shape, kind))
    try:
        values = dequantize(rows, kind)
    except NotImplementedError as error:
        raise ValueError(f"{kind.name} is not read: {error}") from error
    return torch.from_numpy(np.array(values, dtype=np.float32)).view(shape)


def _q8_0(stored: Tensor) -> Tensor:
    blocks_NC = stored.view(-1, 2 + _BLOCK)
    return blocks_NC[:, 2:].view(torch.int8).to(torch.float32).mul_(_halves(blocks_NC, 0))


def _q4_0(stored: Tensor) -> Tensor:
    blocks_NC = stored.view(-1, 2 + _BLOCK // 2)
    return _nibbles(blocks_NC[:, 2:]).sub_(8.0).mul_(_halves(blocks_NC, 0))


def _q4_1(stored: Tensor) -> Tensor:
    blocks_NC = stored.view(-1, 4 + _BLOCK // 2)
    # Two roundings, as the reference has them: a fused product and sum would differ in the last bit.
    return _nibbles(blocks_NC[:, 4:]).mul_(_halves(blocks_NC, 0)).add_(_halves(blocks_NC, 2))


def _halves(blocks_NC: Tensor, first: int) -> Tensor:
    """The float16 number at byte `first` of each block, as float32 [N, 1]."""
    return blocks_NC[:, first : first + 2].contiguous().view(torch.float16).to(torch.float32)


def _nibbles(packed_NC: Tensor) -> Tensor:
    """Half bytes as float32 [N, 32]: the low ones of the 16 bytes, then the high ones."""
    values = torch.empty(len(packed_NC), _BLOCK, dtype=torch.float32)
    values[:, : _BLOCK // 2] = packed_NC & 0x0F
    values[:, _BLOCK // 2 :] = packed_NC >> 4
    return values
