"""Guesses that a text goes on as it did after the longest repetition of its ending; needs no model.

How often that comes true depends on the length of the match, and is learnt from every emitted token, drafted or not:
of all answers, and of each answer by itself where it repeats itself more or less than others. Knows no trees and no
sampling. Invariant: what was guessed changes no text, and the state of a sequence follows from its token ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eagle3.config.speculation import Speculation
from eagle3.draft.suffix_automaton import SuffixAutomaton
from eagle3.tree.chain import Chain

# Share of guesses that come true by the length of the match, 1 token, 2 tokens and so on, roughly as answers of small
# models have it: what is thought before anything is seen. The last also stands for longer matches.
_FIRST_THOUGHT = (0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.8, 0.8, 0.85, 0.85, 0.85, 0.85, 0.9)
# Guesses that the first thought weighs, and that all answers together weigh in the estimate of one.
_WEIGHT = 8.0
# Guesses after which old ones fade: long enough to be steady, short enough to follow a change of texts.
_MEMORY = 1000.0
# Guesses less probable than this are not worth a row of the target's pass; beside the draft the best of all nodes are
# kept, and the number of rows is the same in any case.
_LEAST_ALONE = 0.05
_LEAST_BESIDE_DRAFT = 0.01


class HitRates:
    """How often the token after the match was the next one, by the length of the match."""

    def __init__(self, prior: HitRates | None = None) -> None:
        self._prior = prior
        self._hits = [0.0] * len(_FIRST_THOUGHT)
        self._guesses = [0.0] * len(_FIRST_THOUGHT)

    def observe(self, match_length: int, *, hit: bool) -> None:
        """Count one guess, here and in the prior."""
        place = self._place(match_length)
        if self._guesses[place] >= _MEMORY:
            self._guesses[place] *= 1 - 1 / _MEMORY
            self._hits[place] *= 1 - 1 / _MEMORY
        self._guesses[place] += 1
        self._hits[place] += hit
        if self._prior is not None:
            self._prior.observe(match_length, hit=hit)

    def probability(self, match_length: int) -> float:
        """Probability, between 0 and 1, that the token after a match of this length is the next one."""
        place = self._place(match_length)
        thought = _FIRST_THOUGHT[place] if self._prior is None else self._prior.probability(match_length)
        return (self._hits[place] + _WEIGHT * thought) / (self._guesses[place] + _WEIGHT)

    @staticmethod
    def _place(match_length: int) -> int:
        assert match_length >= 1, "no match, no guess"
        return min(match_length, len(_FIRST_THOUGHT)) - 1


class SuffixState:
    """The guesses for one sequence."""

    def __init__(self, shape: Speculation, rates: HitRates, num_prompt: int) -> None:
        self._shape = shape
        self._rates = HitRates(rates)
        self._num_prompt = num_prompt
        self._least_score = math.log(_LEAST_BESIDE_DRAFT if "eagle3" in shape.drafters else _LEAST_ALONE)
        self._automaton = SuffixAutomaton()

    def propose(self, token_ids: Sequence[int], *, limit: int) -> Chain | None:
        """At most `limit` tokens that may follow prompt and answer so far; None where nothing is likely enough."""
        self._read(token_ids)
        length = self._automaton.match_length
        if length < self._shape.suffix_min_match:
            return None
        log_probs: list[float] = []
        path = 0.0
        for step in range(min(limit, self._shape.suffix_tokens)):
            log_prob = math.log(self._rates.probability(length + step))
            path += log_prob
            if path < self._least_score:
                break
            log_probs.append(log_prob)
        if not log_probs:
            return None
        return Chain(tuple(self._automaton.continuation(len(log_probs))), tuple(log_probs))

    def suffices(self, chain: Chain) -> bool:
        """Whether more of the chain is expected to be accepted than the draft model could give at all."""
        return chain.expected_accepted >= self._shape.depth

    def _read(self, token_ids: Sequence[int]) -> None:
        """Take in what is new of the text, which only ever grows, and see whether it was what would be guessed."""
        automaton = self._automaton
        for place in range(len(automaton), len(token_ids)):
            token_id = token_ids[place]
            if place >= self._num_prompt and automaton.match_length:
                hit = automaton.continuation(1)[0] == token_id
                self._rates.observe(automaton.match_length, hit=hit)
            automaton.extend(token_id)


class SuffixDrafter:
    """What the guesses for all sequences of an engine have in common."""

    def __init__(self, shape: Speculation) -> None:
        self._shape = shape
        self._rates = HitRates()

    def begin(self, num_prompt: int) -> SuffixState:
        """The state of a new sequence whose prompt has so many tokens."""
        return SuffixState(self._shape, self._rates, num_prompt)
