"""Training-time test against the recipe written out naively, and against what serving drafts."""

from __future__ import annotations

import functools

import pytest
import torch

from builders import randomise, tiny_draft_config
from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import DraftState, Proposer, Wish
from eagle3.models.draft import Draft
from eagle3.train import ttt
from eagle3.train.batches import Batch
from eagle3.train.ttt import StepResult, accepted_lengths, training_time_test, weighted_loss
from eagle3.tree.draft_tree import DraftTree
from training_reference import ReferenceDraft, step_losses

VOCAB, DRAFT_VOCAB, WIDTH = 40, 24, 48
FLAGS = ["none", "norm_before_residual", "norm_before_fc", "fc_norm", "feedback_normed"]


@functools.cache
def drafts(flag="none"):
    """A draft and its tensors behind the naive reference."""
    changes = {} if flag == "none" else {flag: True}
    draft = randomise(Draft(tiny_draft_config(own_embedding=True, **changes)), seed=3).requires_grad_(False)
    draft.lm_head.weight.mul_(4.0)
    draft.target_ids_V = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(2))[:DRAFT_VOCAB]
    return draft, ReferenceDraft(draft.state_dict(), draft.config, draft.embedding.weight)


def batch(lengths=(13, 9), first_answers=(4, 5), seed=0, top_k=3):
    """Random rows, padded on the right; from `first_answers` on every token is an answer's."""
    g = torch.Generator().manual_seed(seed)
    rows, longest = len(lengths), max(lengths)
    columns = torch.arange(longest)
    probs = torch.rand(rows, longest, top_k, generator=g).sort(dim=-1, descending=True).values
    return Batch(
        input_ids_BS=torch.randint(VOCAB, (rows, longest), generator=g),
        answer_BS=(columns >= torch.tensor(first_answers)[:, None]) & (columns < torch.tensor(lengths)[:, None]),
        taps_BSF=torch.randn(rows, longest, WIDTH, generator=g),
        top_draft_ids_BSK=torch.stack(
            [torch.randperm(DRAFT_VOCAB, generator=g)[:top_k] for _ in range(rows * longest)]
        ).view(rows, longest, top_k),
        top_probs_BSK=probs / probs.sum(dim=-1, keepdim=True),
        argmax_in_vocabulary_BS=torch.rand(rows, longest, generator=g) < 0.8,
    )


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
def test_losses_equal_the_recipe_written_out_naively(flag, num_steps):
    """Per step, the loss is the one of explicit chains: real features up to t, then the draft's own; every flag."""
    draft, reference = drafts(flag)
    given = batch()
    results = training_time_test(draft, given, num_steps)
    # Chains count from two positions before the first answer of the batch: that one predicts its first token.
    wanted = step_losses(reference.guesses(given, num_steps, first_start=2), num_steps)
    assert len(results) == num_steps
    for result, loss in zip(results, wanted, strict=True):
        torch.testing.assert_close(result.loss, loss, atol=2e-5, rtol=1e-5)


def test_every_flag_matters():
    """The flags of the comparison above give five different losses, so none is ignored on both sides."""
    losses = [float(training_time_test(drafts(flag)[0], batch(), 3)[2].loss) for flag in FLAGS]
    assert len({round(loss, 4) for loss in losses}) == len(FLAGS)


def test_log_probs_of_every_chain_equal_the_naive_ones():
    """Not only the mean: each chain's distribution at each step is the naive one, on one row with every token asked."""
    draft, reference = drafts()
    given = batch(lengths=(11,), first_answers=(0,))
    given.argmax_in_vocabulary_BS.fill_(True)
    with recorded_logits(draft) as recorded:
        training_time_test(draft, given, 4)
    for step in range(4):
        naive = [guess.log_probs_V for guess in reference.guesses(given, 4) if guess.step == step]
        torch.testing.assert_close(recorded[step].log_softmax(-1), torch.stack(naive), atol=2e-5, rtol=1e-4)


class recorded_logits:  # noqa: N801 - reads as a function
    """Collects what the draft's head gives while the block runs."""

    def __init__(self, draft):
        self.draft = draft
        self.seen = []

    def __enter__(self):
        self.hook = self.draft.lm_head.register_forward_hook(lambda _m, _i, output: self.seen.append(output.detach()))
        return self.seen

    def __exit__(self, *_):
        self.hook.remove()


