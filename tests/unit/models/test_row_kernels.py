"""The row kernels compute what torch computes, row by row, and hide no NaN."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from eagle3.models import row_kernels as kernels
from eagle3.models.attention_kernel import attend
from eagle3.models.row_math import exp

ROWS = [1, 2, 17]


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_the_exponential_is_right_to_float_precision():
    """Over the whole range that softmax and silu use, the relative error stays below 2.5e-7."""
    x = np.linspace(-87, 88, 20011, dtype=np.float32)
    got = np.array([exp(value) for value in x])
    assert np.abs(got / np.exp(x.astype(np.float64)) - 1).max() < 2.5e-7


@pytest.mark.parametrize("rows", ROWS)
def test_norm_add_and_gate_equal_torch(rows):
    """RMSNorm, the end of a residual branch and the gated product are torch's, with scale and bias applied."""
    x, weight, acc, scale, bias = _floats(rows, 48), _floats(48), _floats(rows, 48), _floats(rows), _floats(48)
    out = np.empty_like(x)
    kernels.norm(x, weight, np.float32(1e-5), out)
    wanted = F.rms_norm(torch.from_numpy(x), (48,), torch.from_numpy(weight), 1e-5)
    torch.testing.assert_close(torch.from_numpy(out), wanted, rtol=1e-5, atol=1e-5)

    total = x.copy()
    kernels.add(total, acc, scale, bias)
    np.testing.assert_allclose(total, x + acc * scale[:, None] + bias, rtol=1e-5, atol=1e-5)

    gated = np.empty((rows, 24), np.float32)
    kernels.gate(acc, scale, bias, gated)
    whole = torch.from_numpy(acc * scale[:, None] + bias)
    torch.testing.assert_close(torch.from_numpy(gated), F.silu(whole[:, :24]) * whole[:, 24:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("share", [1, 2, 3, 4, 7])
def test_attention_equals_torch_for_any_number_of_heads_a_group(share):
    """Grouped-query attention over listed slots is torch's over the same keys, whatever lies between them."""
    rows, groups, width, slots = 5, 2, 16, 60
    query, keys, values = (
        _floats(rows, groups * share, width),
        _floats(groups, slots, width),
        _floats(groups, slots, width),
    )
    rng = np.random.default_rng(1)
    counts = np.array([1, 7, 8, 30, 60])
    seen = np.stack([rng.permutation(slots) for _ in range(rows)])
    out = np.empty((rows, groups * share * width), np.float32)
    attend(query, keys, values, seen, counts, 0, rows, np.float32(width**-0.5), out)
    for row, count in enumerate(counts):
        chosen = seen[row, :count]
        wanted = F.scaled_dot_product_attention(
            torch.from_numpy(query[row])[:, None],
            torch.from_numpy(keys[:, chosen]).repeat_interleave(share, 0),
            torch.from_numpy(values[:, chosen]).repeat_interleave(share, 0),
        )
        torch.testing.assert_close(torch.from_numpy(out[row]), wanted.reshape(-1), rtol=1e-4, atol=1e-5)


def test_a_gap_between_slots_changes_no_bit():
    """The same keys in the same order give the same bits, in neighbouring slots or scattered ones."""
    query, keys, values = _floats(1, 6, 16), _floats(2, 40, 16), _floats(2, 40, 16)
    scattered = np.sort(np.random.default_rng(2).permutation(200)[:40])
    far_keys, far_values = _floats(2, 200, 16, seed=3), _floats(2, 200, 16, seed=4)
    far_keys[:, scattered], far_values[:, scattered] = keys, values
    outs = []
    for store, slots in (((keys, values), np.arange(40)), ((far_keys, far_values), scattered)):
        out = np.empty((1, 96), np.float32)
        attend(query, *store, slots[None], np.array([40]), 0, 1, np.float32(0.25), out)
        outs.append(out)
    assert np.array_equal(outs[0], outs[1])


def test_quantised_rows_are_close_and_do_not_know_each_other():
    """A row comes back within half a step of its own scale, whatever lies beside it; zeros stay zeros."""
    x = _floats(4, 64) * np.array([[1.0], [1e-3], [1e4], [0.0]], np.float32)
    whole, scale = np.empty((4, 64), np.float32), np.empty(4, np.float32)
    kernels.quantize(x, np.ones(x.shape[1], np.float32), whole, scale)
    back = whole * scale[:, None]
    assert (np.abs(back - x) <= scale[:, None] * 0.501).all()
    for row in range(4):
        alone, alone_scale = np.empty((1, 64), np.float32), np.empty(1, np.float32)
        kernels.quantize(x[row : row + 1], np.ones(64, np.float32), alone, alone_scale)
        assert np.array_equal(alone[0], whole[row])
        assert alone_scale[0] == scale[row]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_stays_visible(bad):
    """NaN and infinity end up in a row's scale or output, hidden in no byte or softmax; other rows are spared."""
    x = _floats(2, 32)
    x[1, 5] = bad
    whole, scale = np.empty((2, 32), np.float32), np.empty(2, np.float32)
    kernels.quantize(x, np.ones(x.shape[1], np.float32), whole, scale)
    assert np.isfinite(scale[0])
    assert np.isnan(scale[1])

    query, keys, values = _floats(1, 2, 16), _floats(1, 8, 16), _floats(1, 8, 16)
    keys[0, 3, 2] = bad
    out = np.empty((1, 32), np.float32)
    attend(query, keys, values, np.arange(8)[None], np.array([8]), 0, 1, np.float32(0.25), out)
    assert np.isnan(out).all()
    attend(query, keys, values, np.arange(8)[None], np.array([3]), 0, 1, np.float32(0.25), out)
    assert np.isfinite(out).all()


def test_kernels_work_where_nothing_can_be_written():
    """Without any folder for compiled code the kernels compile at every start, instead of failing on import."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from eagle3.models.row_math import exp\n"
        "assert abs(exp(np.float32(1)) - np.e) < 1e-6\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
