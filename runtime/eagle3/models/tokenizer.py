"""The tokenizer of a target: text to ids and back, chat templates, end-of-text tokens.

The only module that imports transformers, and that only when a tokenizer is loaded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eagle3.errors import InvalidInputError, WeightsError

Message = Mapping[str, str]

# Tokens that end a turn in the chat formats of the supported families, where the files name no more than one.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>")


class Tokenizer:
    """A Hugging Face tokenizer behind the four calls that the runtime needs."""

    def __init__(self, backend: Any, ending_ids: frozenset[int]) -> None:
        self._backend = backend
        self.ending_ids = ending_ids

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the special tokens that the tokenizer itself adds (such as BOS)."""
        return list(self._backend(text)["input_ids"])

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation under the model's chat template, up to where its answer begins."""
        if not self._backend.chat_template:
            raise InvalidInputError("this model has no chat template; use raw prompts (--raw) instead")
        ids = self._backend.apply_chat_template(
            [dict(message) for message in messages], add_generation_prompt=True, return_dict=False
        )
        return list(ids)

    def encode_plain(self, text: str) -> list[int]:
        """Token ids of text with no special token added, as in the middle of a conversation."""
        return list(self._backend(text, add_special_tokens=False)["input_ids"])

    def chat_prefix(self) -> list[int]:
        """Token ids of the chat template up to where the first user turn begins."""
        marker = "\u241e"  # a visible symbol that no template contains
        text: str = self._backend.apply_chat_template([{"role": "user", "content": marker}], tokenize=False)
        return self.encode_plain(text.partition(marker)[0])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; special tokens are left out."""
        return str(self._backend.decode(list(token_ids), skip_special_tokens=True))

    @property
    def has_chat_template(self) -> bool:
        """Whether `encode_chat` can be used."""
        return bool(self._backend.chat_template)


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer that belongs to a model directory or a .gguf file."""
    from transformers import AutoTokenizer  # takes seconds to import; only commands that read text pay for it

    for name in ("transformers", "accelerate", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        if path.suffix == ".gguf":
            backend = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
        else:
            backend = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{path} has no readable tokenizer (tokenizer.json or tokenizer.model): {error}") from error
    return Tokenizer(backend, _ending_ids(backend, path))


def _ending_ids(backend: Any, path: Path) -> frozenset[int]:
    ids: set[int] = set()
    generation = path / "generation_config.json"
    if path.is_dir() and generation.is_file():
        named = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id")
        ids.update(named if isinstance(named, list) else [] if named is None else [named])
    if backend.eos_token_id is not None:
        ids.add(backend.eos_token_id)
    vocabulary = backend.get_vocab()
    ids.update(vocabulary[token] for token in _TURN_ENDS if token in vocabulary)
    return frozenset(int(token_id) for token_id in ids)
