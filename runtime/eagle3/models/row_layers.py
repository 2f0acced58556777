"""Decoder layers on the row kernels: how packed float32 and int8 models run on a CPU.

Runs what `layers.DecoderLayer` and the draft's layer run, on their own packed modules: same inputs, same outputs up to
the order of sums. Few large calls instead of some fifty small ones a layer, and rows that do not depend on each other
(`row_kernels`). Knows caches only as arrays and lists of slots. T rows of a pass, K width, C slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from eagle3.cache.paged_cache import RaggedAttend
from eagle3.models import row_kernels as kernels
from eagle3.models.attention_kernel import attend as attend_rows
from eagle3.models.layers import RMSNorm, SelfAttention, SwiGLU
from eagle3.models.packed import Int8Linear, PackedLinear
from eagle3.models.row_math import Floats

# Rows of a sequence from which torch's attention wins, whose sums depend on the number of rows. Int8 never takes it:
# there the smallest difference moves activations to another whole number.
_LONG_PART = 64
_KEPT_ROWS = 64


def can_run(module: nn.Module) -> bool:
    """Whether every layer below `module` is packed, in float32 or int8, on the CPU."""
    linears = [child for child in module.modules() if isinstance(child, nn.Linear | PackedLinear | Int8Linear)]
    return bool(linears) and all(
        isinstance(child, Int8Linear) or (isinstance(child, PackedLinear) and child.dtype == torch.float32)
        for child in linears
    )


@dataclass(slots=True)
class Product:
    """Rows of a matrix product that still lack their scale and bias."""

    acc_TN: Floats
    scale_T: Floats
    bias_N: Floats


class Workspace:
    """Arrays for what lives between two calls of a pass, by size; a model's layers share them, one after the other.

    Only a few rows are worth keeping arrays for: more rows take so long that allocating them is nothing.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], tuple[Floats, Tensor]] = {}

    def floats(self, use: str, rows: int, width: int) -> tuple[Floats, Tensor]:
        """An array [rows, width] of float32 for this use, and the same memory as a tensor."""
        key = (use, rows, width)
        pair = self._kept.get(key)
        if pair is None:
            array = np.empty((rows, width), np.float32)
            pair = array, torch.from_numpy(array)
            if rows <= _KEPT_ROWS:
                self._kept[key] = pair
        return pair


class RowLinear:
    """A packed linear layer on rows."""

    def __init__(self, linear: nn.Module, work: Workspace) -> None:
        assert isinstance(linear, PackedLinear | Int8Linear), "only packed layers run on rows"
        self._product = linear.rows
        self._work = work
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._has_bias = linear.bias is not None
        self._bias_N = np.zeros(self.out_features, np.float32)
        if linear.bias is not None:
            self._bias_N = linear.bias.detach().float().numpy()
        self._ones = np.ones(_KEPT_ROWS, np.float32)
        self._factor_K = linear.inverse_factor_I.numpy() if isinstance(linear, Int8Linear) else None

    def __call__(self, x_TK: Floats, x: Tensor) -> Product:
        """The product of rows with the weight; `x` is the same memory as a tensor."""
        rows = len(x_TK)
        if self._factor_K is not None:
            whole, whole_tensor = self._work.floats("whole", rows, self.in_features)
            scale_T = self._work.floats("scale", 1, rows)[0][0]
            kernels.quantize(x_TK, self._factor_K, whole, scale_T)
            return Product(self._product(whole_tensor).numpy(), scale_T, self._bias_N)
        if len(self._ones) < rows:
            self._ones = np.ones(rows, np.float32)
        return Product(self._product(x).numpy(), self._ones, self._bias_N)

    def finished(self, x: Tensor) -> Tensor:
        """The layer's output [T, N] for rows [T, K], scale and bias included."""
        product = self(x.numpy(), x)
        if self._factor_K is not None or self._has_bias:
            kernels.finish(product.acc_TN, product.scale_T, product.bias_N, product.acc_TN)
        return torch.from_numpy(product.acc_TN)


