"""Target features and top probabilities of training rows, computed once and stored in shards.

A shard is a safetensors file of flat arrays over the P positions of its rows: `input_ids` int32 [P],
`answer_mask` uint8 [P] (1 where the token was written by the assistant), `taps` bfloat16 [P, F], `top_ids`
int32 [P, K] and `top_probs` float16 [P, K] (the target's next-token distribution after the position, cut to
its K largest), `offsets` int64 [rows + 1]. Knows no draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle3.errors import InvalidInputError
from eagle3.models.attention import causal_attend
from eagle3.models.target import Target

# Positions in one forward pass of the target: bounds memory, large enough for full speed.
_POSITIONS_PER_PASS = 4096


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training conversation as tokens."""

    input_ids: list[int]
    """Every token, templates included."""
    answer_mask: list[bool]
    """True where the assistant wrote the token."""


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One training conversation with what the target made of it; S positions."""

    input_ids_S: Tensor
    answer_mask_S: Tensor
    taps_SF: Tensor
    top_ids_SK: Tensor
    top_probs_SK: Tensor


@torch.inference_mode()
def compute_features(target: Target, rows: Sequence[TokenRow], top_k: int) -> Iterator[FeatureRow]:
    """Run the target over the rows, similar lengths together; yields them in an order of its own."""
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].input_ids))
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * len(rows[order[end]].input_ids) <= _POSITIONS_PER_PASS:
            end += 1
        chunk = [rows[index] for index in order[begin:end]]
        longest = len(chunk[-1].input_ids)
        # Padding on the right is invisible to causal attention of the real positions.
        padded = torch.tensor([row.input_ids + [0] * (longest - len(row.input_ids)) for row in chunk])
        positions = torch.arange(longest).expand_as(padded)
        output = target(padded, positions, causal_attend)
        for index, row in enumerate(chunk):
            size = len(row.input_ids)
            probs = target.logits(output.hidden_BSH[index, :size]).float().softmax(dim=-1)
            top_probs, top_ids = probs.topk(top_k, dim=-1)
            yield FeatureRow(
                input_ids_S=padded[index, :size].to(torch.int32),
                answer_mask_S=torch.tensor(row.answer_mask, dtype=torch.uint8),
                taps_SF=output.taps_BSF[index, :size].to(torch.bfloat16),
                top_ids_SK=top_ids.to(torch.int32),
                top_probs_SK=top_probs.to(torch.float16),
            )
        begin = end


def save_shard(path: Path, rows: Sequence[FeatureRow]) -> None:
    """Write one shard; the file appears only when it is whole."""
    sizes = torch.tensor([0] + [len(row.input_ids_S) for row in rows], dtype=torch.int64)
    partial = path.with_suffix(".partial")
    save_file(
        {
            "input_ids": torch.cat([row.input_ids_S for row in rows]),
            "answer_mask": torch.cat([row.answer_mask_S for row in rows]),
            "taps": torch.cat([row.taps_SF for row in rows]),
            "top_ids": torch.cat([row.top_ids_SK for row in rows]),
            "top_probs": torch.cat([row.top_probs_SK for row in rows]),
            "offsets": sizes.cumsum(0),
        },
        partial,
    )
    partial.replace(path)


def load_shards(directory: Path) -> list[FeatureRow]:
    """Every row of every shard; safetensors maps the files, so rows cost memory only when they are read."""
    paths = sorted(directory.glob("*.safetensors"))
    if not paths:
        raise InvalidInputError(f"{directory} holds no feature shards; make them with `eagle3 data build`")
    rows: list[FeatureRow] = []
    for path in paths:
        tensors = load_file(path)
        bounds = tensors["offsets"].tolist()
        for begin, end in zip(bounds, bounds[1:], strict=False):
            rows.append(
                FeatureRow(
                    input_ids_S=tensors["input_ids"][begin:end],
                    answer_mask_S=tensors["answer_mask"][begin:end],
                    taps_SF=tensors["taps"][begin:end],
                    top_ids_SK=tensors["top_ids"][begin:end],
                    top_probs_SK=tensors["top_probs"][begin:end],
                )
            )
    return rows
