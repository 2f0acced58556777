"""Quality of a quantised target: sums over positions, against the same computed by hand, and on models."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch

from builders import tiny_target
from eagle3.bench.quality import Quality, Text, measure_quality, quality_json, quality_table
from eagle3.models.packed import pack_linears

needs_vnni = pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="int8 needs a CPU with VNNI")

TEXTS = [
    Text(token_ids=tuple(torch.randint(64, (length,), generator=torch.Generator().manual_seed(length)).tolist()))
    for length in (5, 30, 100)
]


def measured(target, quantized, texts=TEXTS):
    seen = []
    return measure_quality(target, quantized, texts, on_text=lambda so_far: seen.append(so_far.positions)), seen


def test_known_logits_give_known_numbers():
    """Two positions by hand: perplexity is the inverse geometric mean, KL is of one of two laws, one argmax agrees."""
    result = Quality()
    exact = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]).log()
    other = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]).log()
    result.add(exact, other, torch.tensor([0, 1]))
    assert (result.texts, result.positions, result.agreed) == (1, 2, 1)
    assert result.perplexity == pytest.approx(2.0)
    assert result.quantized_perplexity == pytest.approx(math.sqrt(8))
    assert result.mean_divergence_nats == pytest.approx((0.5 * math.log(2) - 0.25 * math.log(2)) / 2)


def test_a_target_agrees_with_itself():
    """Accepts all: no divergence, every choice equal, the same perplexity; `on_text` sees the sums grow."""
    target = tiny_target()
    result, seen = measured(target, target)
    assert seen == [4, 33, 132]
    assert result.agreement == 1.0
    assert result.mean_divergence_nats == 0.0
    assert result.perplexity == result.quantized_perplexity > 1


def test_another_target_does_not():
    """Accepts none, or chance: unrelated weights choose other tokens and diverge by nats."""
    result, _ = measured(tiny_target(), tiny_target(seed=1))
    assert result.agreement < 0.2
    assert result.mean_divergence_nats > 1


@needs_vnni
def test_int8_is_close():
    """Eight bits change most choices of a small random model not at all, and its law by little, yet measurably."""
    target = tiny_target(hidden=64)
    quantized = pack_linears(copy.deepcopy(target), "int8")
    result, _ = measured(pack_linears(target), quantized)
    assert 0.8 < result.agreement <= 1
    assert 0 < result.mean_divergence_nats < 0.1
    assert result.quantized_perplexity == pytest.approx(result.perplexity, rel=0.1)


def test_context_is_not_counted():
    """Tokens before `begin` are read but not judged: the sums are those of the later positions."""
    target = tiny_target()
    token_ids = TEXTS[2].token_ids
    whole, _ = measured(target, target, [Text(token_ids=token_ids)])
    head, _ = measured(target, target, [Text(token_ids=token_ids[:40])])
    tail, _ = measured(target, target, [Text(token_ids=token_ids, begin=40)])
    assert tail.positions == 60
    assert tail.nats == pytest.approx(whole.nats - head.nats, rel=1e-4)


@pytest.mark.parametrize("begin", [0, 5])
def test_a_text_without_a_token_to_judge_is_a_fault(begin):
    """The first token has nothing before it, and after the last there is none."""
    with pytest.raises(AssertionError, match="counted"):
        measured(tiny_target(), tiny_target(), [Text(token_ids=(1, 2, 3, 4, 5), begin=begin)])


def test_report():
    """Keys of the JSON object; the table names the quantisation and its change of perplexity."""
    result = Quality(texts=2, positions=10, nats=10.0, quantized_nats=11.0, agreed=9, divergence_nats=0.5)
    assert json.loads(json.dumps(quality_json(result))) == {
        "texts": 2, "positions": 10, "perplexity": 2.7183, "quantized_perplexity": 3.0042, "agreement": 0.9,
        "divergence_nats": 0.05,
    }  # fmt: skip
    table = quality_table(result, "int8")
    assert "perplexity, int8          3.004 (+10.52%)" in table
    assert "90.00%" in table
