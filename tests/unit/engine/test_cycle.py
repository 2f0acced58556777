"""Steps of many sequences: chunks of prompts, drafting, verification, compaction; scripted and tiny real models."""

from __future__ import annotations

import itertools

import pytest
import torch

from builders import ScriptedProposer, ScriptedTarget, noisy_markov, tiny_draft, tiny_target
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Wish
from eagle3.engine.scheduler import Plan
from eagle3.errors import NumericalError
from engine_doubles import TREE, contents, request, rig

SCRIPT = [(11 * i + 3) % 64 for i in range(60)]
PROMPT = [1, 2, 3, 4, 5]
ANSWER = SCRIPT[len(PROMPT) - 1 :]


def right(position):
    return SCRIPT[position]


def wrong(position):
    return (SCRIPT[position] + 1) % 64


def sometimes(position):
    return wrong(position) if position % 3 == 0 else right(position)


def chain(depth):
    return Speculation(depth=depth, top_k=1, nodes=depth)


class Run:
    """Steps by hand, without an end of text: the blocks of each request, in order."""

    def __init__(self, prompts, *, guess=None, shape=None, models=None, max_new_tokens=50, **options):
        self.shape = shape
        if models is None:
            models = (ScriptedTarget(SCRIPT), None)
            options["proposer"] = None if guess is None else ScriptedProposer(guess)
        self.target = models[0]
        self.rig = rig(models, shape=shape or TREE, **options)
        self.rig.add(*(request(p, name=str(n), max_new_tokens=max_new_tokens) for n, p in enumerate(prompts)))
        self.blocks = [[] for _ in prompts]
        self.results = []

    def step(self, count=1):
        for _ in range(count):
            plan = self.rig.scheduler.plan(self.shape.reserved_slots if self.shape else 1)
            result = self.rig.runner.run(plan, self.shape)
            assert not result.failed
            for sequence, block in result.blocks:
                self.blocks[int(sequence.request.request_id)].append(block)
            self.results.append(result)
        return self

    def tokens(self, which=0):
        return [token_id for block in self.blocks[which] for token_id in block.token_ids]


def cycles(guess, count=3, depth=4, **options):
    """A step that reads the prompt, then cycles."""
    run = Run([PROMPT], guess=guess, shape=chain(depth), **options).step(1 + count)
    return run, run.blocks[0]


def test_accepts_all():
    """A draft that is always right emits its depth and the bonus token in every cycle."""
    run, blocks = cycles(right)
    assert [len(block.token_ids) for block in blocks] == [1, 5, 5, 5]
    assert [block.num_accepted for block in blocks] == [0, 4, 4, 4]
    assert [block.drafted for block in blocks] == [0, 4, 4, 4]
    assert run.tokens() == ANSWER[:16]


def test_accepts_none():
    """A draft that is always wrong costs nothing but its time: one token a cycle, the same text."""
    run, blocks = cycles(wrong, 6)
    assert [len(block.token_ids) for block in blocks] == [1] * 7
    assert [block.drafted for block in blocks] == [0] + [4] * 6
    assert run.tokens() == ANSWER[:7]


def test_accepts_up_to_the_first_mistake():
    """What is right after a mistake is not accepted: it was drafted from another text."""
    run, blocks = cycles(sometimes, 4)
    # Drafted from position 5: right at 5, wrong at 6. Then from 7: right, right, wrong at 9; and so on.
    assert [len(block.token_ids) for block in blocks] == [1, 2, 3, 3, 3]
    assert run.tokens() == ANSWER[:12]


@pytest.mark.parametrize("guess", [right, wrong, sometimes])
@pytest.mark.parametrize("step_tokens", [1, 2, 3, 4, 5, 64])
def test_draft_observes_each_feature_with_the_token_after_it(guess, step_tokens):
    """R11: feature i is told once, in order, with token i + 1, at chunk ends and after every cycle too."""
    run = Run([PROMPT], guess=guess, shape=chain(4), step_tokens=step_tokens).step(5 + 3)
    text = [*PROMPT, *run.tokens()]
    sequence = run.rig.sequence("0")
    assert sequence.token_ids == text
    run.rig.proposer.observe([sequence.draft])  # the last cycle's pairs wait for the next one
    assert run.rig.proposer.observed_by(sequence.draft) == [(float(i), text[i + 1]) for i in range(len(text) - 1)]
    # The target's cache holds every token but the last.
    assert sequence.target_length == len(text) - 1
    run.rig.engine.check_integrity()


