"""Accepts one path of a draft tree. Knows no models or tokenizers. The output law equals the target's.

Drafted candidates are deterministic, so the recursive rejection rule of tree verification (accept child x
with probability p(x), else take x out of p and renormalise) has the same law as: draw one token from p, and
accept the child that carries it, if there is one. Done this way a cycle draws exactly one vector of noise for
each token it emits, just as plain decoding does, and the same seed gives the same text with and without
speculation. Greedy decoding is the case in which the draw is the argmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eagle3.tree.draft_tree import DraftTree

# Chooses the token after a node: (node, token ids accepted on the way to it) -> target token id.
Choose = Callable[[int, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of verifying one tree."""

    path: tuple[int, ...]
    """Accepted nodes from the root downwards, root included."""
    accepted_ids: tuple[int, ...]
    """Tokens of the accepted nodes, root not included."""
    bonus_id: int
    """Token that the target itself chose after the last accepted node."""

    @property
    def num_accepted(self) -> int:
        """Drafted tokens accepted; the bonus token is not one of them."""
        return len(self.accepted_ids)

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """Everything that the cycle adds to the text."""
        return (*self.accepted_ids, self.bonus_id)


def verify(tree: DraftTree, choose: Choose) -> Verification:
    """Walk down the tree as long as a child carries the token that `choose` picks."""
    node = 0
    path = [0]
    accepted: list[int] = []
    while True:
        token_id = choose(node, accepted)
        child = tree.child(node, token_id)
        if child is None:
            return Verification(path=tuple(path), accepted_ids=tuple(accepted), bonus_id=token_id)
        node = child
        path.append(child)
        accepted.append(token_id)
