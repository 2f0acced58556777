"""Tiny random models and checkpoints that several tests share; nothing here reads a real model.

`transformers` is imported where it is used, so that unit tests stay fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

# Base of the fakes: to the type checker they are whatever they stand for.
if TYPE_CHECKING:
    StandIn = Any
else:
    StandIn = object

TINY_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
}


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every parameter, norm weights and biases included, values that matter; in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1.0 + 0.3 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(0.15 * noise)
    return module


def tiny_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors under Hugging Face names for a config that `architecture_from_hf` reads."""
    from eagle3.models.architecture import architecture_from_hf
    from eagle3.models.target import Target

    target = randomise(Target(architecture_from_hf(config)), seed)
    return {
        name if name == "lm_head.weight" else f"model.{name}": parameter.detach().clone()
        for name, parameter in target.named_parameters()
    }


def write_checkpoint(
    directory: Path, config: dict[str, Any] | None = None, tensors: dict[str, Tensor] | None = None
) -> Path:
    """A Hugging Face directory of one safetensors file; returns `directory`."""
    config = TINY_CONFIG if config is None else config
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tiny_tensors(config) if tensors is None else tensors, directory / "model.safetensors")
    return directory


def write_sharded_checkpoint(directory: Path, config: dict[str, Any] | None = None) -> Path:
    """The same in two shards with an index; returns `directory`."""
    config = TINY_CONFIG if config is None else config
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = tiny_tensors(config)
    weight_map: dict[str, str] = {}
    for number in (1, 2):
        shard = f"model-0000{number}-of-00002.safetensors"
        part = {name: value for position, (name, value) in enumerate(tensors.items()) if position % 2 == number - 1}
        save_file(part, directory / shard)
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return directory


def hf_model(family: str, **config: Any) -> Any:
    """A tiny random transformers model: `family` is Llama, Qwen2 or Qwen3; float32, eager attention."""
    import transformers

    sizes = {
        "vocab_size": 128,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "attn_implementation": "eager",
    }
    hf_config = getattr(transformers, f"{family}Config")(**(sizes | config))
    model = getattr(transformers, f"{family}ForCausalLM")(hf_config).float().eval()
    return randomise(model)


def hf_ground_truth(model: Any, token_ids_BS: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits [B, S, V] and the residual streams at the inputs of layers 0 to n - 1, then the last layer's output."""
    last: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        last.append(output[0] if isinstance(output, tuple) else output)

    hook = model.model.layers[-1].register_forward_hook(keep)
    with torch.inference_mode():
        output = model(token_ids_BS, output_hidden_states=True, use_cache=False)
    hook.remove()
    return output.logits, [*output.hidden_states[:-1], last[0]]


_GGUF_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.experts": "ffn_gate_exps",
}
_GGUF_GLOBAL_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(hf_name: str) -> str:
    """llama.cpp's name of a tensor, written out here apart from the loader's own table."""
    stem, _, kind = hf_name.rpartition(".")
    if stem in _GGUF_GLOBAL_NAMES:
        return f"{_GGUF_GLOBAL_NAMES[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_GGUF_LAYER_NAMES[rest]}.{kind}"


