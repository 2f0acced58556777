"""Text to ids such that only the chat template can write control tokens, never the text of a user.

A second backend is made in which every control token has a private, unguessable spelling. What the template wrote
is respelled before encoding; what a user wrote keeps the public spelling, which that backend reads as plain text.
Knows no templates and no models. Invariant: text without a control token's spelling has its ordinary ids.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

import tokenizers

# The model's own thoughts in its earlier turns: templates look for these, and no role can be forged with them.
REASONING_MARKS = frozenset(["<think>", "</think>"])


class ControlTokens:
    """The control tokens of one tokenizer, and the encoder that reads their public spelling as plain text."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        spec: dict[str, Any] = json.loads(backend.to_str())
        # A run of white space among the added tokens is a matter of spelling, not of control.
        texts = [str(token["content"]) for token in spec["added_tokens"] if str(token["content"]).strip()]
        nonce = secrets.token_hex(16)
        # Longest first: where two begin at one place, a tokenizer takes the longer one.
        self.texts: tuple[str, ...] = tuple(sorted(texts, key=len, reverse=True))
        self._private = {text: f"<{nonce}.{number}>" for number, text in enumerate(self.texts)}
        self._held = {text: f"{nonce}-{number}-" for number, text in enumerate(self.texts)}
        self._public = {held: text for text, held in self._held.items()}
        self._controls = _any_of(self.texts)
        self._controls_in_answers = _any_of([text for text in self.texts if text not in REASONING_MARKS])
        self._find_held = re.compile(rf"{nonce}-\d+-")
        self._ordinary = backend
        self._lopsided = _lopsided(spec, backend)
        self._backend = _respelled(spec, self._private)

    def hold(self, text: str, *, own: bool = False) -> str:
        """A user's text with placeholders for the control tokens in it, to be given to a template.

        `own`: an earlier answer of the model, whose marks of reasoning stay what they are.
        """
        controls = self._controls_in_answers if own else self._controls
        return controls.sub(lambda match: self._held[match[0]], text)

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of what a template made of held texts: its own control tokens count, held ones are plain text."""
        if self._lopsided and self._only_template(text):
            return list(self._ordinary.encode(text, add_special_tokens=False).ids)
        respelled = self._controls.sub(lambda match: self._private[match[0]], text)
        plain = self._find_held.sub(lambda match: self._public[match[0]], respelled)
        return self.encode(plain, add_special_tokens=False)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a user's text, all of it plain; `add_special_tokens` adds what the tokenizer adds, such as BOS."""
        return list(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def _only_template(self, text: str) -> bool:
        """Whether every control token that could be read out of a rendered text was written by the template."""
        normal = self._ordinary.normalizer.normalize_str(text)
        if self._find_held.search(text):
            return False
        return len(self._controls.findall(normal)) == len(self._controls.findall(text))


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in texts) if texts else r"(?!)")


def _lopsided(spec: dict[str, Any], backend: tokenizers.Tokenizer) -> bool:
    """Whether the tokenizer finds some of its tokens in some places only.

    That is so where a normalizer puts a space in front of a text and tokens are looked for after that. A model was
    trained with what such a tokenizer made of its template, so texts without control tokens go through it unchanged.
    """
    texts = [token["content"] for token in spec["added_tokens"] if token["normalized"]]
    return backend.normalizer is not None and any(backend.normalizer.normalize_str(text) != text for text in texts)


def _respelled(spec: dict[str, Any], private: dict[str, str]) -> tokenizers.Tokenizer:
    """The tokenizer of `spec` with tokens under other spellings, ids and everything else unchanged."""
    for token in spec["added_tokens"]:
        if token["content"] in private:
            token["content"] = private[token["content"]]
            token["normalized"] = False  # no normalizer may keep the private spelling from being found
    model = spec["model"]
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        model["vocab"] = {private.get(piece, piece): token_id for piece, token_id in vocab.items()}
    else:  # Unigram: pairs of piece and score, the id is the place
        model["vocab"] = [[private.get(piece, piece), score] for piece, score in vocab]
    if model.get("unk_token") in private:
        model["unk_token"] = private[model["unk_token"]]
    if model.get("merges"):
        # A merge that would spell a control token out of plain pieces has no result any more.
        model["merges"] = [merge for merge in model["merges"] if _merged(merge) not in private]
    spec["truncation"] = spec["padding"] = None
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def _merged(merge: str | list[str]) -> str:
    return merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge)
