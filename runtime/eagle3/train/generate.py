"""Answers many prompts at once with the target alone: the bulk generator behind `eagle3 data build`.

Prompts of a batch are padded on the left to one length; rows that end are dropped from the batch when half
of it is idle. B rows, S new positions, L positions in the cache. Knows no tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from eagle3.models.target import Target


class LeftPaddedCache:
    """Keys and values of one batch, bfloat16, [layers, B, G, L, D]; an `Attend` for `Target.forward`."""

    def __init__(self, target: Target, start_B: Tensor, capacity: int) -> None:
        arch = target.arch
        shape = (arch.num_layers, len(start_B), arch.num_kv_heads, capacity, arch.head_dim)
        self.keys = torch.zeros(shape, dtype=torch.bfloat16)
        self.values = torch.zeros(shape, dtype=torch.bfloat16)
        self.start_B = start_B
        self.length = 0
        self._mask: Tensor | None = None

    def begin(self, steps: int) -> Tensor:
        """Reserve `steps` positions for the next forward pass; returns their rotary positions [B, S]."""
        self._end = self.length + steps
        slots = torch.arange(self.length, self._end)
        key_slots = torch.arange(self._end)
        seen = (key_slots[None, None, :] <= slots[None, :, None]) & (key_slots >= self.start_B[:, None, None])
        # A padding query sees itself, so that its softmax is defined; nothing reads its output.
        seen |= key_slots[None, None, :] == slots[None, :, None]
        self._mask = seen
        return (slots[None, :] - self.start_B[:, None]).clamp_min(0)

    def finish(self) -> None:
        """Keep what the forward pass stored."""
        self.length = self._end

    def keep(self, rows: Tensor) -> None:
        """Drop every row that is not in `rows`."""
        self.keys = self.keys[:, rows].contiguous()
        self.values = self.values[:, rows].contiguous()
        self.start_B = self.start_B[rows]

    def __call__(self, layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
        self.keys[layer, :, :, self.length : self._end] = key_BGSD
        self.values[layer, :, :, self.length : self._end] = value_BGSD
        batch, heads, steps, width = query_BHSD.shape
        groups = key_BGSD.shape[1]
        folded = query_BHSD.reshape(batch, groups, heads // groups * steps, width).bfloat16()
        assert self._mask is not None
        mask = self._mask.repeat(1, heads // groups, 1)[:, None]
        out = F.scaled_dot_product_attention(
            folded, self.keys[layer, :, :, : self._end], self.values[layer, :, :, : self._end], attn_mask=mask
        )
        return out.reshape(batch, heads, steps, width).to(query_BHSD.dtype)


@torch.inference_mode()
def generate_batch(
    target: Target,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    stop_ids: frozenset[int],
    temperatures: Sequence[float],
    generator: torch.Generator,
) -> list[list[int]]:
    """New tokens for each prompt, the stop token included when one came; temperature 0 takes the argmax."""
    longest = max(len(prompt) for prompt in prompts)
    start_B = torch.tensor([longest - len(prompt) for prompt in prompts])
    cache = LeftPaddedCache(target, start_B, longest + max_new_tokens)
    padded = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    heat_B = torch.tensor(temperatures)
    outputs: list[list[int]] = [[] for _ in prompts]
    owner = list(range(len(prompts)))
    running = torch.ones(len(prompts), dtype=torch.bool)
    step_ids = padded
    for _ in range(max_new_tokens):
        positions = cache.begin(step_ids.shape[1])
        hidden = target(step_ids, positions, cache).hidden_BSH[:, -1]
        cache.finish()
        chosen = _choose(target.logits(hidden), heat_B, generator)
        for row, token in enumerate(chosen.tolist()):
            if running[row]:
                outputs[owner[row]].append(token)
                if token in stop_ids:
                    running[row] = False
        alive = int(running.sum())
        if not alive:
            break
        if alive <= len(owner) // 2:
            rows = running.nonzero()[:, 0]
            cache.keep(rows)
            owner = [owner[row] for row in rows.tolist()]
            chosen, heat_B, running = chosen[rows], heat_B[rows], running[rows]
        step_ids = chosen[:, None]
    return outputs


def generate_all(
    target: Target,
    prompts: Sequence[Sequence[int]],
    *,
    batch_size: int,
    max_new_tokens: int,
    stop_ids: frozenset[int],
    temperatures: Sequence[float],
    generator: torch.Generator,
    on_batch: Callable[[list[int], list[list[int]]], None],
) -> None:
    """Generate for every prompt, similar lengths together; `on_batch` gets prompt indices and their new tokens."""
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for begin in range(0, len(order), batch_size):
        chunk = order[begin : begin + batch_size]
        answers = generate_batch(
            target,
            [prompts[index] for index in chunk],
            max_new_tokens=max_new_tokens,
            stop_ids=stop_ids,
            temperatures=[temperatures[index] for index in chunk],
            generator=generator,
        )
        on_batch(chunk, answers)


def _choose(logits_BV: Tensor, heat_B: Tensor, generator: torch.Generator) -> Tensor:
    chosen = logits_BV.argmax(dim=-1)
    hot = (heat_B > 0).nonzero()[:, 0]
    if len(hot):
        probs = (logits_BV[hot] / heat_B[hot, None]).softmax(dim=-1)
        chosen[hot] = torch.multinomial(probs, 1, generator=generator)[:, 0]
    return chosen