def write_gguf(
    path: Path,
    architecture: str,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    *,
    rope_theta: float = 10000.0,
    linear_factor: float | None = None,
    rope_divisors: Tensor | None = None,
    quantise: str | None = None,
    extra: dict[str, int] | None = None,
) -> Path:
    """What llama.cpp's converter makes of a Hugging Face config and its tensors; returns `path`.

    `quantise` names a ggml type, e.g. "Q8_0", for every matrix; `extra` adds integer keys below the
    architecture's prefix.
    """
    import gguf
    from gguf.quants import quantize

    heads = config["num_attention_heads"]
    kv_heads = config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope_theta)
    if linear_factor is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(linear_factor)
    for key, value in (extra or {}).items():
        writer.add_uint32(f"{architecture}.{key}", value)
    if rope_divisors is not None:
        writer.add_tensor("rope_freqs.weight", rope_divisors.numpy())
    for name, tensor in tensors.items():
        values = tensor.detach().float().numpy()
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            count = heads if ".q_proj." in name else kv_heads
            rows = values.shape[0]
            # LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py: halves to interleaved pairs.
            values = (
                values.reshape(count, 2, rows // count // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
            )
        if quantise is not None and values.ndim == 2:
            kind = gguf.GGMLQuantizationType[quantise]
            writer.add_tensor(gguf_name(name), quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_draft_config(**changes: Any) -> Any:
    """Config of a random draft for the 8-layer variant of `TINY_CONFIG`, with a reduced vocabulary."""
    from eagle3.models.architecture import Rope
    from eagle3.models.draft_config import DraftConfig

    fields: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 4,
        "rms_eps": 1e-5,
        "rope": Rope(),
        "vocab_size": 40,
        "draft_vocab_size": 24,
        "target_hidden_size": 16,
        "tap_inputs": (2, 4, 5),
    }
    return DraftConfig(**(fields | changes))


def tiny_draft_checkpoint(config: Any = None, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A random draft in memory; its vocabulary mapping is a random, unsorted choice of target ids."""
    from eagle3.models.draft import Draft
    from eagle3.models.draft_formats import DraftCheckpoint

    config = tiny_draft_config() if config is None else config
    draft = randomise(Draft(config), seed).to(dtype)
    ids = torch.randperm(config.vocab_size, generator=torch.Generator().manual_seed(seed))[: config.draft_vocab_size]
    if config.draft_vocab_size == config.vocab_size:
        ids = torch.arange(config.vocab_size)
    return DraftCheckpoint(config=config, tensors=draft.state_dict(), target_ids_V=ids)


def edit_draft_json(directory: Path, **changes: Any) -> Path:
    """Change keys of a written config.json; None removes one. Returns `directory`."""
    path = directory / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}), encoding="utf-8")
    return directory


def edit_draft_tensors(directory: Path, **changes: Tensor | None) -> Path:
    """Replace, add or (None) remove tensors of a written draft; `__` in a name stands for a dot."""
    from safetensors.torch import load_file

    path = directory / "model.safetensors"
    tensors: dict[str, Tensor | None] = {**load_file(path)}
    tensors |= {name.replace("__", "."): value for name, value in changes.items()}
    save_file({name: value for name, value in tensors.items() if value is not None}, path)
    return directory


MARKOV_VOCAB, MARKOV_STEP = 64, 7


def markov_target(vocab: int = MARKOV_VOCAB, step: int = MARKOV_STEP) -> Any:
    """A target whose next token is (token + step) % vocab, and whose layer k marks the stream in dimension vocab + k.

    So every tap layer carries the token and shows which layer it is.
    """
    from eagle3.models.architecture import Architecture, Rope
    from eagle3.models.target import Target

    width = vocab + 8
    arch = Architecture(
        family="LlamaForCausalLM", vocab_size=vocab, hidden_size=width, intermediate_size=4, num_layers=8,
        num_heads=2, num_kv_heads=1, head_dim=4, rms_eps=1e-6, max_position=128, tied_embeddings=False, rope=Rope(),
        mlp_bias=True,
    )  # fmt: skip
    target = Target(arch)
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        target.embed_tokens.weight.copy_(torch.eye(vocab, width))
        for token in range(vocab):
            target.lm_head.weight[(token + step) % vocab, token] = 1.0
        for index, layer in enumerate(target.layers):
            layer.mlp.down_proj.bias[vocab + index] = 1.0  # type: ignore[union-attr, operator]
    return target.eval().requires_grad_(False)


def markov_draft_checkpoint(vocab: int = MARKOV_VOCAB, step: int = MARKOV_STEP) -> Any:
    """A draft that knows `markov_target`: right at every position, but only as its config says.

    Its first feature must come from the input of layer 2 (an off-by-one tap drowns the token in another), its
    residual must be the raw feature, and its hidden state must be fed back after the final norm.
    """
    from eagle3.models.architecture import Rope
    from eagle3.models.draft import Draft
    from eagle3.models.draft_formats import DraftCheckpoint

    width = vocab + 8
    config = tiny_draft_config(
        hidden_size=width, intermediate_size=width, num_heads=2, num_kv_heads=1, head_dim=4, rope=Rope(),
        vocab_size=vocab, draft_vocab_size=vocab, target_hidden_size=width, feedback_normed=True,
        tap_inputs=(2, 4, 5),
    )  # fmt: skip
    draft = Draft(config)
    shift = torch.zeros(width, width)
    for token in range(vocab):
        shift[(token + step) % vocab, token] = 1.0
    with torch.no_grad():
        for name, parameter in draft.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        # The state stands for the next token, faintly; the MLP turns it into the one after, loudly.
        draft.fc.weight[:, :width] = shift
        for column, weight in ((vocab, 20.0), (vocab + 1, -20.0), (vocab + 2, 20.0)):
            draft.fc.weight[0, column] = weight
        draft.midlayer.mlp.gate_proj.weight.copy_(torch.eye(width))
        draft.midlayer.mlp.up_proj.weight.copy_(torch.eye(width))
        draft.midlayer.mlp.down_proj.weight.copy_(shift * 10 / width)
        draft.midlayer.hidden_norm.weight.fill_(10.0)
        draft.norm.weight.fill_(0.05)
        draft.lm_head.weight.copy_(torch.eye(vocab, width))
    return DraftCheckpoint(config=config, tensors=draft.state_dict(), target_ids_V=torch.arange(vocab))


def tiny_target(
    *, vocab: int = 64, layers: int = 8, hidden: int = 32, max_position: int = 256, seed: int = 0, loud: float = 4.0
) -> Any:
    """A random target, float32; `loud` scales its head, so that its choices are clear and vary with the text."""
    from eagle3.models.architecture import architecture_from_hf
    from eagle3.models.target import Target

    sizes = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "max_position_embeddings": max_position,
    }
    target: Any = randomise(Target(architecture_from_hf(TINY_CONFIG | sizes)), seed)
    with torch.no_grad():
        target.lm_head.weight.mul_(loud)
        target.embed_tokens.weight.mul_(loud)
    return target.eval().requires_grad_(False)


def tiny_draft(target: Any, *, target_ids: list[int] | None = None, seed: int = 0) -> Any:
    """A draft made from the weights of `target`, right now and then; sets the target's taps.

    `target_ids` is its reduced vocabulary, in its own order; None takes every token.
    """
    from dataclasses import replace

    from eagle3.models.draft import Draft
    from eagle3.train.initialise import draft_config_for, initialise_from_target

    ids = torch.arange(target.arch.vocab_size) if target_ids is None else torch.tensor(target_ids)
    # The fusion starts as a copy of the highest tap: here the target's own last state.
    config = replace(draft_config_for(target, len(ids)), tap_inputs=(2, 4, target.arch.num_layers))
    draft = Draft(config)
    draft.target_ids_V = ids
    draft.share_embedding(target.embed_tokens)
    initialise_from_target(draft, target, torch.Generator().manual_seed(seed))
    target.set_taps(config.tap_inputs or ())
    return draft.eval().requires_grad_(False)


class ByteTokenizer(StandIn):
    """Token ids 0 to 255 are bytes; ids from 256 on are special and have no text. Has no chat template."""

    has_chat_template = False

    def __init__(self, ending_ids: Iterable[int] = ()) -> None:
        self.ending_ids = frozenset(ending_ids)

    def encode(self, text: str) -> list[int]:
        """UTF-8 bytes."""
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the bytes; what is not UTF-8 becomes replacement characters."""
        return bytes(token_id for token_id in token_ids if token_id < 256).decode(errors="replace")


class ScriptedTarget(StandIn):
    """Stands for a `Target` whose next token after position i is `script[i]`, whatever the text is.

    So a prompt of P tokens is answered by `script[P - 1:]`. Its one tap feature is the position.
    """

    def __init__(self, script: Sequence[int], vocab: int = 64) -> None:
        from types import SimpleNamespace

        self.script = tuple(script)
        self.arch = SimpleNamespace(
            num_layers=1, num_kv_heads=1, head_dim=1, vocab_size=vocab, max_position=len(self.script) + 1
        )
        self.norm = SimpleNamespace(weight=torch.ones(1))
        self.device = torch.device("cpu")
        self.forwards: list[list[int]] = []

    def __call__(self, token_ids_BS: Tensor, positions_BS: Tensor, attend: Any) -> Any:
        """Keep the token ids, and give each position's number as its hidden state."""
        from types import SimpleNamespace

        del attend
        self.forwards.append(token_ids_BS[0].tolist())
        hidden_BSH = positions_BS[..., None].float()
        return SimpleNamespace(hidden_BSH=hidden_BSH, taps_BSF=hidden_BSH)

    def logits(self, hidden: Tensor) -> Tensor:
        """Five for the scripted token, zero for the rest."""
        out = torch.zeros(*hidden.shape[:-1], self.arch.vocab_size)
        following = torch.tensor(self.script)[hidden[..., 0].long()]
        return out.scatter_(-1, following[..., None], 5.0)


class ScriptedProposer(StandIn):
    """Stands for a `Proposer` that drafts chains: `guess` of a position gives its next token.

    `observed_by` gives every (feature, following token) that it was told of one sequence, in order.
    """

    def __init__(self, guess: Callable[[int], int]) -> None:
        self.guess = guess
        self._observed: dict[int, list[tuple[float, int]]] = {}

    def observe(self, states: Sequence[Any]) -> None:
        """Remember the pairs, and move the states on as the real one does."""
        for state in states:
            told = self._observed.setdefault(id(state), [])
            for taps_SF, next_ids in state.pending:
                told += zip(taps_SF[:, 0].tolist(), next_ids, strict=True)
                state.length += len(next_ids)
            state.pending.clear()

    def catch_up(self, states: Sequence[Any]) -> None:
        """Observe all but the newest pairs."""
        states = [state for state in states if len(state.pending) > 1]
        newest = [state.pending.pop() for state in states]
        self.observe(states)
        for state, pair in zip(states, newest, strict=True):
            state.pending.append(pair)

    def observed_by(self, state: Any) -> list[tuple[float, int]]:
        """The pairs of one sequence; a sequence that lost its blocks is told again from the beginning."""
        return self._observed.get(id(state), [])

    def propose(self, wishes: Sequence[Any]) -> list[Any]:
        """A chain below each root, which stands at the position after the last feature."""
        from eagle3.tree.draft_tree import DraftTree

        return [
            DraftTree(
                token_ids=(wish.root_id, *(self.guess(wish.state.length + step) for step in range(wish.shape.depth))),
                parents=(0, *range(wish.shape.depth)),
                scores=tuple(-float(step) for step in range(wish.shape.depth + 1)),
            )
            for wish in wishes
        ]


def grow_tree(
    shape: Any,
    root_token_id: int,
    root_log_probs_V: Tensor,
    target_ids_V: Tensor,
    expand: Callable[[Any], Tensor],
    chain: Any = None,
) -> Any:
    """Grow one tree by itself; `expand` gives a frontier's log-probabilities [K, V] over draft ids."""
    from eagle3.tree.growth import TreeGrowth

    growth = TreeGrowth(shape, root_token_id, chain)
    log_probs_KV = root_log_probs_V[None]
    while True:
        best = log_probs_KV.topk(min(shape.top_k, log_probs_KV.shape[-1]), dim=-1)
        frontier = growth.add_level(best.values.tolist(), target_ids_V[best.indices].tolist())
        if frontier is None:
            return growth.tree()
        log_probs_KV = expand(frontier)


def noisy_markov(seed: int = 0, *, noise: float = 0.03, loud: float = 2.0, step: int = MARKOV_STEP) -> tuple[Any, Any]:
    """A Markov target whose weights are blurred, so that its context matters, and the draft of the clear one.

    The draft is right often, but far from always: cycles accept nothing, something and everything. With a `step` that
    has a factor in common with 64 texts go round, if the noise lets them.
    """
    from eagle3.models.draft_loader import build_draft

    target = markov_target(step=step)
    draft = build_draft(markov_draft_checkpoint(step=step), target, source="noisy_markov")
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in target.named_parameters():
        if "norm" not in name:
            parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    target.lm_head.weight.mul_(loud)
    draft.lm_head.weight.mul_(40.0)  # sure of itself, so that its trees are deep
    return target, draft


class ChatTokenizer(Any):  # Any: stands for a Tokenizer, which it does not inherit from
    """Sixty-four ids, as many as `markov_target` has: 58 characters, then the marks of a chat template.

    A user turn is USER text TURN_END, an answer ASSISTANT text TURN_END. END_OF_TEXT is another ending id, below
    TURN_END, as in the vocabularies of SmolLM2, Qwen and Llama 3.
    """

    CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789.,:;!?'\"()-+*/=\n<>_#@"
    END_OF_TEXT, USER, ASSISTANT, TURN_END = 58, 59, 60, 61
    has_chat_template = True
    ending_ids = frozenset({END_OF_TEXT, TURN_END})

    def encode_plain(self, text: str) -> list[int]:
        """One id for each character; unknown ones become the last."""
        known = self.CHARACTERS
        return [known.index(letter) if letter in known else len(known) - 1 for letter in text.lower()]

    encode = encode_plain

    def encode_chat(self, messages: Sequence[Any]) -> list[int]:
        """The conversation up to where its answer begins."""
        ids: list[int] = []
        for message in messages:
            role = self.ASSISTANT if message["role"] == "assistant" else self.USER
            ids += [role, *self.encode_plain(message["content"]), self.TURN_END]
        return [*ids, self.ASSISTANT]

    def chat_prefix(self) -> list[int]:
        """Up to where the first user's text begins."""
        return [self.USER]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The characters; marks are left out."""
        return "".join(self.CHARACTERS[i] for i in token_ids if i < len(self.CHARACTERS))


CHATML_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BYTE_VOCAB = 260


def write_byte_tokenizer(directory: Path, *, chat_template: str | None = CHATML_TEMPLATE) -> Path:
    """A Hugging Face tokenizer of 256 bytes and four special tokens; needs a model of `BYTE_VOCAB` ids."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = chat_template
    fast.save_pretrained(directory)
    return directory


def write_byte_model(directory: Path, *, chat_template: str | None = CHATML_TEMPLATE, seed: int = 0) -> Path:
    """A random model and its tokenizer in one directory, as a user would give them to `--target`."""
    config = TINY_CONFIG | {
        "vocab_size": BYTE_VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 8,
        "max_position_embeddings": 1024,
    }  # fmt: skip
    tensors = tiny_tensors(config, seed)
    tensors["lm_head.weight"] *= 4.0  # clear choices: bfloat16 rounding changes none of them
    write_checkpoint(directory, config, tensors)
    return write_byte_tokenizer(directory, chat_template=chat_template)


@torch.inference_mode()
def answered_rows(target: Any, count: int, *, answer: int = 12, seed: int = 0) -> list[Any]:
    """Training rows: random prompts of 3 to 8 tokens, and the target's greedy answers in float32, uncached."""
    from eagle3.models.attention import causal_attend
    from eagle3.train.features import TokenRow

    generator = torch.Generator().manual_seed(seed)
    rows: list[Any] = []
    for index in range(count):
        prompt = torch.randint(target.arch.vocab_size, (3 + index % 6,), generator=generator).tolist()
        token_ids = list(prompt)
        for _ in range(answer):
            positions = torch.arange(len(token_ids))[None]
            hidden = target(torch.tensor([token_ids]), positions, causal_attend).hidden_BSH[0, -1]
            token_ids.append(int(target.logits(hidden).argmax()))
        rows.append(TokenRow(token_ids, [False] * len(prompt) + [True] * answer))
    return rows


def feature_rows(target: Any, rows: Sequence[Any], folder: Path, *, top_k: int = 8) -> list[Any]:
    """The rows with features of the target, through a shard in `folder`, as training reads them."""
    from eagle3.train.features import compute_shard, load_shards, save_shard

    folder.mkdir(parents=True, exist_ok=True)
    save_shard(folder / "00000.safetensors", compute_shard(target, rows, top_k))
    return load_shards(folder)
