"""The longest ending of a text that stood in it before, kept up to date token by token: a suffix automaton.

A state stands for all strings that end at the same places; its link is the longest ending of them that also ends
elsewhere, so the link of the whole text's state is the longest repeated ending (Blumer et al. 1985; used for drafting
by SAM-Decoding, arXiv 2411.10666). Knows no models and no probabilities. Invariant: at most two states and three
transitions a token; the last `match_length` tokens also end at `match_end`, and no longer ending occurred before.
"""

from __future__ import annotations

from collections.abc import Sequence


class SuffixAutomaton:
    """Every string within one text of token ids; a token costs O(1), counted over the whole text."""

    def __init__(self, token_ids: Sequence[int] = ()) -> None:
        self._token_ids: list[int] = []
        # By state; state 0 is the empty string.
        self._next: list[dict[int, int]] = [{}]
        self._links: list[int] = [-1]
        self._lengths: list[int] = [0]
        self._ends: list[int] = [-1]
        self._last = 0
        self.match_length = 0
        """Tokens of the longest ending of the text that stood in it before; 0 where the last token is new."""
        self.match_end = -1
        """Index of an earlier token at which that ending ended, of late where it stood more than once before."""
        for token_id in token_ids:
            self.extend(token_id)

    def __len__(self) -> int:
        return len(self._token_ids)

    def extend(self, token_id: int) -> None:
        """Add the next token of the text."""
        follow, links, lengths, ends = self._next, self._links, self._lengths, self._ends
        place, state = self._last, len(links)
        end = len(self._token_ids)
        self._token_ids.append(token_id)
        follow.append({})
        links.append(0)
        lengths.append(end + 1)
        ends.append(end)
        self._last = state
        while place != -1 and token_id not in follow[place]:
            follow[place][token_id] = state
            place = links[place]
        if place == -1:
            self.match_length, self.match_end = 0, -1
            return
        match = follow[place][token_id]
        if lengths[match] != lengths[place] + 1:
            match = self._split(match, place, token_id)
        links[state] = match
        self.match_length, self.match_end = lengths[match], ends[match]
        # The latest place is not always the one kept: it is noted where the match is the longest, which costs nothing.
        ends[match] = end

    def continuation(self, count: int) -> list[int]:
        """The `count` tokens that followed the match; where the text ends first, it is taken to repeat itself."""
        if not self.match_length:
            return []
        begin = self.match_end + 1
        tokens = self._token_ids[begin : begin + count]
        while len(tokens) < count:
            tokens += tokens[: count - len(tokens)]
        return tokens

    def check_integrity(self) -> None:
        """Assert the invariants; for tests."""
        size = len(self._token_ids)
        assert len(self._links) <= max(1, 2 * size), "at most two states a token"
        assert sum(map(len, self._next)) <= 3 * size, "at most three transitions a token"
        for state in range(1, len(self._links)):
            assert self._lengths[self._links[state]] < self._lengths[state], "a link is shorter"

    def _split(self, state: int, place: int, token_id: int) -> int:
        """A state of its own for the shorter strings of `state`: from now on they end at more places than the rest."""
        follow, links = self._next, self._links
        clone = len(links)
        follow.append(follow[state].copy())
        links.append(links[state])
        self._lengths.append(self._lengths[place] + 1)
        self._ends.append(self._ends[state])
        links[state] = clone
        while place != -1 and follow[place].get(token_id) == state:
            follow[place][token_id] = clone
            place = links[place]
        return clone
