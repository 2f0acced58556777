"""The batched engine on tiny real models: every answer is the one that its request gets alone."""

from __future__ import annotations

import functools

import pytest
import torch

from builders import noisy_markov, tiny_draft, tiny_target
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import DraftState, Proposer, Wish
from eagle3.engine.policy import FixedPolicy
from eagle3.errors import InvalidInputError, NumericalError
from engine_doubles import TREE, RandomPolicy, alone, contents, request, rig

CHAIN = Speculation(depth=4, top_k=1, nodes=4)
SHAPES = [None, TREE, CHAIN, Speculation(depth=2, top_k=4, nodes=6), Speculation(depth=1, top_k=1, nodes=1)]


@functools.cache
def models(which="often right"):
    if which == "often right":
        return noisy_markov(2)
    target = tiny_target(seed=5)
    return target, tiny_draft(target)


def mixed(seed=0):
    """Eight requests of every kind: lengths, greedy and seeded, penalties, with and without speculation."""
    generator = torch.Generator().manual_seed(seed)

    def prompt(size):
        return torch.randint(0, 64, (size,), generator=generator).tolist()

    return [
        request(prompt(3), max_new_tokens=20),
        request(prompt(17), max_new_tokens=9, temperature=0.8, seed=1),
        request(prompt(1), max_new_tokens=25, speculate=False),
        request(prompt(8), max_new_tokens=14, temperature=1.0, seed=1, top_p=0.9, index=1),
        request(prompt(30), max_new_tokens=1),
        request(prompt(5), max_new_tokens=16, repetition_penalty=1.3),
        request(prompt(12), max_new_tokens=18, temperature=0.7, seed=9, speculate=False),
        request(prompt(2), max_new_tokens=22, temperature=1.2, seed=2**63 - 1, presence_penalty=0.5),
    ]


def assert_as_alone(engine, requests, pair, *, ending_ids=()):
    """Every request was answered, with the tokens that plain decoding gives it alone."""
    assert not engine.errors
    for one in requests:
        expected = alone(pair, one, ending_ids=ending_ids)
        assert engine.answers[one.request_id].token_ids == expected
    assert engine.pool.held == 0


@pytest.mark.parametrize("which", ["often right", "seldom right"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step_tokens": 16},
        {"max_running": 3},
        {"block_tokens": 1, "blocks": 480},
        {"block_tokens": 16, "blocks": 40},
    ],
    ids=str,
)
def test_a_mixed_batch_answers_as_each_alone(which, options):
    """R17, R18: eight mixed requests at once, greedy and seeded, give what each gives alone without speculation."""
    pair = models(which)
    requests = mixed()
    engine = rig(pair, **options).add(*requests)
    engine.finish()
    assert_as_alone(engine, requests, pair)


@pytest.mark.parametrize("blocks", [22, 26, 30])
def test_preemption_changes_no_answer(blocks):
    """R17: in a tiny pool sequences lose their blocks and read again; seeded texts are as in a large pool."""
    pair = models()
    requests = mixed()
    engine = rig(pair, blocks=blocks).add(*requests)
    engine.finish()
    assert engine.scheduler.preemptions > 0
    assert engine.engine.snapshot().preemptions == engine.scheduler.preemptions
    assert_as_alone(engine, requests, pair)


@pytest.mark.parametrize("prefix_reuse", [True, False])
def test_prefix_reuse_changes_no_answer(prefix_reuse):
    """Requests that begin alike, at once and again later, answer as alone, whether beginnings are reused or not."""
    pair = models()
    prompt = [(5 * i) % 64 for i in range(26)]
    requests = [
        request([*prompt[:cut], *tail], max_new_tokens=12, temperature=heat, seed=3)
        for cut, tail in ((26, [1]), (26, [1]), (26, [2]), (16, []), (17, []), (20, [9, 9]))
        for heat in (0.0, 0.9)
    ]
    engine = rig(pair, prefix_reuse=prefix_reuse)
    for one in requests[:6]:
        engine.add(one).step(2)
    engine.finish()
    engine.add(*requests[6:]).finish()
    assert_as_alone(engine, requests, pair)
    assert (engine.engine.snapshot().reused_prompt_tokens > 0) == prefix_reuse


