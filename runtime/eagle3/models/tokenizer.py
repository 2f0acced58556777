"""The tokenizer of a target: text to ids and back, chat templates, end-of-text tokens.

The only module that imports transformers, and that only when a tokenizer is loaded. Invariant: the text of a prompt
or message never becomes a control token, whatever it spells; only the chat template and the tokenizer write those.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jinja2

from eagle3.errors import InvalidInputError, WeightsError
from eagle3.models.control_tokens import ControlTokens
from eagle3.models.gguf_header import read_header
from eagle3.models.token_bytes import TokenBytes

Message = Mapping[str, str]

# Tokenizer classes that are nothing but what their tokenizer.json says.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Tokens that end a turn in the chat formats of the supported families, where the files name no more than one.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>")


class Tokenizer:
    """A Hugging Face tokenizer behind the calls that the runtime needs; they may come from several threads."""

    def __init__(self, backend: Any, ending_ids: frozenset[int]) -> None:
        self._backend = backend
        # Settings of the file that would cut or fill every text.
        backend.backend_tokenizer.no_truncation()
        backend.backend_tokenizer.no_padding()
        self._control = ControlTokens(backend.backend_tokenizer)
        self._bytes = TokenBytes(backend.backend_tokenizer)
        self.ending_ids = ending_ids

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the special tokens that the tokenizer itself adds (such as BOS)."""
        return self._control.encode(text, add_special_tokens=True)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation under the model's chat template, up to where its answer begins."""
        if not self._backend.chat_template:
            raise InvalidInputError("this model has no chat template; use raw prompts (--raw) instead")
        return self._control.encode_rendered(self._render([self._held(message) for message in messages], opened=True))

    def encode_plain(self, text: str) -> list[int]:
        """Token ids of text with no special token added, as in the middle of a conversation."""
        return self._control.encode(text, add_special_tokens=False)

    def chat_prefix(self) -> list[int]:
        """Token ids of the chat template up to where the first user turn begins."""
        marker = "\u241e"  # a visible symbol that no template contains
        text = self._render([{"role": "user", "content": marker}], opened=False)
        return self._control.encode_rendered(text.partition(marker)[0])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; special tokens are left out."""
        return str(self._backend.decode(list(token_ids), skip_special_tokens=True))

    def token_bytes(self, token_id: int) -> bytes:
        """What one token stands for in UTF-8; part of a character for some tokens."""
        return self._bytes(token_id)

    @property
    def special_ids(self) -> frozenset[int]:
        """Tokens that `decode` leaves out."""
        return self._bytes.special_ids

    @property
    def longest_token(self) -> int:
        """Characters of text that one token can stand for at most."""
        return self._bytes.longest

    @property
    def backend(self) -> Any:
        """The Hugging Face tokenizer itself, of which grammars are made."""
        return self._backend

    @property
    def has_chat_template(self) -> bool:
        """Whether `encode_chat` can be used."""
        return bool(self._backend.chat_template)

    def _held(self, message: Message) -> dict[str, str]:
        own = message["role"] == "assistant"
        return {key: text if key == "role" else self._control.hold(text, own=own) for key, text in message.items()}

    def _render(self, messages: list[dict[str, str]], *, opened: bool) -> str:
        """The template's text; `opened` adds the beginning of the answer."""
        try:
            return str(self._backend.apply_chat_template(messages, tokenize=False, add_generation_prompt=opened))
        except jinja2.TemplateError as error:
            raise InvalidInputError(f"the model's chat template refuses these messages: {error}") from error


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer that belongs to a model directory or a .gguf file."""
    for name in ("transformers", "accelerate", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        if path.suffix == ".gguf":
            backend = _loader(_is_plain_gguf(path)).from_pretrained(str(path.parent), gguf_file=path.name)
        else:
            backend = _loader(_is_plain_directory(path)).from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{path} has no readable tokenizer (tokenizer.json or tokenizer.model): {error}") from error
    if getattr(backend, "backend_tokenizer", None) is None:
        raise WeightsError(f"{path} has only a slow tokenizer ({type(backend).__name__}); add its tokenizer.json")
    return Tokenizer(backend, _ending_ids(backend, path))


def _loader(plain: bool) -> Any:
    """The class of transformers that loads a tokenizer; importing it takes long, so only who reads text does.

    To choose a class by the model's type, AutoTokenizer loads much of transformers' and torch's code for models. A
    plain tokenizer is one that it would leave to PreTrainedTokenizerFast: the files alone say everything.
    """
    name = "PreTrainedTokenizerFast" if plain else "AutoTokenizer"
    return getattr(import_module("transformers"), name)  # transformers loads a class when it is asked for


def _is_plain_gguf(path: Path) -> bool:
    """Of the supported families only Qwen has a class of its own; files beside a GGUF file could name another."""
    if (path.parent / "tokenizer_config.json").exists():
        return False
    return read_header(path).metadata.get("general.architecture") == "llama"


def _is_plain_directory(path: Path) -> bool:
    config, tokenizer = _json_object(path / "config.json"), _json_object(path / "tokenizer_config.json")
    return (
        config.get("model_type") == "llama"
        and (path / "tokenizer.json").is_file()
        and tokenizer.get("tokenizer_class") in _PLAIN_CLASSES
        and "auto_map" not in tokenizer
    )


def _json_object(path: Path) -> dict[str, Any]:
    """What a file holds; nothing for a file that is absent or holds something else, which transformers complains of."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


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
