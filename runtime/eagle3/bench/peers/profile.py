"""Takes our decoding cycles apart: seconds in each part of a cycle, beside the floors of its matrix products.

Wraps the functions of the engine from outside and lets it answer prompts as in a race. Steps that read a prompt do
not count. What no wrapped function takes is the engine's own Python between them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import torch

from eagle3.bench.peers.floors import Floors, measure_floors
from eagle3.bench.peers.part_timer import PartTimer
from eagle3.bench.peers.peer import Peer
from eagle3.bench.peers.turn import Task
from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.batch import BatchEngine
from eagle3.engine.cycle import StepRunner
from eagle3.engine.llm import LLM
from eagle3.models.packed import Int8Linear, PackedLinear
from eagle3.sampling.params import sampling_params

TARGET, DRAFT = "target forward", "draft passes"
TREE, CHOOSE, CACHE, BETWEEN = "tree building", "verify and choose", "cache work", "Python between"
PRODUCTS = "matrix products"

_PROMPTS, _TOKENS = 2, 48

# Part: where its functions are looked up. A class of a model runs in one of two ways, whichever the engine picked.
_PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (TARGET, "eagle3.models.target:Target", ("forward", "logits")),
    (TARGET, "eagle3.models.row_target:RowTarget", ("__call__", "logits")),
    (DRAFT, "eagle3.models.draft:Draft", ("forward", "logits", "fuse")),
    (DRAFT, "eagle3.models.row_draft:RowDraft", ("__call__", "logits", "fuse")),
    (TREE, "eagle3.draft.proposer:Proposer", ("_add_level",)),
    (TREE, "eagle3.tree.growth:TreeGrowth", ("add_level", "tree")),
    (TREE, "eagle3.draft.suffix_drafter:SuffixState", ("propose",)),
    (TREE, "eagle3.engine.cycle", ("ancestor_mask",)),
    (CHOOSE, "eagle3.engine.cycle:_Chooser", ("__init__",)),
    (CHOOSE, "eagle3.engine.cycle:StepRunner", ("_accept",)),
    (CACHE, "eagle3.cache.paged_cache:PagedCache", ("attend",)),
    (CACHE, "eagle3.cache.paged_cache:RaggedAttend", ("_prepare",)),
    (CACHE, "eagle3.cache.paged_cache", ("row_slots",)),
    (CACHE, "eagle3.engine.cycle:StepRunner", ("_compact",)),
    (CACHE, "eagle3.engine.sequence:SequenceState", ("register_blocks",)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a cycle."""

    name: str
    seconds: float
    """Of an average cycle."""
    calls: float
    floor_s: float | None
    """Least time that its matrix products could take on this machine; None for parts that are no products."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """An average cycle of one system."""

    system: str
    cycles: int
    tokens: int
    """That the cycles gave."""
    rows: float
    """Of the target's pass: the nodes of the tree and its root."""
    cycle_s: float
    parts: tuple[Part, ...]
    floors: Floors

    @property
    def overhead(self) -> float:
        """Share of a cycle that is neither a pass of a model nor the choice of tokens: tree, cache, Python."""
        named = sum(part.seconds for part in self.parts if part.name in (TREE, CACHE, BETWEEN))
        return named / self.cycle_s if self.cycle_s else 0.0


