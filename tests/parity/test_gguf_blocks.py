"""Dequantised GGUF blocks against the `gguf` package: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

from eagle3.models.gguf_blocks import dequantised


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
@pytest.mark.parametrize("shape", [(64,), (3, 96), (2, 5, 32)])
def test_bit_equal_to_the_reference(kind: str, shape: tuple[int, ...]) -> None:
    """Whichever of them reads a kind, every value has the bits that the reference gives it."""
    code = GGMLQuantizationType[kind]
    stored = quantize(np.random.default_rng(0).normal(size=shape).astype(np.float32), code)
    expected = dequantize(stored, code).astype(np.float32).reshape(shape)
    values = dequantised(np.frombuffer(stored.tobytes(), np.uint8).copy(), code, shape)
    assert values.dtype == torch.float32
    assert np.array_equal(values.numpy().view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"])
def test_bit_equal_on_any_bytes(kind: str) -> None:
    """Scales that no quantiser writes (subnormal, zero, huge) and every code: still the bits of the reference."""
    code = GGMLQuantizationType[kind]
    values_of, bytes_of = GGML_QUANT_SIZES[code]
    stored = np.random.default_rng(1).integers(0, 256, (2000, bytes_of), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = dequantize(stored, code)
        values = dequantised(stored.reshape(-1).copy(), code, (2000, values_of)).numpy()
    finite = np.isfinite(expected)
    assert np.array_equal(values[finite].view(np.uint32), expected[finite].view(np.uint32))
    assert np.array_equal(np.isfinite(values), finite)
    assert finite.mean() > 0.9


def test_a_kind_that_nothing_reads() -> None:
    """A kind without a reader is an error that names it."""
    with pytest.raises(ValueError, match="Q8_K is not read"):
        dequantised(np.zeros(292, np.uint8), GGMLQuantizationType.Q8_K, (1, 256))
