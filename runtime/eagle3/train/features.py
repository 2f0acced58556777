"""Target features and top probabilities of training rows, computed once and stored in shards.

A shard is a safetensors file of flat arrays over the P positions of its rows: `input_ids` int32 [P],
`answer_mask` uint8 [P] (1 where the token was written by the assistant), `taps` bfloat16 [P, F], `top_ids`
int32 [P, K] and `top_probs` float16 [P, K] (the target's next-token distribution after the position, cut to
its K largest; zero before the first answer), `offsets` int64 [rows + 1]. Knows no draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
def compute_shard(target: Target, rows: Sequence[TokenRow], top_k: int) -> dict[str, Tensor]:
    """Run the target over the rows, similar lengths together; the arrays of one shard, rows in their order.

    The arrays are allocated before the first pass: small results kept between passes would pin the heap under
    the large temporaries of the output head, and a shard would cost many times its size.
    """
    sizes = [len(row.input_ids) for row in rows]
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    total = int(offsets[-1])
    shard = {
        "input_ids": torch.tensor([token for row in rows for token in row.input_ids], dtype=torch.int32),
        "answer_mask": torch.tensor([flag for row in rows for flag in row.answer_mask], dtype=torch.uint8),
        "taps": torch.empty(total, len(target.tap_inputs) * target.arch.hidden_size, dtype=torch.bfloat16),
        "top_ids": torch.zeros(total, top_k, dtype=torch.int32),
        "top_probs": torch.zeros(total, top_k, dtype=torch.float16),
        "offsets": offsets,
    }
    for chunk in _passes(sizes):
        longest = sizes[chunk[-1]]
        # Padding on the right is invisible to causal attention of the real positions.
        padded = torch.tensor([rows[index].input_ids + [0] * (longest - sizes[index]) for index in chunk])
        output = target(padded, torch.arange(longest).expand_as(padded), causal_attend)
        for place, index in enumerate(chunk):
            begin, end = int(offsets[index]), int(offsets[index + 1])
            shard["taps"][begin:end] = output.taps_BSF[place, : end - begin]
            first = _first_predicting(rows[index].answer_mask)
            logits = target.logits(output.hidden_BSH[place, first : end - begin]).float()
            values, ids = logits.topk(top_k, dim=-1)
            shard["top_ids"][begin + first : end] = ids
            shard["top_probs"][begin + first : end] = (values - logits.logsumexp(dim=-1, keepdim=True)).exp()
    return shard


def _first_predicting(answer_mask: Sequence[bool]) -> int:
    """The position whose distribution gives the first answer token; the output head is spared all before it."""
    return max(0, answer_mask.index(True) - 1) if True in answer_mask else len(answer_mask) - 1


def _passes(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Row indices of each forward pass: shortest first, padded size bounded."""
    chunk: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index]):
        if chunk and (len(chunk) + 1) * sizes[index] > _POSITIONS_PER_PASS:
            yield chunk
            chunk = []
        chunk.append(index)
    if chunk:
        yield chunk


def save_shard(path: Path, shard: dict[str, Tensor]) -> None:
    """Write one shard; the file appears only when it is whole."""
    partial = path.with_suffix(".partial")
    save_file(shard, partial)
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
        for begin, end in pairwise(bounds):
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
