"""Attention of the rows of decoding over the slots of a paged cache, compiled for a CPU.

A row's sums run over the list of slots that it sees, so neither the rows beside it nor a gap between slots (a branch of
the tree that the row does not see) changes its numbers by a bit. Knows no models and no trees. T rows, H query heads, G
key/value heads, R query heads for each of them, D head width, C cache slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle3.models.row_math import ONE, ZERO, Floats, Indices, compiled, exp, largest


@compiled
def attend(
    query_THD: Floats, keys_GCD: Floats, values_GCD: Floats, seen_TC: Indices, count_T: Indices, first: int, last: int,
    scale: Any, out_TF: Floats,
) -> None:  # fmt: skip
    """Attention of rows `first` to `last` over the slots seen_TC[t, :count_T[t]]; out row t is its H × D outputs.

    The slots of a row come in the order of their positions. A row's sums run over that list, so that a gap between
    slots (a branch of the tree that the row does not see) changes nothing.
    """
    heads, width = query_THD.shape[1], query_THD.shape[2]
    groups = keys_GCD.shape[0]
    share = heads // groups
    weights = np.empty((share, seen_TC.shape[1]), np.float32)
    out = np.empty((share, width), np.float32)
    for t in range(first, last):
        seen, count = seen_TC[t], count_T[t]
        for g in range(groups):
            query = query_THD[t, g * share : (g + 1) * share]
            _scores(query, keys_GCD[g], seen, count, scale, weights)
            for r in range(share):
                _softmax(weights[r], count)
            r = 0
            while r + 3 <= share:
                _weigh_three(weights[r], weights[r + 1], weights[r + 2], values_GCD[g], seen, count, out[r : r + 3])
                r += 3
            while r < share:
                _weigh(weights[r], values_GCD[g], seen, count, out[r])
                r += 1
            for r in range(share):
                begin = (g * share + r) * width
                for i in range(width):
                    out_TF[t, begin + i] = out[r, i]


@compiled
def _scores(query_RD: Any, keys_CD: Any, seen: Any, count: int, scale: Any, out_RC: Any) -> None:
    for j in range(count):
        slot = np.uint64(seen[j])
        for r in range(query_RD.shape[0]):
            total = ZERO
            for i in range(query_RD.shape[1]):
                total += query_RD[r, i] * keys_CD[slot, i]
            out_RC[r, j] = total * scale


@compiled
def _softmax(weights: Any, count: int) -> None:
    most = largest(weights, count)
    total = ZERO
    for j in range(count):
        total += weights[j] * ZERO  # as in `quantize`
    for j in range(count):
        weights[j] = exp(weights[j] - most)
    for j in range(count):
        total += weights[j]
    inverse = ONE / total
    for j in range(count):
        weights[j] *= inverse


@compiled
def _weigh(weights: Any, values_CD: Any, seen: Any, count: int, out: Any) -> None:
    """Weighted sum of values, eight keys at a time: the sums stay in registers for longer."""
    for i in range(out.shape[0]):
        out[i] = ZERO
    j = 0
    while j + 8 <= count:
        a, b, c, d = np.uint64(seen[j]), np.uint64(seen[j + 1]), np.uint64(seen[j + 2]), np.uint64(seen[j + 3])
        e, f, g, h = np.uint64(seen[j + 4]), np.uint64(seen[j + 5]), np.uint64(seen[j + 6]), np.uint64(seen[j + 7])
        wa, wb, wc, wd = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        we, wf, wg, wh = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        for i in range(out.shape[0]):
            low = (wa * values_CD[a, i] + wb * values_CD[b, i]) + (wc * values_CD[c, i] + wd * values_CD[d, i])
            high = (we * values_CD[e, i] + wf * values_CD[f, i]) + (wg * values_CD[g, i] + wh * values_CD[h, i])
            out[i] += low + high
        j += 8
    while j < count:
        slot, weight = np.uint64(seen[j]), weights[j]
        for i in range(out.shape[0]):
            out[i] += weight * values_CD[slot, i]
        j += 1


@compiled
def _weigh_three(x: Any, y: Any, z: Any, values_CD: Any, seen: Any, count: int, out_RD: Any) -> None:
    """`_weigh` for three heads that share their values, four keys at a time: each value is read once."""
    p, q, r = out_RD[0], out_RD[1], out_RD[2]
    for i in range(p.shape[0]):
        p[i] = q[i] = r[i] = ZERO
    j = 0
    while j + 4 <= count:
        a, b, c, d = np.uint64(seen[j]), np.uint64(seen[j + 1]), np.uint64(seen[j + 2]), np.uint64(seen[j + 3])
        xa, xb, xc, xd = x[j], x[j + 1], x[j + 2], x[j + 3]
        ya, yb, yc, yd = y[j], y[j + 1], y[j + 2], y[j + 3]
        za, zb, zc, zd = z[j], z[j + 1], z[j + 2], z[j + 3]
        for i in range(p.shape[0]):
            va, vb, vc, vd = values_CD[a, i], values_CD[b, i], values_CD[c, i], values_CD[d, i]
            p[i] += (xa * va + xb * vb) + (xc * vc + xd * vd)
            q[i] += (ya * va + yb * vb) + (yc * vc + yd * vd)
            r[i] += (za * va + zb * vb) + (zc * vc + zd * vd)
        j += 4
    while j < count:
        slot = np.uint64(seen[j])
        for i in range(p.shape[0]):
            value = values_CD[slot, i]
            p[i] += x[j] * value
            q[i] += y[j] * value
            r[i] += z[j] * value
        j += 1
