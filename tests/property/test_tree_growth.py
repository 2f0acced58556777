"""Laws of tree growth under random drafts, ties included; the tree is checked against plain enumeration."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import grow_tree
from eagle3.config.speculation import Speculation
from eagle3.tree.chain import Chain
from eagle3.tree.draft_tree import ancestor_mask

ROOT = 999
quick = settings(deadline=None, max_examples=60)


class RandomDraft:
    """Log-probabilities of the next token as a fixed random function of the path; float64 [V].

    `levels` logit values make ties common; None makes them impossible in practice.
    """

    def __init__(self, seed, vocab, levels=None):
        self.seed, self.vocab, self.levels = seed, vocab, levels
        self.target_ids = torch.from_numpy(np.random.default_rng(seed).permutation(3 * vocab)[:vocab])
        self.draft_id = {int(target): draft for draft, target in enumerate(self.target_ids)}

    def log_probs(self, path):
        rng = np.random.default_rng([self.seed, *path])
        logits = rng.normal(0, 2, self.vocab) if self.levels is None else rng.integers(0, self.levels, self.vocab)
        return torch.tensor(logits, dtype=torch.float64).log_softmax(-1)

    def grow(self, shape, chain=None):
        rows: list[tuple[int, ...]] = [()]

        def expand(frontier):
            nonlocal rows
            rows = [
                (*rows[row], self.draft_id[token])
                for row, token in zip(frontier.parent_rows, frontier.token_ids, strict=True)
            ]
            assert all(len(path) == frontier.level for path in rows)
            return torch.stack([self.log_probs(path) for path in rows])

        return grow_tree(shape, ROOT, self.log_probs(()), self.target_ids, expand, chain)

    def paths(self, tree):
        """Draft ids from the root to every node but the root -> score."""
        paths: dict[int, tuple[int, ...]] = {0: ()}
        for node in range(1, len(tree)):
            paths[node] = (*paths[tree.parents[node]], self.draft_id[tree.token_ids[node]])
        return {path: tree.scores[node] for node, path in paths.items() if node}

    def score(self, path):
        return sum(float(self.log_probs(path[:end])[token]) for end, token in enumerate(path))

    def every_path(self, depth):
        """Score of every token sequence of 1 to `depth` tokens."""
        return {
            path: self.score(path)
            for length in range(1, depth + 1)
            for path in itertools.product(range(self.vocab), repeat=length)
        }

    def beam(self, shape, guess=()):
        """All nodes that K frontier nodes a level give, by plain lists, as {path: score}.

        `guess` is a chain of (draft id, log-probability) that joins them.
        """
        width = min(shape.top_k, self.vocab)
        guessed = dict(zip(itertools.accumulate(((t,) for t, _ in guess)), (p for _, p in guess), strict=True))
        frontier: list[tuple[int, ...]] = [()]
        nodes: dict[tuple[int, ...], float] = {(): 0.0}
        for _level in range(shape.depth):
            born: dict[tuple[int, ...], float] = {}
            for path in frontier:
                log_probs = self.log_probs(path)
                best = heapq.nlargest(width, range(self.vocab), key=lambda t, row=log_probs: float(row[t]))
                steps = {(*path, token): float(log_probs[token]) for token in best}
                for child in guessed.keys() & {(*path, token) for token in range(self.vocab)}:
                    steps[child] = max(guessed[child], steps.get(child, guessed[child]))
                born |= {child: nodes[path] + step for child, step in steps.items()}
            nodes |= born
            frontier = heapq.nlargest(shape.top_k, born, key=born.__getitem__)
        for path, log_prob in guessed.items():
            nodes.setdefault(path, nodes[path[:-1]] + log_prob)
        del nodes[()]
        return nodes


shapes = st.builds(Speculation, depth=st.integers(1, 5), top_k=st.integers(1, 5), nodes=st.integers(1, 40))
drafts = st.builds(RandomDraft, st.integers(0, 2**32), st.integers(2, 6), st.sampled_from([None, 1, 2]))


@quick
@given(draft=drafts, shape=shapes)
def test_tree_is_sound(draft, shape):
    """At most N nodes and D levels, closed under parents, siblings distinct, scores that never rise, tokens mapped."""
    tree = draft.grow(shape)
    assert 2 <= len(tree) <= shape.nodes + 1
    assert max(tree.depths) <= shape.depth
    assert tree.token_ids[0] == ROOT
    assert tree.scores[0] == 0.0
    assert set(tree.token_ids[1:]) <= set(draft.target_ids.tolist())
    assert len(draft.paths(tree)) == len(tree) - 1, "every node is a path of its own"
    for node in range(1, len(tree)):
        assert tree.parents[node] < node
        assert tree.scores[node] <= tree.scores[tree.parents[node]]
        assert sum(parent == node for parent in tree.parents[1:]) <= shape.top_k
    for path, score in draft.paths(tree).items():
        assert abs(score - draft.score(path)) < 1e-5


@quick
@given(draft=st.builds(RandomDraft, st.integers(0, 2**32), st.integers(2, 6)), shape=shapes)
def test_tree_is_the_best_of_the_beam(draft, shape):
    """Without ties the tree is exactly the N best of all nodes that K frontier nodes a level give."""
    nodes = draft.beam(shape)
    assert set(draft.paths(draft.grow(shape))) == set(heapq.nlargest(shape.nodes, nodes, key=nodes.__getitem__))


guesses = st.lists(st.tuples(st.integers(0, 5), st.floats(-3.0, 0.0)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=200)
@given(draft=drafts, guess=guesses, shape=shapes)
def test_tree_with_a_chain_is_sound(draft, guess, shape):
    """What is grafted keeps the tree within N nodes, closed under parents, without twins, scores never rising.

    Ties included, of scores and of certain guesses. Only what was guessed is deeper than D.
    """
    guess = [(token % draft.vocab, log_prob) for token, log_prob in guess]
    path = tuple(token for token, _ in guess)
    tree = draft.grow(shape, chain_of(draft, guess))
    found = draft.paths(tree)
    assert 2 <= len(tree) <= shape.nodes + 1
    assert len(found) == len(tree) - 1, "every node is a path of its own"
    for node in range(1, len(tree)):
        assert tree.parents[node] < node
        assert tree.scores[node] <= tree.scores[tree.parents[node]]
    assert all(len(one) <= shape.depth or one == path[: len(one)] for one in found)


@settings(deadline=None, max_examples=200)
@given(draft=st.builds(RandomDraft, st.integers(0, 2**32), st.integers(2, 6)), guess=guesses, shape=shapes)
def test_tree_is_the_best_of_beam_and_chain(draft, guess, shape):
    """Without ties the tree is exactly the N best of the beam that the chain has joined, with their scores."""
    guess = [(token % draft.vocab, log_prob - 1e-3 - 1e-4 * place) for place, (token, log_prob) in enumerate(guess)]
    nodes = draft.beam(shape, guess)
    found = draft.paths(draft.grow(shape, chain_of(draft, guess)))
    assert set(found) == set(heapq.nlargest(shape.nodes, nodes, key=nodes.__getitem__))
    for path, score in found.items():
        assert abs(score - nodes[path]) < 1e-5


def chain_of(draft, guess):
    """A chain of target ids out of (draft id, log-probability)."""
    return Chain(tuple(int(draft.target_ids[token]) for token, _ in guess), tuple(log_prob for _, log_prob in guess))


thresholds = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=4).map(lambda ones: [0.0, *sorted(ones)])


@settings(deadline=None, max_examples=200)
@given(draft=drafts, guess=st.one_of(st.just([]), guesses), shape=shapes, thresholds=thresholds)
def test_a_threshold_only_leaves_out(draft, guess, shape, thresholds):
    """The tree is that without a threshold, less its improbable nodes: higher ones give nested trees and fewer rows.

    With or without a chain, ties included.
    """
    guess = [(token % draft.vocab, log_prob) for token, log_prob in guess]
    chain = chain_of(draft, guess) if guess else None
    full = draft.grow(shape, chain)
    rows = full.draft_rows
    for least in thresholds:
        tree = draft.grow(shape.model_copy(update={"min_probability": least}), chain)
        floor = math.log(least) if least else -math.inf
        assert draft.paths(tree) == {path: score for path, score in draft.paths(full).items() if score >= floor}
        assert len(tree.draft_rows) <= len(rows)
        assert all(fewer <= more for fewer, more in zip(tree.draft_rows, rows, strict=False))
        rows = tree.draft_rows


@quick
@given(draft=drafts, top_k=st.integers(1, 5), depth=st.integers(1, 4), data=st.data())
def test_tree_is_the_global_best_when_the_beam_is_wide_enough(draft, top_k, depth, data):
    """For N <= K no better path exists in the whole tree of all tokens, ties or not."""
    draft.vocab = min(draft.vocab, 4)
    draft.target_ids = draft.target_ids[: draft.vocab]
    nodes = data.draw(st.integers(1, min(top_k, draft.vocab)))
    tree = draft.grow(Speculation(depth=depth, top_k=top_k, nodes=nodes))
    best = heapq.nlargest(nodes, draft.every_path(depth).values())
    np.testing.assert_allclose(sorted(tree.scores[1:], reverse=True), best, atol=1e-6)


parent_lists = st.lists(st.integers(0, 2**16), min_size=0, max_size=24).map(
    lambda draws: [0, *(draw % node for node, draw in enumerate(draws, start=1))]
)


@quick
@given(parents=parent_lists)
def test_ancestor_mask_is_transitive(parents):
    """The mask is reflexive, transitive and antisymmetric, and a row holds depth + 1 nodes: exactly the path."""
    mask = ancestor_mask(parents)
    assert bool(mask.diagonal().all())
    counts = mask.long()
    assert torch.equal((counts @ counts) > 0, mask)
    assert not bool((mask & mask.T).fill_diagonal_(False).any())
    for node in range(len(parents)):
        path, walker = {node}, node
        while walker:
            walker = parents[walker]
            path.add(walker)
        assert set(mask[node].nonzero().flatten().tolist()) == path