class RowNorm:
    """A root-mean-square norm on rows."""

    def __init__(self, module: RMSNorm) -> None:
        self._weight_K = module.weight.detach().float().contiguous().numpy()
        self._eps = np.float32(module.eps)

    def into(self, x_TK: Floats, out_TK: Floats) -> None:
        """Normed rows into `out_TK`."""
        kernels.norm(x_TK, self._weight_K, self._eps, out_TK)


class RowAttention:
    """One self-attention on rows."""

    def __init__(self, module: SelfAttention, work: Workspace) -> None:
        self._heads, self._groups, self._width = module.num_heads, module.num_kv_heads, module.head_dim
        assert module.qkv_proj is not None, "merge_projections comes first"
        self._qkv = RowLinear(module.qkv_proj, work)
        self._out = RowLinear(module.o_proj, work)
        self._work = work
        self._exact = isinstance(module.o_proj, Int8Linear)
        self._scale = np.float32(self._width**-0.5)
        empty = np.empty(0, np.float32)
        self._norm_q = empty if module.q_norm is None else module.q_norm.weight.detach().float().numpy()
        self._norm_k = empty if module.k_norm is None else module.k_norm.weight.detach().float().numpy()
        self._eps = np.float32(0.0 if module.q_norm is None else module.q_norm.eps)

    def __call__(
        self, x_TK: Floats, x: Tensor, cos_TD: Floats, sin_TD: Floats, attend: RaggedAttend, layer: int
    ) -> Product:
        """The attention branch of the rows, to be added to the residual."""
        rows, slots = len(x_TK), attend.rows
        product = self._qkv(x_TK, x)
        query_TF, query = self._work.floats("query", rows, self._heads * self._width)
        query_THD = query_TF.reshape(rows, self._heads, self._width)
        keys_GCD, values_GCD = attend.arrays[layer]
        kernels.project(
            product.acc_TN, product.scale_T, product.bias_N, self._norm_q, self._norm_k, self._eps,
            cos_TD, sin_TD, slots.new_T, query_THD, keys_GCD, values_GCD,
        )  # fmt: skip
        attended, attended_tensor = self._work.floats("attended", rows, self._heads * self._width)
        for number, (begin, end) in enumerate(attend.bounds):
            if self._exact or end - begin < _LONG_PART:
                attend_rows(
                    query_THD, keys_GCD, values_GCD, slots.seen_TC, slots.count_T, begin, end, self._scale, attended
                )
            else:
                folded = query.view(rows, self._heads, self._width).transpose(0, 1)[None]
                part = attend.attend_part(number, layer, folded)
                attended_tensor[begin:end] = part[0].transpose(0, 1).reshape(end - begin, -1)
        return self._out(attended, attended_tensor)


class RowMLP:
    """A gated MLP on rows."""

    def __init__(self, module: SwiGLU, work: Workspace) -> None:
        assert module.gate_up_proj is not None, "merge_projections comes first"
        self._gate_up = RowLinear(module.gate_up_proj, work)
        self._down = RowLinear(module.down_proj, work)
        self._work = work

    def __call__(self, x_TK: Floats, x: Tensor) -> Product:
        """The MLP branch of the rows, to be added to the residual."""
        product = self._gate_up(x_TK, x)
        hidden_TI, hidden = self._work.floats("hidden", len(x_TK), self._down.in_features)
        kernels.gate(product.acc_TN, product.scale_T, product.bias_N, hidden_TI)
        return self._down(hidden_TI, hidden)


def add(x_TK: Floats, product: Product) -> None:
    """Add a branch to the residual stream, in place."""
    kernels.add(x_TK, product.acc_TN, product.scale_T, product.bias_N)


def half_angles(angles: Sequence[Tensor]) -> tuple[Floats, Floats]:
    """Cosines and sines [T, D] of `rope.rotary_angles` for a batch of one."""
    cos, sin = (angle[0, 0].contiguous().numpy() for angle in angles)
    return cos, sin
