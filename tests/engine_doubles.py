"""A batched engine with its parts in reach, and policies that need no clock; for tests of the engine."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from builders import ByteTokenizer
from eagle3.cache.block_pool import BlockPool
from eagle3.cache.paged_cache import PagedCache
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer
from eagle3.draft.suffix_drafter import SuffixDrafter
from eagle3.engine.answer import Answer
from eagle3.engine.batch import BatchEngine, Failure
from eagle3.engine.cycle import StepRunner
from eagle3.engine.interface import Delta, GenerationRequest
from eagle3.engine.policy import DecodedStep, FixedPolicy, SpeculationPolicy
from eagle3.engine.scheduler import Scheduler
from eagle3.engine.sequence import SequenceState
from eagle3.errors import Eagle3Error
from eagle3.sampling.params import sampling_params

TREE = Speculation(depth=4, top_k=3, nodes=10)
# More steps than any test needs: an engine that stands still is an error, not a test that hangs.
MOST_STEPS = 5000


class RandomPolicy:
    """Another shape, or none, in each step; `seen` keeps what was chosen."""

    def __init__(self, shapes: Sequence[Speculation | None], seed: int = 0) -> None:
        self._shapes = list(shapes)
        self._random = random.Random(seed)
        self.seen: list[Speculation | None] = []

    def choose(self, load: int, beside: int = 0) -> Speculation | None:
        """Whatever comes."""
        del beside
        assert load > 0, "asked only when something decodes"
        self.seen.append(self._random.choice(self._shapes))
        return self.seen[-1]

    def prompt_tokens(self, load: int) -> int | None:
        """No opinion."""
        del load

    def record(self, step: DecodedStep) -> None:
        """Check what is told: the shape that was chosen, and a cycle for each sequence."""
        assert step.shape == self.seen[-1]
        assert step.seconds >= 0
        assert len(step.cycles) <= step.load


@dataclass
class Rig:
    """One engine and its parts."""

    engine: BatchEngine
    runner: StepRunner
    pool: BlockPool
    scheduler: Scheduler
    cache: PagedCache
    proposer: Any
    block_tokens: int
    answers: dict[str, Answer] = field(default_factory=dict)
    errors: dict[str, Eagle3Error] = field(default_factory=dict)
    token_ids: dict[str, list[int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    steps: int = 0

    def add(self, *requests: GenerationRequest) -> Rig:
        """Queue requests."""
        for request in requests:
            self.engine.add(request)
            self.token_ids[request.request_id] = []
            self.texts[request.request_id] = ""
        return self

    def step(self, count: int = 1) -> Rig:
        """Run steps; every block, delta and answer is checked against the ones before."""
        for _ in range(count):
            for event in self.engine.step():
                self._take(event)
            self.engine.check_integrity()
            self.steps += 1
        return self

    def finish(self) -> dict[str, Answer]:
        """Run until nothing is left to do."""
        while self.engine.has_work:
            assert self.steps < MOST_STEPS, "the engine stands still"
            self.step()
        return self.answers

    def sequence(self, request_id: str) -> SequenceState:
        """The state of a running request."""
        return next(s for s in self.scheduler.running if s.request.request_id == request_id)

    def _take(self, event: Delta | Failure) -> None:
        request_id = event.request_id
        assert request_id not in self.answers, "nothing comes after the last delta"
        assert request_id not in self.errors, "nothing comes after a failure"
        if isinstance(event, Failure):
            self.errors[request_id] = event.error
            return
        self.token_ids[request_id] += event.token_ids
        self.texts[request_id] += event.text
        if event.answer is not None:
            self.answers[request_id] = event.answer
            assert tuple(self.token_ids[request_id]) == event.answer.token_ids
            assert self.texts[request_id] == event.answer.text
            assert event.answer.stats.output_tokens == len(event.answer.token_ids)


def rig(
    models: tuple[Any, Any],
    *,
    shape: Speculation = TREE,
    policy: SpeculationPolicy | None = None,
    blocks: int = 120,
    block_tokens: int = 4,
    step_tokens: int = 512,
    max_running: int = 8,
    prefix_reuse: bool = True,
    ending_ids: Iterable[int] = (),
    proposer: Any = None,
    suffix: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Rig:
    """An engine on a target and a draft (or None) with a cache of `blocks`; a fixed policy unless given another.

    `suffix` lets repetitions guess too, or alone where there is neither draft nor proposer.
    """
    target, draft = models
    pool = BlockPool(blocks)
    slots = blocks * block_tokens
    arch, weight = target.arch, target.norm.weight
    cache = PagedCache(
        num_slots=slots,
        num_layers=arch.num_layers,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        dtype=weight.dtype,
        device=torch.device("cpu"),
    )
    if draft is not None:
        proposer = Proposer(draft, slots)
    runner = StepRunner(target, cache, proposer, clock=clock)
    scheduler = Scheduler(pool, step_tokens=step_tokens, max_running=max_running, prefix_reuse=prefix_reuse)
    engine = BatchEngine(
        target,
        ByteTokenizer(ending_ids),
        runner,
        pool,
        scheduler,
        policy or FixedPolicy(shape if proposer is not None or suffix else None),
        block_tokens=block_tokens,
        has_draft=proposer is not None,
        max_reserved_slots=shape.reserved_slots if proposer is not None or suffix else 1,
        suffix=SuffixDrafter(shape) if suffix else None,
        clock=clock,
    )
    return Rig(engine, runner, pool, scheduler, cache, proposer, block_tokens)


_NUMBERS = itertools.count()


def request(
    prompt_ids: Sequence[int], *, name: str | None = None, index: int = 0, speculate: bool = True, **values: Any
) -> GenerationRequest:
    """A request for one answer; `values` are sampling parameters."""
    return GenerationRequest(
        request_id=name or f"request-{next(_NUMBERS)}",
        prompt_ids=tuple(prompt_ids),
        params=sampling_params(**values),
        index=index,
        speculate=speculate,
    )


def alone(models: tuple[Any, Any], one: GenerationRequest, *, ending_ids: Iterable[int] = ()) -> tuple[int, ...]:
    """Tokens of the plain answer to a request that has an engine to itself."""
    engine = rig((models[0], None), ending_ids=ending_ids)
    return engine.add(one).finish()[one.request_id].token_ids


def contents(cache: PagedCache, slots: range | list[int]) -> list[Tensor]:
    """Keys and values in these slots, copied."""
    index = torch.tensor(list(slots), dtype=torch.int64)
    return [store.index_select(2, index) for store in (cache.keys_LGCD, cache.values_LGCD)]
