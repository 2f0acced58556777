"""Stand-ins for grammars: a matcher that plays a script, and a fast tokenizer of bytes and a few longer tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

END, OTHER_END = 256, 257
"""Ending ids of `byte_backend`."""
BYTE_TOKENS = 264


class ScriptedMatcher:
    """Allows the next token set of `script`; complete only after the last. Fails a test that asks it after that."""

    def __init__(self, script: Sequence[Collection[int]], vocab_size: int, *, fails_at: int | None = None) -> None:
        self.script = list(script)
        self.vocab_size = vocab_size
        self.fails_at = fails_at
        self.consumed: list[int] = []
        self.masks = 0

    def compute_bitmask(self) -> bytes:
        """The set at hand, padded to whole words as llguidance does."""
        assert len(self.consumed) < len(self.script), "asked for a mask after the end"
        self.masks += 1
        bits = np.zeros((self.vocab_size + 31) // 32 * 32, dtype=np.uint8)
        bits[list(self.script[len(self.consumed)])] = 1
        return np.packbits(bits, bitorder="little").tobytes()

    def consume_token(self, sampled_token: int) -> bool:
        """Go to the next set."""
        assert len(self.consumed) < len(self.script), "told of a token after the end"
        self.consumed.append(sampled_token)
        return not self.is_error()

    def is_accepting(self) -> bool:
        """At the end only."""
        return len(self.consumed) == len(self.script)

    def is_stopped(self) -> bool:
        """At the end, or after the failure."""
        return self.is_accepting() or self.is_error()

    def is_error(self) -> bool:
        """From the token number `fails_at` on."""
        return self.fails_at is not None and len(self.consumed) >= self.fails_at

    def get_error(self) -> str:
        """As the library says it."""
        return "Parser Error: too many items\n<non-verbose/>" if self.is_error() else ""


def byte_backend() -> Any:
    """What a Hugging Face fast tokenizer is to the compiler: 256 bytes, 4 special tokens, 4 longer ones of JSON."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    special = ["<|end|>", "<|other|>", "<|user|>", "<|pad|>"]
    vocabulary |= {token: 256 + number for number, token in enumerate(special)}
    pairs = [("{", '"'), ('"', ":"), ('"', "}"), ('"', ",")]
    vocabulary |= {left + right: 260 + number for number, (left, right) in enumerate(pairs)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(special)
    assert backend.get_vocab_size() == BYTE_TOKENS
    return SimpleNamespace(backend_tokenizer=backend)
