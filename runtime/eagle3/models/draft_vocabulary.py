"""The draft's reduced vocabulary: which target token each draft token stands for.

Files store offsets (`d2t`): target id = draft id + offset; `t2d` marks the members. Knows no files. Never assumes
that the mapping rises: NVIDIA's is in order of frequency. Invariant: a returned mapping is in range and one to
one. V draft vocabulary, T target vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eagle3.errors import WeightsError


def mapping_problems(offsets_V: Tensor | None, members_T: Tensor | None, draft_vocab: int, vocab: int) -> list[str]:
    """Everything wrong with `d2t` and `t2d`, one sentence each; empty when they are sound."""
    if draft_vocab > vocab:
        return [f"draft_vocab_size {draft_vocab} is larger than vocab_size {vocab}; fix the draft's config"]
    if offsets_V is None:
        if draft_vocab == vocab:
            return []
        return [
            f"the draft proposes {draft_vocab} of {vocab} tokens, but its files hold no d2t, so draft ids cannot be "
            "mapped to target ids; add d2t (int64 offsets) to the weights"
        ]
    if offsets_V.dtype.is_floating_point or offsets_V.dtype == torch.bool or offsets_V.dim() != 1:
        return [f"d2t must be a vector of integers; got {offsets_V.dtype} of shape {list(offsets_V.shape)}"]
    if len(offsets_V) != draft_vocab:
        return [f"d2t has {len(offsets_V)} entries; draft_vocab_size asks for {draft_vocab}"]
    ids_V = _ids(offsets_V)
    outside_V = (ids_V < 0) | (ids_V >= vocab)
    problems = [
        f"d2t[{i}] = {int(offsets_V[i])} maps draft id {i} to target id {int(ids_V[i])}; "
        f"allowed: 0 to {vocab - 1}" + _more(int(outside_V.sum()))
        for i in outside_V.nonzero().flatten()[:1].tolist()
    ]
    repeated = _first_duplicate(ids_V)
    if repeated is not None:
        first, second = repeated
        problems.append(
            f"d2t maps draft ids {first} and {second} to the same target id {int(ids_V[second])}; "
            "every draft id needs its own (were absolute ids stored instead of offsets?)"
        )
    if members_T is not None and not problems:
        problems += _membership_problems(ids_V, members_T, vocab)
    return problems


def target_ids(offsets_V: Tensor | None, members_T: Tensor | None, draft_vocab: int, vocab: int) -> Tensor:
    """Target id of each draft id, int64 [V]; WeightsError for the first problem of the mapping."""
    problems = mapping_problems(offsets_V, members_T, draft_vocab, vocab)
    if problems:
        raise WeightsError(problems[0])
    return torch.arange(vocab) if offsets_V is None else _ids(offsets_V)


def offsets_of(target_ids_V: Tensor) -> Tensor:
    """`d2t` of a mapping, int64 [V]."""
    return target_ids_V.to(torch.int64) - torch.arange(len(target_ids_V))


def members_of(target_ids_V: Tensor, vocab: int) -> Tensor:
    """`t2d` of a mapping, bool [T]."""
    members_T = torch.zeros(vocab, dtype=torch.bool)
    members_T[target_ids_V] = True
    return members_T


def _ids(offsets_V: Tensor) -> Tensor:
    return offsets_V.to(torch.int64) + torch.arange(len(offsets_V))


def _first_duplicate(ids_V: Tensor) -> tuple[int, int] | None:
    seen: dict[int, int] = {}
    for draft_id, target_id in enumerate(ids_V.tolist()):
        if target_id in seen:
            return seen[target_id], draft_id
        seen[target_id] = draft_id
    return None


def _membership_problems(ids_V: Tensor, members_T: Tensor, vocab: int) -> list[str]:
    if members_T.dim() != 1 or len(members_T) != vocab:
        return [f"t2d has shape {list(members_T.shape)}; vocab_size asks for [{vocab}]"]
    differing = (members_T.to(torch.bool) != members_of(ids_V, vocab)).nonzero().flatten()
    if not len(differing):
        return []
    first = int(differing[0])
    says, mapped = ("a member", "no draft id maps") if bool(members_T[first]) else ("not a member", "a draft id maps")
    return [f"t2d contradicts d2t: t2d says target id {first} is {says}, but {mapped} to it" + _more(len(differing))]


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""