class CycleTimer:
    """The wrapped functions of an engine, and what they took in cycles."""

    def __init__(self, floors: Floors, clock: Callable[[], float] = time.perf_counter) -> None:
        self.timer = PartTimer(clock)
        self.cycles = 0
        self.cycle_s = 0.0
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self.floor_s: dict[str, float] = defaultdict(float)
        self._step_floor_s: dict[str, float] = defaultdict(float)
        self._floors = floors
        self._clock = clock
        self._reads_prompt = False

    @contextmanager
    def wrapped(self) -> Iterator[CycleTimer]:
        """Time everything until the block ends."""
        try:
            for part, place, attributes in _PARTS:
                for attribute in attributes:
                    self.timer.wrap(_found(place), attribute, part)
            for owner, attribute in ((PackedLinear, "rows"), (PackedLinear, "forward"), (Int8Linear, "rows")):
                self.timer.wrap(owner, attribute, PRODUCTS, inner=True, seen=self._product)
            self.timer.wrap(StepRunner, "run", BETWEEN, seen=self._run)
            self.timer.wrap(BatchEngine, "step", BETWEEN)
            with self._steps():
                yield self
        finally:
            self.timer.close()

    @contextmanager
    def _steps(self) -> Iterator[None]:
        timed = BatchEngine.step

        def step(engine: BatchEngine) -> Any:
            self.timer.clear()
            self._step_floor_s.clear()
            self._reads_prompt = True
            begin_s = self._clock()
            events = timed(engine)
            if not self._reads_prompt:
                self._keep(self._clock() - begin_s)
            return events

        setattr(BatchEngine, "step", step)  # noqa: B010, mypy refuses to see a method assigned
        try:
            yield
        finally:
            setattr(BatchEngine, "step", timed)  # noqa: B010

    def clear(self) -> None:
        """Forget the cycles so far."""
        self.cycles, self.cycle_s = 0, 0.0
        for kept in (self.seconds, self.calls, self.floor_s):
            kept.clear()

    def _run(self, part: str, args: tuple[Any, ...]) -> None:
        plan = args[1]
        self._reads_prompt = bool(plan.chunks) or not plan.decode

    def _product(self, part: str, args: tuple[Any, ...]) -> None:
        linear, x = args[0], args[1]
        weights = linear.in_features * linear.out_features
        int8 = isinstance(linear, Int8Linear)
        rows = x.numel() // linear.in_features
        size = 1 if int8 else linear.dtype.itemsize
        self._step_floor_s[part] += self._floors.seconds(
            weight_bytes=weights * size, flop=2 * rows * weights, int8=int8
        )

    def _keep(self, elapsed_s: float) -> None:
        self.cycles += 1
        self.cycle_s += elapsed_s
        for name, seconds in self.timer.seconds.items():
            self.seconds[name] += seconds
            self.calls[name] += self.timer.calls[name]
        for name, seconds in self._step_floor_s.items():
            self.floor_s[name] += seconds


def profile_systems(peers: Sequence[Peer], task: Task) -> list[Profile]:
    """Profiles of those of the systems that are ours, on the first prompts of a task; a few dozen cycles are enough."""
    task = replace(task, prompts=task.prompts[:_PROMPTS], max_tokens=min(task.max_tokens, _TOKENS))
    floors: Floors | None = None
    profiles = []
    for peer in peers:
        if peer.file == "own_system":
            config = DeploymentConfig.model_validate_json(peer.settings["config"])
            if config.threads is not None:
                torch.set_num_threads(config.threads)
            floors = floors or measure_floors()
            profiles.append(profile_llm(partial(LLM.from_config, config), peer.name, task, floors))
    return profiles


def profile_llm(make: Callable[[], LLM], system: str, task: Task, floors: Floors) -> Profile:
    """An average cycle over the answers to the prompts of a task, after its warm-up.

    The engine is made here, since its parts keep references to functions that are wrapped.
    """
    params = sampling_params(max_new_tokens=task.max_tokens, temperature=task.temperature, seed=task.seed)
    drafted = tokens = 0
    with CycleTimer(floors).wrapped() as measured:
        llm = make()
        *_, _ = llm.stream(task.warm_up, params)
        measured.clear()
        for prompt_ids in task.prompts:
            *_, last = llm.stream(prompt_ids, params)
            assert last.answer is not None, "a stream ends with its answer"
            drafted += last.answer.stats.drafted
            tokens += last.answer.stats.cycle_tokens
    cycles = max(1, measured.cycles)
    return Profile(
        system=system,
        cycles=measured.cycles,
        tokens=tokens,
        rows=1 + drafted / cycles,
        cycle_s=measured.cycle_s / cycles,
        parts=tuple(_parts(measured.seconds, measured.calls, measured.floor_s, cycles)),
        floors=floors,
    )


def _parts(
    seconds: Mapping[str, float], calls: Mapping[str, int], floor_s: Mapping[str, float], cycles: int
) -> Iterator[Part]:
    names = [f"{TARGET} / {PRODUCTS}", TARGET, f"{DRAFT} / {PRODUCTS}", DRAFT, TREE, CHOOSE, CACHE, BETWEEN]
    for name in names + sorted(set(seconds) - set(names)):
        if name in seconds:
            yield Part(
                name=name if name not in (TARGET, DRAFT) else f"{name} / everything else",
                seconds=seconds[name] / cycles,
                calls=calls[name] / cycles,
                floor_s=floor_s[name] / cycles if name in floor_s else None,
            )


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found
