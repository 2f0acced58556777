"""The batched engine: requests in, steps, deltas out. One thread, no HTTP, no processes.

Puts together the scheduler (who runs), the policy (how much is drafted), the step runner (both models) and the
ends of texts. Invariant: a request that was added ends with one delta that carries its answer, or one failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable
from eagle3.draft.proposer import DraftState
from eagle3.draft.suffix_drafter import SuffixDrafter
from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.cycle import Block, StepRunner
from eagle3.engine.detokenizer import Detokenizer
from eagle3.engine.ending import Ending
from eagle3.engine.interface import Delta, EngineSnapshot, GenerationRequest
from eagle3.engine.policy import DecodedStep, SpeculationPolicy
from eagle3.engine.scheduler import Scheduler
from eagle3.engine.sequence import SequenceState
from eagle3.engine.stats import DecodeStats
from eagle3.errors import Eagle3Error, InvalidInputError
from eagle3.models.target import Target
from eagle3.models.tokenizer import Tokenizer
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.grammar import GrammarCompiler
from eagle3.sampling.seeds import generator_for


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that ended with an error."""

    request_id: str
    error: Eagle3Error


Event = Delta | Failure


class BatchEngine:
    """Serves many requests at once on one target and its drafters."""

    def __init__(
        self,
        target: Target,
        tokenizer: Tokenizer,
        runner: StepRunner,
        pool: BlockPool,
        scheduler: Scheduler,
        policy: SpeculationPolicy,
        *,
        block_tokens: int,
        has_draft: bool,
        max_reserved_slots: int,
        suffix: SuffixDrafter | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._target = target
        self._tokenizer = tokenizer
        self._runner = runner
        self._pool = pool
        self._scheduler = scheduler
        self._policy = policy
        self._block_tokens = block_tokens
        self._has_draft = has_draft
        self._max_reserved_slots = max_reserved_slots
        self._suffix = suffix
        self._clock = clock
        self._sequences: dict[str, SequenceState] = {}
        self._finished = EngineSnapshot()

    @cached_property
    def _grammars(self) -> GrammarCompiler:
        return GrammarCompiler(self._tokenizer.backend, self._target.arch.vocab_size, self._tokenizer.ending_ids)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._sequences)

    @property
    def context_tokens(self) -> int:
        """Prompt and answer of one request together: the model's context, or what the cache holds."""
        slots = self._pool.num_blocks * self._block_tokens
        return min(self._target.arch.max_position, slots - self._max_reserved_slots)

    def add(self, request: GenerationRequest) -> None:
        """Queue a request; InvalidInputError if it cannot be served as asked."""
        assert request.request_id not in self._sequences, "request ids are unique"
        params = request.params
        vocab_size, context = self._target.arch.vocab_size, self._target.arch.max_position
        check_prompt(request.prompt_ids, vocab_size, context)
        max_tokens = min(params.max_new_tokens, context - len(request.prompt_ids))
        needed = len(request.prompt_ids) + max_tokens + self._max_reserved_slots
        slots = self._pool.num_blocks * self._block_tokens
        if needed > slots:
            raise InvalidInputError(
                f"a prompt of {len(request.prompt_ids)} tokens and an answer of {max_tokens} need {needed} slots of "
                f"the KV cache, which has {slots}; ask for less, or raise engine.cache_tokens"
            )
        ending_ids = frozenset(params.stop_token_ids) | (
            frozenset() if params.ignore_eos else self._tokenizer.ending_ids
        )
        table = BlockTable(self._pool, self._block_tokens)
        sequence = SequenceState(
            request=request,
            distribution=TokenDistribution(
                params,
                prompt_ids=request.prompt_ids,
                vocab_size=vocab_size,
                ending_ids=ending_ids,
                generator=generator_for(params, request.index),
                grammar=self._grammars.compile(params.json_schema) if params.json_schema is not None else None,
            ),
            ending=Ending(
                ending_ids=ending_ids,
                stop=params.stop,
                max_tokens=max_tokens,
                detokenizer=Detokenizer(self._tokenizer.decode),
            ),
            table=table,
            draft=DraftState(table) if self._has_draft and request.speculate else None,
            arrived_s=self._clock(),
            token_ids=list(request.prompt_ids),
            suffix=self._suffix.begin(len(request.prompt_ids)) if self._suffix and request.speculate else None,
        )
        self._sequences[request.request_id] = sequence
        self._scheduler.add(sequence)

    def abort(self, request_id: str) -> None:
        """Drop a request, if it is still there; nothing more is said of it."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is not None:
            self._count(sequence)
            self._scheduler.remove(sequence)

    def step(self) -> list[Event]:
        """Run one step over everything that is ready."""
        load = self._scheduler.num_decoding
        prompt_tokens = self._policy.prompt_tokens(load)
        unread = self._scheduler.unread_tokens
        beside = unread if prompt_tokens is None else min(unread, prompt_tokens)
        shape = self._policy.choose(load, beside) if load and (self._has_draft or self._suffix) else None
        plan = self._scheduler.plan(shape.reserved_slots if shape else 1, prompt_tokens)
        result = self._runner.run(plan, shape)
        events: list[Event] = []
        for sequence, block in result.blocks:
            sequence.stats.draft_s += result.draft_s if block.cycle else 0.0
            sequence.stats.verify_s += result.verify_s if block.cycle else 0.0
            events.append(self._deliver(sequence, block))
        for sequence, error in result.failed:
            events.append(Failure(sequence.request.request_id, error))
            self._drop(sequence, sound=False)
        for sequence in self._scheduler.running:
            sequence.register_blocks()
        if plan.decode and not plan.chunks and len(plan.decode) == load:
            cycles = [block.cycle for _, block in result.blocks if block.cycle is not None]
            seconds = result.draft_s + result.verify_s - result.catch_up_s
            self._policy.record(DecodedStep(load=load, shape=shape, seconds=seconds, cycles=cycles))
        return events

    def snapshot(self) -> EngineSnapshot:
        """Counters of every answer so far and gauges of this moment."""
        done = self._finished
        stats = DecodeStats()
        stats.add(done.stats)
        prompt_tokens = done.prompt_tokens
        for sequence in self._sequences.values():
            stats.add(sequence.stats)
            prompt_tokens += sequence.num_prompt
        return EngineSnapshot(
            stats=stats,
            prompt_tokens=prompt_tokens,
            reused_prompt_tokens=self._scheduler.reused_tokens,
            preemptions=self._scheduler.preemptions,
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            cache_tokens=self._pool.num_blocks * self._block_tokens,
            cache_tokens_used=self._pool.held * self._block_tokens,
        )

    def check_integrity(self) -> None:
        """Assert that blocks and requests agree; for tests."""
        self._pool.check_integrity()
        if not self._sequences:
            assert self._pool.held == 0, "no request, no held block"
        assert len(self._sequences) == len(self._scheduler.running) + len(self._scheduler.waiting)

    def _deliver(self, sequence: SequenceState, block: Block) -> Delta:
        """Take the tokens of a block up to the end of the answer."""
        params, stats, ending = sequence.request.params, sequence.stats, sequence.ending
        taken, text = ending.feed(block.token_ids)
        logprobs: tuple[TokenLogprobs, ...] | None = None
        if params.logprobs is not None:
            logprobs = tuple(token_logprobs(block, taken, params.logprobs))
            sequence.logprobs += logprobs
        stats.output_tokens += taken
        stats.total_s = self._clock() - sequence.arrived_s
        if block.cycle is None:
            stats.prefill_s = stats.total_s
        else:
            stats.count_cycle(drafted=block.drafted, accepted=block.num_accepted, kept_tokens=taken)
        answer: Answer | None = None
        if ending.finish_reason is not None:
            answer = Answer(
                text=ending.text,
                token_ids=tuple(ending.token_ids),
                finish_reason=ending.finish_reason,
                logprobs=tuple(sequence.logprobs) if params.logprobs is not None else None,
                stats=stats,
            )
            self._drop(sequence)
        return Delta(
            request_id=sequence.request.request_id,
            text=text,
            token_ids=block.token_ids[:taken],
            logprobs=logprobs,
            answer=answer,
        )

    def _drop(self, sequence: SequenceState, *, sound: bool = True) -> None:
        del self._sequences[sequence.request.request_id]
        self._count(sequence)
        self._scheduler.remove(sequence, sound=sound)
        assert self._sequences or self._pool.held == 0, "no request, no held block"

    def _count(self, sequence: SequenceState) -> None:
        self._finished.stats.add(sequence.stats)
        self._finished.prompt_tokens += sequence.num_prompt


def check_prompt(prompt_ids: tuple[int, ...], vocab_size: int, context: int) -> None:
    """InvalidInputError for a prompt that is empty, too long or outside the vocabulary."""
    if not prompt_ids:
        raise InvalidInputError("the prompt is empty; give at least one token")
    if len(prompt_ids) >= context:
        raise InvalidInputError(
            f"the prompt has {len(prompt_ids)} tokens; the model's context of {context} tokens leaves room "
            f"for at most {context - 1}, so that an answer fits; shorten the prompt"
        )
    if not all(0 <= token_id < vocab_size for token_id in prompt_ids):
        raise InvalidInputError(f"the prompt holds token ids outside the vocabulary; allowed: 0 to {vocab_size - 1}")


def token_logprobs(block: Block, taken: int, count: int) -> list[TokenLogprobs]:
    """Log-probabilities of the first `taken` tokens of a block, each with its `count` best alternatives."""
    log_probs_SV = block.logits_SV[:taken].float().log_softmax(dim=-1)
    entries: list[TokenLogprobs] = []
    for token_id, log_probs_V in zip(block.token_ids, log_probs_SV, strict=False):
        values, ids = log_probs_V.topk(min(count, len(log_probs_V)))
        top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
        entries.append(TokenLogprobs(token_id=token_id, logprob=float(log_probs_V[token_id]), top=top))
    return entries
