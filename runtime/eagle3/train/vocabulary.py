"""Chooses the reduced vocabulary of a draft from token counts. Knows no models or files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from eagle3.errors import InvalidInputError


def select_draft_vocabulary(counts: Counter[int], vocab_size: int, draft_vocab_size: int) -> Tensor:
    """Target ids of the most frequent tokens, int64 [draft_vocab_size], ascending.

    Fewer distinct tokens than asked for are filled up with the lowest unused ids, so the result always has
    exactly `draft_vocab_size` distinct ids. Ties go to the lower id.
    """
    if not 1 <= draft_vocab_size <= vocab_size:
        raise InvalidInputError(
            f"draft vocabulary of {draft_vocab_size} tokens asked for; allowed: 1 to {vocab_size} (the target's)"
        )
    ranked = sorted(counts, key=lambda token: (-counts[token], token))[:draft_vocab_size]
    chosen = set(ranked)
    unused = (token for token in range(vocab_size) if token not in chosen)
    while len(chosen) < draft_vocab_size:
        chosen.add(next(unused))
    return torch.tensor(sorted(chosen), dtype=torch.int64)


def count_tokens(rows: Iterable[list[int]]) -> Counter[int]:
    """Occurrences of every token id in the rows."""
    counts: Counter[int] = Counter()
    for row in rows:
        counts.update(row)
    return counts


def draft_ids_by_target_id(target_ids_V: Tensor, vocab_size: int) -> Tensor:
    """Inverse mapping, int64 [vocab_size]; -1 marks target tokens that the draft cannot propose."""
    inverse = torch.full((vocab_size,), -1, dtype=torch.int64)
    inverse[target_ids_V] = torch.arange(len(target_ids_V))
    return inverse
