"""Turns the target's logits at one node into the distribution that the request asked for.

The same function serves plain and speculative decoding, node by node, each with its own prefix, so every
sampling parameter acts alike in both. V vocabulary. Knows no models, trees or caches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eagle3.errors import InvalidInputError, NumericalError
from eagle3.sampling.params import SamplingParams

# Smaller ones, which float32 cannot hold, act alike: the whole probability is on the largest logit.
_LEAST_TEMPERATURE = 1e-30

_LEAST_NOISE = 1e-300


class TokenDistribution:
    """Sampling state of one answer: parameters, its prompt and its own random stream.

    `generator` gives one vector of noise per token when the temperature is above 0, nothing at temperature 0.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        prompt_ids: Sequence[int],
        vocab_size: int,
        ending_ids: frozenset[int],
        generator: torch.Generator,
    ) -> None:
        for token_id in (*params.logit_bias, *params.stop_token_ids):
            if not 0 <= token_id < vocab_size:
                raise InvalidInputError(
                    f"token id {token_id} in logit_bias or stop_token_ids does not exist; "
                    f"allowed: 0 to {vocab_size - 1}"
                )
        self._params = params
        self._vocab_size = vocab_size
        self._prompt_ids = torch.tensor(sorted(set(prompt_ids)), dtype=torch.int64)
        # A tokenizer may name end tokens beyond the model's vocabulary; they never come.
        self._ending_ids = torch.tensor([i for i in sorted(ending_ids) if i < vocab_size], dtype=torch.int64)
        self._bias_ids = torch.tensor(list(params.logit_bias), dtype=torch.int64)
        self._bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float32)
        self._generator = generator

    def choose(self, logits_V: Tensor, generated_ids: Sequence[int]) -> int:
        """The next token after `generated_ids`: the argmax at temperature 0, else one draw."""
        scores_V = self.adjusted(logits_V, generated_ids)
        if self._params.temperature == 0:
            return int(scores_V.argmax())
        probs_V = self._truncated(scores_V).softmax(dim=-1, dtype=torch.float64)
        # Exponential race: the argmax of probs / Exp(1) has the law of probs. A draw by cumulative sums has it too,
        # but turns rounding in the last digit of one logit into another token wherever many rare tokens lie close;
        # here two tokens must be equal to the last digit for that.
        race_V = torch.empty(probs_V.shape, dtype=torch.float64).exponential_(generator=self._generator)
        race_V.clamp_min_(_LEAST_NOISE)  # 0 would let a token of probability 0 win
        return int((probs_V / race_V.to(probs_V.device)).argmax())

    def probabilities(self, logits_V: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """What `choose` draws from, float64 [V]; a single 1.0 at temperature 0."""
        scores_V = self.adjusted(logits_V, generated_ids)
        if self._params.temperature == 0:
            return torch.nn.functional.one_hot(scores_V.argmax(), self._vocab_size).double()
        return self._truncated(scores_V).softmax(dim=-1, dtype=torch.float64)

    def adjusted(self, logits_V: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """Logits after bias, penalties and the minimum length, before temperature; float32 [V]."""
        params = self._params
        # One number tells: a sum is NaN or infinite as soon as one logit is.
        if not bool(torch.isfinite(logits_V.sum(dtype=torch.float64))):
            raise NumericalError("the target produced NaN or infinite logits; check its weights and dtype")
        scores_V = logits_V.float()
        touched = (
            len(self._bias_ids) > 0
            or params.repetition_penalty != 1.0
            or params.presence_penalty != 0.0
            or params.frequency_penalty != 0.0
            or len(generated_ids) < params.min_new_tokens
        )
        if not touched:
            return scores_V
        scores_V = scores_V.clone()
        scores_V[self._bias_ids] += self._bias.to(scores_V.device)
        if params.repetition_penalty != 1.0:
            seen = torch.cat([self._prompt_ids, torch.tensor(list(generated_ids), dtype=torch.int64)]).unique()
            values = scores_V[seen]
            penalty = params.repetition_penalty
            scores_V[seen] = torch.where(values > 0, values / penalty, values * penalty)
        if generated_ids and (params.presence_penalty or params.frequency_penalty):
            ids, counts = torch.tensor(list(generated_ids), dtype=torch.int64).unique(return_counts=True)
            scores_V[ids] -= params.presence_penalty + params.frequency_penalty * counts.to(scores_V.device)
        if len(generated_ids) < params.min_new_tokens:
            scores_V[self._ending_ids] = float("-inf")
        return scores_V

    def _truncated(self, scores_V: Tensor) -> Tensor:
        """Temperature, then top-k, top-p and min-p; what is cut is -inf."""
        params = self._params
        # The largest becomes 0, so that no temperature above 0 divides into infinity.
        scores_V = (scores_V - scores_V.max()) / max(params.temperature, _LEAST_TEMPERATURE)
        if 0 < params.top_k < self._vocab_size:
            least = scores_V.topk(params.top_k).values[-1]
            scores_V = scores_V.masked_fill(scores_V < least, float("-inf"))
        if params.top_p < 1.0:
            ranked, order = scores_V.sort(descending=True, stable=True)
            probs = ranked.softmax(dim=-1, dtype=torch.float64)
            before = probs.cumsum(dim=-1) - probs
            scores_V = scores_V.index_fill(0, order[before >= params.top_p], float("-inf"))
        if params.min_p > 0.0:
            probs = scores_V.softmax(dim=-1)
            scores_V = scores_V.masked_fill(probs < params.min_p * probs.max(), float("-inf"))
        return scores_V
