"""A packed target on the row kernels: the same interface as `Target` for passes over a paged cache.

Knows no tokenizers and no trees. B is 1, T rows, H hidden width, F tap features, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eagle3.cache.paged_cache import RaggedAttend
from eagle3.models.layers import DecoderLayer
from eagle3.models.rope import rotary_angles
from eagle3.models.row_layers import RowAttention, RowLinear, RowMLP, RowNorm, Workspace, add, half_angles
from eagle3.models.target import Target, TargetOutput


@dataclass(frozen=True, slots=True)
class _Layer:
    norm: RowNorm
    attention: RowAttention
    mlp_norm: RowNorm
    mlp: RowMLP


class RowTarget:
    """Runs a target whose layers `row_layers.can_run`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.device = target.norm.weight.device
        self._work = Workspace()
        self._layers = [_layer(layer, self._work) for layer in target.layers if isinstance(layer, DecoderLayer)]
        self._norm = RowNorm(target.norm)
        self._head = RowLinear(target.lm_head, self._work)

    def __call__(self, token_ids_1T: Tensor, positions_1T: Tensor, attend: RaggedAttend) -> TargetOutput:
        """Run T tokens at the given positions."""
        target = self._target
        x_TH = target.embed_tokens(token_ids_1T)[0].float().numpy()
        cos, sin = half_angles(rotary_angles(target.inv_freq, positions_1T))
        taps = target.tap_inputs
        width = x_TH.shape[1]
        taps_TF = np.empty((len(x_TH), len(taps) * width), np.float32)
        normed_TH, normed = self._work.floats("normed", *x_TH.shape)
        for index, layer in enumerate(self._layers):
            self._tap(index, x_TH, taps_TF)
            layer.norm.into(x_TH, normed_TH)
            add(x_TH, layer.attention(normed_TH, normed, cos, sin, attend, index))
            layer.mlp_norm.into(x_TH, normed_TH)
            add(x_TH, layer.mlp(normed_TH, normed))
        self._tap(len(self._layers), x_TH, taps_TF)
        hidden_TH = np.empty_like(x_TH)
        self._norm.into(x_TH, hidden_TH)
        return TargetOutput(hidden_BSH=torch.from_numpy(hidden_TH)[None], taps_BSF=torch.from_numpy(taps_TF)[None])

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [T, V], float32, of normed hidden states [T, H]."""
        return self._head.finished(hidden.contiguous())

    def _tap(self, index: int, x_TH: np.ndarray, taps_TF: np.ndarray) -> None:
        width = x_TH.shape[1]
        for place, tap in enumerate(self._target.tap_inputs):
            if tap == index:
                taps_TF[:, place * width : (place + 1) * width] = x_TH


def _layer(layer: DecoderLayer, work: Workspace) -> _Layer:
    return _Layer(
        norm=RowNorm(layer.input_layernorm),
        attention=RowAttention(layer.self_attn, work),
        mlp_norm=RowNorm(layer.post_attention_layernorm),
        mlp=RowMLP(layer.mlp, work),
    )