def test_same_prefix_requests_added_together():
    """R12: two requests with the same beginning, added at once, answer as one after the other."""
    pair = models()
    prompt = [(3 * i + 1) % 64 for i in range(21)]
    requests = [request([*prompt, last], max_new_tokens=16) for last in (5, 6)]
    together = rig(pair).add(*requests)
    together.finish()
    one_by_one = rig(pair)
    for one in requests:
        one_by_one.add(one).finish()
    for one in requests:
        assert together.answers[one.request_id].token_ids == one_by_one.answers[one.request_id].token_ids
    assert one_by_one.engine.snapshot().reused_prompt_tokens == 20
    assert_as_alone(together, requests, pair)
    assert len({together.answers[one.request_id].token_ids for one in requests}) == 2


@pytest.mark.parametrize(("next_id", "covered"), [(40, 8), (41, 4)])
def test_reuse_at_the_edge_of_a_block(next_id, covered):
    """R13: the draft's block is reused with the same token after it, and not with another; the answer is right.

    What is reused is what the draft would have computed: its keys and values equal those of a fresh engine.
    """
    pair = models()
    prompt = [7, 3, 9, 60, 22, 5, 5, 31]
    first = request([*prompt, 40, 11], max_new_tokens=6)
    engine = rig(pair).add(first)
    engine.finish()
    second = request([*prompt, next_id, 12, 13], name="second", max_new_tokens=30)
    engine.add(second).step()
    assert engine.scheduler.reused_tokens == covered
    sequence = engine.sequence("second")
    fresh = rig(pair).add(request(second.prompt_ids, name="second", max_new_tokens=30)).step()
    for name in ("cache", "proposer"):
        mine, theirs = (
            contents(getattr(one, name).cache if name == "proposer" else one.cache, s.table.slots(0, 11))
            for one, s in ((engine, sequence), (fresh, fresh.sequence("second")))
        )
        for left, right in zip(mine, theirs, strict=True):
            torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)
    # Plain requests have no use for the draft's entries: they reuse the block whatever follows.
    plain = request([*prompt, 63, 1], max_new_tokens=3, speculate=False)
    before = engine.scheduler.reused_tokens
    engine.add(plain).finish()
    assert engine.scheduler.reused_tokens - before == 8
    assert_as_alone(engine, [first, second, plain], pair)


def test_chunk_size_changes_no_answer():
    """R11: prompts read 16 or 512 tokens a step give the same text, drafted nodes and accepted tokens."""
    pair = models()
    prompts = [[(7 * i + k) % 64 for i in range(size)] for k, size in enumerate((50, 33, 16, 17))]
    outcomes = []
    for step_tokens in (16, 512):
        engine = rig(pair, step_tokens=step_tokens)
        engine.add(*(request(p, name=str(k), max_new_tokens=20) for k, p in enumerate(prompts))).finish()
        outcomes.append(
            {
                name: (a.token_ids, a.stats.cycles, a.stats.drafted, a.stats.accepted_at_depth)
                for name, a in engine.answers.items()
            }
        )
    assert outcomes[0] == outcomes[1]


def test_width_changes_nothing_for_ragged_prompts():
    """R18: trees of width 4, chains and plain decoding give the same texts, three ragged prompts in a batch."""
    pair = models()
    prompts = [[1], [2, 3, 4, 5, 6], [(9 * i) % 64 for i in range(23)]]
    texts = []
    for shape in (Speculation(depth=4, top_k=4, nodes=20), CHAIN, None):
        engine = rig(pair, shape=shape or TREE, policy=FixedPolicy(shape))
        engine.add(*(request(p, name=str(k), max_new_tokens=24) for k, p in enumerate(prompts))).finish()
        texts.append({name: answer.token_ids for name, answer in engine.answers.items()})
        cycles = [answer.stats.cycles for answer in engine.answers.values()]
        assert (sum(cycles) < 3 * 20) == (shape is not None)
    assert texts[0] == texts[1] == texts[2]


