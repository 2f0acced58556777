"""What a decoder layer does between its matrix products, compiled for the rows of decoding on a CPU.

Each kernel treats every row alone, in an order of operations that depends on nothing but that row: a token's numbers
are the same, bit for bit, alone or beside others. That is what makes speculative decoding equal plain decoding even
where activations are rounded to int8. Knows no models. `acc_TN` is the output of a matrix product that still lacks its
scale by row and its bias. T rows, K, N widths, I width of the gated layer, H query heads, G key/value heads, D head
width, C cache slots. All arrays are C-contiguous float32 unless said otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle3.models.row_math import ONE, ZERO, Floats, Indices, compiled, exp, f32, largest_size


@compiled
def quantize(x_TK: Floats, factor_K: Floats, whole_TK: Floats, scale_T: Floats) -> None:
    """Round rows to whole numbers from −127 to 127: x × factor is about whole × scale, with a scale for each row."""
    for t in range(x_TK.shape[0]):
        row = whole_TK[t]
        trace = ZERO
        for i in range(row.shape[0]):
            row[i] = x_TK[t, i] * factor_K[i]
            trace += row[i] * ZERO  # NaN if one is NaN or infinite: rounding would hide it, the scale does not
        most = largest_size(row)
        inverse = f32(127.0) / most if most > ZERO else ZERO
        for i in range(row.shape[0]):
            row[i] = np.rint(row[i] * inverse)
        scale_T[t] = most / f32(127.0) + trace


@compiled
def norm(x_TK: Floats, weight_K: Floats, eps: Any, out_TK: Floats) -> None:
    """Root-mean-square norm of rows."""
    width = x_TK.shape[1]
    for t in range(x_TK.shape[0]):
        total = ZERO
        for i in range(width):
            total += x_TK[t, i] * x_TK[t, i]
        inverse = ONE / np.sqrt(total / f32(width) + eps)
        for i in range(width):
            out_TK[t, i] = x_TK[t, i] * inverse * weight_K[i]


@compiled
def add(x_TK: Floats, acc_TK: Floats, scale_T: Floats, bias_K: Floats) -> None:
    """x += acc × scale + bias: the end of a residual branch."""
    for t in range(x_TK.shape[0]):
        scale = scale_T[t]
        for i in range(x_TK.shape[1]):
            x_TK[t, i] += acc_TK[t, i] * scale + bias_K[i]


@compiled
def finish(acc_TN: Floats, scale_T: Floats, bias_N: Floats, out_TN: Floats) -> None:
    """out = acc × scale + bias."""
    for t in range(acc_TN.shape[0]):
        scale = scale_T[t]
        for i in range(acc_TN.shape[1]):
            out_TN[t, i] = acc_TN[t, i] * scale + bias_N[i]


@compiled
def gate(acc_TN: Floats, scale_T: Floats, bias_N: Floats, out_TI: Floats) -> None:
    """silu(gate) × up, where the first half of a row is the gate and the second is up (N = 2 I)."""
    width = out_TI.shape[1]
    for t in range(out_TI.shape[0]):
        scale = scale_T[t]
        gates, ups, out = acc_TN[t, :width], acc_TN[t, width:], out_TI[t]
        for i in range(width):
            out[i] = exp(-(gates[i] * scale + bias_N[i]))
        for i in range(width):
            value = gates[i] * scale + bias_N[i]
            out[i] = value * (ups[i] * scale + bias_N[width + i]) / (ONE + out[i])


@compiled
def _head(row: Floats, scale: Any, bias: Floats, weight_D: Floats, eps: Any, out: Floats) -> None:
    """One head's slice of a row, scaled, and normed if there is a weight for that (Qwen3)."""
    width = row.shape[0]
    for i in range(width):
        out[i] = row[i] * scale + bias[i]
    if weight_D.shape[0] > 0:
        total = ZERO
        for i in range(width):
            total += out[i] * out[i]
        inverse = ONE / np.sqrt(total / f32(width) + eps)
        for i in range(width):
            out[i] = out[i] * inverse * weight_D[i]


@compiled
def project(
    acc_TN: Floats, scale_T: Floats, bias_N: Floats, norm_q_D: Floats, norm_k_D: Floats, eps: Any,
    cos_TD: Floats, sin_TD: Floats, slot_T: Indices, query_THD: Floats, keys_GCD: Floats, values_GCD: Floats,
) -> None:  # fmt: skip
    """Finish queries, keys and values that lie side by side in a row, rotate, and store keys and values in their slots.

    Rotation in halves, as in `rope.rotate`; D / 2 columns of cosines and sines are read.
    """
    heads, width = query_THD.shape[1], query_THD.shape[2]
    groups, half = keys_GCD.shape[0], query_THD.shape[2] // 2
    head = np.empty(width, np.float32)
    for t in range(acc_TN.shape[0]):
        scale, slot = scale_T[t], np.uint64(slot_T[t])
        for h in range(heads + groups):
            begin = h * width
            weight = norm_q_D if h < heads else norm_k_D
            _head(acc_TN[t, begin : begin + width], scale, bias_N[begin : begin + width], weight, eps, head)
            out = query_THD[t, h] if h < heads else keys_GCD[h - heads, slot]
            for i in range(half):
                out[i] = head[i] * cos_TD[t, i] - head[half + i] * sin_TD[t, i]
            for i in range(half):
                out[half + i] = head[half + i] * cos_TD[t, i] + head[i] * sin_TD[t, i]
        for g in range(groups):
            begin = (heads + groups + g) * width
            values = values_GCD[g, slot]
            for i in range(width):
                values[i] = acc_TN[t, begin + i] * scale + bias_N[begin + i]
