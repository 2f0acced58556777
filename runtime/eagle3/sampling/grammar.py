"""Grammars over tokens: which tokens may come next, so that an answer matches a JSON schema.

llguidance does the work: it makes a grammar of a schema and says after each token which tokens go on. This module
gives it the model's vocabulary, and settles where an answer ends: an ending token may come where the text is
complete and nowhere else, and once it came, or nothing but the end is left, the library is not asked again.
Knows no models and no requests. V vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from torch import Tensor

from eagle3.errors import InvalidInputError
from eagle3.sampling.json_schema import canonical_schema

_SCHEMAS_KEPT = 16
_REASON_CHARACTERS = 200

# The answer must match: neither may a schema switch that off by itself. White space between two JSON tokens is
# bounded, because small models otherwise write blank lines until the length limit ends them.
_OPTIONS: Any = {
    "lenient": False,
    "coerce_one_of": False,
    "whitespace_flexible": True,
    "whitespace_pattern": r"[ \t\r\n]{1,32}",
}


class Matcher(Protocol):
    """The part of llguidance's matcher that `Grammar` uses."""

    def compute_bitmask(self) -> bytes:
        """One bit for each token, lowest bit first: whether it may come next."""
        ...

    def consume_token(self, sampled_token: int) -> bool: ...

    def is_accepting(self) -> bool:
        """Whether the text so far is complete."""
        ...

    def is_stopped(self) -> bool:
        """Whether nothing but the end may come; also after an error."""
        ...

    def is_error(self) -> bool: ...

    def get_error(self) -> str: ...


class Grammar:
    """Where one answer stands in its grammar."""

    def __init__(self, matcher: Matcher, *, vocab_size: int, ending_ids: Collection[int]) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._ending_ids = frozenset(i for i in ending_ids if 0 <= i < vocab_size)
        assert self._ending_ids, "a grammar without an ending token never ends"
        self._endings = torch.tensor(sorted(self._ending_ids), dtype=torch.int64)
        self._ended = False
        self._blocked_V: Tensor | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing but an ending token may come."""
        return self._ended

    def apply(self, scores_V: Tensor) -> Tensor:
        """A copy of the scores, -inf where a token may not come next."""
        if self._blocked_V is None:
            self._blocked_V = self._blocked()
        return scores_V.masked_fill(self._blocked_V.to(scores_V.device), float("-inf"))

    def advance(self, token_id: int) -> None:
        """Go on by the token that was chosen; an ending token ends the text for good."""
        if self._ended or token_id in self._ending_ids:
            assert token_id in self._ending_ids, f"token {token_id} after the end of the grammar"
            self._end()
            return
        self._blocked_V = None
        if not self._matcher.consume_token(token_id):
            raise _failure(self._matcher.get_error())
        if self._matcher.is_stopped():
            if self._matcher.is_error():
                raise _failure(self._matcher.get_error())
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended, self._blocked_V = True, None

    def _blocked(self) -> Tensor:
        if self._ended:
            blocked_V = torch.ones(self._vocab_size, dtype=torch.bool)
        else:
            bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
            if self._matcher.is_error():
                raise _failure(self._matcher.get_error())
            assert 8 * len(bits) >= self._vocab_size, "a mask covers the vocabulary"
            blocked_V = torch.from_numpy(np.unpackbits(~bits, count=self._vocab_size, bitorder="little").view(np.bool_))
        # Ending tokens that a tokenizer does not call special have a text, which a JSON string could hold.
        blocked_V[self._endings] = not (self._ended or self._matcher.is_accepting())
        if bool(blocked_V.all()):
            raise _failure("no token of this model goes on from here")
        return blocked_V


class GrammarCompiler:
    """Makes grammars for one model: its Hugging Face fast tokenizer, its vocabulary, its ending tokens.

    `vocab_size` is the model's: ids that the tokenizer does not know (padding) never come. The last few schemas are
    kept compiled. May be called from several threads.
    """

    def __init__(self, hf_tokenizer: Any, vocab_size: int, ending_ids: Collection[int]) -> None:
        self._hf_tokenizer = hf_tokenizer
        self._vocab_size = vocab_size
        self._ending_ids = frozenset(i for i in ending_ids if 0 <= i < vocab_size)
        self._matcher = lru_cache(maxsize=_SCHEMAS_KEPT)(self._compiled)

    def compile(self, json_schema: str) -> Grammar:
        """A fresh grammar for one answer; InvalidInputError says why a schema cannot be used."""
        matcher = self._matcher(json_schema).deep_copy()
        return Grammar(matcher, vocab_size=self._vocab_size, ending_ids=self._ending_ids)

    def _compiled(self, json_schema: str) -> LLMatcher:
        try:
            text = canonical_schema(json_schema)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        try:
            source = LLMatcher.grammar_from_json_schema(text, overrides=_OPTIONS)
        except ValueError as error:
            raise InvalidInputError(f"json_schema cannot be used: {_reason(str(error))}") from error
        matcher = LLMatcher(self._tokens, source, log_level=0, limits=LLParserLimits(verbose_errors=False))
        if not matcher.is_error():
            matcher.compute_bitmask()  # also finds schemas that nothing matches
        if matcher.is_error():
            raise InvalidInputError(f"json_schema cannot be used: {_reason(matcher.get_error())}")
        return matcher

    @cached_property
    def _tokens(self) -> LLTokenizer:
        if not self._ending_ids:
            raise InvalidInputError(
                "json_schema needs a model with an end-of-text token; this one names none: leave json_schema out"
            )
        fast = getattr(self._hf_tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise InvalidInputError(
                "json_schema needs a fast tokenizer (tokenizer.json); this model has none: leave json_schema out"
            )
        size = max(self._vocab_size, fast.get_vocab_size(with_added_tokens=True))
        return LLTokenizer(fast.to_str(), n_vocab=size, eos_token=sorted(self._ending_ids))


def _failure(error: str) -> InvalidInputError:
    return InvalidInputError(f"the answer cannot follow json_schema any further: {_reason(error)}")


def _reason(error: str) -> str:
    """What a user can do something about, of a message of the library."""
    if "NoExtension" in error:
        return "nothing matches the schema; loosen it"
    if "oneOf" in error:
        return "oneOf is supported only where its members exclude each other; use anyOf"
    lines = [line.strip() for line in error.splitlines() if line.strip() and "non-verbose" not in line]
    # Errors of regular expressions say what is wrong in their last line, below a drawing.
    found = next((line for line in lines if line.startswith("error: ")), lines[0] if lines else "unknown reason")
    found = found.removeprefix("error: ")
    if "regex parse error" in error:
        found = f"a pattern: {found}"
    return found if len(found) <= _REASON_CHARACTERS else found[: _REASON_CHARACTERS - 1] + "…"
