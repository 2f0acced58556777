"""The bytes that each token stands for, as clients that ask for log-probabilities want them.

Knows the two spellings of vocabularies: byte-level (every byte is one printable character) and SentencePiece
(a mark for the space, `<0x0A>` for a byte). Invariant: the bytes of the tokens of a text, put together, are the text
in UTF-8; a space that SentencePiece puts in front of a text is part of its first token.
"""

from __future__ import annotations

import json
import re
from typing import Any

import tokenizers

_SPACE_MARK = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenBytes:
    """Looks up the bytes of tokens."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        spec: dict[str, Any] = json.loads(backend.to_str())
        self._backend = backend
        self._added = {int(token["id"]): str(token["content"]) for token in spec["added_tokens"]}
        self._byte_of = _byte_of_character() if "ByteLevel" in _types(spec.get("decoder")) else None
        self.longest = max((len(piece) for piece in backend.get_vocab(with_added_tokens=False)), default=1)
        """Characters of the longest piece: no token stands for more characters of text than that."""
        self.special_ids = frozenset(int(token["id"]) for token in spec["added_tokens"] if token["special"])
        """Tokens that are left out of decoded text."""

    def __call__(self, token_id: int) -> bytes:
        """Bytes of one token, which may be part of a character; empty for an id without a token."""
        if token_id in self._added:
            return self._added[token_id].encode()
        piece = self._backend.id_to_token(token_id)
        if piece is None:
            return b""
        if self._byte_of is not None:
            return bytes(self._byte_of[character] for character in piece if character in self._byte_of)
        match = _BYTE.fullmatch(piece)
        return bytes([int(match[1], 16)]) if match else str(piece).replace(_SPACE_MARK, " ").encode()


def _types(decoder: Any) -> list[str]:
    """Kinds of a decoder and of the decoders that it is made of."""
    if not isinstance(decoder, dict):
        return []
    return [str(decoder.get("type")), *(name for part in decoder.get("decoders", []) for name in _types(part))]


def _byte_of_character() -> dict[str, int]:
    """Byte-level vocabularies spell visible Latin-1 bytes as themselves and the others from U+0100 on, in order."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}