def test_endings_inside_blocks_of_a_batch():
    """R14, R22: in a batch each answer ends at its own ending token inside a block, and counts stop there."""
    pair = models()
    requests = [request([k, (5 * k) % 64, 9], max_new_tokens=40, temperature=0.3, seed=k) for k in range(8)]
    endings = frozenset(range(0, 64, 6))
    engine = rig(pair, ending_ids=endings).add(*requests)
    engine.finish()
    assert_as_alone(engine, requests, pair, ending_ids=endings)
    inside = 0
    for answer in engine.answers.values():
        assert answer.finish_reason == "stop"
        assert answer.token_ids[-1] in endings
        assert not endings & set(answer.token_ids[:-1])
        stats = answer.stats
        assert stats.output_tokens == len(answer.token_ids) == 1 + stats.cycle_tokens
        inside += stats.cycle_tokens < stats.cycles + sum(stats.accepted_at_depth)
        assert stats.cycle_tokens <= stats.cycles + sum(stats.accepted_at_depth)
    assert inside > 0, "some ended at a drafted token"
    snapshot = engine.engine.snapshot()
    assert snapshot.stats.output_tokens == sum(len(answer.token_ids) for answer in engine.answers.values())
    assert snapshot.prompt_tokens == 3 * 8


@pytest.mark.parametrize("seed", range(4))
def test_switching_shapes_changes_no_answer(seed):
    """R20: whatever is drafted from step to step, or not, the texts are those of plain decoding."""
    pair = models()
    requests = mixed(seed)
    policy = RandomPolicy(SHAPES, seed)
    engine = rig(pair, policy=policy, step_tokens=16).add(*requests)
    engine.finish()
    assert len(set(policy.seen)) == len(SHAPES)
    assert_as_alone(engine, requests, pair)


@pytest.mark.parametrize("seed", range(4))
def test_the_draft_is_right_after_observing_late(seed):
    """After steps that drafted and steps that did not, the draft proposes what a fresh one told at once would."""
    pair = models()
    prompts = [[3], [4, 5, 6, 7], [(11 * i) % 64 for i in range(18)]]
    engine = rig(pair, policy=RandomPolicy([None, None, TREE, CHAIN], seed))
    engine.add(*(request(p, name=str(k), max_new_tokens=60) for k, p in enumerate(prompts))).step(9)
    states, wishes, expected = [], [], []
    for sequence in engine.scheduler.running:
        length = sequence.target_length
        taps_SF = features(pair[0], sequence.token_ids[:-1])
        fresh = Proposer(pair[1], 480)
        table = rig(pair).add(request([1] * length)).step().scheduler.running[0].table
        told = DraftState(table)
        told.add(taps_SF, sequence.token_ids[1:])
        fresh.observe([told])
        for one in (table, sequence.table):
            one.grow(length + TREE.reserved_slots)
        expected += fresh.propose([Wish(told, sequence.token_ids[-1], TREE)])
        states.append(sequence.draft)
        wishes.append(Wish(sequence.draft, sequence.token_ids[-1], TREE))
    assert len(states) == 3
    assert any(state.pending for state in states)
    engine.proposer.observe(states)
    for tree, other in zip(engine.proposer.propose(wishes), expected, strict=True):
        assert (tree.token_ids, tree.parents) == (other.token_ids, other.parents)
        assert tree.scores == pytest.approx(other.scores, abs=1e-3)


def features(target, token_ids):
    """Tap features of a text, read without any cache."""
    from eagle3.models.attention import causal_attend

    with torch.inference_mode():
        return target(torch.tensor([token_ids]), torch.arange(len(token_ids))[None], causal_attend).taps_BSF[0]


def test_plain_and_speculative_requests_share_a_batch():
    """`speculate` False is honoured for each request by itself: nothing is drafted for it."""
    pair = models()
    requests = [request([k + 1, 30, 8], max_new_tokens=20, speculate=k % 2 == 0) for k in range(6)]
    engine = rig(pair).add(*requests)
    engine.finish()
    for one in requests:
        stats = engine.answers[one.request_id].stats
        assert (stats.drafted > 0) == one.speculate
        assert (stats.tau > 1) == one.speculate
    assert_as_alone(engine, requests, pair)


