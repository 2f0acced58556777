"""Turns the target's logits at one node into the distribution that the request asked for.

The same function serves plain and speculative decoding, node by node, each with its own prefix, so every
sampling parameter acts alike in both. V vocabulary. Knows no models, trees or caches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from eagle3.errors import InvalidInputError, NumericalError
from eagle3.sampling.grammar import Grammar
from eagle3.sampling.params import SamplingParams
from eagle3.sampling.support import Support, support

# 0 would be as far from winning as a token of probability 0; uniform noise is a multiple of 2**-53.
_LEAST_NOISE = 2.0**-60


class TokenDistribution:
    """Sampling state of one answer: parameters, its prompt, its own random stream and its grammar.

    `generator` gives one vector of noise per token when the temperature is above 0, nothing at temperature 0.
    `choose` is called once for each token of the text, in order: it takes the grammar on by the token it returns.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        prompt_ids: Sequence[int],
        vocab_size: int,
        ending_ids: frozenset[int],
        generator: torch.Generator,
        grammar: Grammar | None = None,
    ) -> None:
        for token_id in (*params.logit_bias, *params.stop_token_ids):
            if not 0 <= token_id < vocab_size:
                raise InvalidInputError(
                    f"token id {token_id} in logit_bias or stop_token_ids does not exist; "
                    f"allowed: 0 to {vocab_size - 1}"
                )
        assert (grammar is not None) == (params.json_schema is not None), "json_schema and its grammar come together"
        self._params = params
        self._vocab_size = vocab_size
        self._prompt_ids = torch.tensor(sorted(set(prompt_ids)), dtype=torch.int64)
        # A tokenizer may name end tokens beyond the model's vocabulary; they never come.
        self._ending_ids = torch.tensor([i for i in sorted(ending_ids) if i < vocab_size], dtype=torch.int64)
        self._bias_ids = torch.tensor(list(params.logit_bias), dtype=torch.int64)
        self._bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float32)
        self._generator = generator
        self._grammar = grammar
        self._is_plain = (
            not params.logit_bias
            and params.repetition_penalty == 1.0
            and params.presence_penalty == 0.0
            and params.frequency_penalty == 0.0
            and params.min_new_tokens == 0
            and grammar is None
        )

    @property
    def is_argmax(self) -> bool:
        """Whether every token is the argmax of the target's own logits; the same for the whole answer.

        Then `choose` may be replaced by that argmax, over many rows at once, once the logits are known to be finite.
        """
        return self._is_plain and self._params.temperature == 0

    def choose(self, logits_V: Tensor, generated_ids: Sequence[int]) -> int:
        """The next token after `generated_ids`: the argmax at temperature 0, else one draw."""
        scores_V = self.adjusted(logits_V, generated_ids)
        if self._params.temperature == 0:
            token_id = int(scores_V.argmax())
        else:
            token_id = self._draw(support(scores_V, self._params))
        if self._grammar is not None:
            self._grammar.advance(token_id)
        return token_id

    def probabilities(self, logits_V: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """What `choose` draws from, float64 [V]; a single 1.0 at temperature 0. Leaves the grammar where it is."""
        scores_V = self.adjusted(logits_V, generated_ids)
        if self._params.temperature == 0:
            return torch.nn.functional.one_hot(scores_V.argmax(), self._vocab_size).double()
        left = support(scores_V, self._params)
        if left.ids_S is None:
            return left.probabilities()
        probs_V = torch.zeros(self._vocab_size, dtype=torch.float64, device=scores_V.device)
        probs_V[left.ids_S] = left.probabilities()
        return probs_V

    def adjusted(self, logits_V: Tensor, generated_ids: Sequence[int]) -> Tensor:
        """Logits after bias, penalties, the minimum length and the grammar, before temperature; float32 [V]."""
        params = self._params
        # The extremes tell: a NaN anywhere is both of them. Here, so that no -inf of a mask is mistaken for a fault.
        if not all(map(math.isfinite, torch.stack(logits_V.aminmax()).tolist())):
            raise NumericalError("the target produced NaN or infinite logits; check its weights and dtype")
        scores_V = logits_V.float()
        if self._is_plain:
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
        return scores_V if self._grammar is None else self._grammar.apply(scores_V)

    def _draw(self, left: Support) -> int:
        # Exponential race: the argmax of probs / Exp(1) has the law of probs. A draw by cumulative sums has it too,
        # but turns rounding in the last digit of one logit into another token wherever many rare tokens lie close;
        # here two tokens must be equal to the last digit for that. Exp(1) is -log of uniform noise, which torch
        # draws several times faster than exponential noise; the minus turns the argmax into an argmin.
        # Noise is drawn for the whole vocabulary, so that a token has its own whatever else is cut.
        noise_S = torch.rand(self._vocab_size, dtype=torch.float64, generator=self._generator)
        if left.ids_S is not None:
            noise_S = noise_S[left.ids_S.cpu()]
        race_S = noise_S.clamp_min_(_LEAST_NOISE).log_().to(left.scores_S.device)
        winner = (left.probabilities() / race_S).argmin()
        return int(winner if left.ids_S is None else left.ids_S[winner])
