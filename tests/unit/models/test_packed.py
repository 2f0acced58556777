"""Packed linear layers are the layers they replace."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eagle3.models.packed import PackedLinear, pack_linears

packs = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


@packs
@pytest.mark.parametrize("rows", [1, 2, 17, 64, 300])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_equals_linear(rows, bias):
    """At any number of rows, a packed layer gives the sums of the layer it was made from."""
    torch.manual_seed(rows)
    linear = nn.Linear(96, 160, bias=bias).requires_grad_(False)
    x = torch.randn(2, rows, 96)
    torch.testing.assert_close(PackedLinear(linear)(x), linear(x), rtol=1e-5, atol=1e-5)


@packs
def test_input_is_cast_to_the_weights_dtype():
    """A float32 input of a bfloat16 layer is cast, so that a head may differ in dtype from the body."""
    linear = nn.Linear(32, 16, bias=False).bfloat16().requires_grad_(False)
    assert PackedLinear(linear)(torch.randn(3, 32)).dtype == torch.bfloat16


@packs
def test_packing_reaches_nested_layers_and_keeps_the_output():
    """Every linear layer below a module is packed, and the module computes what it did before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 12), nn.Sequential(nn.ReLU(), nn.Linear(12, 4))).requires_grad_(False)
    x = torch.randn(5, 8)
    before = model(x)
    pack_linears(model)
    assert not [module for module in model.modules() if isinstance(module, nn.Linear)]
    torch.testing.assert_close(model(x), before, rtol=1e-5, atol=1e-5)


def test_without_onednn_nothing_changes(monkeypatch):
    """Where torch has no oneDNN, a model stays as it is instead of failing."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = nn.Sequential(nn.Linear(8, 12))
    pack_linears(model)
    assert isinstance(model[0], nn.Linear)
