"""Replaying shapes over recorded guesses: the cycles are those of real decoding, counted and priced."""

from __future__ import annotations

import functools

import pytest

from builders import ByteTokenizer, noisy_markov
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.engine.llm import LLM
from eagle3.engine.loading import Models
from eagle3.engine.stats import DecodeStats
from eagle3.models.packed import pack_linears
from eagle3.ops.tune.recording import AnsweredPrompt, Recorder
from eagle3.ops.tune.replay import Replay
from eagle3.sampling.params import sampling_params

PROMPTS = ([3, 10, 17], [40, 2], [8, 15, 22, 29, 36], [5])
MOST = 24
WIDE = Speculation(depth=6, top_k=3)
ROUND = 8  # tokens of the target then go round, so that there is something to repeat


@functools.cache
def models(step=7, noise=0.03):
    target, draft = noisy_markov(1, step=step, noise=noise)
    pack_linears(draft)
    pack_linears(target)
    tokenizer = ByteTokenizer()
    return Models(target=target, tokenizer=tokenizer, draft=draft)


def decoded(models, shape):
    """What really decoding every prompt with one shape takes, each in a fresh engine, and the answers."""
    draft = models.draft if shape is not None and "eagle3" in shape.drafters else None
    settings = EngineSettings(cache_tokens=4096, prefix_reuse=False)
    stats, answers = DecodeStats(), []
    for prompt_ids in PROMPTS:
        llm = LLM(models.target, models.tokenizer, draft, shape or Speculation(), settings)
        *_, piece = llm.stream(prompt_ids, sampling_params(max_new_tokens=MOST))
        stats.add(piece.answer.stats)
        answers.append(piece.answer.token_ids)
    return stats, answers


@functools.cache
def recorded(step=7, noise=0.03, base=WIDE):
    _, answers = decoded(models(step, noise), None)
    return [
        Recorder(models(step, noise), base).record(
            AnsweredPrompt(prompt_ids=tuple(prompt), answer_ids=answer, max_tokens=MOST)
        )
        for prompt, answer in zip(PROMPTS, answers, strict=True)
    ]


def replay_of(texts, verify=lambda rows: 1.0, draft=lambda rows: 0.0):
    return Replay(texts, verify=verify, draft=draft)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 9, 16, 40])
@pytest.mark.parametrize("depth", [1, 2, 4, 6])
@pytest.mark.parametrize("probability", [0.0, 0.02, 0.3])
def test_a_smaller_tree_takes_the_cycles_that_decoding_takes(nodes, depth, probability):
    """One recording tells tau, cycles and nodes of every shape with its top-k, exactly as if decoded with."""
    shape = WIDE.model_copy(update={"nodes": nodes, "depth": depth, "min_probability": probability})
    stats, _ = decoded(models(), shape)
    found = replay_of(recorded()).run(shape, ("eagle3",))
    assert (found.cycles, found.tokens, found.nodes) == (stats.cycles, stats.cycle_tokens, stats.drafted)
    assert found.tau == stats.tau


@pytest.mark.parametrize("drafters", [("suffix",), ("eagle3", "suffix")])
@pytest.mark.parametrize(("nodes", "depth"), [(2, 2), (6, 3), (12, 6), (30, 4)])
@pytest.mark.parametrize("probability", [0.0, 0.4])
def test_repetitions_are_replayed_as_well(drafters, nodes, depth, probability):
    """With a chain alone, or grafted onto the draft's tree, the cycles are those of decoding, too."""
    update = {"nodes": nodes, "depth": depth, "min_probability": probability, "drafters": drafters}
    shape = WIDE.model_copy(update=update)
    stats, _ = decoded(models(ROUND, 0.01), shape)
    assert stats.drafted > 0
    found = replay_of(recorded(ROUND, 0.01)).run(shape, drafters)
    assert (found.cycles, found.tokens, found.nodes) == (stats.cycles, stats.cycle_tokens, stats.drafted)


def test_the_recording_is_not_trivial():
    """Of the texts here some cycles accept nothing, some something, and shapes differ; repetitions are found."""
    run = replay_of(recorded()).run
    taus = [run(WIDE.model_copy(update={"nodes": nodes}), ("eagle3",)).tau for nodes in (1, 4, 16)]
    assert 1.0 < taus[0] < taus[1] <= taus[2] < WIDE.depth + 1
    assert any(place.joined for text in recorded(ROUND, 0.01) for place in text.places)


def test_nobody_guesses():
    """Without drafters every token is a cycle of its own, and costs one row."""
    found = replay_of(recorded(), verify=lambda rows: 10.0 * rows).run(WIDE, ())
    assert (found.tau, found.nodes, found.draft_passes) == (1.0, 0, 0)
    assert found.seconds == 10.0 * found.tokens


def test_a_threshold_near_one_costs_no_pass_of_the_draft():
    """Nothing is verified but roots; all that is left of the draft is reading the accepted tokens."""
    shape = WIDE.model_copy(update={"min_probability": 0.999999})
    found = replay_of(recorded(), draft=lambda rows: 100.0 + rows).run(shape, ("eagle3",))
    assert (found.draft_passes, found.nodes) == (0, 0)
    read = sum(len(text.places) - 2 for text in recorded())  # the last token's cycle drafts nothing, nor is it read
    assert found.seconds == found.cycles + 101.0 * read


def test_seconds_are_what_the_rows_cost():
    """A chain: one row and the nodes of each cycle, a row of the draft for each level below the first."""
    base = Speculation(depth=3, top_k=1, nodes=3)
    texts = recorded(base=base)
    free = replay_of(texts, verify=lambda rows: 0.0)
    found = free.run(base, ("eagle3",))
    assert found.seconds == 0.0
    by_rows = replay_of(texts, verify=lambda rows: float(rows)).run(base, ("eagle3",))
    assert by_rows.seconds == found.cycles + found.nodes
    drafted = replay_of(texts, verify=lambda rows: 0.0, draft=lambda rows: 1.0 if rows == 1 else 0.0)
    short = drafted.run(base, ("eagle3",))
    assert short.seconds >= short.draft_passes > 0


def test_a_narrower_tree_is_close():
    """A smaller top-k than the recorded one: what is missing is rare, so tau is within a few per cent."""
    shape = WIDE.model_copy(update={"top_k": 2, "nodes": 6, "depth": 4})
    stats, _ = decoded(models(), shape)
    assert replay_of(recorded()).run(shape, ("eagle3",)).tau == pytest.approx(stats.tau, rel=0.05)


def test_more_nodes_than_are_kept_are_refused():
    """Shapes beyond the recording are a programmer's fault."""
    with pytest.raises(AssertionError, match="as many nodes"):
        replay_of(recorded()).run(WIDE.model_copy(update={"nodes": 65}), ("eagle3",))
