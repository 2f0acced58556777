"""Tokenizers that are loaded without transformers' code for models: the very ones that AutoTokenizer loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest

from builders import write_byte_model
from eagle3.models import tokenizer as module
from eagle3.models.embedded import embedded_target
from eagle3.models.tokenizer import load_tokenizer

BYTES = [chr(0x100 + number) for number in range(0x21)]  # the byte-level spelling of control bytes and the space
MESSAGES = [{"role": "system", "content": "a"}, {"role": "user", "content": "Hi <|im_end|>"}]


def auto(path: Path) -> Any:
    """What AutoTokenizer makes of the same files."""
    from transformers import AutoTokenizer

    if path.suffix == ".gguf":
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return AutoTokenizer.from_pretrained(path, local_files_only=True)


def write_vocabulary(path: Path, *, pre: str, add_bos: bool, architecture: str = "llama") -> Path:
    """A GGUF file with a byte-level vocabulary, control tokens and one of the user's, and no weights to speak of."""
    tokens = ["<|begin|>", "<|eot_id|>", "<think>", *BYTES, *"abcdefghijklmnop0123", "ab", "abc", "Ġa"]
    writer = gguf.GGUFWriter(path, architecture)
    for add, value in (
        (writer.add_block_count, 1), (writer.add_context_length, 64), (writer.add_embedding_length, 32),
        (writer.add_feed_forward_length, 32), (writer.add_head_count, 2), (writer.add_head_count_kv, 2),
        (writer.add_layer_norm_rms_eps, 1e-5),
    ):  # fmt: skip
        add(value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 4] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b", "ab c", "Ġ a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(add_bos)
    writer.add_chat_template("{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_same(path: Path) -> None:
    """Every part that the runtime uses is equal: the backend with all its steps, specials, template, text."""
    mine, reference = load_tokenizer(path).backend, auto(path)
    assert type(mine) is type(reference)
    reference.backend_tokenizer.no_truncation()
    reference.backend_tokenizer.no_padding()
    assert json.loads(mine.backend_tokenizer.to_str()) == json.loads(reference.backend_tokenizer.to_str())
    assert mine.special_tokens_map == reference.special_tokens_map
    assert mine.eos_token_id == reference.eos_token_id
    assert mine.chat_template == reference.chat_template
    assert mine.clean_up_tokenization_spaces == reference.clean_up_tokenization_spaces
    ids = reference.encode("ab abc 012 <think>")
    assert mine.encode("ab abc 012 <think>") == ids
    assert mine.decode(ids, skip_special_tokens=True) == reference.decode(ids, skip_special_tokens=True)
    if reference.chat_template:
        for opened in (True, False):
            texts = [
                each.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=opened)
                for each in (mine, reference)
            ]
            assert texts[0] == texts[1]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each tokenizer was taken for a plain one, in order."""
    seen: list[bool] = []
    loader = module._loader
    monkeypatch.setattr(module, "_loader", lambda plain: seen.append(plain) or loader(plain))
    return seen


@pytest.mark.slow
def test_the_embedded_model(chosen: list[bool]) -> None:
    """SmolLM2's GGUF file is plain, and its tokenizer the same."""
    assert_same(embedded_target())
    assert chosen == [True]


@pytest.mark.parametrize("pre", ["smollm", "llama-bpe", "default"])
@pytest.mark.parametrize("add_bos", [True, False])
def test_gguf_of_llama(pre: str, add_bos: bool, tmp_path: Path, chosen: list[bool]) -> None:
    """Byte-level vocabularies of the llama architecture are plain, however they split text and begin it."""
    assert_same(write_vocabulary(tmp_path / "m.gguf", pre=pre, add_bos=add_bos))
    assert chosen == [True]


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_gguf_of_qwen_is_not_plain(architecture: str, tmp_path: Path, chosen: list[bool]) -> None:
    """Qwen has a tokenizer class of its own: AutoTokenizer chooses it."""
    assert_same(write_vocabulary(tmp_path / "m.gguf", pre="qwen2", add_bos=False, architecture=architecture))
    assert chosen == [False]


def test_gguf_beside_other_files_is_not_plain(tmp_path: Path, chosen: list[bool]) -> None:
    """A tokenizer_config.json in the same folder could name another class, which AutoTokenizer would follow."""
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    write_vocabulary(tmp_path / "m.gguf", pre="smollm", add_bos=False)
    load_tokenizer(tmp_path / "m.gguf")
    assert chosen == [False]


@pytest.mark.parametrize(
    ("change", "plain"),
    [
        ({}, True),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, True),
        ({"tokenizer_class": "GPT2Tokenizer"}, False),
        ({"tokenizer_class": None}, False),
        ({"model_type": "qwen2"}, False),
    ],
)
def test_directories(change: dict[str, Any], plain: bool, tmp_path: Path, chosen: list[bool]) -> None:
    """Plain is what names no class but the general one and no family that has its own; all are loaded the same."""
    write_byte_model(tmp_path)
    change = {"model_type": "llama"} | change
    for name, key in (("config.json", "model_type"), ("tokenizer_config.json", "tokenizer_class")):
        values = json.loads((tmp_path / name).read_text())
        values[key] = change.get(key, values.get(key))
        (tmp_path / name).write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    assert_same(tmp_path)
    assert chosen == [plain]


def test_no_code_of_models_is_imported(tmp_path: Path) -> None:
    """A plain tokenizer loads in a fresh interpreter without torch's compiler and transformers' code for models."""
    path = write_vocabulary(tmp_path / "m.gguf", pre="smollm", add_bos=False)
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\nfrom eagle3.models.tokenizer import load_tokenizer\n"
        f"load_tokenizer(Path({str(path)!r}))\n"
        "heavy = ('torch._dynamo', 'torch.distributed.tensor', 'transformers.modeling_utils', 'accelerate',\n"
        "         'transformers.models.auto.tokenization_auto', 'transformers.modeling_gguf_pytorch_utils')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
