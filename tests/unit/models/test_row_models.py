"""Models on row kernels are the models that they were made from, and in int8 no row depends on another."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from builders import TINY_CONFIG, randomise, tiny_draft, tiny_draft_config, tiny_target
from eagle3.cache.paged_cache import PagedCache
from eagle3.cache.sequence_rows import SequenceRows, causal_mask
from eagle3.errors import ConfigError
from eagle3.models.architecture import architecture_from_hf
from eagle3.models.draft import Draft
from eagle3.models.packed import Int8Linear, check_int8, pack_linears
from eagle3.models.row_draft import RowDraft
from eagle3.models.row_layers import can_run
from eagle3.models.row_target import RowTarget
from eagle3.models.target import Target
from eagle3.tree.draft_tree import ancestor_mask

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()),
    reason="needs oneDNN and a CPU with VNNI",
)

FAMILIES = [
    {},
    {"attention_bias": True, "mlp_bias": True},
    {"architectures": ["Qwen2ForCausalLM"]},
    {"architectures": ["Qwen3ForCausalLM"], "head_dim": 8},
    {"num_attention_heads": 6, "num_key_value_heads": 1, "head_dim": 8},
]


def _cache(arch, layers=None) -> PagedCache:
    cache = PagedCache(
        num_slots=160,
        num_layers=layers or arch.num_layers,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    # Whatever no row may see: a slot that is read by mistake shows.
    cache.keys_LGCD.fill_(float("nan"))
    cache.values_LGCD.fill_(float("nan"))
    return cache


def _run(model, cache, ids, begin, *, mask=None, positions=None):
    end = begin + len(ids)
    rows = SequenceRows(range(end), range(begin, end), causal_mask(len(ids)) if mask is None else mask)
    places = list(range(begin, end)) if positions is None else positions
    with torch.inference_mode():
        output = model(torch.tensor([ids]), torch.tensor([places]), cache.attend([rows]))
        return output, model.logits(output.hidden_BSH[0])


@pytest.mark.parametrize("changes", FAMILIES, ids=lambda changes: "-".join(map(str, changes)) or "llama")
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_target_on_rows_equals_the_same_modules_in_torch(changes, quantize):
    """Logits and features agree for every family, for a long prompt and for a step after it."""
    target = randomise(
        Target(architecture_from_hf(TINY_CONFIG | changes | {"max_position_embeddings": 160}), (1, 3, 6))
    )
    pack_linears(target.eval().requires_grad_(False), quantize)
    assert can_run(target)
    on_rows = RowTarget(target)
    caches = [_cache(target.arch) for _ in range(2)]
    for ids, begin in (([(7 * i) % 40 for i in range(100)], 0), ([3, 9, 4], 100), ([5], 103)):
        plain, logits = _run(target, caches[0], ids, begin)
        rows, row_logits = _run(on_rows, caches[1], ids, begin)
        # A number on the border between two whole ones may be rounded the other way: a step of int8 is large.
        tolerance = 1e-4 if quantize is None else 0.03
        torch.testing.assert_close(row_logits, logits, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(rows.taps_BSF, plain.taps_BSF, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("changes", [{}, {"norm_before_residual": True}, {"fc_norm": True}, {"feedback_normed": True}])
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_draft_on_rows_equals_the_same_modules_in_torch(changes, quantize):
    """Hidden states and logits agree for the variants of published drafts."""
    draft = Draft(tiny_draft_config(**changes)).eval()
    draft.share_embedding(nn.Embedding(40, 16))
    randomise(draft)
    pack_linears(draft.requires_grad_(False), quantize)
    on_rows = RowDraft(draft)
    generator = torch.Generator().manual_seed(1)
    taps = torch.randn(1, 9, 48, generator=generator)
    ids = torch.arange(9)[None]
    tolerance = 1e-4 if quantize is None else 0.03
    with torch.inference_mode():
        hidden, row_hidden = draft.fuse(taps), on_rows.fuse(taps)
        torch.testing.assert_close(row_hidden, hidden, rtol=tolerance, atol=tolerance)
        outputs = []
        for model in (draft, on_rows):
            cache = PagedCache(
                num_slots=32, num_layers=1, num_kv_heads=2, head_dim=4, dtype=torch.float32, device=torch.device("cpu")
            )
            attend = cache.attend([SequenceRows(range(9), range(9), causal_mask(9))])
            output = model(ids, hidden, torch.arange(9)[None], attend)
            outputs.append((output.feedback_BSH, output.normed_BSH, model.logits(output.normed_BSH[0])))
    for got, wanted in zip(outputs[1], outputs[0], strict=True):
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


@functools.cache
def _int8_target() -> RowTarget:
    return RowTarget(pack_linears(tiny_target(hidden=48), "int8"))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_an_int8_node_has_the_bits_of_its_path_decoded_one_by_one(data):
    """A node of any tree, verified beside all others, gets exactly the logits of plain decoding along its path."""
    target = _int8_target()
    prompt = data.draw(st.lists(st.integers(0, 63), min_size=1, max_size=20))
    nodes = data.draw(st.integers(1, 12))
    parents = [0] + [data.draw(st.integers(0, node - 1)) for node in range(1, nodes)]
    tokens = data.draw(st.lists(st.integers(0, 63), min_size=nodes, max_size=nodes))
    depths = [0]
    for node in range(1, nodes):
        depths.append(depths[parents[node]] + 1)
    begin = len(prompt)

    cache = _cache(target._target.arch)
    _run(target, cache, prompt, 0)
    _, logits = _run(
        target, cache, tokens, begin, mask=ancestor_mask(parents), positions=[begin + depth for depth in depths]
    )
    node = data.draw(st.integers(0, nodes - 1))
    path = [node]
    while path[-1]:
        path.append(parents[path[-1]])
    plain = _cache(target._target.arch)
    _run(target, plain, prompt, 0)
    for depth, step in enumerate(reversed(path)):
        _, alone = _run(target, plain, [tokens[step]], begin + depth)
    assert torch.equal(alone[0], logits[node])


def test_models_that_are_not_packed_in_float32_or_int8_stay_on_torch():
    """Unpacked layers and other dtypes are left to the general modules."""
    assert not can_run(tiny_target())
    assert not can_run(pack_linears(tiny_target().bfloat16()))
    assert can_run(pack_linears(tiny_target()))
    target = tiny_target()
    assert can_run(pack_linears(tiny_draft(target), "int8"))


def test_int8_is_refused_where_it_would_be_slow_or_wrong(monkeypatch):
    """Another device, and a CPU without VNNI, get one clear error."""
    with pytest.raises(ConfigError, match="CPUs only"):
        check_int8(torch.device("cuda"))
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(ConfigError, match="VNNI"):
        pack_linears(nn.Sequential(nn.Linear(4, 4)), "int8")


@pytest.mark.parametrize("bias", [False, True])
def test_an_int8_layer_is_close_to_its_float_layer_and_exact_by_row(bias):
    """Within the error of eight bits of the float layer; a row alone has the bits that it has among others."""
    torch.manual_seed(0)
    linear = nn.Linear(96, 64, bias=bias).requires_grad_(False)
    layer = Int8Linear(linear)
    x = torch.randn(17, 96)
    out = layer(x)
    assert (out - linear(x)).norm() / linear(x).norm() < 0.02
    for row in range(17):
        assert torch.equal(layer(x[row : row + 1])[0], out[row])
    assert torch.isnan(layer(torch.full((1, 96), float("nan")))).all()
    assert torch.equal(layer(torch.zeros(1, 96))[0], torch.zeros(64) if linear.bias is None else linear.bias)


def test_a_draft_with_an_embedding_of_its_own_keeps_it():
    """A config that brings its own embedding runs on rows too."""
    config = replace(tiny_draft_config(), own_embedding=True)
    draft = randomise(Draft(config)).eval().requires_grad_(False)
    on_rows = RowDraft(pack_linears(draft))
    assert on_rows.config.own_embedding