def test_a_broken_sequence_fails_alone():
    """A prompt that leads to NaN fails; its neighbours finish with the tokens that they have alone."""
    target = tiny_target(seed=5)
    draft = tiny_draft(target, target_ids=list(range(63)))
    target.embed_tokens.weight[63] = float("nan")
    pair = target, draft
    bad = [request([4, 63, 2], name="at once", max_new_tokens=8), request([63] * 40, name="later", max_new_tokens=8)]
    good = [request([k, 7, 9], max_new_tokens=16, logit_bias={63: -100.0}) for k in range(4)]
    engine = rig(pair, step_tokens=16).add(good[0], bad[0], *good[1:], bad[1])
    engine.finish()
    assert set(engine.errors) == {"at once", "later"}
    assert all(isinstance(error, NumericalError) for error in engine.errors.values())
    assert "target produced NaN" in str(engine.errors["at once"])
    engine.errors.clear()
    assert_as_alone(engine, good, pair)


@pytest.mark.parametrize("speculate", [True, False])
def test_blocks_of_a_failed_sequence_are_of_no_use_to_others(speculate):
    """Keys and values behind a fault are not found by the next request: it is read anew, and answered."""
    target = tiny_target(seed=5)
    pair = target, tiny_draft(target)
    prompt = [(5 * i) % 64 for i in range(39)]
    engine = rig(pair, step_tokens=16)
    weight = target.layers[2].input_layernorm.weight
    healthy = weight.clone()
    weight[3] = float("nan")
    engine.add(request(prompt, name="broken", max_new_tokens=4, speculate=speculate)).finish()
    assert set(engine.errors) == {"broken"}
    weight.copy_(healthy)
    one = request(prompt, max_new_tokens=8, speculate=speculate)
    engine.errors.clear()
    engine.add(one).finish()
    assert_as_alone(engine, [one], pair)


def test_a_request_larger_than_the_pool_is_refused():
    """A request that could never be held is refused at once, with what it needs, what there is and what to do."""
    engine = rig(models(), blocks=10, block_tokens=4)
    with pytest.raises(InvalidInputError, match=r"prompt of 20 tokens.*answer of 30.*61 slots.*has 40.*cache_tokens"):
        engine.add(request([1] * 20, max_new_tokens=30))
    assert not engine.engine.has_work
    assert engine.engine.context_tokens == 20 + 9  # what it says of itself is what it takes
    fits = request([1] * 20, max_new_tokens=9)
    engine.add(fits).finish()
    assert len(engine.answers[fits.request_id].token_ids) == 9


def test_no_more_than_the_context_is_planned_for():
    """An answer that the context would cut is counted as what it can become, not as what was asked for."""
    engine = rig(models(), blocks=36, block_tokens=4)
    one = request([1] * 120, max_new_tokens=100_000)
    engine.add(one).finish()
    assert len(engine.answers[one.request_id].token_ids) == 8


def test_snapshot_counts_what_is_going_on():
    """Gauges are of this moment; counters hold finished, failed, aborted and unfinished answers."""
    engine = rig(models(), max_running=2)
    assert engine.engine.snapshot().cache_tokens == 480
    engine.add(*(request([k, 2], name=str(k), max_new_tokens=20) for k in range(3))).step(2)
    snapshot = engine.engine.snapshot()
    assert (snapshot.running, snapshot.waiting) == (2, 1)
    assert snapshot.cache_tokens_used == engine.pool.held * 4 > 0
    assert snapshot.prompt_tokens == 6
    tokens = snapshot.stats.output_tokens
    assert tokens == sum(map(len, engine.token_ids.values())) > 2
    engine.engine.abort("0")
    assert engine.engine.snapshot().stats.output_tokens == tokens
    engine.finish()
    snapshot = engine.engine.snapshot()
    assert (snapshot.running, snapshot.waiting, snapshot.cache_tokens_used) == (0, 0, 0)
    assert snapshot.stats.output_tokens == sum(map(len, engine.token_ids.values()))
    assert snapshot.prompt_tokens == 6


def test_reading_again_after_preemption_is_not_prefix_reuse():
    """`reused_prompt_tokens` counts tokens of prompts, each once, however often a sequence gave way."""
    engine = rig(models(), blocks=24)
    engine.add(request([1] * 9, name="small", max_new_tokens=40), request([2] * 40, name="large", max_new_tokens=30))
    while not engine.scheduler.preemptions and engine.steps < 60:
        engine.step()
    assert [s.request.request_id for s in engine.scheduler.waiting] == ["large"]
    engine.engine.abort("small")
    engine.finish()
    assert len(engine.answers["large"].token_ids) == 30
    assert engine.engine.snapshot().reused_prompt_tokens == 0