@pytest.mark.parametrize("flag", FLAGS)
def test_training_and_serving_agree(flag):
    """Row t of step s has the distribution that a proposer drafts s + 1 tokens after token t + 1.

    The text after the prompt is what the proposer itself drafts, so ground truth and drafted tokens coincide.
    """
    draft, _ = drafts(flag)
    prompt, depth = 7, 4
    g = torch.Generator().manual_seed(5)
    taps = torch.randn(prompt + depth + 1, WIDTH, generator=g)
    ids = torch.randint(VOCAB, (prompt + 1,), generator=g).tolist()
    with recorded_logits(draft) as served, torch.inference_mode():
        proposer = Proposer(draft, num_slots=32)
        table = BlockTable(BlockPool(num_blocks=8), block_tokens=4)
        table.grow(prompt + depth)
        state = DraftState(table)
        state.add(taps[:prompt], ids[1:])  # feature i with token i + 1
        proposer.observe([state])
        (tree,) = proposer.propose([Wish(state, ids[-1], Speculation(depth=depth, top_k=1, nodes=depth))])
    assert isinstance(tree, DraftTree)
    text = ids + list(tree.token_ids[1:])
    assert len(text) == prompt + 1 + depth
    given = Batch(
        input_ids_BS=torch.tensor([text]),
        answer_BS=torch.ones(1, len(text), dtype=torch.bool),
        taps_BSF=taps[None, : len(text)],
        top_draft_ids_BSK=torch.zeros(1, len(text), 1, dtype=torch.int64),
        top_probs_BSK=torch.ones(1, len(text), 1),
        argmax_in_vocabulary_BS=torch.ones(1, len(text), dtype=torch.bool),
    )
    with recorded_logits(draft) as trained:
        training_time_test(draft, given, depth)
    start = prompt - 1
    for step in range(depth):
        torch.testing.assert_close(trained[step][start], served[step][0], atol=1e-4, rtol=1e-4)
        assert tree.token_ids[1 + step] == int(draft.target_ids_V[trained[step][start].argmax()])


def test_feature_i_with_token_i_plus_1_predicts_token_i_plus_2():
    """The loss of the only answer token j reads features up to j - 2 and tokens up to j - 1, and nothing after."""
    draft, _ = drafts()
    given = batch(lengths=(10,), first_answers=(9,))
    given.argmax_in_vocabulary_BS.fill_(True)
    base = float(training_time_test(draft, given, 1)[0].loss)

    def changed(feature=None, token=None):
        other = batch(lengths=(10,), first_answers=(9,))
        other.argmax_in_vocabulary_BS.fill_(True)
        if feature is not None:
            other.taps_BSF[0, feature] += 1.0
        if token is not None:
            other.input_ids_BS[0, token] = (other.input_ids_BS[0, token] + 1) % VOCAB
        return float(training_time_test(draft, other, 1)[0].loss)

    assert changed(feature=8) == base
    assert changed(token=9) == base
    assert changed(token=0) == base  # token 0 is never read: its feature stands for it
    for place in (0, 7):
        assert changed(feature=place) != base
        assert changed(token=place + 1) != base


def test_what_is_learned_stands_at_the_position_before_the_answer():
    """Token j is learned from the target's distribution at position j - 1, by the chain that reads token j - 1."""
    draft, _ = drafts()
    given = batch(lengths=(10,), first_answers=(9,))
    given.argmax_in_vocabulary_BS.fill_(True)
    base = [float(result.loss) for result in training_time_test(draft, given, 1)]
    for position in range(10):
        other = batch(lengths=(10,), first_answers=(9,))
        other.argmax_in_vocabulary_BS.fill_(True)
        other.top_draft_ids_BSK[0, position] = (other.top_draft_ids_BSK[0, position] + 7) % DRAFT_VOCAB
        same = [float(result.loss) for result in training_time_test(draft, other, 1)] == base
        assert same == (position != 8)


def test_chains_learn_only_what_the_draft_can_say():
    """Where the target's choice is outside the draft vocabulary there is no loss, and the guess counts as wrong."""
    draft, _ = drafts()
    given = batch(lengths=(10,), first_answers=(5,))
    given.argmax_in_vocabulary_BS.fill_(False)
    for result in training_time_test(draft, given, 2):
        assert float(result.loss) == 0.0
        assert not result.correct_BS.any()
        assert result.mask_BS.any()