@pytest.mark.parametrize("step_tokens", [1, 2, 3, 64])
def test_prompt_is_read_once_in_chunks(step_tokens):
    """The target sees every prompt token once, no chunk longer than asked for; the last one gives a token."""
    steps = -(-len(PROMPT) // step_tokens)
    run = Run([PROMPT], guess=right, shape=chain(4), step_tokens=step_tokens).step(steps)
    assert list(itertools.chain(*run.target.forwards)) == PROMPT
    assert max(map(len, run.target.forwards)) <= step_tokens
    assert [len(result.blocks) for result in run.results] == [0] * (steps - 1) + [1]
    assert run.tokens() == ANSWER[:1]


def test_everything_goes_through_the_target_in_one_pass():
    """A step of two trees and a chunk is one forward pass over all their rows, the trees first."""
    run = Run([PROMPT, PROMPT[:2]], guess=right, shape=chain(3)).step(1)
    run.rig.add(request([7, 8, 9], name="2", max_new_tokens=20))
    run.blocks.append([])
    before = len(run.target.forwards)
    run.step(1)
    (rows,) = run.target.forwards[before:]
    assert rows == [*SCRIPT[4:8], *SCRIPT[1:5], 7, 8, 9]
    assert [len(blocks) for blocks in run.blocks] == [2, 2, 1]
    assert [run.tokens(which) for which in range(3)] == [SCRIPT[4:9], SCRIPT[1:6], SCRIPT[2:3]]


def test_ragged_sequences_do_not_disturb_each_other():
    """R18: sequences of different lengths, some right and some wrong, each get their own tokens."""
    prompts = [[1] * size for size in (1, 9, 3, 20, 2)]
    run = Run(prompts, guess=sometimes, shape=chain(4), max_new_tokens=30).step(6)
    for which, prompt in enumerate(prompts):
        tokens = run.tokens(which)
        assert len(tokens) > 6
        assert tokens == SCRIPT[len(prompt) - 1 :][: len(tokens)]


@pytest.mark.parametrize("max_tokens", [2, 3, 4, 6, 7])
def test_cycle_never_emits_more_than_asked(max_tokens):
    """Nothing is drafted that could not be emitted: one token left means a bare root."""
    engine = rig((ScriptedTarget(SCRIPT), None), proposer=ScriptedProposer(right), shape=chain(4))
    engine.add(request(PROMPT, name="0", max_new_tokens=max_tokens)).step(2)
    assert len(engine.token_ids["0"]) == min(max_tokens, 6)
    stats = engine.answers["0"].stats if "0" in engine.answers else engine.sequence("0").stats
    assert stats.drafted == min(max_tokens - 2, 4)


@pytest.mark.parametrize("guess", [None, right])
def test_plain_decoding_is_a_cycle_of_a_bare_root(guess):
    """Without a draft, or with one that is not asked, every cycle verifies one node and emits one token."""
    run = Run([PROMPT], guess=guess, shape=None).step(5)
    assert run.tokens() == ANSWER[:5]
    assert [block.drafted for block in run.blocks[0]] == [0] * 5
    assert [block.cycle is None for block in run.blocks[0]] == [True] + [False] * 4


def test_each_token_comes_with_the_logits_it_was_chosen_from():
    """Row i of a block's logits is the target's at the node before token i."""
    for block in cycles(right)[1]:
        assert block.logits_SV.shape == (len(block.token_ids), 64)
        assert block.logits_SV.argmax(-1).tolist() == list(block.token_ids)


def test_seconds_are_split_between_draft_and_target():
    """With a clock that ticks once a reading, drafting and verification are counted apart."""
    ticks = itertools.count()
    run = Run([PROMPT], guess=right, shape=chain(4), clock=lambda: float(next(ticks))).step(2)
    assert [(result.draft_s, result.verify_s) for result in run.results] == [(1.0, 1.0)] * 2


def test_an_empty_plan_is_no_pass():
    """Nothing to decode and nothing to read runs no model."""
    run = Run([], guess=right, shape=chain(4))
    result = run.rig.runner.run(Plan([], []), chain(4))
    assert (result.blocks, result.failed, run.target.forwards) == ([], [], [])


def test_waiting_features_are_observed_before_there_are_too_many():
    """Decoding plainly for long, the draft is told now and then, so that features never pile up without end."""
    script = [i % 64 for i in range(700)]
    run = Run([[1, 2]], guess=right, shape=None, max_new_tokens=690, blocks=200)
    run.target.script, run.target.arch.max_position = tuple(script), 701
    waited = []
    for _ in range(600):
        run.step()
        waited.append(run.rig.sequence("0").draft.pending_rows)
    assert max(waited) == 256
    assert run.rig.proposer.observed_by(run.rig.sequence("0").draft)[-1] == (511.0, script[511])


ROUND = [place % 5 for place in range(700)]


class Repeating(Run):
    """A text that goes round every five tokens, a prompt of twelve of it, and both drafters."""

    def __init__(self, *, depth=2, nodes=8, guess=None, max_new_tokens=50, **options):
        self.wishes = []
        run = self

        class Recording(ScriptedProposer):
            def propose(self, wishes):
                run.wishes += wishes
                return super().propose(wishes)

        super().__init__(
            [[4, *ROUND[:11]]],
            models=(ScriptedTarget(ROUND), None),
            proposer=Recording(guess or (lambda place: ROUND[place])),
            shape=Speculation(depth=depth, top_k=1, nodes=nodes, suffix_tokens=12),
            suffix=True,
            max_new_tokens=max_new_tokens,
            **options,
        )


def test_a_long_repetition_spares_the_draft():
    """A chain that is surer than the draft could be is verified alone; the draft reads later what it missed."""
    run = Repeating().step(4)
    assert [(block.drafted, block.num_accepted) for block in run.blocks[0]] == [(0, 0), *[(8, 8)] * 3]
    assert run.tokens() == ROUND[11:39]
    assert run.wishes == []
    sequence = run.rig.sequence("0")
    run.rig.proposer.observe([sequence.draft])
    text = sequence.token_ids
    assert run.rig.proposer.observed_by(sequence.draft) == [(float(i), text[i + 1]) for i in range(len(text) - 1)]
    run.rig.engine.check_integrity()


def test_a_draft_that_is_spared_for_long_is_told_now_and_then():
    """Features do not pile up without end while repetitions do the work."""
    run = Repeating(max_new_tokens=600, blocks=200)
    waited = []
    for _ in range(60):
        run.step()
        waited.append(run.rig.sequence("0").draft.pending_rows)
    assert 256 <= max(waited) < 256 + 9
    assert run.wishes == []


def test_a_chain_that_is_not_sure_enough_joins_the_drafts_tree():
    """Below that the draft is asked as ever, and told what else is guessed: what followed the repetition."""
    run = Repeating(depth=9, nodes=9).step(2)
    (wish,) = run.wishes
    assert wish.chain.token_ids == tuple(ROUND[12:24])
    assert wish.root_id == ROUND[11]
    assert run.tokens() == ROUND[11:22]


@pytest.mark.parametrize("max_new_tokens", range(1, 14))
def test_no_chain_goes_beyond_what_may_still_be_emitted(max_new_tokens):
    """The last cycles guess one token less than may still come: the bonus token is the last."""
    run = Repeating(max_new_tokens=max_new_tokens)
    run.rig.finish()
    answer = run.rig.answers["0"]
    assert list(answer.token_ids) == ROUND[11 : 11 + max_new_tokens]
    left = [max_new_tokens - 1 - 9 * cycle for cycle in range(2)]
    assert answer.stats.drafted == sum(min(8, tokens - 1) for tokens in left if tokens > 0)


@pytest.mark.parametrize("step_tokens", [1, 4, 7, 16])
def test_chunks_change_nothing(step_tokens):
    """R11: with chunks of any size the draft's and the target's keys and values, and the text, are those of one chunk.

    So they are although other prompts are read between the chunks.
    """
    target = tiny_target(seed=3)
    models = (target, tiny_draft(target))
    shape = Speculation(depth=3, top_k=2, nodes=6)
    generator = torch.Generator().manual_seed(2)
    prompt, other = (torch.randint(0, 64, (size,), generator=generator).tolist() for size in (37, 29))

    def answer(step_tokens, prompts):
        run = Run(prompts, models=models, shape=shape, step_tokens=step_tokens)
        while not run.blocks[0]:
            run.step()
        sequence = run.rig.sequence("0")
        state = [
            tensor
            for cache in (run.rig.proposer.cache, run.rig.cache)
            for tensor in contents(cache, sequence.table.slots(0, len(prompt)))
        ]
        assert sequence.draft.length == sequence.target_length == len(prompt)
        run.step(5)
        return run.tokens()[:6], state

    token_ids, state = answer(step_tokens, [prompt, other])
    expected_ids, expected_state = answer(512, [prompt])
    assert token_ids == expected_ids
    for got, expected in zip(state, expected_state, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("prompts", [[PROMPT], [PROMPT, [9, 9], [3] * 11, [60, 2, 8, 1]]])
def test_caches_hold_what_a_fresh_read_of_the_text_would(prompts):
    """After cycles that accepted scattered nodes, alone or beside others, both caches equal those of a fresh read."""
    models = noisy_markov()
    run = Run(prompts, models=models, shape=TREE).step(9)
    accepted = [block.num_accepted for block in itertools.chain(*run.blocks)]
    assert 8 * len(prompts) < sum(accepted) < 32 * len(prompts)
    for which, prompt in enumerate(prompts):
        text = [*prompt, *run.tokens(which)]
        sequence = run.rig.sequence(str(which))
        run.rig.proposer.observe([sequence.draft])
        again = Run([text[:-1]], models=models, shape=TREE).step(1)
        assert again.tokens() == text[-1:]
        fresh = again.rig.sequence("0")
        assert sequence.draft.length == sequence.target_length == fresh.draft.length == len(text) - 1
        for cache, fresh_cache in (
            (run.rig.cache, again.rig.cache),
            (run.rig.proposer.cache, again.rig.proposer.cache),
        ):
            for left, right_ in zip(
                contents(cache, sequence.table.slots(0, len(text) - 1)),
                contents(fresh_cache, fresh.table.slots(0, len(text) - 1)),
                strict=True,
            ):
                torch.testing.assert_close(left, right_, atol=1e-4, rtol=1e-4)
        for one in (sequence, fresh):
            one.table.grow(len(text) + TREE.reserved_slots)
        (tree,) = run.rig.proposer.propose([Wish(sequence.draft, text[-1], TREE)])
        (expected,) = again.rig.proposer.propose([Wish(fresh.draft, text[-1], TREE)])
        assert (tree.token_ids, tree.parents) == (expected.token_ids, expected.parents)


def test_a_ragged_batch_writes_its_own_slots_only():
    """R19: steps of five sequences write slots of these five; slots of nobody and committed ones stay as they were."""
    models = noisy_markov()
    prompts = [[token] * size for token, size in enumerate((3, 8, 1, 13, 6))]
    run = Run(prompts, models=models, shape=TREE, blocks=60)
    caches = (run.rig.cache, run.rig.proposer.cache)
    for cache in caches:
        cache.keys_LGCD.fill_(-77.0)
        cache.values_LGCD.fill_(-77.0)
    for _ in range(6):
        before = [[store.clone() for store in (cache.keys_LGCD, cache.values_LGCD)] for cache in caches]
        lengths = {s: (s.target_length, s.draft.length) for s in run.rig.scheduler.running}
        run.step()
        running = run.rig.scheduler.running
        assert len(running) == 5
        for which, cache in enumerate(caches):
            writable = set()
            for sequence in running:
                begin = lengths.get(sequence, (0, 0))[which]
                # The draft may be behind its target; both write up to what the target has reserved.
                end = min(sequence.table.slots_held, lengths.get(sequence, (0, 0))[0] + max(TREE.reserved_slots, 13))
                writable |= set(sequence.table.slots(begin, end))
            others = torch.tensor([slot for slot in range(240) if slot not in writable])
            for store, old in zip((cache.keys_LGCD, cache.values_LGCD), before[which], strict=True):
                assert torch.equal(store[:, :, others], old[:, :, others])
    held = {slot for s in run.rig.scheduler.running for slot in s.table.slots(0, s.table.slots_held)}
    nobody = torch.tensor([slot for slot in range(240) if slot not in held])
    assert len(nobody) > 0
    for cache in caches:
        assert bool((cache.keys_LGCD[:, :, nobody] == -77.0).all())
        assert bool((cache.values_LGCD[:, :, nobody] == -77.0).all())


def test_measuring_gives_seconds():
    """Passes of any size that the cache has room for can be timed, with and without a draft, on an idle engine."""
    for models in (noisy_markov(), (tiny_target(), None)):
        runner = rig(models, blocks=20).runner
        assert runner.num_slots == 80
        for rows in (1, 7, 80):
            assert runner.verify_seconds(rows) > 0
            assert (runner.draft_seconds(rows) > 0) == (models[1] is not None)


def test_a_sequence_that_cannot_go_on_is_named():
    """NaN in the target's logits of one sequence is that sequence's failure, whether it reads or decodes."""

    class Breaking(ScriptedTarget):
        def logits(self, hidden):
            out = super().logits(hidden)
            out[hidden[..., 0] == 13] = float("nan")
            return out

    engine = rig((Breaking(SCRIPT), None), proposer=ScriptedProposer(right), shape=chain(4))
    engine.add(
        request(PROMPT, name="meets it while decoding", max_new_tokens=40),
        request([1] * 14, name="meets it while reading", max_new_tokens=8),
        request([1] * 15, name="is past it", max_new_tokens=8),
    ).finish()
    assert set(engine.errors) == {"meets it while decoding", "meets it while reading"}
    assert all(isinstance(error, NumericalError) for error in engine.errors.values())
    # Blocks up to the one that met it were given out.
    assert engine.token_ids["meets it while decoding"] == ANSWER[:6]
    assert list(engine.answers["is past it"].token_ids) == SCRIPT[14:22]
