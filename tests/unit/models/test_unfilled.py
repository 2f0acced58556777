"""Modules to be filled from a file: nothing is computed for what the file replaces."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from eagle3.models.unfilled import unfilled


def make() -> nn.Module:
    module = nn.Module()
    module.embed = nn.Embedding(7, 4)
    module.linear = nn.Linear(4, 3)
    module.norm = nn.RMSNorm(4)
    module.register_buffer("ids", torch.arange(3) * 2)
    return module


def test_parameters_take_no_memory_and_buffers_have_their_values():
    """Shapes and dtypes are those of the module made plainly, its parameters on the meta device, its buffers equal."""
    plain, module = make(), unfilled(make)
    for (name, parameter), (_, expected) in zip(module.named_parameters(), plain.named_parameters(), strict=True):
        assert parameter.is_meta, name
        assert (parameter.shape, parameter.dtype) == (expected.shape, expected.dtype)
        assert parameter.requires_grad
    assert module.ids.tolist() == [0, 2, 4]


def test_what_is_made_afterwards_is_filled():
    """The mode ends with the call, also after an error: later modules have memory and random values."""

    def broken():
        raise LookupError

    with pytest.raises(LookupError):
        unfilled(broken)
    assert nn.Linear(4, 3).weight.std() > 0
    assert torch.empty(1).device.type == "cpu"


def test_no_random_numbers_are_drawn():
    """The global generator is where it was."""
    before = torch.get_rng_state()
    unfilled(make)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_compiler_is_not_imported():
    """Making and filling a module in a fresh interpreter imports nothing of torch's compiler."""
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import torch\nfrom torch import nn\nfrom eagle3.models.unfilled import unfilled\n"
        "module = unfilled(lambda: nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3), nn.RMSNorm(3)))\n"
        "module.load_state_dict({n: torch.ones(p.shape) for n, p in module.named_parameters()}, assign=True)\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