def test_rows_before_the_first_answer_are_keys_only(monkeypatch):
    """Leaving them out of later steps changes no step-0 loss, no guess of the rows kept and no accepted length."""
    draft, _ = drafts()
    given = batch(lengths=(14, 14), first_answers=(8, 9))
    cropped = training_time_test(draft, given, 4)
    with monkeypatch.context() as patched:
        patched.setattr(ttt, "_first_true_column", lambda _mask: 0)
        whole = training_time_test(draft, given, 4)
    assert cropped[0].correct_BS.shape[1] == 14 - 6
    assert accepted_lengths(cropped) == accepted_lengths(whole)
    assert float(cropped[0].loss) == pytest.approx(float(whole[0].loss), abs=1e-6)
    for short, long in zip(cropped, whole, strict=True):
        assert torch.equal(short.correct_BS, long.correct_BS[:, 6:])
        assert torch.equal(short.mask_BS, long.mask_BS[:, 6:])


@pytest.mark.parametrize("flag", ["none", "feedback_normed"])
def test_cropping_keeps_every_loss_and_gradient_of_the_rows_kept(flag):
    """With a batch that is cropped by eight rows, losses still equal explicit chains over all real keys."""
    draft, reference = drafts(flag)
    given = batch(lengths=(14, 12), first_answers=(10, 10))
    results = training_time_test(draft, given, 3)
    wanted = step_losses(reference.guesses(given, 3, first_start=8), 3)
    for result, loss in zip(results, wanted, strict=True):
        torch.testing.assert_close(result.loss, loss, atol=2e-5, rtol=1e-5)


def test_a_batch_without_answers_has_no_loss():
    """A row cut before its answer teaches nothing, and its loss still has a gradient (of zero)."""
    draft = randomise(Draft(tiny_draft_config(own_embedding=True)))
    given = batch(lengths=(8,), first_answers=(8,))
    results = training_time_test(draft, given, 3)
    loss = weighted_loss(results, 0.8)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert accepted_lengths(results) == (0, [0, 0, 0])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_rows_shorter_than_the_chain_are_no_error(length):
    """A row may be shorter than the steps asked for: what runs past its end is masked."""
    draft, _ = drafts()
    results = training_time_test(draft, batch(lengths=(length,), first_answers=(0,)), 4)
    assert [int(result.mask_BS.sum()) for result in results] == [max(0, length - 2 - step) for step in range(4)]


def step_result(loss, mask, correct):
    return StepResult(
        loss=torch.tensor(loss),
        mask_BS=torch.tensor([mask], dtype=torch.bool),
        correct_BS=torch.tensor([correct], dtype=torch.bool),
    )


def test_accepted_lengths_of_known_chains():
    """A chain counts at a step only if it was right at every step before; one that starts outside the mask, never."""
    results = [
        step_result(1.0, [0, 1, 1, 1, 1], [0, 1, 1, 0, 1]),
        step_result(1.0, [1, 1, 1, 1, 0], [1, 1, 0, 1, 0]),
        step_result(1.0, [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]),
    ]
    assert accepted_lengths(results) == (4, [3, 1, 1])


def test_accepts_all_and_accepts_none():
    """Right everywhere accepts every chain to the end of the text; wrong everywhere accepts none."""
    right = [step_result(0.0, [1, 1, 1], [1, 1, 1]), step_result(0.0, [1, 1, 0], [1, 1, 0])]
    wrong = [step_result(0.0, [1, 1, 1], [0, 0, 0]), step_result(0.0, [1, 1, 0], [0, 0, 0])]
    assert accepted_lengths(right) == (3, [3, 2])
    assert accepted_lengths(wrong) == (3, [0, 0])


def test_later_steps_weigh_less():
    """The loss is the sum of the steps' losses times decay to the power of the step."""
    results = [step_result(loss, [1], [1]) for loss in (1.0, 2.0, 4.0)]
    assert float(weighted_loss(results, 0.8)) == pytest.approx(1.0 + 0.8 * 2.0 + 0.64 * 4.0)
    assert float(weighted_loss(results, 1.0)) == pytest.approx(7.0)
